"""The stages of a lesson, in the order of the notes: no weights, projections, some rows, all rows, scales.

`heed.attention` computes the numbers, and every intermediate result is kept. Noteworthy rows are found in them, and the
values that a file states are compared with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heed.attention import Dot, attend, causal_mask
from heed.errors import ConfigError, suggest, whole_number
from heed.lessons.parts import THREE_DECIMALS, Moment, Script, Stage, Table, double, find, name_of
from heed.lessons.schema import SCALES, LessonFile, Values
from heed.tasks.base.report import counted

_stage = Script("worked")
_PROJECTED = ("query", "key", "value")


class Numbers(NamedTuple):
    """Every intermediate result of one attention; `mask` is True where a query may attend, or None."""

    query: Tensor  # (query, d)
    key: Tensor  # (key, d)
    value: Tensor  # (key, d_value)
    scores: Tensor  # (query, key), products q k'
    scaled: Tensor  # (query, key), scores divided by the scale
    weights: Tensor  # (query, key), their softmax
    context: Tensor  # (query, d_value)
    mask: Tensor | None  # (query, key)
    scale: str  # text of the divisor of the scores; empty for none

    def as_dict(self) -> dict[str, Any]:
        """The results by name, without the mask and the scale."""
        return dict(zip(self._fields[:7], self, strict=False))

    def under(self, divisor: float) -> Numbers:
        """The same attention with scores divided by another number."""
        return compute(self.query, self.key, self.value, self.mask, divisor)

    def tables(self, queries: tuple[str, ...], keys: tuple[str, ...], symbols: Sequence[str] = "QKV") -> list[Table]:
        """Scores, scaled scores, weights and context; `symbols` name queries (rows), keys (columns) and values."""
        (q, k, v) = symbols
        shared: dict[str, Any] = {"mask": self.mask}
        scores = Table(f"scores: {q} {k}', {len(queries)} x {len(keys)}", queries, keys, self.scores, **shared)
        scaled = [Table(f"scaled: scores / {self.scale}", queries, keys, self.scaled, **shared)] if self.scale else []
        title = f"weights: softmax({'scaled' if scaled else 'scores'}), each row sums to 1"
        weights = Table(title, queries, keys, self.weights, True, **shared)
        return [scores, *scaled, weights, _vectors(f"context: weights {v}", self.context, queries)]


def compute(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, divisor: float = 1.0, scale: str = ""
) -> Numbers:
    """Attention with every intermediate result: the scores before and after division, the rest by `attend`."""
    score = Dot()
    score.scale = 1.0 / divisor
    context, weights = attend(query, key, value, mask, score)
    scores, scaled = Dot().scores(query, key), score.scores(query, key)
    return Numbers(query, key, value, scores, scaled, weights, context, mask, scale)


class Bench:
    """The common basis of all stages: a file, its projected rows, and attention over all of them.

    Attributes:
        tokens: One per row.
        names: Names of the tokens in messages.
        x: The rows in float64, `(rows, d_model)`.
        learned: Attention over all rows: `q = x W_Q`, or `q = x` without weights.
        unlearned: Attention with q = k = v = x and no scale.
        sizes: The numbers whose roots are in use as scales, by the names that files have for them.
        chosen: The row for stages of one row; by default the first with a query other than zero and several keys.
        asked: True if the user chose that row.
        rule: Text of the divisor of the scores: "sqrt(d_k)"; empty for none.

    Raises:
        ConfigError: There is no such row, or the numbers overflow.
    """

    def __init__(self, file: LessonFile, row: int | str | None) -> None:
        self.file, self.tokens, self.asked = file, tuple(file.tokens), row is not None
        self.names = [name_of(i, self.tokens) for i in range(len(self.tokens))]
        self.x = x = double(file.input)
        mask = None if file.mask is None else torch.tensor(file.mask)
        if file.causal:
            earlier = causal_mask(len(x), len(x))
            mask = earlier if mask is None else mask & earlier
        query, key, value = (x if w is None else x @ double(w) for w in (file.w_query, file.w_key, file.w_value))
        self.sizes = {"query_width": query.shape[-1], "model_width": x.shape[-1], "rows": len(x)}
        self.rule = SCALES.get(file.scale, file.scale) if isinstance(file.scale, str) else f"{file.scale:g}"
        self.divided_by, scale = self.divisor(file.scale), self.rule
        if self.rule and isinstance(file.scale, str):
            scale = f"{self.rule} = {self.divided_by:.3f}"
        self.learned = compute(query, key, value, mask, self.divided_by, scale)
        self.unlearned = compute(x, x, x, mask)
        for numbers in (self.unlearned, self.learned):
            if not bool(numbers.scores.isfinite().all() & numbers.context.isfinite().all()):
                raise ConfigError("a score or context overflows; make the input or the weights smaller")
        telling = query.any(dim=-1) if mask is None else query.any(dim=-1) & (mask.sum(dim=-1) > 1)
        self.chosen = int(telling.double().argmax()) if row is None else find(row, self.tokens, "--row")

    def divisor(self, scale: str | float) -> float:
        """The divisor that a scale of a file names."""
        if not isinstance(scale, str):
            return scale
        if scale == "none":
            return 1.0
        root = re.fullmatch(r"sqrt\((\d+)\)", scale)
        return math.sqrt(whole_number(root[1]) if root else self.sizes[scale])


_HALF = 0.0005
"""Allowed difference of values that are stated to three decimals."""


def find_moments(x: Tensor, numbers: Numbers, names: Sequence[str]) -> tuple[Moment, ...]:
    """Find noteworthy rows of one attention over all tokens; equal findings are merged. `x` is `(rows, d_model)`."""
    shown: dict[tuple[str, str], list[int]] = {}
    alike: dict[tuple[float, ...], list[int]] = {}
    for i, row in enumerate(x.tolist()):
        alike.setdefault(tuple(row), []).append(i)
        if (moment := _moment(i, numbers, names)) is not None:
            shown.setdefault(moment, []).append(i)
    equal = ("equal rows", "equal inputs, so equal rows; attention by itself ignores positions")
    weights = numbers.weights  # equal inputs have unequal rows if their masks differ
    repeated = [rows for rows in alike.values() if len(rows) > 1 and bool((weights[rows] == weights[rows[0]]).all())]
    return tuple(
        Moment(kind, tuple(rows), f"{', '.join(names[i] for i in rows)}: {text}")
        for (kind, text), rows in [*shown.items(), *((equal, rows) for rows in repeated)]
    )


def _moment(i: int, numbers: Numbers, names: Sequence[str]) -> tuple[str, str] | None:
    """The finding of one row: its kind, and the text that follows the token's name."""
    weights, others = numbers.weights[i], [*names[:i], "itself", *names[i + 1 :]]
    allowed = list(range(len(weights))) if numbers.mask is None else numbers.mask[i].nonzero().flatten().tolist()
    if not allowed:
        return "masked row", "may attend to nothing, so its weights and its context are zeros"
    if len(allowed) == 1:
        return "one key", f"may attend to {others[allowed[0]]} only, so that weight is 1.000 whatever the score"
    seen = weights[allowed]
    if not bool(numbers.query[i].any()):
        return "zero query", f"every score is 0, so each of the {len(allowed)} keys gets {float(seen[0]):.3f}"
    if float(seen.max() - seen.min()) <= THREE_DECIMALS:
        return "uniform row", f"equal scores, so each of the {len(allowed)} keys gets {float(seen.mean()):.3f}"
    best = int(weights.argmax())
    if float(weights[best]) >= 1 - THREE_DECIMALS:
        return "one-hot row", f"all weight on {others[best]}, to three decimals"
    ties = [names[j] for j in allowed if float(weights[best] - weights[j]) <= 1e-9]
    return ("tie", f"{', '.join(ties)} tie with {float(weights[best]):.3f} each") if len(ties) > 1 else None


