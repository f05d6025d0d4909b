"""What each attention head of a run is worth: its loss and score without the head, and what the head looks at.

A head is taken away by a weight of 0, so that it adds nothing; the run is then scored on the same examples, and the
difference has a paired bootstrap interval and a p-value. Of a hundred heads that do nothing, five would have p <= 0.05:
p is corrected for the number of heads. It is from approximate randomisation and not from the bootstrap, whose tails are
too thin where few outputs change: eight worse and none better are p = 0.0007 by the bootstrap, 0.008 by a sign test.

Source: Michel et al. 2019, arXiv:1905.10650, section 3 (one head at a time); Voita et al. 2019, arXiv:1905.09418,
section 4 (heads by what they look at: a relative position in at least a share of the rows).
Differs from both: intervals and tests; the share of rows is printed, where Voita et al. name a head from 90 % of the
mean weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heed.attention.modules import MultiHeadAttention
from heed.data.examples import evenly
from heed.errors import ConfigError
from heed.evaluation.measures import Array, Measure
from heed.evaluation.significance import SEED, Interval, difference, ends, holm, randomisation_test
from heed.tasks.base.predictions import question_of
from heed.tasks.heads.alignment import aligned_heads
from heed.threads import prediction_threads
from heed.watch.edits import ZeroHead, attention_of, heads_of
from heed.watch.maps import Map
from heed.watch.remarks import MAJORITY, counted_rows, looks_at
from heed.watch.trace import edit

MOST = 500
"""Most examples that are scored."""
_NAMED = 20
"""Examples whose maps are read to name a head."""
Place = tuple[str, int, int]
"""Mechanism, layer and head."""


@dataclass(frozen=True)
class HeadEffect:
    """One head: the change of score and loss without it, and what most of its rows look at."""

    mechanism: str
    layer: int
    head: int
    change: Interval  # of the score; below 0 the run is worse without the head, if higher scores are better
    p: float  # of the change of the score, two-sided, after Holm's correction for the number of heads
    loss: Interval | None  # its change in nats; None if the task has none
    looks_at: str  # "previous", "next", "same", "first", "last", "separator", "alignment" or ""
    share: float  # of the rows whose largest weight is there

    @property
    def matters(self) -> bool:
        """True if p is at most 0.05: with a star in the table."""
        return self.p <= 0.05


@dataclass(frozen=True)
class Heads:
    """The heads of a run, in the order of mechanisms, layers and heads."""

    measure: Measure  # of the whole run, with the digits of the table
    examples: int
    heads: list[HeadEffect]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        heads = [{**asdict(head), "matters": head.matters} for head in self.heads]
        whole = {"measure": self.measure.label, "score": self.measure.score(), "examples": self.examples}
        return {**whole, "heads": heads}

    def __str__(self) -> str:
        """What was measured, then a line for each head."""
        score = f"{self.measure.label} {self.measure.text(self.measure.score())} on {self.examples:,} examples"
        mark = f"* p <= 0.05 after Holm's correction for {len(self.heads)} heads"
        head = f"{score}; the change without each head with its 95 % interval, {mark}"
        return "\n".join([head, "", *map(self._line, self.heads)])

    def _line(self, one: HeadEffect) -> str:
        """Place, change of the score, change of the loss, and what the head looks at."""
        mark, span = "*" if one.matters else " ", self.measure.ends(one.change.low, one.change.high, "+")
        change = f"{self.measure.text(one.change.value, '+'):>8} {mark} {span}"
        loss = "" if one.loss is None else f"loss {one.loss.value:+.4f} [{ends(vars(one.loss), '+.4f')}]"
        looks = f"{one.looks_at} {one.share:.0%}" if one.looks_at else ""
        width = max(len(each.mechanism) for each in self.heads)
        place = f"{one.mechanism:{width}}  layer {one.layer} head {one.head:2}"
        return "  ".join(["", place, change, loss, looks]).rstrip()


@prediction_threads()
def score_heads(
    run: Any,
    split: str = "valid",
    most: int = MOST,
    *,
    files: Sequence[str | Path] = (),
    say: Callable[[str], None] = print,
) -> Heads:
    """Score a run without each of its heads in turn.

    Args:
        run: The run.
        split: The split whose examples are scored.
        most: Most examples, evenly chosen.
        files: Score the examples of these files instead, in the format of the run's data.
        say: Called with a line of progress after each layer.

    Raises:
        ConfigError: The model has no attention.
    """
    every, places = run.read(files) if files else run.examples(split), heads_of(run.model)
    examples = evenly(every, min(most, len(every)))
    if not places:
        raise ConfigError("this model has no attention, so it has no heads")
    whole = run.score_and_loss(examples)
    cuts: dict[Place, tuple[Measure, Measure | None]] = {}
    for mechanism, layer in places:
        for head in range(places[mechanism, layer]):
            with without_head(run.model, (mechanism, layer, head)):
                cuts[mechanism, layer, head] = run.score_and_loss(examples)
        say(f"{mechanism} layer {layer}: {places[mechanism, layer]} heads scored")
    named, resamples = _named(run, evenly(examples, min(_NAMED, len(examples)))), run.config.evaluation.bootstrap
    p = corrected(whole[0], [score for score, _ in cuts.values()])
    effects = []
    for (place, cut), corrected_p in zip(cuts.items(), p.tolist(), strict=True):
        change, loss = (_change(*both, resamples) for both in zip(cut, whole, strict=True))
        assert change is not None
        effects.append(HeadEffect(*place, change, corrected_p, loss, *named.get(place, ("", 0.0))))
    return Heads(replace(whole[0], digits=2 if whole[0].is_share else 3), len(examples), effects)


def corrected(whole: Measure, cuts: Sequence[Measure]) -> Array:
    """P-values of the change from a whole run to the run without each of its heads, after Holm's correction."""
    trials = max(10_000, 100 * len(cuts))  # the smallest p, 1 / trials, must be well below 0.05 / heads
    return holm(randomisation_test(whole, cuts, trials, SEED))


