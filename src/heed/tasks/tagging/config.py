"""The configuration of tagging."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from heed.config.data import OWN, Only, Source, Sources, generated, section
from heed.config.sections import EvaluationConfig, TextConfig


class Sentences(Source):
    """Sentences with tags: columns (CoNLL, CSV) or JSON (`heed.data.kinds.tagged`)."""

    labelled: ClassVar = True

    in_memory: Annotated[int, Only(OWN)] = Field(200_000, ge=0)
    """Splits with more examples than this, or that may take more than a quarter of the free memory, are kept in the
    cache folder (HEED_CACHE). Their tokens are kept there, too, and tokenizers trained on a sample of 10 MB."""
    columns: Any = section("word", "label", "sentence")
    """Columns of words, tags and sentences: by number, or by name (in a header, JSON, Python, or CoNLL-U).

    - word: Column of the word, or of the text of entities, from 0 (negative numbers count from the last, -1); by
      default the one with a usual name, FORM in CoNLL-U, else the first.
    - label: Column of the tag, or of entities; by default the one with a usual name, UPOS in CoNLL-U, else the last.
    - sentence: Column with another value for each sentence, in files without blank lines between them; by default the
      one with a usual name or the only such column.
    """
    tag_names: tuple[str, ...] = ()
    """Names of the tags where the data has their numbers: of 0, 1, 2 and so on."""
    scheme: Literal["auto", "bio", "iob1", "io", "bioes", "plain"] = "auto"
    """Tagging scheme of entities; auto detects it for each set, plain tags (such as parts of speech) mark no
    entities."""
    max_length: int = Field(500, gt=0)
    """Training sentences with more tokens than this are left out, and counted."""
    mirrored: Annotated[bool, Only("teddy")] = False
    """Reverse every sentence, so that the word before Teddy shows it."""


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
    data: Annotated[Sentences, Sources(Sentences, hub=True, teddy=generated(2_000, 200, 500))]
    """Where the examples come from."""
    evaluation: TaggingEvaluation = TaggingEvaluation()
    """How it is scored."""
