"""The fields of a lesson file, and checks that its matrices fit together.

A minimal file has `tokens` and `input`; everything else has a default.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from heed.config import Section
from heed.errors import ConfigError, suggest
from heed.lessons.parts import name_of
from heed.tasks.base.report import counted

Row = Annotated[list[float], Field(min_length=1)]
Matrix = list[Row]
TokenPlace = StrictInt | StrictStr
"""A row or column: its number, counted from 0, or its token."""
SCALES = {"query_width": "sqrt(d_k)", "model_width": "sqrt(d_model)", "rows": "sqrt(rows)", "none": ""}
"""Divisors by name, and how they are written."""


def _as_tokens(value: Any) -> Any:
    for i, token in enumerate(value if isinstance(value, list) else []):
        if not isinstance(token, str):
            raise ConfigError(
                f"tokens {i} is {token!r}, not text; YAML does not read bare numbers, yes, no, on and off as text, so "
                "put quotes around it"
            )
    return value


def _as_mapping(value: Any) -> Any:
    """Convert lists of rows to mappings by number, so that a whole matrix and a few named cells have one type."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        return {key: dict(enumerate(row)) if isinstance(row, list) else row for key, row in value.items()}
    return value


def _as_scale(value: Any) -> Any:
    named = isinstance(value, str) and (value in SCALES or re.fullmatch(r"sqrt\([1-9][0-9]*\)", value))
    if named or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0):
        return value
    raise PydanticCustomError("scale", f"expected {', '.join(SCALES)}, sqrt(N) or a number above 0 to divide by")


Cells = Annotated[dict[TokenPlace, dict[TokenPlace, float | None]], BeforeValidator(_as_mapping)]
"""A matrix as a list of rows, or as token: row; a row as a list of numbers, or as key: number."""
Scale = Annotated[str | float, BeforeValidator(_as_scale)]


class Values(Section):
    """Numbers to compare with the computed ones."""

    query: Cells = Field({})
    """Queries, a row per token."""
    key: Cells = Field({})
    """Keys, a row per token."""
    value: Cells = Field({})
    """Values, a row per token."""
    scores: Cells = Field({})
    """Products q k' before the scale, a row per query and a column per key."""
    scaled: Cells = Field({})
    """Scores divided by the scale."""
    weights: Cells = Field({})
    """Softmax of the scaled scores."""
    context: Cells = Field({})
    """Weighted sums of the values, a row per query."""


class Step(Section):
    """Some rows to compute before all of them."""

    rows: list[TokenPlace] = Field(min_length=1)
    """Tokens of the queries."""
    keys: list[TokenPlace] | None = Field(None, min_length=1)
    """Tokens of the keys; all by default."""


