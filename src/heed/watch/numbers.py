"""The breakdown of one weight of a map: query, key, their products, the score, the softmax, values, heads and output.

The vectors are those of the model's pass; the arithmetic is repeated in double precision, and its result is compared
with the drawn weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import torch
from torch import Tensor

from heed.errors import ConfigError
from heed.visible import visible
from heed.watch.maps import Axis, WeightSource
from heed.watch.records import AttentionRecord, SelfCheckError, Series


@dataclass(frozen=True)
class Number:
    """One weight of one head, from one query to one key as the model reads them. K keys; all numbers are float64."""

    title: str  # which attention: "encoder attention, layer 0, head 1"
    query_label: str
    key_label: str
    formula: str  # of the score: "q'k / sqrt(d)"
    query: Tensor  # `(d,)`, as the score uses it, after its projection and rotation
    key: Tensor  # `(d,)`, likewise
    scale: float | None  # the factor of a dot product, None for another score
    v: Tensor | None  # `(d,)`, of an additive score, v' tanh(query + key); None for another score
    at: int  # the key's index among the keys of the call
    keys: tuple[str, ...]  # a label for each of them
    scores: Tensor  # `(K,)`, scaled, before the softmax
    allowed: Tensor  # `(K,)` of bool, the keys over which the softmax runs
    weight: float  # the softmax, times `share`
    share: float  # the weight of the sentence or turn that contains the key; 1 without such parts
    edited: bool  # True if an edit has replaced the weight
    seen: float  # the weight that the model used
    values: Tensor  # `(K, d_value)`
    context: Tensor  # `(d_value,)`, the sum of weight times value over all keys, as the model computed it
    heads: Tensor  # `(heads,)`, the weight that each head used between the same query and key
    output: Tensor | None  # `(d_output,)`, of all heads, projected; None if nothing is projected

    @property
    def products(self) -> Tensor | None:
        """`(d,)`: the terms that the score sums, before `scale`; None for a score that is not known here."""
        if self.v is not None:
            return self.v * torch.tanh(self.query + self.key)
        return None if self.scale is None else self.query * self.key

    @property
    def score(self) -> float:
        """The score of this key."""
        return float(self.scores[self.at])

    @property
    def others(self) -> Tensor:
        """The scores of the other keys of the softmax."""
        other = self.allowed.clone()
        other[self.at] = False
        return self.scores[other]

    def numpy(self) -> list[str]:
        """Lines of Python that give the weight with NumPy alone, as `weight`."""
        if not bool(self.allowed[self.at]):
            return ["weight = 0.0  # masked: this query may not attend to this key"]
        if self.v is not None:
            parts, score = {"q": self.query, "k": self.key, "v": self.v}, "np.tanh(q + k) @ v"
        elif self.scale is not None:
            parts, score = {"q": self.query, "k": self.key}, "q @ k" + f" * {self.scale:.12g}" * (self.scale != 1)
        else:
            parts, score = {}, f"{self.score:.9g}"
        lines = ["import numpy as np"]
        lines += [f"{', '.join(parts)} = {', '.join(map(_array, parts.values()))}"] if parts else []
        lines += [f"score = {score}", f"others = {_array(self.others)}  # the scores of the other keys"]
        share = f"{self.share:.9g}" if self.share != 1 else "1"
        lines.append(f"weight = {share} / (1 + np.exp(others - score).sum())")
        return [*lines, *([f"weight = {self.seen:.9g}  # an edit replaced it"] if self.edited else [])]


def _array(values: Tensor) -> str:
    return f"np.array([{', '.join(f'{value:.9g}' for value in values.tolist())}])"


@dataclass(frozen=True)
class WeightBreakdown:
    """A drawn weight: one `Number`, or the mean over heads and tokens of the row of sums over tokens of the column."""

    title: str
    row: int  # of the map
    column: int
    query_label: str
    key_label: str
    drawn: float
    parts: Tensor  # `(heads and query tokens, key tokens)`, the weights that it is made of
    part_labels: tuple[tuple[str, ...], tuple[str, ...]]  # of its rows and columns
    number: Number  # the largest of them

    @property
    def head(self) -> str:
        """Which weight it is, in one line."""
        sides = f"{visible(self.query_label)} (row {self.row}) -> {visible(self.key_label)} (column {self.column})"
        return f"{self.title}: {sides}"

    def numpy(self) -> list[str]:
        """Lines of Python that give the weight with NumPy alone, as `weight`."""
        if self.parts.numel() == 1:
            return self.number.numpy()
        rows = ", ".join(f"[{', '.join(f'{value:.9g}' for value in row)}]" for row in self.parts.tolist())
        array = f"weights = np.array([{rows}])  # {' and '.join(self.of)}"
        return ["import numpy as np", array, "weight = weights.sum(1).mean()"]

    @property
    def of(self) -> list[str]:
        """The meanings of the rows and columns of `parts` that are several."""
        rows, columns = self.parts.shape
        return ["a row for each head or token of the row"] * (rows > 1) + ["a column for each token"] * (columns > 1)


@dataclass(frozen=True)
class RecordedSource:
    """The calls that a map was recorded from, with the tokens of its rows and columns.

    `within` is for pooling in parts: for each column the entry (sentence) that it belongs to, and the part's weight.
    """

    series: Series
    entry: int = 0
    head: int | None = None  # None for the mean
    before: int = 0  # rows of the map that stand before the first query
    query: Sequence[range] | None = None
    key: Sequence[range] | None = None
    within: Sequence[tuple[int, float]] | None = None

    def over(self, query: Sequence[range], key: Sequence[range]) -> RecordedSource:
        """The same for words, given as ranges of tokens."""
        return replace(self, query=query, key=key)

    @property
    def attention(self) -> tuple[str, int, int | None]:
        """Mechanism, layer and head; None for the mean of all heads."""
        first = self.series.records[0]
        return first.mechanism, first.layer, self.head

    def place(self, row: int, column: int) -> tuple[list[int], list[int]] | None:
        """Positions of the queries and keys of a cell, as edits count them; None for a cell of pooling in parts."""
        if self.within is not None:
            return None
        queries = range(row, row + 1) if self.query is None else self.query[row]
        keys = range(column, column + 1) if self.key is None else self.key[column]
        return [query - self.before for query in queries], [*keys]

    def breakdown(
        self, title: str, axes: tuple[Axis, Axis], row: int, column: int, drawn: float | None = None
    ) -> WeightBreakdown:
        """The weight of a cell, both counted from 0; `drawn` is what the map shows, by default what the model used.

        Raises:
            ConfigError: There is no such row or column, or the row attends to nothing.
            SelfCheckError: The recomputed weight is not the one that is drawn.
        """
        for name, at, axis in (("row", row, axes[0]), ("column", column, axes[1])):
            if not 0 <= at < len(axis):
                listed = ", ".join(f"{i} {visible(label)}" for i, label in enumerate(axis.labels[:_LISTED]))
                more = ", ..." if len(axis) > _LISTED else ""
                raise ConfigError(f"no {name} {at}: the {name}s of {title} are {listed}{more}")
        queries = range(row, row + 1) if self.query is None else self.query[row]
        keys = range(column, column + 1) if self.key is None else self.key[column]
        share = 1.0 if self.within is None else self.within[column][1]
        numbers: dict[tuple[int, int], list[Number]] = {}
        missing: list[ConfigError] = []  # of the tokens of a word, some may have no such key
        for q, k in product(queries, keys):
            try:
                numbers[q, k] = self._numbers(title, axes, q, k, row, column, share)
            except ConfigError as error:
                missing.append(error)
        if not numbers:
            raise missing[0]
        heads = [*range(len(next(iter(numbers.values()))))] if self.head is None else [self.head]
        seen = [[numbers[q, k][h].seen if (q, k) in numbers else 0.0 for k in keys] for h in heads for q in queries]
        parts = torch.tensor(seen, dtype=torch.float64)
        rows = [f"head {h}" * (len(heads) > 1) + f" token {q}" * (len(queries) > 1) for h in heads for q in queries]
        every = [numbers[q, k][h] for h in heads for q, k in product(queries, keys) if (q, k) in numbers]
        number = max(every, key=lambda number: number.seen)
        whole = float(parts.sum(1).mean())
        drawn = whole if drawn is None else drawn
        if not abs(whole - drawn) <= _ROUNDING:
            raise SelfCheckError(f"{title}: the weight {whole:.9f} of cell {row}, {column} is drawn as {drawn:.9f}")
        labels = tuple(label.strip() for label in rows), tuple(f"token {k}" for k in keys)
        sides = axes[0].labels[row], axes[1].labels[column]
        return WeightBreakdown(title, row, column, *sides, drawn, parts, labels, number)

    def _numbers(
        self, title: str, axes: tuple[Axis, Axis], query: int, key: int, row: int, column: int, share: float
    ) -> list[Number]:
        """The weight of a query token and a key token in each head."""
        entry = self.entry if self.within is None else self.within[column][0]
        place = self.series.place(query - self.before)
        if place is None:
            raise ConfigError(f"row {row} of {title} is empty: '{visible(axes[0].labels[row])}' has nothing to look at")
        (record, at), index = place, entry
        places = [*range(record.prepared.shape[2])] if record.places is None else record.places[index].tolist()
        if key not in places:
            raise ConfigError(
                f"'{visible(axes[1].labels[column])}' ({column}) is not among the {len(places)} keys that row {row} of "
                f"{title} attends to"
            )
        labels = tuple(self._label(axes[1], token, entry) for token in places)
        of = f"{title}, head {{}}" if self.head is None and record.projected.shape[1] > 1 else title
        query_label, index_of_key = axes[0].labels[row], places.index(key)
        return [
            _number(of.format(head), query_label, labels, record, (index, head, at, index_of_key), share)
            for head in range(record.projected.shape[1])
        ]

    def _label(self, axis: Axis, token: int, entry: int) -> str:
        """The label of a key: its word, with the number of the token in it if there are several."""
        for column, label in enumerate(axis.labels):
            tokens = range(column, column + 1) if self.key is None else self.key[column]
            if token in tokens and (self.within is None or self.within[column][0] == entry):
                return label if len(tokens) == 1 else f"{label} {token - tokens.start + 1}/{len(tokens)}"
        return f"key {token}"


ShownAttention = tuple[str, tuple[Axis, Axis], WeightSource | None, Tensor]
"""An attention by name, its axes, queries first, what its weights came from, and its weights `(query, key)`."""


def break_down(attentions: Sequence[ShownAttention], query: int | str, key: int | str) -> WeightBreakdown:
    """The weight of a cell of the only attention that is shown; see `RecordedSource.breakdown`.

    Raises:
        ConfigError: There is no such row or column; or no attention is shown, or several are.
    """
    recorded = [(title, axes, source, weights) for title, axes, source, weights in attentions if source is not None]
    if not recorded:
        raise ConfigError(
            "no weight can be opened: this look shows no attention by itself (a rollout is a product of several)"
        )
    if len(recorded) > 1:
        names = "; ".join(title for title, *_ in recorded)
        raise ConfigError(f"several attentions are shown, so choose one with mechanism, layer and head: {names}")
    ((title, axes, source, weights),) = recorded
    row, column = (_position(position, name) for position, name in ((query, "row"), (key, "column")))
    inside = 0 <= row < weights.shape[0] and 0 <= column < weights.shape[1]
    drawn = float(weights[row, column]) if inside else None
    breakdown: WeightBreakdown = source.breakdown(title, axes, row, column, drawn)
    return breakdown


def _position(position: int | str, name: str) -> int:
    try:
        return int(position)
    except ValueError:
        raise ConfigError(f"the {name} is '{position}'; give its number in the map, counted from 0") from None


_LISTED = 20
_ROUNDING = 1e-6


def _number(
    title: str,
    query_label: str,
    labels: tuple[str, ...],
    record: AttentionRecord,
    place: tuple[int, int, int, int],  # row, head, query and key
    share: float,
) -> Number:
    row, head, at, index = place
    source = row if record.source_of is None else int(record.source_of[row])
    query, keys, values = record.projected[row, head, at], record.prepared[source, head], record.value[source, head]
    query, keys, values = (tensor.detach().double().cpu() for tensor in (query, keys, values))
    rows = torch.tensor([row], device=record.projected.device)
    allowed = record.may(rows)[0, head, at].cpu() > 0
    parameters = record.pair_score.keywords if isinstance(record.pair_score, partial) else {}
    scale, v = parameters.get("scale"), parameters.get("v")
    v = None if v is None else v.detach().double().cpu()
    if v is not None:
        scores = torch.tanh(query + keys) @ v
    elif scale is not None:
        scores = keys @ query * scale
    else:
        scores = record.pair_score(record.projected[row, head, at : at + 1], record.prepared[source, head])[0]
        scores = scores.double().cpu()
    if record.parts is not None:
        part_of, part_weights = record.parts
        share *= float(part_weights[row, at, part_of[row, index]])
        allowed &= part_of[row].cpu() == part_of[row, index].cpu()
    softmax = torch.softmax(scores.masked_fill(~allowed, -torch.inf), 0) if allowed.any() else torch.zeros_like(scores)
    weight = share * float(softmax[index])
    every = record.weights(rows)[0, :, at, index].detach().double().cpu() * (share if record.parts is None else 1.0)
    seen = float(every[head])
    size = float((v if v is not None else (query * keys[index]) * (scale or 1.0)).abs().sum())
    bound = _ROUNDING + 8 * torch.finfo(record.projected.dtype).eps * size
    if not record.edited and not abs(weight - seen) <= bound:
        raise SelfCheckError(
            f"{title}: the weight recomputed from query and key is {weight:.9f}, but the model used {seen:.9f}; "
            "this is a bug in heed, please report it"
        )
    context = record.context[row, head, at].detach().double().cpu()
    output = None if record.output is None else record.output[row, at].detach().double().cpu()
    return Number(
        title, query_label, labels[index], record.formula, query, keys[index], scale, v, index, labels, scores, allowed,
        weight, share, record.edited, seen, values, context, every,
        None if output is None or torch.equal(output, context) else output,
    )  # fmt: skip
