"""Predictions of a pretrained model: words at masks, ranked words, and whether a text follows another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softmax

from heed.data.batch import frame, frame_size, pad_rows
from heed.data.tokens.special import BLANK, CONTINUED, MASK, Special, is_continued
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, InputError
from heed.tasks.base.predictions import Prediction, check_choices, one_line, short, some_pieces, with_unread
from heed.tasks.pretraining.rows import FOLLOWS
from heed.threads import threads_for

if TYPE_CHECKING:
    from heed.tasks.pretraining.model import Pretrainer
    from heed.tasks.pretraining.task import Pretraining

_TOGETHER = 32
"""Texts that are read at once."""


@dataclass(frozen=True)
class Candidate:
    """A word at a mask and its probability."""

    word: str
    probability: float
    piece: str  # as `TextTokenizer.piece` shows it, with the space before it


@dataclass(frozen=True)
class FilledText(Prediction):
    """A text with masks, and the words that the model expects there; each mask is filled with the others still masked.

    Attributes:
        text: The text with the most probable word at each mask.
        given: The text as it was given.
        masks: For each mask its candidates, most probable first.
        unread: Number of tokens that were not read, in a text longer than the model's positions.
    """

    text: str
    given: str
    masks: tuple[tuple[Candidate, ...], ...]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"text": self.given, "mask": number, "word": one.word, "probability": one.probability}
            for number, candidates in enumerate(self.masks, start=1)
            for one in candidates
        ]

    def as_json(self) -> dict[str, Any]:
        masks = [[{"word": one.word, "probability": round(one.probability, 6)} for one in c] for c in self.masks]
        return with_unread({"filled": self.text, "masks": masks}, self)

    def lines(self, given: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        if not self.masks:
            return ("",)
        if options["nbest"] > 1:
            several = len(self.masks) > 1
            return tuple(
                f"{f'mask {number}{chr(9)}' if several else ''}{one.probability:.4f}\t{one.word}"
                for number, candidates in enumerate(self.masks, start=1)
                for one in candidates
            )
        best = [f"{candidates[0].word} {candidates[0].probability:.4f}" for candidates in self.masks]
        return ("\t".join([one_line(self.text), *best]),)

    def summary(self) -> str:
        lines = [self.text]
        for number, candidates in enumerate(self.masks, start=1):
            name = f"mask {number}: " if len(self.masks) > 1 else ""
            lines.append("  " + name + ", ".join(f"{one.word} {one.probability:.4f}" for one in candidates))
        return "\n".join(lines)

    def __repr__(self) -> str:
        best = ", ".join(f"{c[0].word} {c[0].probability:.3f}" for c in self.masks)
        return f"<{short(self.text)}: {best}>"


@dataclass(frozen=True)
class RankedWord:
    """A given word at a mask.

    Attributes:
        word: The word as it was given.
        probability: Its probability among the given words.
        log_prob: Log-probability of its pieces, in nats: each is predicted after those before it, the others masked.
        pieces: Its pieces.
    """

    word: str
    probability: float
    log_prob: float
    pieces: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """As a value of JSON."""
        numbers = {"probability": round(self.probability, 6), "log_prob": round(self.log_prob, 6)}
        return {"choice": self.word, **numbers, "pieces": self.pieces}

    def __str__(self) -> str:
        cut = f"  ({' '.join(self.pieces)})" if len(self.pieces) > 1 else ""
        return f"{self.probability:11.4f}  {self.log_prob:8.3f}  {len(self.pieces):6}  {self.word}{cut}"


def parts_of(text: str, tokenizer: TextTokenizer) -> list[str]:
    """The parts of a text between its masks: "[MASK]", or the tokenizer's own mask token."""
    names = {MASK} if tokenizer.mask is None else {MASK, tokenizer.token(tokenizer.mask)}
    return re.split("|".join(map(re.escape, sorted(names))), text)


def check_masks(text: str, tokenizer: TextTokenizer, where: str = "the text") -> None:
    """Refuse a text without a mask.

    Raises:
        ConfigError: The text has no mask.
    """
    if len(parts_of(text, tokenizer)) < 2:
        raise InputError(
            f'{where} has no {MASK}: {short(text)}; write {MASK} for each word to fill in, as in "The man went to the '
            f'{MASK}."'
        )


