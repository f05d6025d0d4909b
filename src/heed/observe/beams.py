"""The tree of a beam search: which tokens its steps ranked, which branches went on, and how its output was found.

The drawing has a column for each step and a line for each rank: the path of the output shows when it was behind. Text
and table have a line for each node, those of the output below one another with its other branches between them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from heed.observe import palette
from heed.observe.maps import cut
from heed.observe.page import Row, draw, look_page
from heed.observe.plain import json_of
from heed.observe.scene import QUIET, Box, Label, Path, Scene
from heed.observe.shown import Shown
from heed.visible import clean, visible

_LEFT = ("dropped", "left out")
_FATES = (
    "Ended: with the end token; cut off: at the maximum length; open: in the beam when the search stopped; dropped: "
    "kept at first, without a continuation that lasted; left out: ranked, not kept"
)


@dataclass(frozen=True)
class BeamNode:
    """A token that one step of a beam search ranked after one of its rows."""

    step: int  # from 0
    parent: int  # the number of the node that it continues; -1 at the first step
    token: str
    log_prob: float  # of the token, in nats
    total: float  # log-probability of the output so far
    score: float  # `total` / number of tokens ** length_penalty; ended outputs are compared by it
    rank: int  # by `total` among all candidates of its step, from 1
    fate: str  # "continued", "ended", "cut off", "open", "dropped" or "left out"

    @property
    def numbers(self) -> tuple[str, str, str, str]:
        """Step, rank, probability of the token, and score, for people."""
        return str(self.step + 1), str(self.rank), f"{math.exp(self.log_prob):.3f}", f"{self.score:.3f}"


@dataclass(frozen=True)
class Beams:
    """A beam search over one source."""

    title: str
    source: str
    output: str
    beam_size: int
    length_penalty: float
    nodes: tuple[BeamNode, ...]  # step by step, each step best first
    last: int  # the number of the last node of the output
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, title: str, source: str, output: str, nodes: Sequence[BeamNode], **more: Any) -> Beams:
        """The tree of candidates; those that were kept are first "continued", and what followed tells their fate."""
        over = _finished(nodes)
        opened = [i for i, one in enumerate(nodes) if one.fate == "continued" and one.step == nodes[-1].step]
        alive = set()
        for i in (*over, *opened):
            while i >= 0 and i not in alive:
                alive.add(i)
                i = nodes[i].parent
        fates = {i: "dropped" for i, one in enumerate(nodes) if one.fate == "continued" and i not in alive}
        fates |= dict.fromkeys(opened, "open")
        made = tuple(replace(one, fate=fates.get(i, one.fate)) for i, one in enumerate(nodes))
        return cls(title, source, output, nodes=made, last=over[0], **more)

    def branch(self, last: int) -> list[int]:
        """The numbers of the nodes from the first token to one of them."""
        found = []
        while last >= 0:
            found.append(last)
            last = self.nodes[last].parent
        return found[::-1]

    @cached_property
    def path(self) -> list[int]:
        """The numbers of the nodes of the output."""
        return self.branch(self.last)

    @property
    def history(self) -> str:
        """The ranks of the output, step by step."""
        return "the output's rank at each step: " + " ".join(str(self.nodes[i].rank) for i in self.path)

    @property
    def facts(self) -> list[str]:
        """What the numbers mean."""
        ranked = f"score: log-probability / tokens ** {self.length_penalty:g}; rank: among the candidates of the step"
        count = len(_finished(self.nodes))
        more = f"{self.nodes[-1].step + 1} steps, {count} finished output{'s' * (count != 1)}"
        return [f"beam of {self.beam_size}, {more}; {ranked}", *self.notes, self.history]

    def shown(self, every: bool) -> list[int]:
        """The numbers of the nodes to draw: all, or those of the best finished outputs, as many as the beam size."""
        best = _finished(self.nodes)[: self.beam_size]
        return [*range(len(self.nodes))] if every else sorted({n for i in best for n in self.branch(i)})

    def lines(self, every: bool) -> list[tuple[int, str]]:
        """The nodes to draw as lines of a tree, each with what stands before its token.

        A node is followed by its other branches, indented, and then by its main continuation: that of the output, or
        the longest.
        """
        following: dict[int, list[int]] = {}
        reaches = [one.step for one in self.nodes]  # the last step that each branch is drawn to
        for i in reversed(self.shown(every)):
            parent = self.nodes[i].parent
            following.setdefault(parent, []).append(i)
            if parent >= 0:
                reaches[parent] = max(reaches[parent], reaches[i])
        path, found = set(self.path), []
        waiting = [(-1, "", "")]  # node, what stands before it, what stands before those that follow it
        while waiting:
            at, before, base = waiting.pop()
            if at >= 0:
                found.append((at, before))
            first, *others = sorted(following.get(at, []), key=lambda i: (i not in path, -reaches[i], i)) or [-1]
            if first >= 0:
                waiting.append((first, "● " if first in path else base, base))
            waiting += [(i, f"{base}├─ ", f"{base}│  ") for i in reversed(others)]
        return found


def _finished(nodes: Sequence[BeamNode]) -> list[int]:
    """The numbers of the last nodes of finished outputs, the best first.

    As in the search, those that finished first come before others of the same score, and ended ones before those cut
    off at the same step.
    """
    found = [i for i, one in enumerate(nodes) if one.fate in ("ended", "cut off")]
    return sorted(found, key=lambda i: (-nodes[i].score, nodes[i].step, nodes[i].fate != "ended", i))


def beams_to_text(beams: Beams, every: bool, width: int) -> str:
    """The tree for a terminal: a line for each node."""
    head = [clean(beams.title), *(line for fact in (*beams.source.split("\n"), f"-> {beams.output}", "", *beams.facts)
                                  for line in textwrap.wrap(clean(fact), width) or [""])]  # fmt: skip
    rows = ["step  rank   prob.     score  token (● the output)"]
    for i, before in beams.lines(every):
        one = beams.nodes[i]
        step, rank, probability, score = one.numbers
        fate = "" if one.fate == "continued" else f"  {one.fate}"
        room = max(12, width - 30 - len(fate))
        before = before if len(before) <= room - 8 else "…" + before[-(room - 9) :]
        token = cut(visible(one.token), room - len(before))
        rows.append(f"{step:>4}  {rank:>4}  {probability:>6}  {score:>8}  {before}{token}{fate}")
    return "\n".join([*head, "", *rows, "", *textwrap.wrap(_FATES, width)])


_COLUMN, _LINE, _BOX, _HEIGHT, _MARGIN, _STEPS = 116, 46, 92, 34, 16, 8
_PATH = palette.LINES[1]


def beams_scene(beams: Beams, every: bool, headed: bool = True) -> Scene:
    """The tree from left to right, in bands of eight steps below one another; the path of the output is thick.

    `headed` writes title, output and facts above it.
    """
    nodes, path, shown = beams.nodes, set(beams.path), beams.shown(every)
    width = 2 * _MARGIN + 60 + _COLUMN * min(_STEPS, max(nodes[i].step for i in shown) + 1)
    head = [line for fact in (f"output: {beams.output}", *beams.facts)
            for line in textwrap.wrap(clean(fact), int((width - 2 * _MARGIN) / 6.6))]  # fmt: skip
    scene = Scene(max(width, 420), 0, clean(beams.title), follows_scheme=True)
    top = 0.0
    if headed:
        scene.write([clean(beams.title)], _MARGIN, _MARGIN + 12, "title")
        top = scene.write(head, _MARGIN, _MARGIN + 32, "small") + 4
    for first in range(0, max(nodes[i].step for i in shown) + 1, _STEPS):
        band = [i for i in shown if first <= nodes[i].step < first + _STEPS]
        ranks = sorted({nodes[i].rank for i in band})
        scene.add(Label(_MARGIN, top + 20 + _LINE * n + 21, f"rank {rank}", "small") for n, rank in enumerate(ranks))
        places = {
            i: (_MARGIN + 60 + _COLUMN * (nodes[i].step - first), top + 20 + _LINE * ranks.index(nodes[i].rank))
            for i in band
        }
        steps = {nodes[i].step: places[i][0] for i in band}
        scene.add(Label(x + _BOX / 2, top + 10, f"step {step + 1}", "middle") for step, x in steps.items())
        for i in sorted(band, key=path.__contains__):  # the path of the output over the other lines
            x, y = places[i][0], places[i][1] + _HEIGHT / 2
            start = places.get(nodes[i].parent)
            before = (x - 12, y) if start is None else (start[0] + _BOX, start[1] + _HEIGHT / 2)
            if nodes[i].step > 0:
                scene.add([Path((before, (x, y)), _PATH if i in path else QUIET, 3 if i in path else 1)])
        for i in band:
            one, (x, y) = nodes[i], places[i]
            step, rank, probability, score = one.numbers
            fill = palette.shades(math.exp(one.log_prob))
            said = f"{visible(one.token)}: step {step}, rank {rank}, probability {probability}, score {score}"
            edge = (_PATH, 3.0) if i in path else ("#7b848e", 1.0)
            dashes = "4 3" if one.fate in _LEFT else ""
            scene.add([Box(x, y, _BOX, _HEIGHT, fill, f"{said}, {one.fate}", *edge, dashes, 4)])
            label = cut(visible(one.token), 12)
            scene.add([Label(x + _BOX / 2, y + 14, label, "number", color=palette.inks(fill))])
            numbers = f"{probability}  {score}"
            scene.add([Label(x + _BOX / 2, y + 28, numbers, "number", color=palette.inks(fill))])
        top += 32 + _LINE * len(ranks)
    scene.height = scene.write(["in a box: token, its probability, score; dashed: dropped or left out"], _MARGIN,
                               top + 12, "small")  # fmt: skip
    return scene


class ShownBeams(Shown):
    """The result of `run.look(text, beams=True)`: the tree of a beam search, with dropped branches if `every`."""

    def __init__(self, beams: Beams, every: bool = False) -> None:
        self.beams, self.every = beams, every

    def text(self, width: int = 100, color: bool = False) -> str:
        return beams_to_text(self.beams, self.every, width)

    def html(self) -> str:
        beams, path = self.beams, set(self.beams.path)
        places = {i: n for n, (i, _) in enumerate(beams.lines(self.every), start=1)}
        rows = []
        for i, n in places.items():
            one = beams.nodes[i]
            cells = [visible(one.token), *one.numbers, f"{one.total:.3f}", one.fate, str(places.get(one.parent, ""))]
            rows.append(Row(str(n), cells, "chosen" if i in path else ""))
        heads = ["node", "token", "step", "rank", "probability", "score", "log-probability", "fate", "continues"]
        drawn = draw("beams", beams_scene(beams, self.every, headed=False), heads, rows, _FATES)
        texts = [("source", beams.source), ("output", beams.output)]
        return look_page(beams.title, [drawn], texts=texts, notes=beams.facts)

    def scene(self, index: int | None = None) -> Scene:
        return beams_scene(self.beams, self.every)

    def json(self) -> str:
        return json_of("heed-beams-1", self.beams, shows_dropped=self.every)

    def __repr__(self) -> str:
        return f"<beam search of {self.beams.beam_size}: {len(self.beams.nodes)} nodes; print it, or save it as .html>"
