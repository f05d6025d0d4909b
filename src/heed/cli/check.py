"""`heed check`: read all the data and report on it, or check the files of a run folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from heed.cli.settings import settings_from
from heed.cli.terminal import show, write_output
from heed.config import OwnData
from heed.errors import ConfigError, DataError, HeedError
from heed.runs.check import check_run
from heed.tasks import task_class
from heed.tasks.base.capabilities import DrawsSamples


def run_check(words: list[str], fields: list[str], out: Path | None = None) -> None:
    """Print a report on the data and its problems; for a run folder, the state of each file.

    `out` is a file for a page of samples, for tasks that have one.

    Raises:
        ConfigError: The task has no such page.
        SystemExit: With status 2: a file of the run folder is missing, altered or unusable.
        DataError: The data cannot be trained on. If the reason is bad lines, a report on the data without them is
            printed first, which lists all of them and not only the first.
    """
    if words[0] == "last" or Path(words[0]).is_dir():
        if out is not None:
            raise ConfigError(f"--out writes a page of data samples, but '{words[0]}' is a run folder; omit --out")
        state = check_run(words[0])
        show(state)
        if not state.whole:
            raise SystemExit(2)
        return
    settings = settings_from(words, fields)
    kind, data = task_class(settings.task), settings.data
    if out is not None and not issubclass(kind, DrawsSamples):
        raise ConfigError(f"--out is not available for {settings.task}: it writes pages of pictures")
    try:
        task = kind.prepare(settings)
        show(task.overview())
        if out is not None and isinstance(task, DrawsSamples):
            write_output(task.samples_page(), out)
    except DataError:
        if not isinstance(data, OwnData) or data.bad_lines == "skip":
            raise
        skipping = settings.model_copy(update={"data": data.model_copy(update={"bad_lines": "skip"})})
        with suppress(HeedError):
            overview = kind.prepare(skipping).overview()
            show(f"training would stop at the first bad line; with data.bad_lines=skip the data is:\n{overview}")
        raise
