"""The configuration of tagging."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from heed.config.data import EmbeddedLabels, HubSection, InMemory, KeptData, TagOptions, by_name
from heed.config.sections import EvaluationConfig, Section, TextConfig


class ColumnsData(TagOptions, KeptData):
    """Sentences with tags: columns (CoNLL, CSV) or JSON (`heed.data.kinds.tagged`)."""


class HubSentences(HubSection, ColumnsData):
    """Tagged sentences from a data set of the Hub; `columns` name its columns."""


class MemorySentences(InMemory, ColumnsData):
    """Tagged sentences passed in Python; `columns` are those of files that the run reads later."""


class TeddyData(EmbeddedLabels, TagOptions):
    """Embedded data: is the word Teddy a person? Only the next word shows it (`heed.data.embedded.texts`)."""

    name: Literal["teddy"] = "teddy"
    """Which embedded data."""
    mirrored: bool = False
    """Reverse every sentence, so that the word before Teddy shows it."""


class TaggingHead(Section):
    """The head that maps hidden states to tags; its fields are in the `model` section, next to the model's own."""

    head: str = "softmax"
    """softmax tags each word independently; crf tags a sentence jointly, with legal transitions only."""
    characters: Literal["auto", "affixes", "cnn", "none"] = "auto"
    """Input besides a word's token, for words never seen: affixes are its first 1 to 3 and last 1 to 4 letters, its
    shape and its lower-case form; cnn is a convolution over its characters. auto is affixes for word tokens of your own
    data without a parent, else none."""
    d_character: int = Field(30, gt=0)
    """Width of the character embeddings."""
    num_filters: int = Field(50, gt=0)
    """Width of the features of a word: filters of the convolution, of width 3, or width of the affixes' embeddings."""
    word_dropout: float | None = Field(None, ge=0, lt=1)
    """Share of the words that are replaced by the unknown token in training, so that it is trained; by default 0.1 with
    affixes, else 0."""
    word: Literal["mean", "first"] = "mean"
    """State of a word of several tokens: the mean of the tokens' states, or the first token's state, as in BERT."""
    delay: int = Field(0, ge=0)
    """Tokens to read past a word before tagging it, so that a one-directional model sees that many following tokens."""


class TaggingEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "entity_f1", "accuracy", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is entity_f1, or accuracy for plain tags."""
    words: tuple[str, ...] = ()
    """Words whose tags are also scored separately, such as ["Teddy"]."""


class TaggingConfig(TextConfig):
    """The configuration of a tagging run."""

    task: Literal["tagging"] = "tagging"
    """What is learned."""
    data: Annotated[
        Annotated[ColumnsData, Tag("columns")]
        | Annotated[HubSentences, Tag("hub")]
        | Annotated[MemorySentences, Tag("memory")]
        | Annotated[TeddyData, Tag("teddy")],
        Discriminator(by_name("columns", hub=True)),
    ]
    """Where the examples come from."""
    evaluation: TaggingEvaluation = TaggingEvaluation()
    """How it is scored."""
