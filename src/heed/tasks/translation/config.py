"""The configuration of translation, with the section of guided attention."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

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
    def given(self) -> str:
        """The source of links in use, as a field and its value; "" for none."""
        ways = {"files": f"files={','.join(self.files)}", "data": "data=true", "automatic": "automatic=true"}
        used = [f"training.alignment.{shown}" for name, shown in ways.items() if getattr(self, name)]
        return " and ".join(used)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        used = [name for name in ("files", "data", "automatic") if getattr(self, name)]
        if len(used) > 1:
            raise ValueError(f"{self.given} cannot be combined; set only one of files, data and automatic")
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
        if self.alignment.given:
            return self.alignment
        return AlignmentSection(automatic=True, weight=self.guided_attention) if self.guided_attention else None

    @property
    def supervised_by(self) -> str:
        """The field that turns on guided attention, with its value, for messages; "" if none does."""
        short = f"training.guided_attention={self.guided_attention}" if self.guided_attention else ""
        return self.alignment.given or short

    @model_validator(mode="after")
    def _one_alignment(self) -> Self:
        if self.alignment.given and self.guided_attention:
            raise ValueError(
                f"training.guided_attention={self.guided_attention} is short for training.alignment.automatic=true and "
                f"cannot be combined with {self.alignment.given}; set only one of the two"
            )
        return self


def why_not(section: AlignmentSection, config: TranslationConfig) -> str:
    """Why attention cannot be guided this way in a run, for people; "" if it can."""
    data, with_, only_one = config.data, "cannot be combined with", "set only one of the two"
    if config.training.activation_checkpointing:
        reads = "because guided attention reads the activations of every block"
        return f"{with_} training.activation_checkpointing=true, {reads}; {only_one}"
    if section.data and not data.is_embedded:
        own = f"needs embedded data, which comes with an alignment, but data.train is {', '.join(data.train)}"
        return f"{own}; use training.alignment.files, or learn links with training.alignment.automatic=true"
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
        if section is not None and (why := why_not(section, self)):
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