@torch.inference_mode()
def fill(task: Pretraining, model: Pretrainer, texts: Sequence[str], most: int) -> list[FilledText]:
    """Predict the words at the masks of each text; a blank text has none.

    Args:
        task: Has the tokenizer.
        model: In evaluation mode.
        texts: The texts.
        most: Number of candidates for each mask.

    Raises:
        ConfigError: A text has no mask, or its masks lie further apart than the model can read.
    """
    tokenizer = task.tokenizer
    mask = mask_of(task, model)
    rows: list[list[int]] = []
    unread = []
    for text in texts:
        ids: list[int] = []
        if text.strip():
            check_masks(text, tokenizer)
            ids = tokenizer.encode_masked(task.as_read(text))
        rows.append(_window(task, ids, mask))
        unread.append(len(ids) - len(rows[-1]))
    scores = iter(_at_masks(model, rows, mask, tokenizer.special))
    results = []
    for text, row, left in zip(texts, rows, unread, strict=True):
        found = [_candidates(tokenizer, next(scores), mask, most) for token in row if token == mask]
        filled, *parts = parts_of(text, tokenizer)
        for candidates, part in zip(found, parts, strict=False):
            filled = _joined(tokenizer, filled, candidates[0]) + part
        results.append(FilledText(filled, text, tuple(found), unread=left))
    return results


def _joined(tokenizer: TextTokenizer, before: str, best: Candidate) -> str:
    """The text before a mask and the word in its place, with a space between them if the token has one."""
    if tokenizer.is_of_pieces and is_continued(best.word):
        return before.rstrip() + best.word.removeprefix(CONTINUED)
    if tokenizer.is_of_pieces or tokenizer.unit != "token":  # tokens without spaces
        return before + best.word
    if best.piece.startswith(BLANK):
        return before + " " * (before != "" and before == before.rstrip()) + best.word
    return (before.rstrip() if tokenizer.masks_spaces else before) + best.word


def mask_of(task: Pretraining, model: Pretrainer) -> int:
    """The mask token.

    Raises:
        ConfigError: The run has no head for masked words.
    """
    mask = task.tokenizer.mask
    if model.words is None or mask is None:
        raise ConfigError(
            "this run has no head for masked words (model.masked_words is false), so it cannot fill masks"
        )
    return mask