class LessonFile(Section):
    """A worked example of attention."""

    title: str = "Attention on your own matrices"
    """The sentence, or the subject of the example."""
    source: str = ""
    """The source of the example."""
    tokens: Annotated[list[str], BeforeValidator(_as_tokens)] = Field(min_length=1)
    """The tokens, in order; tokens that `embeddings` lacks are left out."""
    input: Matrix | None = None
    """One row per token."""
    embeddings: dict[str, Row] | None = Field(None, min_length=1)
    """The row of each token, in place of `input`."""
    w_query: Matrix | None = None
    """Weights of the queries, `(width of the input, width of a query)`; without them q = x."""
    w_key: Matrix | None = None
    """Weights of the keys; without them k = x."""
    w_value: Matrix | None = None
    """Weights of the values; without them v = x."""
    scale: Scale = "query_width"
    """Divisor of the scores: the root of query_width, model_width or rows, sqrt(N), a number, or none."""
    causal: bool = False
    """True if a token may attend only to itself and to earlier tokens."""
    mask: list[list[bool]] | None = None
    """One row per query, true (or 1) = may attend."""
    steps: list[Step] | None = None
    """Parts to compute before all rows; by default one row, then two."""
    other_widths: list[Annotated[int, Field(gt=0)]] = Field([], max_length=4)
    """Also project to these widths, with weights drawn from `seed` (ours, not the source's)."""
    seed: int = 1
    """Seed of the weights of `other_widths`."""
    roles: list[str] = Field([])
    """Meaning of each number of an input row."""
    query_roles: list[str] = Field([])
    """Purpose of each row of `w_query`."""
    key_roles: list[str] = Field([])
    """Purpose of each row of `w_key`."""
    value_roles: list[str] = Field([])
    """Purpose of each row of `w_value`."""
    expected: Values = Values()
    """Expected results, to three decimals."""
    printed: Values = Values()
    """Numbers printed in the source, correct to within `tolerance`."""
    tolerance: float = Field(0.0005, gt=0)
    """Allowed error of `printed`, for sources that rounded their inputs after computing."""
    unlearned: Values = Values()
    """Expected results, to three decimals, of attention without weights (q = k = v = x)."""
    other_scales: dict[Scale, Cells] = Field({})
    """Weights under other scales, to three decimals, as in `expected`."""
    notes: dict[str, list[str]] = Field({})
    """Lines to add below a stage, by the name of the stage."""
    remarks: list[str] = Field([])
    """Errors and open questions of the source, one text each; shown as the last stage."""

    @model_validator(mode="after")
    def _with_input(self) -> Self:
        """The file with one row of `input` per token, also if it has `embeddings`."""
        if (self.input is None) == (self.embeddings is None):
            raise ConfigError("give either 'input' (a row per token) or 'embeddings' (token: row)")
        if self.embeddings is None:
            return self
        for token in self.embeddings:
            if token not in self.tokens:
                raise ConfigError(f"embeddings: no token '{token}'{suggest(token, self.tokens)}")
        tokens = [token for token in self.tokens if token in self.embeddings]
        return self.model_copy(update={"tokens": tokens, "input": [self.embeddings[token] for token in tokens]})

    @model_validator(mode="after")
    def _check_shapes(self) -> Self:
        rows, names = self.input or [], [f" ({name_of(i, self.tokens)})" for i in range(len(self.tokens))]
        _check_count(rows, len(names), "row", "input", ", one per token")
        d_model = _width(rows, "input", names)
        widths = {"w_query": d_model, "w_key": d_model, "w_value": d_model}
        for field in widths:
            if (matrix := getattr(self, field)) is not None:
                why = f": input is {len(rows)} x {d_model}, and each number of an input row needs its row of {field}"
                _check_count(matrix, d_model, "row", field, why)
                widths[field] = _width(matrix, field)
        if widths["w_query"] != widths["w_key"]:
            unweighted = "" if self.w_query and self.w_key else f" (without weights, {d_model})"
            raise ConfigError(
                f"queries are {widths['w_query']} wide and keys {widths['w_key']}; their product needs w_query and "
                f"w_key of the same width{unweighted}"
            )
        if self.mask is not None:
            _check_count(self.mask, len(names), "row", "mask", ", one per token")
            for i, row in enumerate(self.mask):
                _check_count(row, len(names), "number", f"mask row {i}{names[i]}", ", one per token")
        for field in ("roles", "query_roles", "key_roles", "value_roles"):
            if roles := getattr(self, field):
                _check_count(roles, d_model, "text", field, ", one per number of an input row")
        return self


def _width(matrix: Matrix, where: str, names: Sequence[str] = ()) -> int:
    """The width of a matrix whose rows are equally wide."""
    for i, row in enumerate(matrix):
        place = f"{where} row {i}{names[i] if names else ''}"
        _check_count(row, len(matrix[0]), "number", place, ", as many as row 0")
    return len(matrix[0])


def _check_count(items: Sequence[object], expected: int, what: str, where: str, why: str) -> None:
    if len(items) != expected:
        raise ConfigError(f"{where} has {counted(len(items), what)}, expected {expected}{why}")
