"""The fields of a lesson file. A minimal file has `tokens` and `input`; everything else has a default."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictInt, StrictStr
from pydantic_core import PydanticCustomError

from heed.config import Section

Number = Annotated[float, Field(allow_inf_nan=False)]
Matrix = list[list[Number]]
Place = StrictInt | StrictStr
"""A row or column: its number, counted from 0, or its token."""


def _as_mapping(value: Any) -> Any:
    """Convert lists of rows to mappings by number, so that a whole matrix and a few named cells have one type."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        return {key: dict(enumerate(row)) if isinstance(row, list) else row for key, row in value.items()}
    return value


def _as_scale(value: Any) -> Any:
    named = isinstance(value, str) and (value in _NAMED or re.fullmatch(r"sqrt\([1-9][0-9]*\)", value))
    if named or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0):
        return value
    raise PydanticCustomError("scale", f"expected {', '.join(_NAMED)}, sqrt(N) or a number above 0 to divide by")


_NAMED = ("query_width", "model_width", "rows", "none")
Cells = Annotated[dict[Place, dict[Place, Number | None]], BeforeValidator(_as_mapping)]
"""A matrix as a list of rows, or as token: row; a row as a list of numbers, or as key: number."""


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
    weights_some: list[tuple[Place, Place, Number]] = Field([])
    """A few weights, each as [row, column, weight]."""
    context: Cells = Field({})
    """Weighted sums of the values, a row per query."""


class Step(Section):
    """A part of the rows to compute before all of them."""

    rows: list[Place] = Field(min_length=1)
    """Tokens of the queries."""
    keys: list[Place] | None = Field(None, min_length=1)
    """Tokens of the keys; all by default."""


class OtherScales(Section):
    """One weight under other scales."""

    row: Place
    """Token of the query."""
    column: Place
    """Token of the key."""
    weights: dict[Annotated[str, BeforeValidator(_as_scale)], Number]
    """The weight under each scale, as sqrt(3): 0.883."""


class LessonFile(Section):
    """A worked example of attention."""

    title: str = "Attention on your own matrices"
    """The sentence, or the subject of the example."""
    source: str = ""
    """Where the example comes from."""
    tokens: list[str] = Field(min_length=1)
    """The tokens, in order; with `embeddings` those without one are left out."""
    input: Matrix | None = None
    """One row per token."""
    embeddings: dict[str, list[Number]] | None = None
    """The row of each token, in place of `input`."""
    w_query: Matrix | None = None
    """Weights of the queries, one row per number of an input row; without them q = x."""
    w_key: Matrix | None = None
    """Weights of the keys; without them k = x."""
    w_value: Matrix | None = None
    """Weights of the values; without them v = x."""
    scale: Annotated[str | float, BeforeValidator(_as_scale)] = "query_width"
    """Divisor of the scores: the root of query_width, model_width or rows, sqrt(N), a number, or none."""
    causal: bool = False
    """True if a token may attend only to itself and to earlier tokens."""
    mask: list[list[bool]] | None = None
    """One row per query, true (or 1) = may attend."""
    steps: list[Step] | None = None
    """Parts to compute before all rows; by default one row, then two rows."""
    other_widths: list[int] = Field([], max_length=4)
    """Also project to these widths, with weights drawn from `seed` (ours, not the source's)."""
    seed: int = 1
    """Seed of the weights of `other_widths`."""
    roles: list[str] = Field([])
    """What each number of an input row stands for."""
    query_roles: list[str] = Field([])
    """What each row of `w_query` is meant to do."""
    key_roles: list[str] = Field([])
    """What each row of `w_key` is meant to do."""
    value_roles: list[str] = Field([])
    """What each row of `w_value` is meant to do."""
    expected: Values = Values()
    """Expected results, to three decimals."""
    printed: Values = Values()
    """Numbers printed in the source, correct within `tolerance`."""
    tolerance: float = Field(0.0005, gt=0)
    """Allowed error of `printed`, for sources that rounded their inputs after computing."""
    unlearned: Values = Values()
    """Expected results, to three decimals, of attention without weights (q = k = v = x)."""
    other_scales: list[OtherScales] = Field([])
    """Weights under other scales, to three decimals."""
    notes: dict[str, list[str]] = Field({})
    """Lines to add below a stage, by the name of the stage."""
    remarks: list[str] = Field([])
    """Open questions and errors of the source, each a text; shown as the last stage."""
