"""The configuration of tagging."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from heed.config.data import EmbeddedLabels, LabelledData, TagOptions, by_name
from heed.config.memory import InMemory
from heed.config.sections import EvaluationConfig, Section
from heed.tasks.base.config import LabelledConfig


class ColumnsData(TagOptions, LabelledData):
    """Sentences with one word a line and its tag in a column, as CoNLL has them (`heed.data.read.conll`)."""


class MemorySentences(InMemory, ColumnsData):
    """Sentences with tags handed over in Python; `columns` are those of files that the run reads later."""


class TeddyData(EmbeddedLabels, TagOptions):
    """Embedded data: is the word Teddy a person? Only the next word tells (`heed.data.embedded.teddy`)."""

    name: Literal["teddy"] = "teddy"
    """Which embedded data."""
    mirrored: bool = False
    """Write every sentence from its end, so that the word before Teddy tells."""


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
    word: Literal["mean", "first"] = "mean"
    """State of a word that is several tokens: the mean of theirs, or that of the first, as in BERT."""
    delay: int = Field(0, ge=0)
    """Tokens that are read on before a word's tag is given: one direction then sees that much of what follows."""


class TaggingEvaluation(EvaluationConfig):
    """How a tagging is scored."""

    select_by: Literal["auto", "entity_f1", "accuracy", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is entity_f1, or accuracy for plain tags."""
    words: tuple[str, ...] = ()
    """Words whose tags are scored by themselves too, as ["Teddy"]."""


class TaggingConfig(LabelledConfig):
    """Everything that decides a run of tagging."""

    task: Literal["tagging"] = "tagging"
    """What is learned."""
    data: Annotated[
        Annotated[ColumnsData, Tag("columns")]
        | Annotated[MemorySentences, Tag("memory")]
        | Annotated[TeddyData, Tag("teddy")],
        Discriminator(by_name("columns")),
    ]
    """Where the examples come from."""
    evaluation: TaggingEvaluation = TaggingEvaluation()
    """How it is scored."""
