"""The configuration of tagging."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from heed.config.data import OWN, Only, Source, Sources, generated, section
from heed.config.sections import EvaluationConfig, Section, TextConfig


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
    data: Annotated[Sentences, Sources(Sentences, hub=True, teddy=generated(2_000, 200, 500))]
    """Where the examples come from."""
    evaluation: TaggingEvaluation = TaggingEvaluation()
    """How it is scored."""
