"""The configuration of pretraining, and the predictions of its models: words at masks, and whether a text follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from heed.config.data import Documents, Sources
from heed.config.sections import EvaluationConfig, ModelSection, RunConfig, Section, TokenizerConfig, TrainingConfig
from heed.data.tokens import BLANK, CONTINUED, MASK, around_masks, is_continued
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, InputError
from heed.tasks.base.predictions import Prediction, check_choices, one_line, rounded, short, some_pieces


class PretrainingTokenizer(TokenizerConfig):
    """How text becomes tokens."""

    lowercase: bool = True
    """Lower-case the text and strip accents, as in the uncased models of Devlin et al. 2019."""


class PretrainingHead(Section):
    """The training objectives; these fields are in the `model` section, next to the model's own."""

    masked_words: bool = True
    """Predict masked words."""
    next_sentence: bool = True
    """Predict whether the second of two texts follows the first; without it texts are read one at a time."""
    pooling: Literal["mean", "last"] = "mean"
    """Input of the pooling layer that decides pairs: the mean of a row's states, or last, the state of [CLS], as in
    Devlin et al. 2019 and their checkpoints."""
    first_embeddings: Literal["neighbours", "drawn"] = "neighbours"
    """Initial embeddings: from co-occurrence of tokens in the training text (neighbours), or random (drawn). Tokens
    that `model.from` knows take its embeddings."""
    tied_output: bool = True
    """Use the embeddings as the output layer for masked words."""


def objectives(config: Any) -> PretrainingHead:
    """The objectives of a configuration; they are validated with the other fields of the model."""
    return PretrainingHead.model_construct(**config.model.settings)


class PretrainingModel(ModelSection):
    """Which model; all other fields are the model's and the task's own (`heed models NAME` lists them)."""

    name: str = "bert"
    """File in `heed/models`; a model that reads framed texts."""


class PretrainingTraining(TrainingConfig):
    """How a model is pretrained."""

    batch_tokens: int = Field(4_096, gt=0)
    """Tokens of one batch, padding included; on a GPU 32,000 by default, or a
    hundredth of a pass if that is less, but no fewer than elsewhere."""
    learning_rate: float = Field(0.001, gt=0)
    """Largest learning rate."""
    betas: tuple[float, float] = (0.9, 0.98)
    """Adam's decay rates of the first and second moment."""
    weight_decay: float = Field(0.01, ge=0)
    """Decay of matrices towards zero (not of biases and vectors)."""


class PretrainingEvaluation(EvaluationConfig):
    """How a pretrained model is scored."""

    select_by: Literal["auto", "loss", "masked_loss", "masked_accuracy", "next_loss", "next_accuracy"] = "auto"
    """Validation score that chooses the best checkpoint: auto is loss, the sum of the losses of masked words and
    of pairs."""


