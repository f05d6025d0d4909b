"""Commands that show lessons and models: `heed lesson`, `heed models`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from heed.cli.options import LessonOptions, typed
from heed.cli.terminal import form_of, interactive, say, show_drawing, use_color, width, write_output
from heed.errors import ConfigError, suggest
from heed.show.scene import check_figure
from heed.storage.files import read_object


def run_lesson_command(name: str | None, options: LessonOptions, figure: dict[str, Any]) -> None:
    """Show a lesson in the terminal stage by stage, or write it to a file or pipe; without a name, list the lessons."""
    out, slides, row = options.out, options.slides, options.row
    from heed.lessons.lesson import SECONDS, list_lessons, run_lesson
    from heed.lessons.parts import training_progress

    if name is None:
        lessons = list_lessons()
        if typed(options) or figure:
            raise ConfigError(f"name a lesson: {', '.join(lessons)}, or a .yaml file")
        longest = max(map(len, lessons))
        print("\n".join(f"{name:{longest}}  {title}" for name, title in lessons.items()))
        print("\nheed lesson NAME shows a lesson; heed lesson FILE.yaml computes one from your own matrices.")
        return
    form = form_of(options.form, out, ("html", "svg", "png", "pdf", "json", "text"))
    check_figure(figure, form)
    if slides and (out is None or form not in ("html", "svg", "png", "pdf") or out.suffix != f".{form}"):
        raise ConfigError("--slides writes files; end --out in .html, .svg, .png or .pdf, and omit --as")
    if name in SECONDS and row is None:
        seconds = f"about {SECONDS[name]} seconds on a quiet core, several times that beside other work"
        print(f"training small networks: {seconds}", file=sys.stderr)
    with training_progress(_progress()):
        lesson = run_lesson(name, row=row, remarks=not options.no_remarks)
    if options.stage:
        lesson = lesson.only(options.stage)
    if slides and out is not None:
        written = lesson.save_slides(out, **figure)
        say([f"wrote {', '.join(map(str, written))}"])
    elif form == "text" and out is None and interactive() and len(lesson.stages) > 1:
        _page(lesson)
    elif form == "text" and out is None:
        show_drawing(lesson.text(width(), use_color()))
    else:
        write_output(f"{lesson.text()}\n" if form == "text" else getattr(lesson, form)(**figure), out)


def _progress() -> Callable[[int, int], None]:
    """Shows how far the training of a lesson's networks is, on a terminal."""
    number = 0

    def tell(update: int, updates: int) -> None:
        nonlocal number
        number += update == 1
        if sys.stderr.isatty() and (update == updates or update % 10 == 0):
            print(f"\rnetwork {number}: update {update:,} of {updates:,} ", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty() and update == updates:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    return tell


def _page(lesson: Any) -> None:
    """Show one stage at a time, asking before each next one."""
    print(lesson.head(width()))
    for number, stage in enumerate(lesson.stages):
        if number:
            try:
                answer = input(f"\n[Enter: {stage.name}; q: quit] ")
            except (EOFError, KeyboardInterrupt):
                print()
                return
            if answer.strip().lower() in ("q", "quit"):
                return
        show_drawing(f"\n{lesson.stage_text(stage.name, width(), use_color())}")


def models_text(name: str | None, scores: bool) -> str:
    """All models by task, or the fields and sizes of one, or the attention scores; `docs/generate.py` writes them.

    Raises:
        ConfigError: There is no such model.
    """
    tables = read_object(Path(__file__).with_name("models.json"))
    if scores or name is None:
        return str(tables["scores" if scores else "models"])
    if name not in tables["fields"]:
        raise ConfigError(f"unknown model '{name}'{suggest(name, tables['fields'])}")
    columns, wrap = max(60, width()), partial(textwrap.wrap, break_long_words=False)
    rows = tables["fields"][name]  # each: its beginning, a text to wrap, and the indent of further lines
    lines = (wrap(text, columns, initial_indent=start, subsequent_indent=" " * indent) for start, text, indent in rows)
    return "\n".join(line for (start, _, _), row in zip(rows, lines, strict=True) for line in row or [start.rstrip()])
