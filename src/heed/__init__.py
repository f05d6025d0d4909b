"""heed: train, compare, run and look inside attention models on your own data.

run = heed.train("translation", data="dates", minutes=2)
run.predict("9 de mayo de 1998").text
run.look("9 de mayo de 1998")
with heed.trace(run.model) as seen: ...
run.export("ctranslate2"); run.predict("9 de mayo de 1998", engine="ctranslate2")
heed.compare([run, "runs/other"]).to_latex()
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heed.attention import attend
    from heed.comparison import compare
    from heed.errors import HeedError
    from heed.lessons import run_lesson
    from heed.runs.checkpoints import export, import_model
    from heed.runs.loading import ensemble, load
    from heed.runs.pack import pack
    from heed.runs.resume import check_run
    from heed.runs.train import train
    from heed.tasks.run import Run
    from heed.watch.edits import Block, Force, Keep, Permute, Scale, SetWeight, Uniform, ZeroHead
    from heed.watch.trace import edit, trace

__all__ = [
    "Block", "Force", "HeedError", "Keep", "Permute", "Run", "Scale", "SetWeight", "Uniform", "ZeroHead", "attend",
    "check_run", "compare", "edit", "ensemble", "export", "import_model", "load", "pack",
    "run_lesson", "trace", "train",
]  # fmt: skip

# torch takes a second or more to import, so a name is fetched when it is first used.
_HOMES = {
    "HeedError": "heed.errors",
    "Run": "heed.tasks.run",
    "attend": "heed.attention",
    "check_run": "heed.runs.resume",
    "compare": "heed.comparison",
    "ensemble": "heed.runs.loading",
    "export": "heed.runs.checkpoints",
    "import_model": "heed.runs.checkpoints",
    "load": "heed.runs.loading",
    "pack": "heed.runs.pack",
    "run_lesson": "heed.lessons",
    "train": "heed.runs.train",
    **dict.fromkeys(("edit", "trace"), "heed.watch.trace"),
    **dict.fromkeys(
        ("Block", "Force", "Keep", "Permute", "Scale", "SetWeight", "Uniform", "ZeroHead"), "heed.watch.edits"
    ),
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if not name.startswith("_") and importlib.util.find_spec(f"heed.{name}") is not None:
        return importlib.import_module(f"heed.{name}")  # `heed.lessons.run_lesson` without a further import
    raise AttributeError(f"module 'heed' has no attribute '{name}'{_near(name)}")


def _near(name: str) -> str:
    from heed.errors import nearest

    return nearest(name, __all__)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
