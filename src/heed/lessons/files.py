"""The lessons that come with heed, and lesson files of users."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from heed.config import check_section, read_config
from heed.errors import ConfigError, suggest
from heed.lessons import cat, hindi, it, logan, mess, milk, order, patches, pizza, politics, teddy
from heed.lessons.parts import Stage
from heed.lessons.schema import LessonFile


class Trained(NamedTuple):
    """A lesson written in Python: networks that it trains, or whose weights are chosen or drawn."""

    title: str
    stages: Callable[[], tuple[Stage, ...]]
    seconds: int  # training time on one thread; 0: no training
    source: str = "An example from the lecture notes; all numbers come from networks trained just now."


TRAINED: dict[str, Trained] = {
    "cat": Trained(cat.TITLE, cat.cat_stages, 35),
    "hindi": Trained(hindi.TITLE, hindi.hindi_stages, 0, hindi.SOURCE),
    "it": Trained(it.TITLE, it.it_stages, 0, it.SOURCE),
    "logan": Trained(logan.TITLE, logan.logan_stages, 0, logan.SOURCE),
    "mess": Trained(mess.TITLE, mess.mess_stages, 30),
    "milk": Trained(milk.TITLE, milk.milk_stages, 0, milk.SOURCE),
    "order": Trained(order.TITLE, order.order_stages, 10),
    "patches": Trained(patches.TITLE, patches.patches_stages, 0, patches.SOURCE),
    "pizza": Trained(pizza.TITLE, pizza.pizza_stages, 10),
    "politics": Trained(politics.TITLE, politics.politics_stages, 10),
    "teddy": Trained(teddy.TITLE, teddy.teddy_stages, 10),
}
"""Lessons written in Python, by name."""


def list_lessons() -> dict[str, str]:
    """Name and title of every lesson that comes with heed."""
    worked = {name: str(read_config(path)["title"]) for name, path in _paths().items()}
    return worked | {name: title for name, (title, *_) in TRAINED.items()}


def read_lesson(source: str | Path) -> tuple[str, LessonFile]:
    """Read a lesson by name, or from a YAML file.

    Returns:
        The lesson's name in messages, and its fields.

    Raises:
        ConfigError: No such lesson or file, an unknown field, or matrices that do not fit together; the message names
            file, field, row and the width that would be right.
    """
    paths = _paths()
    if str(source) not in paths and Path(source).suffix not in {".yaml", ".yml"} and not Path(source).is_file():
        hint = suggest(str(source), [*paths, *TRAINED])
        raise ConfigError(f"unknown lesson '{source}'{hint} (for a lesson on your own matrices, give a .yaml file)")
    return str(source), check_section(LessonFile, read_config(paths.get(str(source), source)), str(source))


def _paths() -> dict[str, Path]:
    """The YAML files that come with heed, by the names of their lessons."""
    folder = Path(str(files("heed.lessons")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
