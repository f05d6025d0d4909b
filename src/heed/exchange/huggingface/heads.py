"""Heads of checkpoints: what classes of `transformers` have them, what they mean here, what is exported.

A task whose runs are checkpoints names its entry of `HEADS` in its specification (`TaskSpec.checkpoints`); a run and a
task are read by their public names only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from heed.data.examples import is_entity_tag
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.checkpoint import Checkpoint
from heed.exchange.huggingface.family import HeadNames
from heed.exchange.huggingface.files import Entry, Settings, optional_json
from heed.exchange.huggingface.vit import PREPROCESSOR, preprocessor_of, read_form
from heed.models.base import ModelConfig
from heed.registry import body_class


@dataclass(frozen=True)
class Exportable:
    """The content of a run that a checkpoint is to have."""

    body: ModelConfig  # the configuration of its body
    heads: HeadNames  # the heads on the body
    tokenizers: Mapping[str, TextTokenizer]  # by role, "tokens" or "source" and "target"
    tied: bool = True  # True if the output layer is the embedding table
    label_bias: bool | None = None  # True if the layer over the labels of a text has a bias; None without this layer
    settings: Mapping[str, Any] = field(default_factory=dict)  # further fields of config.json, such as `id2label`
    notes: tuple[str, ...] = ()  # notes for a reader of the checkpoint
    left: frozenset[str] = frozenset()  # parts of the model that a checkpoint cannot contain; a note says so
    files: Mapping[str, Any] = field(default_factory=dict)  # further JSON files, by name

    def held(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of the run's model that a checkpoint contains, by name."""
        return {name: tensor for name, tensor in tensors.items() if name.partition(".")[0] not in self.left}


