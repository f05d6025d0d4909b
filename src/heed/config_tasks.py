"""The configuration of each task: what classification and tagging have of their own, and which class a task means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from heed.config import EvaluationConfig, ModelSection, OwnData, RunConfig, Section, TranslationConfig, check_section
from heed.errors import ConfigError, suggest

__all__ = [
    "TASK_CONFIGS",
    "ClassificationConfig",
    "ClassificationEvaluation",
    "ClassificationHead",
    "ColumnsData",
    "EmbeddedLabels",
    "LabelledConfig",
    "LabelledData",
    "PlantedData",
    "SeriesConfig",
    "SeriesData",
    "SeriesEvaluation",
    "SeriesHead",
    "SeriesModelSection",
    "TableColumns",
    "TableConfig",
    "TableData",
    "TableEvaluation",
    "TableModelSection",
    "TagColumns",
    "TagOptions",
    "TaggingConfig",
    "TaggingEvaluation",
    "TaggingHead",
    "TeddyData",
    "TextColumns",
    "TextModelSection",
    "TextOptions",
    "TextsData",
    "check_config",
]


class LabelledData(OwnData):
    """Your own labelled files, as far as classification and tagging share them."""

    train: list[str] = Field(min_length=1)
    """Training files (for classification also folders); several are read one after the other. Relative to the
    configuration."""
    max_line: int = Field(1_000_000, gt=0)
    """A line with more characters than this is a bad line; a whole document may be one."""


class TextColumns(Section):
    """Where text and label stand in a file of columns."""

    text: int | str | None = None
    """Column of the text: a number from 0 or a name; "text" by default."""
    label: int | str | None = None
    """Column of the label: a number from 0 or a name; "label" by default."""


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
    """Only the first tokens of a text are read, this many; the texts that are cut are counted."""


class TextsData(TextOptions, LabelledData):
    """Texts with labels: CSV, TSV, JSON lines, one folder per class, or lines `label text` (`heed.data.texts`)."""


class EmbeddedLabels(Section):
    """How much is drawn of embedded data with labels."""

    seed: int = 1
    """Seed of the generated examples."""
    train: int = Field(2_000, gt=0)
    """Number of training examples."""
    valid: int = Field(200, gt=0)
    """Number of validation examples."""
    test: int = Field(500, gt=0)
    """Number of test examples."""


class PlantedData(EmbeddedLabels, TextOptions):
    """Embedded data: documents of which one word in one sentence decides the label (`heed.data.planted`)."""

    name: Literal["planted"] = "planted"
    """Which embedded data."""
    sentences: tuple[int, int] = (5, 20)
    """Fewest and most sentences of a document."""


class TagColumns(Section):
    """Where word and tag stand in a file with one word a line."""

    word: int = 0
    """Column of the word, from 0; negative numbers count from the last, -1."""
    label: int = -1
    """Column of the tag, from 0; negative numbers count from the last, -1."""


class TagOptions(Section):
    """What data of sentences with tags has besides its files."""

    columns: TagColumns = TagColumns()
    """Where word and tag stand."""
    scheme: Literal["auto", "bio", "iob1", "io", "bioes", "plain"] = "auto"
    """How the tags mark entities; auto finds out for each set, plain tags (as parts of speech) mark none."""
    max_length: int = Field(500, gt=0)
    """Training sentences with more tokens than this are left out, and counted."""


class ColumnsData(TagOptions, LabelledData):
    """Sentences with one word a line and its tag in a column, as CoNLL has them (`heed.data.conll`)."""


class TeddyData(EmbeddedLabels, TagOptions):
    """Embedded data: is the word Teddy a person? Only the next word tells (`heed.data.teddy`)."""

    name: Literal["teddy"] = "teddy"
    """Which embedded data."""
    mirrored: bool = False
    """Write every sentence from its end, so that the word before Teddy tells."""


class TextModelSection(ModelSection):
    """Which model; all other fields are the model's and the task's own (`heed models` lists them)."""

    name: str = "rnn"
    """File in `heed/models`."""
    word_vectors: str | None = None
    """File of word vectors (text of word2vec, GloVe or fastText) to begin the embeddings with, relative to the
    configuration; only for word tokenizers. The width of the embeddings is theirs where none is given."""
    train_embeddings: bool = True
    """Whether the embeddings are trained; if not, they stay as given or drawn."""


class ClassificationHead(Section):
    """From a model's hidden states to labels; these fields stand in the `model` section beside the model's own."""

    pooling: Literal["attention", "last", "first", "mean", "max", "cls"] = "attention"
    """From states of words to one vector: a learned attention, the state after reading, the first, mean or maximum; cls
    is the state of a learned token [CLS] put before the text (encoder only)."""
    pooling_score: Literal["additive", "dot", "self_attentive"] = "additive"
    """Attention over the states h: additive is u' tanh(W h + b), dot is u' h, self_attentive has several u."""
    d_pooling: int = Field(100, gt=0)
    """Width of tanh(W h + b) in additive and self_attentive pooling."""
    pooling_hops: int = Field(4, gt=0)
    """Number of learned vectors u in self_attentive pooling, each with weights of its own."""
    head: Literal["auto", "softmax", "sigmoid"] = "auto"
    """softmax has one output for each label; sigmoid one for two classes, or one for each of several labels. auto is
    sigmoid where texts have several labels."""


class TaggingHead(Section):
    """From a model's hidden states to tags; these fields stand in the `model` section beside the model's own."""

    head: str = "softmax"
    """softmax decides for each word alone; crf chooses the tags of a sentence together, legal transitions only."""
    characters: Literal["none", "cnn"] = "none"
    """Each word's characters as a further input of the model: none, or a convolution over them."""
    d_character: int = Field(30, gt=0)
    """Width of the character embeddings."""
    num_filters: int = Field(50, gt=0)
    """Filters of the convolution over characters, of width 3."""
    delay: int = Field(0, ge=0)
    """Tokens that are read on before a word's tag is given: one direction then sees that much of what follows."""


