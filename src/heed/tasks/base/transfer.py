"""Runs that start from a parent run of the same or another task: tensors match by name, their rows by the rows' names.

Tokens that the parent lacks start as in a new model. With another size or model, the fields are those of that model,
and only tensors that fit are copied; it is an error if no matrix fits. With the parent's own tokenizers, every vector
is kept, and the runs can form an ensemble. From a translator, `rnn` takes embeddings and encoder of `bahdanau`,
`luong` and `seq2seq`, with their widths and cell unless given; `encoder` of the same width takes only the embeddings
of `transformer`. RUN is a run folder or a packed run, relative to the current folder, or `last`. A pretrained body,
such as BERT's, is fine-tuned: with smaller learning rates and a warm-up, which are written into the configuration
unless given. This module also checks the fields of the `model` section, with or without a parent, and says which
checkpoint of the Hugging Face Hub is worth starting from (`start_command`).

To find which axis of which tensor runs over tokens, labels or columns, the model is built (shapes only) with one more
row; models declare nothing for this.

Learning rates are decayed by layer, and layers frozen, for good or up to some update (`groups_of`). The parts of a
body, by height: its top and the head (0), its layers from the last one down (1, 2, ..., L), and its embeddings, which
are everything before the first layer (L + 1). Layers are the blocks of a Transformer or the layers of a recurrent
network; in a body with two stacks (encoder and decoder), both have layers of each height. A resumed run trains the same
parts at the same updates.

    rate(height) = training.learning_rate * training.layer_decay ** height
    trained from update training.unfreeze_every * height on

Source: Howard and Ruder 2018 (arXiv:1801.06146), sections 3.2 (rates by layer) and 3.3 (gradual unfreezing); Clark et
al. 2020 (arXiv:2003.10555), appendix B, for a factor between neighbouring layers.
"""

from __future__ import annotations

import copy
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heed import folder as folders
from heed.config import ModelSection, RunConfig, Source, TrainingConfig
from heed.data.tokens.tokenizer import TextTokenizer, language_token
from heed.errors import ConfigError, RunError, nearest, whole_number
from heed.models.base import Interface, PairDecoder, TokenEncoder
from heed.registry import bodies_of, body_class, model_and_head
from heed.tasks import check_config, spec_of, task_class
from heed.tasks.base.report import counted
from heed.training import weights
from heed.training.optimizer import Group
from heed.visible import shell_word

END_TOKEN = "end_token"
"""The field of models that find segments by the tokenizer's end token."""
_MAX_LISTED = 12
"""Most names that are listed one by one."""


class Started(Protocol):
    """Initial values that replace random weights of a new model; `str` describes them for people."""

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""


@dataclass(frozen=True)
class CopiedTensors:
    """The tensors that a model copied from its parent."""

    folder: Path  # of the parent
    whole: tuple[str, ...]  # tensors copied as they are
    tokens: Mapping[str, tuple[int, int]]  # tensors with a row per token, label or column: rows copied, rows in all
    new: tuple[str, ...]  # tensors left at their random values
    mapped: Mapping[str, str] = field(default_factory=dict)  # copied tensors with another name in the parent
    left: tuple[str, ...] = ()  # tensors of the parent that were not copied

    def __str__(self) -> str:
        copied = "".join(f"; {name}: {count:,} of {total:,} tokens" for name, (count, total) in self.tokens.items())
        mapped = "".join(f"; {name} comes from {theirs} of that run" for name, theirs in self.mapped.items())
        left = f"; not copied: {shortened(self.left)}" if self.left else ""
        new = shortened(self.new) or "none"
        return f"from {self.folder}: {len(self.whole)} tensors copied whole{copied}{mapped}; new: {new}{left}"

    def as_report(self) -> dict[str, Any]:
        """The same for `report.json`."""
        tokens = {name: {"taken": count, "of": total} for name, (count, total) in self.tokens.items()}
        lists = {"whole": list(self.whole), "tokens": tokens, "new": list(self.new), "left": list(self.left)}
        return {"run": str(self.folder), **lists, "mapped": dict(self.mapped)}


