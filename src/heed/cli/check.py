"""`heed check`: read all the data and say what is in it."""

from __future__ import annotations

from heed.cli.settings import settings_from
from heed.run import RUNS

__all__ = ["run_check"]


def run_check(words: list[str], fields: list[str]) -> None:
    """Print counts, lengths, coverage and samples as the model will see them."""
    settings = settings_from(words, fields)
    print(RUNS[settings.task].task_class.prepare(settings).overview())
