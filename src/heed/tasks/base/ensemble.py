"""Check of the labels of an ensemble's runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heed.errors import ConfigError


def check_labels(runs: Sequence[Any]) -> None:
    """Refuse an ensemble of runs with different labels, or of which only some give a text several labels.

    Raises:
        ConfigError: The message names the first difference.
    """
    first = runs[0]
    for other in runs[1:]:
        mine, theirs = first.task.labels, other.task.labels
        start = f"'{first.folder}' and '{other.folder}' cannot form an ensemble"
        if mine != theirs:
            only = [label for label in (*mine, *theirs) if (label in mine) != (label in theirs)]
            how = f"their labels differ, only one has '{only[0]}'" if only else "their labels are in different orders"
            raise ConfigError(f"{start}: {how}")
        several = [getattr(run.config.data, "several_labels", False) for run in (first, other)]
        if several[0] != several[1]:
            raise ConfigError(f"{start}: data.several_labels is {several[0]} in one and {several[1]} in the other")
