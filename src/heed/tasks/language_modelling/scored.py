"""Texts with the log-probability and the rank of each token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from heed.models.base import LanguageModel
from heed.tasks.language_modelling.scoring import Scorer, score_texts


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
