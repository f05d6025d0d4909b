"""Attention from target words to source words, of any layer and head, while given targets are read.

Words are separated by spaces. Weights are averaged over the tokens of a target word and summed over the tokens of a
source word:

    w_ji = mean over tokens t of word j of the sum over tokens s of word i of a_ts

A target token has two states: the one that writes it, and the one that has read it, a row later. A recurrent decoder
attends to the word that it is about to write. A Transformer's weights are closer to an alignment after it has read the
word (Chen et al. 2020, arXiv:2004.14837: Shift-Att), unless it was trained with links, which guide the attention while
a word is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from heed.data.batch.pairs import TokenPair, collate_pairs
from heed.data.batch.plan import plan_batches
from heed.data.examples import Pair, Span
from heed.data.read.links import word_spans
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.layers import RecurrentCell
from heed.models.base import PairDecoder
from heed.observe.edits import attention_of
from heed.tasks.base.looking import watched
from heed.tasks.translation.task import Translation

Array = NDArray[np.float32]
State = Literal["written", "read"]
_TOKENS = 2_000
"""Tokens of a batch, whose maps of all layers and heads are held in memory."""


@dataclass(frozen=True)
class Place:
    """The attention that links are read from.

    Attributes:
        layer: Layer of the attention to the source, from 0.
        heads: The heads whose mean is read, from 0; None for all.
        state: The state whose attention counts for a target word: the one that has "read" it, or the one by which it
            is "written".
    """

    layer: int
    heads: tuple[int, ...] | None
    state: State

    def __str__(self) -> str:
        which = "mean of all heads"
        if self.heads is not None:
            listed = " and ".join(map(str, self.heads))
            which = f"head {listed}" if len(self.heads) == 1 else f"mean of heads {listed}"
        state = "has read the word" if self.state == "read" else "writes the word"
        return f"layer {self.layer}, {which}, by the state that {state}"

    def values(self) -> dict[str, int | str | list[int]]:
        """The place as plain values, for reports."""
        return {
            "layer": self.layer,
            "heads": "mean" if self.heads is None else list(self.heads),
            "state": self.state,
        }


def layers_of(model: PairDecoder, name: str) -> list[int]:
    """The layers of a model that attend to the source; `name` is the model's name in errors.

    Raises:
        ConfigError: No layer attends to the source.
    """
    layers = sorted({module.layer for module in attention_of(model).values() if module.mechanism == "cross"})
    if not layers:
        raise ConfigError(f"model '{name}' has no attention to the source, so it cannot align words")
    return layers


def num_heads_of(model: PairDecoder, layer: int) -> int:
    """The number of heads of a layer's attention to the source."""
    modules = attention_of(model).values()
    return next(getattr(one, "num_heads", 1) for one in modules if one.mechanism == "cross" and one.layer == layer)


def taught_place(task: Translation, model: PairDecoder) -> Place | None:
    """The layer and heads that were trained with links; None without guided attention."""
    taught = task.config.training.supervision
    if taught is None:
        return None
    heads = [taught.heads] if isinstance(taught.heads, int) else taught.heads
    return Place(
        layers_of(model, task.config.model.name)[taught.layer], None if heads == "mean" else tuple(heads), "written"
    )


