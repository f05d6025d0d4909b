"""A checkpoint of the Hugging Face Hub: finding its folder, opening it, and its origin in an imported run.

`huggingface.json` of a run folder records the checkpoint from which the run, or its parent, was imported: the family,
the fields of the checkpoint's `config.json`, and by role the contents of the tokenizer files and a digest of the
tokens. An export writes the same tokenizer files if the tokens are still the imported ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import yaml
from typing_extensions import TypedDict

from heed.data.tokens.tokenizer import UNUSED, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.encoder_decoder import M2M100, Bart, Marian
from heed.exchange.huggingface.family import Family, Vocabularies
from heed.exchange.huggingface.files import CONFIG, TensorFiles, optional_json, read_json
from heed.exchange.huggingface.single_stack import Bert, DistilBert, Gpt2, Roberta, XlmRoberta
from heed.exchange.huggingface.vit import Deit, Vit
from heed.folder import ORIGIN
from heed.storage.disk import write_whole
from heed.storage.files import read_text, validated
from heed.visible import shell_word

FAMILIES: tuple[type[Family], ...] = (Bert, DistilBert, Roberta, XlmRoberta, Gpt2, Marian, M2M100, Bart, Vit, Deit)
"""By `model_type`. A run that was not imported is exported as the first that can express it."""


@dataclass(frozen=True)
class Checkpoint:
    """An opened folder."""

    folder: Path  # the folder of the checkpoint
    values: Mapping[str, Any]  # the contents of its `config.json`
    family: Family  # its fields that matter here, by our names, and the tables of tensors
    architecture: str  # the class of its model, such as "BertForMaskedLM"
    files: TensorFiles  # its tensors
    vocabularies: Vocabularies  # its tokenizers by role

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Open a folder.

        Raises:
            RunError: A file is missing or damaged.
            ConfigError: heed does not support its family or one of its fields.
        """
        _check_parts(folder)
        path = folder / CONFIG
        values, families = read_json(path), {family.model_type: family for family in FAMILIES}
        if (model_type := str(values.get("model_type"))) not in families:
            why = _REFUSED.get(model_type, "")
            raise ConfigError(f"{path}: model_type is '{model_type}'{why}; supported: {', '.join(families)}")
        family_class = families[model_type]
        files = TensorFiles(folder, family_class.ignored)
        files.with_prefix(family_class.prefix, family_class.head_names)
        family = family_class.read(path, values, largest=files.largest, tensors=len(files.names))
        if family.architecture is None:
            classes = " or ".join(dict.fromkeys(family.architectures.values()))
            raise ConfigError(f'{path} lacks "architectures", the class of its model; write a list with it: {classes}')
        if (expected := family.refused.get(family.architecture[0])) is not None:
            raise family.wrong("architectures", expected)
        opened = cls(folder, values, family, family.architecture[0], files, family.tokenizers(folder))
        for tokenizer in opened.tokenizers.values():
            if len(without := _without_token(tokenizer)) > _MAX_SHARE_WITHOUT * tokenizer.vocab_size:
                raise RunError(
                    f"{folder}: {len(without):,} of {tokenizer.vocab_size:,} rows of the embedding have no token: the "
                    "vocabulary is empty, cut short or of another checkpoint; fetch its files again"
                )
        return opened

    @property
    def tokenizers(self) -> Mapping[str, TextTokenizer]:
        """The tokenizers by role."""
        return {role: tokenizer for role, (tokenizer, _) in self.vocabularies.items()}

    @property
    def tokenizer(self) -> TextTokenizer:
        """The one tokenizer, of a family that has one."""
        (tokenizer,) = self.tokenizers.values()
        return tokenizer

    @cached_property
    def tied(self) -> bool:
        """True if the output layer uses the embedding table."""
        return self.family.tied(self.files)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the user should know of the tokens."""
        lines = []
        for tokenizer in self.tokenizers.values():
            if rows := _without_token(tokenizer):
                listed = f"{', '.join(map(str, rows[:_SHOWN]))}{', ...' if len(rows) > _SHOWN else ''}"
                lines.append(
                    f"{len(rows):,} of {tokenizer.vocab_size:,} rows of the embedding have no token ({listed}): the "
                    "vocabulary is shorter, or names a token twice"
                )
        return tuple(dict.fromkeys(lines))

    @property
    def licence(self) -> str | None:
        """The licence that its card, README.md, names; None if it has no card or names none."""
        path = self.folder / "README.md"
        try:
            head = re.match(r"---\n(.*?)\n---", read_text(path, links=True), re.DOTALL) if path.is_file() else None
            fields = yaml.safe_load(head[1]) if head else None
        except (RunError, yaml.YAMLError):
            return None
        licence = fields.get("license") if isinstance(fields, dict) else None
        return licence if isinstance(licence, str) and re.fullmatch(r"[\w.+-]{1,50}", licence) else None

    @property
    def labels(self) -> list[str]:
        """The names of the labels, in the order of their numbers (`id2label`).

        Labels of one name are numbered: ImageNet has "crane" twice, the second becomes "crane (2)".

        Raises:
            ConfigError: The numbers have gaps.
        """
        if (id2label := self.family.id2label) is None:
            return [f"LABEL_{i}" for i in range(self.family.num_labels)]
        labels = {int(i): str(name) for i, name in id2label.items()}
        if sorted(labels) != list(range(len(labels))):
            raise self.family.wrong("id2label", f"a name for each number from 0 to {len(labels) - 1}")
        names: dict[str, None] = {}
        for _, name in sorted(labels.items()):
            numbered = (f"{name} ({n})" for n in count(2) if f"{name} ({n})" not in labels.values())
            names[next(unique for unique in chain([name], numbered) if unique not in names)] = None
        return [*names]


_REFUSED = {"mbart": ", whose texts are read as X </s> lang, which heed does not support"}
"""Families that look like supported ones, and why they are not."""


def _without_token(tokenizer: TextTokenizer) -> list[int]:
    """The rows of the embedding that no token has."""
    return [i for i, token in enumerate(tokenizer.tokens) if token == UNUSED.format(i)]


_SHOWN = 5
"""Maximum number of rows that a remark lists."""
_MAX_SHARE_WITHOUT = 0.1
"""Largest share of rows without a token: tables are padded by some rows, files that were cut short lack more."""


class _Vocabulary(TypedDict):
    files: dict[str, Any]  # what `read_tokenizer` gave; empty for a tokenizer that needs nothing
    tokens: str  # a digest


@dataclass(frozen=True)
class Origin:
    """Record in a run folder of the checkpoint that it was imported from."""

    source: str  # name of the checkpoint or of its folder
    family: str  # its `model_type`
    architecture: str  # the class of its model
    settings: dict[str, Any]  # the fields of its `config.json`
    vocabularies: dict[str, _Vocabulary]  # by role
    licence: str | None = None  # of the checkpoint, which also holds for what is trained from it
    format: Literal[3] = 3

    @classmethod
    def of(cls, checkpoint: Checkpoint, source: str) -> Origin:
        """The record of an opened checkpoint."""
        vocabularies: dict[str, _Vocabulary] = {
            role: {"files": dict(files), "tokens": digest(tokenizer)}
            for role, (tokenizer, files) in checkpoint.vocabularies.items()
        }
        model_type = checkpoint.family.model_type
        return cls(
            source, model_type, checkpoint.architecture, dict(checkpoint.values), vocabularies, checkpoint.licence
        )

    @classmethod
    def read(cls, folder: Path) -> Origin | None:
        """The record of a run folder; None if neither the run nor its parent was imported.

        Raises:
            RunError: The file is damaged or has another format; the message says how to make it again.
        """
        path = folder / ORIGIN
        if not os.path.isfile(path):
            return None
        source = shell_word(str(read_json(path).get("source", "SOURCE")))
        try:
            origin = validated(path, read_text(path), cls)
            if any(v["files"] and "state" not in v["files"] for v in origin.vocabularies.values()):
                raise RunError(f"{path} is damaged: it lacks the state of a tokenizer")
            return origin
        except RunError as error:
            raise RunError(f"{error}; or import the checkpoint again: heed import {source} --out FOLDER") from None

    def write(self, folder: Path) -> None:
        """Write it into a run folder."""
        text = json.dumps(vars(self), ensure_ascii=False) + "\n"
        write_whole(folder / ORIGIN, lambda part: part.write_text(text, encoding="utf-8"))

    def files_of(self, tokenizer: TextTokenizer) -> Mapping[str, Any] | None:
        """The contents of a tokenizer's files; None if its tokens are not the imported ones."""
        tokens = digest(tokenizer)
        return next((v["files"] for v in self.vocabularies.values() if v["tokens"] == tokens), None)


