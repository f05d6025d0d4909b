"""Findings in the data: left-out lines and remarks, and the counts of a split.

A bad line is an error, or left out and counted, as `data.bad_lines` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from heed.errors import DataError, HeedError, counted
from heed.visible import escaped

T = TypeVar("T")
E = TypeVar("E")
_PLACES = 3  # of each finding that are kept
CUT_OFF = "cut off or damaged, only the lines before are used"


class BadLine(Exception):  # noqa: N818  # stands in a stream of lines too
    """An unusable line: the rule it breaks and the text that could be read (quotes in it count).

    Readers raise it while they make an example; `Findings.usable` leaves that example out and counts it.
    """

    def __init__(self, rule: str, text: str = "") -> None:
        super().__init__(rule)
        self.rule, self.text = rule, text


@dataclass
class Finding:
    """One kind of finding in one file (or a side such as "sources"; "" for a whole split), a warning if it is serious.

    `what` includes how the lines are treated; `places` are the first few line numbers or origins.
    """

    where: str
    what: str
    unit: str = "line"
    count: int = 0
    places: list[str] = field(default_factory=list)
    warning: bool = False

    def __str__(self) -> str:
        shown = ", ".join(self.places) + (", ..." if self.count > len(self.places) else "")
        listing = f" ({shown})" if self.places else ""
        return f"{self.what}: {counted(self.count, self.unit)}{listing}"

    def line(self, split: str = "") -> str:
        """The finding on a line, with its split and file."""
        place = ", ".join(filter(None, (split, Path(self.where).name)))
        return f"{'warning: ' if self.warning else ''}{place}{': ' if place else ''}{self}"

    def as_values(self) -> dict[str, Any]:
        """Plain values, for a report."""
        return {"where": self.where, "what": self.what, "count": self.count, "first": list(self.places)}


class Findings:
    """Policy for bad lines, with the findings (`found`), counts of `left_out` by rule, and `remarks` for the user."""

    def __init__(
        self,
        bad_lines: Literal["error", "skip"] = "error",
        encoding: str = "utf-8",
        max_line: int = 100_000,
        hint: bool = True,
    ) -> None:
        """Arguments as in the `data` section; with `hint`, errors name the fields that would make a line readable."""
        self.skips, self.encoding, self.max_line, self._hint = bad_lines == "skip", encoding, max_line, hint
        self.left_out: Counter[str] = Counter()
        self.remarks: list[str] = []
        self._found: dict[tuple[str, str], Finding] = {}

    @classmethod
    def of(cls, data: Any, *, strict: bool = False) -> Findings:
        """Policy of a `data` section; `strict` stops at the first bad line, since a score must cover the whole file."""
        if "bad_lines" not in type(data).model_fields:
            return cls(hint=False)
        return cls("error" if strict else data.bad_lines, data.encoding, data.max_line, hint=not strict)

    def bad(
        self,
        rule: str,
        where: Path | str,
        place: str | int,
        message: str,
        *,
        fix: str = "",
        text: str = "",
        things: str = "lines",
    ) -> BadLine:
        """Raise for a line that cannot be used, or note it.

        `message` is the problem, with file, line, value and what would be right; `fix` is a field that would make the
        line readable; it is counted under `rule` and `where` (file or folder); `things` is the plural noun for such
        lines.

        Raises:
            DataError: Bad lines are not skipped.
        """
        hints = [*([fix] if fix else []), f"data.bad_lines=skip leaves such {things} out and counts them"]
        self.refuse(DataError("; ".join([message, *hints]) if self._hint else message), place)
        self.note(f"{rule}, left out", where, place, unit=things.removesuffix("s"))
        return BadLine(rule, text)

    def refuse(self, error: HeedError, place: str | int) -> None:
        """Raise an error about a line, unless bad lines are skipped.

        Raises:
            HeedError: The error.
        """
        if not self.skips:
            raise error

    def leave_out(self, rule: str, count: int = 1) -> None:
        """Count examples that are left out."""
        self.left_out[rule] += count

    def usable(self, items: Iterable[T], make: Callable[[T], E | None]) -> Iterator[E]:
        """The results of `make` for all items, without None; an item for which it raises a `BadLine` is left out."""
        for item in items:
            try:
                result = make(item)
            except BadLine as bad:
                self.leave_out(bad.rule)
                continue
            if result is not None:
                yield result

    def note(
        self,
        what: str,
        where: Path | str,
        place: str | int,
        *,
        unit: str = "line",
        count: int = 1,
        warning: bool = False,
    ) -> None:
        """Count `count` findings, the first at `place`."""
        finding = self._found.setdefault((str(where), what), Finding(str(where), what, unit, warning=warning))
        finding.count += count
        if len(finding.places) < _PLACES:
            finding.places.append(escaped(str(place)))  # the name of a file may have a line break

    def merge(self, other: Findings) -> None:
        """Merge another `Findings` into this one."""
        self.left_out += other.left_out
        self.remarks += other.remarks
        self._found |= other._found

    def remark(self, text: str) -> None:
        """Add a remark for the user, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def cut_off(self, path: Path, number: int, message: str) -> None:
        """Raise for a compressed file that ends too soon, or note that the lines before its end are used.

        Raises:
            DataError: Bad lines are not skipped, or nothing could be read.
        """
        if not number:
            raise DataError(message)
        hint = "; data.bad_lines=skip uses the lines before" if self._hint else ""
        self.refuse(DataError(message + hint), f"after {number}")
        self.note(CUT_OFF, path, number, unit="place", warning=True)

    def find(self, what: str, where: Path) -> Finding | None:
        """The finding of one kind in one file."""
        return self._found.get((str(where), what))

    def lines(self) -> list[str]:
        """Remarks and warnings, one line each, for files that are read outside a split."""
        return [*self.remarks, *(finding.line() for finding in self.found if finding.warning)]

    @property
    def found(self) -> list[Finding]:
        """All findings, file by file, in reading order."""
        order = list(dict.fromkeys(where for where, _ in self._found))
        return sorted(self._found.values(), key=lambda finding: order.index(finding.where))


