"""Scores of texts: log-probability and rank of every token, and measures over documents.

A document longer than `data.context` is read in windows of that many tokens, which advance by `stride`:

    window k reads the tokens before places k s .. k s + context - 1, and scores those that no earlier one scored

so every token is scored once: the first of a document after the stream's first token (end or start), and each after at
least context - stride tokens, where there are as many. A model that carries a state reads a document from its
beginning to its end; its context is everything before.

Source: Press, Smith and Lewis 2021 (arXiv:2012.15832), section 3, on windows and what the stride costs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.attention import Rows
from heed.data.batch import pad_rows
from heed.data.kinds.documents import Document
from heed.evaluation.measures import Array, Outcomes, rate
from heed.kernels import piece_positions
from heed.models.base import LanguageModel
from heed.tasks.base.predictions import rounded
from heed.threads import threads_for
from heed.training.processes import current
from heed.visible import visible

if TYPE_CHECKING:
    from heed.tasks.inputs.stream import Stream

TOGETHER = 8_192
"""Tokens scored at once."""
_BATCHES = 64
"""Batches after which scores are written to the results."""
_MARK = "\u2581"
Ids = NDArray[Any]
"""`(tokens,)` integers."""


@dataclass(frozen=True, eq=False)
class IdScores:
    """The scores of a sequence of tokens, `(tokens,)` each."""

    log_probs: NDArray[np.float64]  # Float64, in nats
    # Int32, 1 for the most probable token; equally probable tokens have the same rank. None if not asked for
    ranks: NDArray[np.int32] | None
    seen: NDArray[np.int32]  # Int32, number of tokens that each was predicted from, including the stream's first token

    def part(self, part: slice) -> IdScores:
        """The scores of some of the tokens."""
        return IdScores(self.log_probs[part], None if self.ranks is None else self.ranks[part], self.seen[part])


@dataclass(frozen=True, eq=False)
class TokenScores(IdScores):
    """The scores of the tokens of a text."""

    ids: Ids  # `(tokens,)`, the tokens
    spans: NDArray[np.int32]  # `(tokens, 2)`, the characters of the text that each token stands for, as start and end
    end: IdScores | None  # the scores of the end token after the text; None if the run has none
    unknown_token: int

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """`(tokens,)`, True for unknown tokens, whose probability is that of any unknown piece of text."""
        is_unknown: NDArray[np.bool_] = self.ids == self.unknown_token
        return is_unknown


def score_texts(
    input: Stream, model: LanguageModel, texts: Sequence[str], stride: int | None = None, ranks: bool = True
) -> list[TokenScores]:
    """Score every token of each text, and its end token if the run has one.

    A blank text has no tokens. `stride` is the number of tokens by which a window advances, by default the context.
    """
    special = input.tokenizer.special
    end = [special.end] if input.end_token else []
    rows, spans = [], []
    for text in texts:
        encoded = input.tokenizer.encode(text)
        rows.append(np.array([*encoded.ids, *end], dtype=np.int32))
        spans.append(np.array(encoded.spans, dtype=np.int32).reshape(-1, 2))  # as tuples they are ten times as large
    results = []
    for places, ids, scores in zip(spans, rows, score_ids(input, model, rows, stride, ranks), strict=True):
        count = len(places)
        last = scores.part(slice(count, None)) if end else None
        part = vars(scores.part(slice(0, count)))
        results.append(TokenScores(**part, ids=ids[:count], spans=places, end=last, unknown_token=special.unknown))
    return results


def score_ids(
    input: Stream, model: LanguageModel, rows: Sequence[Ids], stride: int | None = None, ranks: bool = True
) -> list[IdScores]:
    """Score every token of each row, a document in itself; rows are sharded over all processes."""
    lengths = [len(row) for row in rows]
    scored = [IdScores(np.zeros(n), np.zeros(n, np.int32) if ranks else None, np.zeros(n, np.int32)) for n in lengths]
    carries, context = type(model).carries, input.context
    groups = _in_turn(lengths, context) if carries else _batches(_windows(lengths, context, stride or context))
    work = partial(_scored, input, model, rows, ranks)
    for start in range(0, len(groups), _BATCHES):  # a large set's pieces all at once would be larger than its scores
        results = current().map(lambda some: [work(group) for group in some], groups[start : start + _BATCHES])
        for row, place, scores in chain.from_iterable(results):
            places = slice(place, place + len(scores.log_probs))
            scored[row].log_probs[places] = scores.log_probs
            scored[row].seen[places] = scores.seen
            if scores.ranks is not None:
                scored[row].ranks[places] = scores.ranks  # type: ignore[index]
    return scored


_Window = tuple[int, int, int, int]
"""Row, first target of the window, first target that is scored, end."""
_Turns = list[list[_Window]]
"""Batches of windows; of a model that carries its state, each reads on from the one before."""


def _windows(lengths: Sequence[int], context: int, stride: int) -> NDArray[np.int64]:
    """The windows of all rows, `(windows, 4)`."""
    parts = [np.zeros((0, 4), np.int64)]
    for row, count in enumerate(lengths):
        if count:
            starts = np.arange(0, max(1, count - context + stride), stride)
            stops = np.minimum(starts + context, count)
            scored = np.concatenate([[0], stops[:-1]])
            parts.append(np.stack([np.full(len(starts), row), starts, scored, stops], axis=1))
    return np.concatenate(parts)


def _batches(windows: NDArray[np.int64]) -> list[_Turns]:
    """Batches of windows of similar length."""
    ordered = windows[np.argsort(windows[:, 1] - windows[:, 3], kind="stable")]
    groups, start = [], 0
    while start < len(ordered):
        size = max(1, TOGETHER // int(ordered[start, 3] - ordered[start, 1]))
        groups.append([ordered[start : start + size].tolist()])
        start += size
    return groups


def _in_turn(lengths: Sequence[int], context: int) -> list[_Turns]:
    """Rows of similar length, longest first, chunk by chunk from beginning to end; a row that ends leaves the batch."""
    order = sorted((row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row])
    size = max(1, TOGETHER // context)
    together = [order[start : start + size] for start in range(0, len(order), size)]
    return [
        [
            [(row, start, start, min(start + context, lengths[row])) for row in some if lengths[row] > start]
            for start in range(0, lengths[some[0]], context)
        ]
        for some in together
    ]


def _scored(
    input: Stream, model: LanguageModel, rows: Sequence[Ids], ranks: bool, turns: _Turns
) -> list[tuple[int, int, IdScores]]:
    """Score batches of windows: for each its row, the place of the first token, and the scores from there on."""
    device, carries = next(model.parameters()).device, type(model).carries
    pieces: list[tuple[int, int, IdScores]] = []
    state, active = None, 0
    for windows in turns:
        targets = [rows[row][start:stop].tolist() for row, start, _, stop in windows]
        before = [int(rows[row][start - 1]) if start else input.first_token for row, start, _, _ in windows]
        tokens, chosen = pad_rows([[first, *part[:-1]] for first, part in zip(before, targets, strict=True)])
        labels, _ = pad_rows(targets)
        for place, (_, start, scored, _) in enumerate(windows):
            chosen[place, : scored - start] = False
        with torch.no_grad(), threads_for(model, tokens.numel()):
            if carries:
                if state is None:
                    state = model.start(None, Rows.repeat(len(windows), device=device))
                elif len(windows) < active:
                    state = state.select(torch.arange(len(windows), device=device))
                hidden, state = model.read(tokens.to(device), state)
                active = len(windows)
            else:
                hidden = model(tokens.to(device))
            log_probs, places = _of_tokens(model, hidden[chosen.to(device)], labels[chosen].to(device), ranks)
        at = 0
        for row, start, scored, stop in windows:
            part = slice(at, at := at + stop - scored)
            seen = np.arange(scored, stop, dtype=np.int32) + 1 - (0 if carries else start)
            pieces.append((row, scored, IdScores(log_probs[part], None if places is None else places[part], seen)))
    return pieces


def _of_tokens(
    model: LanguageModel, hidden: Tensor, labels: Tensor, ranks: bool
) -> tuple[NDArray[np.float64], NDArray[np.int32] | None]:
    """Log-probabilities and ranks of `labels` `(positions,)` after `hidden` `(positions, d)`, piece by piece."""
    values, places = [], []
    size = piece_positions(int(model.config.vocab_size), hidden.device.type)  # type: ignore[attr-defined]
    for part, label in zip(hidden.split(size), labels.split(size), strict=True):
        logits = model.logits(part)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        of_label = logits.gather(-1, label.unsqueeze(-1))
        values.append((of_label.squeeze(-1) - logits.logsumexp(-1)).double().cpu().numpy())
        if ranks:
            places.append(((logits > of_label).sum(-1) + 1).int().cpu().numpy())
    log_probs = np.concatenate(values) if values else np.zeros(0)
    return log_probs, (np.concatenate(places) if places else np.zeros(0, np.int32)) if ranks else None


@dataclass(frozen=True)
class ScoredText:
    """The scores of a text, each token predicted from those before it.

    Attributes:
        text: The text.
        tokens: Its tokens, as written in the vocabulary.
        spans: Start and end of the characters that each token stands for.
        log_probs: Natural log-probability of each token.
        ranks: Rank of each token by probability within the vocabulary, from 1.
        unknown: True for each unknown token.
        end_log_prob: Natural log-probability of the end token after the text, not included in any other number; None
            if the run has no end token.
    """

    text: str
    tokens: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    log_probs: tuple[float, ...]
    ranks: tuple[int, ...]
    unknown: tuple[bool, ...]
    end_log_prob: float | None

    @property
    def log_prob(self) -> float:
        """Natural log-probability of the text, without an end token."""
        return math.fsum(self.log_probs)

    @property
    def bits(self) -> tuple[float, ...]:
        """Surprisal of each token: -log2 of its probability."""
        return tuple(-p / math.log(2) for p in self.log_probs)

    @property
    def num_bytes(self) -> int:
        """Bytes of the text in UTF-8."""
        return len(self.text.encode("utf-8", "surrogatepass"))

    @property
    def bits_per_byte(self) -> float:
        """Surprisal of the text in bits, divided by its bytes; nan for an empty text."""
        return math.fsum(self.bits) / self.num_bytes if self.text else math.nan

    def as_json(self) -> dict[str, Any]:
        """The values of `heed predict --score --json`."""
        names = ("text", "log_prob", "bits_per_byte", "tokens", "spans", "log_probs", "ranks", "end_log_prob")
        values = {name: rounded(getattr(self, name)) for name in names}
        return values if self.text else {**values, "bits_per_byte": None}

    def lines(self) -> tuple[str, ...]:
        """A line for each token, and a line for the text."""
        lines = ["    nats    bits    rank  token"]
        for token, p, bits, place in zip(self.tokens, self.log_probs, self.bits, self.ranks, strict=True):
            lines.append(f"{p:8.3f}{bits:8.3f}{place:8}  {visible(token.replace(_MARK, ' '))}")
        total = f"log-probability {self.log_prob:.4f} nats of {len(self.tokens)} tokens"
        if self.tokens:
            total += f"; {self.bits_per_byte:.4f} bits per byte ({self.num_bytes} bytes)"
        if self.end_log_prob is not None:
            total += f"; an end token after it, not counted: {self.end_log_prob:.4f}"
        return (*lines, total)

    @property
    def perplexity(self) -> float:
        """`exp` of the mean negative log-probability of a token; nan without tokens."""
        return math.exp(min(700.0, -self.log_prob / len(self.tokens))) if self.tokens else math.nan


def usual_stride(input: Stream) -> int:
    """A quarter of the context: tokens are scored from at least three quarters of it, in a text as long as that."""
    return max(1, input.context // 4)


def score_each(
    input: Stream, model: LanguageModel, texts: Sequence[str], stride: int | None = None, ranks: bool = True
) -> list[ScoredText]:
    """Score each text as a separate document; `stride` as `evaluation.stride`, a quarter of the context by default.

    Ranks are empty if `ranks` is False. Evaluation may use another stride; the scores of a text longer than the context
    then differ.
    """
    results = score_texts(input, model, texts, stride or usual_stride(input), ranks)
    return [
        ScoredText(
            text,
            tuple(input.tokenizer.piece(int(i)) for i in scores.ids),
            tuple((int(start), int(end)) for start, end in scores.spans),
            tuple(scores.log_probs.tolist()),
            () if scores.ranks is None else tuple(scores.ranks.tolist()),
            tuple(scores.unknown.tolist()),
            None if scores.end is None else float(scores.end.log_probs[0]),
        )
        for text, scores in zip(texts, results, strict=True)
    ]


FEW_DOCUMENTS = 20
"""With fewer documents than this, pieces of their text are resampled for intervals."""
PIECE = 1_000
"""Characters of a piece; the last one of a document has the rest."""
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Units:
    """Documents, or pieces of documents, whose borders do not depend on a tokenizer."""

    documents: Sequence[Document]  # all documents
    owner: NDArray[np.int64]  # `(units,)`, which document each unit is of
    starts: NDArray[np.int64]  # `(units,)`, its first character in that document
    stops: NDArray[np.int64]  # `(units,)`, one after its last character

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Units:
        """Use the documents themselves if there are enough of them, else pieces of 1,000 characters."""
        lengths = [len(document.text) for document in documents]
        if len(lengths) >= FEW_DOCUMENTS:
            count = len(lengths)
            return cls(documents, np.arange(count), np.zeros(count, np.int64), np.array(lengths, np.int64))
        begins = [(owner, start) for owner, length in enumerate(lengths) for start in range(0, max(1, length), PIECE)]
        owner, starts = np.array(begins, np.int64).reshape(-1, 2).T
        return cls(documents, owner, starts, np.minimum(starts + PIECE, np.array(lengths, np.int64)[owner]))

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
        places: NDArray[np.int64] = first + np.searchsorted(self.starts[first:last], characters, side="right") - 1
        return places


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
    for number, document in enumerate(scores):
        places = units.at(number, document.spans[:, 0].astype(np.int64))
        np.add.at(nll, places, -document.log_probs)
        np.add.at(tokens, places, 1.0)
        np.add.at(unknown, places, document.unknown)
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
    ends = [document.end for document in scores if document.end is not None]
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
    places = np.concatenate([np.zeros(0, np.int32), *(document.seen for document in scores)]) - 1
    nll = -np.concatenate([np.zeros(0), *(document.log_probs for document in scores)])
    ranges: NDArray[np.int64] = np.frexp(places)[1].astype(np.int64)  # 0 for 0, else 1 + floor of the binary logarithm
    by_range = []
    for power in np.unique(ranges).tolist():
        inside = ranges == power
        first, last = (2 ** (power - 1), 2**power - 1) if power else (0, 0)
        last = int(min(last, places.max()))
        by_range.append({"first": first, "last": last, "tokens": int(inside.sum()), "loss": float(nll[inside].mean())})
    return by_range
