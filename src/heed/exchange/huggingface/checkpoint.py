"""An opened checkpoint: folder, configuration, tensors, tokenizers, and its family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.config_file import CONFIG, Settings
from heed.exchange.huggingface.families import family_of
from heed.exchange.huggingface.family import Family, Vocabularies
from heed.exchange.huggingface.tensors import TensorFiles


@dataclass(frozen=True)
class Checkpoint:
    """An opened folder.

    Attributes:
        folder: The folder of the checkpoint.
        settings: Its `config.json`.
        family: The family, which knows the body.
        architecture: The class of its model, such as "BertForMaskedLM".
        files: Its tensors.
        vocabularies: Its tokenizers with their numbering, by role.
    """

    folder: Path
    settings: Settings
    family: Family
    architecture: str
    files: TensorFiles
    vocabularies: Vocabularies

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Open a folder.

        Raises:
            RunError: A file is missing or damaged.
            ConfigError: heed does not support its family or one of its fields.
        """
        settings = Settings.read(folder / CONFIG)
        family = family_of(settings)
        settings.accept({"quantization_config": (None,), **family.accepts})
        files = TensorFiles(folder, family.ignored)
        family.complete_names(files)
        architecture = _architecture(settings, family, files)
        vocabularies = family.tokenizers(folder, settings)
        assert all(len(numbering) == one.vocab_size for one, numbering in vocabularies.values())
        return cls(folder, settings, family, architecture, files, vocabularies)

    @property
    def tokenizers(self) -> Mapping[str, TextTokenizer]:
        """The tokenizers by role."""
        return {role: tokenizer for role, (tokenizer, _) in self.vocabularies.items()}

    @property
    def tokenizer(self) -> TextTokenizer:
        """The one tokenizer, of a family that has one."""
        (tokenizer,) = self.tokenizers.values()
        return tokenizer

    @property
    def labels(self) -> list[str]:
        """The names of the labels, in the order of their numbers (`id2label`).

        Raises:
            ConfigError: The numbers have gaps, or two labels have one name.
        """
        settings = self.settings
        named = settings.get("id2label", None)
        if named is None:
            return [f"LABEL_{i}" for i in range(settings.count("num_labels", 2))]
        if not isinstance(named, dict) or not all(str(i).isdecimal() for i in named):
            raise settings.wrong("id2label", "the name of each label by its number")
        labels = {int(i): str(name) for i, name in named.items()}
        if sorted(labels) != list(range(len(labels))):
            raise settings.wrong("id2label", f"a name for each number from 0 to {len(labels) - 1}")
        if len(set(labels.values())) != len(labels):
            raise settings.wrong("id2label", "a different name for each label")
        return [labels[i] for i in range(len(labels))]


def _architecture(settings: Settings, family: Family, files: TensorFiles) -> str:
    """The class of the model; derived from the tensors if the file does not name it."""
    named = settings.get("architectures", None)
    if named is None:
        return family.guess(files)
    if not isinstance(named, list) or not named or not all(isinstance(one, str) for one in named):
        raise settings.wrong("architectures", "a list of one class name")
    if len(named) > 1:
        raise ConfigError(f"{settings.path}: architectures are {', '.join(named)}; heed reads checkpoints with one")
    return str(named[0])
