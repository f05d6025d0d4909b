"""The tables of a stage: the matrices to show, with their titles."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heed.lessons.arithmetic import Numbers
from heed.lessons.parts import Table


def features(width: int, roles: list[str] | None = None) -> tuple[str, ...]:
    """Names of the numbers of a vector: their roles, or their positions from 0."""
    return tuple(roles) if roles else tuple(map(str, range(width)))


def vectors(
    name: str, values: Tensor, rows: tuple[str, ...], roles: list[str] | None = None, notes: tuple[str, ...] = ()
) -> Table:
    """A matrix whose columns are unnamed numbers, with its size in the title."""
    title = f"{name}, {values.shape[0]} x {values.shape[1]}"
    return Table(title, rows, features(values.shape[1], roles), values, notes=notes)


def attention_tables(
    numbers: Numbers, queries: tuple[str, ...], keys: tuple[str, ...], scale: str, symbols: Sequence[str]
) -> tuple[Table, ...]:
    """Scores, scaled scores, weights and context of queries (rows) and keys (columns).

    `scale` is the divisor of the scores as text, empty for none; `symbols` name queries, keys and values.
    """
    q, k, v = symbols
    rows, columns = len(queries), len(keys)
    tables = [Table(f"scores: {q} {k}', {rows} x {columns}", queries, keys, numbers.scores, mask=numbers.mask)]
    if scale:
        tables.append(Table(f"scaled: scores / {scale}", queries, keys, numbers.scaled, mask=numbers.mask))
    after = "softmax(scaled)" if scale else "softmax(scores)"
    heat = (True,) * rows
    tables.append(Table(f"weights: {after}, each row sums to 1", queries, keys, numbers.weights, heat, numbers.mask))
    tables.append(vectors(f"context: weights {v}", numbers.context, queries))
    return tuple(tables)


def one_row_tables(numbers: Numbers, query: str, keys: tuple[str, ...], scale: str) -> tuple[Table, ...]:
    """One query: its scores and weights, then the weighted values and their sum."""
    lines = {"q . k": numbers.scores[0], f"/ {scale}": numbers.scaled[0], "weight": numbers.weights[0]}
    if not scale:
        del lines["/ "]
    mask = None if numbers.mask is None else numbers.mask.expand(len(lines), -1)
    heat = tuple(name == "weight" for name in lines)
    brought = numbers.weights[0].unsqueeze(-1) * numbers.value
    labels = (*(f"{w + 0.0:.3f} x {key}" for w, key in zip(numbers.weights[0].tolist(), keys, strict=True)), "context")
    summed = torch.cat([brought, numbers.context])
    return (
        vectors(f"q of {query}", numbers.query, (query,)),
        Table(f"{query} against every key", tuple(lines), keys, torch.stack(list(lines.values())), heat, mask),
        Table("weight x value, and their sum", labels, features(numbers.value.shape[-1]), summed),
    )
