"""Ensembles: several runs of one task predict together.

At each step the members' probabilities are averaged (the arithmetic mean), in greedy search, beam search and sampling
alike. Members may be of any architecture and size but must have the same tokenizers; tags of the source may differ.
Settings, test data, `--align` and the replacements of unknown words are those of the first run. `heed look` opens one
run at a time.
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
    """Open one run folder, or several as an ensemble; arguments and errors as in `ensemble`."""
    return load(names[0], force=force) if len(names) == 1 else ensemble(names, force=force)


def ensemble(runs: Sequence[Run[Any, Any] | str | Path], *, force: bool = False) -> Run[Any, Any]:
    """Combine runs of one task, of any architectures, by the mean of their probabilities.

    Runs of translation share their tokenizers, runs of classification or tagging their labels. Settings are those of
    the first run. `force` opens runs despite missing or altered files, with a warning.

    Raises:
        ConfigError: No run is given, the runs are of different tasks, or two differ in a tokenizer or their labels;
            the message names the first difference.
    """
    opened = [run if isinstance(run, Run) else load(run, force=force) for run in runs]
    if not opened:
        raise ConfigError("an ensemble needs at least one run")
    check_one_task(opened, "answer together")
    return capability(opened[0], Combines).ensemble()(opened)
