"""Runs that start from a parent run of the same or another task: tensors match by name, their rows by the rows' names.

Tokens that the parent lacks start as in a new model. With another size or model, the fields are those of that model,
and only tensors that fit are copied; it is an error if no matrix fits. With the parent's own tokenizers, every vector
is kept, and the runs can form an ensemble. From a translator, `rnn` takes embeddings and encoder of `bahdanau`,
`luong` and `seq2seq`, with their widths and cell unless given; `encoder` of the same width takes only the embeddings
of `transformer`. RUN is a run folder or a packed run, relative to the current folder, or `last`. A pretrained body,
such as BERT's, is fine-tuned: with smaller learning rates and a warm-up, which are written into the configuration
unless given. Here is also how the fields of the `model` section become those of a body and of a head, with or without a
parent.

To find which axis of which tensor runs over tokens, labels or columns, the model is built (shapes only) with one more
row; models declare nothing for this.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heed import folder as folders
from heed.config import ModelSection, RunConfig
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, RunError, suggest
from heed.models.base import Interface, PairDecoder, TokenEncoder
from heed.registry import bodies_of, body_class, model_and_head
from heed.tasks import check_config, task_class
from heed.training import weights

END_TOKEN = "end_token"
"""The field of models that find segments by the tokenizer's end token."""
_MOST = 12
"""Most names that are listed one by one."""


class Started(Protocol):
    """Initial values that replace random weights of a new model; `str` describes them for people."""

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""


@dataclass(frozen=True)
class Taken:
    """The tensors that a model copied from its parent."""

    folder: Path  # of the parent
    whole: tuple[str, ...]  # tensors copied as they are
    tokens: Mapping[str, tuple[int, int]]  # tensors with a row per token, label or column: rows copied, rows in all
    new: tuple[str, ...]  # tensors left at their random values
    mapped: Mapping[str, str] = field(default_factory=dict)  # copied tensors with another name in the parent
    left: tuple[str, ...] = ()  # tensors of the parent that were not copied

    def __str__(self) -> str:
        found = "".join(f"; {name}: {known:,} of {total:,} tokens" for name, (known, total) in self.tokens.items())
        mapped = "".join(f"; {name} comes from {theirs} of that run" for name, theirs in self.mapped.items())
        left = f"; not copied: {shortened(self.left)}" if self.left else ""
        new = shortened(self.new) or "none"
        return f"from {self.folder}: {len(self.whole)} tensors copied whole{found}{mapped}; new: {new}{left}"

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        tokens = {name: {"taken": known, "of": total} for name, (known, total) in self.tokens.items()}
        lists = {"whole": list(self.whole), "tokens": tokens, "new": list(self.new), "left": list(self.left)}
        return {"run": str(self.folder), **lists, "mapped": dict(self.mapped)}


def shortened(names: Sequence[str]) -> str:
    """Names of tensors; if there are many, those of one module together: "words.* (6)"."""
    if len(names) <= _MOST:
        return ", ".join(names)
    parts = Counter(name.split(".")[0] for name in names)
    one = {name.split(".")[0]: name for name in names}
    return ", ".join(one[part] if count == 1 else f"{part}.* ({count})" for part, count in parts.items())


def axes_of(task: Any) -> dict[str, dict[int, str]]:
    """By tensor of a task's model, the kind of row that each axis runs over: an axis that grows with one more row.

    If a tensor is shared by two kinds, the last one counts.
    """
    shapes = shapes_of(task)
    axes: dict[str, dict[int, str]] = {name: {} for name in shapes}
    for kind in task.axes():
        try:
            larger = shapes_of(_grown(task, kind))
        except ConfigError:  # kinds that share a table grow together
            larger = shapes_of(_grown(task, *task.sizes))
        for name, shape in shapes.items():
            axes[name] |= {axis: kind for axis, size in enumerate(shape) if larger[name][axis] != size}
    return axes


