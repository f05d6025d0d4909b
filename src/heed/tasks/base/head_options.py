"""Fields of heads in the `model` section; without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from heed.config import Section


class PooledOptions(Section):
    """How the states of a text become one vector; the fields are in the `model` section, next to the model's own."""

    pooling: Literal["auto", "attention", "last", "first", "mean", "max", "cls"] = "auto"
    """How states of words become one vector: a learned attention, the last state, the first, mean or maximum; cls is
    the state of a learned token [CLS] put before the text (encoder only). auto is attention; for models that read
    framed texts (bert), mean, or last if the weights come from a run or checkpoint whose [CLS] was trained for this."""
    pooling_score: Literal["additive", "dot", "self_attentive"] = "additive"
    """Attention over the states h: additive is u' tanh(W h + b), dot is u' h, self_attentive has several vectors u."""
    d_pooling: int = Field(100, gt=0)
    """Width of tanh(W h + b) in additive and self_attentive pooling."""
    pooling_hops: int = Field(4, gt=0)
    """Number of learned vectors u in self_attentive pooling, each with its own weights."""
    output_bias: bool = True
    """Give the output layer a bias; some imported model families have none."""


class ClassificationHead(PooledOptions):
    """The head that maps hidden states to labels; its fields are in the `model` section, next to the model's own."""

    ngrams: int = Field(0, ge=0, le=5)
    """Length of the longest n-grams, in words, of a linear classifier that is fitted before training and whose logits
    are added to the model's; 0 for none. Pairs and longer ones are left out if single words are right more often in
    cross-validation. Default 2 if no model is named and the budget is a time."""
    ngram_characters: Literal[0, 3, 4, 5] | None = None
    """Length of the longest n-grams of characters within words, beside those of words; 0 for none. By default 5, or 0
    for much text. They are left out if words alone are right more often in cross-validation on the training set."""
    head: Literal["auto", "softmax", "sigmoid"] = "auto"
    """softmax has one output for each label; sigmoid one for two classes, or one per label if texts have several. auto
    is sigmoid if texts have several labels."""


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


class SeriesHead(Section):
    """Head that maps the network's states to the next row; its fields are in `model`, with the model's own."""

    difference: bool = True
    """Whether the output is the change from the last row, x(t+1) = x(t) + V h(t) + b; false: the next row itself."""
    season: int | None = Field(None, gt=1)
    """Rows of a season, set from `data.season`: the output also has a share of the change from the last row to the row
    one season before the next, x(t+1) = x(t) + a (x(t+1-season) - x(t)) + ..., and a is learned for each column."""
    bidirectional: Literal[False] = False
    """Always false: a network that also reads backwards would see the row it has to predict."""
