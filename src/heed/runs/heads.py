"""What each attention head of a run is worth: its loss and score without the head, and what the head looks at.

A head is taken away by a weight of 0, so that it adds nothing; the run is then scored on the same examples, and the
difference has a paired bootstrap interval. `prune` removes heads for good: their rows of the matrices of queries, keys
and values, and their columns of the output's.

Source: Michel et al. 2019, arXiv:1905.10650, section 3 (one head at a time) and 4 (several); Voita et al. 2019,
arXiv:1905.09418, section 4 (heads by what they look at: a relative position in at least a share of the rows).
Differs from both: intervals; heads are removed in the order of the loss without each, not by a gradient or a gate; the
share of rows is printed, where Voita et al. name a head from 90 % of the mean weight.
"""

from __future__ import annotations

import copy
import csv
import io
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heed import folder as folders
from heed.attention.modules import MultiHeadAttention
from heed.config import write_config
from heed.data.examples import evenly
from heed.errors import ConfigError
from heed.evaluation.measures import Measure
from heed.evaluation.significance import SEED, Interval, interval, resampled
from heed.observe.draw_html import map_to_html
from heed.observe.draw_svg import map_scene
from heed.observe.edits import ZeroHead, attention_of, heads_of
from heed.observe.maps import Axis, Map, SignedMap
from heed.observe.page import Row, draw, look_page
from heed.observe.remarks import MOST as SHARE
from heed.observe.remarks import counted_rows, looks_at
from heed.observe.scene import Scene, stacked
from heed.observe.shown import Shown, map_to_text
from heed.observe.trace import edit
from heed.runs.card import WRITTEN, write_card
from heed.runs.loading import load
from heed.tasks.base.run import Run
from heed.threads import sparing
from heed.training.weights import save_weights
from heed.visible import to_json

MOST = 500
"""Most examples that are scored."""
_NAMED = 20
"""Examples whose maps are read to name a head."""
FORMS = (".html", ".svg", ".png", ".json", ".txt", ".csv")
"""Endings of files that the heads can be written to."""
Place = tuple[str, int, int]
"""Mechanism, layer and head."""


@dataclass(frozen=True)
class HeadEffect:
    """One head: the change of score and loss without it, and what most of its rows look at."""

    mechanism: str
    layer: int
    head: int
    change: Interval  # of the score; below 0 the run is worse without the head, if higher scores are better
    loss: Interval | None  # its change in nats; None if the task has none
    looks_at: str  # "previous", "next", "same", "first", "last", "separator", "alignment" or ""
    share: float  # of the rows whose largest weight is there

    @property
    def place(self) -> Place:
        """Mechanism, layer and head."""
        return self.mechanism, self.layer, self.head

    @property
    def matters(self) -> bool:
        """True if the interval of the change does not contain 0."""
        return not self.change.low <= 0.0 <= self.change.high