def findings_table(findings: Mapping[str, Sequence[Finding]]) -> list[str]:
    """All findings by split and file, for `heed check`; empty where there are none."""
    lines = []
    for split, each in findings.items():
        for where in dict.fromkeys(finding.where for finding in each):
            lines.append(f"  {split}{', ' if where else ''}{where}")
            lines += [f"    {'warning: ' if f.warning else ''}{f}" for f in each if f.where == where]
    return ["\nfound in the data:", *lines] if lines else []


@dataclass
class Counts:
    """Examples (`unit`) of one split: read from the files, `filtered` by rule, and kept; and findings in the data."""

    read: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    unit: str = "pairs"
    found: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        gone = "".join(f", {count:,} left out: {rule}" for rule, count in self.filtered.items() if count)
        return f"{self.kept:,} of {self.read:,} {self.unit} kept{gone}"

    def leave_out(self, rule: str, count: int = 1) -> None:
        """Count examples that a rule leaves out."""
        self.filtered[rule] = self.filtered.get(rule, 0) + count

    def add(self, findings: Findings) -> None:
        """Add the findings of the readers of the files."""
        for rule, count in findings.left_out.items():
            self.read += count
            self.leave_out(rule, count)
        self.found += findings.found

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> Counts:
        """Inverse of `dataclasses.asdict`."""
        return cls(**{**values, "found": [Finding(**finding) for finding in values["found"]]})

    def as_values(self) -> dict[str, Any]:
        """Plain values, for a report."""
        values: dict[str, Any] = {"read": self.read, "filtered": self.filtered}
        return values | ({"found": [finding.as_values() for finding in self.found]} if self.found else {})