def _change(after: Measure | None, before: Measure | None, resamples: int) -> Interval | None:
    return None if after is None or before is None else difference(after, before, resamples)


@contextmanager
def without_head(model: nn.Module, place: Place) -> Iterator[None]:
    """Without a head: its columns of the output matrix are 0, which unlike an edit keeps the fast paths."""
    module = next(one for one in attention_of(model).values() if (one.mechanism, one.layer) == place[:2])
    if not isinstance(module, MultiHeadAttention):
        with edit(model, ZeroHead(*place)):
            yield
        return
    width = module.w_out.in_features // module.num_heads
    with torch.no_grad():
        columns = module.w_out.weight[:, place[2] * width : (place[2] + 1) * width]
        kept = columns.clone()
        columns.zero_()
        try:
            yield
        finally:
            columns.copy_(kept)


def _named(run: Any, examples: Sequence[Any]) -> dict[Place, tuple[str, float]]:
    """For each head, the name of the place where most of its rows have their largest weight, and their share."""
    counts: dict[Place, Counter[str]] = {}
    rows: Counter[Place] = Counter()
    for example in examples:
        shown = run.look(question_of(run.input, example), layer="all", head="all").look
        for one in shown.maps:
            if isinstance(one, Map):  # patches of pictures have no names
                place = one.mechanism, one.layer, one.head or 0
                counts.setdefault(place, Counter()).update({name: int(at.sum()) for name, at in looks_at(one).items()})
                rows[place] += int(counted_rows(one).sum())
    shares = {place: {name: own[name] / max(1, rows[place]) for name in own} for place, own in counts.items()}
    for layer, heads in (aligned_heads(run, examples) if run.can("align") else {}).items():
        for head, share in enumerate(heads):
            shares.setdefault(("cross", layer, head), {})["alignment"] = share
    best = {place: max(own.items(), key=lambda one: one[1], default=("", 0.0)) for place, own in shares.items()}
    return {place: (name if share >= MAJORITY else "", share) for place, (name, share) in best.items()}
