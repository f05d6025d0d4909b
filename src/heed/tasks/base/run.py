"""A trained model with everything it needs, as far as all tasks share it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from torch import nn

from heed.config import RunConfig
from heed.errors import ConfigError, suggest
from heed.observe.edits import Edit
from heed.observe.shown import ShownLook
from heed.tasks.base.task import Task

if TYPE_CHECKING:
    from heed.exchange import Exported

__all__ = ["Run"]

T = TypeVar("T", bound=Task)
M = TypeVar("M", bound=nn.Module)


class Run(ABC, Generic[T, M]):
    """A trained model with everything it needs; made by `heed.train` and `heed.load`, one class for each task.

    Attributes:
        task_class: The task's class.
        folder: The run folder.
        config: Its effective configuration.
        task: Turns text into tensors and back.
        model: The torch module, in evaluation mode.
        report: Scores, counts, speed and versions, as in `report.json`.
    """

    task_class: ClassVar[type[Task]]

    def __init__(self, folder: Path, config: RunConfig, task: T, model: M, report: dict[str, Any]) -> None:
        self.folder = folder
        self.config = config
        self.task = task
        self.model: M = model.eval()
        self.report = report

    def __repr__(self) -> str:
        test = self.report.get("scores", {}).get("test", {})
        name = self.config.evaluation.select_by
        score = f", test {name.replace('_', ' ')} {test[name]['value']:.4g}" if name in test else ""
        return f"<heed run {self.folder}: {self.config.model.name} on {self.config.data.name}{score}>"

    @abstractmethod
    def examples(self, split: str) -> Sequence[Any]:
        """The examples of a split of the run's data."""

    @abstractmethod
    def read(self, files: Sequence[str | Path]) -> Sequence[Any]:
        """Examples from files written as the run's own."""

    @abstractmethod
    def score(self, examples: Sequence[Any]) -> dict[str, Any]:
        """Score any examples.

        Returns:
            The report, as plain values.
        """

    @abstractmethod
    def look(
        self,
        text: str,
        *,
        target: str | None = None,
        steps: bool = False,
        edits: Sequence[Edit] = (),
        mechanism: str | None = None,
        layer: int | Literal["all"] = -1,
        head: int | Literal["mean", "all"] = "mean",
    ) -> ShownLook:
        """Look inside at one text; a notebook displays the result.

        Args:
            text: What the model reads.
            target: A given output instead of the model's own, for models that write.
            steps: Whether to show every step.
            edits: Changes of the attention weights (`heed.observe.edits`).
            mechanism: Only this attention; all by default.
            layer: Which layer, from 0, from the end where negative, or "all".
            head: Which head, from 0, the "mean" of all, or "all" one by one.

        Raises:
            ConfigError: The text is blank, an edit does not fit the model, or there is no such attention.
        """

    def export(self, to: str = "ctranslate2", quantization: str = "float32") -> Exported:
        """Write the model for another program, and compare what both write.

        Args:
            to: "ctranslate2".
            quantization: "float32" or "int8".

        Raises:
            ConfigError: The program cannot express the model; the message names it.
        """
        raise ConfigError(
            f"a run of {self.config.task} cannot be exported: CTranslate2 runs models that translate, and of those "
            "'transformer' only"
        )

    def evaluate(self, split: str = "test") -> dict[str, Any]:
        """Score a split of the run's data.

        Args:
            split: "test", "valid", or another split that the data has ("unseen").

        Raises:
            ConfigError: The data has no such split.
        """
        splits = self.task.split_names
        if split not in splits:
            raise ConfigError(f"the data has no split '{split}'{suggest(split, splits)}")
        return self.score(self.examples(split))

    @property
    def title(self) -> str:
        """What a look is headed with."""
        return f"{self.config.model.name} on {self.config.data.name} ({self.folder.name})"


def refuse_blank(text: str) -> None:
    """There is nothing to look at in a blank text.

    Raises:
        ConfigError: The text is blank.
    """
    if not text.strip():
        raise ConfigError("there is nothing to look at in a blank text")
