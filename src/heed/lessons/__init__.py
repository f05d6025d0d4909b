"""Lessons: worked examples of attention with every number, on the lecture notes' examples or on your own matrices."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heed.lessons.lesson import Lesson, run_lesson
    from heed.lessons.parts import Check, Moment, Stage, Table

__all__ = ["Check", "Lesson", "Moment", "Stage", "Table", "list_lessons", "run_lesson"]


def __getattr__(name: str) -> Any:  # a lesson imports torch, the list of them does not
    if name not in __all__:
        raise AttributeError(f"module 'heed.lessons' has no attribute '{name}'")
    return getattr(importlib.import_module(f"heed.lessons.{'lesson' if 'esson' in name else 'parts'}"), name)


def list_lessons() -> dict[str, str]:
    """Name and title of every lesson that comes with heed."""
    from heed.config import read_config
    from heed.outline import outline

    folder = Path(__file__).parent
    worked = {name: str(read_config(path)["title"]) for name, path in worked_lessons().items()}
    titles = {path.stem: outline(path)[""].get("TITLE") for path in sorted(folder.glob("*.py"))}
    return worked | {name: title for name, title in titles.items() if title is not None}


def worked_lessons() -> dict[str, Path]:
    """The YAML files that come with heed, by the names of their lessons."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml")) if path.stem != "texts"}
