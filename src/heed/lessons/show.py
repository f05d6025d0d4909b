"""A lesson as text for a terminal, and as one page without scripts or network access."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from heed.lessons.parts import Check, Stage, Table, double
from heed.observe.draw_html import page_to_html
from heed.observe.labels import clean
from heed.observe.number_tables import table_to_html, tables_to_lines
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
    links = "".join(f'<li><a href="#{escape(stage.name)}">{_shown(stage.title)}</a></li>' for stage in stages)
    parts = [
        f'<header><h1 dir="auto">{_shown(title)}</h1>',
        f'<p class="hint" dir="auto">{_shown(source)}</p>' if source else "",
        f'<nav aria-label="Stages"><ol>{links}</ol></nav></header><main>',
        *(_section(stage, i) for i, stage in enumerate(stages, start=1)),
        "</main>",
    ]
    css = files("heed.lessons").joinpath("lesson.css").read_text(encoding="utf-8")
    return page_to_html(title, parts, css=f"\n{css}", kind="lesson")


def _shown(text: str) -> str:
    return escape(clean(text))


def _section(stage: Stage, place: int) -> str:
    prose = "".join(f"<p>{_shown(line)}</p>" for line in stage.prose)
    equation = f'<p class="equation">{escape(stage.equation)}</p>' if stage.equation else ""
    moments = "".join(f"<li><b>{m.kind}</b>: {_shown(m.text)}</li>" for m in stage.moments)
    # Indented lines belong to the line above.
    under = (' class="under"' if line.startswith(" ") else "" for line in stage.lines)
    lines = "".join(f"<li{c}>{_shown(line.strip())}</li>" for c, line in zip(under, stage.lines, strict=True))
    parts = [
        f'<section id="{escape(stage.name)}"><h2>{place}. {_shown(stage.title)}</h2>',
        f'<div class="idea"><div>{prose}</div>{equation}</div>',
        _figures(stage.tables),
        f'<ul class="moments">{moments}</ul>' if moments else "",
        f'<ul class="lines">{lines}</ul>' if lines else "",
        _checks(stage.checks) if stage.checks else "",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _figures(tables: Sequence[Table]) -> str:
    drawn = (f"<figure><figcaption>{_shown(one.title)}</figcaption>{table_to_html(one)}</figure>" for one in tables)
    return f'<div class="tables">{"".join(drawn)}</div>' if tables else ""


def _checks(checks: Sequence[Check]) -> str:
    """The verdict, then a table of the values that are not equal, and a folded table of all values."""
    folded = f"<details><summary>All {len(checks)} values</summary>{_figures([_table('', checks)])}</details>"
    return f'<p class="verdict">{escape(_verdict(checks))}</p>{_figures(_unequal(checks))}{folded}'


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
