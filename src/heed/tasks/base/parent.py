"""A parent: another run that a new one starts from, with its weights, its tokenizers, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from heed import folder as folders
from heed.config import ModelSection, RunConfig, TokenizerConfig, read_config
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, RunError
from heed.models.base import Body, ModelConfig
from heed.registry import body_class, model_config
from heed.tasks import check_config
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.tokenizers import Tokenizers, load_tokenizers
from heed.training.checkpoint import load_weights

__all__ = [
    "Parent",
    "Started",
    "Taken",
    "model_of",
    "open_parent",
    "same_tokens",
    "tokenizer_of",
    "unshared",
    "vocabulary_axes",
    "with_parents",
]

M = TypeVar("M", bound=ModelSection)


class Started(Protocol):
    """Something that a new model begins with instead of what was drawn; its text is for people."""

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        ...


@dataclass(frozen=True)
class Taken:
    """What a model took over from its parent.

    Attributes:
        folder: The parent.
        whole: Tensors taken as they are.
        tokens: Tensors with a vector per token: how many tokens were found in the parent, and of how many.
        new: Tensors of which nothing was taken.
    """

    folder: Path
    whole: tuple[str, ...]
    tokens: Mapping[str, tuple[int, int]]
    new: tuple[str, ...]

    def __str__(self) -> str:
        found = "".join(f"; {name}: {known:,} of {total:,} tokens" for name, (known, total) in self.tokens.items())
        return f"from {self.folder}: {len(self.whole)} tensors whole{found}; new: {', '.join(self.new) or 'none'}"

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        tokens = {name: {"taken": known, "of": total} for name, (known, total) in self.tokens.items()}
        return {"run": str(self.folder), "whole": list(self.whole), "tokens": tokens, "new": list(self.new)}


@dataclass(frozen=True)
class Parent:
    """A finished run to start from."""

    folder: Path
    config: TranslationConfig
    tokenizers: Tokenizers

    @classmethod
    def open(cls, run: str, field: str) -> Parent:
        """Read all but the weights of a run.

        Args:
            run: Its folder, or "last".
            field: What names it, for messages.

        Raises:
            ConfigError: There is no such run, or it is not finished.
        """
        path, config = open_parent(run, field, "translation")
        assert isinstance(config, TranslationConfig)
        try:
            return cls(path, config, load_tokenizers(path, config.tokenizer))
        except RunError as error:
            raise ConfigError(f"{field}: {error}") from None

    def give(self, model: Body, tokenizers: Tokenizers) -> Taken:
        """Copy into a new model what fits: tensors by name and shape, vectors of tokens by the text of the token.

        Args:
            model: The new model; what does not fit stays as it was drawn.
            tokenizers: Those of its run.

        Raises:
            ConfigError: Nothing fits, or biases only.
            RunError: The parent's weights are damaged.

        Source: Aji et al. 2020 (arXiv:2005.01196) match embeddings by token.
        """
        section = self.config.model
        body = body_class(section.name, (model.interface,))
        with torch.random.fork_rng(devices=[]):  # the new run draws the same numbers, with a parent or without
            parent = body(model_config(body, section.size, dict(section.model_extra or {})))
            load_weights(parent, self.folder / folders.WEIGHTS)
        given = parent.state_dict()
        axes = vocabulary_axes(type(model), model.config)
        rows = [same_tokens(own, theirs) for own, theirs in zip(tokenizers, self.tokenizers, strict=True)]
        whole, tokens, new = [], {}, []
        for name, tensor in unshared(model).items():
            axis, side = axes.get(name, (None, "source"))
            if axis is not None and name in given and _fit(tensor, given[name], axis):
                own_ids, parent_ids = rows[("source", "target").index(side)]
                tensor.index_copy_(axis, own_ids, given[name].index_select(axis, parent_ids))
                tokens[name] = (len(own_ids), tensor.shape[axis])
            elif axis is None and name in given and given[name].shape == tensor.shape:
                tensor.copy_(given[name])
                whole.append(name)
            else:
                new.append(name)
        if not any(given[name].dim() > 1 for name in (*whole, *tokens)):
            raise ConfigError(
                f"model.from: no matrix of {self.folder} ({section.name}) fits the new model ({type(model).__name__})"
            )
        return Taken(self.folder, tuple(whole), tokens, tuple(new))


def open_parent(run: str, field: str, task: str) -> tuple[Path, RunConfig]:
    """The folder and the configuration of a finished run of a task.

    Args:
        run: Its folder, or "last".
        field: What names it, for messages.
        task: What it must be a run of.

    Raises:
        ConfigError: There is no such run, it is not finished, or of another task.
    """
    try:
        path = folders.find(run).absolute()
        folders.check_format(path)
        config = check_config(read_config(path / folders.CONFIG), str(path / folders.CONFIG))
    except RunError as error:
        raise ConfigError(f"{field}: {error}") from None
    if config.task != task:
        raise ConfigError(f"{field}: {path} is a run of {config.task}, not of {task}")
    if not (path / folders.WEIGHTS).is_file():
        raise ConfigError(f"{field}: {path} holds no {folders.WEIGHTS}: its training has not finished")
    return path, config


def with_parents(config: TranslationConfig) -> tuple[TranslationConfig, Parent | None, Parent | None]:
    """Open the runs that `model.from` and `tokenizer.from` name.

    Returns:
        The configuration with what follows from them: the model's name, size and fields, unless others are given, and
        all about tokenizers but subword sampling; the parent of the weights; the parent of the tokenizers.

    Raises:
        ConfigError: A run cannot be opened, or a field of the tokenizer contradicts it.
    """
    weights = tokens = None
    if config.model.from_ is not None:
        weights = Parent.open(config.model.from_, "model.from")
        config = config.model_copy(update={"model": model_of(weights.folder, weights.config.model, config.model)})
    if config.tokenizer.from_ is not None:
        tokens = Parent.open(config.tokenizer.from_, "tokenizer.from")
        tokenizer = tokenizer_of(tokens.folder, tokens.config.tokenizer, config.tokenizer)
        config = config.model_copy(update={"tokenizer": tokenizer})
    return config, weights, tokens


def model_of(folder: Path, theirs: M, section: M) -> M:
    """The `model` section of a run that starts from another: the parent's, unless the user gave another.

    Args:
        folder: The parent's.
        theirs: The parent's section.
        section: What the user wrote.
    """
    name = section.name if "name" in section.model_fields_set else theirs.name
    own = section.model_dump(by_alias=True, include=section.model_fields_set)
    values = {**own, "name": name, "size": section.size, "from": str(folder)}
    if name == theirs.name and "size" not in section.model_fields_set:
        fields = {key: value for key, value in (theirs.model_extra or {}).items() if not key.endswith("vocab_size")}
        values = {**fields, **values, "size": theirs.size}
    return type(section).model_validate(values)


def tokenizer_of(folder: Path, theirs: TokenizerConfig, section: TokenizerConfig) -> TokenizerConfig:
    """The `tokenizer` section of a run that takes another's tokenizers.

    Raises:
        ConfigError: The user gave a field that contradicts them.
    """
    for name in section.model_fields_set - {"from_", "sampling"}:
        value = getattr(section, name)
        if value not in (None, "auto", getattr(theirs, name)):
            raise ConfigError(
                f"tokenizer.{name} is {value!r}, but tokenizer.from takes the tokenizers of {folder} as they "
                f"are, with {getattr(theirs, name)!r}; leave one of the two fields out"
            )
    return theirs.model_copy(update={"from_": str(folder), "sampling": section.sampling})


def vocabulary_axes(body: type[Body], config: ModelConfig) -> dict[str, tuple[int, str]]:
    """Which axis of which tensor runs over a vocabulary: the one that grows when the vocabulary does.

    Returns:
        Tensor -> axis, and whether it is the "source" or the "target" vocabulary; "target" where both are one.
    """
    sizes = {side: {f"{side}_vocab_size": getattr(config, f"{side}_vocab_size") + 1} for side in ("source", "target")}
    shapes = _shapes(body, config)
    axes = {}
    for side in sizes:
        try:
            grown = _shapes(body, config.model_copy(update=sizes[side]))
        except ConfigError:  # both sides share a table, so that one does not grow without the other
            grown = _shapes(body, config.model_copy(update=sizes["source"] | sizes["target"]))
        for name, shape in shapes.items():
            different = [axis for axis, (a, b) in enumerate(zip(shape, grown[name], strict=True)) if a != b]
            if different:
                axes[name] = (different[0], side)
    return axes


def _shapes(body: type[Body], config: ModelConfig) -> dict[str, torch.Size]:
    with torch.device("meta"):  # shapes without numbers
        return {name: tensor.shape for name, tensor in body(config).state_dict().items()}


def _fit(own: Tensor, given: Tensor, axis: int) -> bool:
    """Whether two tensors have the same shape but for one axis."""
    shapes = [[*tensor.shape[:axis], *tensor.shape[axis + 1 :]] for tensor in (own, given)]
    return own.dim() == given.dim() and shapes[0] == shapes[1]


def same_tokens(own: TextTokenizer, parent: TextTokenizer) -> tuple[Tensor, Tensor]:
    """Ids of the tokens that both vocabularies have, in one and in the other."""
    known = {parent.token(i): i for i in range(parent.vocab_size)}
    pairs = [(i, known[own.token(i)]) for i in range(own.vocab_size) if own.token(i) in known]
    own_ids, parent_ids = torch.tensor(pairs, dtype=torch.long).view(-1, 2).unbind(1)
    return own_ids, parent_ids


def unshared(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model to be written to, tied ones once, under their first name."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        tensors.setdefault(tensor.data_ptr(), (name, tensor))
    return dict(tensors.values())
