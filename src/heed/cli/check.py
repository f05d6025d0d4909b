"""`heed check`: read all the data and say what is in it; or see whether a run folder is whole."""

from __future__ import annotations

from pathlib import Path

from heed import folder
from heed.cli.settings import settings_from
from heed.damage import check_run
from heed.run import RUNS

__all__ = ["run_check"]


def run_check(words: list[str], fields: list[str]) -> None:
    """Print counts, lengths, coverage and samples as the model will see them; of a run folder, the state of each file.

    Raises:
        SystemExit: With 2, a file of the run folder is missing or altered.
    """
    if words[0] == "last" or Path(words[0]).is_dir():
        state = check_run(folder.find(words[0]))
        print(state)
        if not state.whole:
            raise SystemExit(2)
        return
    settings = settings_from(words, fields)
    print(RUNS[settings.task].task_class.prepare(settings).overview())