def digest(tokenizer: TextTokenizer) -> str:
    """A hash of a tokenizer's tokens, in order."""
    text = "\n".join(tokenizer.tokens)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_ADAPTER = "adapter_config.json"


def _check_parts(folder: Path) -> None:
    """Refuse folders of `peft` and of the `Trainer` that have a part of a model, or several models.

    Raises:
        RunError: The message says how to make a whole model, or which ones there are to import.
    """
    has_model = any(any(folder.glob(pattern)) for pattern in _TENSORS)
    if (adapter := optional_json(folder / _ADAPTER)) is not None:
        raise RunError(
            f"{folder} is an adapter of {adapter.get('base_model_name_or_path') or 'another model'}, no whole model: "
            "merge them with merge_and_unload() of the library peft, save model and tokenizer, and import that folder; "
            f"or remove {_ADAPTER}, if the tensors beside it are merged already"
        )
    steps = sorted((p for p in folder.glob("checkpoint-*") if p.name[11:].isdecimal()), key=lambda p: int(p.name[11:]))
    if steps and not has_model:
        raise RunError(
            f"{folder} is a Trainer's output folder without a model of its own; it has "
            f"{', '.join(path.name for path in steps)}; import the newest, or the best by its trainer_state.json: heed "
            f"import {shell_word(steps[-1])}"
        )


