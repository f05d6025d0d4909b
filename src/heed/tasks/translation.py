"""Translation: a text for a text. Its attention may be guided by links, and gives links between words.

A look shows the attention while an output is written and read, attributions, and the logit lens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

import torch
from markupsafe import Markup
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from heed.attention import Rows
from heed.config.data import OWN, Columns, Extra, Only, Source, Sources, generated
from heed.config.sections import (
    DataPath,
    GenerationConfig,
    ModelSection,
    RunConfig,
    Section,
    TrainingConfig,
    WritingEvaluation,
    listed,
)
from heed.data.examples import Pair
from heed.data.findings import Findings
from heed.data.kinds.texts import inputs_in
from heed.data.tables import Field as NamedField
from heed.data.text_files import Numbered
from heed.data.tokens.tokenizer import beginning
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes, share
from heed.evaluation.text_scores import ROUGE
from heed.generation import SamplingOptions, SearchOptions, Writer
from heed.generation.pointer import PointerGenerator
from heed.models.base import PairDecoder
from heed.tasks.base.attributing import Explained
from heed.tasks.base.looking import InputSpans, Units, encoder_frames, gate_maps, networks, notes_on
from heed.tasks.base.predictions import short
from heed.tasks.base.report import counted_are, length_lines, note_lines, score_lines, signature_lines
from heed.tasks.base.writing import (
    SEARCH,
    NearestSentence,
    Reread,
    WritingExaminer,
    WritingOutputs,
    WrittenText,
    answer_of_output,
    boundaries,
    explain_output,
    map_html,
    output_measures,
    side_of,
    views_of_sides,
)
from heed.tasks.contracts import Batch, Facts, NoOptions
from heed.tasks.heads.alignment import align, aligned_counts, known_links, replace_unknown
from heed.tasks.heads.written import TextScores, Written, settings
from heed.tasks.inputs.few_pairs import counterparts, inherited_part, with_body
from heed.tasks.inputs.pairs import Pairs as PairInput
from heed.tasks.inputs.supervision import attention_loss, check_model, supervised_weights
from heed.tasks.work import Baselines, Looks, Task
from heed.training.contracts import Loss
from heed.watch.edits import Edit
from heed.watch.looks import Choice, Look
from heed.watch.maps import Axis
from heed.watch.trace import edit, trace

if TYPE_CHECKING:
    from heed.tasks.run import Run


Head = Annotated[int, Field(ge=0)]
_ROOM = 100
"""Tokens by which data.max_length exceeds a data.max_source given by the user."""


class Pairs(Source):
    """Pairs of texts, in two parallel files or in one file of columns (`heed.data.kinds.pairs`)."""

    train: list[DataPath] = Field(min_length=1, max_length=2)
    """Training files, relative to the configuration: two parallel files, source first, or one with both sides. Of a
    data set of the Hub its split, or a part of it such as train[:1000]; of embedded data the number of examples
    (grammar has at most 8,000, and 400 and 1,000 to validate and test on)."""
    max_line: Annotated[int, Only(OWN)] = Field(100_000, gt=0, le=1 << 27)
    """A line with more characters than this is a bad line."""
    in_memory: Annotated[int, Only(OWN)] = Field(100_000, ge=0)
    """Splits with more examples than this are kept in the cache folder (HEED_CACHE), not in memory. Tokens are then
    encoded batch by batch; only lengths, order and hashes are in memory. A learned alignment stays in memory, some
    kilobytes a pair."""
    max_length: Annotated[int, Only(OWN)] = Field(250, gt=0)
    """Training examples with more tokens than this on a side are left out, and counted; in summarisation, documents are
    cut first."""
    max_source: Annotated[int, Only()] = Field(400, gt=0)
    """Documents are cut after this many tokens; cut documents are counted and listed."""
    columns: Annotated[Columns, Only(OWN)] = Columns()
    """Columns of both sides in a file of columns."""
    source_language: Annotated[str | None, Only(OWN)] = None
    """Language of the sources, as the model names it (NLLB: eng_Latn, M2M-100: en), for `model.source_frame=language`.
    """
    target_language: Annotated[str | None, Only(OWN)] = None
    """Language of the targets, for `model.target_frame=language`."""
    extra: Annotated[list[Extra], Only(OWN)] = []  # noqa: RUF012  # pydantic copies it
    """Further training corpora, weighted and optionally tagged; their pairs are never held out."""
    languages: Annotated[list[str] | None, Only("dates")] = None
    """CLDR codes of the languages to train on, of 28; all but five by default."""
    unseen: Annotated[list[str] | None, Only("dates")] = None
    """CLDR codes of languages kept for a score on unseen languages, on as many examples as test; a few by default."""
    styles: Annotated[list[Literal["medium", "long", "full"]], Only("dates")] = ["medium", "long", "full"]  # noqa: RUF012
    """CLDR date styles."""
    joined: Annotated[int | tuple[int, int], Only("dates")] = 1
    """Dates per example: a number, or [smallest, largest]; at most 6."""
    years: Annotated[tuple[int, int], Only("dates")] = (1900, 2099)
    """First and last year."""
    length: Annotated[tuple[int, int], Only("copy reverse")] = (3, 12)
    """Smallest and largest number of digits."""

    @model_validator(mode="before")
    @classmethod
    def _room_for_documents(cls, values: Any) -> Any:
        """Raise `max_length` for a larger `max_source`, if only that is given."""
        if isinstance(values, dict) and isinstance(values.get("max_source"), int) and "max_length" not in values:
            values = {**values, "max_length": max(500, values["max_source"] + _ROOM)}
        return values

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        if "max_source" in type(self).model_fields and self.max_source >= self.max_length:
            raise ValueError(
                f"data.max_source is {self.max_source} and data.max_length {self.max_length}; training examples with "
                "more than data.max_length tokens are left out, which would include documents of data.max_source "
                f"tokens; set data.max_length={self.max_source + _ROOM}"
            )
        return self


class AlignmentSection(Section):
    """Guided attention: a loss that pulls the attention to the source towards known links between words.

    It needs one of `files`, `data` and `automatic`; without them there is no such loss. Prediction and scoring never
    use the links.
    """

    files: list[DataPath] = []  # noqa: RUF012  # pydantic copies it
    """Links in the Pharaoh format, one line per pair: one file for data.train, then one for each of data.extra; the
    last corpora may have none. Relative to the configuration."""
    data: bool = False
    """Use the alignment that embedded data provides with its examples."""
    automatic: bool = False
    """Use a word alignment learned from the training pairs before training (IBM model 1 with a prior on the
    diagonal)."""
    possible: Literal["use", "ignore"] = "use"
    """Links of `files` that are only possible (written 3p5): use them as sure ones, or ignore them."""
    min: float = Field(0.3, ge=0, lt=1)
    """Links of the automatic alignment with a smaller probability are left out."""
    loss: Literal["cross_entropy", "mse"] = "cross_entropy"
    """Cross-entropy of the weights under the links (- sum of a_true ln a_pred), or their mean squared difference, which
    is smaller and needs a larger weight, about 10."""
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Weight of this loss."""
    layer: int = -1
    """Number of the layer, among those that attend to the source, from 0; negative numbers count from the last, -1."""
    heads: Literal["mean"] | Head | list[Head] = "mean"
    """Heads of that layer, from 0: mean is the mean over all, a number is one head, a list is the mean of these."""

    _one_file = field_validator("files", mode="before")(listed)

    @property
    def links_from(self) -> str:
        """The source of links in use, as a field and its value; "" for none."""
        ways = {"files": f"files={','.join(self.files)}", "data": "data=true", "automatic": "automatic=true"}
        used = [f"training.alignment.{shown}" for name, shown in ways.items() if getattr(self, name)]
        return " and ".join(used)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        used = [name for name in ("files", "data", "automatic") if getattr(self, name)]
        if len(used) > 1:
            raise ValueError(f"{self.links_from} cannot be combined; set only one of files, data and automatic")
        owners = {"possible": "files", "min": "automatic"}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value == field.get_default(call_default_factory=True):
                continue
            if not used:
                raise ValueError(
                    f"training.alignment.{name} is {value!r}, but there are no links; set "
                    "training.alignment.files=FILE, training.alignment.data=true or training.alignment.automatic=true"
                )
            if name in owners and owners[name] not in used:
                raise ValueError(
                    f"training.alignment.{name} is {value!r}, but it applies only to links from {owners[name]}, not "
                    f"from {used[0]}; remove the field"
                )
        if self.heads == []:
            raise ValueError("training.alignment.heads is an empty list; give numbers of heads, or mean")
        return self


