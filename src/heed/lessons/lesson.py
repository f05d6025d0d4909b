"""A lesson: attention computed step by step, as text, page, JSON and tensors; heed's own lessons and users' files.

Formulas are written as for a terminal, and set in runs of text on, below and above the line for pages and pictures:
names with subscripts (`W_Q`, `h_n,j-1`), powers (`P^2`), `'` for a transposed matrix, `sqrt(...)`, `sum_j` or "sum over
j of", Greek letters by name; all else stays as it is. Two spaces separate formulas.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Unpack

from markupsafe import Markup

from heed.config import check_section, read_config
from heed.errors import ConfigError, suggest
from heed.lessons import cat, hindi, it, logan, mess, order, pizza, teddy
from heed.lessons.parts import Check, Moment, Stage, Table, checks_table
from heed.lessons.schema import LessonFile
from heed.lessons.stages import build_stages
from heed.show.document import Shown, plain_values
from heed.show.number_tables import table_scene, table_to_html, tables_to_lines
from heed.show.page import page
from heed.show.scene import Figure, Label, Scene, check_figure, stacked
from heed.storage.disk import write_outputs
from heed.visible import clean, to_json, visible

Runs = tuple[tuple[str, int], ...]
"""Pieces of a text, each on the line (0), below (-1) or above it (1)."""

_NAMES = ("sum", "product", "alpha", "beta", "sqrt")
_SIGNS = (
    (r" {2,}", "\u2003"),
    (r"\bsum over (\w) of ", "sum_\\1 "),
    (r"\b(sum|product) of ", r"\1 "),
    *((rf"\b{name}(?![a-z])", sign) for name, sign in zip(_NAMES, "\u2211\u220f\u03b1\u03b2\u221a", strict=True)),
    (r"\bd(?=L\b|e_)", "\u2202"),
    (r"(?<=[A-Z0-9]) x (?=[A-Z0-9])", " \u00d7 "),
    (r" \. ", " \u00b7 "),
    (r"\.\.\.", "\u2026"),
    (r"<=", "\u2264"),
    (r"(?<![a-z]{2})-|-(?![a-z]{2})", "\u2212"),
)
"""Patterns, and the signs that are set for them."""
_SHIFTED = re.compile(r"_(\[\w+\]|[^\W_]+(?:,[^\W_]+)*(?:\u22121)?)|\^(\w)|(')")
_INLINE = re.compile(
    r"\b(?:[QKV] = X )?W_[QKVO]\b|\b[QX] [KX]'(?!\w)|\bsqrt\(\w+\)|(?<![\w.])[a-z]_(?:[a-z]{1,2}|true|pred)\b"
)
"""Formulas within sentences and titles; words of users are hardly ever of these forms."""


def to_runs(formula: str) -> Runs:
    """A line of formulas as runs."""
    text = clean(formula)
    for pattern, sign in _SIGNS:
        text = re.sub(pattern, sign, text)
    runs, end = [], 0
    for match in _SHIFTED.finditer(text):
        below, above, transposed = match.groups()
        shifted = (below.strip("[]"), -1) if below else ("\u22a4" if transposed else above, 1)
        runs += [(text[end : match.start()], 0), shifted]
        end = match.end()
    return tuple((part, level) for part, level in [*runs, (text[end:], 0)] if part)


def with_runs(text: str) -> Runs:
    """A text with its formulas as `to_runs` gives them; empty if it has none."""
    text, runs, end = clean(text), [], 0
    for match in _INLINE.finditer(text):
        runs += [(text[end : match.start()], 0), *to_runs(match[0])]
        end = match.end()
    return tuple(run for run in (*runs, (text[end:], 0)) if run[0]) if end else ()


def to_html(runs: Iterable[tuple[str, int]]) -> Markup:
    """Runs as HTML."""
    set_as = {0: Markup("{}"), -1: Markup("<sub>{}</sub>"), 1: Markup("<sup>{}</sup>")}
    return Markup("").join(set_as[level].format(text) for text, level in runs)


# Lessons -------------------------------------------------------------------------------------------------------------


_MODULES = (cat, hindi, it, logan, mess, order, pizza, teddy)
TRAINED: dict[str, Any] = {module.__name__.rpartition(".")[2]: module for module in _MODULES}
"""Lessons written in Python, modules by name: `TITLE`, `stages()`, and `SOURCE` if nothing is trained."""
SECONDS = {"cat": 9, "mess": 6, "order": 8, "pizza": 7, "teddy": 5}
"""Processor seconds of training on one thread of an Intel Xeon, 2026-12-01."""
_SOURCE = "An example from the lecture notes; all numbers come from networks trained just now."


def list_lessons() -> dict[str, str]:
    """Name and title of every lesson that comes with heed."""
    worked = {name: str(read_config(path)["title"]) for name, path in _paths().items()}
    return worked | {name: module.TITLE for name, module in TRAINED.items()}


def _paths() -> dict[str, Path]:
    """The YAML files that come with heed, by the names of their lessons."""
    folder = Path(str(files("heed.lessons")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml")) if path.stem != "texts"}


@dataclass(repr=False)
class Lesson(Shown):
    """The result of `run_lesson`: its stages in order; `lesson["all-rows"]["weights"]` is a tensor."""

    name: str
    title: str
    source: str
    tokens: tuple[str, ...]
    stages: tuple[Stage, ...]

    def __getitem__(self, name: str) -> Stage:
        stages = {stage.name: stage for stage in self.stages}
        if name not in stages:
            raise ConfigError(f"lesson {self.name} has no stage '{name}'{suggest(name, list(stages))}")
        return stages[name]

    def only(self, names: Sequence[str]) -> Lesson:
        """The lesson with some of its stages, in the given order.

        Raises:
            ConfigError: There is no such stage.
        """
        return replace(self, stages=tuple(self[name] for name in names))

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every stated value with the computed one."""
        return tuple(check for stage in self.stages for check in stage.checks)

    @property
    def mismatches(self) -> tuple[Check, ...]:
        """The stated values that differ from the computed ones in three decimals, tolerated or not."""
        return tuple(check for check in self.checks if not check.equal)

    @property
    def moments(self) -> tuple[Moment, ...]:
        """Noteworthy rows of the stage of all rows."""
        return tuple(moment for stage in self.stages if stage.name == "all-rows" for moment in stage.moments)

    def text(self, width: int = 100, color: bool = False) -> str:
        """Text for a terminal of `width` columns."""
        stages = (self.stage_text(stage.name, width, color) for stage in self.stages)
        return "\n\n".join([self.head(width), *stages])

    def head(self, width: int = 100) -> str:
        """Title, source and names of the stages: the beginning of `text`."""
        names = f"stages: {', '.join(stage.name for stage in self.stages)}" if len(self.stages) > 1 else ""
        parts = ((self.title, ""), (self.source, ""), (names, "  "))
        return "\n".join(line for text, hanging in parts if text for line in _wrap(text, width, hanging))

    def stage_text(self, name: str, width: int = 100, color: bool = False) -> str:
        """One stage, as in `text` and with the same number.

        Raises:
            ConfigError: There is no such stage.
        """
        stage = self[name]
        head = f"-- {self.stages.index(stage) + 1}/{len(self.stages)} {clean(stage.title)} [{stage.name}] "
        written = head + "-" * max(0, width - len(head))
        for kind, content in stage.blocks:
            mark, hanging = _MARKS.get(kind, ("", ""))
            lines = (line for text in content for line in _wrap(f"{mark}{text}", width, hanging))
            shown = tables_to_lines(content, width, color) if kind == "tables" else lines
            written += ("\n" if kind == "prose" else "\n\n") + "\n".join(shown)
        return written

    def html(self, slides: bool = False) -> str:
        """A self-contained page, or `slides` that the keys move and the printer takes; equal lessons, equal bytes."""
        scenes = [replace(self.scene(i), follows_scheme=True) for i in range(len(self.stages))] if slides else []
        functions = {"math": lambda formula: to_html(to_runs(formula)), "inline": _inline, "values": checks_table}
        shown = {"subject": self.source, "stages": self.stages, "slides": scenes, **functions}
        return page("lessons/lesson.html", self.title, drawn=lambda table: table_to_html(table, _row_name), **shown)

    def scene(self, index: int | None = None) -> Scene:
        """The stages one below the other; with an index, one of them on a page of 16:9."""
        titles = [f"{i}/{len(self.stages)}  {clean(stage.title)}" for i, stage in enumerate(self.stages, start=1)]
        if index is not None:
            return _slide(self.stages[index], titles[index])
        head = Scene(_WIDTH, 0, clean(self.title))
        y = head.write(textwrap.wrap(clean(self.title), 100), _MARGIN, 30, "title", 20)
        head.height = head.write(textwrap.wrap(clean(self.source), 150), _MARGIN, y, "small") - 4
        return stacked([head, *map(_stage_scene, self.stages, titles)], 8)

    def save_slides(self, path: str | Path, **figure: Unpack[Figure]) -> list[Path]:
        """Write one stage a page of 16:9: .html as one file, the others as a file for each; returns the files.

        Raises:
            ConfigError: Another ending, or an option of the figure is wrong or not for this format.
        """
        path = Path(path)
        form = path.suffix[1:]
        check_figure(figure, form)
        if form not in ("html", "svg", "png", "pdf"):
            raise ConfigError(f"slides are .html, .svg, .png or .pdf, not '{path}'")
        slides: dict[Path, str | bytes] = {path: self.html(slides=True)} if form == "html" else {}
        for i, stage in enumerate(self.stages if form != "html" else ()):
            slides[path.with_name(f"{path.stem}-{i + 1}-{stage.name}.{form}")] = getattr(self, form)(i, **figure)
        write_outputs(slides)
        return list(slides)

    def json(self) -> str:
        """All numbers as JSON with six decimals."""
        about = {"format": "heed-lesson-1", "lesson": self.name, "title": self.title, "source": self.source}
        stages = [_stage(stage) for stage in self.stages]
        return to_json({**about, "tokens": list(self.tokens), "stages": stages}, separators=(",", ":")) + "\n"

    def __repr__(self) -> str:
        return f"Lesson({self.name!r}, {len(self.tokens)} tokens, {len(self.stages)} stages)"


