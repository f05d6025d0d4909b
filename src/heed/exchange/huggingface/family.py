"""Base of families of checkpoints (one `model_type` of config.json)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch

from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.files import Entry, Settings, TensorFiles
from heed.exchange.huggingface.tokenizers import read_tokenizer, write_tokenizer
from heed.models.base import ModelConfig

Vocabularies = Mapping[str, tuple[TextTokenizer, Mapping[str, Any]]]
"""By role ("tokens", or "source" and "target") a tokenizer, and what its family needs to write its files again."""


class Wanted(NamedTuple):
    """The checkpoint that a table of tensors is for."""

    settings: Settings  # its `config.json`; when one is written, what `Family.settings` gave
    body: ModelConfig  # the configuration of our model
    heads: frozenset[str]  # of the model
    vocabularies: Vocabularies
    tied: bool = True  # the output layer uses the embedding table and has no matrix of its own


_USUAL = {
    "attention_dropout": "dropout",
    "decoder_layers": "num_layers",
    "decoder_heads": "num_heads",
    "decoder_d_ff": "d_ff",
}
"""Fields of our models that are as another one if they are null."""


class Family(ABC):
    """Conversion between checkpoints of a `model_type` and one of our models."""

    model_type: ClassVar[str]
    """`model_type` in config.json."""
    model: ClassVar[str]
    """Name of our model."""
    names: ClassVar[Mapping[str, tuple[str, Any]]]
    """Fields of our model that config.json has under another name, with that name and its default there."""
    prefix: ClassVar[str]
    """Prefix of the names of the body's tensors in a model with a head, such as "bert."."""
    architectures: ClassVar[Mapping[frozenset[str], str]]
    """By the heads ("words", "order", "labels", "tags", "output"; none: the body alone) the class that has them."""
    head_names: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the names of the heads' tensors."""
    unguessed: ClassVar[tuple[str, ...]] = ()
    """Those of them by which `guess` does not know the class."""
    tied_names: ClassVar[tuple[str, str]] = ("", "")
    """The names of the embedding table and of the output matrix, which is absent if it is the same."""
    accepts: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Fields of config.json that must have one of these values where they are there: others change what the model
    computes, and we lack them."""
    label_bias: ClassVar[bool] = True
    """True if the output layer for a text's label has a bias."""
    ignored: ClassVar[tuple[str, ...]] = ()
    """Regular expressions of names of tensors without learned values, such as "position_ids"."""
    expresses: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    """Fields of our model of which the family knows one value only, with that value and why."""

    @abstractmethod
    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        """Fields of our model, without the vocabulary's size.

        Raises:
            ConfigError: A field of config.json is not supported; the message names it.
        """

    @abstractmethod
    def table(self, wanted: Wanted) -> Sequence[Entry]:
        """The tensors of the body ("body.*") and of the heads ("labels.*"), with the prefix."""

    def check(self, body: ModelConfig, heads: frozenset[str]) -> None:
        """Refuse a model of ours that the family cannot express.

        Raises:
            ConfigError: The message names the field.
        """
        if heads not in self.architectures:
            raise ConfigError(f"{self.model_type} has no model with {' and '.join(sorted(heads))}")
        if number := getattr(body, "d_features", 0):
            raise self.lacks("d_features", number, "models that also read characters cannot be exported")
        for name, (value, why) in self.expresses.items():
            if (own := getattr(body, name)) != value:
                raise self.lacks(name, own, f"{why}; train with model.{name}={str(value).lower()}")

    @abstractmethod
    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        """Fields of config.json for one of our models that passes `check`, without `architectures`, `model_type`."""

    def named_fields(self, settings: Settings) -> dict[str, Any]:
        """The fields of our model that `names` lists."""
        read: dict[type, Callable[[str, Any], Any]]
        read = {int: settings.count, float: settings.number, bool: settings.flag, type(None): settings.count}
        return {ours: read[type(default)](theirs, default) for ours, (theirs, default) in self.names.items()}

    def named_settings(self, body: ModelConfig) -> dict[str, Any]:
        """The fields of config.json that `names` lists."""
        values = {ours: getattr(body, ours) for ours in self.names}
        usual = {name: getattr(body, _USUAL.get(name, name)) for name in self.names}
        return {self.names[name][0]: usual[name] if one is None else one for name, one in values.items()}

    def lacks(self, name: str, value: Any, why: str) -> ConfigError:
        """The error about a field of our model that the family does not support."""
        return ConfigError(f"{self.model_type} cannot express model.{name}={value}: {why}")

    def guess(self, files: TensorFiles) -> str:
        """The architecture of a checkpoint whose configuration does not name it: the body alone, by default."""
        return self.architectures[frozenset()]

    def tied(self, settings: Settings, files: TensorFiles) -> bool:
        """True if the output layer uses the embedding table.

        This follows config.json, unless both tensors are there with different values, as in `transformers`.
        """
        said = settings.flag("tie_word_embeddings", True)
        table, output = self.tied_names
        if said and table in files and output in files:
            return torch.equal(files.read(table), files.read(output))
        return said

    def tokenizers(self, folder: Path, settings: Settings) -> Vocabularies:
        """The tokenizers of a checkpoint, by role."""
        return {"tokens": read_tokenizer(folder, settings.values)}

    def write_tokenizers(self, vocabularies: Vocabularies, folder: Path) -> None:
        """Write the tokenizer files of a checkpoint."""
        for tokenizer, files in vocabularies.values():
            write_tokenizer(tokenizer, files, folder, self.model_type)
