"""Rows of a table: numbers and categories, standardised by the training rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor

from heed.data.corpus import hashes_in
from heed.data.examples import Kept
from heed.data.findings import Findings
from heed.data.kinds.features import Feature, Features, Standard, constant_lines, load, save
from heed.data.kinds.numbers import Row, Rows, hold_rows, iter_rows, read_rows, target_of
from heed.data.splits import Splits, default_held_out, hold_out
from heed.data.tables import column_names
from heed.errors import DataError
from heed.tasks.base.report import counted
from heed.tasks.contracts import Batch, Draw, Input, Sized
from heed.tasks.contracts import Rows as Names
from heed.tasks.work import Work
from heed.visible import escaped

_STANDARD, _FEATURES = "standard.json", "features.json"
_FARTHEST = 1e15
"""Standard deviations from the training mean beyond which squares and their sums overflow float32."""
_NAMED = 12
"""Most columns that are named in a note."""
AT_ONCE = 10_000
"""Rows read at a time."""


def column_lines(standard: Standard) -> list[str]:
    """Mean and standard deviation of each column, for people."""
    rows = zip(standard.columns, standard.mean, standard.deviation, strict=True)
    return [f"  {escaped(name):<24} mean {mean:>12.5g}  deviation {spread:>12.5g}" for name, mean, spread in rows]


def standardised(standard: Standard, values: Any, place: Callable[[int], str] | None = None) -> Tensor:
    """Standardise rows for the model; `place` is that of a row in messages, by default its number from 1.

    Raises:
        DataError: A number is so far from the training rows that its square is not finite in 32 bits.
    """
    applied = standard.apply(values)
    if np.abs(applied).max(initial=0.0) > _FARTHEST:
        far = np.abs(applied).reshape(-1, applied.shape[-1])
        column = int(far.max(0).argmax())
        row = int(far[:, column].argmax())
        value, where = np.asarray(values).reshape(far.shape)[row, column], place(row) if place else f"row {row + 1}"
        raise DataError(
            f"column '{standard.columns[column]}': {value:g} ({where}) is too far from the training rows to compute "
            f"with (mean {standard.mean[column]:g}, deviation {standard.deviation[column]:g})"
        )
    return torch.tensor(applied, dtype=torch.float32)


@dataclass(frozen=True)
class Standardised(Input):
    """Columns of numbers, standardised by the training rows."""

    sized: ClassVar = {"columns": Sized("num_columns")}
    is_text: ClassVar = False
    size_reason: ClassVar = "usual for this task"

    standard: Standard = None  # type: ignore[assignment]  # until it is learned

    def save(self, folder: Path) -> None:
        save(folder / _STANDARD, self.standard)

    def restore(self, config: Any, folder: Path) -> Self:
        return replace(self, standard=load(folder / _STANDARD, Standard))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a model reads."""
        return self.standard.columns

    def rows(self) -> Mapping[str, Names]:
        return {"columns": Names(self.columns, "num_columns")}

    def notes(self, work: Work) -> list[str]:
        count = len(self.columns)
        named = f"{count} columns" if count > _NAMED else f"column{'s' * (count > 1)} {', '.join(self.columns)}"
        return [f"{named}, standardised by the training rows"]


