"""Families of checkpoints (one `model_type` of config.json) as values: names of fields and tensors, theirs and ours.

What differs between two families is data; the few functions of a family compute what depends on a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch

from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.files import SAME, Entry, Settings, TensorFiles, Transform, layer
from heed.exchange.huggingface.tokenizers import read_tokenizer, write_tokenizer
from heed.models.base import ModelConfig

Vocabularies = Mapping[str, tuple[TextTokenizer, Mapping[str, Any]]]
"""By role ("tokens", or "source" and "target") a tokenizer, and what its family needs to write its files again."""
HeadNames = frozenset[str]
"""The heads of a model: "words", "order", "labels", "tags", "output", "bias"; none: the body alone."""
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Their activations and ours; several of their names are the same function."""
THEIR_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu"}


class Wanted(NamedTuple):
    """The checkpoint that a table of tensors is for."""

    settings: Settings  # its `config.json`; when one is written, what `Family.settings` gave
    body: ModelConfig  # the configuration of our model
    heads: HeadNames  # of the model
    vocabularies: Vocabularies
    tied: bool = True  # the output layer uses the embedding table and has no matrix of its own


_USUAL = {
    "attention_dropout": "dropout",
    "decoder_layers": "num_layers",
    "decoder_heads": "num_heads",
    "decoder_d_ff": "d_ff",
}
"""Fields of our models that are as another one if they are null."""


def _tokenizers(folder: Path, settings: Settings) -> Vocabularies:
    return {"tokens": read_tokenizer(folder, settings.values)}


def _write_tokenizers(family: str, vocabularies: Vocabularies, folder: Path) -> None:
    for tokenizer, files in vocabularies.values():
        write_tokenizer(tokenizer, files, folder, family)


