"""What became of everything that was read of one split."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heed.data.read.findings import Findings, Found


@dataclass
class Counts:
    """What became of the lines of one split.

    Attributes:
        read: Examples in the files.
        filtered: Rule -> examples it left out.
        kept: Examples that are used.
        unit: What is counted.
        found: What was found amiss or worth saying, with the first places.
    """

    read: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    unit: str = "pairs"
    found: list[Found] = field(default_factory=list)

    def __str__(self) -> str:
        gone = "".join(f", {count:,} left out: {rule}" for rule, count in self.filtered.items() if count)
        return f"{self.kept:,} of {self.read:,} {self.unit} kept{gone}"

    def leave_out(self, rule: str) -> None:
        """Count one that is left out."""
        self.filtered[rule] = self.filtered.get(rule, 0) + 1

    def add(self, findings: Findings) -> None:
        """Add what the readers of the files left out and found."""
        for rule, count in findings.left_out.items():
            self.read += count
            self.filtered[rule] = self.filtered.get(rule, 0) + count
        self.found += findings.found

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> Counts:
        """Those that `dataclasses.asdict` made plain values of."""
        return cls(**{**values, "found": [Found(**found) for found in values["found"]]})

    def as_values(self) -> dict[str, Any]:
        """Plain values, for a report."""
        values: dict[str, Any] = {"read": self.read, "filtered": self.filtered}
        return values | ({"found": [one.as_values() for one in self.found]} if self.found else {})
