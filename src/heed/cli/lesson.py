"""`heed lesson`."""

from __future__ import annotations

from pathlib import Path

from heed.cli.terminal import form_of, use_color, width, write_output
from heed.errors import ConfigError
from heed.lessons import list_lessons, run_lesson


def run_lesson_command(
    name: str | None, row: str | None, stages: list[str], form: str | None, out: Path | None
) -> None:
    """Work a lesson out in the terminal, or write it to a file or stdout; without a name, list the lessons."""
    if name is None:
        lessons = list_lessons()
        if row is not None or stages or out is not None or form is not None:
            raise ConfigError(f"which lesson? one of {', '.join(lessons)}, or a .yaml file")
        longest = max(map(len, lessons))
        print("\n".join(f"{name:{longest}}  {title}" for name, title in lessons.items()))
        print("\nheed lesson NAME works one out; heed lesson FILE.yaml does it for your own matrices.")
        return
    form = form_of(form, out, ("html", "json", "text"))
    lesson = run_lesson(name, row=row)
    if stages:
        lesson = lesson.only(stages)
    if form == "text" and out is None:
        print(lesson.text(width(), use_color()))
    else:
        write_output({"html": lesson.html, "json": lesson.json, "text": lambda: lesson.text() + "\n"}[form](), out)
