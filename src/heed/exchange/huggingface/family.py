"""What a family of checkpoints (one `model_type` of config.json) is to heed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from heed.data.tokens.tokenizer import TextTokenizer
from heed.exchange.huggingface.config_file import Settings
from heed.exchange.huggingface.numbering import Numbering
from heed.exchange.huggingface.table import Entry
from heed.exchange.huggingface.tensors import TensorFiles
from heed.exchange.huggingface.tokenizers import read_tokenizer, write_tokenizer
from heed.models.base import ModelConfig

Vocabularies = Mapping[str, tuple[TextTokenizer, Numbering]]
"""By role ("tokens", or "source" and "target"): a tokenizer, and where its tokens stand in the checkpoint."""


class Family(ABC):
    """How checkpoints of a `model_type` become one of our models, and the other way round."""

    model_type: ClassVar[str]
    """As config.json has it."""
    model: ClassVar[str]
    """Name of our model."""
    prefix: ClassVar[str]
    """Before the names of the body's tensors in a model with a head, as "bert."."""
    architectures: ClassVar[Mapping[frozenset[str], str]]
    """By the heads ("words", "order", "labels", "tags", "output"; none: the body alone) the class that has them."""
    head_names: ClassVar[tuple[str, ...]] = ()
    """What the names of tensors of the heads begin with."""
    tied_names: ClassVar[tuple[str, str]] = ("", "")
    """The table of embeddings and the matrix of the output layer, which is absent where it is the same."""
    accepts: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Fields of config.json that must have one of these values where they are there: others change what the model
    computes, and we lack them."""
    label_bias: ClassVar[bool] = True
    """Whether the layer over the labels of a text has a bias."""
    ignored: ClassVar[tuple[str, ...]] = ()
    """Regular expressions of names of tensors that hold nothing learned, as "position_ids"."""

    @abstractmethod
    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        """Fields of our model, without the vocabulary's size.

        Raises:
            ConfigError: It names the field of config.json that we lack.
        """

    @abstractmethod
    def table(
        self,
        settings: Settings,
        body: ModelConfig,
        heads: frozenset[str],
        vocabularies: Vocabularies,
        tied: bool = True,
    ) -> Sequence[Entry]:
        """The tensors of the body ("body.*") and of the heads ("labels.*"), with the prefix.

        Args:
            settings: The checkpoint's `config.json`; when one is written, what `settings` gave.
            body: The configuration of our model.
            heads: What stands on the body.
            vocabularies: The tokenizers and their numberings.
            tied: Whether the output layer is the table of embeddings, and therefore has no matrix of its own.
        """

    @abstractmethod
    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        """Fields of config.json for one of our models, without `architectures` and `model_type`.

        Raises:
            ConfigError: It names the field of our model that the family cannot express.
        """

    def complete_names(self, files: TensorFiles) -> None:
        """Give the tensors of the body their prefix where a checkpoint of the body alone has none."""
        files.with_prefix(self.prefix, self.head_names)

    def guess(self, files: TensorFiles) -> str:
        """The architecture of a checkpoint whose configuration does not name it: the body alone, by default."""
        return self.architectures[frozenset()]

    def tied(self, settings: Settings, files: TensorFiles) -> bool:
        """Whether the output layer is the table of embeddings.

        As config.json says; but where both are there with different values, they are two, as `transformers` reads them.
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
        for tokenizer, numbering in vocabularies.values():
            write_tokenizer(tokenizer, numbering, folder, self.model_type)
