"""A parent of a run of classification or tagging: tensors whole, vectors of tokens, characters and labels by name."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from heed import folder as folders
from heed.config import RunConfig
from heed.errors import ConfigError
from heed.tasks.base.parent import Taken, model_of, same_tokens, tokenizer_of, unshared
from heed.training.checkpoint import load_weights

__all__ = ["LabelledParent", "axes_of"]


@dataclass(frozen=True)
class LabelledParent:
    """A finished run to start from.

    Attributes:
        folder: Its folder.
        task: Its task, as restored from the folder.
    """

    folder: Path
    task: Any

    def with_model(self, config: RunConfig) -> RunConfig:
        """A configuration with the parent's model, where it says nothing else."""
        theirs = self.task.config.model
        kept = {key: value for key, value in theirs.model_extra.items() if key not in self.task.follows_from_data()}
        theirs = type(theirs).model_validate({"name": theirs.name, "size": theirs.size, **kept})
        return config.model_copy(update={"model": model_of(self.folder, theirs, config.model)})

    def with_tokenizer(self, config: RunConfig) -> RunConfig:
        """A configuration with the parent's tokenizer.

        Raises:
            ConfigError: A field contradicts it.
        """
        tokenizer = tokenizer_of(self.folder, self.task.config.tokenizer, config.tokenizer)
        return config.model_copy(update={"tokenizer": tokenizer})

    def give(self, model: Any, task: Any) -> Taken:
        """Copy into a new model what fits.

        Tensors of name and shape are taken whole; of those that run over the vocabulary, over characters or over
        labels, the vectors of what both runs have, by its text.

        Args:
            model: The new model; what does not fit stays as it was drawn.
            task: The new run's.

        Raises:
            ConfigError: No matrix fits.
            RunError: The parent's weights are damaged.
        """
        with torch.random.fork_rng(devices=[]):  # the new run draws the same numbers, with a parent or without
            parent = self.task.build_model()
            load_weights(parent, self.folder / folders.WEIGHTS)
        given, axes = parent.state_dict(), axes_of(task)
        same = {
            "tokens": same_tokens(task.tokenizer, self.task.tokenizer),
            "labels": _same_names(task.labels, self.task.labels),
        }
        own, theirs = (getattr(one, "characters", None) for one in (task, self.task))
        if own is not None and theirs is not None:
            same["characters"] = same_tokens(own, theirs)
        whole, tokens, new = [], {}, []
        for name, tensor in unshared(model).items():
            kinds = axes.get(name, {})
            if name not in given or not _fit(tensor, given[name], kinds) or not same.keys() >= set(kinds.values()):
                new.append(name)
            elif name.startswith("output.") and not kinds and task.labels != self.task.labels:
                new.append(name)  # one output for two classes, which are others
            elif kinds:
                places = [same[kinds[axis]] if axis in kinds else None for axis in range(tensor.dim())]
                tensor[_grid(tensor, [p and p[0] for p in places])] = given[name][
                    _grid(given[name], [p and p[1] for p in places])
                ]
                first = min(kinds)
                tokens[name] = (len(same[kinds[first]][0]), tensor.shape[first])
            else:
                tensor.copy_(given[name])
                whole.append(name)
        if not any(given[name].dim() > 1 for name in (*whole, *tokens)):
            raise ConfigError(
                f"model.from: no matrix of {self.folder} ({self.task.config.model.name}) fits the new model "
                f"({task.config.model.name})"
            )
        return Taken(self.folder, tuple(whole), tokens, tuple(new))


def axes_of(task: Any) -> dict[str, dict[int, str]]:
    """Which axes of which tensors of a task's model run over "tokens", "labels" or "characters".

    They are those that grow when there is one more of these.
    """
    shapes = _shapes(task)
    axes: dict[str, dict[int, str]] = {}
    for kind in ("tokens", "labels", "characters"):
        grown = copy.copy(task)
        if kind == "tokens":
            fields = {**task.config.model.model_extra, "vocab_size": task.tokenizer.vocab_size + 1}
            section = type(task.config.model).model_validate(
                {"name": task.config.model.name, "size": task.config.model.size, **fields}
            )
            grown.config = task.config.model_copy(update={"model": section})
        elif kind == "labels":
            grown.labels = [*task.labels, "one more"]
        elif getattr(task, "characters", None) is not None:
            grown.characters = SimpleNamespace(vocab_size=task.characters.vocab_size + 1)
        for name, shape in _shapes(grown).items():
            for axis, (before, now) in enumerate(zip(shapes[name], shape, strict=True)):
                if before != now:
                    axes.setdefault(name, {})[axis] = kind
    return axes


def _shapes(task: Any) -> dict[str, torch.Size]:
    with torch.device("meta"):  # shapes without numbers
        return {name: tensor.shape for name, tensor in task.build_model().state_dict().items()}


def _fit(own: Tensor, given: Tensor, kinds: dict[int, str]) -> bool:
    """Whether two tensors have the same shape but for axes that are mapped."""
    if own.dim() != given.dim():
        return False
    return all(axis in kinds or a == b for axis, (a, b) in enumerate(zip(own.shape, given.shape, strict=True)))


def _grid(tensor: Tensor, places: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """Indices of the chosen places of each axis, all of it where None."""
    chosen = [torch.arange(tensor.shape[axis]) if p is None else p for axis, p in enumerate(places)]
    return torch.meshgrid(*chosen, indexing="ij")


def _same_names(own: Sequence[str], parent: Sequence[str]) -> tuple[Tensor, Tensor]:
    pairs = [(i, parent.index(name)) for i, name in enumerate(own) if name in parent]
    own_ids, parent_ids = torch.tensor(pairs, dtype=torch.long).view(-1, 2).unbind(1)
    return own_ids, parent_ids
