"""Causal tracing: what becomes of a score when states of one input are put in place of those of another.

States are those after each block of a Transformer, or those of a recurrent cell at each position. Patched at some
positions of one layer, the model computes everything after them anew. With m the score, the recovered share is

    share = (m(patched) - m(text)) / (m(other) - m(text))       0: as for the text, 1: as for the other

The logit lens is the same operation: the state after block n takes the place of that after the last block, so that the
model's own last normalisation and output layer read it.

Source: Vig et al. 2020, arXiv:2004.12265 (states of another input); Meng et al. 2022, arXiv:2202.05262, section 2 (the
grid of layers and positions); Wang et al. 2022, arXiv:2211.00593, section 3 (the share of a difference of logits);
nostalgebraist 2020, "interpreting GPT: the logit lens".
Differs from Meng et al.: the states come from another text of as many tokens, not from the text without noise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heed.errors import ConfigError
from heed.layers import DecoderStack
from heed.watch.trace import Trace, trace


@dataclass(frozen=True, eq=False)
class Site:
    """The states of one module at all positions of an input: of a recurrent cell, or after a block of a stack."""

    name: str  # of the module in the model
    layer: int  # from 0; for a stack, the number of the block
    parts: tuple[Tensor, ...]  # `(length, d)` each: hidden and, of an LSTM, cell states, or the block's output
    order: tuple[int, ...] | None = None  # for a cell, the position that each step reads; None if left to right


def sites_of(seen: Trace, length: int) -> list[Site]:
    """The states of a traced pass over one input, of all modules that have one for each of its `length` positions."""
    found: list[Site] = []
    counts = Counter[str]()
    for record in seen.tensor_records:
        if record.kind == "states":
            if record.value.shape[:2] == (1, length):
                found.append(Site(record.name, counts[record.name], (record.value[0],)))
            counts[record.name] += 1
    for gates in seen.gate_records:
        counts[gates.name] += 1
        if counts[gates.name] > 1 or gates.hidden.shape[:2] != (1, length):
            continue
        order = None if gates.order is None else tuple(gates.order[0].tolist())
        back = slice(None) if order is None else torch.argsort(torch.tensor(order))
        cells = (gates.gates()["cell"][0],) if gates.cell == "lstm" else ()
        number = re.search(r"\d+$", gates.name)
        found.append(Site(gates.name, int(number[0]) if number else 0, (gates.hidden[0][back], *cells), order))
    return found


class Patching(Trace):
    """Within this context, a model goes on with other states at some positions of each row of a batch."""

    def __init__(self, model: nn.Module, sites: Sequence[Site], places: Tensor) -> None:
        """Patch the sites at `places`, `(rows, length)`, True where their states are put in."""
        super().__init__(model, (), grad=False, recorded={})
        self._sites = {id(model.get_submodule(site.name)): site for site in sites}
        self._places = places
        self._calls = Counter[int]()

    def tensor(self, module: nn.Module, kind: str, value: Tensor) -> Tensor:
        """The block's output, or at some positions that of the other input."""
        site = self._sites.get(id(module)) if kind == "states" else None
        if site is None or self._next(module) != site.layer:
            return value
        return torch.where(self._places.unsqueeze(2), site.parts[0], value)

    def patches(self, cell: nn.Module) -> bool:
        """True if states of this cell are put in."""
        return id(cell) in self._sites

    def state(self, cell: nn.Module, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The state after one step, or in some rows that of the other input."""
        site = self._sites.get(id(cell))
        # A network that reads both source and output goes on after the source.
        if site is None or (step := self._next(cell)) >= self._places.shape[1]:
            return state
        place = step if site.order is None else site.order[step]
        chosen = self._places[:, place, None]
        return tuple(torch.where(chosen, part[place], own) for part, own in zip(site.parts, state, strict=True))

    def _next(self, module: nn.Module) -> int:
        """The number of this call of a module."""
        self._calls[id(module)] += 1
        return self._calls[id(module)] - 1


def after_each_block(model: nn.Module, read: Callable[[], Tensor]) -> list[Tensor]:
    """The logits of a decoder, `read`, as they would be if each of its blocks were the last.

    The last are the model's own, bit by bit.

    Raises:
        ConfigError: The model has no decoder blocks.
    """
    with torch.no_grad(), trace(model) as seen:
        read()
    stacks = {name for name, module in model.named_modules() if isinstance(module, DecoderStack)}
    states = [record for record in seen.tensor_records if record.kind == "states" and record.name in stacks]
    if not states:
        raise ConfigError("the logit lens reads the states between decoder blocks, and this model has none")
    found = []
    for record in states:
        every = torch.ones(record.value.shape[:2], dtype=torch.bool, device=record.value.device)
        site = Site(record.name, len(states) - 1, (record.value[0],))
        with torch.no_grad(), Patching(model, [site], every):
            found.append(read())
    return found
