"""Lessons that come with heed and lessons of one's own: found, read, and refused where their matrices do not fit."""

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
"""Earlier names of `remarks`, whose items could also be mappings with a `text` and values to compare."""


class Trained(NamedTuple):
    """A lesson with networks: its title, what makes its stages, and the seconds of training on one thread (0: none).

    `source` says where it comes from, where that is not said of all alike.
    """

    title: str
    stages: Callable[[], tuple[Stage, ...]]
    seconds: int
    source: str = ""


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
        raise ConfigError(f"unknown lesson '{source}'{hint} (matrices of your own go into a .yaml file)")
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
    """The fields of a file in which errors of a page have earlier forms; their texts become remarks."""
    earlier = [(name, values[name]) for name in _EARLIER if isinstance(values.get(name), list)]
    remarks = [(f"{name}[{i}]", item) for name, items in earlier for i, item in enumerate(items)]
    for name, item in remarks:
        if isinstance(item, dict) and "text" not in item:
            raise ConfigError(f"{where}: {name}: field 'text' is missing; a remark is a text")
    texts = [item["text"] if isinstance(item, dict) else item for _, item in remarks]
    if "from_printed" in values or any(isinstance(item, dict) and len(item) > 1 for _, item in remarks):
        texts.append("Not compared here: the values of 'from_printed' and those inside remarks.")
    kept = {name: value for name, value in values.items() if name not in (*dict(earlier), "from_printed")}
    notes = values.get("notes")
    if texts and isinstance(notes, dict):
        stages = {name.replace("_", "-"): "remarks" for name in _EARLIER}
        kept["notes"] = {stages.get(stage, stage): lines for stage, lines in notes.items()}
    return {**kept, "remarks": [*values.get("remarks", []), *texts]} if texts else kept


def _check_tokens(values: dict[str, Any], where: str) -> None:
    tokens = values.get("tokens")
    for i, token in enumerate(tokens if isinstance(tokens, list) else []):
        if not isinstance(token, str):
            raise ConfigError(
                f"{where}: tokens {i} is {token!r}; YAML reads bare numbers, yes, no, on and off as something else "
                "than text, so put quotes around it"
            )


def _with_input(file: LessonFile, where: str) -> LessonFile:
    """The file with one row of `input` per token, whichever way it was given."""
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
    names = [name_of(i, file.tokens) for i in range(len(file.tokens))]
    if len(rows) != len(names):
        raise ConfigError(f"{where}: input has {count(len(rows), 'row')}, expected {len(names)}, one per token")
    d_model = _width(rows, f"{where}: input", names)
    widths = {"w_query": d_model, "w_key": d_model, "w_value": d_model}
    for field in widths:
        matrix = getattr(file, field)
        if matrix is None:
            continue
        if len(matrix) != d_model:
            raise ConfigError(
                f"{where}: {field} has {count(len(matrix), 'row')}, expected {d_model}: input is "
                f"{len(rows)} x {d_model}, and each number of an input row needs its row of {field}"
            )
        widths[field] = _width(matrix, f"{where}: {field}")
    if widths["w_query"] != widths["w_key"]:
        raise ConfigError(
            f"{where}: queries are {widths['w_query']} wide and keys {widths['w_key']}; the product of the two needs "
            "w_query and w_key of one width" + ("" if file.w_query and file.w_key else f" (without weights, {d_model})")
        )
    if file.mask is not None:
        if len(file.mask) != len(names):
            rows_given = count(len(file.mask), "row")
            raise ConfigError(f"{where}: mask has {rows_given}, expected {len(names)}, one per token")
        for i, row in enumerate(file.mask):
            _check_row(row, len(names), f"{where}: mask row {i} ({names[i]})", "one per token")
    for field in ("roles", "query_roles", "key_roles", "value_roles"):
        if (roles := getattr(file, field)) and len(roles) != d_model:
            texts = count(len(roles), "text")
            raise ConfigError(f"{where}: {field} has {texts}, expected {d_model}, one per number of an input row")
    for width in file.other_widths:
        if width < 1:
            raise ConfigError(f"{where}: other_widths has {width}, expected widths of 1 or more")


def _width(matrix: list[list[float]], where: str, names: Sequence[str] = ()) -> int:
    """The width of a matrix whose rows are equally wide."""
    width = len(matrix[0])
    for i, row in enumerate(matrix):
        name = f" ({names[i]})" if names else ""
        if not row:
            raise ConfigError(f"{where} row {i}{name} is empty")
        _check_row(row, width, f"{where} row {i}{name}", "as many as row 0")
    return width


def _check_row(row: Sequence[object], width: int, where: str, why: str) -> None:
    if len(row) != width:
        raise ConfigError(f"{where} has {count(len(row), 'number')}, expected {width}, {why}")