class TranslationModel(ModelSection):
    """Which model; all other fields are the model's own (`heed models NAME` lists them)."""

    like: str | None = None
    """A language of the parent that a new one starts from: data.source_language or data.target_language may then be
    one that it lacks. Its token starts as that of this language, or as the mean of all languages (mean); characters
    that the tokenizer lacks are added."""
    take: Literal["auto", "encoder", "decoder", "both"] = "auto"
    """The part to take from the parent run: its encoder, its decoder, or both. A parent that reads or writes single
    texts can become either: auto makes `bert` and `encoder` the encoder and `gpt` the decoder, and takes both from a
    translator."""


class TranslationTraining(TrainingConfig):
    """Training of a translation model."""

    guided_attention: float = Field(0.0, ge=0)
    """Weight of a loss that pulls the attention to the source towards a word alignment learned beforehand from the
    training pairs. Short for alignment.automatic=true and alignment.weight."""
    alignment: AlignmentSection = AlignmentSection()
    """Guided attention: links between words that the attention to the source should follow (docs/alignment.md)."""

    @property
    def supervision(self) -> AlignmentSection | None:
        """The settings of guided attention; None without it."""
        if self.alignment.links_from:
            return self.alignment
        return AlignmentSection(automatic=True, weight=self.guided_attention) if self.guided_attention else None

    @property
    def supervised_by(self) -> str:
        """The field that turns on guided attention, with its value, for messages; "" if none does."""
        short = f"training.guided_attention={self.guided_attention}" if self.guided_attention else ""
        return self.alignment.links_from or short

    @model_validator(mode="after")
    def _one_alignment(self) -> Self:
        if self.alignment.links_from and self.guided_attention:
            raise ValueError(
                f"training.guided_attention={self.guided_attention} is short for training.alignment.automatic=true and "
                f"cannot be combined with {self.alignment.links_from}; set only one of the two"
            )
        return self