def _stage(stage: Stage) -> dict[str, object]:
    names = ("name", "title", "prose", "equation", "numbers", "moments", "lines")
    of_checks = ("name", "printed", "computed", "difference", "tolerance", "equal", "tolerated")
    checks = [{name: plain_values(getattr(check, name)) for name in of_checks} for check in stage.checks]
    return {**{name: plain_values(getattr(stage, name)) for name in names}, "checks": checks}


def run_lesson(source: str | Path, *, row: int | str | None = None, remarks: bool = True) -> Lesson:
    """Run a lesson of heed by name, or from a YAML file (see `docs/lessons.md`).

    `heed.lessons.run_lesson("lion")["all-rows"]["weights"]` is the matrix of weights. `row` chooses the row for the
    stage of one row: a token, or its number from 0. Without `remarks`, what a file says of its source is left out: its
    `remarks` and `notes`.

    Raises:
        ConfigError: No such lesson, file, field or row, or matrices that do not fit together; the message names file,
            field, row and the width that would be right.
    """
    name, paths = str(source), _paths()
    if name in TRAINED:
        if row is not None:
            raise ConfigError(f"lesson {name} has no stage of one row; leave out row {row!r}")
        module = TRAINED[name]
        return Lesson(name, module.TITLE, getattr(module, "SOURCE", _SOURCE), (), module.stages())
    if name not in paths and Path(source).suffix not in {".yaml", ".yml"} and not os.path.isfile(source):
        hint = suggest(name, [*paths, *TRAINED])
        raise ConfigError(f"unknown lesson '{source}'{hint} (for a lesson on your own matrices, give a .yaml file)")
    file = check_section(LessonFile, read_config(paths.get(name, source)), name)
    file = file if remarks else file.model_copy(update={"remarks": [], "notes": {}})
    try:
        return Lesson(name, file.title, file.source, tuple(file.tokens), build_stages(file, row))
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


