"""Measures of a language model over documents or pieces of text, the trigram baseline, and the report.

Trigram model over a run's own tokens:

    p(c)       = (n(c) + 1) / (N + V)
    p(c | b)   = (n(bc) + m p(c)) / (n(b.) + m)
    p(c | ab)  = (n(abc) + m p(c | b)) / (n(ab.) + m)        m = 5

Source: MacKay and Peto 1995, Natural Language Engineering 1 (3), hierarchical Dirichlet smoothing, with one fixed m.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.kinds.documents import Document
from heed.evaluation.measures import Array, Outcomes, rate
from heed.tasks.base.report import counted_are, span, with_interval
from heed.tasks.language_modelling.scoring import TokenScores

FEW_DOCUMENTS = 20
"""With fewer documents than this, pieces of their text are resampled for intervals."""
PIECE = 1_000
"""Characters of a piece; the last one of a document has the rest."""
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Units:
    """Documents, or pieces of documents, whose borders do not depend on a tokenizer.

    Attributes:
        documents: All documents.
        owner: `(units,)`, which document each unit is of.
        starts: `(units,)`, its first character in that document.
        stops: `(units,)`, one after its last character.
    """

    documents: Sequence[Document]
    owner: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Units:
        """Use the documents themselves if there are enough of them, else pieces of 1,000 characters."""
        lengths = [len(document.text) for document in documents]
        if len(lengths) >= FEW_DOCUMENTS:
            count = len(lengths)
            return cls(documents, np.arange(count), np.zeros(count, np.int64), np.array(lengths, np.int64))
        starts = [np.arange(0, max(1, length), PIECE) for length in lengths]
        owner = np.repeat(np.arange(len(lengths)), [len(own) for own in starts])
        joined = np.concatenate(starts) if starts else np.zeros(0, np.int64)
        return cls(documents, owner, joined, np.minimum(joined + PIECE, np.array(lengths, np.int64)[owner]))

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def are_pieces(self) -> bool:
        """True if the units are pieces, not documents."""
        return len(self.documents) < FEW_DOCUMENTS

    @property
    def name(self) -> str:
        """Name of the units, in the plural."""
        return f"pieces of {PIECE:,} characters" if self.are_pieces else "documents"

    @property
    def texts(self) -> list[str]:
        """The text of each unit."""
        places = zip(self.owner.tolist(), self.starts.tolist(), self.stops.tolist(), strict=True)
        return [self.documents[owner].text[start:stop] for owner, start, stop in places]

    @cached_property
    def sizes(self) -> Array:
        """Words, characters and bytes of each unit, `(units, 3)`; a word belongs to the unit that it begins in."""
        sizes = np.zeros((len(self), 3))
        sizes[:, 1] = self.stops - self.starts
        sizes[:, 2] = [len(text.encode()) for text in self.texts]
        if not self.are_pieces:
            sizes[:, 0] = [len(document.text.split()) for document in self.documents]
            return sizes
        for number, document in enumerate(self.documents):
            words = np.array([match.start() for match in _WORD.finditer(document.text)], dtype=np.int64)
            np.add.at(sizes[:, 0], self.at(number, words), 1)
        return sizes

    def at(self, document: int, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """The unit that each of some characters of a document is in."""
        first, last = np.searchsorted(self.owner, [document, document + 1])
        found: NDArray[np.int64] = first + np.searchsorted(self.starts[first:last], characters, side="right") - 1
        return found


PER_TOKEN = ("perplexity",)
"""Measures that cannot be compared between tokenizers."""


def outcomes_of(units: Units, scores: Sequence[TokenScores], changed: int = 0) -> Outcomes:
    """Compute the measures of documents whose every token was scored.

    Args:
        units: The documents, or their pieces.
        scores: Scores of the tokens of each document.
        changed: Number of documents whose text the tokenizer changes (case, normalisation).
    """
    nll, tokens, unknown = (np.zeros(len(units)) for _ in range(3))
    for number, one in enumerate(scores):
        places = units.at(number, one.spans[:, 0].astype(np.int64))
        np.add.at(nll, places, -one.log_probs)
        np.add.at(tokens, places, 1.0)
        np.add.at(unknown, places, one.unknown)
    words, characters, num_bytes = units.sizes.T
    measures = (
        rate("bits_per_byte", "bits per byte", nll / math.log(2), num_bytes, 3),
        rate("perplexity", "perplexity", nll, tokens, 2, np.exp),
        rate("word_perplexity", "perplexity per word", nll, words, 1, np.exp),
    )
    further = (
        rate("bits_per_character", "bits per character", nll / math.log(2), characters, 3),
        rate("loss", "loss", nll, tokens, 3),
    )
    ends = [one.end for one in scores if one.end is not None]
    details: dict[str, Any] = {
        "examples": len(units.documents),
        "intervals_over": {"what": units.name, "count": len(units)},
        "tokens": int(tokens.sum()),
        "words": int(words.sum()),
        "characters": int(characters.sum()),
        "bytes": int(num_bytes.sum()),
        "unknown_tokens": int(unknown.sum()),
        "changed_documents": changed,
        "end_tokens": len(ends),
    }
    if ends:
        details["end_token_loss"] = -float(np.mean([end.log_probs.sum() for end in ends]))
    details["by_place"] = _by_place(scores)
    outputs = tuple(f"{bits:.3f} bits per byte" for bits in measures[0].each())
    return Outcomes(outputs, measures, further, details=details)


def _by_place(scores: Sequence[TokenScores]) -> list[dict[str, Any]]:
    """The loss by position in the context, from 0, in ranges of doubling width: 0, 1, 2-3, 4-7, ..."""
    places = np.concatenate([np.zeros(0, np.int32), *(one.seen for one in scores)]) - 1
    nll = -np.concatenate([np.zeros(0), *(one.log_probs for one in scores)])
    ranges: NDArray[np.int64] = np.frexp(places)[1].astype(np.int64)  # 0 for 0, else 1 + floor of the binary logarithm
    found = []
    for power in np.unique(ranges).tolist():
        inside = ranges == power
        first, last = (2 ** (power - 1), 2**power - 1) if power else (0, 0)
        last = int(min(last, places.max()))
        found.append({"first": first, "last": last, "tokens": int(inside.sum()), "loss": float(nll[inside].mean())})
    return found


_STRENGTH = 5.0
"""m above."""
_MOST = 20_000_000
"""Tokens that are counted: the first ones of the training data."""
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Sorted keys, and how often each occurs."""