def compare(bench: Bench) -> Iterator[tuple[str, float, Tensor, float]]:
    """Every value that the file states: its name, itself, the computed one, and the tolerance.

    Raises:
        ConfigError: A value names a row or a column that does not exist.
    """
    file, learned, tokens = bench.file, bench.learned, bench.tokens
    groups = [("expected", file.expected, learned, _HALF), ("printed", file.printed, learned, file.tolerance)]
    groups.append(("unlearned", file.unlearned, bench.unlearned, _HALF))
    for scale, cells in file.other_scales.items():
        groups.append((f"other_scales.{scale}", Values(weights=cells), learned.under(bench.divisor(scale)), _HALF))
    for group, values, numbers, tolerance in groups:
        for quantity, results in numbers.as_dict().items():
            columns = tokens if quantity in ("scores", "scaled", "weights") else _features(results.shape[-1])
            where = f"{group}.{quantity}"
            for place, row in getattr(values, quantity).items():
                i = find(place, tokens, where)
                if all(isinstance(column, int) for column in row) and len(row) != len(columns):
                    raise ConfigError(f"{where} row {place} has {counted(len(row), 'number')}, expected {len(columns)}")
                for column, value in row.items():
                    j = find(column, columns, f"{where} row {place}")
                    name = f"{group} {quantity}[{name_of(i, tokens)}][{name_of(j, columns)}]"
                    if value is not None:
                        yield name, value, results[i, j], tolerance


