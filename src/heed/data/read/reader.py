"""How examples of one kind are read, so that what comes after reading need not know their kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from heed.data.examples import Example
from heed.data.read.counts import Counts
from heed.data.read.findings import BadLine, Findings

E = TypeVar("E", bound=Example)
Row = Callable[[Mapping[str, Any], str, Findings], E | BadLine]
"""Makes an example of a row of a data set: its values by the fields of `data.columns`, its place, the findings."""


@dataclass(frozen=True)
class Reader(Generic[E]):
    """How examples of one kind are read.

    Attributes:
        kind: Their class.
        read: Reads files; what is found in them and left out it tells the findings.
        of_row: Makes one of a row of a data set; None where no data set holds them.
        settings: What decides what is read beside the files and the section `data`, as JSON.
        again: Whether the same can be read again, so that it may be kept in the cache.
    """

    kind: type[E]
    read: Callable[[Sequence[str], Findings], Iterable[E]]
    of_row: Row[E] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    again: bool = True

    def filled(self, files: Sequence[str], counts: Counts, findings: Findings) -> Iterator[E]:
        """The examples whose texts hold something; the others are counted by rule as they are read."""
        unit = self.kind.unit
        for example in self.read(files, findings):
            counts.read += 1
            if rule := example.blank:
                counts.leave_out(rule)
                findings.note(f"{rule}, left out", "", example.origin, unit=unit)
            else:
                counts.kept += 1
                yield example
