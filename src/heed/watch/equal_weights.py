"""A run scored while its attention gives all keys equal weight: each attention by itself, then all together.

Source: Wiegreffe and Pinter 2019, arXiv:1908.04626, section 3.2 ("Uniform as the Adversary").
Differs from the paper: the weights of the trained model are replaced; there, a model is trained with equal weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heed.errors import ConfigError
from heed.evaluation.measures import Measure, share
from heed.evaluation.significance import Interval, difference, ends, intervals
from heed.watch.edits import Uniform, heads_of
from heed.watch.trace import edit


@dataclass(frozen=True)
class UniformEffect:
    """One attention, all its heads: the score while all its keys have equal weight."""

    mechanism: str | None  # None for all attention of the model together, as is the layer
    layer: int | None
    score: float
    change: Interval  # from the score of the run as it is, paired by example
    outputs_changed: Interval | None  # share of the examples whose output changes; None if the task has no outputs


@dataclass(frozen=True, repr=False)
class EqualWeights:
    """Scores of a run under equal weights; `print` shows a line for each attention."""

    measure: Measure  # the main measure of the run as it is
    examples: int
    effects: list[UniformEffect]

    def to_json(self) -> dict[str, Any]:
        """Plain values; the ends of an interval are NaN if there is none."""
        score, effects = self.measure.score(), [*map(asdict, self.effects)]
        return {"measure": self.measure.name, "score": score, "examples": self.examples, "attention": effects}

    def __repr__(self) -> str:
        count = f"{self.examples:,} example{'s' * (self.examples != 1)}"
        head = f"{self._score(self.measure.score())} on {count}; under equal weights:"
        return "\n".join([head, *map(self._line, self.effects)])

    def _line(self, one: UniformEffect) -> str:
        scale, form = 100.0 if self.measure.is_share else 1.0, f"+.{self.measure.digits}f"
        points = f"{scale * one.change.value:{form}}{' points' * self.measure.is_share}"
        place = "all attention" if one.mechanism is None else f"{one.mechanism} layer {one.layer}"
        changed = f"; {one.outputs_changed} of outputs change" if one.outputs_changed else ""
        return f"  {place}: {self._score(one.score)}, {points} [{ends(asdict(one.change), form, scale)}]{changed}"

    def _score(self, value: float) -> str:
        form = "%" if self.measure.is_share else "f"
        return f"{self.measure.label} {value:.{self.measure.digits}{form}}"


def equal_weights(run: Any, examples: Sequence[Any]) -> EqualWeights:
    """Score examples as `evaluate` does, with equal weights in each attention of the model.

    Raises:
        ConfigError: The model has no attention, or the run is an ensemble.
    """
    if len(run.members) > 1:
        folders = ", ".join(str(one.folder) for one in run.members)
        raise ConfigError(f"equal weights are not available for an ensemble; use one run at a time: {folders}")
    places: list[tuple[str | None, int | None]] = [*heads_of(run.model)]
    if not places:
        raise ConfigError("this model has no attention, so equal weights do not apply")
    whole, resamples, effects = run.outcomes(examples), run.config.evaluation.bootstrap, []
    for mechanism, layer in places + [(None, None)] * (len(places) > 1):
        with edit(run.model, Uniform(mechanism, layer)):
            edited = run.outcomes(examples)
        both = zip(whole.outputs, edited.outputs, strict=True)
        changed = share("outputs_changed", "outputs changed", [a != b for a, b in both])
        outputs = intervals([changed], resamples)[0] if run.head.has_outputs else None
        change = difference(edited.measures[0], whole.measures[0], resamples)
        effects.append(UniformEffect(mechanism, layer, edited.measures[0].score(), change, outputs))
    return EqualWeights(whole.measures[0], len(examples), effects)