_COUNTS = ("no", "one", "two", "three", "four", "five", "six")


def build_stages(file: LessonFile, row: int | str | None = None) -> tuple[Stage, ...]:
    """All stages of a lesson, with unique names and the file's notes.

    Raises:
        ConfigError: The file names a token, a cell or a stage that does not exist.
    """
    bench, has_weights = Bench(file, row), bool(file.w_query or file.w_key or file.w_value)
    comes_after = has_weights and file.unlearned == Values()  # attention without weights is no step of the example
    checks = list(compare(bench))
    stages = [
        _input(bench),
        *([_projections(bench)] if has_weights else []),
        *_parts(bench),
        _all_rows(bench),
        _scales(bench),
        *(_other_width(bench, width) for width in file.other_widths),
        *([_stage("checks", checks=checks)] if checks else []),
        *([_stage("remarks", lines=file.remarks)] if file.remarks else []),
    ]
    names = [stage.name for stage in stages]
    stages.insert(names.index("scales") if comes_after else 1, _unlearned(bench, comes_after))
    done: dict[str, Stage] = {}
    for stage in stages:
        numbered = (f"{stage.name}-{n}" for n in count(2))
        name = next(name for name in chain([stage.name], numbered) if name not in done)
        done[name] = replace(stage, name=name, lines=(*stage.lines, *file.notes.get(name, ())))
    if unknown := [name for name in file.notes if name not in done]:
        raise ConfigError(f"notes: no stage '{unknown[0]}'{suggest(unknown[0], list(done))}")
    return tuple(done.values())


def _input(bench: Bench) -> Stage:
    sizes = {"rows": bench.x.shape[0], "columns": bench.x.shape[1]}
    masks = {"causal": bench.file.causal, "chosen": bench.file.mask, "masked": bench.learned.mask is not None}
    return _stage("input", _vectors("X", bench.x, bench.tokens, bench.file.roles), x=bench.x, **sizes, **masks)


def _unlearned(bench: Bench, comes_after: bool) -> Stage:
    numbers, names = bench.unlearned, bench.names
    near = torch.cosine_similarity(numbers.context, bench.x, dim=-1).tolist()
    cosines = ", ".join(f"{name} {value:.3f}" for name, value in zip(names, near, strict=True))
    texts = {"moments": find_moments(bench.x, numbers, names), "after": comes_after, "cosines": cosines}
    return _stage("unlearned", *numbers.tables(bench.tokens, bench.tokens, "XXX"), **texts, **numbers.as_dict())


