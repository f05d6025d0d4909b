"""One weight of a look opened, step by step, as text and as a section of a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from markupsafe import Markup
from torch import Tensor

from heed.show.document import as_html, as_text
from heed.show.number_tables import NumberTable, table_to_html, tables_to_lines, three_decimals
from heed.show.page import draw
from heed.visible import clean, visible
from heed.watch.numbers import Number, WeightBreakdown

_MOST = 8
"""Components of a vector, and keys of a softmax, that are shown unless all are asked for."""


class _Step(NamedTuple):
    title: str
    table: NumberTable | None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calculation:
    """A weight and what it came from; `every` shows all components and keys, not only those that count most."""

    opened: WeightBreakdown
    every: bool = False


@as_text.register
def _(one: Calculation, width: int, color: bool) -> list[str]:
    lines = [f"weight {one.opened.drawn:.6f}"]
    for number, step in enumerate(_steps(one.opened, one.every), start=1):
        lines += ["", f"{number}. {clean(step.title)}"]
        lines += [] if step.table is None else tables_to_lines([step.table], width, color)[1:]
        lines += [clean(line) for line in step.lines]
    return lines


@as_html.register
def _(one: Calculation, numbers: Iterator[int]) -> Markup:
    steps = [
        (s.title, "" if s.table is None else table_to_html(replace(s.table, title=s.title)), s.lines)
        for s in _steps(one.opened, one.every)
    ]
    return draw("number", f"weight {one.opened.drawn:.6f}", steps, "\n".join(one.opened.numpy()))


def _steps(opened: WeightBreakdown, every: bool) -> Iterator[_Step]:
    if opened.parts.numel() > 1:
        rows, columns = opened.part_labels
        table = NumberTable("", tuple(row or "weight" for row in rows), columns, opened.parts, heat=True)
        said = "the mean over the rows" * (len(rows) > 1), "the sum over the columns" * (len(columns) > 1)
        one = opened.number
        which = f"{one.title}, {visible(one.query_label)} -> {visible(one.key_label)}"
        line = f"{' of '.join(filter(None, said))} is {opened.drawn:.6f}; below, the largest of them: {which}"
        yield _Step("what the weight is made of", table, (line,))
    yield from _of_number(opened.number, every)


def _of_number(one: Number, every: bool) -> Iterator[_Step]:
    products, score = one.products, three_decimals(one.score)
    sides = f"query of {visible(one.query_label)}, key of {visible(one.key_label)}"
    if products is None:
        yield _Step(f"score {one.formula}: {score}", None, (f"{sides}; the products of this score are not known",))
    else:
        rows = {"query": one.query, "key": one.key}
        rows |= {} if one.v is None else {"tanh(q + k)": torch.tanh(one.query + one.key), "v": one.v}
        table, rest = _cut(rows | {"product": products}, products, every)
        total = three_decimals(float(products.sum()))
        scaled = f", times {one.scale:.6g} = {score}" if one.scale not in (None, 1.0) else ""
        yield _Step(f"score {one.formula}: {sides}", table, (*rest, f"sum of the products {total}{scaled}"))
    yield _softmax(one, every)
    value, part = one.values[one.at], one.seen * one.values[one.at]
    table, rest = _cut({"value": value, "weight x value": part, "context": one.context}, part, every)
    said = f"value of {visible(one.key_label)}; the context is the sum of weight x value over all keys"
    yield _Step(said, table, rest)
    if len(one.heads) > 1:
        names = tuple(f"head {i}" for i in range(len(one.heads)))
        yield _Step("this weight in each head", NumberTable("", ("weight",), names, one.heads[None], heat=True))
    if one.output is not None:
        table, rest = _cut({"output": one.output}, one.output, every)
        yield _Step("output row: the contexts of all heads, joined and projected", table, rest)
    difference = abs(one.weight - one.seen)
    said = f"from these numbers {one.weight:.9f}, in the model's pass {one.seen:.9f}: they differ by {difference:.1e}"
    yield _Step("self-check", None, ("an edit has replaced the weight; " * one.edited + said,))


def _cut(rows: dict[str, Tensor], by: Tensor, every: bool) -> tuple[NumberTable, tuple[str, ...]]:
    """Vectors as rows of a table: the components whose `by` is largest, and the sum of `by` over the others."""
    count = len(by)
    chosen = [*range(count)] if every or count <= _MOST + 1 else sorted(by.abs().topk(_MOST).indices.tolist())
    table = NumberTable("", tuple(rows), tuple(map(str, chosen)), torch.stack(list(rows.values()))[:, chosen])
    rest = float(by.sum() - by[chosen].sum())
    left, name = count - len(chosen), list(rows)[1 if "context" in rows else -1]
    return table, (f"the other {left} of {count} components of {name} sum to {three_decimals(rest)}",) if left else ()


def _softmax(one: Number, every: bool) -> _Step:
    """Scores, their exponentials and weights of the keys that count most, and the sums over the others."""
    may = [i for i in range(len(one.scores)) if one.allowed[i]]
    masked = len(one.scores) - len(may)
    if one.at not in may:
        return _Step("softmax", None, ("masked: this query may not attend to this key, so the weight is 0",))
    highest = float(one.scores[may].max())
    powers = torch.exp(one.scores - highest)
    total = float(powers[may].sum())
    best = sorted(may, key=lambda i: (i != one.at, -float(powers[i])))[: len(may) if every else _MOST]
    chosen = sorted(best)
    rows = torch.stack([one.scores, powers, one.share * powers / total])[:, chosen]
    names, keys = ("score", "exp(score - max)", "weight"), tuple(one.keys[i] for i in chosen)
    table = NumberTable("", names, keys, rows, (False, False, True))
    lines, share, left = [], "", len(may) - len(chosen)
    if left:
        rest = total - float(powers[chosen].sum())
        lines.append(f"the other {left} keys: exp {three_decimals(rest)}, weight {one.share * rest / total:.3f}")
    if one.share != 1:
        share = f"{three_decimals(one.share)} x "
        lines.append(f"{three_decimals(one.share)} is the weight of the part that contains these keys")
    lines.append(
        f"weight = {share}{three_decimals(float(powers[one.at]))} / {three_decimals(total)} = {one.weight:.6f}"
    )
    title = f"softmax over {len(may)} key{'s' * (len(may) != 1)}" + f"; {masked} more are masked" * (masked > 0)
    return _Step(title, table, tuple(lines))
