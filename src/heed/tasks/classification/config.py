"""The configuration of classification."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from heed.config.data import EmbeddedLabels, HubSection, LabelledData, by_name
from heed.config.memory import InMemory
from heed.config.sections import EvaluationConfig, Section
from heed.tasks.base.config import LabelledConfig


class TextColumns(Section):
    """Where text and label stand in a file of columns."""

    optional: ClassVar[tuple[str, ...]] = ("second",)
    """Fields that name no column by default."""

    text: int | str | None = None
    """Column of the text: a number from 0 or a name; "text" by default. Two of them, as [premise, hypothesis], are the
    columns of a pair of texts, the second of which is written as `second`."""
    second: int | str | None = None
    """Column of the second text, where an example is a pair of texts."""
    label: int | str | None = None
    """Column of the label: a number from 0 or a name; "label" by default."""

    @model_validator(mode="before")
    @classmethod
    def _two_texts(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(text := values.get("text"), list | tuple):
            return values
        if len(text) != 2 or values.get("second") is not None:
            raise ValueError(
                f"data.columns.text is {list(text)!r}, expected the column of a text or the two columns of a pair, as "
                "[premise, hypothesis], and then no data.columns.second"
            )
        return {**values, "text": text[0], "second": text[1]}


class TextOptions(Section):
    """What data of texts with labels has besides its files."""

    format: Literal["auto", "csv", "tsv", "jsonl", "lines", "folders"] = "auto"
    """How the files are written: auto goes by the ending; lines are `label text`, or `__label__a __label__b text`."""
    columns: TextColumns = TextColumns()
    """Where text and label stand in a file of columns."""
    several_labels: bool = False
    """A text may have several labels, or none."""
    label_separator: str = Field(",", min_length=1)
    """What stands between several labels of one cell."""
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    """How much a text of each class counts in the loss: balanced is inverse to the class's share, or a weight per
    class (1 where none is given)."""
    sentence_separator: str | None = Field(None, min_length=1)
    """What stands between the sentences of a document, for models that read sentence by sentence; by default line
    breaks, `<br />` and sentence ends."""
    max_sentence: int = Field(60, gt=0)
    """Sentences with more tokens than this are cut into several, for models that read sentence by sentence."""
    max_length: int = Field(1_000, gt=0)
    """Only the first tokens of a text are read, this many; the texts that are cut are counted. Of a pair the longer
    text is cut first. A model with fewer positions reads as many as it has."""

    @model_validator(mode="after")
    def _pairs_have_columns(self) -> Self:
        if self.columns.second is not None and self.format in ("lines", "folders"):
            raise ValueError(
                f"data.columns.second is {self.columns.second!r}, but data.format {self.format} has no columns; give "
                "pairs of texts as CSV, TSV or JSON lines"
            )
        return self


class TextsData(TextOptions, LabelledData):
    """Texts with labels: CSV, TSV, JSON lines, one folder per class, or lines `label text` (`heed.data.read.texts`)."""


class HubTexts(HubSection, TextsData):
    """Texts with labels of a data set of the Hub; `columns` name its columns."""

    @field_validator("format")
    @classmethod
    def _no_files(cls, value: str) -> str:
        if value != "auto":
            raise ValueError(f"data.format is {value}, but a data set of the Hub is no file; leave it out")
        return value


class MemoryTexts(InMemory, TextsData):
    """Texts with labels handed over in Python; `columns` name those of a data frame."""


class PlantedData(EmbeddedLabels, TextOptions):
    """Embedded data: documents of which one word in one sentence decides the label (`heed.data.embedded.planted`)."""

    name: Literal["planted"] = "planted"
    """Which embedded data."""
    sentences: tuple[int, int] = (5, 20)
    """Fewest and most sentences of a document."""


class ClassificationHead(Section):
    """From a model's hidden states to labels; these fields stand in the `model` section beside the model's own."""

    pooling: Literal["auto", "attention", "last", "first", "mean", "max", "cls"] = "auto"
    """From states of words to one vector: a learned attention, the state after reading, the first, mean or maximum; cls
    is the state of a learned token [CLS] put before the text (encoder only). auto is attention; for a model that reads
    framed texts (bert) mean, and last where it comes from a run or a checkpoint whose [CLS] was trained for this."""
    pooling_score: Literal["additive", "dot", "self_attentive"] = "additive"
    """Attention over the states h: additive is u' tanh(W h + b), dot is u' h, self_attentive has several u."""
    d_pooling: int = Field(100, gt=0)
    """Width of tanh(W h + b) in additive and self_attentive pooling."""
    pooling_hops: int = Field(4, gt=0)
    """Number of learned vectors u in self_attentive pooling, each with weights of its own."""
    ngrams: int = Field(0, ge=0, le=5)
    """N-grams of up to this many tokens beside the model: a linear classifier over them, fitted before training, adds
    its logits to the model's; 0 for none. 2 for a model that nobody named, trained for a time on words."""
    ngram_buckets: int = Field(2**18, gt=1)
    """Rows of the n-grams' table; those whose hashes meet share one."""
    output_bias: bool = True
    """The layer over the labels has a bias; imported models of some families have none there."""
    head: Literal["auto", "softmax", "sigmoid"] = "auto"
    """softmax has one output for each label; sigmoid one for two classes, or one for each of several labels. auto is
    sigmoid where texts have several labels."""


class ClassificationEvaluation(EvaluationConfig):
    """How a classification is scored."""

    select_by: Literal["auto", "accuracy", "macro_f1", "micro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, or micro_f1 for several labels."""


class ClassificationConfig(LabelledConfig):
    """Everything that decides a run of classification."""

    task: Literal["classification"] = "classification"
    """What is learned."""
    data: Annotated[
        Annotated[TextsData, Tag("texts")]
        | Annotated[HubTexts, Tag("hub")]
        | Annotated[MemoryTexts, Tag("memory")]
        | Annotated[PlantedData, Tag("planted")],
        Discriminator(by_name("texts", hub=True)),
    ]
    """Where the examples come from."""
    evaluation: ClassificationEvaluation = ClassificationEvaluation()
    """How it is scored."""