def _projections(bench: Bench) -> Stage:
    file, learned = bench.file, bench.learned
    matrices, projected = [], []
    for symbol, name in zip("QKV", _PROJECTED, strict=True):
        weights, title = getattr(file, f"w_{name}"), f"{symbol} = X (no w_{name})"
        if weights is not None:
            title, notes = f"{symbol} = X W_{symbol}", tuple(getattr(file, f"{name}_roles"))
            matrices.append(_vectors(f"W_{symbol}", double(weights), _features(len(weights), file.roles), notes=notes))
        projected.append(_vectors(title, getattr(learned, name), bench.tokens))
    numbers = {name: getattr(learned, name) for name in _PROJECTED}
    sizes = {"width": bench.x.shape[1], "queries": learned.query.shape[1], "values": learned.value.shape[1]}
    return _stage("projections", *matrices, *projected, **numbers, **sizes)


def _parts(bench: Bench) -> list[Stage]:
    """The file's steps; by default one row, then two rows."""
    everything, chosen, steps = list(range(len(bench.tokens))), bench.chosen, []
    for i, step in enumerate(bench.file.steps or []):
        rows = [find(place, bench.tokens, f"steps {i}.rows") for place in step.rows]
        steps.append((rows, [find(place, bench.tokens, f"steps {i}.keys") for place in step.keys or everything]))
    if bench.file.steps is None and len(everything) > 2:
        steps.append((sorted([chosen, next((i for i in everything if i > chosen), everything[0])]), everything))
    if bench.file.steps is None or bench.asked:
        steps.insert(0, ([chosen], everything))
    return [_part(bench, *step) for step in steps]


def _part(bench: Bench, rows: list[int], keys: list[int]) -> Stage:
    """The same attention, restricted to some queries and keys."""
    every = bench.learned
    mask = None if every.mask is None else every.mask[rows][:, keys]
    parts = every.query[rows], every.key[keys], every.value[keys]
    numbers = compute(*parts, mask, bench.divided_by, every.scale)
    queries, offered = (tuple(bench.tokens[i] for i in part) for part in (rows, keys))
    single, some = len(rows) == 1, len(keys) < len(bench.tokens)
    among = f"only {', '.join(offered)}" if some else f"all {len(keys)} keys"
    if single and mask is not None and not bool(mask.all()):
        among = f"the {int(mask.sum())} of {len(keys)} keys that it may attend to"
    number = _COUNTS[len(rows)] if len(rows) < len(_COUNTS) else str(len(rows))
    named = ", ".join(bench.names[i] for i in rows)
    texts = {"named": named, "number": number.capitalize(), "among": among, "some": some, "rule": bench.rule}
    tables = _one_row_tables(numbers, queries[0], offered) if single else numbers.tables(queries, offered)
    stage = _stage("one" if single else "several", *tables, **texts, **numbers.as_dict())
    return replace(stage, name=f"{number}-{'word' if some else 'row'}{'' if single else 's'}")


def _all_rows(bench: Bench) -> Stage:
    numbers, tokens = bench.learned, bench.tokens
    texts = {"moments": find_moments(bench.x, numbers, bench.names), "rule": bench.rule, "count": len(tokens)}
    masked = numbers.mask is not None
    return _stage("all-rows", *numbers.tables(tokens, tokens), masked=masked, **texts, **numbers.as_dict())