def usual_place(task: Translation, model: PairDecoder) -> Place:
    """The place that links are read from by default.

    The layer and heads that were trained with links; else the mean of all heads. For a Transformer, it is the middle
    layer and the state that has read the word; for a model with recurrent cells, the last layer and the state that
    writes the word.
    """
    layers = layers_of(model, task.config.model.name)
    if (taught := taught_place(task, model)) is not None:
        return taught
    if not any(isinstance(module, RecurrentCell) for module in model.modules()):
        return Place(layers[(len(layers) - 1) // 2], None, "read")
    return Place(layers[-1], None, "written")


def word_weights(
    task: Translation,
    model: PairDecoder,
    pairs: Sequence[Pair],
    layers: Sequence[int],
    state: State,
    written: Sequence[Sequence[int]] | None = None,
) -> Iterator[tuple[int, Array]]:
    """The weights between the words of pairs, in any order.

    Args:
        task: The task, with the tokenizers.
        model: The model whose attention is read.
        pairs: The texts; pairs with a blank side are left out.
        layers: The layers to read from.
        state: The state of each target token to read from.
        written: The tokens of each target, if known, as for outputs of the model.

    Yields:
        The number of a pair, and its weights `(layers, heads, target words, source words)`.
    """
    ids = [None] * len(pairs) if written is None else written
    encoded = [_Encoded.of(task, pair, given) for pair, given in zip(pairs, ids, strict=True)]
    chosen = [n for n, one in enumerate(encoded) if one.of_source.size and one.of_target.size]
    tokens = [encoded[n].tokens for n in chosen]
    device = next(model.parameters()).device
    only: dict[str, Any] = {"layer": layers[0]} if len(layers) == 1 else {}
    for indices in plan_batches([pair.cost for pair in tokens], _TOKENS):
        batch = collate_pairs(tokens, indices).to(device)
        with watched(model, mechanism="cross", **only) as seen:
            model(batch.source, batch.source_mask, batch.target)
        maps = [seen.weights("cross", layer).float().cpu() for layer in layers]
        for row, index in enumerate(indices):
            one = encoded[chosen[index]]
            of_tokens = torch.stack([layer[row] for layer in maps]).numpy()  # (layers, heads, target + 1, source)
            yield chosen[index], one.of_words(of_tokens, state)


@dataclass(frozen=True)
class _Encoded:
    """A pair as tokens, and the share of each token in each word, `(tokens, words)`."""

    tokens: TokenPair
    of_source: Array
    of_target: Array

    @classmethod
    def of(cls, task: Translation, pair: Pair, written: Sequence[int] | None) -> _Encoded:
        """Encode a pair, with the given tokens of its target if there are any."""
        source, words = task.source_tokenizer.encode(pair.source), word_spans(pair.source)
        framed = task.framed(source.ids)
        of_source = np.zeros((len(framed), len(words)), dtype=np.float32)
        inside = task.within(len(framed))  # a long source may be cut
        of_source[inside] = _overlaps(source.spans[: inside.stop - inside.start], words)
        if written is not None:
            return cls(TokenPair(framed, list(written)), of_source, _written_words(task.target_tokenizer, written))
        target = task.target_tokenizer.encode(pair.target)
        return cls(TokenPair(framed, target.ids), of_source, _overlaps(target.spans, word_spans(pair.target)))

    def of_words(self, weights: Array, state: State) -> Array:
        """Convert padded weights of tokens, `(..., target + 1, source)`, to weights of words."""
        num_targets, first = len(self.of_target), int(state == "read")
        rows = weights[..., first : first + num_targets, : len(self.of_source)] @ self.of_source
        counts = np.maximum(self.of_target.sum(0), 1e-9)[:, None]
        words: Array = (self.of_target.T @ rows) / counts
        return words


def _overlaps(tokens: Sequence[Span], words: Sequence[Span]) -> Array:
    """The share of each token's characters in words that lies in each word; zero for a token of spaces."""
    if not tokens or not words:
        return np.zeros((len(tokens), len(words)), dtype=np.float32)
    starts, ends = np.array(tokens, dtype=np.float32).T[:, :, None]
    first, last = np.array(words, dtype=np.float32).T
    shared = np.maximum(np.minimum(ends, last) - np.maximum(starts, first), 0)
    share: Array = shared / np.maximum(shared.sum(1, keepdims=True), 1)
    return share


def _written_words(tokenizer: TextTokenizer, ids: Sequence[int]) -> Array:
    """As `_overlaps`, for tokens that a model wrote: each belongs to the last word of the text up to it."""
    ends = [len(tokenizer.decode(ids[: n + 1]).split()) for n in range(len(ids))]
    words = np.zeros((len(ids), max(ends, default=0)), dtype=np.float32)
    for n, end in enumerate(ends):
        if end:
            words[n, end - 1] = 1
    return words
