"""Training of the small networks that some lessons show."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from heed.runs.train import train

_SETTINGS = {
    "training.validate_every": 10_000,  # at the end only
    "training.threads": 1,
    "training.device": "cpu",
    "evaluation.bootstrap": 1,
}


def train_small(task: str, steps: int, settings: dict[str, Any], **data: Any) -> Any:
    """Train a network in a temporary folder; `data` is passed to `heed.train` (a name, files or examples)."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        return train(task, steps=steps, out=out, settings={**_SETTINGS, **settings}, quiet=True, **data)
