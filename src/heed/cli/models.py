"""`heed models`."""

from __future__ import annotations

import inspect

from heed.attention import scores
from heed.registry import list_models


def list_models_text() -> str:
    """Every model with its fields, defaults and sizes."""
    blocks = []
    for name, body in list_models():
        summary = (inspect.getmodule(body).__doc__ or "").strip().splitlines()[0]
        lines = [f"{name} ({body.interface.replace('_', ' ')}): {summary}"]
        for field, info in body.config_class.model_fields.items():
            default = "from the data" if info.is_required() else repr(info.default)
            lines.append(f"  {field:<20} {default:<14} {info.description}")
        for size, fields in body.config_class.sizes.items():
            changes = ", ".join(f"{key} {value}" for key, value in fields.items()) or "the defaults, the paper's"
            lines.append(f"  size {size:<15} {changes}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def list_scores_text() -> str:
    """The table of attention scores: name, formula, source."""
    table = [line for line in (scores.__doc__ or "").splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return "\n".join(f"{name:<12} {formula:<34} {source}" for name, formula, source in [rows[0], *rows[2:]])
