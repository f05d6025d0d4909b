"""What each attention head of a run is worth: its scores without the head, and what the head looks at.

A head is taken away by setting its weights to 0, so that it adds nothing; the run is then scored on the same examples,
and the difference has a paired bootstrap interval.

Source: Michel et al. 2019, arXiv:1905.10650, section 3 (one head at a time); Voita et al. 2019, arXiv:1905.09418,
section 4 (heads by what they look at: a relative position in at least a share of the rows).
Differs from both: intervals; the share of rows is printed, where Voita et al. name a head from 90 % of the mean weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from heed.data.examples import evenly
from heed.errors import ConfigError
from heed.evaluation.measures import Measure
from heed.evaluation.significance import SEED, Interval, interval, resampled
from heed.observe.edits import Edit, Keep, ZeroHead, heads_of
from heed.observe.maps import Map
from heed.observe.remarks import MOST as SHARE
from heed.observe.remarks import counted_rows, looks_at
from heed.observe.trace import edit
from heed.threads import sparing

MOST = 500
"""Most examples that are scored."""
_NAMED = 20
"""Examples whose maps are read to name a head."""


@dataclass(frozen=True)
class HeadEffect:
    """One head: the change of the score without it, and what most of its rows look at."""

    mechanism: str
    layer: int
    head: int
    change: Interval  # of the score; below 0 the run is worse without the head, if higher scores are better
    looks_at: str  # "previous", "next", "same", "first", "last", "separator", "alignment" or ""
    share: float  # of the rows whose largest weight is there

    @property
    def matters(self) -> bool:
        """True if the interval of the change does not contain 0."""
        return not self.change.low <= 0.0 <= self.change.high


@dataclass(frozen=True)
class Heads:
    """The heads of a run, in the order of mechanisms, layers and heads."""

    measure: str  # name of the score for readers
    score: float  # of the whole run
    scale: float  # 100 for a share, to be shown in per cent
    examples: int
    heads: list[HeadEffect]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        heads = [
            {
                "mechanism": one.mechanism,
                "layer": one.layer,
                "head": one.head,
                "change": {"value": one.change.value, "low": one.change.low, "high": one.change.high},
                "looks_at": one.looks_at,
                "share": one.share,
            }
            for one in self.heads
        ]
        return {"measure": self.measure, "score": self.score, "examples": self.examples, "heads": heads}

    def text(self) -> str:
        """A line for each head; those whose interval leaves out 0 are marked."""
        digits = 2 if self.scale == 100.0 else 3
        lines = [
            f"{self.measure} {self.scale * self.score:.{digits}f} on {self.examples:,} examples; the change without "
            "each head, * where its interval leaves out 0"
        ]
        for one in self.heads:
            low, value, high = (self.scale * x for x in (one.change.low, one.change.value, one.change.high))
            mark = "*" if one.matters else " "
            looks = f"  {one.looks_at} {one.share:.0%}" if one.looks_at else ""
            lines.append(
                f"  {one.mechanism:8} layer {one.layer} head {one.head:2}  {value:+8.{digits}f} {mark} "
                f"[{low:+.{digits}f}, {high:+.{digits}f}]{looks}"
            )
        return "\n".join(lines)


@sparing()
def score_heads(run: Any, split: str = "valid", most: int = MOST, say: Callable[[str], None] = print) -> Heads:
    """Score a run without each of its heads in turn.

    Args:
        run: The run.
        split: The split whose examples are scored.
        most: Most examples, evenly chosen.
        say: Called with a line of progress after each layer.

    Raises:
        ConfigError: The model has no attention.
    """
    examples = evenly(run.examples(split), min(most, len(run.examples(split))))
    places = heads_of(run.model)
    if not places:
        raise ConfigError("this model has no attention, so it has no heads")
    whole = _measured(run, examples, Keep())
    some = evenly(examples, min(_NAMED, len(examples)))
    named = {place: _looks_at(run, some, *place, number) for place, number in places.items()}
    found = []
    for mechanism, layer in places:
        for head, (name, share) in enumerate(named[mechanism, layer]):
            cut = _measured(run, examples, ZeroHead(mechanism, layer, head))
            both = resampled([[whole], [cut]], run.config.evaluation.bootstrap, SEED)
            change = Interval(cut.score() - whole.score(), *interval(both[1] - both[0]))
            found.append(HeadEffect(mechanism, layer, head, change, name, share))
        say(f"{mechanism} layer {layer}: {len(named[mechanism, layer])} heads scored")
    return Heads(whole.label, whole.score(), 100.0 if whole.is_share else 1.0, len(examples), found)


def _measured(run: Any, examples: Sequence[Any], change: Edit) -> Measure:
    """The run's most important measure with an edit."""
    with edit(run.model, change):
        measure: Measure = run.outcomes(examples).measures[0]
    return measure


def _looks_at(run: Any, examples: Sequence[Any], mechanism: str, layer: int, num_heads: int) -> list[tuple[str, float]]:
    """For each head, where most of its rows have their largest weight, and the share of these rows."""
    counts: list[Counter[str]] = []
    rows = 0
    for example in examples:
        shown = run.look(run.input_of(example), mechanism=mechanism, layer=layer, head="all").look
        text_maps = (one for one in shown.maps if isinstance(one, Map))  # patches of pictures have no names
        maps = [one for one in text_maps if (one.mechanism, one.layer) == (mechanism, layer)]
        counts = counts or [Counter() for _ in maps]
        for own, one in zip(counts, maps, strict=True):
            own.update({name: int(at.sum()) for name, at in looks_at(one).items()})
        if maps:
            rows += int(counted_rows(maps[0]).sum())
    found = []
    for own in counts:
        name, number = max(own.items(), key=lambda one: one[1], default=("", 0))
        share = number / max(1, rows)
        found.append((name, share) if share >= SHARE else ("", share))
    return found or [("", 0.0)] * num_heads
