"""A lesson as one HTML page: every stage under the other, no script, no network; it prints as it is."""

from __future__ import annotations

from html import escape
from importlib.resources import files

from heed.lessons.parts import Check, Stage, Table, number, verdict
from heed.observe import palette
from heed.observe.draw_html import page_to_html
from heed.observe.labels import clean, visible


def lesson_to_html(title: str, source: str, stages: tuple[Stage, ...]) -> str:
    """Draw a lesson as a self-contained page; equal lessons give equal bytes."""
    links = "".join(f'<li><a href="#{escape(stage.name)}">{escape(clean(stage.title))}</a></li>' for stage in stages)
    parts = [
        f'<header><h1 dir="auto">{escape(clean(title))}</h1>',
        f'<p class="hint" dir="auto">{escape(clean(source))}</p>' if source else "",
        f'<nav aria-label="Stages"><ol>{links}</ol></nav></header><main>',
        *(_stage(stage, i) for i, stage in enumerate(stages, start=1)),
        "</main>",
    ]
    css = files("heed.lessons").joinpath("lesson.css").read_text(encoding="utf-8")
    return page_to_html(title, parts, css=f"\n{css}", kind="lesson")


def _stage(stage: Stage, place: int) -> str:
    prose = "".join(f"<p>{escape(clean(line))}</p>" for line in stage.prose)
    equation = f'<p class="equation">{escape(stage.equation)}</p>' if stage.equation else ""
    parts = [
        f'<section id="{escape(stage.name)}"><h2>{place}. {escape(clean(stage.title))}</h2>',
        f'<div class="idea"><div>{prose}</div>{equation}</div>',
        f'<div class="tables">{"".join(map(_figure, stage.tables))}</div>' if stage.tables else "",
        _list("moments", [f"<b>{m.kind}</b>: {escape(clean(m.text))}" for m in stage.moments]),
        _lines(stage.lines),
        _checks(stage.checks),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _list(kind: str, items: list[str]) -> str:
    return f'<ul class="{kind}">{"".join(f"<li>{item}</li>" for item in items)}</ul>' if items else ""


def _lines(lines: tuple[str, ...]) -> str:
    """Lines; those indented belong to the one above."""
    classes = (' class="under"' if line.startswith(" ") else "" for line in lines)
    items = "".join(f"<li{c}>{escape(clean(line.strip()))}</li>" for c, line in zip(classes, lines, strict=True))
    return f'<ul class="lines">{items}</ul>' if items else ""


def _figure(table: Table) -> str:
    title = escape(clean(table.title))
    corner = '<td class="corner"></td>'
    heads = "".join(f'<th scope="col"><bdi>{escape(visible(label))}</bdi></th>' for label in table.columns)
    rows = [f"<thead><tr>{corner}{heads}{'<td></td>' if table.notes else ''}</tr></thead><tbody>"]
    for i, label in enumerate(table.rows):
        cells = "".join(_cell(table, i, j) for j in range(len(table.columns)))
        note = f'<td class="note">{escape(clean(table.notes[i]))}</td>' if table.notes else ""
        rows.append(f'<tr><th scope="row"><bdi>{escape(visible(label))}</bdi></th>{cells}{note}</tr>')
    return (
        f'<figure><figcaption>{title}</figcaption><div class="scroll" tabindex="0" role="group" aria-label="{title}">'
        f'<table class="numbers">{"".join(rows)}</tbody></table></div></figure>'
    )


def _cell(table: Table, i: int, j: int) -> str:
    if (value := table.cell(i, j)) is None:
        return '<td class="m" aria-label="masked"></td>'
    heat = f' class="w{palette.level(value)}"' if table.has_heat(i) else ""
    return f"<td{heat}>{number(value)}</td>"


def _checks(checks: tuple[Check, ...]) -> str:
    """The verdict, then each value by name: those that are not equal in sight, all of them folded."""
    if not checks:
        return ""
    differing = [check for check in checks if not check.equal]
    said = f'<p class="verdict">{escape(verdict(checks))}</p>'
    every = f"<details><summary>All {len(checks)} values</summary>{_check_table(list(checks))}</details>"
    return said + (_check_table(differing) if differing else "") + (every if len(differing) < len(checks) else "")


def _check_table(checks: list[Check]) -> str:
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("value", "stated", "computed", "off by", "allowed", ""))
    rows = "".join(
        f'<tr><th scope="row">{escape(clean(check.name))}</th><td>{number(check.printed)}</td>'
        f"<td>{number(check.computed)}</td><td>{number(check.difference)}</td><td>{check.tolerance:.4g}</td>"
        f'<td class="{"" if check.tolerated else "bad"}">{check.outcome}</td></tr>'
        for check in checks
    )
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="values checked"><table class="numbers checked">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