def shortened(names: Sequence[str]) -> str:
    """Names of tensors; if there are many, grouped by module: "words.* (6)"."""
    if len(names) <= _MAX_LISTED:
        return ", ".join(names)
    parts = Counter(name.split(".")[0] for name in names)
    example = {name.split(".")[0]: name for name in names}
    return ", ".join(example[part] if count == 1 else f"{part}.* ({count})" for part, count in parts.items())


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


def same_rows(names: Sequence[str], parent_names: Sequence[str]) -> list[tuple[int, int]]:
    """Places (own, parent's) of the rows whose names both models have."""
    place_of = {name: i for i, name in enumerate(parent_names)}
    return [(i, place_of[name]) for i, name in enumerate(names) if name in place_of]


def fits(tensor: Tensor, other: Tensor, kinds: Mapping[int, str]) -> bool:
    """True if two tensors have the same shape, except on axes that run over named rows."""
    sizes = enumerate(zip(tensor.shape, other.shape, strict=False))
    return tensor.dim() == other.dim() and all(axis in kinds or a == b for axis, (a, b) in sizes)


def places(tensor: Tensor, rows: Mapping[int, Sequence[int]]) -> tuple[Any, ...]:
    """Indices of the chosen `rows` of some axes and of everything on the other axes."""
    return np.ix_(*(rows.get(axis, range(size)) for axis, size in enumerate(tensor.shape)))


def prefix_of(model: nn.Module, body: nn.Module) -> str:
    """The prefix of the names of a body's tensors."""
    return next(f"{name}." if name else "" for name, module in model.named_modules() if module is body)


