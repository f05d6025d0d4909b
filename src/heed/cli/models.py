"""`heed models`."""

from __future__ import annotations

import textwrap
from typing import Any

from heed.attention import scores
from heed.cli.terminal import width
from heed.errors import ConfigError, suggest
from heed.models.base import Body, ModelConfig, TextEncoder
from heed.registry import bodies_of, list_models, model_names
from heed.tasks import config_class, spec_of, task_names

_NAME = 16
"""Columns of the names of models and fields."""


def models_table() -> str:
    """All models by task: name, description and paper."""
    blocks = []
    for task in task_names():
        default = config_class(task).model_fields["model"].default.name
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
    table = [line for line in (scores.__doc__ or "").splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return "\n".join(f"{name:<12} {formula:<34} {source}" for name, formula, source in [rows[0], *rows[2:]])


def _fits(task: str, body: type[Body]) -> bool:
    """True if a task can use a model."""
    spec = spec_of(task)
    if body.interface not in spec.interfaces or (spec.per_token and issubclass(body, TextEncoder)):
        return False
    return not spec.framed or bool(getattr(body, "framed", False))


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
