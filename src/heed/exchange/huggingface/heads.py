"""Heads of checkpoints: what classes of `transformers` have them, what they mean here, what is exported.

A task whose runs are checkpoints names its entry of `HEADS` in its specification (`TaskSpec.checkpoints`); a run and a
task are read by their public names only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from heed.data.examples import is_entity_tag
from heed.data.pictures.sizing import PictureForm
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.exchange.huggingface.family import ONE_LABEL, SEVERAL, HeadNames
from heed.exchange.huggingface.files import Count, Entry, Fields, Id, optional_json
from heed.exchange.huggingface.tokenizers import TOKENIZER_CONFIG
from heed.exchange.huggingface.vit import PREPROCESSOR, preprocessor_of, read_form
from heed.models.base import ModelConfig
from heed.registry import body_class


@dataclass(frozen=True)
class Exportable:
    """The content of a run that a checkpoint is to have."""

    body: ModelConfig  # the configuration of its body
    tokenizers: Mapping[str, TextTokenizer]  # by role, "tokens" or "source" and "target"
    heads: HeadNames  # the heads on the body
    tied: bool = True  # True if the output layer is the embedding table
    label_bias: bool | None = None  # True if the layer over the labels of a text has a bias; None without this layer
    settings: Mapping[str, Any] = field(default_factory=dict)  # further fields of config.json, such as `id2label`
    notes: tuple[str, ...] = ()  # notes for a reader of the checkpoint
    omitted: frozenset[str] = frozenset()  # parts of the model that a checkpoint cannot contain; a note says so
    files: Mapping[str, Any] = field(default_factory=dict)  # further JSON files, by name

    def exported_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of the run's model that a checkpoint contains, by name."""
        return {name: tensor for name, tensor in tensors.items() if name.partition(".")[0] not in self.omitted}


