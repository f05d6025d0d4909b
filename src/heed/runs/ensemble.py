"""Ensembles: several runs of one task answer together.

At each step the members' probabilities are averaged (the arithmetic mean), in greedy search, beam search and sampling
alike. Members may be of any architecture and size but must have the same tokenizers; tags of the source may differ.
Settings, test data, `--align` and the words for unknown ones are those of the first run. `heed look` opens one run at a
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heed.errors import ConfigError
from heed.runs.loading import load
from heed.tasks.base.capabilities import Combines, capability
from heed.tasks.base.run import Run, check_one_task


def open_together(names: Sequence[str | Path], force: bool = False) -> Run[Any, Any]:
    """The run of a folder, or of several folders the ensemble; arguments and errors as those of `ensemble`."""
    return load(names[0], force=force) if len(names) == 1 else ensemble(names, force=force)


def ensemble(runs: Sequence[Run[Any, Any] | str | Path], *, force: bool = False) -> Run[Any, Any]:
    """Let several runs of one task, of any architectures, answer together: the mean of their probabilities decides.

    Runs of translation share their tokenizers, runs of classification or tagging their labels. Settings are those of
    the first run. `force` uses files that are missing or altered as they are, with a warning.

    Raises:
        ConfigError: No run is given, they are of several tasks, or two differ in a tokenizer or their labels; the
            message names the first difference.
    """
    opened = [run if isinstance(run, Run) else load(run, force=force) for run in runs]
    if not opened:
        raise ConfigError("an ensemble needs at least one run")
    check_one_task(opened, "answer together")
    return capability(opened[0], Combines).ensemble()(opened)
