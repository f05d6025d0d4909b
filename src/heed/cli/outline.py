"""Constants of modules and classes, read from their source: importing models or lessons takes seconds, for torch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def outline(path: Path) -> dict[str, dict[str, Any]]:
    """The constants of each class of a Python file, with the names of its `bases`, and of the file itself, as ""."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = {"": dict(_constants(tree.body))}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
            found[node.name] = {"bases": bases, **dict(_constants(node.body))}
    return found


def _constants(body: Iterable[ast.stmt]) -> Iterator[tuple[str, Any]]:
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, node.value.value


def with_inherited(name: str, classes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The constants of a class, with those of its bases among `classes`."""
    own = classes.get(name, {})
    inherited = [with_inherited(base, classes) for base in reversed(own.get("bases", []))]
    return {key: value for constants in (*inherited, own) for key, value in constants.items()}
