"""Families of checkpoints (one `model_type` of config.json) as tables: names of fields and tensors, theirs and ours.

What differs between two families are attributes; the few methods that a family overrides compute what depends on a
checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch

from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.files import Entry, Settings, TensorFiles, Transform, entry, layer
from heed.exchange.huggingface.tokenizers import read_tokenizer, write_tokenizer
from heed.models.base import ModelConfig

Vocabularies = Mapping[str, tuple[TextTokenizer, Mapping[str, Any]]]
"""By role ("tokens", or "source" and "target") a tokenizer, and what its family needs to write its files again."""
Line = str | tuple[str, Transform] | tuple[str, Transform, str]
"""A layer of theirs, perhaps with a transform and an alternative name."""
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
"""Their activations and ours; several of their names are the same function, and the first of these is written."""
_CLASSES: Mapping[HeadNames, str] = {
    frozenset(): "Model",
    frozenset({"words"}): "ForMaskedLM",
    frozenset({"order"}): "ForNextSentencePrediction",
    frozenset({"words", "order"}): "ForPreTraining",
    frozenset({"labels"}): "ForSequenceClassification",
    frozenset({"tags"}): "ForTokenClassification",
}
"""By the heads the ending of the class that has them."""
_USUAL = {
    "attention_dropout": "dropout",
    "decoder_layers": "num_layers",
    "decoder_heads": "num_heads",
    "decoder_d_ff": "d_ff",
}
"""Fields of our models that are as another one if they are null."""
_NEVER: Mapping[str, Any] = {"quantization_config": None, "add_cross_attention": False, "pruned_heads": {}}
"""Fields of config.json that change what a model computes, and the values that heed supports."""


def classes(name: str, *without: str) -> dict[HeadNames, str]:
    """The usual classes of a family by their heads, those with some heads left out."""
    return {heads: f"{name}{ending}" for heads, ending in _CLASSES.items() if not heads & {*without}}


class Wanted(NamedTuple):
    """The checkpoint that a table of tensors is for."""

    settings: Settings  # its `config.json`; when one is written, what `Family.settings` gave
    body: ModelConfig  # the configuration of our model
    heads: HeadNames  # of the model
    tied: bool = True  # the output layer uses the embedding table and has no matrix of its own


class Family:
    """Conversion between checkpoints of a `model_type` and one of our models."""

    model_type: str  # in config.json
    model: str  # name of our model
    prefix: str  # of the names of the body's tensors in a model with a head, such as "bert."
    # Fields of our model that config.json has under another name, with that name and its default there.
    names: ClassVar[Mapping[str, tuple[str, Any]]]
    architectures: ClassVar[Mapping[HeadNames, str]]  # by the heads the class that has them
    # Our layers, of the body ("body.*") and the heads ("labels.*"), and theirs, perhaps with a transform and an
    # alternative name; `*` is the number of a block. A tensor that our model lacks (a bias) does not count.
    layers: ClassVar[Mapping[str, Line]]
    # The names of the embedding table and of the output matrix, which is absent if it is the same.
    tied_names: tuple[str, str] = ("", "")
    # Fields of config.json that are the same in every export, and those that must have one value where they are there.
    constants: ClassVar[Mapping[str, Any]] = {}
    accepts: ClassVar[Mapping[str, Any]] = {}
    # The field of the activation and its default, if there is a choice; their activations and ours.
    activation: tuple[str, str] | None = None
    activations: ClassVar[Mapping[str, str]] = ACTIVATIONS
    # Fields of our model of which the family knows one value only, with that value and why.
    expresses: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    # By a tensor's name the head that it is known by, for a configuration that does not name its class.
    known_by: ClassVar[Mapping[str, str]] = {}
    otherwise: HeadNames = frozenset()  # the heads if none is known
    head_names: tuple[str, ...] = ()  # prefixes of the names of the heads' tensors
    unguessed: tuple[str, ...] = ()  # those of them by which `guess` does not know the class
    label_bias = True  # True if the output layer for a text's label has a bias
    ignored: tuple[str, ...] = ()  # patterns of names of tensors without learned values, such as "position_ids"

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        """Tensors that depend on the checkpoint; they replace those of `layers`."""
        return ()

    def derived(self, settings: Settings, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        """Fields of our model that are none of `names`, `expresses`, the activation."""
        return {}

    def written(self, body: Any, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        """Fields of config.json that are none of `names`, `constants`, the activation."""
        return {}

    def refuse(self, body: Any, heads: HeadNames) -> None:
        """Raise a ConfigError for further models that it cannot express."""

    def tokenizers(self, folder: Path, settings: Settings) -> Vocabularies:
        """The tokenizers of a checkpoint, by role."""
        return {"tokens": read_tokenizer(folder, settings.values)}

    def write_tokenizers(self, vocabularies: Vocabularies, folder: Path) -> None:
        """Write the files of tokenizers."""
        for tokenizer, files in vocabularies.values():
            write_tokenizer(tokenizer, files, folder, self.model_type)

    def accept(self, settings: Settings) -> None:
        """Check the fields of config.json that change what the model computes.

        Raises:
            ConfigError: heed lacks the value of a field; the message names it.
        """
        settings.accept({**_NEVER, **self.accepts})

    def fields(self, settings: Settings, files: TensorFiles, heads: HeadNames) -> dict[str, Any]:
        """Fields of our model, without the vocabulary's size.

        Raises:
            ConfigError: A field of config.json is not supported; the message names it.
        """
        named = {ours: settings.like(*theirs) for ours, theirs in self.names.items()}
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
            named[self.activation[0]] = self._their_activations[body.activation]
        return {**named, **self.constants, **self.written(body, heads, vocabularies)}

    @property
    def _their_activations(self) -> dict[str, str]:
        return {ours: theirs for theirs, ours in reversed([*self.activations.items()])}

    def table(self, wanted: Wanted) -> list[Entry]:
        """The tensors of the body ("body.*") and of the heads ("labels.*"), with the prefix."""
        lines: list[Entry] = []
        for ours, theirs in self.layers.items():
            name, *rest = (theirs,) if isinstance(theirs, str) else theirs
            lines += layer(name, ours, *rest)
        by_name = {line.ours or line.theirs: line for line in (*lines, *self.further(wanted))}
        parts = ("body", *wanted.heads)
        body: Any = wanted.body
        depth = max(body.num_layers, getattr(body, "decoder_layers", None) or 0)
        return [
            line.numbered(number)
            for names, line in by_name.items()
            if not line.ours or names[0].partition(".")[0] in parts
            for number in range(depth if "*" in names[0] else 1)
        ]

    def output(self, wanted: Wanted, ours: str) -> list[Entry]:
        """The line of a head's output matrix, if there is such a head; it is not read where it is the table."""
        is_there = ours.partition(".")[0] in wanted.heads
        return [entry(self.tied_names[1], "" if wanted.tied else ours)] if is_there else []

    def check(self, body: Any, heads: HeadNames) -> None:
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
        if self.activation is not None and body.activation not in self._their_activations:
            names = " or ".join(self._their_activations)
            raise self.lacks("activation", body.activation, f"its feed-forward networks have no gate; use {names}")
        self.refuse(body, heads)

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
        tied = settings.flag("tie_word_embeddings", True)
        table, output = self.tied_names
        if tied and table in files and output in files:
            return torch.equal(files.read(table), files.read(output))
        return tied
