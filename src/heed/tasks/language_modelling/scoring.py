"""The log-probability and the rank of every token of given texts; scored texts; ranked continuations.

A document longer than `data.context` is read in windows of that many tokens, which advance by `stride`:

    window k reads the tokens before places k s .. k s + context - 1, and scores those that no earlier one scored

so every token is scored once: the first of a document after the task's first token (end or start), and each after at
least context - stride tokens, where there are as many. A model that carries a state reads a document from its
beginning to its end; its context is everything before.

Source: Press, Smith and Lewis 2021 (arXiv:2012.15832), section 3, on windows and what the stride costs.

Given continuations of a prompt are ranked by

    log p(choice | prompt) = sum of log p(token | all before it) over the tokens of the choice

Prompt and choice are cut into tokens together, as one text: how a text is cut depends on its surroundings. A token that
spans the border belongs wholly to the choice. A space is added between the two where neither has one at the border (not
between letters of scripts without spaces); it belongs to the choice.

The total says which continuation the model finds most probable. It falls with every further token, so scores per token
and per byte are given too, to compare choices of unequal length.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.attention import Rows
from heed.data.batch.rows import pad_rows
from heed.data.splits.survey import script_of
from heed.data.tokens.special import UNKNOWN
from heed.data.tokens.tokenizer import END, TextTokenizer
from heed.errors import ConfigError
from heed.models.base import LanguageModel
from heed.tasks.base.predictions import check_choices, one_line
from heed.threads import threads_for
from heed.training.loss import PIECE_BYTES
from heed.training.processes import current
from heed.visible import visible

TOGETHER = 8_192
"""Tokens scored at once."""
_MARK = "\u2581"
_BATCHES = 64
"""Batches after which scores are written to the results."""
Ids = NDArray[Any]
"""`(tokens,)` integers."""


class Scorer(Protocol):
    """The part of a task that scoring needs."""

    tokenizer: TextTokenizer

    @property
    def context(self) -> int:
        """Tokens that the model sees at once."""

    @property
    def first_token(self) -> int:
        """The token before a document's first one."""

    @property
    def end_token(self) -> bool:
        """True if documents have an end token."""


@dataclass(frozen=True, eq=False)
class IdScores:
    """The scores of a sequence of tokens, `(tokens,)` each.

    Attributes:
        log_probs: Float64, in nats.
        ranks: Int32, 1 for the most probable token; equally probable tokens have the same rank. None if not asked for.
        seen: Int32, number of tokens that each was predicted from, including the task's first token.
    """

    log_probs: NDArray[np.float64]
    ranks: NDArray[np.int32] | None
    seen: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TokenScores(IdScores):
    """The scores of the tokens of a text.

    Attributes:
        ids: `(tokens,)`, the tokens.
        spans: `(tokens, 2)`, the characters of the text that each token stands for, as start and end.
        end: The scores of the end token after the text; None if the run has none.
    """

    ids: Ids
    spans: NDArray[np.int32]
    end: IdScores | None

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """`(tokens,)`, True for unknown tokens, whose probability is that of any unknown piece of text."""
        found: NDArray[np.bool_] = self.ids == UNKNOWN
        return found


def score_texts(
    task: Scorer, model: LanguageModel, texts: Sequence[str], stride: int | None = None, ranks: bool = True
) -> list[TokenScores]:
    """Score every token of each text, and its end token if the run has one.

    Args:
        task: Has the tokenizer and the context.
        model: In evaluation mode.
        texts: Any texts; a blank one has no tokens.
        stride: Tokens by which a window advances; the context by default.
        ranks: Compute ranks too.
    """
    end = [END] if task.end_token else []
    rows, spans = [], []
    for text in texts:
        encoded = task.tokenizer.encode(text)
        rows.append(np.array([*encoded.ids, *end], dtype=np.int32))
        spans.append(np.array(encoded.spans, dtype=np.int32).reshape(-1, 2))  # as tuples they are ten times as large
    found = []
    for places, ids, scores in zip(spans, rows, score_ids(task, model, rows, stride, ranks), strict=True):
        count = len(places)
        own = _part(scores, slice(0, count))
        last = _part(scores, slice(count, None)) if end else None
        found.append(TokenScores(own.log_probs, own.ranks, own.seen, ids[:count], places, last))
    return found


