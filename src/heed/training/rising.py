"""A warning for a growing training loss, in time to start again with another learning rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from heed.config import TrainingConfig

_FIRST = 5
"""Number of first updates whose mean loss is the initial loss."""
_SHARE = 0.1
"""Share of all updates for which the loss must have been above the initial loss without interruption."""
_FEWEST = 10
"""The fewest such updates."""
_ABOVE = 1.05
"""Factor above the initial loss: losses of batches differ, and during a warm-up they hardly change."""
_WINDOW = 10
"""Number of updates (about) over which the loss is averaged."""


class RisingLoss:
    """Listens to the log of a run and warns once if the loss stays above its initial value."""

    def __init__(
        self, config: TrainingConfig, total_steps: Callable[[], int | None], say: Callable[[str], None]
    ) -> None:
        """`total_steps` returns the planned updates, None until decided; `say` prints the warning."""
        self._config, self._total_steps, self._say = config, total_steps, say
        self._first: list[float] = []
        self._mean = 0.0
        self._above = 0
        self._said = False

    def recall(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Read the initial loss from the log of a resumed run."""
        losses = (event.get("loss") for event in events if event["event"] == "update")
        for loss in losses:
            if len(self._first) == _FIRST:
                return
            if isinstance(loss, float):
                self._first.append(loss)

    def __call__(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """Handle one event of the log."""
        if event != "update" or self._said:
            return
        if len(self._first) < _FIRST:
            self._first.append(values["loss"])
            self._mean = sum(self._first) / len(self._first)
            return
        began, total = sum(self._first) / _FIRST, self._total_steps()
        self._mean += (values["loss"] - (self._mean or began)) / _WINDOW
        self._above = self._above + 1 if self._mean > _ABOVE * began > 0 else 0
        if total is not None and self._above >= max(_FEWEST, _SHARE * total):
            self._said = True
            rate, warmup = self._config.learning_rate, self._config.warmup
            self._say(
                f"warning: the training loss has been above its initial value ({began:.4g}) for {self._above:,} "
                f"updates and is now {self._mean:.4g}: the learning rate is probably too high; try "
                f"training.learning_rate={rate / 10:.2g} (a tenth of {rate:g}), or a longer training.warmup (now "
                f"{warmup})"
            )
