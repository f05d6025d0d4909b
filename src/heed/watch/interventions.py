"""Interventions on a trained model: other attention weights, or the states of another input, and what the output does.

Other weights (`with_effects`). For a map of keys k and an answer of outputs o (a label; a tag for each word; each token
that was written, after those before it), with P(o) the probability that the model gave to what it answered:

equal weights:          the weights of each row are equal over the keys that it may attend to
all weight on one key:  each row that may attend to key k attends to it alone, for one key after the other

For each intervention the largest change of P(o) over the outputs is reported, and the first output whose most probable
class is another one. Nothing is averaged over outputs: of an output of many tokens a single one may change.
`equal_weights` scores many examples under the first of them, each attention by itself and all together.

Source: Jain and Wallace 2019, arXiv:1902.10186, and Wiegreffe and Pinter 2019, arXiv:1908.04626 (other weights; equal
weights in section 3.2, "Uniform as the Adversary").
Differs from them: the weights of a trained model are replaced in a map at a time, and nothing is trained again.

States of another input (`Patching`, causal tracing): those after each block of a Transformer, or those of a recurrent
cell at each position. Patched at some positions of one layer, the model recomputes everything after them. With m the
score, the recovered share is

    share = (m(patched) - m(text)) / (m(other) - m(text))       0: as for the text, 1: as for the other

The logit lens is the same operation: the state after block n replaces that after the last block, so that the model's
own last normalisation and output layer read it.

Source: Vig et al. 2020, arXiv:2004.12265 (states of another input); Meng et al. 2022, arXiv:2202.05262, section 2 (the
grid of layers and positions); Wang et al. 2022, arXiv:2211.00593, section 3 (the share of a difference of logits);
nostalgebraist 2020, "interpreting GPT: the logit lens".
Differs from Meng et al.: the states come from another text of as many tokens, not from the text without noise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.errors import ConfigError
from heed.evaluation.measures import Measure, share
from heed.evaluation.significance import Interval, difference, ends, intervals
from heed.layers import DecoderStack
from heed.visible import visible
from heed.watch.edits import Edit, Uniform, heads_of
from heed.watch.effects import Answer, Change, Effect
from heed.watch.looks import Look, rows_of
from heed.watch.maps import Axis, WeightSource
from heed.watch.trace import Trace, edit, trace

MAX_KEYS, MIN_KEYS = 64, 8
"""Maximum number of keys that get all weight, the most attended first; and their number in large models."""
_WORK = 5e9
"""Rough number of products of weights and states that are computed for one map; 0.3 s of one core of 2023."""
MAX_RANKS = 16
"""The maximum where each sentence is a separate row: the most attended key of each, then the next of each."""
MAX_MAPS = 8
"""A look with more maps is drawn as an overview, without effects."""


@dataclass(frozen=True, eq=False)
class _Alone(Edit):
    """All weight on some keys of each input of a batch, equally; rows that may attend to none of them are unchanged."""

    keys: Tensor | None = None  # `(N, key)` of bool

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        assert self.keys is not None
        keys = pad(self.keys, (0, max(0, weights.shape[-1] - self.keys.shape[-1])))[:, : weights.shape[-1]]
        new = keys[:, None, None].to(weights.dtype).expand_as(weights)
        new = new if allowed is None else new * allowed
        total = new.sum(-1, keepdim=True)
        return torch.where(total > 0, new / total.clamp_min(1.0), weights)


@dataclass(frozen=True)
class _Ranked(Edit):
    """All weight of each row on its key of one rank, where it has so many."""

    rank: int = 0

    def change(self, weights: Tensor, allowed: Tensor | None, positions: Tensor) -> Tensor:
        may = torch.ones_like(weights, dtype=torch.bool) if allowed is None else allowed.expand_as(weights)
        order = weights.masked_fill(~may, -1.0).argsort(dim=-1, descending=True, stable=True)
        new = torch.zeros_like(weights)
        if self.rank < weights.shape[-1]:
            new.scatter_(-1, order[..., self.rank : self.rank + 1], 1.0)
        return torch.where((may.sum(-1, keepdim=True) > self.rank), new, weights)


def effect_of(
    answer: Answer, weights: Tensor, key: Axis, source: WeightSource, mask: Tensor | None = None
) -> Effect | None:
    """Replace the weights of one map; None if no row of it has a choice, or the answer has no outputs.

    Args:
        answer: The answer.
        weights: `(query, key)`, as drawn.
        key: Its columns.
        source: The attention, and the positions of its columns.
        mask: `(query, key)`, True = may attend, or None.
    """
    if not len(answer.whole) or int((weights > 0).sum(-1).max()) < 2:
        return None
    place, weight = source.attention, weights.detach().double().mean(0).cpu()
    (equal,) = _changes(answer, Uniform(*place), 1)
    order = weight.argsort(descending=True, stable=True).tolist()
    order = [n for n in order if mask is None or bool(mask[:, n].any())]
    columns = [(n, at[1]) for n in order if (at := source.place(0, n)) is not None]
    if columns:
        labels, changes = [_quoted(key, n) for n, _ in columns], list[Change]()
        tried = columns[: _max_keys(answer)]
        keys = torch.zeros(len(tried), 1 + max(max(at) for _, at in tried), dtype=torch.bool)
        for row, (_, positions) in zip(keys, tried, strict=True):
            row[positions] = True
        for some in keys.to(answer.tokens.device).split(answer.at_once):
            changes += _changes(answer, _Alone(*place, keys=some), len(some))
    else:
        longest = max((part.stop - part.start for part in key.parts), default=len(key))
        labels = [f"key {n + 1} of each row" for n in range(longest)]
        ranks = range(min(longest, MAX_RANKS))
        changes = [change for rank in ranks for change in _changes(answer, _Ranked(*place, rank=rank), 1)]
    largest = max(range(len(changes)), key=lambda n: changes[n].size)
    others = sum(bool(change.instead) for change in changes)
    return Effect(equal, changes[largest], labels[largest], others, len(changes), len(labels), answer.compared)


def _max_keys(answer: Answer) -> int:
    """The number of keys of a map that get all weight, fewer in a large model or a long text."""
    tables = {id(module.weight) for module in answer.model.modules() if isinstance(module, nn.Embedding)}
    weights = sum(parameter.numel() for parameter in answer.model.parameters() if id(parameter) not in tables)
    work = weights * (len(answer.tokens) + len(answer.whole))
    return int(min(MAX_KEYS, max(MIN_KEYS, _WORK / max(1, work))))


def _changes(answer: Answer, intervention: Edit, count: int) -> list[Change]:
    """The changes in a batch of `count` copies of the input, under an edit."""
    with edit(answer.model, intervention):
        both = answer.probabilities(answer.tokens.expand(count, -1), intervention.mechanism or "")
    return [*map(answer.change, *both)]


def _quoted(key: Axis, n: int) -> str:
    """The label of a key, with its place if others have the same."""
    label = key.labels[n]
    return f'"{visible(label)}"' + (f" ({key.kind} {n + 1})" if key.labels.count(label) > 1 else "")


def with_effects(look: Look, edits: Sequence[Edit] = ()) -> Look:
    """A look with the effect of each of its maps, those that are drawn as shaded words too.

    Args:
        look: The look, with its answer.
        edits: The edits of the look, which stay in place.
    """
    sources = [
        (map, map.weight_source)
        for map in (*look.maps, *rows_of(look))
        if map.is_distribution and map.weight_source is not None
    ]
    if look.answer is None or not 0 < len(sources) <= MAX_MAPS:
        return look
    with edit(look.answer.model, *edits):
        effects = {id(map): effect_of(look.answer, map.weights, map.key, source, map.mask) for map, source in sources}
    maps = (replace(map, effect=effects.get(id(map))) for map in look.maps)
    shadings = (replace(shading, effect=effects.get(id(shading.row))) for shading in look.shadings)
    return replace(look, maps=tuple(maps), shadings=tuple(shadings))


# Many examples under equal weights -----------------------------------------------------------------------------------


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

    def _line(self, effect: UniformEffect) -> str:
        scale, form = 100.0 if self.measure.is_share else 1.0, f"+.{self.measure.digits}f"
        points = f"{scale * effect.change.value:{form}}{' points' * self.measure.is_share}"
        place = "all attention" if effect.mechanism is None else f"{effect.mechanism} layer {effect.layer}"
        changed = f"; {effect.outputs_changed} of outputs change" if effect.outputs_changed else ""
        return f"  {place}: {self._score(effect.score)}, {points} [{ends(asdict(effect.change), form, scale)}]{changed}"

    def _score(self, value: float) -> str:
        form = "%" if self.measure.is_share else "f"
        return f"{self.measure.label} {value:.{self.measure.digits}{form}}"


def equal_weights(run: Any, examples: Sequence[Any]) -> EqualWeights:
    """Score examples as `evaluate` does, with equal weights in each attention of the model.

    Raises:
        ConfigError: The model has no attention, or the run is an ensemble.
    """
    if len(run.members) > 1:
        folders = ", ".join(str(member.folder) for member in run.members)
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


# States of another input ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Site:
    """The states of one module at all positions of an input: of a recurrent cell, or after a block of a stack."""

    name: str  # of the module in the model
    layer: int  # from 0; for a stack, the number of the block
    parts: tuple[Tensor, ...]  # `(length, d)` each: hidden and, of an LSTM, cell states, or the block's output
    order: tuple[int, ...] | None = None  # for a cell, the position that each step reads; None if left to right


def sites_of(seen: Trace, length: int) -> list[Site]:
    """The states of a traced pass over one input, of all modules that have one for each of its `length` positions."""
    sites: list[Site] = []
    counts = Counter[str]()
    for record in seen.tensor_records:
        if record.kind == "states":
            if record.value.shape[:2] == (1, length):
                sites.append(Site(record.name, counts[record.name], (record.value[0],)))
            counts[record.name] += 1
    for gates in seen.gate_records:
        counts[gates.name] += 1
        if counts[gates.name] > 1 or gates.hidden.shape[:2] != (1, length):
            continue
        order = None if gates.order is None else tuple(gates.order[0].tolist())
        back = slice(None) if order is None else torch.argsort(torch.tensor(order))
        cells = (gates.gates()["cell"][0],) if gates.cell == "lstm" else ()
        number = re.search(r"\d+$", gates.name)
        sites.append(Site(gates.name, int(number[0]) if number else 0, (gates.hidden[0][back], *cells), order))
    return sites


class Patching(Trace):
    """Context manager in which states are replaced at some positions of each row of a batch."""

    def __init__(self, model: nn.Module, sites: Sequence[Site], places: Tensor) -> None:
        """Patch the sites at `places`, `(rows, length)`, True where their states replace the model's."""
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
        """True if states of this cell are replaced."""
        return id(cell) in self._sites

    def state(self, cell: nn.Module, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The state after one step, or in some rows that of the other input."""
        site = self._sites.get(id(cell))
        # A network that reads both source and output goes on after the source.
        if site is None or (step := self._next(cell)) >= self._places.shape[1]:
            return state
        place = step if site.order is None else site.order[step]
        chosen = self._places[:, place, None]
        return tuple(torch.where(chosen, part[place], values) for part, values in zip(site.parts, state, strict=True))

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
    logits = []
    for record in states:
        every = torch.ones(record.value.shape[:2], dtype=torch.bool, device=record.value.device)
        site = Site(record.name, len(states) - 1, (record.value[0],))
        with torch.no_grad(), Patching(model, [site], every):
            logits.append(read())
    return logits