def score_ids(
    task: Scorer, model: LanguageModel, rows: Sequence[Ids], stride: int | None = None, ranks: bool = True
) -> list[IdScores]:
    """Score every token of each row, a document in itself; rows are sharded over all processes."""
    lengths = [len(row) for row in rows]
    found = [IdScores(np.zeros(n), np.zeros(n, np.int32) if ranks else None, np.zeros(n, np.int32)) for n in lengths]
    work: Callable[[Any], _Pieces]
    groups: Sequence[Any]
    if type(model).carries:
        groups = _groups(lengths, task.context)
        work = partial(_carried, task, model, rows, ranks=ranks)
    else:
        groups = _window_groups(_windows(lengths, task.context, stride or task.context))
        work = partial(_windowed, task, model, rows, ranks=ranks)
    for start in range(0, len(groups), _BATCHES):  # a large set's pieces all at once would be larger than its scores
        results = current().map(lambda some: [work(one) for one in some], groups[start : start + _BATCHES])
        for row, place, scores in chain.from_iterable(results):
            places = slice(place, place + len(scores.log_probs))
            found[row].log_probs[places] = scores.log_probs
            found[row].seen[places] = scores.seen
            if scores.ranks is not None:
                found[row].ranks[places] = scores.ranks  # type: ignore[index]
    return found


_Pieces = list[tuple[int, int, IdScores]]
"""Row, place of the first token, scores from there on."""
_Window = NDArray[np.int64]
"""Row, first target of the window, first target that is scored, end."""


def _windows(lengths: Sequence[int], context: int, stride: int) -> _Window:
    """The windows of all rows, `(windows, 4)`."""
    parts = []
    for row, count in enumerate(lengths):
        if not count:
            continue
        starts = np.arange(0, max(1, count - context + stride), stride)
        stops = np.minimum(starts + context, count)
        scored = np.concatenate([[0], stops[:-1]])
        parts.append(np.stack([np.full(len(starts), row), starts, scored, stops], axis=1))
    return np.concatenate(parts) if parts else np.zeros((0, 4), np.int64)