@dataclass(frozen=True)
class Heads(Shown):
    """The heads of a run, in the order of mechanisms, layers and heads; drawn as a grid of layers and heads."""

    title: str
    measure: str  # name of the score for readers
    score: float  # of the whole run
    scale: float  # 100 for a share, to be shown in per cent
    higher_is_better: bool
    source: str  # name of the split, or of the files
    scored: Sequence[Any]  # the examples
    heads: list[HeadEffect]

    @property
    def examples(self) -> int:
        """Number of examples."""
        return len(self.scored)

    @property
    def digits(self) -> int:
        """Digits of a change."""
        return 2 if self.scale == 100.0 else 3

    @property
    def worst_first(self) -> list[HeadEffect]:
        """The heads from the one that is missed least: by the loss, or if the task has none by the score."""
        sign = -1.0 if self.higher_is_better else 1.0
        return sorted(self.heads, key=lambda one: sign * one.change.value if one.loss is None else one.loss.value)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        heads = [*map(asdict, self.heads)]
        return {"measure": self.measure, "score": self.score, "examples": self.examples, "heads": heads}

    def json(self) -> str:
        return to_json(self.to_json(), indent=1) + "\n"

    def csv(self) -> str:
        """A line for each head, for tables."""
        numbers = [f"{name}{part}" for name in ("change", "loss") for part in ("", "_low", "_high")]
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["mechanism", "layer", "head", *numbers, "looks_at", "share"])
        for one in self.heads:
            loss = ("", "", "") if one.loss is None else astuple(one.loss)
            writer.writerow([*one.place, *astuple(one.change), *loss, one.looks_at, one.share])
        return file.getvalue()

    def forms(self) -> dict[str, Callable[[], str | bytes]]:
        return {**super().forms(), ".csv": self.csv}

    @property
    def head_line(self) -> str:
        """What was measured."""
        score = f"{self.measure} {self.scale * self.score:.{self.digits}f} on {self.examples:,} examples"
        return f"{score}; the change without each head, * where its interval leaves out 0"

    def grids(self) -> list[SignedMap]:
        """For each mechanism a map with a row for each layer and a column for each head: the change of the score."""
        largest = max(abs(self.scale * one.change.value) for one in self.heads) or 1.0
        found = []
        for mechanism in dict.fromkeys(one.mechanism for one in self.heads):
            own = [one for one in self.heads if one.mechanism == mechanism]
            layers = sorted({one.layer for one in own})
            numbers = torch.zeros(len(layers), max(one.head for one in own) + 1, dtype=torch.float64)
            there = torch.zeros_like(numbers, dtype=torch.bool)
            for one in own:
                at = layers.index(one.layer), one.head
                numbers[at], there[at] = self.scale * one.change.value, True
            query = Axis("layers", "layer", tuple(f"layer {layer}" for layer in layers))
            key = Axis("heads", "head", tuple(str(head) for head in range(numbers.shape[1])))
            caption = f"{self.measure} without each head minus {self.measure} with all heads."
            name, parts = f"heads of {mechanism} attention", (mechanism, layers[0], None, query, key, numbers, None)
            found.append(SignedMap(*parts, there, caption, name=name, quantity="change", darkest=largest))
        return found

    def text(self, width: int = 100, color: bool = False) -> str:
        """The grids, then a line for each head."""
        lines = [self.head_line, *(f"\n{map_to_text(one, width=width, color=color)}" for one in self.grids()), ""]
        return "\n".join([*lines, *("  " + "  ".join(self._cells(one)).rstrip() for one in self.heads)])

    def _cells(self, one: HeadEffect) -> tuple[str, str, str, str]:
        """Place, change of the score, change of the loss, and what the head looks at."""
        low, value, high = (self.scale * x for x in (one.change.low, one.change.value, one.change.high))
        mark, d = "*" if one.matters else " ", self.digits
        change = f"{value:+8.{d}f} {mark} [{low:+.{d}f}, {high:+.{d}f}]"
        loss = "" if one.loss is None else f"loss {one.loss.value:+.4f} [{one.loss.low:+.4f}, {one.loss.high:+.4f}]"
        looks = f"{one.looks_at} {one.share:.0%}" if one.looks_at else ""
        width = max(len(each.mechanism) for each in self.heads)
        return f"{one.mechanism:{width}}  layer {one.layer} head {one.head:2}", change, loss, looks

    def scene(self, index: int | None = None) -> Scene:
        grids = self.grids() if index is None else [self.grids()[index]]
        head = Scene(0, 34, self.title)
        head.write([self.title], 16, 28, "title")
        head.height = head.write([self.head_line.partition(";")[0]], 16, 46, "small")
        return stacked([head, *(map_scene(one, cell=44) for one in grids)], 0)

    def html(self) -> str:
        rows = [Row(place, cells) for place, *cells in map(self._cells, self.heads)]
        table = draw("tabular", "heads", ["", "change", "loss", "looks at"], rows)
        parts = [*(map_to_html(one, i) for i, one in enumerate(self.grids())), table]
        return look_page(self.title, parts, notes=[self.head_line], has_keys=True, scripted=True)


@sparing()
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
    named = _named(run, evenly(examples, min(_NAMED, len(examples))))
    found = []
    for mechanism, layer in places:
        for head in range(places[mechanism, layer]):
            with without_head(run.model, (mechanism, layer, head)):
                cut = run.score_and_loss(examples)
            change, loss = (_change(run, *both) for both in zip(cut, whole, strict=True))
            assert change is not None
            found.append(
                HeadEffect(mechanism, layer, head, change, loss, *named.get((mechanism, layer, head), ("", 0.0)))
            )
        say(f"{mechanism} layer {layer}: {places[mechanism, layer]} heads scored")
    score, source = whole[0], " ".join(map(str, files)) or split
    kind = 100.0 if score.is_share else 1.0, score.higher_is_better
    return Heads(run.title, score.label, score.score(), *kind, source, examples, found)


