"""`training.log: tensorboard`: the events of `metrics.jsonl` for TensorBoard. Its failures never stop a run.

It writes RUN/tensorboard; `metrics.jsonl` is written in any case.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heed.errors import ConfigError

FOLDER = "tensorboard"
"""Folder of a run that TensorBoard reads."""
_NAMES = {"waited": "seconds waited for data", "tokens": "targets", "seconds": "seconds per update"}


def check_log(log: str | None) -> None:
    """Check that the package that `training.log` needs is installed.

    Raises:
        ConfigError: It is not; the message has the command that installs it.
    """
    if log == "tensorboard" and importlib.util.find_spec("tensorboard") is None:
        raise ConfigError(
            "training.log is 'tensorboard', which needs the package tensorboard; install it: "
            "pip install 'heed-attention[tensorboard]', or remove the field (metrics.jsonl is always written)"
        )


def _writer_class() -> Any:
    with warnings.catch_warnings():  # of the packages that it imports in turn
        warnings.simplefilter("ignore")
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter


class TensorBoardLog:
    """Writes the events of training for `tensorboard --logdir RUNS`."""

    def __init__(self, run: Path, say: Callable[[str], None]) -> None:
        """Prepare; files are written from the first event on, whose step is where a resumed run continues."""
        self._path = run / FOLDER
        self._say = say
        self._writer: Any = None
        self._broken = False

    def write(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """Write the values of one event, each under a name such as "update/loss"."""
        if self._broken:
            return
        try:
            if self._writer is None:
                self._writer = _writer_class()(str(self._path), purge_step=step)
            for name, value in values.items():
                self._writer.add_scalar(f"{event}/{_NAMES.get(name, name)}", value, step)
        except OSError as error:
            self._broken = True
            self._say(f"warning: {self._path} cannot be written ({error.strerror or error}); continuing without it")

    def close(self) -> None:
        """Write buffered events."""
        if self._writer is not None and not self._broken:
            self._writer.close()


@contextmanager
def logged(log: str | None, trainer: Any, run: Path) -> Iterator[None]:
    """Context manager that also writes the events of a trainer to the log named by `training.log`."""
    if log is None:
        yield
        return
    events = TensorBoardLog(run, trainer.reporter.say)
    trainer.listen(events.write)
    try:
        yield
    finally:
        events.close()
