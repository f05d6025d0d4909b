"""Windows of series of numbers: stretches without a gap, standardised by the training rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heed.data.examples import in_turn
from heed.data.findings import Findings
from heed.data.kinds.features import Standard, constant_lines, load, save
from heed.data.splits import Splits
from heed.errors import ConfigError, DataError
from heed.evaluation.forecasts import Values
from heed.tasks.base.report import counted
from heed.tasks.contracts import Batch, Draw, Head, Input, Pass, Sized
from heed.tasks.contracts import Rows as Names
from heed.tasks.inputs.rows import STANDARD, check_numbers, column_lines, standardised
from heed.tasks.series.forecast import Forecast
from heed.tasks.series.reading import NamedSeries, hold_series, read_series, remarks_on
from heed.tasks.work import Work

_WINDOW, _LONGEST = 48, 600
"""The usual window, and the longest one that is chosen for the sake of the season."""
_AT_ONCE = 256
"""Most series forecast at a time."""


@dataclass(frozen=True)
class Stretch:
    """Rows of a series to learn or to forecast, after others, which are only read."""

    values: Values  # `(rows, columns)`, in their own units
    start: int  # the first row to learn or to forecast
    origin: str  # name of the series
    series: NamedSeries | None = None  # that it continues, if the rows to forecast are not known
    blank: ClassVar = False

    @property
    def rows(self) -> int:
        """Number of rows to learn or to forecast."""
        return len(self.values) - self.start


class Encoded(NamedTuple):
    """Standardised rows, and how many of them are only read."""

    rows: Tensor
    read: int


@dataclass
class SeriesSplits(Splits[Stretch]):
    """Series, with their columns and the `data` section with what follows from their dates."""

    data: Any = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Windows(Input):
    """Windows of rows that follow one another; of a forecast, the rows before it."""

    sized: ClassVar = {"columns": Sized("num_columns")}
    is_text: ClassVar = False
    same_shapes: ClassVar = True

    standard: Standard | None = None

    def check(self, config: Any) -> None:
        check_numbers(config)
        if config.training.train_size is not None:
            raise ConfigError(
                f"training.train_size is {config.training.train_size}, which does not apply to series: their rows "
                "follow one another; give fewer files, or leave training.train_size out"
            )
        if config.training.label_smoothing:
            raise ConfigError("training.label_smoothing does not apply to series, whose data is numbers")

    def open(self, config: Any, given: Mapping[str, Sequence[Any]] | None) -> SeriesSplits:
        return open_series(config.data, given)

    def hold(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Any]:
        if self.standard is None:
            return hold_series(data, split, config.data)
        return self._to_score(hold_series(data, split, self.config.data, self.columns))

    def learn(self, config: Any, splits: Splits[Stretch], parent: Any) -> tuple[Any, Self]:
        assert isinstance(splits, SeriesSplits)
        rows = np.concatenate([one.values for one in splits.examples["train"]])
        splits.remarks += constant_lines(splits.names, rows)
        return config.model_copy(update={"data": splits.data}), replace(self, standard=Standard.of(splits.names, rows))

    def save(self, folder: Path) -> None:
        save(folder / STANDARD, self.standard)

    def restore(self, config: Any, folder: Path) -> Self:
        return replace(self, standard=load(folder / STANDARD, Standard))

    def rows(self) -> Mapping[str, Names]:
        return {"columns": Names(self.columns, "num_columns")}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read and forecast."""
        assert self.standard is not None
        return self.standard.columns

    @property
    def window(self) -> int:
        """Rows that a forecast reads."""
        window = self.config.data.window
        return _WINDOW if window == "auto" else window

    # Reading ------------------------------------------------------------------------------------------------------

    def read_files(self, files: Sequence[str | Path], findings: Findings, labels: Sequence[str]) -> Sequence[Stretch]:
        return self._to_score([one for path in files for one in self.read(Path(path))])

    def _to_score(self, series: Sequence[NamedSeries]) -> Sequence[Stretch]:
        return all_to_forecast(series, self.columns, self.window, self.config.data.horizon)

    def read(self, path: Path) -> list[NamedSeries]:
        """The series in a file with the run's columns."""
        return read_series(path, self.config.data, self.columns)

    def questions(self, rows: Any) -> tuple[Sequence[Stretch], bool]:
        index = getattr(rows, "index", None)
        named = str(index.name or "date") if isinstance(index, pd.DatetimeIndex | pd.PeriodIndex) else ""
        return self.unknown(hold_series(rows, "series", self.config.data, self.columns), named), True

    def unknown(self, series: Sequence[NamedSeries], index: str = "") -> list[Stretch]:
        """What follows each series, from the rows after its last gap; its dates become the `index` of that name."""
        last = [one.numbers(self.columns)[[0, *one.gaps][-1] :] for one in series]
        each = [replace(one, index=index) for one in series]
        return [Stretch(rows, len(rows), one.name, one) for rows, one in zip(last, each, strict=True)]

    def finished(
        self, head: Head, made: Sequence[Any], examples: Sequence[Stretch], unread: Sequence[int]
    ) -> list[Any]:
        asked = [one.series for one in examples if one.series is not None]
        return [Forecast.following(np.concatenate(made), self.columns, asked)] if asked else list(made)

    # Batches ------------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Stretch], split: str = "") -> list[Encoded]:
        assert self.standard is not None
        encoded = []
        for one in examples:
            read = min(one.start, self.window)
            encoded.append(Encoded(standardised(self.standard, one.values[one.start - read :], one.start - read), read))
        return encoded

    def costs(self, encoded: Sequence[Encoded]) -> NDArray[np.int64]:
        return np.array([len(one.rows) for one in encoded])

    def collate(self, encoded: Sequence[Encoded], indices: list[int], draw: Draw | None) -> Batch:
        some = [encoded[n] for n in indices]
        following = pad_sequence([rows[read:] for rows, read in some], batch_first=True, padding_value=torch.nan)
        read = torch.stack([rows[:read] for rows, read in some])
        return Batch(indices, {"values": read}, targets={"rows": following}, masks=())

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        """Adjacent windows that cover every training series; their first row changes with each pass.

        A window is given by the index of its first row, counted over all training series.
        """
        window, encoded, examples = self.window, work.encoded(split), work.splits.examples[split]
        ends = [*accumulate((len(one.rows) for one in encoded), initial=0)]
        rng, starts = Random(f"{draw.seed}:{draw.epoch}"), list[int]()
        for begin, end in pairwise(ends):
            last = end - window - 1  # a window also needs the row after it
            starts += range(begin + rng.randrange(min(window, last + 1 - begin)), last + 1, window)
        rng.shuffle(starts)

        def place(piece: int) -> tuple[int, int]:
            part = bisect_right(ends, piece) - 1
            return part, piece - ends[part]

        def collate(pieces: Sequence[int]) -> Batch:
            rows = torch.stack([encoded[n].rows[at : at + window + 1] for n, at in map(place, pieces)])
            return Batch(list(pieces), {"values": rows[:, :-1]}, targets={"rows": rows[:, 1:]}, masks=())

        def described(pieces: Sequence[int]) -> str:
            part, at = place(pieces[0])
            return f"{len(pieces)} windows, the first from row {at + 1} of {examples[part].origin}"

        size = max(1, work.config.training.batch_tokens // window)
        costs = np.broadcast_to(np.int64(window), (ends[-1], 1))
        return Pass([*in_turn(starts, size)], collate, costs, described=described)

    def scoring(self, encoded: Sequence[Encoded], tokens: int) -> Sequence[list[int]]:
        lengths = [one.read for one in encoded]
        alike = groupby(sorted(range(len(encoded)), key=lengths.__getitem__), lengths.__getitem__)
        return [[*some] for _, numbers in alike for some in in_turn([*numbers], _AT_ONCE)]

    # For people ---------------------------------------------------------------------------------------------------

    def notes(self, work: Work) -> list[str]:
        lines = [
            f"{name}: {counted(sum(one.rows for one in some), 'row')} of {len(names_of(some))} series"
            for name, some in work.splits.examples.items()
        ]
        columns = f"columns {', '.join(self.columns)}, standardised by the training rows"
        return [*lines, columns, *work.splits.remarks]

    def lines(self, work: Work) -> list[str]:
        assert self.standard is not None
        return [work.notes, "", *column_lines(self.standard)]

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        some = work.splits.examples[split]
        return {"examples": sum(one.rows for one in some), "series": len(names_of(some))}
