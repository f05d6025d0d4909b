"""Numbers for a model from the columns of a table, by what the training rows taught: medians, categories, means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from heed.data.kinds.numbers import Rows, as_texts
from heed.errors import DataError, counted
from heed.storage.disk import write_whole
from heed.storage.files import read_text, validated

T = TypeVar("T")
_RARE = 3
"""Training rows below which a category shares a column with the other rare ones and those never seen."""
_MOST = 100
"""Most categories of a column with a column each, the most frequent ones."""
_NAMED = 5
"""Most constant columns that a warning names."""
_OTHER, _NONE = "(other)", "(missing)"


@dataclass(frozen=True)
class Feature:
    """A column of a table: its median, and whether missing values are marked, or its categories.

    The categories are `(other)` for rare and unseen values, and `(missing)`, if training has such rows.
    """

    name: str
    median: float | None = None
    gaps: bool = False
    categories: tuple[str, ...] | None = None

    @classmethod
    def of(cls, name: str, cells: pd.Series[Any]) -> Feature:
        """Fitted to the cells of the training rows."""
        if cells.dtype == float:
            return cls(name, 0.0 if cells.isna().all() else float(cells.median()), bool(cells.isna().any()))
        counts = as_texts(cells).value_counts()
        frequent = [str(value) for value in counts.index[counts >= _RARE][:_MOST]]
        other = [_OTHER] if len(frequent) < len(counts) else []
        return cls(name, categories=(*sorted(frequent), *other, *([_NONE] if cells.isna().any() else [])))

    @property
    def columns(self) -> list[str]:
        """Names of the columns of numbers that are made of it."""
        if self.categories is None:
            return [self.name, f"{self.name} {_NONE}"] if self.gaps else [self.name]
        return [f"{self.name}={category}" for category in self.categories]

    def encode(self, cells: pd.Series[Any]) -> NDArray[np.float64]:
        """Numbers `(rows, columns)`: the value or the median, and 1 for a missing one; or 1 for the category.

        Raises:
            DataError: The cells are texts, and those of training were numbers.
        """
        missing = cells.isna().to_numpy()
        if self.categories is None and cells.dtype != float:
            shown = f"such as {next(iter(cells.dropna()), None)!r:.40}"
            raise DataError(f"column '{self.name}' holds numbers in the training rows, and here texts ({shown})")
        if self.categories is None:
            values = cells.fillna(self.median).to_numpy(np.float64)
            return np.stack([values, missing.astype(float)], axis=1) if self.gaps else values[:, None]
        texts = np.where(missing, _NONE, as_texts(cells))
        is_category = np.isin(texts.astype(str), self.categories)
        texts = np.where(is_category, texts, _OTHER).astype(str)
        return np.asarray(texts[:, None] == np.array(self.categories), np.float64)


@dataclass(frozen=True)
class Features:
    """The columns of a table as a model reads them."""

    columns: tuple[Feature, ...]

    @classmethod
    def of(cls, rows: Rows) -> tuple[Features, list[str]]:
        """Fitted to the training rows; and remarks on columns that are left out."""
        features = [Feature.of(name, rows.cells[name]) for name in rows.columns]
        remarks = [
            f"column '{feature.name}' has {rows.cells[feature.name].nunique():,} values and none of them "
            f"{_RARE} times: left out"
            for feature in features
            if feature.categories == (_OTHER,)
        ]
        return cls(tuple(feature for feature in features if feature.categories != (_OTHER,))), remarks

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the table that are read."""
        return tuple(feature.name for feature in self.columns)

    @property
    def kinds(self) -> dict[str, bool]:
        """Whether each column holds numbers."""
        return {feature.name: feature.categories is None for feature in self.columns}

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The names of the columns of numbers that a model reads."""
        return tuple(name for feature in self.columns for name in feature.columns)

    def encoded(self, rows: Rows) -> Rows:
        """The rows with their `values`."""
        parts = [feature.encode(rows.cells[feature.name]) for feature in self.columns]
        return replace(rows, values=np.concatenate(parts, axis=1) if parts else np.empty((len(rows), 0)))

    def lines(self) -> list[str]:
        """The encoding of columns that are not just numbers, for people."""
        gaps = [f"'{f.name}' ({f.median:g})" for f in self.columns if f.gaps]
        lines = [
            f"column '{f.name}': {len(f.categories)} categories ({', '.join(f.categories[:4])}"
            f"{', ...' if len(f.categories) > 4 else ''})"
            for f in self.columns
            if f.categories is not None
        ]
        return lines + (["missing numbers are the median of the training rows: " + ", ".join(gaps)] if gaps else [])


def constants(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask `(columns,)` of the columns of `(rows, columns)` that are constant."""
    return np.asarray(values.min(0) == values.max(0))


def constant_lines(columns: Sequence[str], values: NDArray[np.float64]) -> list[str]:
    """A warning if columns are constant in the training rows, with the first of them."""
    constant = np.flatnonzero(constants(values)).tolist()
    named = ", ".join(f"'{columns[n]}' ({values[0, n]:.6g})" for n in constant[:_NAMED])
    named += ", ..." * (len(constant) > _NAMED)
    what = f"warning: {counted(len(constant), 'column')} with one value in all training rows: {named}"
    return [f"{what}; nothing can be learned from these, and data.columns can leave them out"] if constant else []


@dataclass(frozen=True)
class Standard:
    """Mean and standard deviation `(columns,)` of the training rows; deviation 1 for constant columns."""

    columns: tuple[str, ...]
    mean: tuple[FiniteFloat, ...]
    deviation: tuple[Annotated[FiniteFloat, Field(gt=0)], ...]

    def __post_init__(self) -> None:
        if not len(self.columns) == len(self.mean) == len(self.deviation):
            raise ValueError("columns, mean and deviation differ in length")

    @classmethod
    def of(cls, columns: tuple[str, ...], values: NDArray[np.float64]) -> Standard:
        """Computed from rows `(rows, columns)`."""
        constant, deviation = constants(values), values.std(0)
        # Exact for constant columns: a rounding error would be divided by a deviation as small.
        mean = np.where(constant, values[0], values.mean(0))
        deviation = np.where(constant | (deviation == 0), 1.0, deviation)
        return cls(columns, tuple(mean.tolist()), tuple(deviation.tolist()))

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standardised values, `(value - mean) / deviation`."""
        return (values - self.mean) / self.deviation

    def undo(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Inverse of `apply`."""
        return values * self.deviation + self.mean


def save(path: Path, values: Any) -> None:
    """Write dataclasses of this module as JSON."""
    text = json.dumps(values, default=asdict, indent=1, ensure_ascii=False) + "\n"
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def load(path: Path, kind: type[T]) -> T:
    """Read what `save` wrote.

    Raises:
        RunError: The file is missing or damaged.
    """
    return validated(path, read_text(path), kind)