def unshared(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model, writable; tied ones once, under their first name."""
    return weights.unshared(model.state_dict())


def unused(parent: nn.Module, copied: Iterable[str]) -> tuple[str, ...]:
    """Names of a parent's tensors that were not copied, tied ones once; `copied` names those that were."""
    state = parent.state_dict()
    used = {state[name].data_ptr() for name in copied}
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
    names = body.config_class.model_fields.keys() | head.model_fields.keys()
    fields = {**dict.fromkeys((name for name in from_data if name in names), _SOME), **section.settings}
    model_and_head(body, head, size, fields)


def from_data(fields: dict[str, Any], name: str, value: int, unit: str) -> None:
    """Set a field of the model that follows from the data.

    Raises:
        ConfigError: The user gave another value.
    """
    configured = fields.setdefault(name, value)
    if configured != value:
        raise ConfigError(f"model.{name} is {configured}, but the data has {value} {unit}; leave the field out")


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
    folder: Path  # the folder with its files
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
        section, parent_model, interfaces = config.model, self.task.config.model, task.interfaces
        set_by_user = section.model_fields_set
        usable = any(body.interface in interfaces for body in bodies_of(parent_model.name))
        name = parent_model.name if usable and "name" not in set_by_user else section.name
        values = {**section.model_dump(by_alias=True, include=set_by_user), "name": name, "from": str(self.path)}
        if "size" not in set_by_user and (name == parent_model.name or not usable):
            config_class, alike = body_class(name, interfaces).config_class, config.task == self.task.config.task
            anew = {*self.task.follows_from_data(), *task.size_fields.values(), *task.input.settles}
            if not alike:  # sizes that only the parent's task takes from the data, such as positions, are kept
                anew -= {*self.task.sizes.values()} - {*task.size_fields.values()}
            names = parent_model.settings.keys() if alike else config_class.model_fields.keys()
            fields = {key: value for key, value in parent_model.settings.items() if key in names - anew}
            size = parent_model.size if parent_model.size in config_class.sizes else section.size
            values = {"size": size, **fields, **values}
        changed = type(section).model_validate(values)
        new = changed.model_fields_set - set_by_user - {"from"}
        inherited = (f"model.{name}" for name in values if name in new)
        return config.model_copy(update={"model": changed}).because(f"as in {self.path}", *inherited)

    def with_tokenizer(self, config: C) -> C:
        """The configuration with the parent's tokenizer section.

        Raises:
            ConfigError: The user gave a field that contradicts the parent's.
        """
        section, parent_section = config.tokenizer, self.task.config.tokenizer
        if config.task != self.task.config.task:
            parent_section = parent_section.model_copy(update={"shared": False})  # one of its tokenizers is taken
        for name in section.model_fields_set - {"from_", *_OWN}:
            value = getattr(section, name)
            if value not in (None, "auto", getattr(parent_section, name)):
                raise ConfigError(
                    f"tokenizer.{name} is {value!r}, but tokenizer.from takes the tokenizers of {self.path} "
                    f"unchanged, with {getattr(parent_section, name)!r}; set only one of the two"
                )
        names = type(section).model_fields  # theirs may have more
        values = {name: value for name, value in parent_section.model_dump().items() if name in names}
        values |= {name: getattr(section, name) for name in _OWN & names.keys()} | {"from_": str(self.path)}
        changed = section.model_copy(update=values)
        fields = (f"tokenizer.{name}" for name in values if getattr(section, name) != getattr(changed, name))
        return config.model_copy(update={"tokenizer": changed}).because(f"as in {self.path}", *fields)

    def has_tokenizers(self, task: Any) -> bool:
        """True if the parent has every tokenizer that a task needs."""
        parent_tokenizers = self.task.tokenizers()
        return bool(parent_tokenizers) and all(
            any(name in parent_tokenizers for name in task.alternatives.get(role, (role,))) for role in task.input.roles
        )

    def lacks_tokens(self, work: Any) -> bool:
        """True if a run that starts from the parent has tokens that the parent lacks."""
        if not self.has_tokenizers(work.task):
            return True
        alternatives = work.task.alternatives
        return any(
            not {*tokenizer.tokens} <= {*self.tokenizer(role, alternatives.get(role, ())).tokens}
            for role, tokenizer in work.tokenizers().items()
        )

    def tokenizer(self, kind: str, alike: Sequence[str]) -> TextTokenizer:
        """The tokenizer for a kind of row, or for one of those `alike`; a ConfigError if the parent has none."""
        parent_tokenizers: Mapping[str, TextTokenizer] = self.task.tokenizers()
        tokenizers = [parent_tokenizers[name] for name in alike or (kind,) if name in parent_tokenizers]
        if not tokenizers:
            run = f"{self.path} is a run of {self.task.config.task}"
            raise ConfigError(f"tokenizer.from: {run} and has no tokenizer for {kind}")
        return tokenizers[0]

    def copy_into(self, model: nn.Module, task: Any) -> CopiedTensors:
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
        state = weights.matched(parent.state_dict(), weights.read_tensors(path), str(path))
        tensors, axes, their_axes = unshared(model), axes_of(task), axes_of(self.task)
        used, parent_rows = {kind for over in their_axes.values() for kind in over.values()}, self.task.axes()
        alike = task.config.task == self.task.config.task
        at = "" if alike else prefix_of(parent, self.task.body(parent))
        take = task.task.taken_from
        chosen = None if take is None else take(task, self, tensors, at, state)
        alternatives = task.task.alternatives if chosen is None else {kind: (kind, "tokens") for kind in task.axes()}
        kinds = {kind: next((k for k in alternatives.get(kind, ()) if k in used), kind) for kind in task.axes()}
        rows = {kind: same_rows(names, parent_rows.get(kinds[kind], ())) for kind, names in task.axes().items()}
        inside = theirs = ""
        if not alike:
            inside, theirs = prefix_of(model, task.body(model)), at
        # The parent's name of each tensor; a kind of row's only table may have another name in the parent.
        names = {name: theirs + name.removeprefix(inside) for name in tensors if name.startswith(inside)}
        free = {name for name in unshared(parent) if name.startswith(theirs)} - {*names.values()}
        if chosen is not None:
            names, free = {**chosen}, set()
        for name in [name for name in names if axes[name] and names[name] not in state]:
            over = {axis: kinds[kind] for axis, kind in axes[name].items()}
            candidates = [n for n in free if their_axes[n] == over and fits(tensors[name], state[n], over)]
            # Not the output layer, where it is not tied.
            candidates = [n for n in candidates if name.endswith(f".{n}")] or candidates
            if len(candidates) == 1:
                names[name] = candidates[0]
                free.remove(candidates[0])
        starting = self._starting_rows(task)
        whole, tokens, new = [], {}, []
        for name, tensor in tensors.items():
            over, source = axes[name], state.get(names.get(name, ""))
            if source is None or not fits(tensor, source, over) or not all(rows[kind] for kind in over.values()):
                new.append(name)
            elif over:
                mine, others = ({a: [pair[i] for pair in rows[kind]] for a, kind in over.items()} for i in (0, 1))
                tensor[places(tensor, mine)] = source[places(source, others)]
                tokens[name] = (len(mine[min(over)]), tensor.shape[min(over)])
                for axis, kind in over.items():
                    if new_rows := starting.get(kind):
                        mean = source.mean(axis)
                        for row, parts in new_rows.items():
                            start = source.index_select(axis, torch.tensor(parts)).mean(axis) if parts else mean
                            tensor.select(axis, row).copy_(start)
            else:
                tensor.copy_(source)
                whole.append(name)
        if not any(tensors[name].dim() > 1 for name in (*whole, *tokens)):
            models = self.task.config.model.name, task.config.model.name
            message = f"model.from: no matrix of {self.path} ({models[0]}) fits the new model ({models[1]})"
            raise ConfigError(message + _other_fields(self.task.config.model, task.config.model, task.sizes.values()))
        called = {name: names[name] for name in (*whole, *tokens)}
        mapped = {name: theirs for name, theirs in called.items() if not theirs.endswith(name.removeprefix(inside))}
        return CopiedTensors(self.path, tuple(whole), tokens, tuple(new), mapped, unused(parent, called.values()))

    def _starting_rows(self, task: Any) -> dict[str, dict[int, list[int]]]:
        """By kind of row, for each token of a new language the parent's rows whose mean it starts as."""
        if (like := getattr(task.config.model, "like", None)) is None:
            return {}
        from heed.exchange.huggingface.vocabularies import starting_rows

        starting = dict[str, dict[int, list[int]]]()
        for kind, parent_tokenizer in self.task.tokenizers().items():
            token = None if like == "mean" else language_token(parent_tokenizer, like)
            starting[kind] = starting_rows(task.tokenizers()[kind], parent_tokenizer, token)
        return starting


def _other_fields(theirs: ModelSection, ours: ModelSection, sizes: Iterable[str]) -> str:
    """The fields in which two models of the same name differ, except sizes that follow from the data, for a message."""
    fields, parent_fields = {**ours.settings}, theirs.settings
    for name in sizes:
        fields.pop(name, None)
    pairs = [(name, parent_fields[name], value) for name, value in fields.items() if name in parent_fields]
    other = [pair for pair in pairs if theirs.name == ours.name and pair[1] != pair[2]]
    text = ", ".join(f"model.{name} is {old} in that run and {new} in this one" for name, old, new in other[:4])
    return f": {text}" if text else ""


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
        set_by_user = config.tokenizer.model_fields_set - _OWN
        if is_fine_tuning(config, start, task.interfaces) and not set_by_user and start.has_tokenizers(task):
            config = config.settle("fine-tuning", {"tokenizer.from_": config.model.from_})
        for field in ("source_language", "target_language"):
            language = getattr(start.task.config.data, field, None)
            if language is not None and getattr(config.data, field, language) is None:
                config = config.settle(f"as in {start.path}", {f"data.{field}": language})
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


_LAYER = re.compile(r"(blocks|layers|encoder|decoder)\.(?:\w+_cells\.)?(\d+)\.")
"""Start of a parameter's name in a body: a submodule with layers, and the number of a block or of a layer's cells."""
_BELOW = re.compile(r"layers\s*<\s*(\d+)")


def layers_of(body: nn.Module) -> dict[str, int | None]:
    """The layer of each parameter of a body, by name: 0 to L - 1, -1 for embeddings, None for its top.

    If a body has two stacks of unequal length, their last layers have the same number.
    """
    matches = {name: match for name, _ in body.named_parameters() if (match := _LAYER.match(name)) is not None}
    lengths: dict[str, int] = {}
    for match in matches.values():
        lengths[match[1]] = max(lengths.get(match[1], 0), int(match[2]) + 1)
    count, result, seen = max(lengths.values(), default=0), dict[str, int | None](), False
    tables = {id(p) for module in body.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    for name, parameter in body.named_parameters():
        if name in matches:
            stack, number = matches[name].groups()
            result[name], seen = count - lengths[stack] + int(number), True
        elif id(parameter) in tables or (lengths and not seen):
            result[name] = -1
        else:
            result[name] = None
    return result


def num_layers(body: nn.Module) -> int:
    """The number of layers of a body; 0 if it has no stack of layers."""
    return 1 + max((layer for layer in layers_of(body).values() if layer is not None), default=-1)


def layers_of_model(model: nn.Module, body: nn.Module) -> dict[str, tuple[bool, int | None]]:
    """For each parameter of a model, by name: True if it belongs to the body, and its layer there."""
    of_body = layers_of(body)
    inside = {id(parameter): of_body[name] for name, parameter in body.named_parameters()}
    return {name: (id(p) in inside, inside.get(id(p))) for name, p in model.named_parameters()}


def groups_of(model: nn.Module, body: nn.Module, training: TrainingConfig) -> list[Group]:
    """The groups of a model's parameters that are frozen, frozen at first, or trained at a reduced learning rate.

    Raises:
        ConfigError: `training.freeze` names no part of the model, or leaves nothing to train.
    """
    if training.layer_decay is None and not training.freeze and training.unfreeze_every is None:
        return []
    count, layers = num_layers(body), layers_of_model(model, body)
    frozen = frozen_by(training.freeze, layers, count)
    parameters = dict(model.named_parameters())
    if not any(p.requires_grad for name, p in parameters.items() if name not in frozen):
        raise ConfigError(f"training.freeze leaves nothing to train: {', '.join(training.freeze)}")
    groups = [Group([parameters[name] for name in sorted(frozen)], 0.0)] if frozen else []
    decay, every = training.layer_decay or 1.0, training.unfreeze_every or 0
    for height in range(1, count + 2):
        names = [name for name, (_, layer) in layers.items() if layer == count - height and name not in frozen]
        if names:
            called = "the embeddings" if height == count + 1 else f"layer {count - height + 1} of {count}"
            chosen = [parameters[name] for name in names]
            groups.append(Group(chosen, decay**height, every * height, called))
    return groups


def frozen_by(parts: Sequence[str], layers: Mapping[str, tuple[bool, int | None]], count: int) -> set[str]:
    """The names of the parameters that the entries of `training.freeze` select.

    Args:
        parts: "body", "embeddings", "layers<N", or the start of parameter names.
        layers: As of `layers_of_model`.
        count: Number of layers of the body.

    Raises:
        ConfigError: An entry selects no parameter.
    """
    frozen: set[str] = set()
    for part in parts:
        below = _BELOW.fullmatch(part.strip())
        if below is not None and not 0 < whole_number(below[1]) <= count:
            has = f"has {count} layer{'' if count == 1 else 's'}" if count else "has no stack of layers"
            raise ConfigError(f"training.freeze: '{part}', but the body {has}")
        selected = {
            name
            for name, (inside, layer) in layers.items()
            if (part == "body" and inside)
            or (part == "embeddings" and layer == -1)
            or (below is not None and layer is not None and 0 <= layer < whole_number(below[1]))
            or name == part
            or name.startswith(f"{part.removesuffix('.')}.")
        }
        if not selected:
            tops = dict.fromkeys(name.split(".")[0] for name in layers)
            names = [*dict.fromkeys(["body", "embeddings", f"layers<{max(1, count)}", *tops])]
            raise ConfigError(
                f"training.freeze: '{part}' is not a part of the model{nearest(part, names)}; its parts are "
                f"{', '.join(names)}, and the beginnings of tensor names such as {next(iter(layers))}"
            )
        frozen |= selected
    return frozen


_LANGUAGES = (
    "cs ces cze czech, da dan danish, de deu ger german, es spa spanish, et est estonian, fi fin finnish, "
    "fr fra fre french, hi hin hindi, hu hun hungarian, id ind indonesian, it ita italian, nl nld dut dutch, "
    "ru rus russian, sv swe swedish, uk ukr ukrainian"
)
"""Names of languages that OPUS-MT has a translator for, from English and to English."""
_CODES = {name: names.split()[0] for names in _LANGUAGES.split(", ") for name in names.split()}
_ENGLISH = frozenset("the of and that it you this with are he not have".split())
_SHARE = 0.04
"""Share of these words from which a text counts as English: tweets have 0.09, other English more, German 0.00."""
_READ = 1_000


def start_command(task: Any, config: RunConfig, words: Sequence[str]) -> str:
    """The advice, given the settings and the words after `heed train`; "" with many examples or a model chosen."""
    spec, data = spec_of(config.task), config.data
    chosen = config.model.model_fields_set | config.tokenizer.model_fields_set
    if not spec.pretrained or chosen or data.is_embedded:
        return ""
    examples = task.splits.examples["train"]
    if len(examples) >= spec.few or not (name := _checkpoint(spec.pretrained, data, examples)):
        return ""
    run, translator = name.rpartition("/")[2], "opus" in name
    steps = [
        "" if find_spec("sentencepiece" if translator else "huggingface_hub") else "pip install -e '.[hf]'",
        "" if os.path.exists(run) else f"heed import {name} --out {run}",
        f"heed train {' '.join(map(shell_word, words))} --from {run}",
    ]
    few = f"{counted(len(examples), spec.unit)} are few for a model trained from scratch"
    return f"{few}; to start from a pretrained one, with more minutes:\n  {' && '.join(filter(None, steps))}"


def _checkpoint(names: Sequence[str], data: Source, examples: Sequence[Any]) -> str:
    """The checkpoint for the language of the examples, of those in a task's specification; "" if there is none."""
    is_translator = "{source}" in names[0]
    if not is_translator and len(names) == 1:
        return names[0]  # for pictures
    sample = [examples[n] for n in range(min(_READ, len(examples)))]
    source_is_english = _is_english(getattr(example, "source", None) or example.turns[0] for example in sample)
    if not is_translator:
        return names[0] if source_is_english else names[-1]
    columns = getattr(data, "columns", None)
    named = [data.hub] if data.origin == "hub" else [Path(file).name for file in data.train]
    named += [str(getattr(columns, side, "")) for side in ("source", "target")]
    languages = {_CODES[word] for word in re.split(r"[\W_\d]+", " ".join(named).lower()) if word in _CODES}
    if len(languages) != 1 or _is_english(example.truth for example in sample) == source_is_english:
        return ""
    source, target = ("en", *languages) if source_is_english else (*languages, "en")
    return names[0].format(source=source, target=target)


def _is_english(texts: Iterable[str]) -> bool:
    words = re.findall(r"\w+", " ".join(texts).lower())
    return sum(word in _ENGLISH for word in words) > _SHARE * len(words)
