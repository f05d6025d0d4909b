"""A loss that grows: said while there is still time to start again with another learning rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from heed.config import TrainingConfig

_FIRST = 5
"""Updates whose mean loss is where training began."""
_SHARE = 0.1
"""Share of the updates for which the loss must have been above that, without a break."""
_FEWEST = 10
"""The fewest such updates."""
_ABOVE = 1.05
"""How much above: losses of batches differ, and during a warm-up they stay where they were."""
_WINDOW = 10
"""Over about how many updates the loss is averaged."""


class RisingLoss:
    """Listens to the log of a run and says, once, that its loss has only grown."""

    def __init__(
        self, config: TrainingConfig, total_steps: Callable[[], int | None], say: Callable[[str], None]
    ) -> None:
        """`total_steps` gives the planned updates, None until they are decided; `say` is told."""
        self._config, self._total_steps, self._say = config, total_steps, say
        self._first: list[float] = []
        self._mean = 0.0
        self._above = 0
        self._said = False

    def recall(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take where training began from the log of a run that goes on."""
        losses = (event.get("loss") for event in events if event["event"] == "update")
        for loss in losses:
            if len(self._first) == _FIRST:
                return
            if isinstance(loss, float):
                self._first.append(loss)

    def __call__(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """See one event of the log."""
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
                f"warning: the training loss has been above where it began ({began:.4g}) for {self._above:,} updates "
                f"and is now {self._mean:.4g}: the learning rate is probably too high; try training.learning_rate="
                f"{rate / 10:.2g} (a tenth of {rate:g}), or a longer training.warmup (now {warmup})"
            )