class PretrainingConfig(RunConfig):
    """The full configuration of a run of pretraining."""

    task: Literal["pretraining"] = "pretraining"
    """What is learned."""
    data: Annotated[Documents, Sources(Documents, "pretraining", hub=True)]
    """Where the texts come from."""
    tokenizer: PretrainingTokenizer = PretrainingTokenizer()
    """How text becomes tokens."""
    model: PretrainingModel = PretrainingModel()
    """Which model."""
    training: PretrainingTraining = PretrainingTraining(minutes=2.0)
    """How it is trained."""
    evaluation: PretrainingEvaluation = PretrainingEvaluation()
    """How it is scored."""


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
            {"text": self.given, "mask": number, "word": candidate.word, "probability": candidate.probability}
            for number, candidates in enumerate(self.masks, start=1)
            for candidate in candidates
        ]

    def values(self) -> dict[str, Any]:
        masks = [[{"word": c.word, "probability": c.probability} for c in candidates] for candidates in self.masks]
        return {"filled": self.text, "masks": masks}

    def lines(self, source: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        if not self.masks:
            return ("",)
        if options["nbest"] > 1:
            form = "mask {mask}\t" * (len(self.masks) > 1) + "{probability:.4f}\t{word}"
            return tuple(form.format(**row) for row in self.rows())
        best = [f"{candidates[0].word} {candidates[0].probability:.4f}" for candidates in self.masks]
        return ("\t".join([one_line(self.text), *best]),)

    def summary(self) -> str:
        lines = [self.text]
        for number, candidates in enumerate(self.masks, start=1):
            name = f"mask {number}: " if len(self.masks) > 1 else ""
            lines.append("  " + name + ", ".join(f"{c.word} {c.probability:.4f}" for c in candidates))
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
        numbers = {"probability": self.probability, "log_prob": self.log_prob}
        return rounded({"choice": self.word, **numbers, "pieces": self.pieces})  # type: ignore[no-any-return]

    def __str__(self) -> str:
        cut = f"  ({' '.join(self.pieces)})" if len(self.pieces) > 1 else ""
        return f"{self.probability:11.4f}  {self.log_prob:8.3f}  {len(self.pieces):6}  {self.word}{cut}"


def parts_of(text: str, tokenizer: TextTokenizer) -> list[str]:
    """The parts of a text between its masks: "[MASK]", or the tokenizer's own mask token."""
    return around_masks(text, MASK if tokenizer.mask is None else tokenizer.token(tokenizer.mask), with_blank=False)


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


def _joined(tokenizer: TextTokenizer, before: str, best: Candidate) -> str:
    """The text before a mask and the word in its place, with a space between them if the token has one."""
    if tokenizer.is_of_pieces and is_continued(best.word):
        return before.rstrip() + best.word.removeprefix(CONTINUED)
    if tokenizer.is_of_pieces or tokenizer.unit != "token":  # tokens without spaces
        return before + best.word
    if best.piece.startswith(BLANK):
        return before + " " * (before != "" and before == before.rstrip()) + best.word
    return (before.rstrip() if tokenizer.masks_spaces else before) + best.word


def check_objective(objectives: PretrainingHead, tokenizer: TextTokenizer, pairs: bool) -> None:
    """Refuse a run without a head for pairs, or for masked words.

    Raises:
        ConfigError: It has none.
    """
    if pairs and not objectives.next_sentence:
        raise ConfigError(
            "this run has no head for pairs (model.next_sentence is false), so it cannot say whether a text follows "
            "another"
        )
    if not pairs and (not objectives.masked_words or tokenizer.mask is None):
        raise ConfigError(
            "this run has no head for masked words (model.masked_words is false), so it cannot fill masks"
        )


def filled(text: str, scores: Sequence[Tensor], tokenizer: TextTokenizer, num_candidates: int) -> FilledText:
    """A text with the `most` best words at its masks, by the log-probabilities of the vocabulary there."""
    candidates_of = [_candidates(tokenizer, scores_at, num_candidates) for scores_at in scores]
    whole, *parts = parts_of(text, tokenizer)
    for candidates, part in zip(candidates_of, parts, strict=False):
        whole = _joined(tokenizer, whole, candidates[0]) + part
    return FilledText(whole, text, tuple(candidates_of))


def _candidates(tokenizer: TextTokenizer, scores: Tensor, num_candidates: int) -> tuple[Candidate, ...]:
    """The most probable tokens that are text."""
    hidden = {tokenizer.mask, *tokenizer.special, *tokenizer.tags.values()}
    best = scores.topk(min(len(scores), num_candidates + len(hidden)))
    pairs = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
    words = [(token, value) for token, value in pairs if token not in hidden][:num_candidates]
    return tuple(Candidate(tokenizer.label(token), value, tokenizer.piece(token)) for token, value in words)


def rank_words(run: Any, text: str, choices: Sequence[str]) -> list[RankedWord]:
    """Rank given words at the only mask of a text, most probable first.

    A word of several pieces gets as many masks; its log-probability is the sum over its pieces from left to right, each
    predicted after those before it. The sum falls with every piece, so words of more pieces are at a disadvantage.

    Raises:
        ConfigError: There is not exactly one mask; or a word is blank, repeated, unknown to the tokenizer or too long.
    """
    input, tokenizer = run.input, run.tokenizer
    mask: Any = tokenizer.mask
    check_objective(input.objectives, tokenizer, pairs=False)
    check_choices(choices, "words")
    check_masks(text, tokenizer)
    if (count := len(parts_of(text, tokenizer)) - 1) > 1:
        raise InputError(f"words are ranked at one {MASK}, but the text has {count}: {short(text)}")
    ids = tokenizer.encode_masked(input.as_read(text))
    place = ids.index(mask)
    all_pieces = [_pieces(tokenizer, text, choice) for choice in choices]
    rows = [
        [input.window([*ids[:place], *pieces[:num_read], *[mask] * (len(pieces) - num_read), *ids[place + 1 :]])]
        for pieces in all_pieces
        for num_read in range(len(pieces))
    ]
    scores = iter(run.task.answers(run.model, input.rows_joined(rows, [0] * len(rows))))
    # The first mask of each row is the next piece's.
    totals = [sum(float(next(scores)[0][piece]) for piece in pieces) for pieces in all_pieces]
    probabilities = torch.tensor(totals, dtype=torch.float64).softmax(0).tolist()
    ranked = [
        RankedWord(choice, share, total, tuple(tokenizer.piece(piece) for piece in pieces))
        for choice, share, total, pieces in zip(choices, probabilities, totals, all_pieces, strict=True)
    ]
    return sorted(ranked, key=lambda word: -word.log_prob)


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
        return [self.values()]

    def values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("text", "second", "follows", "probability")}

    def summary(self) -> str:
        return f"{self.answer}\t{self.probability:.4f}"

    def lines(self, source: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (self.summary(),)

    def __repr__(self) -> str:
        return f"<{short(self.second)} {self.answer}: {self.probability:.3f}>"


ANSWERS = ("follows", "does not follow")
"""The answers for a pair, in the order of their scores."""
