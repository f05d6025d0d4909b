"""Counts of what was read, kept and left out of one split."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heed.data.read.findings import Findings, Found


@dataclass
class Counts:
    """Examples (`unit`) of one split: read from the files, `filtered` by rule, and kept; and findings in the data."""

    read: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    unit: str = "pairs"
    found: list[Found] = field(default_factory=list)

    def __str__(self) -> str:
        gone = "".join(f", {count:,} left out: {rule}" for rule, count in self.filtered.items() if count)
        return f"{self.kept:,} of {self.read:,} {self.unit} kept{gone}"

    def leave_out(self, rule: str, count: int = 1) -> None:
        """Count examples that a rule leaves out."""
        self.filtered[rule] = self.filtered.get(rule, 0) + count

    def add(self, findings: Findings) -> None:
        """Add what the readers of the files left out and found."""
        for rule, count in findings.left_out.items():
            self.read += count
            self.leave_out(rule, count)
        self.found += findings.found

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> Counts:
        """Inverse of `dataclasses.asdict`."""
        return cls(**{**values, "found": [Found(**found) for found in values["found"]]})

    def as_values(self) -> dict[str, Any]:
        """Plain values, for a report."""
        values: dict[str, Any] = {"read": self.read, "filtered": self.filtered}
        return values | ({"found": [one.as_values() for one in self.found]} if self.found else {})