class ClassificationEvaluation(EvaluationConfig):
    """How a classification is scored."""

    select_by: Literal["auto", "accuracy", "macro_f1", "micro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, or micro_f1 for several labels."""


class TaggingEvaluation(EvaluationConfig):
    """How a tagging is scored."""

    select_by: Literal["auto", "entity_f1", "accuracy", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is entity_f1, or accuracy for plain tags."""
    words: tuple[str, ...] = ()
    """Words whose tags are scored by themselves too, as ["Teddy"]."""


def _by_name(files: str) -> Callable[[Any], str]:
    """Tells by its name which class a `data` section is: embedded data has one, files do not."""

    def kind(value: Any) -> str:
        if isinstance(value, EmbeddedLabels):
            return str(getattr(value, "name", files))
        return str(value.get("name", files)) if isinstance(value, dict) else files

    return kind


class LabelledConfig(RunConfig):
    """What the configurations of tasks with labelled texts share."""

    model: TextModelSection = TextModelSection()
    """Which model."""


class ClassificationConfig(LabelledConfig):
    """Everything that decides a run of classification."""

    task: Literal["classification"] = "classification"
    """What is learned."""
    data: Annotated[
        Annotated[TextsData, Tag("texts")] | Annotated[PlantedData, Tag("planted")], Discriminator(_by_name("texts"))
    ]
    """Where the examples come from."""
    evaluation: ClassificationEvaluation = ClassificationEvaluation()
    """How it is scored."""


class TaggingConfig(LabelledConfig):
    """Everything that decides a run of tagging."""

    task: Literal["tagging"] = "tagging"
    """What is learned."""
    data: Annotated[
        Annotated[ColumnsData, Tag("columns")] | Annotated[TeddyData, Tag("teddy")], Discriminator(_by_name("columns"))
    ]
    """Where the examples come from."""
    evaluation: TaggingEvaluation = TaggingEvaluation()
    """How it is scored."""


class TableColumns(Section):
    """Which columns of a table are read."""

    label: int | str = "label"
    """Column of the label, by name or by number from 0."""
    features: tuple[int | str, ...] | None = None
    """Columns of numbers, by name or by number from 0; all but the label by default."""


class TableData(LabelledData):
    """Rows of numbers with a label: CSV or TSV, the first line names the columns (`heed.data.numbers`)."""

    columns: TableColumns = TableColumns()
    """Which columns are read."""


class SeriesData(Section):
    """Series of numbers in the order of time: CSV or TSV, the first line names the columns (`heed.data.numbers`)."""

    train: list[str] = Field(min_length=1)
    """Training files, each a series of its own, with the same columns. Relative to the configuration."""
    valid: list[str] | int | None = None
    """Validation files, or how many of each training file's last rows to hold out; a tenth by default."""
    test: list[str] | int | None = None
    """Test files, or how many of each training file's last rows to hold out, behind those for validation."""
    columns: tuple[int | str, ...] | None = None
    """Columns to read and forecast, by name or by number from 0; all by default."""
    window: int = Field(48, gt=1)
    """Rows that are read before the first forecast one, and rows of a training example."""
    horizon: int = Field(12, gt=0)
    """Rows that are forecast, each from those forecast before it."""
    season: int | None = Field(None, gt=0)
    """Rows after which the series repeats itself (12 for months): for the seasonal naive forecast to compare with."""

    @field_validator("train", "valid", "test", mode="before")
    @classmethod
    def _one_file(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @property
    def name(self) -> str:
        """What to call the data: the first training file without its endings."""
        return Path(self.train[0]).name.split(".")[0] or "series"


class TableModelSection(ModelSection):
    """Which model of a table; all other fields are the model's own (`heed models` lists them)."""

    name: str = "mlp"
    """File in `heed/models`."""


class SeriesModelSection(ModelSection):
    """Which model of a series; all other fields are the model's and the task's own."""

    name: str = "rnn"
    """File in `heed/models`."""


class SeriesHead(Section):
    """From the states of a network to the next row; these fields stand in `model` beside the model's own."""

    difference: bool = True
    """The network gives the change from the last row, x(t+1) = x(t) + V h(t) + b; if not, the row itself."""
    bidirectional: Literal[False] = False
    """Always false: a network that reads from the end too would read the row that it is asked for."""


class TableEvaluation(EvaluationConfig):
    """How a classification of rows is scored."""

    select_by: Literal["auto", "accuracy", "macro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy."""


class SeriesEvaluation(EvaluationConfig):
    """How a forecast is scored."""

    select_by: Literal["auto", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is the loss, the mean squared error one row ahead."""


class TableConfig(RunConfig):
    """Everything that decides a run over rows of numbers."""

    task: Literal["table"] = "table"
    """What is learned."""
    data: TableData
    """Where the examples come from."""
    model: TableModelSection = TableModelSection()
    """Which model."""
    evaluation: TableEvaluation = TableEvaluation()
    """How it is scored."""


class SeriesConfig(RunConfig):
    """Everything that decides a run over series of numbers."""

    task: Literal["series"] = "series"
    """What is learned."""
    data: SeriesData
    """Where the examples come from."""
    model: SeriesModelSection = SeriesModelSection()
    """Which model."""
    evaluation: SeriesEvaluation = SeriesEvaluation()
    """How it is scored."""

    @model_validator(mode="before")
    @classmethod
    def _not_from_the_end(cls, values: Any) -> Any:
        model = values.get("model") if isinstance(values, dict) else None
        for field in ("bidirectional", "backward"):
            if isinstance(model, dict) and model.get(field) is True:
                raise ValueError(
                    f"model.{field} is true, but a series is forecast: a network that reads from the end has read the "
                    "row that it is asked for, and learns to copy it; from left to right it has not"
                )
        return values


TASK_CONFIGS: dict[str, type[RunConfig]] = {
    "translation": TranslationConfig,
    "classification": ClassificationConfig,
    "tagging": TaggingConfig,
    "table": TableConfig,
    "series": SeriesConfig,
}
"""The tasks by name."""


def check_config(values: dict[str, Any], where: str) -> RunConfig:
    """Build the configuration of a run, of the class that its task means (translation by default).

    Args:
        values: What the user wrote.
        where: What messages call the place: a file, "the command line".

    Raises:
        ConfigError: There is no such task, or a field is wrong; all problems, one line each.
    """
    task = values.get("task", "translation")
    if task not in TASK_CONFIGS:
        raise ConfigError(f"{where}: task is {task!r}{suggest(str(task), TASK_CONFIGS)}")
    return check_section(TASK_CONFIGS[task], values, where)