def _scales(bench: Bench) -> Stage:
    """One row under every scale in use, and how much the whole matrices differ."""
    chosen, learned = bench.chosen, bench.learned
    named: dict[str, list[str]] = {}
    for name, size in bench.sizes.items():
        named.setdefault(f"sqrt({size})", []).append(name.replace("_", " "))
    divisors = {f"{root} {', '.join(names)}": bench.divisor(root) for root, names in named.items()}
    divisors = {"no scale": 1.0, **divisors}
    if bench.divided_by not in divisors.values():
        divisors[f"{bench.rule} (this lesson)"] = bench.divided_by
    weights = {name: learned.under(divisor).weights for name, divisor in divisors.items()}
    right = learned.under(bench.divisor("query_width")).weights
    lines = (
        f"{name}: over all rows, weights differ by up to {gap:.3f} from those under the query width"
        for name, under in weights.items()
        if (gap := float((under - right).abs().max()))
    )
    rows = torch.stack([under[chosen] for under in weights.values()])
    mask = None if learned.mask is None else learned.mask[chosen].expand(len(rows), -1)
    table = Table(f"weights of {bench.names[chosen]} under each scale", tuple(weights), bench.tokens, rows, True, mask)
    return _stage("scales", table, weights=rows, lines=lines, same=len(named) == 1)


def _other_width(bench: Bench, width: int) -> Stage:
    """The same rows with weights of another width, drawn from a seed."""
    d_model, generator = bench.x.shape[-1], torch.Generator().manual_seed(bench.file.seed)
    drawn = (torch.rand(d_model, width, generator=generator, dtype=torch.float64) for _ in "QKV")
    # Rounded, so that what is shown is what is used.
    weights = {f"W_{symbol}": (w * 1000).round() / 1000 for symbol, w in zip("QKV", drawn, strict=True)}
    fields: dict[str, Any] = {f"{name}_roles": [] for name in _PROJECTED} | {"scale": f"sqrt({width})"}
    fields |= {f"w_{name}": w.tolist() for name, w in zip(_PROJECTED, weights.values(), strict=True)}
    other = Bench(bench.file.model_copy(update=fields), None)
    tables = *_projections(other).tables, *other.learned.tables(bench.tokens, bench.tokens)
    change = "keep" if width == d_model else "reduce" if width < d_model else "increase"
    texts = {"rows": d_model, "width": width, "change": change, "seed": bench.file.seed}
    return replace(_stage("width", *tables, **texts, **weights, **other.learned.as_dict()), name=f"width-{width}")


def _features(width: int, roles: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the numbers of a vector: their roles, or their positions from 0."""
    return tuple(roles) or tuple(map(str, range(width)))


def _vectors(
    name: str, values: Tensor, rows: tuple[str, ...], roles: Sequence[str] = (), notes: tuple[str, ...] = ()
) -> Table:
    """A matrix whose columns are unnamed numbers, with its size in the title."""
    title = f"{name}, {values.shape[0]} x {values.shape[1]}"
    return Table(title, rows, _features(values.shape[1], roles), values, notes=notes)


def _one_row_tables(numbers: Numbers, query: str, keys: tuple[str, ...]) -> tuple[Table, ...]:
    """One query: its scores and weights, then the weighted values and their sum."""
    scaled = {f"/ {numbers.scale}": numbers.scaled[0]} if numbers.scale else {}
    lines = {"q . k": numbers.scores[0], **scaled, "weight": numbers.weights[0]}
    mask = None if numbers.mask is None else numbers.mask.expand(len(lines), -1)
    heat = tuple(name == "weight" for name in lines)
    brought = numbers.weights[0].unsqueeze(-1) * numbers.value
    labels = (*(f"{w + 0.0:.3f} x {key}" for w, key in zip(numbers.weights[0].tolist(), keys, strict=True)), "context")
    summed = torch.cat([brought, numbers.context])
    return (
        _vectors(f"q of {query}", numbers.query, (query,)),
        Table(f"{query} against every key", tuple(lines), keys, torch.stack(list(lines.values())), heat, mask),
        Table("weight x value, and their sum", labels, _features(numbers.value.shape[-1]), summed),
    )