class Heads:
    """What a kind of task reads from checkpoints, and writes into them."""

    classes: tuple[str, ...]  # endings of the names of the classes that have these heads
    # Names of the body and the heads in the task's model, as {"body": "body", "labels": "output"}; "" is the model.
    places: ClassVar[Mapping[str, str]]
    labelled = False  # True if the task is made from labels

    def named(self, checkpoint: Checkpoint) -> HeadNames:
        """The heads of the checkpoint's model, by its architecture and its tensors."""
        return frozenset(self.places.keys() - {"body"})

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Sections of the configuration: fields of the head in `model`, fields of `data` that are not the default.

        Args:
            checkpoint: The checkpoint.
            heads: As `named` gave them.
            fields: Those of the body.

        Raises:
            ConfigError: The checkpoint has a head that the task does not.
        """
        raise NotImplementedError

    def learned(self, checkpoint: Checkpoint) -> Sequence[Any]:
        """What the task is made from besides its configuration: the learned fields of its input, labels."""
        learned = {"tokenizers": checkpoint.tokenizers}
        return (learned, checkpoint.labels) if self.labelled else (learned,)

    def exportable(self, run: Any) -> Exportable:
        """The content of a run that a checkpoint is to have.

        Raises:
            ConfigError: No checkpoint can express the run; the message names the field.
        """
        body, head = run.task.model_and_head()
        return Exportable(body, run.task.tokenizers(), **self.exported(run, body, head))

    def exported(self, run: Any, body: Any, head: Any) -> dict[str, Any]:
        """The fields of `Exportable` that are the head's."""
        raise NotImplementedError

    def remarks(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Remarks for the user on how a checkpoint was read, in addition to those on its tensors."""
        return ()

    def placed(self, table: Sequence[Entry]) -> list[Entry]:
        """A family's table with the tensor names of the task's model."""
        return [replace(line, ours=tuple(map(self._place, line.ours))) for line in table]

    def _place(self, name: str) -> str:
        part, _, name_within = name.partition(".")
        return f"{self.places[part]}.{name_within}" if self.places[part] else name_within


def _labelled(labels: Sequence[str]) -> dict[str, Any]:
    """The fields of config.json that name labels."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def _longest_text(checkpoint: Checkpoint, fields: Mapping[str, Any]) -> int:
    """The largest number of tokens of a text that the checkpoint reads, without its start and end token."""
    framed = getattr(body_class(checkpoint.family.model, ("encoder",)), "framed", False)
    return max(1, int(fields.get("max_length", 1_000)) - 2 * framed)


def _check_labels(checkpoint: Checkpoint) -> None:
    """Refuse a classifier of fewer than two labels: it predicts a number."""
    if len(checkpoint.labels) < 2:
        raise checkpoint.family.wrong("id2label", "two labels or more (a checkpoint that predicts a number has none)")


def _only(name: str, value: Any, supported: Any) -> None:
    """Refuse a value of a field of a run that its checkpoint could not have."""
    if value != supported:
        raise ConfigError(
            f"{name} is {value}: Hugging Face checkpoints of this task support only {supported}; train with "
            f"{name}={supported}"
        )


class Label(Heads):
    """A label of a text: a linear layer over the body's `last`, the state of the start token or of the last token."""

    classes = ("ForSequenceClassification",)
    labelled = True
    places: ClassVar = {"body": "body", "labels": "output"}

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        _check_labels(checkpoint)
        several, bias = checkpoint.family.problem_type == SEVERAL, checkpoint.family.label_bias
        head = "sigmoid" if several else "softmax"
        model = {"pooling": "last", "head": head, "ngrams": 0, "output_bias": bias}
        return {"model": model, "data": {"several_labels": several, "max_length": _longest_text(checkpoint, fields)}}

    def exported(self, run: Any, body: Any, head: Any) -> dict[str, Any]:
        several = run.config.data.several_labels
        first = getattr(body, "pooler", None) == "none" and head.pooling in ("first", "cls")
        _only("data.target", run.config.data.target, "classes")
        _only("model.ngrams", head.ngrams, 0)
        _only("model.pooling", "last" if first else head.pooling, "last")
        _only("model.head", head.head, "sigmoid" if several else "softmax")
        settings = {**_labelled(run.head.labels), "problem_type": SEVERAL if several else ONE_LABEL}
        return {"heads": frozenset({"labels"}), "label_bias": head.output_bias, "settings": settings}


class Tags(Heads):
    """Tags: a linear layer over the states of tokens; a word is tagged by its first token."""

    classes = ("ForTokenClassification",)
    labelled = True
    places: ClassVar = {"body": "body", "tags": "head.output"}

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        scheme = {} if any(map(is_entity_tag, checkpoint.labels)) else {"scheme": "plain"}
        data = {"max_length": _longest_text(checkpoint, fields), **scheme}
        return {"model": {"head": "softmax", "word": "first"}, "data": data}

    def exported(self, run: Any, body: Any, head: Any) -> dict[str, Any]:
        for name, value in (("head", "softmax"), ("characters", "none"), ("delay", 0)):
            _only(f"model.{name}", getattr(head, name), value)
        mean = "the checkpoint tags tokens; this run tags a word by the mean of its tokens' states"
        notes = (mean,) if head.word == "mean" else ()
        return {"heads": frozenset({"tags"}), "settings": _labelled(run.head.labels), "notes": notes}


class Picture(Heads):
    """A label of a picture: a linear layer over the last states of the class token and a DeiT's distillation token.

    A checkpoint of the body alone becomes a run without classes, which supports `look` and `--from`, but cannot
    predict.
    """

    classes = ("ForImageClassification", "ClassificationWithTeacher", "ViTModel", "DeiTModel")
    places: ClassVar = {"body": "body", "labels": "output"}

    def named(self, checkpoint: Checkpoint) -> HeadNames:
        heads = checkpoint.family.heads_of(checkpoint.architecture)
        return super().named(checkpoint) if heads is None else heads

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        if heads:
            _check_labels(checkpoint)
            if checkpoint.family.problem_type != ONE_LABEL:
                raise checkpoint.family.wrong("problem_type", f"{ONE_LABEL}: heed gives each picture one label")
        sizing = read_form(checkpoint.folder, checkpoint.family).sizing
        size = {"size": [sizing.height, sizing.width], "crop": sizing.crop, "channels": sizing.channels}
        return {"model": {"head": "softmax"}, "data": size}

    def learned(self, checkpoint: Checkpoint) -> Sequence[Any]:
        labels = checkpoint.labels if self.named(checkpoint) else []
        return {"form": read_form(checkpoint.folder, checkpoint.family)}, labels

    def remarks(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        learned, labels = self.learned(checkpoint)
        form: PictureForm = learned["form"]
        sizing, normalisation = form.sizing, form.normalisation
        mean, deviation = (
            " ".join(f"{x:.4g}" for x in values) for values in (normalisation.mean, normalisation.deviation)
        )
        is_there = (checkpoint.folder / PREPROCESSOR).exists()
        pictures = (
            f"pictures: {sizing.width} x {sizing.height}, {sizing.channels} channel{'s' * (sizing.channels != 1)}, "
            f"crop {sizing.crop}, {sizing.resample}, mean {mean}, deviation {deviation}"
            f"{'' if is_there else f', since {PREPROCESSOR} is missing: the default of ViT'}"
        )
        if not labels:
            return pictures, "no classes: train a classifier from it with heed train images FOLDER --from RUN"
        return pictures, f"{len(labels):,} classes: {', '.join(labels[:5])}{', ...' if len(labels) > 5 else ''}"

    def exported(self, run: Any, body: Any, head: Any) -> dict[str, Any]:
        _only("data.target", run.config.data.target, "classes")
        _only("model.head", head.head, "softmax")
        fields, notes = preprocessor_of(run.input.form)
        common = {"notes": notes, "files": {PREPROCESSOR: fields}}
        if not run.head.labels:
            return {**common, "heads": frozenset(), "omitted": frozenset({"output"})}
        settings = {**_labelled(run.head.labels), "problem_type": ONE_LABEL}
        return {**common, "heads": frozenset({"labels"}), "label_bias": True, "settings": settings}


_MASKED = {"words": "masked_words", "order": "next_sentence"}


class Masked(Heads):
    """Masked words, over all states, and sentence order, over the body's `last`."""

    classes = ("ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction", "BertModel", "RobertaModel")
    places: ClassVar = {"body": "body", "words": "words", "order": "order"}

    def named(self, checkpoint: Checkpoint) -> HeadNames:
        further = {head for name, head in checkpoint.family.known_by.items() if name in checkpoint.files}
        return (checkpoint.family.heads_of(checkpoint.architecture) or frozenset()) | further

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        model = {"pooling": "last", "first_embeddings": "drawn", "tied_output": checkpoint.tied}
        model |= {field: head in heads for head, field in _MASKED.items()}
        return {"model": model, "data": {"max_length": max(7, min(512, fields["max_length"]))}}

    def exported(self, run: Any, body: Any, head: Any) -> dict[str, Any]:
        heads = frozenset(name for name, field in _MASKED.items() if getattr(head, field))
        if head.pooling == "last" or "order" not in heads:
            return {"heads": heads, "tied": head.tied_output}
        omitted = frozenset({"order"})
        note = (
            f"the head for pairs is left out: it reads the {head.pooling} of the states (model.pooling), but in "
            "checkpoints this head reads [CLS]"
        )
        return {"heads": heads - omitted, "tied": head.tied_output, "notes": (note,), "omitted": omitted}


class NextToken(Heads):
    """The next token: a layer to the vocabulary, or the embeddings.

    As in heed, a checkpoint's documents end with its end token, which also precedes the first one. A prompt begins with
    it only if the checkpoint's tokenizer adds it.
    """

    classes = ("GPT2LMHeadModel", "GPT2Model")
    places: ClassVar = {"body": "", "output": "output"}

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        tokenizer, files = checkpoint.vocabularies["tokens"]
        ends = {files["roles"].get(role) for role in ("sep_token", "eos_token")}
        begins = (optional_json(checkpoint.folder / TOKENIZER_CONFIG) or {}).get("add_bos_token") is True
        end_token = tokenizer.token(tokenizer.special.end) in ends
        return {
            "model": {"tied_output": checkpoint.tied},
            "data": {"context": fields["max_length"], "end_token": end_token},
            "generation": {"first_token": begins},
        }

    def exported(self, run: Any, body: Any, head: Any) -> dict[str, Any]:
        return {"heads": frozenset({"output"}), "tied": getattr(body, "tied_output", True)}


GENERATION = "generation_config.json"
_STOPPING = {False: "heuristic", True: "full", "never": "never"}
"""transformers' `early_stopping` -> ours."""
_LONGEST = 200
"""Maximum number of tokens of an output, unless the run sets it."""
_POSITIONS = 1024
"""Minimum number of sinusoidal positions in the checkpoint; ours are unlimited."""


class Generation(Fields):
    """The fields of `generation_config.json`, or of an older `config.json`, with the defaults of `generate`."""

    num_beams: Count = 1
    no_repeat_ngram_size: Id = 0
    forced_bos_token_id: Id | None = None
    length_penalty: float = Field(1.0, ge=0, le=100)
    max_new_tokens: Id = 0
    max_length: Count = 21
    min_length: Id = 0
    forced_eos_token_id: Any = None
    bad_words_ids: list[Any] = Field([])
    renormalize_logits: bool = False
    early_stopping: bool | Literal["never"] = False


class Written(Heads):
    """A text for a text: a model that is its body, with an output layer and settings of its searches."""

    classes: tuple[str, ...] = ("MarianMTModel", "MarianModel", "M2M100ForConditionalGeneration", "M2M100Model")
    places: ClassVar = {"body": ""}

    def named(self, checkpoint: Checkpoint) -> HeadNames:
        return frozenset({"output", "bias"} if "final_logits_bias" in checkpoint.files else {"output"})

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        source, target = checkpoint.tokenizers["source"], checkpoint.tokenizers["target"]
        path = checkpoint.folder / GENERATION
        settings = Generation.read(path, optional_json(path) or checkpoint.values)
        # `max_length` includes the first token, and `forced_eos_token_id` replaces the last one by the end token.
        longest = settings.max_new_tokens or settings.max_length - 1
        longest -= settings.forced_eos_token_id is not None
        generation = {
            "beam_size": settings.num_beams,
            "length_penalty": settings.length_penalty,
            "max_length": max(1, longest),
            "min_length": max(0, settings.min_length - 1),
            "no_repeat_ngram": settings.no_repeat_ngram_size,
            "replace_unknown": False,
            "unknown": [target.special.unknown] not in settings.bad_words_ids,
            "renormalize": settings.renormalize_logits,
            "early_stopping": _STOPPING[settings.early_stopping],
        }
        data: dict[str, Any] = {}
        if fields.get("target_frame") == "language":
            options = optional_json(checkpoint.folder / TOKENIZER_CONFIG) or {}
            forced = settings.forced_bos_token_id
            language = options.get("tgt_lang") if forced is None else target.token(forced)
            data = {"source_language": options.get("src_lang"), "target_language": language}
        shared = source.tokens == target.tokens
        return {"tokenizer": {"shared": shared}, "generation": generation, "data": data}

    def exported(self, run: Any, body: Any, head: Any) -> dict[str, Any]:
        search, special = run.config.generation, run.input.target_tokenizer.special
        longest = (search.max_length or _LONGEST) + 1  # in transformers, the first token counts
        config, tokenizer_files = run.config.data, dict[str, Any]()
        has_table = getattr(body, "positions", None) == "learned"
        has_languages = getattr(body, "target_frame", None) == "language"
        prefix = [] if has_languages and not config.target_language else run.input.target_prefix
        if has_languages:
            tokenizer_files[TOKENIZER_CONFIG] = {"src_lang": config.source_language, "tgt_lang": config.target_language}
        generation = {
            **({"forced_bos_token_id": prefix[0]} if prefix else {}),
            "no_repeat_ngram_size": search.no_repeat_ngram,
            "decoder_start_token_id": special.start,
            "pad_token_id": special.padding,
            "eos_token_id": special.end,
            "bad_words_ids": [[i] for i in sorted({*run.head.never_written(run.model)})],
            "num_beams": search.beam_size,
            "length_penalty": search.length_penalty,
            "early_stopping": {ours: theirs for theirs, ours in _STOPPING.items()}[search.early_stopping],
            "renormalize_logits": search.renormalize,
            "max_length": longest,
            "min_length": search.min_length + 1 if search.min_length else 0,
        }
        unknown = "replace_unknown has no counterpart in generate, which leaves unknown words unknown"
        return {
            "heads": frozenset({"output", "bias"}),
            "tied": bool(getattr(body, "tied_output", True)),
            "settings": {} if has_table else {"max_position_embeddings": max(_POSITIONS, longest)},
            "notes": (unknown,) if run.head.replaces_unknown else (),
            "files": {GENERATION: generation, **tokenizer_files},
        }


class Summarised(Written):
    """A summary of a document."""

    classes = ("BartForConditionalGeneration", "BartModel")

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        positions = fields["max_length"]
        data = {"max_source": max(1, positions - 2), "max_length": max(2, positions)}
        return {**super().sections(checkpoint, heads, fields), "data": data}


HEADS: Mapping[str, Heads] = {
    "label": Label(),
    "tags": Tags(),
    "picture": Picture(),
    "masked": Masked(),
    "next_token": NextToken(),
    "written": Written(),
    "summarised": Summarised(),
}
"""By the name that a task's specification has for them."""


def heads_of(architecture: str) -> str | None:
    """The entry of `HEADS` for a class: the one with the longest ending of its name, or None."""
    endings = ((end, name) for name, heads in HEADS.items() for end in heads.classes if architecture.endswith(end))
    return max(endings, key=lambda ending: len(ending[0]), default=("", None))[1]