def _grown(task: Any, *kinds: str) -> Any:
    """A task with one more row of some kinds."""
    grown = copy.copy(task)
    section = task.config.model
    for kind in kinds:
        if (field := task.sizes.get(kind)) is not None:
            section = section.model_copy(update={field: section.settings[field] + 1})
    grown.config = task.config.model_copy(update={"model": section})
    grown.grown_kinds = kinds
    return grown


class _WithoutNumbers(TorchFunctionMode):
    """Skips initialisation, which takes time and memory; on the device "meta" torch would import its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def without_numbers(task: Any) -> nn.Module:
    """A task's model on the device "meta", which has shapes only; the random state stays as it is."""
    with torch.random.fork_rng([]), torch.device("meta"), _WithoutNumbers():
        return task.build_model()  # type: ignore[no-any-return]


def shapes_of(task: Any) -> dict[str, torch.Size]:
    """The shapes of the tensors of a task's model."""
    return {name: tensor.shape for name, tensor in without_numbers(task).state_dict().items()}


def same_rows(own: Sequence[str], parent: Sequence[str]) -> list[tuple[int, int]]:
    """Places (own, parent's) of the rows whose names both models have."""
    known = {name: i for i, name in enumerate(parent)}
    return [(i, known[name]) for i, name in enumerate(own) if name in known]


def fits(own: Tensor, given: Tensor, kinds: Mapping[int, str]) -> bool:
    """True if two tensors have the same shape, except on axes that run over named rows."""
    sizes = enumerate(zip(own.shape, given.shape, strict=False))
    return own.dim() == given.dim() and all(axis in kinds or a == b for axis, (a, b) in sizes)


def places(tensor: Tensor, rows: Mapping[int, Sequence[int]]) -> tuple[Any, ...]:
    """Indices of the chosen `rows` of some axes and of everything on the other axes."""
    return np.ix_(*(rows.get(axis, range(size)) for axis, size in enumerate(tensor.shape)))


def prefix_of(model: nn.Module, body: nn.Module) -> str:
    """The prefix of the names of a body's tensors."""
    return next(f"{name}." if name else "" for name, module in model.named_modules() if module is body)


