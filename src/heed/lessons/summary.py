"""The one-line verdict over checked values, and how a number is written: both the same in text and on a page."""

from __future__ import annotations

from heed.lessons.parts import Check


def number(value: float) -> str:
    """Three decimals, never "-0.000"."""
    return f"{round(value, 3) + 0.0:.3f}"


def outcome(check: Check) -> str:
    """What came of one check, in a word or two."""
    if check.equal:
        return "equal"
    return "within tolerance" if check.tolerated else "DIFFERS"


def verdict(checks: tuple[Check, ...]) -> str:
    """How many values are equal, tolerated, and different."""
    equal = sum(check.equal for check in checks)
    tolerated = sum(check.tolerated for check in checks) - equal
    parts = [f"{len(checks)} values: {equal} equal to three decimals"]
    if tolerated:
        parts.append(f"{tolerated} within the tolerance of {max(check.tolerance for check in checks):g}")
    if differ := len(checks) - equal - tolerated:
        parts.append(f"{differ} {'differs' if differ == 1 else 'differ'}")
    return ", ".join(parts)
