"""Seeded subword sampling, which the `tokenizers` library lacks, and how much longer it makes texts.

A text of n tokens has about `mean * n` when it is cut at random, with a variance of `variance * n`, since words are cut
independently. `Growth.bound` is two standard deviations above that, so that batches can be planned; the few texts that
exceed it have some of their words cut without sampling. Growth is measured on 200 texts. `training.batch_tokens` and
`data.max_length` apply to the sampled tokens.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models

_UNKNOWN_PENALTY = 10.0
"""Score of an unknown character below that of the least probable token, in nats (as in SentencePiece)."""


Cut = tuple[int, int, int]
"""A token of a piece of text: its id, start and end in the piece."""


class _Cutter(Protocol):
    def cut(self, piece: str, draw: random.Random) -> list[Cut]:
        """The tokens of a piece of text, which no token extends beyond."""
        ...


class SubwordSampler:
    """Tokenization at random for bpe, byte_bpe and unigram, and without sampling for other kinds.

    For both kinds of bpe, the amount is the share of merges dropped (Provilkov et al. 2020, arXiv:1910.13267); for
    unigram, the exponent of the probabilities of tokenizations (Kudo 2018, arXiv:1804.10959): smaller is more even.
    """

    def __init__(self, library: Tokenizer, amount: float) -> None:
        self._plain = library
        self._normalizer, self._splitter = library.normalizer, library.pre_tokenizer
        self._cutter = _cutter(library, amount)
        self._bytes = isinstance(library.decoder, decoders.ByteLevel)

    @property
    def samples(self) -> bool:
        """True if texts are tokenized at random."""
        return self._cutter is not None

    def count(self, text: str) -> int:
        """Number of tokens of a text without sampling."""
        return len(self._plain.encode(text, add_special_tokens=False).ids)

    def encode(self, text: str, seed: int, most: int | None = None) -> list[int]:
        """One text to ids, without start and end; a function of text and seed.

        If there are more than `most`, randomly chosen words are tokenized without sampling until there are not, or
        all are.
        """
        if self._cutter is None:
            ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
            return ids
        return [token for _, _, cut in self._cut(self._normalized(text), seed, most) for token, _, _ in cut]

    def encode_spans(self, text: str, seed: int, most: int | None = None) -> tuple[list[int], list[tuple[int, int]]]:
        """As `encode`, and the character span `(start, end)` of each token in the normalised text."""
        text = self._normalized(text)
        if self._cutter is None:
            encoding = self._plain.encode(text, add_special_tokens=False)
            return encoding.ids, encoding.offsets
        ids, spans = [], []
        for piece, (start, end), cut in self._cut(text, seed, most):
            places = self._places(piece, text, start, end)
            ids += [token for token, _, _ in cut]
            spans += [(places[first], places[last - 1] + 1) for _, first, last in cut]
        return ids, spans

    def _normalized(self, text: str) -> str:
        return text if self._normalizer is None else str(self._normalizer.normalize_str(text))

    def _cut(self, text: str, seed: int, most: int | None) -> list[tuple[str, tuple[int, int], list[Cut]]]:
        """The pieces of a normalised text, each with its span and tokens."""
        assert self._cutter is not None
        draw = random.Random(seed)
        cuts = [(piece, span, self._cutter.cut(piece, draw)) for piece, span in self._splitter.pre_tokenize_str(text)]
        excess = 0 if most is None else sum(len(cut) for _, _, cut in cuts) - most
        for place in draw.sample(range(len(cuts)), len(cuts)) if excess > 0 else ():
            piece, span, cut = cuts[place]
            plain = self._cut_as_always(piece)
            if len(plain) < len(cut):
                cuts[place] = piece, span, plain
                excess -= len(cut) - len(plain)
            if excess <= 0:
                break
        return cuts

    def _cut_as_always(self, piece: str) -> list[Cut]:
        character = [n for n, c in enumerate(piece) for _ in c.encode()] + [len(piece)]  # index for each byte
        tokens = self._plain.model.tokenize(piece)
        return [(token.id, *(character[offset] for offset in token.offsets)) for token in tokens]

    def _places(self, piece: str, text: str, start: int, end: int) -> list[int]:
        """The index in the text of each character of a piece.

        A piece may begin with the mark of a space that is not in the text; it has the index of the next character, as
        in the library.
        """
        units = [n for n, c in enumerate(text[start:end], start) for _ in (c.encode() if self._bytes else c)]
        return [start] * (len(piece) - len(units)) + units


def _cutter(library: Tokenizer, amount: float) -> _Cutter | None:
    model = json.loads(library.to_str())["model"]
    if isinstance(library.model, models.BPE):
        return _Merges(model, amount) if model["merges"] else None
    return _Lattice(model, amount) if isinstance(library.model, models.Unigram) else None


class _Merges:
    """BPE-dropout: at each step every possible merge is dropped with a probability, and the best of the rest done."""

    def __init__(self, model: dict[str, object], dropped: float) -> None:
        self._ids: dict[str, int] = model["vocab"]  # type: ignore[assignment]
        self._unknown = self._ids.get(str(model["unk_token"]))  # without one unknown characters are left out
        merges: list[list[str]] = model["merges"]  # type: ignore[assignment]
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}
        self._dropped = dropped

    def cut(self, piece: str, draw: random.Random) -> list[Cut]:
        parts = list(piece)
        ranks, dropped = self._ranks, self._dropped
        while True:
            pairs = ((pair, place) for place, pair in enumerate(pairwise(parts)) if pair in ranks)
            best = min(((ranks[pair], place) for pair, place in pairs if draw.random() >= dropped), default=None)
            if best is None:
                ends = list(accumulate(map(len, parts)))
                ids = (self._ids.get(part, self._unknown) for part in parts)
                cuts = zip(ids, parts, ends, strict=True)
                return [(i, end - len(part), end) for i, part, end in cuts if i is not None]
            place = best[1]
            parts[place : place + 2] = [parts[place] + parts[place + 1]]


class _Lattice:
    """Unigram: a tokenization is drawn in proportion to the product of its tokens' probabilities to the `exponent`.

    Forward sums over the lattice of all tokens, then sampling from its end to its start.
    """

    def __init__(self, model: dict[str, object], exponent: float) -> None:
        vocab: list[tuple[str, float]] = model["vocab"]  # type: ignore[assignment]
        self._unknown = int(model["unk_id"])  # type: ignore[call-overload]
        self._tokens = {
            text: (i, exponent * score) for i, (text, score) in enumerate(vocab) if text and i != self._unknown
        }
        self._longest = max(map(len, self._tokens), default=1)
        self._penalty = exponent * (min(score for _, score in vocab) - _UNKNOWN_PENALTY)

    def cut(self, piece: str, draw: random.Random) -> list[Cut]:
        known, unknown = self._tokens, (self._unknown, self._penalty)
        total = [0.0]  # log of the sum over all tokenizations up to each position
        ways: list[list[tuple[int, int, float]]] = [[]]  # start, token and log-weight of each token that ends here
        for end in range(1, len(piece) + 1):
            here = [
                (start, token, total[start] + score)
                for start in range(max(0, end - self._longest), end)
                for token, score in (known.get(piece[start:end], unknown if start == end - 1 else (-1, 0.0)),)
                if token >= 0
            ]
            largest = max(weight for _, _, weight in here)
            total.append(largest + math.log(sum(math.exp(weight - largest) for _, _, weight in here)))
            ways.append(here)
        cuts: list[Cut] = []
        end = len(piece)
        while end > 0:
            start, token, _ = draw.choices(ways[end], [math.exp(weight - total[end]) for _, _, weight in ways[end]])[0]
            if token == self._unknown and cuts and cuts[-1][0] == self._unknown:  # the library joins them, too
                cuts[-1] = (token, start, cuts[-1][2])
            else:
                cuts.append((token, start, end))
            end = start
        return cuts[::-1]


MEASURED = 200
"""Number of texts on which growth is measured."""


@dataclass(frozen=True)
class Growth:
    """Mean and variance of the number of tokens with sampling, for each token without."""

    mean: float = 1.0
    variance: float = 0.0

    @classmethod
    def measured(cls, sampler: SubwordSampler, texts: Sequence[str]) -> Growth:
        """The growth measured on texts."""
        known = [(text, length) for text in texts if (length := sampler.count(text)) > 0]
        if not known or not sampler.samples:
            return cls()
        drawn = np.array([len(sampler.encode(text, seed)) for seed, (text, _) in enumerate(known)])
        plain = np.array([length for _, length in known])
        mean = drawn.sum() / plain.sum()
        return cls(float(mean), float(np.mean((drawn - mean * plain) ** 2 / plain)))

    def bound(self, lengths: NDArray[np.int32]) -> NDArray[np.int32]:
        """Most tokens of texts of these lengths: two standard deviations above the mean, at least the lengths."""
        grown = np.ceil(self.mean * lengths + 2 * np.sqrt(self.variance * lengths))
        most: NDArray[np.int32] = np.maximum(grown, lengths).astype(np.int32)
        return most
