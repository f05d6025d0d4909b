"""Commands that show lessons and models: `heed lesson`, `heed models`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from typing import Any

from heed.attention import SCORES
from heed.cli.options import LessonOptions, typed
from heed.cli.terminal import form_of, interactive, say, show_drawing, use_color, width, write_output
from heed.errors import ConfigError, suggest
from heed.models.base import Body, ModelConfig, TextEncoder
from heed.registry import bodies_of, list_models, model_names
from heed.show.scene import check_figure
from heed.tasks import config_class, spec_of, task_names


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


_NAME = 16
"""Columns of the names of models and fields."""


def models_table() -> str:
    """All models by task: name, description and paper."""
    blocks = []
    for task in task_names():
        default = config_class(task).model_fields["model"].get_default(call_default_factory=True).name
        lines = [f"{task}: {spec_of(task).summary}"]
        for name, body in list_models():
            if _fits(task, body):
                mark = "*" if name == default else " "
                lines.append(f"{mark} {name:<{_NAME - 1}}{body.summary:<39} {body.paper}")
        blocks.append("\n".join(lines))
    blocks.append("* the default model\nheed models NAME shows the fields and sizes of a model.")
    return "\n\n".join(blocks)


def model_text(name: str) -> str:
    """The fields and sizes of one model, for each kind of task that can use it.

    Raises:
        ConfigError: There is no such model.
    """
    bodies = bodies_of(name)
    if not bodies:
        raise ConfigError(f"unknown model '{name}'{suggest(name, model_names())}")
    return "\n\n".join(_body_text(name, body) for body in bodies)


def list_scores_text() -> str:
    """The table of attention scores: name, formula, source."""
    rows = [("name", "score of query q and key k", "source"), *((n, s.formula, s.source) for n, s in SCORES.items())]
    return "\n".join(f"{name:<12} {formula:<34} {source}" for name, formula, source in rows)


def _fits(task: str, body: type[Body]) -> bool:
    """True if a task can use a model."""
    spec, reads_whole = spec_of(task), issubclass(body, TextEncoder)  # it gives one vector for each text
    framed = getattr(body, "framed", False) or not spec.framed
    return body.interface in spec.interfaces and not (spec.per_token and reads_whole) and framed


def _body_text(name: str, body: type[Body]) -> str:
    tasks = ", ".join(task for task in task_names() if _fits(task, body))
    lines = [f"{name} for {tasks}: {body.summary} ({body.paper})", "", f"  {'field':<22}{'default':<14}meaning"]
    for field, info in body.config_class.model_fields.items():
        default = "from the data" if info.is_required() else _written(info.default)
        lines += _wrapped(f"  {field:<22}{default:<14}", " ".join((info.description or "").split()), 38)
    lines += ["", f"  {'size':<22}fields that differ from the defaults"]
    for size, fields in body.config_class.sizes.items():
        changes = ", ".join(f"{key} {_written(value)}" for key, value in fields.items())
        lines += _wrapped(f"  {size:<22}", changes or f"none{_whose(body.config_class)}", 24)
    return "\n".join(lines)


def _whose(config: type[ModelConfig]) -> str:
    """The remark on the defaults in the docstring of a configuration."""
    first = (config.__doc__ or "").partition("\n\n")[0]
    said = " ".join(first.split()).partition("; ")[2].rstrip(".")
    return f"; {said}" if said else ""


def _written(value: Any) -> str:
    """A value in YAML notation."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(list(value) if isinstance(value, tuple) else value)


def _wrapped(start: str, text: str, indent: int) -> list[str]:
    """`start` and a text, wrapped to the width of the terminal."""
    return textwrap.wrap(
        text, max(60, width()), initial_indent=start, subsequent_indent=" " * indent, break_long_words=False
    ) or [start.rstrip()]
