"""Families of checkpoints (one `model_type` of config.json): their fields by our names, and tables of tensors.

A family is a pydantic model of config.json; an instance has the fields of one checkpoint. What differs between two
families are fields and class attributes; the few methods that a family overrides compute what depends on a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args, get_origin

import torch
from pydantic import Field, field_validator

from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.files import SAME, Count, Entry, Fields, TensorFiles, Transform, entry, layer
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
"""Fields of our models that default, where they are null, to the value of another field."""
ONE_LABEL, SEVERAL = "single_label_classification", "multi_label_classification"
"""Values of `problem_type`."""


def classes(name: str, *without: str) -> dict[HeadNames, str]:
    """The usual classes of a family by their heads, those with some heads left out."""
    return {heads: f"{name}{ending}" for heads, ending in _CLASSES.items() if not heads & {*without}}


class Layout(NamedTuple):
    """What the tensors of a model depend on."""

    body: Any  # the configuration of our body
    heads: HeadNames  # of the model
    tied: bool = True  # the output layer uses the embedding table and has no matrix of its own


class Family(Fields):
    """Conversion between checkpoints of a `model_type` and one of our models."""

    model_type: ClassVar[str]  # in config.json
    model: ClassVar[str]  # name of our model
    config_class: ClassVar[type[ModelConfig]]  # its configuration
    prefix: ClassVar[str]  # of the names of the body's tensors in a model with a head, such as "bert."
    architectures: ClassVar[Mapping[HeadNames, str]]  # by the heads the class that has them
    # Further classes that are not supported, each with the one to import instead and the reason.
    refused: ClassVar[Mapping[str, str]] = {}
    # Our layers, of the body ("body.*") and the heads ("labels.*"), and theirs, those of the body without the prefix,
    # perhaps with a transform and an alternative name; `*` is the number of a block. A tensor that our model lacks (a
    # bias) does not count.
    layers: ClassVar[Mapping[str, Line]]
    # The names of the embedding table and of the output matrix, which is absent if it is the same.
    tied_names: ClassVar[tuple[str, str]] = ("", "")
    # Their activations and ours, of a family with the field `activation`.
    activations: ClassVar[Mapping[str, str]] = {}
    # Fields of our model that the family has with one value only; the value and the reason.
    expresses: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    # Values of fields of our model that the family cannot express; the value and the reason.
    excludes: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    # Tensors that show that a checkpoint has a further head, besides those of the class named in config.json.
    known_by: ClassVar[Mapping[str, str]] = {}
    head_names: ClassVar[tuple[str, ...]] = ()  # prefixes of the names of the heads' tensors
    label_bias: ClassVar[bool] = True  # True if the output layer for a text's label has a bias
    ignored: ClassVar[tuple[str, ...]] = ()  # patterns of names of tensors without learned values ("position_ids")

    vocab_size: Count | None = None
    architecture: list[str] | None = Field(None, alias="architectures", min_length=1, max_length=1)
    id2label: dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], Any] | None = None
    num_labels: Count = 2
    problem_type: Literal["single_label_classification", "multi_label_classification"] = "single_label_classification"
    tie_word_embeddings: bool = True
    quantization_config: None = None
    add_cross_attention: Literal[False] = False
    pruned_heads: dict[str, Any] = Field({}, max_length=0)

    @field_validator("activation", check_fields=False)
    @classmethod
    def _ours(cls, name: str) -> str:
        if name not in cls.activations:
            raise ValueError(f"heed does not support it; supported: {', '.join(cls.activations)}")
        return cls.activations[name]

    def further(self, layout: Layout) -> Sequence[Entry]:
        """Tensors that depend on the checkpoint; they replace those of `layers`."""
        return ()

    def derived(self, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        """Fields of our model that are not as a field of the same name here, and none of `expresses`."""
        return {}

    @classmethod
    def written(cls, body: Any, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        """Fields of config.json that are not as a field of our model."""
        return {}

    @classmethod
    def refuse(cls, body: Any, heads: HeadNames) -> None:
        """Raise a ConfigError for further models that it cannot express."""

    def tokenizers(self, folder: Path) -> Vocabularies:
        """The tokenizers of a checkpoint, by role."""
        return {"tokens": read_tokenizer(folder, self._values)}

    @classmethod
    def write_tokenizers(cls, vocabularies: Vocabularies, folder: Path) -> None:
        """Write the files of tokenizers."""
        for tokenizer, files in vocabularies.values():
            write_tokenizer(tokenizer, files, folder, cls.model_type)

    def fields(self, files: TensorFiles, heads: HeadNames) -> dict[str, Any]:
        """Fields of our model, without the vocabulary's size.

        Raises:
            ConfigError: A field of config.json is not supported; the message names it.
        """
        shared = type(self).model_fields.keys() & self.config_class.model_fields.keys() - {"vocab_size"}
        fixed = {name: value for name, (value, _) in self.expresses.items()}
        return {**{name: getattr(self, name) for name in shared}, **fixed, **self.derived(files, heads)}

    @classmethod
    def settings(cls, body: Any, heads: HeadNames, vocabularies: Vocabularies) -> dict[str, Any]:
        """Fields of config.json for one of our models that passes `check`, without `architectures`, `model_type`."""
        values: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            if name in cls.config_class.model_fields:
                value = getattr(body, name)
                value = getattr(body, _USUAL[name]) if value is None and name in _USUAL else value
                values[field.alias or name] = cls._theirs().get(value, value) if name == "activation" else value
            elif get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1:
                values[field.alias or name] = field.default
        return {**values, **cls.written(body, heads, vocabularies)}

    @classmethod
    def _theirs(cls) -> dict[str, str]:
        return {ours: theirs for theirs, ours in reversed([*cls.activations.items()])}

    def table(self, layout: Layout) -> list[Entry]:
        """The tensors of the body ("body.*") and of the heads ("labels.*"), with the prefix."""
        lines: list[Entry] = []
        for ours, theirs in self.layers.items():
            prefix = self.prefix if ours.startswith("body.") else ""
            name, form, *also = (theirs, SAME) if isinstance(theirs, str) else theirs
            lines += layer(prefix + name, ours, form, *(prefix + other for other in also))
        by_name = {line.ours or line.theirs: line for line in (*lines, *self.further(layout))}
        parts = ("body", *layout.heads)
        depth = max(layout.body.num_layers, getattr(layout.body, "decoder_layers", None) or 0)
        return [
            line.numbered(number)
            for names, line in by_name.items()
            if not line.ours or names[0].partition(".")[0] in parts
            for number in range(depth if "*" in names[0] else 1)
        ]

    def output(self, layout: Layout, ours: str) -> list[Entry]:
        """The entry of a head's output matrix, if the model has the head; a tied matrix is not read."""
        is_there = ours.partition(".")[0] in layout.heads
        return [entry(self.tied_names[1], "" if layout.tied else ours)] if is_there else []

    @classmethod
    def check(cls, body: Any, heads: HeadNames) -> None:
        """Refuse a model of ours that the family cannot express.

        Raises:
            ConfigError: The message names the field.
        """
        if heads not in cls.architectures:
            raise ConfigError(f"{cls.model_type} has no model with {' and '.join(sorted(heads))}")
        if number := getattr(body, "d_features", 0):
            raise cls.lacks("d_features", number, "models that also read characters cannot be exported")
        for name, (value, why) in cls.expresses.items():
            if (chosen := getattr(body, name)) != value:
                raise cls.lacks(name, chosen, f"{why}; train with model.{name}={str(value).lower()}")
        for name, (value, why) in cls.excludes.items():
            if getattr(body, name) == value:
                raise cls.lacks(name, value, why)
        if cls.activations and body.activation not in cls._theirs():
            names = " or ".join(cls._theirs())
            raise cls.lacks("activation", body.activation, f"its feed-forward networks have no gate; use {names}")
        cls.refuse(body, heads)

    @classmethod
    def lacks(cls, name: str, value: Any, why: str) -> ConfigError:
        """The error about a field of our model that the family does not support."""
        return ConfigError(f"{cls.model_type} cannot express model.{name}={value}: {why}")

    @classmethod
    def heads_of(cls, architecture: str) -> HeadNames | None:
        """The heads of a class; None if the family lacks it."""
        return next((heads for heads, name in cls.architectures.items() if name == architecture), None)

    def tied(self, files: TensorFiles) -> bool:
        """True if the output layer uses the embedding table.

        This follows config.json, unless both tensors are there with different values, as in `transformers`.
        """
        table, output = self.tied_names
        if self.tie_word_embeddings and table in files and output in files:
            return torch.equal(files.read(table), files.read(output))
        return self.tie_word_embeddings