def _change(run: Any, after: Measure | None, before: Measure | None) -> Interval | None:
    if after is None or before is None:
        return None
    both = resampled([[before], [after]], run.config.evaluation.bootstrap, SEED)
    return Interval(after.score() - before.score(), *interval(both[1] - both[0]))


@contextmanager
def without_head(model: nn.Module, place: Place) -> Iterator[None]:
    """Without a head: its columns of the output matrix are 0, which unlike an edit keeps the fast paths."""
    module = _module_at(model, place[:2])
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


def _module_at(model: nn.Module, place: tuple[str, int]) -> nn.Module:
    return next(one for one in attention_of(model).values() if (one.mechanism, one.layer) == place)


# What heads look at -------------------------------------------------------------------------------------------------


def _named(run: Any, examples: Sequence[Any]) -> dict[Place, tuple[str, float]]:
    """For each head, the name of the place where most of its rows have their largest weight, and their share."""
    counts: dict[Place, Counter[str]] = {}
    rows: Counter[Place] = Counter()
    for example in examples:
        shown = run.look(run.input_of(example), layer="all", head="all").look
        for one in shown.maps:
            if isinstance(one, Map):  # patches of pictures have no names
                place = one.mechanism, one.layer, one.head or 0
                counts.setdefault(place, Counter()).update({name: int(at.sum()) for name, at in looks_at(one).items()})
                rows[place] += int(counted_rows(one).sum())
    shares = {place: {name: own[name] / max(1, rows[place]) for name in own} for place, own in counts.items()}
    aligned = getattr(run, "aligned_heads", None)
    for layer, heads in (aligned(examples) if aligned is not None else {}).items():
        for head, share in enumerate(heads):
            shares.setdefault(("cross", layer, head), {})["alignment"] = share
    best = {place: max(own.items(), key=lambda one: one[1], default=("", 0.0)) for place, own in shares.items()}
    return {place: (name if share >= SHARE else "", share) for place, (name, share) in best.items()}


# Pruning ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pruned:
    """A run without some heads, beside the run with all."""

    run: Run[Any, Any]
    removed: list[Place]
    measure: str
    scale: float
    scores: tuple[float, float]  # before and after
    change: Interval
    parameters: tuple[int, int]
    speeds: tuple[float, float]  # examples per second

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        both = {"score": self.scores, "parameters": self.parameters, "examples_per_second": self.speeds}
        places = [dict(zip(("mechanism", "layer", "head"), place, strict=True)) for place in self.removed]
        values = {name: {"before": before, "after": after} for name, (before, after) in both.items()}
        return {"measure": self.measure, "removed": places, "change": asdict(self.change), **values}

    def __str__(self) -> str:
        digits = 2 if self.scale == 100.0 else 3
        before, after = (f"{self.scale * one:.{digits}f}" for one in self.scores)
        low, high = (f"{self.scale * one:+.{digits}f}" for one in (self.change.low, self.change.high))
        where = [f"{name} layer {layer} head {head}" for name, layer, head in self.removed]
        return "\n".join(
            [
                f"removed {len(self.removed)} head{'s' * (len(self.removed) != 1)}: {', '.join(where)}",
                f"{self.measure}: {before} before, {after} after (change [{low}, {high}])",
                f"parameters: {self.parameters[0]:,} before, {self.parameters[1]:,} after",
                f"examples per second: {self.speeds[0]:.4g} before, {self.speeds[1]:.4g} after",
                f"run folder: {self.run.folder}",
            ]
        )


