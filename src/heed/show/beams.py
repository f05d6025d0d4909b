"""The candidates of a beam search as a table: the tokens that its steps ranked, and which were kept or dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from heed.show.document import Document, Shown, json_of
from heed.show.number_tables import NumberTable
from heed.watch.maps import cut

_FATES = (
    "kept: in the beam; ended: with the end token; cut off: at the maximum length; open: in the beam when the search "
    "stopped; dropped: kept at first, without a continuation that lasted; left out: ranked, not kept"
)
_TOKEN = 24
"""Characters of a token that are shown."""


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
    def place(self) -> str:
        """Step and rank, for people."""
        return f"{self.step + 1}.{self.rank}"


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
        """The candidates; the fate of a "continued" node is settled by the nodes after it."""
        finished = _finished(nodes)
        unfinished = [i for i, node in enumerate(nodes) if node.fate == "continued" and node.step == nodes[-1].step]
        alive = set()
        for i in (*finished, *unfinished):
            while i >= 0 and i not in alive:
                alive.add(i)
                i = nodes[i].parent
        fates = {i: "dropped" for i, node in enumerate(nodes) if node.fate == "continued" and i not in alive}
        fates |= dict.fromkeys(unfinished, "open")
        with_fates = tuple(replace(node, fate=fates.get(i, node.fate)) for i, node in enumerate(nodes))
        return cls(title, source, output, nodes=with_fates, last=finished[0], **more)

    def branch(self, last: int) -> list[int]:
        """The numbers of the nodes from the first token to the given one."""
        branch = []
        while last >= 0:
            branch.append(last)
            last = self.nodes[last].parent
        return branch[::-1]

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
        """The meaning of the numbers."""
        count = len(_finished(self.nodes))
        more = f"{self.nodes[-1].step + 1} steps, {count} finished output{'s' * (count != 1)}"
        columns = (
            "3.2: step 3, rank 2 by total; ●: the output; log p: log-probability of the token; total: of the output so "
            f"far; score: total / tokens ** {self.length_penalty:g}"
        )
        return [f"beam of {self.beam_size}, {more}", columns, _FATES, *self.notes, self.history]

    def table(self, every: bool) -> NumberTable:
        """All candidates, or those of the best finished outputs, as many as the beam size; step by step, best first."""
        best, path = _finished(self.nodes)[: self.beam_size], set(self.path)
        shown = range(len(self.nodes)) if every else sorted({n for i in best for n in self.branch(i)})
        rows, values, notes = [], [], []
        for i in shown:
            node = self.nodes[i]
            rows.append(f"{'● ' if i in path else ''}{cut(node.token, _TOKEN)} {node.place}")
            values.append([node.log_prob, node.total, node.score])
            fate = "kept" if node.fate == "continued" else node.fate
            notes.append(fate if node.parent < 0 else f"{fate}, after {self.nodes[node.parent].place}")
        columns, numbers = ("log p", "total", "score"), torch.tensor(values, dtype=torch.float64)
        return NumberTable("Candidates", tuple(rows), columns, numbers, notes=tuple(notes))


def _finished(nodes: Sequence[BeamNode]) -> list[int]:
    """The numbers of the last nodes of finished outputs, the best first.

    As in the search, those that finished first come before others of the same score, and ended ones before those cut
    off at the same step.
    """
    finished = [i for i, node in enumerate(nodes) if node.fate in ("ended", "cut off")]
    return sorted(finished, key=lambda i: (-nodes[i].score, nodes[i].step, nodes[i].fate != "ended", i))


class ShownBeams(Shown):
    """The result of `run.beams(text)`: the candidates of a beam search, with dropped ones if `every`."""

    def __init__(self, beams: Beams, every: bool = False) -> None:
        self.beams, self.every = beams, every

    def document(self) -> Document:
        beams = self.beams
        texts = ("source", beams.source), ("output", beams.output)
        return Document(beams.title, (beams.table(self.every),), texts, tuple(beams.facts))

    def json(self) -> str:
        return json_of("heed-beams-1", self.beams, shows_dropped=self.every)

    def __repr__(self) -> str:
        return f"<beam search of {self.beams.beam_size}: {len(self.beams.nodes)} nodes; print it, or save it as .html>"