def _window_groups(windows: _Window) -> list[_Window]:
    """Batches of windows of similar length."""
    lengths = windows[:, 3] - windows[:, 1]
    ordered = windows[np.argsort(-lengths, kind="stable")]
    groups, start = [], 0
    while start < len(ordered):
        size = max(1, TOGETHER // int(ordered[start, 3] - ordered[start, 1]))
        groups.append(ordered[start : start + size])
        start += size
    return groups


def _windowed(task: Scorer, model: LanguageModel, rows: Sequence[Ids], windows: _Window, ranks: bool) -> _Pieces:
    """Score one batch of windows."""
    read, wanted = [], []
    for row, start, scored, stop in windows.tolist():
        before = [task.first_token] if start == 0 else [int(rows[row][start - 1])]
        read.append(before + rows[row][start : stop - 1].tolist())
        wanted.append((scored - start, stop - start))
    device = next(model.parameters()).device
    tokens, mask = pad_rows(read)
    labels, _ = pad_rows([rows[row][start:stop].tolist() for row, start, _, stop in windows.tolist()])
    chosen = mask.clone()
    for place, (first, _) in enumerate(wanted):
        chosen[place, :first] = False
    with torch.no_grad(), threads_for(model, tokens.numel()):
        hidden = model(tokens.to(device))
        log_probs, found = _of_tokens(model, hidden[chosen.to(device)], labels[chosen].to(device), ranks)
    seen = (torch.arange(tokens.shape[1]) + 1).expand_as(tokens)[chosen].numpy().astype(np.int32)
    pieces, at = [], 0
    for row, _, scored, stop in windows.tolist():
        part = slice(at, at := at + stop - scored)
        pieces.append((row, scored, _part(IdScores(log_probs, found, seen), part)))
    return pieces


def _groups(lengths: Sequence[int], context: int) -> list[list[int]]:
    """Batches of rows of similar length, longest first, for models that read a row from beginning to end."""
    order = sorted((row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row])
    size = max(1, TOGETHER // context)
    return [order[start : start + size] for start in range(0, len(order), size)]


def _carried(task: Scorer, model: LanguageModel, rows: Sequence[Ids], group: Sequence[int], ranks: bool) -> _Pieces:
    """Score some rows, read chunk by chunk with the state carried; a row that ends leaves the batch."""
    device = next(model.parameters()).device
    lengths = [len(rows[row]) for row in group]
    pieces: _Pieces = []
    state: Any = model.start(None, Rows.repeat(len(group), device=device))
    active = len(group)
    for start in range(0, lengths[0], task.context):
        going = sum(length > start for length in lengths)
        if going < active:
            state, active = state.select(torch.arange(going, device=device)), going
        parts = [rows[row][start : start + task.context].tolist() for row in group[:active]]
        before = [int(rows[row][start - 1]) if start else task.first_token for row in group[:active]]
        tokens, mask = pad_rows([[first, *part[:-1]] for first, part in zip(before, parts, strict=True)])
        labels, _ = pad_rows(parts)
        with torch.no_grad(), threads_for(model, tokens.numel()):
            hidden, state = model.read(tokens.to(device), state)
            log_probs, found = _of_tokens(model, hidden[mask.to(device)], labels[mask].to(device), ranks)
        at = 0
        for row, part in zip(group, parts, strict=False):
            seen = np.arange(start + 1, start + len(part) + 1, dtype=np.int32)
            own = slice(at, at := at + len(part))
            pieces.append((row, start, IdScores(log_probs[own], None if found is None else found[own], seen)))
    return pieces


def _of_tokens(
    model: LanguageModel, hidden: Tensor, labels: Tensor, ranks: bool
) -> tuple[NDArray[np.float64], NDArray[np.int32] | None]:
    """Log-probabilities and ranks of `labels` `(positions,)` after `hidden` `(positions, d)`, piece by piece."""
    values, places = [], []
    for part, label in _pieces(model, hidden, labels):
        logits = model.logits(part)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        own = logits.gather(-1, label.unsqueeze(-1))
        values.append((own.squeeze(-1) - logits.logsumexp(-1)).double().cpu().numpy())
        if ranks:
            places.append(((logits > own).sum(-1) + 1).int().cpu().numpy())
    log_probs = np.concatenate(values) if values else np.zeros(0)
    return log_probs, (np.concatenate(places) if places else np.zeros(0, np.int32)) if ranks else None


def _pieces(model: LanguageModel, hidden: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(1, PIECE_BYTES // (4 * int(model.config.vocab_size)))  # type: ignore[attr-defined]
    return zip(hidden.split(size), labels.split(size), strict=True)


def _part(scores: IdScores, part: slice) -> IdScores:
    return IdScores(scores.log_probs[part], None if scores.ranks is None else scores.ranks[part], scores.seen[part])


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
        return num_bytes(self.text)

    @property
    def bits_per_byte(self) -> float:
        """Surprisal of the text in bits, divided by its bytes; nan for an empty text."""
        return math.fsum(self.bits) / self.num_bytes if self.text else math.nan

    def as_json(self) -> dict[str, Any]:
        """The values of `heed predict --score --json`."""
        return {
            "text": self.text,
            "log_prob": round(self.log_prob, 6),
            "bits_per_byte": round(self.bits_per_byte, 6) if self.text else None,
            "tokens": self.tokens,
            "spans": self.spans,
            "log_probs": [round(p, 6) for p in self.log_probs],
            "ranks": self.ranks,
            "end_log_prob": None if self.end_log_prob is None else round(self.end_log_prob, 6),
        }

    def lines(self) -> tuple[str, ...]:
        """A line for each token, and a line for the text."""
        lines = ["    nats    bits    rank  token"]
        for token, p, bits, place in zip(self.tokens, self.log_probs, self.bits, self.ranks, strict=True):
            lines.append(f"{p:8.3f}{bits:8.3f}{place:8}  {visible(token.replace(_MARK, ' '))}")
        said = f"log-probability {self.log_prob:.4f} nats of {len(self.tokens)} tokens"
        if self.tokens:
            said += f"; {self.bits_per_byte:.4f} bits per byte ({self.num_bytes} bytes)"
        if self.end_log_prob is not None:
            said += f"; an end token after it, not counted: {self.end_log_prob:.4f}"
        return (*lines, said)

    @property
    def perplexity(self) -> float:
        """`exp` of the mean negative log-probability of a token; nan without tokens."""
        return math.exp(min(700.0, -self.log_prob / len(self.tokens))) if self.tokens else math.nan


def num_bytes(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def usual_stride(task: Scorer) -> int:
    """A quarter of the context: tokens are scored from at least three quarters of it, in a text as long as that."""
    return max(1, task.context // 4)


def score_each(
    task: Scorer, model: LanguageModel, texts: Sequence[str], stride: int | None = None, ranks: bool = True
) -> list[ScoredText]:
    """Score each text as a separate document; `stride` as `evaluation.stride`, a quarter of the context by default.

    Ranks are empty if `ranks` is False. Evaluation may use another stride; the scores of a text longer than the context
    then differ.
    """
    found = score_texts(task, model, texts, stride or usual_stride(task), ranks)
    return [
        ScoredText(
            text,
            tuple(task.tokenizer.piece(int(i)) for i in scores.ids),
            tuple((int(start), int(end)) for start, end in scores.spans),
            tuple(scores.log_probs.tolist()),
            () if scores.ranks is None else tuple(scores.ranks.tolist()),
            tuple(scores.unknown.tolist()),
            None if scores.end is None else float(scores.end.log_probs[0]),
        )
        for text, scores in zip(texts, found, strict=True)
    ]


_WITHOUT_BLANKS = frozenset({"CJK", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"})
"""Scripts that put no space between words."""


@dataclass(frozen=True)
class RankedChoice:
    """A ranked continuation.

    Attributes:
        choice: The continuation as it was given.
        place: Its index among the given choices, from 0.
        log_prob: Natural log-probability of all its tokens after the prompt, by which choices are ranked.
        probability: Its probability among the given choices: the softmax of their totals.
        tokens: Its tokens; the first may begin in the prompt.
        log_probs: Natural log-probability of each.
        num_bytes: Bytes of the text of these tokens in UTF-8, without an end token.
    """

    choice: str
    place: int
    log_prob: float
    probability: float
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    num_bytes: int

    @property
    def per_token(self) -> float:
        """`log_prob` divided by the number of tokens."""
        return self.log_prob / len(self.tokens)

    @property
    def per_byte(self) -> float:
        """`log_prob` divided by the number of bytes."""
        return self.log_prob / self.num_bytes

    def as_json(self) -> dict[str, Any]:
        """The values of `heed predict --choice --json`."""
        numbers = {name: round(getattr(self, name), 6) for name in ("log_prob", "per_token", "per_byte", "probability")}
        return {
            "choice": self.choice,
            **numbers,
            "tokens": self.tokens,
            "log_probs": [round(p, 6) for p in self.log_probs],
        }

    def line(self) -> str:
        """A row of the table of `heed predict --choice`."""
        numbers = f"{self.probability:11.4f}  {self.log_prob:8.3f}  {self.per_token:9.3f}  {self.per_byte:8.3f}"
        return f"{numbers}  {len(self.tokens):6}  {one_line(self.choice)}"


def rank(
    task: Scorer, model: LanguageModel, questions: Sequence[tuple[str, Sequence[str]]], end: bool = False
) -> list[list[RankedChoice]]:
    """Rank the choices of each question.

    Args:
        task: Has the tokenizer and the context.
        model: In evaluation mode.
        questions: Prompts with their choices; an empty prompt begins a document.
        end: Also count the end token after each choice, so that a choice must end the document.

    Returns:
        Per question its choices, most probable first; equally probable ones as they were given.

    Raises:
        ConfigError: A question has no choices, a blank or a repeated one; or the run has no end token to count.
    """
    for _, choices in questions:
        check_choices(choices, "choices")
    if end and not task.end_token:
        raise ConfigError("this run has no end token to count (data.end_token is false)")
    texts = [join(prompt, choice) for prompt, choices in questions for choice in choices]
    scored = iter(score_each(task, model, texts, ranks=False))
    results = []
    for prompt, choices in questions:
        parts = [_after(next(scored), len(prompt), end) for _ in choices]
        totals = [math.fsum(log_probs) for _, log_probs, _ in parts]
        best = max(totals)
        norm = math.fsum(math.exp(total - best) for total in totals)
        ranked = [
            RankedChoice(choice, place, total, math.exp(total - best) / norm, *part)
            for place, (choice, total, part) in enumerate(zip(choices, totals, parts, strict=True))
        ]
        results.append(sorted(ranked, key=lambda one: -one.log_prob))
    return results


def join(prompt: str, choice: str) -> str:
    """Join prompt and choice into one text."""
    if not prompt or prompt[-1].isspace() or choice[0].isspace():
        return prompt + choice
    return prompt + ("" if _unspaced(prompt[-1]) and _unspaced(choice[0]) else " ") + choice


def _unspaced(character: str) -> bool:
    """True for letters and marks of scripts without spaces."""
    script = script_of(character)
    return script in _WITHOUT_BLANKS or (not script and unicodedata.east_asian_width(character) in ("W", "F"))


def _after(scored: ScoredText, border: int, end: bool) -> tuple[tuple[str, ...], tuple[float, ...], int]:
    """Tokens, log-probabilities and number of bytes of the part of a text after its border."""
    first = next(n for n, (_, stop) in enumerate(scored.spans) if stop > border)
    tokens, log_probs = scored.tokens[first:], scored.log_probs[first:]
    if end:
        assert scored.end_log_prob is not None
        tokens, log_probs = (*tokens, "</s>"), (*log_probs, scored.end_log_prob)
    return tokens, log_probs, num_bytes(scored.text[scored.spans[first][0] :])
