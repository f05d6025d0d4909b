"""`heed lesson`."""

from __future__ import annotations

import sys
from pathlib import Path

from heed.cli.terminal import form_of, interactive, show_drawing, use_color, width, write_output
from heed.errors import ConfigError, suggest
from heed.lessons import Lesson, list_lessons, run_lesson
from heed.lessons.lesson import TRAINED


def run_lesson_command(
    name: str | None, row: str | None, stages: list[str], form: str | None, out: Path | None
) -> None:
    """Show a lesson in the terminal stage by stage, or write it to a file or pipe; without a name, list the lessons."""
    if name is None:
        lessons = list_lessons()
        if row is not None or stages or out is not None or form is not None:
            raise ConfigError(f"name a lesson: {', '.join(lessons)}, or a .yaml file")
        longest = max(map(len, lessons))
        print("\n".join(f"{name:{longest}}  {title}" for name, title in lessons.items()))
        print("\nheed lesson NAME shows a lesson; heed lesson FILE.yaml computes one from your own matrices.")
        return
    form = form_of(form, out, ("html", "json", "text"))
    if name in TRAINED and TRAINED[name].seconds and row is None:
        print(f"training small networks: about {TRAINED[name].seconds} seconds on one thread", file=sys.stderr)
    lesson = run_lesson(name, row=row)
    if stages:
        lesson = lesson.only(stages)
    if form == "text" and out is None and interactive() and len(lesson.stages) > 1:
        _page(lesson)
    elif form == "text" and out is None:
        show_drawing(lesson.text(width(), use_color()))
    else:
        write_output({"html": lesson.html, "json": lesson.json, "text": lambda: lesson.text() + "\n"}[form](), out)


def _page(lesson: Lesson) -> None:
    """Show one stage at a time, asking before each next one."""
    names = [stage.name for stage in lesson.stages]
    print(lesson.head(width()))
    place, wanted = 0, 1
    while place < len(names):
        for _ in range(wanted):
            show_drawing(f"\n{lesson.stage_text(names[place], width(), use_color())}")
            place += 1
        if place < len(names):
            try:
                answer = input(f"\n[Enter: {names[place]}; a stage's name or number; a: all remaining; q: quit] ")
            except (EOFError, KeyboardInterrupt):
                print()
                return
            place, wanted = _answered(answer.strip(), names, place)


def _answered(answer: str, names: list[str], place: int) -> tuple[int, int]:
    """The stage to go to, and the number of stages to show from there; 0 after an invalid answer."""
    if answer in names:
        return names.index(answer), 1
    if answer.isdecimal() and 1 <= int(answer) <= len(names):
        return int(answer) - 1, 1
    if answer.lower() in ("q", "quit"):
        return len(names), 0
    if answer.lower() in ("a", "all"):
        return place, len(names) - place
    if answer:
        print(f"no stage '{answer}'{suggest(answer, names)}")
    return place, 0 if answer else 1