@dataclass(frozen=True)
class TableRows(Standardised):
    """Rows of columns, as a network over whole rows reads them."""

    key: ClassVar = "row"
    predicts_from_example: ClassVar = False

    features: Features = field(default_factory=lambda: Features(()))

    def open(self, config: Any, examples: Mapping[str, Sequence[Row]] | None) -> Splits[Row]:
        data, remarks = config.data, list[str]()
        if examples is None and data.origin == "memory":
            raise DataError(data.not_kept)

        def read(split: str, files: Sequence[str], like: Rows | None = None) -> Rows:
            """The rows of a split, with the columns of the training rows, or of its first file."""
            if examples is not None:
                rows = cast(Rows, examples[files[0]])
                remarks.extend(rows.said if like is None else ())
                return rows if like is None else rows.ordered(like.columns)
            parts, findings, label = list[Rows](), Findings.of(data), data.columns.label
            known_labels = frozenset(like.labels if like else ())
            for path in files:
                columns = data.columns.features if like is None else like.columns
                reading = {"categories": data.columns.categories} if like is None else {"kinds": like.kinds}
                parts.append(read_rows(Path(path), columns, label, findings=findings, known=known_labels, **reading))
                like = like or parts[0]
            remarks.extend(line for line in findings.remarks if line not in remarks)
            remarks.extend(finding.line(split) for finding in findings.found)
            rows = Rows.joined(parts)
            if not len(rows):
                raise DataError(f"no rows left in {', '.join(files)}; {'; '.join(map(str, findings.found))}")
            return rows

        train = read("train", data.train)
        if isinstance(data.valid, list):
            splits = {"train": train, "valid": read("valid", data.valid, train)}
        else:
            num_held_out = data.valid if data.valid is not None else default_held_out(len(train), labelled=True)
            # Numbers have no shares to keep.
            drawn = replace(train, labels=()) if target_of(data, train.labels) == "number" else train
            out = hold_out(drawn, hashes_in(drawn), num_held_out)
            if not out.any() or out.all():
                few = f"{len(train)} rows are too few to hold out {num_held_out} for validation"
                raise DataError(f"{few}; add rows or a validation file")
            splits = {"train": train.select(np.flatnonzero(~out)), "valid": train.select(np.flatnonzero(out))}
        if data.test is not None:
            splits["test"] = read("test", data.test, train)
        counts = "\n".join(f"{name}: {counted(len(rows), 'row')}" for name, rows in splits.items())
        if self.standard is not None:
            splits = {name: self._encoded(rows) for name, rows in splits.items()}
        return Splits({**splits}, remarks=remarks, made=counts)

    def read_data(self, data: Any, split: str, config: Any, findings: Findings) -> Rows:
        columns = config.data.columns
        if self.standard is not None:
            return self._encoded(hold_rows(data, split, self.features.names, columns.label, kinds=self.features.kinds))
        # Counters of rows are left out of the training set; other splits are reduced to its columns later.
        options = {"categories": columns.categories, "counters": split != "train"}
        return hold_rows(data, split, columns.features, columns.label, **options)

    def learn(self, config: Any, splits: Splits[Row], parent: Any) -> tuple[Any, Self]:
        train = cast(Rows, splits.examples["train"])
        features, remarks = Features.of(train)
        splits.examples = {name: features.encoded(cast(Rows, rows)) for name, rows in splits.examples.items()}
        values = cast(Rows, splits.examples["train"]).values
        standard = Standard.of(features.encoded_names, values)
        splits.remarks += [*remarks, *features.lines(), *constant_lines(standard.columns, values)]
        return config, replace(self, features=features, standard=standard)

    def save(self, folder: Path) -> None:
        super().save(folder)
        save(folder / _FEATURES, self.features.columns)

    def restore(self, config: Any, folder: Path) -> Self:
        features = Features(load(folder / _FEATURES, tuple[Feature, ...]))
        return replace(super().restore(config, folder), features=features)

    def _encoded(self, rows: Rows) -> Rows:
        return self.features.encoded(rows)

    # Reading ------------------------------------------------------------------------------------------------------

    @property
    def _read_options(self) -> dict[str, Any]:
        """How a file is read after training: a score must cover the whole file."""
        findings = Findings.of(self.config.data, strict=True)
        return {"wanted": self.features.names, "kinds": self.features.kinds, "findings": findings}

    def read_files(self, files: Sequence[str | Path], findings: Findings, labels: Sequence[str]) -> Rows:
        options = {"label": self.config.data.columns.label, "known": frozenset(labels), **self._read_options}
        return Rows.joined([self._encoded(read_rows(Path(file), **options)) for file in files])

    def parts(self, path: Path) -> Iterator[Rows]:
        """Read the rows of a file to predict, `AT_ONCE` at a time; labels are not needed."""
        yield from map(self._encoded, iter_rows(path, most=AT_ONCE, **self._read_options))

    def questions(self, rows: Any) -> tuple[Sequence[Any], bool]:
        single = isinstance(rows, Mapping) and not column_names(rows)
        table: Any = [rows] if single else rows
        if isinstance(table, list) and not table:
            return [], single
        return self._encoded(hold_rows(table, "rows", self.features.names, None, kinds=self.features.kinds)), single

    # Batches ------------------------------------------------------------------------------------------------------

    def encode(self, examples: Sequence[Row], split: str = "") -> Any:
        """The numbers of rows, `(rows, columns)`."""
        rows = cast(Rows, examples)
        return standardised(self.standard, rows.values, rows.origin)

    def collate(self, encoded: Any, indices: list[int], draw: Draw | None) -> Batch:
        return Batch(indices, {"values": encoded[np.array(indices)]}, masks=())  # a list is a slow index

    # For people ---------------------------------------------------------------------------------------------------

    def lines(self, work: Work) -> list[str]:
        return [work.notes, "", "columns:", *column_lines(self.standard), *work.head.lines(work)]

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        return {"examples": len(work.splits.examples[split])}

    def place(self, examples: Sequence[Row], i: int) -> dict[str, str]:
        (row,) = cast(Kept[Row], examples).take([i])
        cells = zip(cast(Rows, examples).columns, row.values, strict=True)
        shown = (f"{column} {value:g}" if isinstance(value, float) else f"{column} {value}" for column, value in cells)
        return {"origin": row.origin, "text": ", ".join(shown)}