class Heads:
    """What a kind of task reads from checkpoints, and writes into them."""

    classes: tuple[str, ...]  # endings of the names of the classes that have these heads
    # Names of the body and the heads in the task's model, as {"body": "body", "labels": "output"}; "" is the model.
    places: ClassVar[Mapping[str, str]]

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
        return ({"tokenizers": checkpoint.tokenizers},)

    def exportable(self, run: Any) -> Exportable:
        """The content of a run that a checkpoint is to have.

        Raises:
            ConfigError: No checkpoint can express the run; the message names the field.
        """
        raise NotImplementedError

    def remarks(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Remarks for the user on how a checkpoint was read, in addition to those on its tensors."""
        return ()

    def placed(self, table: Sequence[Entry]) -> list[Entry]:
        """A family's table with the tensor names of the task's model."""
        return [replace(line, ours=tuple(map(self._place, line.ours))) for line in table]

    def _place(self, name: str) -> str:
        part, _, rest = name.partition(".")
        return f"{self.places[part]}.{rest}" if self.places[part] else rest


def _labelled(labels: Sequence[str]) -> dict[str, Any]:
    """The fields of config.json that name labels."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def _longest_text(checkpoint: Checkpoint, fields: Mapping[str, Any]) -> int:
    """The most tokens of a text that the checkpoint reads, without its start and end token."""
    framed = getattr(body_class(checkpoint.family.model, ("encoder",)), "framed", False)
    return max(1, int(fields.get("max_length", 1_000)) - 2 * framed)


_ONE_LABEL, _SEVERAL = "single_label_classification", "multi_label_classification"
_NUMBER = "data.target is number: Hugging Face classifiers predict labels"
_TWO_CLASSES = (
    "model.head is sigmoid with one output for two classes: Hugging Face checkpoints have one per class; use softmax"
)


class Label(Heads):
    """A label of a text: a linear layer over the body's `last`, the state of the start token or of the last token."""

    classes = ("ForSequenceClassification",)
    places: ClassVar = {"body": "body", "labels": "output"}

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        settings = checkpoint.settings
        kind = settings.text("problem_type", _ONE_LABEL)
        if kind not in (_ONE_LABEL, _SEVERAL) or len(checkpoint.labels) < 2:
            raise ConfigError(
                f"{settings.path}: problem_type is {kind} with {len(checkpoint.labels)} in id2label: the checkpoint "
                "predicts a number, but heed's classification predicts labels"
            )
        several = kind == _SEVERAL
        head = "sigmoid" if several else "softmax"
        model = {"pooling": "last", "head": head, "ngrams": 0, "output_bias": checkpoint.family.label_bias}
        return {"model": model, "data": {"several_labels": several, "max_length": _longest_text(checkpoint, fields)}}

    def learned(self, checkpoint: Checkpoint) -> Sequence[Any]:
        return {"tokenizers": checkpoint.tokenizers}, checkpoint.labels

    def exportable(self, run: Any) -> Exportable:
        body, head = run.task.model_and_head()
        if run.config.data.target == "number":
            raise ConfigError(_NUMBER)
        several = run.config.data.several_labels
        if head.ngrams:
            raise ConfigError(
                f"model.ngrams is {head.ngrams}: Hugging Face checkpoints cannot store n-grams; train with "
                "model.ngrams=0"
            )
        first = getattr(body, "pooler", None) == "none" and head.pooling in ("first", "cls")
        if head.pooling != "last" and not first:
            raise ConfigError(
                f"model.pooling is {head.pooling}: Hugging Face classifiers support only model.pooling=last"
            )
        if head.head == "sigmoid" and not several:
            raise ConfigError(_TWO_CLASSES)
        settings = {**_labelled(run.head.labels), "problem_type": _SEVERAL if several else _ONE_LABEL}
        tokenizers = run.task.tokenizers()
        return Exportable(body, frozenset({"labels"}), tokenizers, label_bias=head.output_bias, settings=settings)


class Tags(Heads):
    """Tags: a linear layer over the states of tokens; a word is tagged by its first token."""

    classes = ("ForTokenClassification",)
    places: ClassVar = {"body": "body", "tags": "head.output"}

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        scheme = {} if any(map(is_entity_tag, checkpoint.labels)) else {"scheme": "plain"}
        data = {"max_length": _longest_text(checkpoint, fields), **scheme}
        return {"model": {"head": "softmax", "word": "first"}, "data": data}

    def learned(self, checkpoint: Checkpoint) -> Sequence[Any]:
        return {"tokenizers": checkpoint.tokenizers}, checkpoint.labels

    def exportable(self, run: Any) -> Exportable:
        body, head = run.task.model_and_head()
        for name, value in (("head", "softmax"), ("characters", "none"), ("delay", 0)):
            if (chosen := getattr(head, name)) != value:
                raise ConfigError(f"model.{name} is {chosen}: Hugging Face taggers support only {value}")
        mean = "the checkpoint tags tokens; this run tags a word by the mean of its tokens' states"
        notes = (mean,) if head.word == "mean" else ()
        settings = _labelled(run.head.labels)
        return Exportable(body, frozenset({"tags"}), run.task.tokenizers(), settings=settings, notes=notes)


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
        settings = checkpoint.settings
        kind = settings.text("problem_type", _ONE_LABEL)
        if heads and kind != _ONE_LABEL:
            raise ConfigError(
                f"{settings.path}: problem_type is {kind}, but heed's images task gives each picture one label; "
                f"problem_type must be {_ONE_LABEL} or missing"
            )
        if heads and len(checkpoint.labels) < 2:
            raise ConfigError(
                f"{settings.path}: id2label has {len(checkpoint.labels)} class: the checkpoint predicts a number, "
                "but heed's images task predicts labels"
            )
        sizing = read_form(checkpoint.folder, settings).sizing
        size = {"size": [sizing.height, sizing.width], "crop": sizing.crop, "channels": sizing.channels}
        return {"model": {"head": "softmax"}, "data": size}

    def learned(self, checkpoint: Checkpoint) -> Sequence[Any]:
        labels = checkpoint.labels if self.named(checkpoint) else []
        return {"form": read_form(checkpoint.folder, checkpoint.settings)}, labels

    def remarks(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        form = read_form(checkpoint.folder, checkpoint.settings)
        sizing, numbers = form.sizing, (form.normalisation.mean, form.normalisation.deviation)
        is_there = (checkpoint.folder / PREPROCESSOR).exists()
        default = "" if is_there else f", since {PREPROCESSOR} is missing: the default of ViT"
        mean, deviation = (" ".join(f"{number:.4g}" for number in channels) for channels in numbers)
        pictures = (
            f"pictures: {sizing.width} x {sizing.height}, {sizing.channels} channel{'s' * (sizing.channels != 1)}, "
            f"crop {sizing.crop}, {sizing.resample}, mean {mean}, deviation {deviation}{default}"
        )
        if not self.named(checkpoint):
            return pictures, "no classes: train a classifier from it with heed train images FOLDER --from RUN"
        labels = checkpoint.labels
        return pictures, f"{len(labels):,} classes: {', '.join(labels[:5])}{', ...' if len(labels) > 5 else ''}"

    def exportable(self, run: Any) -> Exportable:
        body, head = run.task.model_and_head()
        if run.config.data.target == "number":
            raise ConfigError(_NUMBER)
        if head.head == "sigmoid":
            raise ConfigError(_TWO_CLASSES)
        fields, notes = preprocessor_of(run.input.form)
        bare = Exportable(body, frozenset(), {}, notes=notes, files={PREPROCESSOR: fields}, left=frozenset({"output"}))
        if not run.head.labels:
            return bare
        settings = {**_labelled(run.head.labels), "problem_type": _ONE_LABEL}
        return replace(bare, heads=frozenset({"labels"}), label_bias=True, settings=settings, left=frozenset())


_MASKED = {"words": "masked_words", "order": "next_sentence"}


class Masked(Heads):
    """Masked words, over all states, and sentence order, over the body's `last`."""

    classes = ("ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction", "BertModel", "RobertaModel")
    places: ClassVar = {"body": "body", "words": "words", "order": "order"}

    def named(self, checkpoint: Checkpoint) -> HeadNames:
        family = checkpoint.family
        named = (family.heads_of(name) for name in (family.guess(checkpoint.files), checkpoint.architecture))
        return frozenset().union(*(heads or () for heads in named))

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        model = {"pooling": "last", "first_embeddings": "drawn", "tied_output": checkpoint.tied}
        model |= {field: head in heads for head, field in _MASKED.items()}
        return {"model": model, "data": {"max_length": max(7, min(512, fields["max_length"]))}}

    def exportable(self, run: Any) -> Exportable:
        body, head = run.task.model_and_head()
        heads = frozenset(name for name, field in _MASKED.items() if getattr(head, field))
        exportable = Exportable(body, heads, run.task.tokenizers(), tied=head.tied_output)
        if head.pooling == "last" or "order" not in heads:
            return exportable
        left = frozenset({"order"})
        note = (
            f"the head for pairs is left out: it reads the {head.pooling} of the states (model.pooling), but in "
            "checkpoints this head reads [CLS]"
        )
        return replace(exportable, heads=heads - left, notes=(note,), left=left)


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
        begins = (optional_json(checkpoint.folder / "tokenizer_config.json") or {}).get("add_bos_token") is True
        end_token = tokenizer.token(tokenizer.special.end) in ends
        return {
            "model": {"tied_output": checkpoint.tied},
            "data": {"context": fields["max_length"], "end_token": end_token},
            "generation": {"first_token": begins},
        }

    def exportable(self, run: Any) -> Exportable:
        body, _ = run.task.model_and_head()
        tied = getattr(body, "tied_output", True)
        return Exportable(body, frozenset({"output"}), run.task.tokenizers(), tied=tied)


GENERATION = "generation_config.json"
_STOPPING = {False: "heuristic", True: "full", "never": "never"}
"""transformers' `early_stopping` -> ours."""
_LONGEST = 200
"""Most tokens of an output, unless the run sets it."""
_POSITIONS = 1024
"""Least number of sinusoidal positions in the checkpoint; ours are unlimited."""
_LENGTH = 21
"""Most tokens that `generate` writes where no file says it: 20 after the first one."""


class Written(Heads):
    """A text for a text: a model that is its body, with an output layer and settings of its searches."""

    classes = ("MarianMTModel", "MarianModel")
    places: ClassVar = {"body": ""}

    def named(self, checkpoint: Checkpoint) -> HeadNames:
        return frozenset({"output", "bias"} if "final_logits_bias" in checkpoint.files else {"output"})

    def sections(self, checkpoint: Checkpoint, heads: HeadNames, fields: Mapping[str, Any]) -> dict[str, Any]:
        source, target = checkpoint.tokenizers["source"], checkpoint.tokenizers["target"]
        path = checkpoint.folder / GENERATION
        settings = Settings.read(path) if os.path.lexists(path) else checkpoint.settings
        # `max_length` includes the first token, and `forced_eos_token_id` replaces the last one by the end token.
        longest = settings.count("max_new_tokens", 0, least=0) or settings.count("max_length", _LENGTH) - 1
        longest -= settings.get("forced_eos_token_id", None) is not None
        stopping = settings.get("early_stopping", False)
        if stopping not in (True, False, "never"):
            raise settings.wrong("early_stopping", 'true, false or "never"')
        generation = {
            "beam_size": settings.count("num_beams", 1),
            "length_penalty": settings.number("length_penalty", 1.0, most=100),
            "max_length": max(1, longest),
            "min_length": max(0, settings.count("min_length", 0, least=0) - 1),
            "replace_unknown": False,
            "unknown": [target.special.unknown] not in settings.get("bad_words_ids", []),
            "renormalize": settings.flag("renormalize_logits", False),
            "early_stopping": _STOPPING[stopping],
        }
        return {"tokenizer": {"shared": source.tokens == target.tokens}, "generation": generation}

    def exportable(self, run: Any) -> Exportable:
        body, _ = run.task.model_and_head()
        search, special = run.config.generation, run.input.target_tokenizer.special
        longest = (search.max_length or _LONGEST) + 1  # in transformers, the first token counts
        generation = {
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
        return Exportable(
            body,
            frozenset({"output", "bias"}),
            run.task.tokenizers(),
            tied=bool(getattr(body, "tied_output", True)),
            settings={"max_position_embeddings": max(_POSITIONS, longest)},
            notes=(unknown,) if run.head.replaces_unknown else (),
            files={GENERATION: generation},
        )


HEADS: Mapping[str, Heads] = {
    "label": Label(),
    "tags": Tags(),
    "picture": Picture(),
    "masked": Masked(),
    "next_token": NextToken(),
    "written": Written(),
}
"""By the name that a task's specification has for them."""


def heads_of(architecture: str) -> str | None:
    """The entry of `HEADS` for a class: the one with the longest ending of its name, or None."""
    endings = ((end, name) for name, heads in HEADS.items() for end in heads.classes if architecture.endswith(end))
    return max(endings, key=lambda ending: len(ending[0]), default=("", None))[1]
