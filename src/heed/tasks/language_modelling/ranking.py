"""Ranking given continuations of a prompt by their log-probability.

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
from collections.abc import Sequence
from dataclasses import dataclass

from heed.data.store.scripts import script_of
from heed.errors import ConfigError
from heed.models.base import LanguageModel
from heed.tasks.language_modelling.scored import ScoredText, num_bytes, score_each
from heed.tasks.language_modelling.scoring import Scorer

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
        _check(choices)
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


def _check(choices: Sequence[str]) -> None:
    if isinstance(choices, str):
        raise ConfigError(f"rank takes several choices; for one, write [{choices!r}]")
    if not choices:
        raise ConfigError("there are no choices to rank")
    for n, choice in enumerate(choices, start=1):
        if not choice.strip():
            raise ConfigError(f"choice {n} is blank: {choice!r}")
        if choice in choices[: n - 1]:
            raise ConfigError(f"choice {choice!r} occurs twice; give each choice once")