# Text and page -----------------------------------------------------------------------------------------------------


def _wrap(text: str, width: int, hanging: str = "") -> list[str]:
    text = clean(text)
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text, width, subsequent_indent=indent + hanging, break_on_hyphens=False) or [""]


_MARKS = {"formula": ("    ", "    "), "moments": ("* ", "  "), "lines": ("", "   ")}
"""How a text of a kind begins in a terminal, and the further indent of its following lines."""
_WIDTH, _MARGIN = 1000, 16


def _slide(stage: Stage, title: str) -> Scene:
    """A stage on a page of 16:9, as large as it fits: the narrower the page, the larger its letters."""
    for width in range(700, 4000, 50):
        scene = _stage_scene(stage, title, width)
        if scene.height <= scene.width * 9 / 16:
            break
    scene.width = max(scene.width, scene.height * 16 / 9)
    scene.height = scene.width * 9 / 16
    return scene


def _stage_scene(stage: Stage, title: str, width: int = _WIDTH) -> Scene:
    """A stage as a drawing: its texts, its formula, its tables in rows that fit the width."""
    scene = Scene(width, 0, clean(stage.title))
    y = scene.write([title], _MARGIN, 28, "title", 22)
    for kind, content in stage.blocks:
        if kind == "tables":
            y = _add_tables(scene, content, y) + 8
        elif kind == "formula":
            runs = to_runs(content[0])
            scene.add([Label(_MARGIN + 24, y + 8, "".join(text for text, _ in runs), "formula", runs=runs)])
            y += 30
        else:
            for line in (line for text in content for line in _wrap(text, int(width * 0.14))):
                scene.add([Label(_MARGIN, y, line, runs=with_runs(line))])
                y += 18
    scene.height = y + 4
    return scene


def _add_tables(scene: Scene, tables: Sequence[Table], y: float) -> float:
    """Add tables side by side, as many as fit; returns the next baseline."""
    x, high = float(_MARGIN), 0.0
    for drawn in map(table_scene, tables):
        if x > _MARGIN and x + drawn.width > scene.width - _MARGIN:
            x, y, high = _MARGIN, y + high + 14, 0.0
        for i, label in enumerate(drawn.items):
            if isinstance(label, Label) and (i == 0 or "sqrt(" in label.text):  # the title, and divisors
                drawn.items[i] = replace(label, runs=with_runs(label.text))
        scene.add(drawn.items, x, y)
        x, high = x + drawn.width + 36, max(high, drawn.height)
        scene.width = max(scene.width, x - 36 + _MARGIN)
    return y + high + 14


def _inline(text: str) -> Markup:
    """A text with its formulas, as HTML."""
    return to_html(with_runs(text) or ((clean(text), 0),))


def _row_name(name: str) -> str:
    """The name of a row; a divisor is a formula, all other names are words of the user."""
    return _inline(visible(name)) if "sqrt(" in name else visible(name)