def why_no_guidance(section: AlignmentSection, config: TranslationConfig) -> str:
    """The reason why attention cannot be guided this way, for an error message; "" if it can."""
    data, with_, only_one = config.data, "cannot be combined with", "set only one of the two"
    if config.training.activation_checkpointing:
        reads = "because guided attention reads the activations of every block"
        return f"{with_} training.activation_checkpointing=true, {reads}; {only_one}"
    if section.data and not data.is_embedded:
        needs = f"needs embedded data, which comes with an alignment, but data.train is {', '.join(data.train)}"
        return f"{needs}; use training.alignment.files, or learn links with training.alignment.automatic=true"
    if data.is_embedded:
        knows = "because embedded data comes with its own alignment; use training.alignment.data=true"
        return f"{with_} data.name={data.name}, {knows}" if section.files else ""
    if len(section.files) > 1 + len(data.extra):
        corpora = "data.train" + (f" and {len(data.extra)} of data.extra" if data.extra else "")
        return f"has {len(section.files)} files, but training is only on {corpora}; give one file for each corpus"
    return ""


class TranslationGeneration(GenerationConfig):
    """Writing of a translation model."""

    unknown: bool = False
    """Allow the unknown token in outputs, as some imported models do; it has no text."""
    renormalize: bool = False
    """Leave out tokens that are never written before probabilities are normalised, not after."""
    early_stopping: Literal["never", "heuristic", "full"] = "never"
    """When a beam search ends: when no longer output could be better (never); when as many outputs have ended as the
    beam is wide and no unfinished one would be better if it ended now (heuristic); as soon as that many have ended
    (full). The last two are those of the library transformers."""


