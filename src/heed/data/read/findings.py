"""What is found amiss in data while it is read: raised or left out as the configuration says, counted, with places.

Every reader is handed one `Findings` for the files of one split, and asks it what becomes of a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from heed.config import OwnData
from heed.errors import DataError

_PLACES = 3
"""How many places of a finding are kept."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """Stands for a line that cannot be used, so that the lines after it keep their numbers.

    `rule` says why; `text` is what could be read of it, for formats in which a line opens or closes a quote.
    """

    rule: str
    text: str = ""


@dataclass
class Found:
    """One kind of finding at one place.

    Attributes:
        where: A file, or what it is about otherwise: "sources"; "" for a whole split.
        what: What was found, and what became of it.
        unit: What is counted, in the singular.
        count: How many.
        places: The first few: line numbers of the file, or origins of examples.
        warning: Whether something is probably wrong.
    """

    where: str
    what: str
    unit: str = "line"
    count: int = 0
    places: list[str] = field(default_factory=list)
    warning: bool = False

    def add(self, place: str | int, count: int = 1) -> None:
        """Count one more."""
        self.count += count
        if len(self.places) < _PLACES:
            self.places.append(str(place))

    def __str__(self) -> str:
        shown = ", ".join(self.places) + (", ..." if self.count > len(self.places) else "")
        listing = f" ({shown})" if self.places else ""
        return f"{self.what}: {self.count:,} {self.unit}{'' if self.count == 1 else 's'}{listing}"

    def as_values(self) -> dict[str, Any]:
        """Plain values, for a report."""
        return {"where": self.where, "what": self.what, "count": self.count, "first": list(self.places)}


class Findings:
    """What readers of files ask about a line, and what they tell of it.

    Attributes:
        encoding: How a line is read that is not UTF-8.
        max_line: Most characters of a line.
        left_out: Rule -> examples that were left out for it.
        remarks: What a user should know beyond that.
    """

    def __init__(
        self,
        bad_lines: Literal["error", "skip"] = "error",
        encoding: str = "utf-8",
        max_line: int = 100_000,
        hint: bool = True,
    ) -> None:
        """Make one for a set of files.

        Args:
            bad_lines: Stop at the first bad line, or leave them out and count them.
            encoding: How a line is read that is not UTF-8.
            max_line: Most characters of a line.
            hint: Whether errors name the fields of a configuration that would change what becomes of the line.
        """
        self.skips = bad_lines == "skip"
        self.encoding = encoding
        self.max_line = max_line
        self.left_out: Counter[str] = Counter()
        self.remarks: list[str] = []
        self._hint = hint
        self._found: dict[tuple[str, str], Found] = {}
        self._cut: set[Path] = set()

    @classmethod
    def of(cls, data: object, *, strict: bool = False) -> Findings:
        """As a configuration says.

        Args:
            data: Its section; embedded data says nothing of files.
            strict: Stop at the first bad line whatever it says: a score of the lines that could be read is not that of
                the file.
        """
        if not isinstance(data, OwnData):
            return cls(hint=False)
        return cls("error" if strict else data.bad_lines, data.encoding, data.max_line, hint=not strict)

    def bad(
        self, rule: str, where: Path | str, place: str | int, message: str, *, fix: str = "", text: str = ""
    ) -> BadLine:
        """Raise for a line that cannot be used, or note it.

        Args:
            rule: Why, in a few words.
            where: The file, or what findings are listed under.
            place: The line.
            message: What is wrong, with file, line, value and what would be right.
            fix: A field that would make the line readable.
            text: What could be read of the line.

        Raises:
            DataError: Bad lines are errors here.
        """
        if not self.skips:
            hints = [*([fix] if fix else []), "data.bad_lines=skip leaves such lines out and counts them"]
            raise DataError("; ".join([message, *hints]) if self._hint else message)
        self.note(f"{rule}, left out", where, place)
        return BadLine(rule, text)

    def leave_out(self, rule: str, count: int = 1) -> None:
        """Count examples that are left out."""
        self.left_out[rule] += count

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
        """Count one finding."""
        found = self._found.setdefault((str(where), what), Found(str(where), what, unit, warning=warning))
        found.add(place, count)

    def cut_off(self, path: Path, number: int, message: str) -> None:
        """A packed file ends too soon: raise, or note that what could be read of it is used.

        Raises:
            DataError: Bad lines are errors here, or nothing could be read.
        """
        if not self.skips or not number:
            hint = "data.bad_lines=skip uses the lines before" if number and self._hint else ""
            raise DataError("; ".join([message, hint] if hint else [message]))
        self._cut.add(path)
        self.note("cut off or damaged, the lines before are used", path, number, unit="place", warning=True)

    def is_cut_off(self, path: Path) -> bool:
        """Whether a file ended too soon."""
        return path in self._cut

    def one(self, what: str, where: Path) -> Found | None:
        """What was found of one kind in one file."""
        return self._found.get((str(where), what))

    @property
    def found(self) -> list[Found]:
        """Everything, file by file in the order of reading."""
        order = list(dict.fromkeys(where for where, _ in self._found))
        return sorted(self._found.values(), key=lambda found: order.index(found.where))


def found_lines(split: str, found: Iterable[Found]) -> list[str]:
    """What was found in a split, one line each, for notes."""
    lines = []
    for one in found:
        where = f", {Path(one.where).name}" if one.where else ""
        lines.append(f"{'warning: ' if one.warning else ''}{split}{where}: {one}")
    return lines


def found_table(found: Mapping[str, Sequence[Found]]) -> list[str]:
    """What was found, grouped by split and file, for `heed check`; no line where nothing was."""
    lines = []
    for split, each in found.items():
        for where in dict.fromkeys(one.where for one in each):
            lines.append(f"  {split}{', ' if where else ''}{where}")
            lines += [f"    {'warning: ' if one.warning else ''}{one}" for one in each if one.where == where]
    return ["\nfound in the data:", *lines] if lines else []