@sparing()
def prune(run: Any, heads: Heads, count: int, out: str | Path | None = None) -> Pruned:
    """Write a run without the heads that are missed least; each layer of an attention keeps at least one head.

    Args:
        run: The run, which stays as it is.
        heads: What each of its heads is worth; the new run is scored on the same examples.
        count: How many heads to remove.
        out: The folder to make; `runs/DATA-MODEL-N` by default.

    Raises:
        ConfigError: There are not so many heads that can go, or the run is an ensemble or not finished.
        RunError: The folder exists.
    """
    left = check_prunable(run, count, out)
    removed: list[Place] = []
    for one in heads.worst_first:
        own = left.get(one.place[:2], [])
        if len(removed) < count and len(own) > 1:
            own.remove(one.head)
            removed.append(one.place)
    model = copy.deepcopy(run.model)
    for place, own in left.items():
        module = _module_at(model, place)
        assert isinstance(module, MultiHeadAttention)
        module.keep(own)
    made = _write(run, model, left, out)
    (before, fast), (after, faster) = _timed((run, made), heads.scored)
    change = _change(run, after, before)
    assert change is not None
    sizes = [sum(p.numel() for p in one.model.parameters()) for one in (run, made)]
    scale = 100.0 if before.is_share else 1.0
    pruned = Pruned(
        made,
        sorted(removed),
        before.label,
        scale,
        (before.score(), after.score()),
        change,
        (sizes[0], sizes[1]),
        (fast, faster),
    )
    made.report["pruned"] = pruned.to_json()
    note = f"{heads.examples:,} examples, on which the heads to remove were chosen"
    made.report["scores"] = {heads.source: {**made.score(heads.scored), "note": note}}
    with folders.unsealed(made.folder, folders.WEIGHTS, folders.REPORT, *WRITTEN, final=True):
        folders.write_report(made.folder, made.report)
        if "training" in made.report:
            write_card(made)
    return pruned


def check_prunable(run: Any, count: int, out: str | Path | None = None) -> dict[tuple[str, int], list[int]]:
    """The heads that attention with several heads has in each layer; errors as of `prune`."""
    if len(run.members) > 1:
        raise ConfigError("an ensemble cannot be pruned; prune its runs one by one")
    folders.check_finished(run.folder)
    if out is not None:
        folders.check_free(Path(out), "give another --out")
    several = [one for one in attention_of(run.model).values() if isinstance(one, MultiHeadAttention)]
    left = {(one.mechanism, one.layer): [*range(one.num_heads)] for one in several}
    most = sum(len(own) - 1 for own in left.values())
    if not 1 <= count <= most:
        can = f"1 to {most} heads of this model can be removed, since each layer of an attention keeps one"
        raise ConfigError(f"--prune {count}: {can if most else 'no layer of this model has several heads'}")
    return left


def _write(run: Any, model: nn.Module, left: dict[tuple[str, int], list[int]], out: str | Path | None) -> Run[Any, Any]:
    """Write the run of a model with fewer heads: the files of the run, the configuration and the weights."""
    kept: dict[str, list[int]] = {}
    for (mechanism, _), own in sorted(left.items()):
        kept.setdefault(mechanism, []).append(len(own))
    section = run.config.model
    values = {**section.model_dump(by_alias=True), "kept_heads": kept}
    config = run.config.model_copy(update={"model": type(section).model_validate(values)})
    needed = sum(one.numel() * one.element_size() for one in model.state_dict().values())
    changed = (folders.WEIGHTS, folders.CONFIG, folders.REPORT)
    with folders.create_whole(out, config, needed) as (path, part):
        for name in folders.read_by_commands(run.folder):
            if name not in changed:
                shutil.copyfile(run.folder / name, part / name)
        save_weights(model, part / folders.WEIGHTS)
        write_config(config, part / folders.CONFIG)
        count = sum(parameter.numel() for parameter in model.parameters())
        folders.write_report(part, {**run.report, "parameters": count, "scores": {}})
    return load(path, device=next(model.parameters()).device)


def _timed(runs: Sequence[Any], examples: Sequence[Any]) -> list[tuple[Measure, float]]:
    """The most important measure of each run, and its examples per second: the better of two turns each."""
    scores, seconds = [run.outcomes(examples).measures[0] for run in runs], [float("inf")] * len(runs)
    for _ in range(2):
        for i, run in enumerate(runs):
            began = time.perf_counter()
            run.outcomes(examples)
            seconds[i] = min(seconds[i], time.perf_counter() - began)
    return [(score, len(examples) / took) for score, took in zip(scores, seconds, strict=True)]