def _window(task: Pretraining, ids: list[int], mask: int) -> list[int]:
    """A part of a text, with all its masks, that fits into the model's positions."""
    room = task.positions - frame_size(is_pair=False)
    if len(ids) <= room:
        return ids
    places = [n for n, token in enumerate(ids) if token == mask]
    first, last = places[0], places[-1]
    if last - first >= room:
        raise InputError(
            f"the masks span {last - first + 1:,} tokens, but the model reads at most {room} at once; fill them one by "
            "one"
        )
    start = min(max(0, first - (room - (last - first + 1)) // 2), len(ids) - room)
    return ids[start : start + room]


def _batches(model: Pretrainer, rows: Sequence[list[int]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of framed rows, each as tokens and mask on the model's device."""
    device = next(model.parameters()).device
    for start in range(0, len(rows), _TOGETHER):
        tokens, real = pad_rows(rows[start : start + _TOGETHER])
        yield tokens.to(device), real.to(device)


def _at_masks(model: Pretrainer, rows: Sequence[list[int]], mask: int, special: Special) -> list[Tensor]:
    """The log-probabilities of the vocabulary at every mask, `(vocab_size,)` each, in the order of the texts."""
    assert model.words is not None
    found: list[Tensor] = []
    for tokens, real in _batches(model, [frame(row, special=special) for row in rows]):
        with threads_for(model, tokens.numel()):
            scores = model.words(model(tokens, real)[tokens == mask]).float()
        found += log_softmax(scores, dim=-1).cpu().unbind()
    return found


def _candidates(tokenizer: TextTokenizer, scores: Tensor, mask: int, most: int) -> tuple[Candidate, ...]:
    """The most probable tokens that are text."""
    hidden = {mask, *tokenizer.special, *tokenizer.tags.values()}
    best = scores.topk(min(len(scores), most + len(hidden)))
    pairs = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
    kept = [(token, value) for token, value in pairs if token not in hidden][:most]
    return tuple(Candidate(tokenizer.label(token), value, tokenizer.piece(token)) for token, value in kept)


@torch.inference_mode()
def rank_words(task: Pretraining, model: Pretrainer, text: str, choices: Sequence[str]) -> list[RankedWord]:
    """Rank given words at the only mask of a text, most probable first.

    A word of several pieces gets as many masks; its log-probability is the sum over its pieces from left to right, each
    predicted after those before it. The sum falls with every piece, so words of more pieces are at a disadvantage.

    Raises:
        ConfigError: There is not exactly one mask; or a word is blank, repeated, unknown to the tokenizer or too long.
    """
    tokenizer, mask = task.tokenizer, mask_of(task, model)
    check_choices(choices, "words")
    check_masks(text, tokenizer)
    if (count := len(parts_of(text, tokenizer)) - 1) > 1:
        raise InputError(f"words are ranked at one {MASK}, but the text has {count}: {short(text)}")
    ids = tokenizer.encode_masked(task.as_read(text))
    place = ids.index(mask)
    rows: list[list[int]] = []
    all_pieces = [_pieces(tokenizer, text, choice) for choice in choices]
    for pieces in all_pieces:
        for known in range(len(pieces)):
            masks = [mask] * (len(pieces) - known)
            rows.append(_window(task, [*ids[:place], *pieces[:known], *masks, *ids[place + 1 :]], mask))
    scores = iter(_at_masks(model, rows, mask, tokenizer.special))
    totals = []
    for pieces in all_pieces:
        total = 0.0
        for known, piece in enumerate(pieces):
            at = [next(scores) for _ in range(len(pieces) - known)]  # the first mask of this row is the next piece's
            total += float(at[0][piece])
        totals.append(total)
    shares = torch.tensor(totals, dtype=torch.float64).softmax(0).tolist()
    ranked = [
        RankedWord(choice, share, total, tuple(tokenizer.piece(piece) for piece in pieces))
        for choice, share, total, pieces in zip(choices, shares, totals, all_pieces, strict=True)
    ]
    return sorted(ranked, key=lambda one: -one.log_prob)


def _pieces(tokenizer: TextTokenizer, text: str, choice: str) -> list[int]:
    """The tokens of a word in place of the mask."""
    before = parts_of(text, tokenizer)[0]
    # Tokens of bytes include the space before a word.
    blank = " " if tokenizer.is_of_bytes and tokenizer.masks_spaces and before[-1:].isspace() else ""
    pieces = tokenizer.encode(blank + choice.strip()).ids
    if tokenizer.special.unknown in pieces or not pieces:
        unknown = ", ".join(map(repr, some_pieces(tokenizer.unknown_in(choice)))) or short(choice)
        raise ConfigError(f"the choice {short(choice)} cannot be scored: {unknown} is unknown to the tokenizer")
    return pieces


def word_at_mask(tokenizer: TextTokenizer, text: str, word: str) -> int:
    """The token of a word in place of the mask of a text.

    Raises:
        ConfigError: The tokenizer does not know the word, or cuts it into several.
    """
    pieces = _pieces(tokenizer, text, word)
    if len(pieces) > 1:
        raise ConfigError(f"{word!r} is not one token of this run, but {' '.join(map(tokenizer.label, pieces))}")
    return pieces[0]


@dataclass(frozen=True)
class NextSentence(Prediction):
    """Two texts, and the probability that the second follows the first.

    Attributes:
        text: The first text.
        second: The second text.
        probability: The probability that it follows.
        unread: Number of tokens that were not read, in texts longer than the model's positions.
    """

    text: str
    second: str
    probability: float

    @property
    def follows(self) -> bool:
        """True if the probability is above one half."""
        return self.probability > 0.5

    @property
    def answer(self) -> str:
        """The answer in words."""
        return ANSWERS[not self.follows]

    def rows(self) -> list[dict[str, Any]]:
        return [{name: getattr(self, name) for name in ("text", "second", "follows", "probability")}]

    def as_json(self) -> dict[str, Any]:
        probability = round(self.probability, 6)
        values = {"text": self.text, "second": self.second, "follows": self.follows, "probability": probability}
        return with_unread(values, self)

    def summary(self) -> str:
        return f"{self.answer}\t{self.probability:.4f}"

    def lines(self, given: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (self.summary(),)

    def __repr__(self) -> str:
        return f"<{short(self.second)} {self.answer}: {self.probability:.3f}>"


ANSWERS = ("follows", "does not follow")
"""The answers for a pair, in the order of their scores."""


def check_pairs(model: Pretrainer) -> None:
    """Refuse a run without a head for pairs.

    Raises:
        ConfigError: It has none.
    """
    if model.order is None:
        raise ConfigError(
            "this run has no head for pairs (model.next_sentence is false), so it cannot say whether a text follows "
            "another"
        )


@torch.inference_mode()
def follow(task: Pretraining, model: Pretrainer, pairs: Sequence[tuple[str, str]]) -> list[NextSentence]:
    """Predict for each pair the probability that the second text follows the first.

    If the texts are longer than the model's positions, the end of the first and the beginning of the second are read.

    Raises:
        ConfigError: The run has no head for pairs, or a text is blank.
    """
    check_pairs(model)
    room = task.positions - frame_size(is_pair=True, double=task.double_separator)
    rows, unread = [], []
    for first, second in pairs:
        for name, text in (("first", first), ("second", second)):
            if not text.strip():
                raise InputError(f"the {name} text of a pair is blank")
        a, b = (task.tokenizer.encode(task.as_read(text)).ids for text in (first, second))
        total = len(a) + len(b)
        if total > room:
            longest = max(room // 2, room - len(a))
            b = b[:longest]
            a = a[len(a) - min(len(a), room - len(b)) :]
        unread.append(total - len(a) - len(b))
        rows.append(frame(a, b, task.double_separator, task.tokenizer.special))
    found: list[float] = []
    for tokens, real in _batches(model, rows):
        logits = model.order_scores(model(tokens, real), real)
        found += softmax(logits.float(), dim=-1)[:, FOLLOWS].tolist()
    return [NextSentence(*pair, share, unread=left) for pair, share, left in zip(pairs, found, unread, strict=True)]
