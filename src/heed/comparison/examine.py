"""What each run does with the examples, and how fast: the part of a comparison that knows the task."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from heed.config import FilesData
from heed.data.examples import Pair
from heed.evaluation.measures import Outcomes, share
from heed.evaluation.text import text_measure
from heed.tasks.translation import Prediction
from heed.uses.translation import TranslationRun

__all__ = ["Speed", "common_lengths", "common_references", "examine", "predict_timed", "same_tokens"]

_TIMED_SECONDS, _MOST_PASSES = 2.0, 5
"""The set is decoded again until this much time is measured, or this many times."""


@dataclass(frozen=True)
class Speed:
    """How fast a run wrote its outputs.

    Attributes:
        examples: Examples a second; the median over passes.
        tokens: Tokens written a second, end tokens included.
        passes: How often the whole set was decoded.
    """

    examples: float
    tokens: float
    passes: int


def predict_timed(run: TranslationRun, sources: Sequence[str], beam_size: int | None) -> tuple[list[Prediction], Speed]:
    """The outputs for all sources, and the speed at which they came, after a first pass over a few."""
    run.predict(sources[: min(16, len(sources))], beam_size=beam_size)
    seconds: list[float] = []
    while not seconds or (sum(seconds) < _TIMED_SECONDS and len(seconds) < _MOST_PASSES):
        start = time.perf_counter()
        outputs = run.predict(sources, beam_size=beam_size)
        seconds.append(time.perf_counter() - start)
    taken = statistics.median(seconds)
    written = sum(len(output.tokens) for output in outputs)
    return outputs, Speed(len(sources) / taken, written / taken, len(seconds))


def common_references(runs: Sequence[TranslationRun], pairs: Sequence[Pair]) -> tuple[list[str], bool]:
    """The texts that all outputs are held against.

    Returns:
        The references as the runs normalise text, or as they stand in the data where the runs differ in that; and
        whether they differ.
    """
    first = [runs[0].task.target_tokenizer.normalize(pair.target) for pair in pairs]
    for run in runs[1:]:
        if first != [run.task.target_tokenizer.normalize(pair.target) for pair in pairs]:
            return [pair.target for pair in pairs], True
    return first, False


def common_lengths(runs: Sequence[TranslationRun], pairs: Sequence[Pair]) -> tuple[list[int], str]:
    """The length of each source and its unit: tokens where all runs cut sources alike, else characters."""
    lengths = [[len(ids) for ids in run.task.source_tokenizer.encode_all([p.source for p in pairs])] for run in runs]
    if all(other == lengths[0] for other in lengths[1:]):
        unit = runs[0].task.source_tokenizer.unit
        return lengths[0], f"{unit}s"
    return [len(pair.source) for pair in pairs], "characters"


def same_tokens(runs: Sequence[TranslationRun]) -> bool:
    """Whether all runs write the same tokens, so that scores per token can be compared."""
    first, *others = (run.task.target_tokenizer for run in runs)
    return not any(first.first_difference(other) for other in others)


def examine(
    run: TranslationRun,
    pairs: Sequence[Pair],
    outputs: Sequence[Prediction],
    references: Sequence[str],
    per_token: bool,
) -> Outcomes:
    """A run's outputs with the measures of its task, the most telling first.

    Args:
        run: What wrote the outputs.
        pairs: The examples.
        outputs: What was written for each.
        references: What they are held against.
        per_token: Whether to give scores per token.
    """
    texts = [output.text for output in outputs]
    scores = run.pair_scores(pairs, outputs)
    exact = share("exact_match", "exact match", [float(t == r) for t, r in zip(texts, references, strict=True)])
    if isinstance(run.config.data, FilesData):
        measures = [*(text_measure(name, texts, references) for name in ("chrf", "bleu", "ter")), exact]
    else:
        measures = [exact]
    if per_token:
        measures.append(share("token_accuracy", "token accuracy", scores.correct, scores.tokens))
    if any(pair.links for pair in pairs):
        wrong = [linked - aligned for aligned, linked in zip(scores.aligned, scores.linked, strict=True)]
        measures.append(share("alignment_error", "alignment error", wrong, scores.linked, higher_is_better=False))
    return Outcomes(tuple(texts), tuple(measures))