class TranslationEvaluation(WritingEvaluation):
    """Scoring of a translation model."""

    select_by: Literal["auto", "exact_match", "token_accuracy", "chrf", "bleu", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is exact_match for embedded data, else chrf."""


class TranslationConfig(RunConfig):
    """Complete configuration of a run of translation."""

    task: Literal["translation"] = "translation"
    """The task."""
    data: Annotated[
        Pairs,
        Sources(
            Pairs,
            hub=True,
            **dict.fromkeys(("dates", "copy", "reverse"), generated(40_000, 400, 1_000)),
            grammar={"train": Field(8_000, le=8_000), "valid": Field(400, le=400), "test": Field(1_000, le=1_000)},
        ),
    ]
    """Where the examples come from."""
    model: TranslationModel = TranslationModel()
    """Which model."""
    training: TranslationTraining = TranslationTraining(minutes=2.0)
    """How it is trained."""
    generation: TranslationGeneration = TranslationGeneration()
    """How it writes."""
    evaluation: TranslationEvaluation = TranslationEvaluation()
    """How it is scored."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tokenizer.shared and self.tokenizer.lowercase == "source":
            raise ValueError(
                "tokenizer.lowercase is 'source', but tokenizer.shared gives both sides one tokenizer; set one of the "
                "two to false"
            )
        section = self.training.supervision
        if section is not None and (why := why_no_guidance(section, self)):
            raise ValueError(f"{self.training.supervised_by} {why}")
        return self

    @model_validator(mode="before")
    @classmethod
    def _one_kind_of_data(cls, values: Any) -> Any:
        data = values.get("data") if isinstance(values, dict) else None
        if isinstance(data, dict) and "name" in data and isinstance(data.get("train"), str | list):
            raise ValueError(
                f"data.name is '{data['name']}' (embedded data), but data.train names your own files "
                f"({data['train']}); set only one of the two"
            )
        return values


_AXES = {"cross": ("target", "source"), "encoder": ("source", "source"), "decoder": ("target", "target read")}
_AXES["copy"] = _AXES["cross"]
_CAPTIONS = {
    "cross": "Row t: where the model looked to write output t. Weights before dropout.",
    "encoder": "Row i: where source position i looked. Weights before dropout.",
    "copy": "Row t: where output t would be copied from.",
    "decoder": "Row t: where the pass that wrote output t looked, among the tokens read until then: the start token "
    "and the outputs before t. Weights before dropout.",
}


def look_at(
    work: Any,
    model: PairDecoder,
    source: str,
    *,
    target: str | WrittenText | None = None,
    beam_size: int | None = None,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    gates: bool = False,
    units: Units | None = None,
) -> Look:
    """Look at the output of a model for a source, or at a given `target`.

    The finished output is read again in one traced pass, which equals the steps that wrote it. `edits` also apply while
    the output is written; by default the last layer of every mechanism is shown, the mean of its heads.

    Raises:
        ConfigError: The model lacks the mechanism, layer or head.
    """
    source, choice = work.input.stripped(source), choice or Choice()
    tokenizer, of_target = work.input.source_tokenizer, work.input.target_tokenizer
    read = work.input.framed(tokenizer.encode(source).ids)
    with edit(model, *edits):
        written = work.head.translate(work, model, [source], beam_size=beam_size)[0][0] if target is None else target
        if not isinstance(written, str):
            written = replace_unknown(work, model, source, written)
        seen = Reread.of(work.input, model, read, written)
    typed = InputSpans.of(tokenizer, source, before=len(work.input.frame[0]))
    sides = {
        "source": side_of(tokenizer, read, "source", boundaries(tokenizer), typed),
        **seen.sides("target", of_target, boundaries(of_target)),
    }
    choice.check(seen.mechanisms)
    (encoder, encoder_words), (decoder, decoder_words) = (
        views_of_sides(trace, choice, sides, _AXES, lambda maps: (maps, _CAPTIONS[maps.mechanism]))
        for trace in (seen.reading, seen.writing)
    )
    links = known_links(work, source, seen.text, (sides["target"][1], sides["source"][1])) if decoder else None
    maps = [
        replace(view.map, links=links if view.map.mechanism == "cross" else None)
        for view in (*encoder_words, *decoder_words)
    ]
    tokens = sides["source"][0]
    unknown, replaced = tokenizer.unknown_in(source), () if isinstance(seen.typed, str) else seen.typed.values()
    notes = notes_on(unknown, edits, choice.hidden([*encoder, *decoder]), replaced=replaced)
    nets = networks(seen.reading, len(tokens.axis))
    read_nets = [(replace(net, kind=f"encoder {net.kind}"), sides["source"][1]) for net in nets]
    ended = not isinstance(written, str) and written.finished

    greedy = target is None and (beam_size or work.config.generation.beam_size) == 1
    return Look(
        title or work.title,
        source,
        seen.text,
        (*maps, *gate_maps([*read_nets, *seen.networks(sides["target"][1])], work.config.model.name, gates, units)),
        encoder_frames(nets, tokens, seen.layer_states, encoder),
        seen.frames(decoder, sides["target"][0].axis, of_target),
        (f"output: {seen.score}", *notes),
        seen.summary(model),
        output=None if isinstance(written, str) else written,
        answer=answer_of_output(work.input, model, seen, ended, read, read, greedy),
    )


def explain(
    work: Any,
    model: PairDecoder,
    source: str,
    target: str | None = None,
    rather_than: str | None = None,
    output: str | WrittenText | None = None,
) -> Explained:
    """The log-probability of the output, or of one token of it, as `explain_output` has it.

    Raises:
        ConfigError: As `explain_output`; or the model copies words, whose numbers it needs.
    """
    if work.body(model) is not model:
        raise ConfigError("this model copies words of the source, by their numbers, which have no gradient")
    source, tokenizer = work.input.stripped(source), work.input.source_tokenizer
    read = work.input.framed(tokenizer.encode(source).ids)
    typed = InputSpans.of(tokenizer, source, len(work.input.frame[0]))
    _, words = side_of(tokenizer, read, "source", boundaries(tokenizer), typed)
    written, first = output or work.head.translate(work, model, [source])[0][0], work.input.first_token(read)
    written = written if isinstance(written, str) else replace_unknown(work, model, source, written)
    unknown = tokenizer.special.unknown
    return explain_output(work.input, model, read, words, unknown, first, written, target, rather_than)


def contrast(work: Any, model: PairDecoder, text: str, other: str) -> dict[str, Any]:
    """The score that separates two texts: the log-probability of the output for the other."""
    return {"output": work.head.translate(work, model, [work.input.stripped(other)])[0][0]}


def lens_reads(work: Any, model: PairDecoder, text: str) -> tuple[Callable[[], Tensor], Axis, Callable[[int], str]]:
    """A pass over the output for a text; see `heed.tasks.base.attributing.lens`."""
    text, device, tokenizer = work.input.stripped(text), next(model.parameters()).device, work.input.target_tokenizer
    source = work.input.framed(work.input.source_tokenizer.encode(text).ids)
    ids = [work.input.first_token(source), *work.head.translate(work, model, [text])[0][0].ids]
    memory, names = work.input.memory(model, [source], device), boundaries(tokenizer)

    def read() -> Tensor:
        with torch.no_grad():
            start = model.start(memory, Rows.repeat(1, device=device))
            return model.logits(model.step(torch.tensor([ids], device=device), start)[0])

    def name(token: int) -> str:
        return names.get(token) or tokenizer.label(token)

    return read, Axis("output read", "token", tuple(map(name, ids))), name


_SCORES = {
    **ROUGE,
    **{"bleu": "BLEU", "chrf": "chrF", "ter": "TER, lower is better"},
    **{"exact_match": "exact match", "token_accuracy": "token accuracy", "alignment_error": "alignment error"},
    "alignment": "alignment error",  # the reason why there is none although links are known
    **{"aer": "AER, lower is better", "alignment_precision": "link precision", "alignment_recall": "link recall"},
    "perplexity": "perplexity",
}
_EMBEDDED = TextScores((), (), ("exact_match",), "exact_match")
_BLANK = WrittenText("", 0.0, 0.0, (), (), True, ())
_FEW_OUTPUTS = 8
"""Outputs at a time up to which an export writes 2 to 3 times as fast as torch; from 16 on its pass for scores makes it
slower."""


def _ends_alike(options: SearchOptions) -> bool:
    """Whether beam searches of an export are those of a run (`heed.exchange.ctranslate2`)."""
    return bool(options.renormalize and options.early_stopping == "full")


class Guided(NamedTuple):
    """The states of a batch, and the attention to the source that is compared with links, `(rows, target, source)`."""

    hidden: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Translated(Written):
    """A text for a text; unknown words are replaced by source words, by attention to the source."""

    keywords: ClassVar = {
        **SEARCH,
        "prefix": "",
        "engine": "torch",
        "no_repeat_ngram": None,
        "source_language": None,
        "target_language": None,
    }
    targets: str = "tokens"
    scores: TextScores = TextScores(("chrf", "bleu", "ter"), ("bleu", "chrf"), ("exact_match", "bleu", "chrf"), "chrf")  # noqa: RUF009
    section: type[Section] = NoOptions
    """With `pointer`, words may be copied from the source."""

    options = property(lambda self: self.section)

    def fitted(self, work: Any) -> Self:
        head = super().fitted(work)
        return replace(head, scores=_EMBEDDED) if work.config.data.is_embedded else head

    def build(self, body: nn.Module, options: Any, facts: Facts) -> nn.Module:
        """The body, or a model that copies.

        Raises:
            ConfigError: Attention is to be guided, or `model.pointer` is true, but the model lacks that attention.
        """
        assert isinstance(body, PairDecoder)
        if (section := self.config.training.supervision) is not None:
            check_model(body, section, self.config.training.supervised_by, self.config.model.name)
        if not getattr(options, "pointer", False):
            return body
        if not body.aligns:
            raise ConfigError(
                f"model.pointer is true, but model '{self.config.model.name}' has no attention to the source, so it "
                "cannot copy; set model.pointer=false or choose another model"
            )
        return PointerGenerator(body)

    def states(self, model: Any, batch: Batch, carried: Any = None) -> Any:
        section = self.config.training.supervision
        if "alignment" not in batch.targets or section is None:
            return super().states(model, batch)
        with trace(model, grad=True, mechanism="cross", layer=section.layer) as seen:
            hidden = super().states(model, batch)
        return Guided(hidden, supervised_weights(seen, section))

    def loss(self, model: Any, states: Any, batch: Batch, smoothing: float) -> Tensor | Loss:
        """The loss over the target's tokens, plus that of guided attention."""
        if not isinstance(states, Guided):
            return super().loss(model, states, batch, smoothing)
        section, mask = self.config.training.supervision, batch.inputs["source_mask"]
        of_text = super().loss(model, states.hidden, batch, smoothing)
        assert isinstance(of_text, Tensor)
        links = attention_loss(states.weights, batch.targets["alignment"], mask, section.loss)
        of_weights = section.weight * links
        return Loss(of_text + of_weights, {"text": of_text, "alignment": of_weights})

    # Writing --------------------------------------------------------------------------------------------------

    def never_written(self, model: Any) -> tuple[int, ...]:
        never = super().never_written(model)
        may_be_unknown = self.config.generation.unknown or (self.replaces_unknown and model.aligns)
        unknown = self.tokenizer.special.unknown
        return tuple(token for token in never if token != unknown) if may_be_unknown else never

    @property
    def replaces_unknown(self) -> bool:
        """True if a model with attention may write the unknown token, replaced by the source word it looked at."""
        return bool(self.tokenizer.unit == "word" and self.config.generation.replace_unknown)

    def translate(
        self,
        work: Any,
        model: PairDecoder,
        texts: Sequence[str],
        *,
        sampling: SamplingOptions | None = None,
        prefix: str = "",
        writer: Writer | None = None,
        open_export: Callable[[], Writer | None] | None = None,
        **search: Any,
    ) -> list[list[WrittenText]]:
        """Write a target for each text: its candidates, best first; for a blank text one blank output.

        Args:
            work: Its input reads the texts.
            model: The model that writes.
            texts: Sources; spaces around them are removed, except for an imported run.
            sampling: Draw instead of searching.
            prefix: Every output begins with this text.
            writer: An engine that searches instead of torch; it can neither draw outputs nor continue a prefix.
            open_export: Opens one, None if there is none, for searches in which it gives the same outputs faster.
            search: Options of `search_options`.

        Raises:
            ConfigError: The prefix has text never seen in training, which cannot be written; or the writer does not
                support an option.
        """
        if writer is not None and (sampling is not None or prefix):
            what = "draw outputs (sampling)" if sampling is not None else f"continue a prefix ({prefix!r})"
            raise ConfigError(f"engine '{writer.name}' cannot {what}; use engine 'torch'")
        if unknown := self.tokenizer.unknown_in(prefix):
            what = f"prefix {short(prefix)} has {short(unknown[0])}"
            raise ConfigError(f"{what}, which was never seen in training targets")
        begun, generation = beginning(self.tokenizer, prefix), self.config.generation
        fields: dict[str, Any] = {"renormalize": generation.renormalize, "early_stopping": generation.early_stopping}
        options = self.search_options(model, forbidden_first=begun.never_next, **fields, **search)
        # A space at either end could be read as an unknown word.
        texts = [work.input.stripped(text) if text.strip() else "" for text in texts]
        input = work.input
        sources, unread = input.read([text for text in texts if text])
        few = sampling is None and not prefix and len(sources) * options.beam_size <= _FEW_OUTPUTS
        if few and open_export is not None and (options.beam_size == 1 or _ends_alike(options)):
            export = open_export()
            writer = export if export is not None and export.fits(sources, options) else None
        if writer is None:
            written = self.write(input, model, sources, options, sampling, begun.ids)
        else:
            options = replace(options, forced=(*input.target_prefix,) * len(sources))
            written = [[WrittenText.of(self.tokenizer, h) for h in some] for some in writer.write(sources, options)]
        outputs = iter([[replace(w, unread=n) for w in some] for some, n in zip(written, unread, strict=True)])
        return [next(outputs) if text else [_BLANK] for text in texts]

    def candidates(
        self,
        run: Any,
        examples: Sequence[Pair],
        num_best: int = 1,
        engine: str = "torch",
        source_language: str | None = None,
        target_language: str | None = None,
        **options: Any,
    ) -> list[list[WrittenText]]:
        """The `num_best` best outputs for each text, best first; unknown words are replaced if configured."""
        texts = [pair.source for pair in examples]
        engines = {"open_export": partial(run.writer, engine)} if engine == "auto" else {"writer": run.writer(engine)}
        run = run.between(source_language, target_language)
        results = self.translate(run.task, run.model, texts, num_best=num_best, **engines, **options)
        first = run.members[0]
        for source, some in zip(texts, results, strict=True):
            some[:] = [replace_unknown(first.task, first.model, source.strip(), output) for output in some]
        return results

    # Scores ---------------------------------------------------------------------------------------------------

    def scored(self, run: Any, examples: Sequence[Pair], outputs: Sequence[Any] | None, others: Any) -> Outcomes:
        """Outputs for pairs and their measures: text scores for data from files, exact match, alignment error if known.

        Of a comparison: whether scores of tokens are added, whether differences count that the run's tokenizer does not
        make, and the tokenizer of BLEU.
        """
        per_token, literal, bleu = others or (True, False, None)
        outputs = run.predicted(examples) if outputs is None else outputs
        texts, references = [output.text for output in outputs], run.input.references(examples)
        encoded = run.input.encode(examples)
        nats, correct, tokens = run.task.judged(run.model, encoded).T.tolist()
        tokenizer = None if literal else self.tokenizer
        measures = output_measures(texts, references, self.scores.all, tokenizer, bleu or self.bleu_tokenize)
        if per_token:
            measures.append(share("token_accuracy", "token accuracy", correct, tokens))
        details: dict[str, Any] = {
            "perplexity": math.exp(min(700.0, sum(nats) / max(1, sum(tokens)))),
            "cut_off": sum(not output.finished for output in outputs),
        }
        if run.input.documents and (cut := run.input.cut_in([pair.source for pair in examples])):
            details |= {"cut": len(cut), "cut_first": [examples[n].origin or f"example {n + 1}" for n in cut[:10]]}
        if any(pair.links for pair in examples):
            nothing = [0] * len(examples)
            counts = aligned_counts(run.task, run.model, examples) if len(run.members) == 1 else None
            aligned, linked = counts or (nothing, nothing)
            wrong = [count - right for right, count in zip(aligned, linked, strict=True)]
            if counts is not None or others is not None:  # compared runs have the same measures
                measures.append(share("alignment_error", "alignment error", wrong, linked, higher_is_better=False))
            if not run.model.aligns:
                details["alignment"] = "no attention"
        return Outcomes(tuple(texts), tuple(measures), lengths=tuple(encoded.lengths[:, 0].tolist()), details=details)

    def report(self, scores: dict[str, Any]) -> list[str]:
        name = next(name for name in ("rouge2", "chrf", "exact_match") if name in scores)
        title = f"{_SCORES[name]} by {'document' if name in ROUGE else 'source'} tokens"
        lines = score_lines(scores, _SCORES) + length_lines(title, scores["by_source_length"], name, "examples")
        lines += signature_lines(scores)
        if scores.get("cut"):
            more = ", ..." if scores["cut"] > 3 else ""
            lines.append(
                f"  {counted_are(scores['cut'], 'document')} longer than data.max_source; only the beginning was read: "
                f"{', '.join(scores['cut_first'][:3])}{more}"
            )
        return lines + note_lines(scores, "cut_off")


class TranslationOutputs(WritingOutputs):
    """A line for each candidate; with --align, its alignment last."""

    key = "source"

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        if run.input.documents:
            self.asks, self.limit = "a document", "data.max_source"
        if options["align"] and not run.model.aligns:
            raise ConfigError(
                f"model '{run.config.model.name}' has no attention, so --align cannot link words; omit --align"
            )

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        data, reads = self.run.config.data, self.run.input
        if data.is_embedded:
            return None
        names, first = (reads.text_columns, None) if reads.documents else (("source",), 0)
        trained = data.train if data.origin == "files" else ()
        field = NamedField("text", data.columns.source, names)
        return inputs_in(path, [field], findings, trained=trained, default=first)

    def candidates(self, texts: list[str], num_best: int) -> list[list[WrittenText]]:
        names = ("prefix", "engine", "no_repeat_ngram", "source_language", "target_language")
        further = {name: self.options[name] for name in names if name in self.options}
        candidates: list[list[WrittenText]] = self.run.candidates(texts, num_best, **self.search, **further)
        return candidates

    def lines(self, text: str, prediction: Any) -> tuple[str, ...]:
        if self.options["align"]:
            prediction = replace(prediction, alignment=self.run.align(text, prediction))
        return super().lines(text, prediction)


class TranslationExaminer(WritingExaminer):
    """Comparison of runs that write a text for a text."""

    def count_tokens(self, run: Any, outputs: Sequence[WrittenText]) -> int:
        return sum(len(output.tokens) for output in outputs)

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        shown = run.look(self.sources[index], beam_size=beam_size, layer=-1, head="mean")
        return map_html(shown.look, ("cross",), "This model does not attend to the source while it writes.", numbers)


def nearest(run: Run) -> Callable[[Sequence[Pair]], list[str]]:
    """The target of the nearest training pair for each example; the pairs of a run are read on first use."""
    sentences = cache(lambda: NearestSentence((pair.source, pair.target) for pair in run.examples("train")))
    return lambda examples: sentences().translate([pair.source for pair in examples])


def baselines(run: Run) -> Baselines:
    """The copied source, and the translation of the nearest training sentence."""
    return {
        "copying the source": lambda examples: [pair.source for pair in examples],
        "nearest training sentence": nearest(run),
    }


def taken_from(
    work: Any, parent: Any, tensors: Mapping[str, Tensor], prefix: str, parent_tensors: dict[str, Tensor]
) -> Mapping[str, str] | None:
    """The tensors to copy from the configured part of a parent run, its encoder, decoder or both."""
    part = inherited_part(work.config, parent)
    return None if part is None else counterparts(part, parent.task.config.model.name, tensors, prefix, parent_tensors)


def export(*args: Any) -> Any:
    """Write a model for another program; see `heed.exchange.export_translation`."""
    from heed.exchange import export_translation

    return export_translation(*args)


LOOKS = Looks(look_at, explain, contrast, lens_reads)
TASK = Task(
    "translation",
    input=PairInput(),
    head=Translated(),
    config=TranslationConfig,
    looks=LOOKS,
    baselines=baselines,
    defaults=settings,
    outputs=TranslationOutputs,
    examiner=lambda: TranslationExaminer,
    before=with_body,
    taken_from=taken_from,
    aligns=align,
    export=export,
)
