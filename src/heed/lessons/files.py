"""Finding and reading lessons, heed's and the user's own, with a check that the matrices fit together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from heed.config import check_section, read_config
from heed.errors import ConfigError, suggest
from heed.lessons import cat, hindi, it, logan, mess, milk, order, patches, pizza, politics, teddy
from heed.lessons.parts import Stage, count, name_of
from heed.lessons.schema import LessonFile

_EARLIER = ("does_not_compute", "does_not_do_what_it_says")
"""Earlier names of `remarks`; their items could also be mappings with a `text` and values to compare."""


class Trained(NamedTuple):
    """A lesson with networks."""

    title: str
    stages: Callable[[], tuple[Stage, ...]]
    seconds: int  # training time on one thread; 0: no training
    source: str = ""  # where the lesson comes from, if not the default text


TRAINED: dict[str, Trained] = {
    "cat": Trained(cat.TITLE, cat.cat_stages, 35),
    "hindi": Trained(hindi.TITLE, hindi.hindi_stages, 0, hindi.SOURCE),
    "it": Trained(it.TITLE, it.it_stages, 0, it.SOURCE),
    "logan": Trained(logan.TITLE, logan.logan_stages, 0, logan.SOURCE),
    "mess": Trained(mess.TITLE, mess.mess_stages, 30),
    "milk": Trained(milk.TITLE, milk.milk_stages, 0),
    "order": Trained(order.TITLE, order.order_stages, 10),
    "patches": Trained(patches.TITLE, patches.patches_stages, 0, patches.SOURCE),
    "pizza": Trained(pizza.TITLE, pizza.pizza_stages, 10),
    "politics": Trained(politics.TITLE, politics.politics_stages, 10),
    "teddy": Trained(teddy.TITLE, teddy.teddy_stages, 10),
}
"""Lessons with networks, by name."""


def list_lessons() -> dict[str, str]:
    """Name and title of every lesson that comes with heed."""
    worked = {name: str(read_config(path)["title"]) for name, path in _paths().items()}
    return worked | {name: title for name, (title, *_) in TRAINED.items()}


def read_lesson(source: str | Path) -> tuple[str, LessonFile]:
    """Read a lesson by name, or from a YAML file.

    Returns:
        The lesson's name in messages, and its fields, with one row of `input` per token.

    Raises:
        ConfigError: No such lesson or file, an unknown field, or matrices that do not fit together; the message names
            file, field, row and the width that would be right.
    """
    paths = _paths()
    if str(source) in paths:
        where, path = str(source), paths[str(source)]
    elif Path(source).suffix in {".yaml", ".yml"} or Path(source).is_file():
        where, path = str(source), Path(source)
    else:
        hint = suggest(str(source), [*paths, *TRAINED])
        raise ConfigError(f"unknown lesson '{source}'{hint} (for a lesson on your own matrices, give a .yaml file)")
    values = _with_remarks(read_config(path), where)
    _check_tokens(values, where)
    file = check_section(LessonFile, values, where)
    file = _with_input(file, where)
    _check_shapes(file, where)
    return where, file


def _paths() -> dict[str, Path]:
    """The file name is the registry."""
    folder = Path(str(files("heed.lessons")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def _with_remarks(values: dict[str, Any], where: str) -> dict[str, Any]:
    """The fields of a file, with earlier forms of `remarks` converted."""
    texts, inside = [], "from_printed" in values
    earlier = [name for name in _EARLIER if isinstance(values.get(name), list)]
    for name in earlier:
        for i, item in enumerate(values[name]):
            if isinstance(item, dict) and "text" not in item:
                raise ConfigError(f"{where}: {name}[{i}]: field 'text' is missing; a remark is a text")
            inside |= isinstance(item, dict) and len(item) > 1
            texts.append(item["text"] if isinstance(item, dict) else item)
    if inside:
        texts.append("Not compared here: the values of 'from_printed' and those inside remarks.")
    kept = {name: value for name, value in values.items() if name not in (*earlier, "from_printed")}
    if texts and isinstance(notes := values.get("notes"), dict):
        stages = {name.replace("_", "-"): "remarks" for name in _EARLIER}
        kept["notes"] = {stages.get(stage, stage): lines for stage, lines in notes.items()}
    return {**kept, "remarks": [*values.get("remarks", []), *texts]} if texts else kept


def _check_tokens(values: dict[str, Any], where: str) -> None:
    tokens = values.get("tokens")
    for i, token in enumerate(tokens if isinstance(tokens, list) else []):
        if not isinstance(token, str):
            raise ConfigError(
                f"{where}: tokens {i} is {token!r}, not text; YAML does not read bare numbers, yes, no, on and off as "
                "text, so put quotes around it"
            )


def _with_input(file: LessonFile, where: str) -> LessonFile:
    """The file with one row of `input` per token, also if it has `embeddings`."""
    if (file.input is None) == (file.embeddings is None):
        raise ConfigError(f"{where}: give either 'input' (a row per token) or 'embeddings' (token: row)")
    if file.embeddings is None:
        return file
    for token in file.embeddings:
        if token not in file.tokens:
            raise ConfigError(f"{where}: embeddings: no token '{token}'{suggest(token, file.tokens)}")
    tokens = [token for token in file.tokens if token in file.embeddings]
    if not tokens:
        raise ConfigError(f"{where}: embeddings is empty; expected a row for at least one token")
    return file.model_copy(update={"tokens": tokens, "input": [file.embeddings[token] for token in tokens]})


def _check_shapes(file: LessonFile, where: str) -> None:
    rows = file.input or []
    names = [f" ({name_of(i, file.tokens)})" for i in range(len(file.tokens))]
    _check_count(rows, len(names), "row", f"{where}: input", "one per token")
    d_model = _width(rows, f"{where}: input", names)
    widths = {"w_query": d_model, "w_key": d_model, "w_value": d_model}
    for field in widths:
        if (matrix := getattr(file, field)) is not None:
            why = f"input is {len(rows)} x {d_model}, and each number of an input row needs its row of {field}"
            _check_count(matrix, d_model, "row", f"{where}: {field}", why, ":")
            widths[field] = _width(matrix, f"{where}: {field}")
    if widths["w_query"] != widths["w_key"]:
        raise ConfigError(
            f"{where}: queries are {widths['w_query']} wide and keys {widths['w_key']}; the product of the two needs "
            "w_query and w_key of one width" + ("" if file.w_query and file.w_key else f" (without weights, {d_model})")
        )
    if file.mask is not None:
        _check_count(file.mask, len(names), "row", f"{where}: mask", "one per token")
        for i, row in enumerate(file.mask):
            _check_count(row, len(names), "number", f"{where}: mask row {i}{names[i]}", "one per token")
    for field in ("roles", "query_roles", "key_roles", "value_roles"):
        if roles := getattr(file, field):
            _check_count(roles, d_model, "text", f"{where}: {field}", "one per number of an input row")
    if unusable := [width for width in file.other_widths if width < 1]:
        raise ConfigError(f"{where}: other_widths has {unusable[0]}, expected widths of 1 or more")


def _width(matrix: list[list[float]], where: str, names: Sequence[str] = ()) -> int:
    """The width of a matrix whose rows are equally wide."""
    for i, row in enumerate(matrix):
        place = f"{where} row {i}{names[i] if names else ''}"
        if not row:
            raise ConfigError(f"{place} is empty")
        _check_count(row, len(matrix[0]), "number", place, "as many as row 0")
    return len(matrix[0])


def _check_count(items: Sequence[object], expected: int, what: str, where: str, why: str, mark: str = ",") -> None:
    if len(items) != expected:
        raise ConfigError(f"{where} has {count(len(items), what)}, expected {expected}{mark} {why}")