def _nothing(*_: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Family:
    """Conversion between checkpoints of a `model_type` and one of our models."""

    model_type: str  # in config.json
    model: str  # name of our model
    prefix: str  # of the names of the body's tensors in a model with a head, such as "bert."
    # Fields of our model that config.json has under another name, with that name and its default there.
    names: Mapping[str, tuple[str, Any]]
    # By the heads the class that has them.
    architectures: Mapping[HeadNames, str]
    # Our layers, of the body ("body.*") and the heads ("labels.*"), and theirs, perhaps with a transform and an
    # alternative name; `*` is the number of a block. A tensor that our model lacks (a bias) does not count.
    layers: Mapping[str, str | tuple[str, Transform] | tuple[str, Transform, str]]
    # Further tensors, which depend on the checkpoint; they replace those of `layers`.
    further: Callable[[Wanted], Sequence[Entry]] = lambda wanted: ()
    # Fields of our model that are none of `names`, `expresses`, the activation.
    derived: Callable[[Settings, TensorFiles, HeadNames], Mapping[str, Any]] = _nothing
    # Fields of config.json that are none of `names`, `constants`, the activation.
    written: Callable[[Any, HeadNames, Vocabularies], Mapping[str, Any]] = _nothing
    # Fields of config.json that are the same in every export.
    constants: Mapping[str, Any] = field(default_factory=dict)
    # The field of the activation and its default; none if there is no choice.
    activation: tuple[str, str] | None = None
    activations: Mapping[str, str] = field(default_factory=lambda: ACTIVATIONS)  # theirs -> ours
    their_activations: Mapping[str, str] = field(default_factory=lambda: THEIR_ACTIVATIONS)  # ours -> theirs
    # Fields of our model of which the family knows one value only, with that value and why.
    expresses: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    # Raises a ConfigError for further models that it cannot express.
    refuse: Callable[[Family, Any, HeadNames], object] = _nothing
    # Fields of config.json that must have one of these values where they are there: others change what the model
    # computes, and we lack them.
    accepts: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    # By a tensor's name the head that it is known by, for a configuration that does not name its class.
    known_by: Mapping[str, str] = field(default_factory=dict)
    otherwise: HeadNames = frozenset()  # the heads if none is known
    head_names: tuple[str, ...] = ()  # prefixes of the names of the heads' tensors
    unguessed: tuple[str, ...] = ()  # those of them by which `guess` does not know the class
    # The names of the embedding table and of the output matrix, which is absent if it is the same.
    tied_names: tuple[str, str] = ("", "")
    label_bias: bool = True  # True if the output layer for a text's label has a bias
    ignored: tuple[str, ...] = ()  # patterns of names of tensors without learned values, such as "position_ids"
    tokenizers: Callable[[Path, Settings], Vocabularies] = _tokenizers  # of a checkpoint, by role
    write_tokenizers: Callable[[str, Vocabularies, Path], None] = _write_tokenizers  # the first is `model_type`

    def fields(self, settings: Settings, files: TensorFiles, heads: HeadNames) -> dict[str, Any]:
        """Fields of our model, without the vocabulary's size.

        Raises:
            ConfigError: A field of config.json is not supported; the message names it.
        """
        read: dict[type, Callable[[str, Any], Any]]
        read = {int: settings.count, float: settings.number, bool: settings.flag, type(None): settings.count}
        named = {ours: read[type(default)](theirs, default) for ours, (theirs, default) in self.names.items()}
        if self.activation is not None:
            field, default = self.activation
            named["activation"] = settings.one_of(field, self.activations, default)
        fixed = {name: value for name, (value, _) in self.expresses.items()}
        return {**named, **fixed, **self.derived(settings, files, heads)}

    def settings(self, body: Any, heads: HeadNames, vocabularies: Vocabularies) -> dict[str, Any]:
        """Fields of config.json for one of our models that passes `check`, without `architectures`, `model_type`."""
        usual = {name: _USUAL.get(name, name) if getattr(body, name) is None else name for name in self.names}
        named = {self.names[name][0]: getattr(body, place) for name, place in usual.items()}
        if self.activation is not None:
            named[self.activation[0]] = self.their_activations[body.activation]
        return {**named, **self.constants, **self.written(body, heads, vocabularies)}

    def table(self, wanted: Wanted) -> list[Entry]:
        """The tensors of the body ("body.*") and of the heads ("labels.*"), with the prefix."""
        lines: list[Entry] = []
        for ours, theirs in self.layers.items():
            name, transform, *also = (theirs, SAME) if isinstance(theirs, str) else theirs
            lines += layer(name, ours, transform, also)
        by_name = {line.ours or line.theirs: line for line in (*lines, *self.further(wanted))}
        parts = ("body", *wanted.heads)
        table = [line for line in by_name.values() if not line.ours or line.ours[0].partition(".")[0] in parts]
        body: Any = wanted.body
        depth = max(body.num_layers, getattr(body, "decoder_layers", None) or 0)
        blocks = groupby(table, key=lambda line: (line.ours or line.theirs)[0].partition("*")[:2])
        return [
            line.numbered(number)
            for (_, star), group in blocks
            for some in [list(group)]
            for number in range(depth if star else 1)
            for line in some
        ]

    def check(self, body: ModelConfig, heads: HeadNames) -> None:
        """Refuse a model of ours that the family cannot express.

        Raises:
            ConfigError: The message names the field.
        """
        if heads not in self.architectures:
            raise ConfigError(f"{self.model_type} has no model with {' and '.join(sorted(heads))}")
        if number := getattr(body, "d_features", 0):
            raise self.lacks("d_features", number, "models that also read characters cannot be exported")
        for name, (value, why) in self.expresses.items():
            if (chosen := getattr(body, name)) != value:
                raise self.lacks(name, chosen, f"{why}; train with model.{name}={str(value).lower()}")
        self.refuse(self, body, heads)

    def lacks(self, name: str, value: Any, why: str) -> ConfigError:
        """The error about a field of our model that the family does not support."""
        return ConfigError(f"{self.model_type} cannot express model.{name}={value}: {why}")

    def guess(self, files: TensorFiles) -> str:
        """The architecture of a checkpoint whose configuration does not name it: the body alone, by default."""
        heads = frozenset(head for name, head in self.known_by.items() if name in files)
        return self.architectures[heads or self.otherwise]

    def heads_of(self, architecture: str) -> HeadNames | None:
        """The heads of a class; None if the family lacks it."""
        return next((heads for heads, name in self.architectures.items() if name == architecture), None)

    def tied(self, settings: Settings, files: TensorFiles) -> bool:
        """True if the output layer uses the embedding table.

        This follows config.json, unless both tensors are there with different values, as in `transformers`.
        """
        said = settings.flag("tie_word_embeddings", True)
        table, output = self.tied_names
        if said and table in files and output in files:
            return torch.equal(files.read(table), files.read(output))
        return said
