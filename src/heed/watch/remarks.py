"""Remarks on maps: what holds for most of their rows, each with its number; looks and `heed heads` share them.

Only rows that may attend to more than one key count: a row with a single key looks there whatever the model learned.
`Hint` is a note of another kind: it names the options that show more.

Source: Voita et al. 2019, arXiv:1905.09418, section 4 (heads by the relative position of their largest weight); Xiao
et al. 2024, arXiv:2309.17453 (sinks); Clark et al. 2019, arXiv:1906.04341 (entropy, separators).
Differs from them: a name needs half of the rows, and the share is always printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heed.visible import visible
from heed.watch.maps import Map

NEAR_UNIFORM = 0.95
"""Share of the largest possible entropy from which a map is nearly uniform."""
MAJORITY = 0.5
"""Share of the rows that names a map by where they look, and of the weight that makes a key a sink."""
SAME = 0.1
"""Mean total variation of the rows up to which a map is the same as that of the untrained network.

Of the heads of a translator and a classifier (Transformers of 2 and 3 layers, 260 and 150 updates), over 8 texts each,
none was that near at the end (the nearest 0.16); after 13 and 15 updates 31 % and 65 % of them were.
"""
MIN_ROWS = 3
"""Maps with fewer rows that count have no remarks."""
SEPARATORS = frozenset({"[SEP]", "</s>", "<eos>", "end"})
"""Labels of tokens between or after texts."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that holds for most of a map, with the number that shows it."""

    kind: str  # "same as untrained", "near-uniform", "sink", or a name of `looks_at`
    value: float
    text: str


def counted_rows(map: Map) -> Tensor:
    """The rows that count, `(query,)` of bool: those that may attend to more than one key and attend to any."""
    return (_allowed(map).sum(-1) > 1) & (map.weights.sum(-1) > 0)


def looks_at(map: Map) -> dict[str, Tensor]:
    """For each kind of place, the rows whose largest weight is there, `(query,)` of bool; only rows that count.

    "previous" and "next" are for maps of a text over itself, also if the keys begin one token earlier, as where an
    output is written; "same" (diagonal) for every square map. "first" and "last" are the first and last key that the
    row may attend to, "separator" any key with such a label, "alignment" any key that the known alignment links. A row
    may be at several kinds of place; one whose largest weight is shared by several keys looks nowhere.
    """
    weights, allowed = map.weights.detach().float(), _allowed(map)
    if not weights.numel():
        return {}
    queries, best = torch.arange(len(weights), device=weights.device), weights.argmax(-1)
    single = (weights == weights.amax(-1, keepdim=True)).sum(-1) == 1
    rows_by_kind = {"first": best == allowed.int().argmax(-1),
             "last": best == allowed.shape[1] - 1 - allowed.flip(-1).int().argmax(-1)}  # fmt: skip
    if weights.shape[0] == weights.shape[1]:
        earlier = map.query.labels[:-1] == map.key.labels[1:] != map.key.labels[:-1]
        same = queries + 1 if earlier else queries  # the key of the query's token
        rows_by_kind["same"] = best == same
        if earlier or map.query.labels == map.key.labels:
            rows_by_kind |= {"previous": best == same - 1, "next": best == same + 1}
    places = torch.tensor([label in SEPARATORS for label in map.key.labels], device=best.device)
    if bool(places.any()):
        rows_by_kind["separator"] = places[best]
    if map.links is not None:
        rows_by_kind["alignment"] = map.links.to(best.device).gather(1, best.unsqueeze(1)).squeeze(1)
    rows = counted_rows(map) & single
    return {name: at & rows for name, at in rows_by_kind.items()}


def entropy(map: Map) -> float:
    """Mean entropy of the rows that count, as a share of the largest possible: log of the number of allowed keys."""
    rows, weights = counted_rows(map), map.weights.detach().double()
    if not bool(rows.any()):
        return 0.0
    maximum = _allowed(map)[rows].sum(-1).double().log()
    return float((-torch.xlogy(weights[rows], weights[rows]).sum(-1) / maximum).mean())


def remarks(map: Map, spread: float | None = None) -> list[Remark]:
    """What holds for a map; empty where nothing does, and for gates and differences. `spread` is its known entropy."""
    rows = counted_rows(map)
    number = int(rows.sum())
    result = []
    if map.untrained is not None and map.untrained <= SAME:
        text = (
            f"same as untrained: its rows differ from the untrained network's by {map.untrained:.2f} (total variation)"
        )
        result.append(Remark("same as untrained", map.untrained, text))
    if not map.is_distribution or number < MIN_ROWS:
        return result
    spread = entropy(map) if spread is None else spread
    if spread >= NEAR_UNIFORM:
        text = f"near-uniform: its entropy is {spread:.2f} of the largest possible"
        return [*result, Remark("near-uniform", spread, text)]
    share, key = map.weights.detach().double()[rows].mean(0).max(0)
    if float(share) >= MAJORITY:
        label = visible(map.key.labels[int(key)])
        text = f"sink: {float(share):.2f} of the weight is on '{label}', {map.key.kind} {int(key) + 1}"
        result.append(Remark("sink", float(share), text))
    for kind, at in looks_at(map).items():
        linked = rows if kind != "alignment" or map.links is None else rows & map.links.to(rows.device).any(-1)
        part = int((at & linked).sum()) / max(1, int(linked.sum()))
        if kind in _TEXTS and part >= MAJORITY:
            text = f"{_TEXTS[kind]}: {part:.2f} of the rows".format(kind=map.key.kind)
            result.append(Remark(kind, part, text))
    return result


_TEXTS = {
    "previous": "looks at the previous {kind}",
    "next": "looks at the next {kind}",
    "same": "diagonal, looks at the same position",
    "alignment": "follows the known alignment",
}


def _allowed(map: Map) -> Tensor:
    return torch.ones_like(map.weights, dtype=torch.bool) if map.mask is None else map.mask


# Notes that name options ---------------------------------------------------------------------------------------------


class Hint(str):
    """A note that names options, worded for the command line: "shown: ...; change with --layer and --head"."""

    options: tuple[str, ...]
    message: str

    def __new__(cls, message: str, *options: str) -> Hint:
        """The note: what is shown, and the options that change it."""
        hint = super().__new__(cls, f"{message}; change with {_listed([f'--{name}' for name in options])}")
        hint.message, hint.options = message, options
        return hint

    @property
    def in_python(self) -> str:
        """The note with the arguments of a method: "shown: ...; change with layer= and head="."""
        return f"{self.message}; change with {_listed([f'{name}=' for name in self.options])}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]])


def worded(note: str, in_python: bool) -> str:
    """A note for where it is shown."""
    return note.in_python if in_python and isinstance(note, Hint) else str(note)