def unshared(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model, writable; tied ones once, under their first name."""
    return weights.unshared(model.state_dict())


def unused(parent: nn.Module, taken: Iterable[str]) -> tuple[str, ...]:
    """Names of a parent's tensors that were not taken, tied ones once; `taken` names those that were."""
    state = parent.state_dict()
    used = {state[name].data_ptr() for name in taken}
    return tuple(name for name, tensor in unshared(parent).items() if tensor.data_ptr() not in used)


C = TypeVar("C", bound=RunConfig)
_SOME = 1_000
"""Placeholder for a size that follows from the data."""


def check_model_section(
    config: RunConfig, interfaces: tuple[Interface, ...], head: type[BaseModel], from_data: Iterable[str]
) -> None:
    """Refuse an unknown name, size or field of the `model` section before any data is read.

    Fields that follow from the data (`from_data`) may be missing; those that the model lacks are ignored.

    Raises:
        ConfigError: The message names the field.
    """
    section = config.model
    body = body_class(section.name, interfaces)
    size = next(iter(body.config_class.sizes)) if section.size == "auto" else section.size
    known = body.config_class.model_fields.keys() | head.model_fields.keys()
    fields = {**dict.fromkeys((name for name in from_data if name in known), _SOME), **section.settings}
    model_and_head(body, head, size, fields)


def from_data(fields: dict[str, Any], name: str, value: int, unit: str) -> None:
    """Set a field of the model that follows from the data.

    Raises:
        ConfigError: The user gave another value.
    """
    given = fields.setdefault(name, value)
    if given != value:
        raise ConfigError(f"model.{name} is {given}, but the data has {value} {unit}; leave the field out")


FINE_TUNING = 5e-4
"""Learning rate of fine-tuning, for a body of width 128 or less."""


def is_fine_tuning(config: RunConfig, parent: Parent | None, interfaces: tuple[Interface, ...]) -> bool:
    """True if a run has its parent's model, and that is one for pretraining and fine-tuning, or of a checkpoint."""
    if parent is None or parent.task.config.model.name != config.model.name:
        return False
    body = body_class(config.model.name, interfaces)
    if issubclass(body, PairDecoder):
        return parent.is_of_checkpoint and getattr(config.model, "take", "both") in ("auto", "both")
    return issubclass(body, TokenEncoder) and body.fine_tuned


_OWN = frozenset({"extend"})
"""Fields of the `tokenizer` section that a run with another run's tokenizer sets itself."""


@dataclass(frozen=True)
class Parent:
    """A finished run to start from."""

    path: Path  # as the configuration names it: its folder, or its zip file
    folder: Path  # that of its files
    task: Any

    @classmethod
    def open(cls, run: str, field: str) -> Parent:
        """Read everything but the weights of the run (a folder or "last") that a field of the configuration names.

        Raises:
            ConfigError: The run does not exist or is not finished, or one of its files is missing or altered.
        """
        try:
            path = folders.find(run, folders.State.FINISHED).absolute()
            folders.check_format(path)
            folders.check_finished(path)
            folders.verify(path, force=None)
            config = check_config(*folders.read_settings(path))
            named = Path(run).absolute() if folders.is_packed(run) else path
            return cls(named, path, task_class(config.task).restore(config, path))
        except RunError as error:
            raise ConfigError(f"{field}: {error}") from None

    @property
    def is_of_checkpoint(self) -> bool:
        """True if the weights are those of an imported checkpoint, or were fine-tuned from one."""
        is_child = self.task.config.model.from_ is not None
        return self.task.is_imported or (is_child and (self.folder / folders.ORIGIN).is_file())

    def with_model(self, config: C, task: Any) -> C:
        """The configuration with the parent's model, except for fields that the user gave.

        A model of another name has its own fields; a model that replaces one which the task cannot use takes those
        fields of the parent that it has too.
        """
        section, theirs, interfaces = config.model, self.task.config.model, task.interfaces
        given = section.model_fields_set
        usable = any(body.interface in interfaces for body in bodies_of(theirs.name))
        name = theirs.name if usable and "name" not in given else section.name
        values = {**section.model_dump(by_alias=True, include=given), "name": name, "from": str(self.path)}
        if "size" not in given and (name == theirs.name or not usable):
            own, alike = body_class(name, interfaces).config_class, config.task == self.task.config.task
            anew = {*self.task.follows_from_data(), *task.size_fields.values(), *task.input.settles}
            if not alike:  # sizes that only the parent's task takes from the data, such as positions, are kept
                anew -= {*self.task.sizes.values()} - {*task.size_fields.values()}
            fields = {key: value for key, value in theirs.settings.items() if alike or key in own.model_fields}
            size = theirs.size if theirs.size in own.sizes else section.size
            values = {"size": size, **{key: value for key, value in fields.items() if key not in anew}, **values}
        made = type(section).model_validate(values)
        taken = (
            f"model.{field}" for field in values if field not in given | {"from"} and field in made.model_fields_set
        )
        return config.model_copy(update={"model": made}).because(f"as in {self.path}", *taken)

    def with_tokenizer(self, config: C) -> C:
        """The configuration with the parent's tokenizer section.

        Raises:
            ConfigError: The user gave a field that contradicts the parent's.
        """
        section, theirs = config.tokenizer, self.task.config.tokenizer
        if config.task != self.task.config.task:
            theirs = theirs.model_copy(update={"shared": False})  # one of its tokenizers is taken
        for name in section.model_fields_set - {"from_", *_OWN}:
            value = getattr(section, name)
            if value not in (None, "auto", getattr(theirs, name)):
                raise ConfigError(
                    f"tokenizer.{name} is {value!r}, but tokenizer.from takes the tokenizers of {self.path} "
                    f"unchanged, with {getattr(theirs, name)!r}; set only one of the two"
                )
        known = type(section).model_fields  # theirs may have more
        values = {name: value for name, value in theirs.model_dump().items() if name in known}
        values |= {name: getattr(section, name) for name in _OWN & known.keys()} | {"from_": str(self.path)}
        changed = section.model_copy(update=values)
        fields = (f"tokenizer.{name}" for name in values if getattr(section, name) != getattr(changed, name))
        return config.model_copy(update={"tokenizer": changed}).because(f"as in {self.path}", *fields)

    def has_tokenizers(self, task: Any) -> bool:
        """True if the parent has a tokenizer for every kind of row of a task that counts tokens."""
        theirs = self.task.tokenizers()
        return bool(theirs) and all(
            any(name in theirs for name in task.alternatives.get(kind, (kind,))) for kind in task.size_fields
        )

    def tokenizer(self, kind: str, alike: Sequence[str]) -> TextTokenizer:
        """The tokenizer for a kind of row, or for one of those `alike`; a ConfigError if the parent has none."""
        theirs: Mapping[str, TextTokenizer] = self.task.tokenizers()
        found = [theirs[name] for name in alike or (kind,) if name in theirs]
        if not found:
            run = f"{self.path} is a run of {self.task.config.task}"
            raise ConfigError(f"tokenizer.from: {run} and has no tokenizer for {kind}")
        return found[0]

    def give(self, model: nn.Module, task: Any) -> Taken:
        """Copy the tensors that fit into a new model: whole ones, and the rows (tokens, labels, columns) of both runs.

        All others keep their random values. From a run of another task only the body is copied.

        Raises:
            ConfigError: No matrix fits.
            RunError: The parent's weights are damaged.

        Source: Aji et al. 2020 (arXiv:2005.01196) match embeddings by token.
        """
        # The parent's own memory is never touched: its tensors are those of the file, which the system maps.
        with torch.random.fork_rng(devices=[]), _WithoutNumbers():  # the new run draws as it would without a parent
            parent = self.task.build_model()
        path = self.folder / folders.WEIGHTS
        given = weights.matched(parent.state_dict(), weights.read_tensors(path), str(path))
        own, axes, their_axes = unshared(model), axes_of(task), axes_of(self.task)
        used, known = {kind for over in their_axes.values() for kind in over.values()}, self.task.axes()
        alike = task.config.task == self.task.config.task
        at = "" if alike else prefix_of(parent, self.task.body(parent))
        take = task.task.taken_from
        chosen = None if take is None else take(task, self, own, at, given)
        alternatives = task.task.alternatives if chosen is None else {kind: (kind, "tokens") for kind in task.axes()}
        kinds = {kind: next((k for k in alternatives.get(kind, ()) if k in used), kind) for kind in task.axes()}
        rows = {kind: same_rows(names, known.get(kinds[kind], ())) for kind, names in task.axes().items()}
        inside = theirs = ""
        if not alike:
            inside, theirs = prefix_of(model, task.body(model)), at
        # The parent's name of each tensor; a kind of row's only table may have another name in the parent.
        names = {name: theirs + name.removeprefix(inside) for name in own if name.startswith(inside)}
        free = {name for name in unshared(parent) if name.startswith(theirs)} - {*names.values()}
        if chosen is not None:
            names, free = {**chosen}, set()
        for name in [name for name in names if axes[name] and names[name] not in given]:
            over = {axis: kinds[kind] for axis, kind in axes[name].items()}
            found = [n for n in free if their_axes[n] == over and fits(own[name], given[n], over)]
            found = [n for n in found if name.endswith(f".{n}")] or found  # not the output layer, where it is not tied
            if len(found) == 1:
                names[name] = found[0]
                free.remove(found[0])
        starting = self._starting_rows(task)
        whole, tokens, new = [], {}, []
        for name, tensor in own.items():
            over, taken = axes[name], given.get(names.get(name, ""))
            if taken is None or not fits(tensor, taken, over) or not all(rows[kind] for kind in over.values()):
                new.append(name)
            elif over:
                mine, others = ({a: [pair[i] for pair in rows[kind]] for a, kind in over.items()} for i in (0, 1))
                tensor[places(tensor, mine)] = taken[places(taken, others)]
                tokens[name] = (len(mine[min(over)]), tensor.shape[min(over)])
                for axis, kind in over.items():
                    for row, parts in starting.get(kind, {}).items():
                        values = taken.index_select(axis, torch.tensor(parts)) if parts else taken
                        tensor.select(axis, row).copy_(values.mean(axis))
            else:
                tensor.copy_(taken)
                whole.append(name)
        if not any(own[name].dim() > 1 for name in (*whole, *tokens)):
            models = self.task.config.model.name, task.config.model.name
            message = f"model.from: no matrix of {self.path} ({models[0]}) fits the new model ({models[1]})"
            raise ConfigError(message + _other_fields(self.task.config.model, task.config.model, task.sizes.values()))
        called = {name: names[name] for name in (*whole, *tokens)}
        mapped = {name: theirs for name, theirs in called.items() if not theirs.endswith(name.removeprefix(inside))}
        return Taken(self.path, tuple(whole), tokens, tuple(new), mapped, unused(parent, called.values()))

    def _starting_rows(self, task: Any) -> dict[str, dict[int, list[int]]]:
        """By kind of row, for each token of a new language the parent's rows whose mean it starts as.

        Raises:
            ConfigError: The parent lacks the language that `model.like` names.
        """
        if (like := getattr(task.config.model, "like", None)) is None:
            return {}
        from heed.exchange.huggingface.vocabularies import starting_rows
        from heed.tasks.inputs.pairs import language_token

        starting = dict[str, dict[int, list[int]]]()
        for kind, theirs in self.task.tokenizers().items():
            token = None if like == "mean" else language_token(theirs, like)
            if token is None and like != "mean":
                names = sorted(tag.removeprefix("__").removesuffix("__") for tag in theirs.tags)
                raise ConfigError(f"model.like: {self.path} has no language {like!r}{suggest(like, names)}")
            starting[kind] = starting_rows(task.tokenizers()[kind], theirs, token)
        return starting


def _other_fields(theirs: ModelSection, ours: ModelSection, sizes: Iterable[str]) -> str:
    """The fields in which two models of the same name differ, except sizes that follow from the data, for a message."""
    here, there = {**ours.settings}, theirs.settings
    for name in sizes:
        here.pop(name, None)
    other = [name for name in here if theirs.name == ours.name and there.get(name, here[name]) != here[name]]
    said = ", ".join(f"model.{name} is {there[name]} in that run and {here[name]} in this one" for name in other[:4])
    return f": {said}" if said else ""


def with_parents(config: C, task: Any) -> tuple[C, Parent | None, Parent | None]:
    """Open the runs that `model.from` and `tokenizer.from` name, and take over their fields into the configuration.

    The resulting `model` section is checked, so that errors in it are reported before the data is read.

    Raises:
        ConfigError: A run cannot be opened, or a field contradicts it.
    """
    start = tokens = None
    if config.model.from_ is not None:
        start = Parent.open(config.model.from_, "model.from")
        config = start.with_model(config, task)
        asked = config.tokenizer.model_fields_set - _OWN
        if is_fine_tuning(config, start, task.interfaces) and not asked and start.has_tokenizers(task):
            config = config.settle("fine-tuning", {"tokenizer.from_": config.model.from_})
    if getattr(config.tokenizer, "extend", False) and config.tokenizer.from_ is None:
        raise ConfigError(
            "tokenizer.extend is true, but there is no tokenizer to extend; set tokenizer.from to a run, or give "
            "--from RUN with a model that keeps its tokenizer (bert, gpt)"
        )
    if config.tokenizer.from_ is not None:
        tokens = Parent.open(config.tokenizer.from_, "tokenizer.from")
        config = tokens.with_tokenizer(config)
    check_model_section(config, task.interfaces, task.head_class, task.size_fields.values())
    return config, start, tokens
