"""Attention from target words to source words, of any layer and head, while given targets are read.

Words are separated by spaces. Weights are averaged over the tokens of a target word and summed over the tokens of a
source word:

    w_ji = mean over tokens t of word j of the sum over tokens s of word i of a_ts

A target token has two states: the one that writes it, and the one that has read it, a row later. A recurrent decoder
attends to the word that it is about to write. A Transformer's weights are closer to an alignment after it has read the
word (Chen et al. 2020, arXiv:2004.14837: Shift-Att), unless it was trained with links, which guide the attention while
a word is written.

`word_links` gives the source words that a model attended to while it wrote, `aligned_counts` how often attention
agrees with known links.
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
from heed.data.examples import Link, Pair, Span
from heed.data.kinds.links import word_spans
from heed.data.tokens.special import UNKNOWN
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.layers import RecurrentCell
from heed.models.base import PairDecoder
from heed.observe.edits import attention_of
from heed.tasks.base.looking import Words, watched
from heed.tasks.translation.task import Translation

Array = NDArray[np.float32]
State = Literal["written", "read"]
_TOKENS = 2_000
"""Tokens of a batch, whose maps of all layers and heads are held in memory."""


@dataclass(frozen=True)
class AttentionPlace:
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


def taught_place(task: Translation, model: PairDecoder) -> AttentionPlace | None:
    """The layer and heads that were trained with links; None without guided attention."""
    taught = task.config.training.supervision
    if taught is None:
        return None
    heads = [taught.heads] if isinstance(taught.heads, int) else taught.heads
    return AttentionPlace(
        layers_of(model, task.config.model.name)[taught.layer], None if heads == "mean" else tuple(heads), "written"
    )


def usual_place(task: Translation, model: PairDecoder) -> AttentionPlace:
    """The place that links are read from by default.

    The layer and heads that were trained with links; else the mean of all heads. For a Transformer, it is the middle
    layer and the state that has read the word; for a model with recurrent cells, the last layer and the state that
    writes the word.
    """
    layers = layers_of(model, task.config.model.name)
    if (taught := taught_place(task, model)) is not None:
        return taught
    if not any(isinstance(module, RecurrentCell) for module in model.modules()):
        return AttentionPlace(layers[(len(layers) - 1) // 2], None, "read")
    return AttentionPlace(layers[-1], None, "written")


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


_BATCH = 64
"""Pairs that are aligned at once."""


def aligned_characters(
    best: Sequence[int], query_spans: Sequence[Span], key_spans: Sequence[Span], links: Sequence[Link]
) -> tuple[int, int]:
    """Count the target characters whose largest weight lies in the source text they come from.

    `best` is the source token with the largest weight of each target token; spans are those of the tokens' characters.

    Returns:
        Number of linked target characters that are aligned right, and number of linked target characters. A
        character counts as right when the source token most attended to overlaps the linked source span. The
        alignment error is 1 - right / linked; with single best keys it is 1 - precision.
    """
    right = linked = 0
    for link in links:
        for token, (start, end) in enumerate(query_spans):
            shared = min(end, link.target[1]) - max(start, link.target[0])
            if shared <= 0:
                continue
            linked += shared
            first, last = key_spans[best[token]]
            if first < link.source[1] and last > link.source[0]:
                right += shared
    return right, linked


def _read(task: Translation, model: PairDecoder) -> tuple[int, slice | list[int]]:
    """The layer and the heads to read attention from."""
    place = taught_place(task, model)
    return (-1, slice(None)) if place is None else (place.layer, slice(None) if place.heads is None else [*place.heads])


def aligned_counts(task: Translation, model: PairDecoder, pairs: Sequence[Pair]) -> tuple[list[int], list[int]] | None:
    """Number of linked target characters that attention aligns right, per pair (references, teacher forcing).

    Uses the layer and heads that were trained with links, else the last layer and the mean over heads. Pairs without
    known links count 0.

    Returns:
        Right and linked characters per pair (see `aligned_characters`); None for a model that does not attend
        to the source.
    """
    if not model.aligns:
        return None
    device = next(model.parameters()).device
    layer, heads = _read(task, model)
    right, linked = [0] * len(pairs), [0] * len(pairs)
    known = [i for i, pair in enumerate(pairs) if pair.links]
    known.sort(key=lambda i: len(pairs[i].source))
    for start in range(0, len(known), _BATCH):
        chosen = known[start : start + _BATCH]
        batch = task.collate_pairs([pairs[i] for i in chosen]).to(device)
        with watched(model, mechanism="cross", layer=layer) as seen:
            model(batch.source, batch.source_mask, batch.target)
        weights = seen.maps("cross").weights[:, heads].mean(1)  # (B, T, S)
        for row, i in enumerate(chosen):
            query_spans = task.target_tokenizer.encode(pairs[i].target).spans
            key_spans = task.source_tokenizer.encode(pairs[i].source).spans
            first = len(task.frame[0])
            best = weights[row, :, first : first + len(key_spans)].argmax(-1).tolist()
            right[i], linked[i] = aligned_characters(best, query_spans, key_spans, pairs[i].links or ())
    return right, linked


def word_links(
    task: Translation, model: PairDecoder, source: str, ids: Sequence[int]
) -> tuple[list[tuple[int, int]], dict[int, str]]:
    """The source word with the largest attention weight for each written word.

    Returns:
        Pairs (source word, target word), counted from 0, punctuation marks as words (the Pharaoh format of word
        aligners); and for each unknown token, by position, the source word with its largest weight. Both are empty for
        a model that does not attend to the source.
    """
    if not ids or not model.aligns:
        return [], {}
    batch = task.forced_batch(source, ids).to(next(model.parameters()).device)
    layer, heads = _read(task, model)
    with watched(model, mechanism="cross", layer=layer) as seen:
        model(batch.source, batch.source_mask, batch.target)
    inside = task.within(batch.source.shape[1])
    sources = Words.of(task.source_tokenizer, batch.source[0, inside].tolist(), "source", {})
    targets = Words.of(task.target_tokenizer, ids, "target", {})
    # Rows are tokens written, without the end token's, columns source words.
    per_word = sources.sum(seen.maps("cross").weights[0, heads].mean(0)[: len(ids), inside])
    best = targets.mean(per_word.T).argmax(0).tolist()
    spans = task.source_tokenizer.encode(source).spans
    instead = {}
    for position in (n for n, token in enumerate(ids) if token == UNKNOWN):
        word = sources.tokens[int(per_word[position].argmax())]
        instead[position] = source[spans[word.start][0] : spans[word.stop - 1][1]].strip()
    return list(zip(best, range(len(best)), strict=True)), instead