_NAME = re.compile(r"(?:[\w.-]+/)?[\w.-]+")
_FILES = ("*.json", "*.txt", "*.model", "*.spm", "README.md")
"""Configuration, tokenizers, and the card with the licence; of a *.model `transformers` makes tokenizer.json."""
_TENSORS = ("model*.safetensors", "pytorch_model*.bin")
"""Files of tensors, in order of preference."""


def find_checkpoint(source: str | Path) -> tuple[Path, str]:
    """The folder of a checkpoint, and a description of where it was found.

    Args:
        source: A folder, or a name on the Hub, such as "google-bert/bert-base-uncased".

    Raises:
        RunError: The checkpoint was not found, or the download failed.
        ConfigError: It is a name, and huggingface_hub is not installed.
    """
    path = Path(source)
    if os.path.isdir(path):
        return path, f"folder {path}"
    if os.path.exists(path):
        raise RunError(f"{path} is a file; a checkpoint is a folder with {CONFIG}, tensors and a tokenizer")
    name = str(source)
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise RunError(f"no folder '{source}'")
    try:
        from huggingface_hub import constants, list_repo_files, snapshot_download
    except ImportError:
        raise ConfigError(
            f"no folder '{name}'; to find checkpoints of the Hugging Face Hub by name: pip install -e '.[hf]'"
        ) from None
    with suppress(OSError, ValueError):  # it is not there, or the name may be none of the Hub's
        copy = Path(snapshot_download(name, local_files_only=True))
        if (copy / CONFIG).is_file() and any(any(copy.glob(pattern)) for pattern in _TENSORS):
            return copy, f"{name} in the cache of the Hugging Face Hub, {copy}"
    try:
        safe = any(file.endswith(".safetensors") and "/" not in file for file in list_repo_files(name))
        copy = Path(snapshot_download(name, allow_patterns=[*_FILES, _TENSORS[0 if safe else 1]]))
    except Exception as error:  # of the network, the library's own and others
        problem = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
        raise RunError(
            f"no folder '{name}', it is not in the cache of the Hugging Face Hub ({constants.HF_HUB_CACHE}), and it "
            f"could not be downloaded: {problem}"
        ) from None
    return copy, f"{name}, downloaded from the Hugging Face Hub"
