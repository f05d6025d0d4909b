"""A lesson as text for a terminal, and as one page without scripts or network access."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from markupsafe import Markup

from heed.lessons.parts import Check, Stage, Table, double
from heed.observe.labels import clean
from heed.observe.number_tables import table_to_html, tables_to_lines
from heed.observe.page import page
from heed.tasks.base.report import counted


def head_to_text(title: str, source: str, stages: tuple[Stage, ...], width: int) -> str:
    """Title, source, and the names of the stages if there are several."""
    names = f"stages: {', '.join(stage.name for stage in stages)}" if len(stages) > 1 else ""
    parts = ((title, ""), (source, ""), (names, "  "))
    return "\n".join(line for text, hanging in parts if text for line in _wrap(text, width, hanging))


def stage_to_text(stage: Stage, place: int, count: int, width: int, color: bool) -> str:
    """Stage number `place` of `count`, with weights in 24-bit ANSI colours if `color`."""
    head = f"-- {place}/{count} {clean(stage.title)} [{stage.name}] "
    equation = _wrap(f"    {stage.equation}", width, "    ") if stage.equation else []
    blocks = [
        [head + "-" * max(0, width - len(head)), *(line for text in stage.prose for line in _wrap(text, width))],
        equation,
        tables_to_lines(stage.tables, width, color),
        [line for m in stage.moments for line in _wrap(f"* {m.kind}: {m.text}", width, "  ")],
        [line for text in stage.lines for line in _wrap(text, width, "   ")],
        _wrap(_verdict(stage.checks), width) if stage.checks else [],
        tables_to_lines(_unequal(stage.checks), width, color),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _wrap(text: str, width: int, hanging: str = "") -> list[str]:
    text = clean(text)
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text, width, subsequent_indent=indent + hanging, break_on_hyphens=False) or [""]


def lesson_to_html(title: str, source: str, stages: tuple[Stage, ...]) -> str:
    """Draw a lesson as a self-contained page; equal lessons give equal bytes."""
    shown = [
        {
            "of": stage,
            "tables": _drawn(stage.tables),
            "verdict": _verdict(stage.checks) if stage.checks else "",
            "unequal": _drawn(_unequal(stage.checks)),
            "values": _drawn([_table("", stage.checks)] if stage.checks else []),
        }
        for stage in stages
    ]
    return page("lessons/lesson.html", title, subject=source, stages=shown)


def _drawn(tables: Sequence[Table]) -> list[tuple[str, Markup]]:
    """The tables with their titles."""
    return [(table.title, table_to_html(table)) for table in tables]


def _verdict(checks: Sequence[Check]) -> str:
    """Counts of values that are equal, tolerated and different, as a sentence."""
    equal = sum(check.equal for check in checks)
    tolerated = sum(check.tolerated for check in checks) - equal
    parts = [f"{counted(len(checks), 'value')}: {equal} equal to three decimals"]
    if tolerated:
        parts.append(f"{tolerated} within the tolerance of {max(check.tolerance for check in checks):g}")
    if differ := len(checks) - equal - tolerated:
        parts.append(f"{differ} {'differs' if differ == 1 else 'differ'}")
    return ", ".join(parts)


def _unequal(checks: Sequence[Check]) -> tuple[Table, ...]:
    """The checks that are not equal, in a table for each outcome and tolerance, which are the title."""
    groups: dict[str, list[Check]] = {}
    for check in checks:
        if not check.equal:
            allowed = f"within the tolerance of {check.tolerance:g}"
            differs = f"DIFFERS: off by more than {max(check.tolerance, 0.0005):g}"
            groups.setdefault(allowed if check.tolerated else differs, []).append(check)
    return tuple(_table(title, groups[title]) for title in sorted(groups))


def _table(title: str, checks: Sequence[Check]) -> Table:
    """The stated values of checks, the computed ones and the differences."""
    values = double([[check.printed, check.computed, check.difference] for check in checks])
    return Table(title, tuple(check.name for check in checks), ("stated", "computed", "off by"), values)