class Trigram:
    """Counts of a stream of tokens."""

    def __init__(self, ids: Sequence[int] | NDArray[np.int64], vocab_size: int) -> None:
        stream = np.asarray(ids[:_MOST], dtype=np.int64)
        self._size = vocab_size
        pairs = stream[:-1] * vocab_size + stream[1:]
        triples = pairs[:-1] * vocab_size + stream[2:]
        self._ones = np.bincount(stream, minlength=vocab_size)
        self._before_pairs = np.bincount(stream[:-1], minlength=vocab_size)
        self._pairs, self._triples = _counted(pairs), _counted(triples)
        self._before_triples = _counted(pairs[:-1])

    def log_probs(self, ids: NDArray[np.int64], first_token: int) -> NDArray[np.float64]:
        """Natural log-probability of each of the tokens of a document, `(tokens,)`, the first after `first_token`."""
        read = np.concatenate([[first_token], ids]).astype(np.int64)
        before, own = read[:-1], read[1:]
        chances = (self._ones[own] + 1) / (self._ones.sum() + self._size)
        pairs = before * self._size + own
        chances = _mixed(_looked_up(self._pairs, pairs), self._before_pairs[before], chances)
        if len(own) > 1:
            triples = pairs[:-1] * self._size + own[1:]
            seen = _looked_up(self._before_triples, pairs[:-1])
            chances[1:] = _mixed(_looked_up(self._triples, triples), seen, chances[1:])
        return np.log(chances)


def _counted(keys: NDArray[np.int64]) -> Counts:
    found, counts = np.unique(keys, return_counts=True)
    return found, counts


def _looked_up(counts: Counts, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    known, numbers = counts
    if not len(known):
        return np.zeros(len(keys), np.int64)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found: NDArray[np.int64] = np.where(known[places] == keys, numbers[places], 0)
    return found


def _mixed(count: NDArray[np.int64], total: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.float64]:
    mixed: NDArray[np.float64] = (count + _STRENGTH * chances) / (total + _STRENGTH)
    return mixed


_LINES = {
    "perplexity": "perplexity per token",
    "word_perplexity": "perplexity per word",
    "bits_per_character": "bits per character",
    "bits_per_byte": "bits per byte",
    "loss": "nats per token",
}


def body(report: dict[str, Any]) -> list[str]:
    """Lines with the scores of one set."""
    lines = [f"  {label:<20} {with_interval(report[name])}" for name, label in _LINES.items() if name in report]
    counts = ", ".join(f"{report[name]:,} {name}" for name in ("tokens", "words", "characters", "bytes"))
    lines.append(f"  of {counts}; every token is scored once")
    over = report["intervals_over"]
    few = "" if over["what"] == "documents" else f", because there are fewer than {FEW_DOCUMENTS} documents"
    lines.append(f"  intervals over {over['count']:,} {over['what']}{few}")
    lines.append(f"  {_context(report)}")
    if report["end_tokens"]:
        ends = f"{report['end_tokens']:,} end token{'s' if report['end_tokens'] > 1 else ''}"
        lines.append(f"  {ends} not counted above: {report['end_token_loss']:.4g} nats each")
    if report["unknown_tokens"]:
        lines.append(
            f"  {counted_are(report['unknown_tokens'], 'token')} unknown to the tokenizer: the text they replace is "
            "not scored, so bits and perplexity are not those of the raw text"
        )
    if report["changed_documents"]:
        lines.append(
            f"  {counted_are(report['changed_documents'], 'document')} normalised or lower-cased before reading: bits "
            "are those of the changed text, per character and byte of the raw text"
        )
    lines.append("  nats per token by position in the context (0 is the first):")
    for part in report["by_place"]:
        lines.append(f"    {span(part):>12}  {part['loss']:.4f}  ({part['tokens']:,})")
    return lines


def _context(report: dict[str, Any]) -> str:
    """Describe how much text each token was predicted from."""
    context, stride = report["context"], report["stride"]
    if context is None:
        return "each token is predicted from all earlier text of its document"
    if stride == context:
        hint = "a smaller evaluation.stride predicts tokens from more text"
        return f"context {context}, stride {stride}: windows do not overlap; {hint}"
    return (
        f"context {context}, stride {stride}: each token is predicted from at least {context - stride} tokens before it"
    )
