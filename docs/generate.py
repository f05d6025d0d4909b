"""Writes docs/configuration.md from the classes of the configuration, tasks and models: `python docs/generate.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, Tag

from heed import config
from heed.registry import list_models
from heed.tasks import config_class, task_names

SHARED: list[tuple[str, type[BaseModel]]] = [
    ("top level", config.RunConfig),
    ("tokenizer", config.TokenizerConfig),
    ("model", config.ModelSection),
    ("training", config.TrainingConfig),
]


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """Every section with its heading: the shared ones, then what each task has of its own."""
    yield from SHARED
    shown = {kind for _, kind in SHARED}
    for task in task_names():
        for name, kind in sections_of(task):
            if kind not in shown:
                shown.add(kind)
                yield f"{task}: {name}", kind


def sections_of(task: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """The sections of a task's configuration with their names; then its head, whose fields stand in `model`."""
    owner = config_class(task)
    for name, field in owner.model_fields.items():
        for tag, kind in members(field.annotation):
            yield f"{name}{f', {tag}' if tag else ''}", kind
            for inner, nested in kind.model_fields.items():
                for _, part in members(nested.annotation):
                    yield f"{name}.{inner}", part
    for kind in vars(sys.modules[owner.__module__]).values():
        if isinstance(kind, type) and kind.__module__ == owner.__module__ and kind.__name__.endswith("Head"):
            yield "model, beside the fields of the model named", kind


def members(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """The sections that a field may be, with the tags of a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "", annotation
    for member in get_args(annotation):
        tag = next((mark.tag for mark in get_args(member) if isinstance(mark, Tag)), "")
        for _, kind in members(get_args(member)[0] if tag else member):
            yield tag, kind


def page() -> str:
    """The whole page."""
    parts = [
        "# Configuration",
        "",
        "Written by `docs/generate.py` from the code: every field with its meaning and default. Any field can be set",
        "in a YAML file or on the command line as `section.key=value`. A field that is not listed is refused.",
    ]
    for name, section in sections():
        parts += ["", f"## {name}", "", *table(section)]
    for name, body in list_models():
        kind = body.interface.replace("_", " ")
        parts += ["", f"## model: {name} ({kind})", "", *table(body.config_class), ""]
        for size, fields in body.config_class.sizes.items():
            changes = ", ".join(f"{key} {value}" for key, value in fields.items()) or "the defaults above"
            parts.append(f"- size `{size}`: {changes}")
    return "\n".join(parts) + "\n"


def table(section: type[BaseModel]) -> list[str]:
    """One row a field; of a section that extends a shared one, the fields that differ."""
    rows = ["| field | default | meaning |", "|---|---|---|"]
    shared = (config.TrainingConfig, config.ModelSection)
    above = next((kind.model_fields for kind in shared if issubclass(section, kind) and section is not kind), {})
    for name, field in section.model_fields.items():
        if name in above and field.default == above[name].default:
            continue
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        rows.append(f"| `{field.alias or name}` | {default(field)} | {meaning} |")
    return rows


def default(field: Any) -> str:
    """How a default is written in YAML."""
    if field.is_required():
        return "required" if not (field.description or "").endswith("set from the data.") else "from the data"
    value = field.default
    if isinstance(value, BaseModel):
        return "the section's own"
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    (Path(__file__).parent / "configuration.md").write_text(page(), encoding="utf-8")
