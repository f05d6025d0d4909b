"""`heed lesson`."""

from __future__ import annotations

import sys
from pathlib import Path

from heed.cli.terminal import use_color, width
from heed.errors import ConfigError
from heed.lessons import list_lessons, run_lesson

_ENDINGS = {".html": "html", ".json": "json", ".txt": "text"}


def run_lesson_command(name: str | None, row: str | None, stages: list[str], form: str, out: Path | None) -> None:
    """Work a lesson out in the terminal, or write it to a file or stdout; without a name, list the lessons."""
    if name is None:
        if row is not None or stages or out is not None or form != "text":
            raise ConfigError(f"which lesson? one of {', '.join(list_lessons())}, or a .yaml file")
        print(_listing())
        return
    if out is not None and form == "text":
        if out.suffix not in _ENDINGS:
            raise ConfigError(f"'{out}' does not say how to write; end it in {', '.join(_ENDINGS)}, or give --as")
        form = _ENDINGS[out.suffix]
    lesson = run_lesson(name, row=row)
    if stages:
        lesson = lesson.only(stages)
    if form == "text" and out is None:
        print(lesson.text(width(), use_color()))
        return
    drawn = {"html": lesson.html, "json": lesson.json, "text": lambda: lesson.text() + "\n"}[form]()
    if out is None:
        sys.stdout.write(drawn)
        return
    try:
        out.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write '{out}': {error.strerror}") from None
    print(f"wrote {out}", file=sys.stderr)


def _listing() -> str:
    """Every lesson with its sentence, and how to bring one's own."""
    lessons = list_lessons()
    longest = max(map(len, lessons))
    lines = [f"{name:{longest}}  {title}" for name, title in lessons.items()]
    return "\n".join(
        [*lines, "", "heed lesson NAME works one out; heed lesson FILE.yaml does it for your own matrices."]
    )
