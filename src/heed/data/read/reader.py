"""Readers of examples, with the same interface for every kind of example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from heed.data.examples import Example
from heed.data.read.counts import Counts
from heed.data.read.findings import BadLine, Findings

E = TypeVar("E", bound=Example)
Row = Callable[[Mapping[str, Any], str, Findings], E | BadLine]
"""Makes an example from a data set's row: the values by field of `data.columns`, the row's place, the findings."""
OfSplit = Callable[[Any, str, Findings], Iterable[E]]
"""Reads a split of a data set: the data set, the split, the findings."""


@dataclass(frozen=True)
class Reader(Generic[E]):
    """How examples of one kind are read.

    Attributes:
        kind: Their class.
        read: Reads files and reports to the findings.
        of_row: Makes an example from a data set's row, if supported.
        settings: Everything but the files and the `data` section that decides what is read, as JSON.
        again: True if reading again gives the same examples, so that they may be cached.
        of_split: Reads a split of a data set (given as `heed.data.read.hub.HubSet`) whose rows are not texts.
    """

    kind: type[E]
    read: Callable[[Sequence[str], Findings], Iterable[E]]
    of_row: Row[E] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    again: bool = True
    of_split: OfSplit[E] | None = None

    def filled(self, files: Sequence[str], counts: Counts, findings: Findings) -> Iterator[E]:
        """The examples without blank texts; the others are counted as left out."""
        unit = self.kind.unit
        for example in self.read(files, findings):
            counts.read += 1
            if rule := example.blank:
                counts.leave_out(rule)
                findings.note(f"{rule}, left out", "", example.origin, unit=unit)
            else:
                counts.kept += 1
                yield example
