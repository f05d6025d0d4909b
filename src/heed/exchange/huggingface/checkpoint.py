"""A checkpoint of the Hugging Face Hub: finding its folder, opening it, and its origin in an imported run.

`huggingface.json` of a run folder records the checkpoint from which the run, or its parent, was imported: the family,
the fields of the checkpoint's `config.json`, and by role what the tokenizer files said, with a digest of its tokens.
An export writes the same tokenizer files if the tokens are still the imported ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from heed.data.tokens.tokenizer import UNUSED, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.bert import Bert, DistilBert, Roberta, XlmRoberta
from heed.exchange.huggingface.family import Family, Vocabularies
from heed.exchange.huggingface.files import CONFIG, Settings, TensorFiles, listed, optional_json, read_json
from heed.exchange.huggingface.gpt2 import Gpt2
from heed.exchange.huggingface.marian import Marian
from heed.exchange.huggingface.vit import Deit, Vit
from heed.folder import ORIGIN
from heed.storage.disk import write_whole
from heed.visible import escaped, shell_word

FAMILIES = (Bert(), DistilBert(), Roberta(), XlmRoberta(), Gpt2(), Marian(), Vit(), Deit())
"""By `model_type`. A run that was not imported is exported as the first that can express it."""


@dataclass(frozen=True)
class Checkpoint:
    """An opened folder."""

    folder: Path  # the folder of the checkpoint
    settings: Settings  # its `config.json`
    family: Family  # the family, which knows the body
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
        settings = Settings.read(folder / CONFIG)
        family: Family = settings.one_of("model_type", {family.model_type: family for family in FAMILIES})
        family.accept(settings)
        files = TensorFiles(folder, family.ignored)
        files.with_prefix(family.prefix, family.head_names)
        settings.most = files.most
        architecture = _architecture(settings, family, files)
        opened = cls(folder, settings, family, architecture, files, family.tokenizers(folder, settings))
        for tokenizer in opened.tokenizers.values():
            if len(without := _without_token(tokenizer)) > _MOST_WITHOUT * tokenizer.vocab_size:
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
        return self.family.tied(self.settings, self.files)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the user should know of the tokens and labels."""
        lines = []
        if parts := self.files.wrappers:
            lines.append(f"left out of the names of tensors: {'., '.join(parts)}. (of DataParallel or torch.compile)")
        for tokenizer in self.tokenizers.values():
            if rows := _without_token(tokenizer):
                shown = f"{', '.join(map(str, rows[:_SHOWN]))}{', ...' if len(rows) > _SHOWN else ''}"
                lines.append(
                    f"{len(rows):,} of {tokenizer.vocab_size:,} rows of the embedding have no token ({shown}): the "
                    "vocabulary is shorter, or names a token twice"
                )
        if self.architecture.endswith("Classification"):
            names = {*map(str, self.settings.get("id2label", {}).values())}
            if new := [escaped(label) for label in self.labels if names and label not in names]:
                lines.append(f"labels of equal names are numbered: {', '.join(new[:_SHOWN])}")
        return tuple(dict.fromkeys(lines))

    @property
    def labels(self) -> list[str]:
        """The names of the labels, in the order of their numbers (`id2label`).

        Labels of one name are numbered: ImageNet has "crane" twice, the second becomes "crane (2)".

        Raises:
            ConfigError: The numbers have gaps.
        """
        settings = self.settings
        named = settings.get("id2label", None)
        if named is None:
            return [f"LABEL_{i}" for i in range(settings.count("num_labels", 2))]
        if not isinstance(named, dict) or not all(re.fullmatch("[0-9]{1,9}", i) for i in named):
            raise settings.wrong("id2label", "the name of each label by its number")
        labels = {int(i): str(name) for i, name in named.items()}
        if sorted(labels) != list(range(len(labels))):
            raise settings.wrong("id2label", f"a name for each number from 0 to {len(labels) - 1}")
        names: dict[str, int] = {}
        others, numbers = {*labels.values()}, Counter[str]()
        for i, name in sorted(labels.items()):
            unique = name
            while unique in names or (unique != name and unique in others):
                numbers[name] += 1
                unique = f"{name} ({numbers[name] + 1})"
            names[unique] = i
        return [*names]


def _without_token(tokenizer: TextTokenizer) -> list[int]:
    """The rows of the embedding that no token has."""
    return [i for i, token in enumerate(tokenizer.tokens) if token == UNUSED.format(i)]


def _architecture(settings: Settings, family: Family, files: TensorFiles) -> str:
    """The class of the model; derived from the tensors if the file does not name it."""
    named = settings.get("architectures", None)
    if named is None:
        guess, some = family.guess(files), (family.prefix, *family.head_names)
        unsure = [name for name in files.names if not name.startswith(some) or name.startswith(family.unguessed)]
        kinds = family.architectures.items() if any(name.startswith(family.unguessed) for name in unsure) else ()
        classes = [name for heads, name in kinds if heads & {"labels", "tags"}]
        if unsure:
            raise ConfigError(
                f'{settings.path} lacks "architectures", the class of model that {listed(unsure)} are of; write into '
                f'it "architectures": {" or ".join(f"""["{name}"]""" for name in (*classes, guess))}, the last without '
                "these tensors"
            )
        return guess
    if not isinstance(named, list) or not named or not all(isinstance(name, str) for name in named):
        raise settings.wrong("architectures", "a list of one class name")
    if len(named) > 1:
        raise ConfigError(f"{settings.path}: architectures are {', '.join(named)}; heed reads checkpoints with one")
    return str(named[0])


_SHOWN = 5
"""Most rows and labels that a remark lists."""
_MOST_WITHOUT = 0.1
"""Largest share of rows without a token: tables are padded by some rows, files that were cut short lack more."""
_FORMAT = 3


@dataclass(frozen=True)
class Origin:
    """Record in a run folder of the checkpoint that it was imported from."""

    source: str  # name of the checkpoint or of its folder
    family: str  # its `model_type`
    architecture: str  # the class of its model
    settings: Mapping[str, Any]  # the fields of its `config.json`
    vocabularies: Mapping[str, Mapping[str, Any]]  # by role, what its "files" said and a digest of the "tokens"

    @classmethod
    def of(cls, checkpoint: Checkpoint, source: str) -> Origin:
        """The record of an opened checkpoint."""
        settings, sides = checkpoint.settings, checkpoint.vocabularies.items()
        vocabularies = {role: {"files": files, "tokens": digest(tokenizer)} for role, (tokenizer, files) in sides}
        return cls(source, checkpoint.family.model_type, checkpoint.architecture, settings.values, vocabularies)

    @classmethod
    def read(cls, folder: Path) -> Origin | None:
        """The record of a run folder; None if neither the run nor its parent was imported.

        Raises:
            RunError: The file is damaged or has another format; the message says how to make it again.
        """
        path = folder / ORIGIN
        if not os.path.isfile(path):
            return None
        values = read_json(path)
        again = (
            f"import the checkpoint again: heed import {shell_word(str(values.get('source', 'SOURCE')))} --out FOLDER"
        )
        if (form := values.get("format")) != _FORMAT:
            raise RunError(f"{path} has format {form}, this version of heed reads format {_FORMAT}; {again}")
        try:
            vocabularies: dict[str, dict[str, Any]] = {
                role: {"files": dict(vocabulary["files"]), "tokens": str(vocabulary["tokens"])}
                for role, vocabulary in values["vocabularies"].items()
            }
            _ = [vocabulary["files"]["state"] for vocabulary in vocabularies.values() if vocabulary["files"]]
            source, family, architecture = (str(values[name]) for name in ("source", "family", "architecture"))
            return cls(source, family, architecture, dict(values["settings"]), vocabularies)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            lacks = "it lacks " * isinstance(error, KeyError)
            raise RunError(f"{path} is damaged: {lacks}{error}; {again}") from None

    def write(self, folder: Path) -> None:
        """Write it into a run folder."""
        text = json.dumps({"format": _FORMAT, **vars(self)}, ensure_ascii=False) + "\n"
        write_whole(folder / ORIGIN, lambda part: part.write_text(text, encoding="utf-8"))

    def files_of(self, tokenizer: TextTokenizer) -> Mapping[str, Any] | None:
        """What the files of a tokenizer said; None if its tokens are not the imported ones."""
        tokens = digest(tokenizer)
        return next((known["files"] for known in self.vocabularies.values() if known["tokens"] == tokens), None)


def digest(tokenizer: TextTokenizer) -> str:
    """A hash of a tokenizer's tokens, in order."""
    text = "\n".join(tokenizer.tokens)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_KINDS = {"SEQ_CLS": "ForSequenceClassification", "TOKEN_CLS": "ForTokenClassification", "CAUSAL_LM": "ForCausalLM"}
"""The ending of the class of a base model by the `task_type` of its adapter."""
_ADAPTER, _STATE = "adapter_config.json", "trainer_state.json"


def _check_parts(folder: Path) -> None:
    """Refuse folders of `peft` and of the `Trainer` that have a part of a model, or several models.

    Raises:
        RunError: The message says how to make a whole model, or which one to import.
    """
    has_model = any(any(folder.glob(pattern)) for pattern in _TENSORS)
    if (adapter := optional_json(folder / _ADAPTER)) is not None:
        base, merged = adapter.get("base_model_name_or_path") or "BASE", f"{folder.resolve().name}-merged"
        auto, kind = adapter.get("auto_mapping"), f"AutoModel{_KINDS.get(str(adapter.get('task_type')), '')}"
        kind = auto.get("base_model_class", kind) if isinstance(auto, dict) else kind
        count = _labels_of(folder / "adapter_model.safetensors")
        tokenizer = str(folder) if (folder / "tokenizer_config.json").exists() else base
        place, to, of, part = map(json.dumps, (base, merged, tokenizer, str(folder)))
        code = (
            f"from peft import PeftModel; from transformers import {kind}, AutoTokenizer; "
            f"base = {kind}.from_pretrained({place}{f', num_labels={count}' if count else ''}); "
            f"model = PeftModel.from_pretrained(base, {part}).merge_and_unload(); model.save_pretrained({to}); "
            f"AutoTokenizer.from_pretrained({of}).save_pretrained({to})"
        )
        other = f"; or remove {_ADAPTER}, if the tensors beside it are merged already" if has_model else ""
        raise RunError(
            f"{folder} is a {adapter.get('peft_type', 'LORA')} adapter of {base}, not a whole model; merge them: "
            f"python -c {shell_word(code)} && heed import {shell_word(merged)}{other}"
        )
    steps = sorted((p for p in folder.glob("checkpoint-*") if p.name[11:].isdecimal()), key=lambda p: int(p.name[11:]))
    if steps and not has_model:
        states = [optional_json(place / _STATE) or {} for place in (folder, steps[-1])]
        best = [folder / Path(str(state.get("best_model_checkpoint"))).name for state in states]
        chosen = next((path for path in best if path in steps), None)
        raise RunError(
            f"{folder} is a Trainer's output folder without a model of its own; it has "
            f"{', '.join(path.name for path in steps)}; import the {f'best by {_STATE}' if chosen else 'newest'}: heed "
            f"import {shell_word(chosen or steps[-1])}"
        )


def _labels_of(path: Path) -> int:
    """The number of labels of a classifier among an adapter's tensors; 0 if it has none."""
    with suppress(SafetensorError, OSError), safe_open(str(path), "pt") as held:
        heads = (name for name in held.keys() if re.search(r"(classifier|score)(\.out_proj)?\.weight$", name))
        return next((held.get_slice(name).get_shape()[0] for name in heads), 0)
    return 0


_NAME = re.compile(r"(?:[\w.-]+/)?[\w.-]+")
_FILES = ("*.json", "*.txt", "*.model", "*.spm")
"""Configuration and tokenizers; of a *.model `transformers` makes tokenizer.json."""
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
        from huggingface_hub.errors import LocalEntryNotFoundError
    except ImportError:
        raise ConfigError(
            f"no folder '{name}'; to find checkpoints of the Hugging Face Hub by name: pip install -e '.[hf]'"
        ) from None
    with suppress(LocalEntryNotFoundError, ValueError):  # the name may be none of the Hub's
        copy = Path(snapshot_download(name, local_files_only=True))
        if (copy / CONFIG).is_file() and any(any(copy.glob(pattern)) for pattern in _TENSORS):
            return copy, f"{name} in the cache of the Hugging Face Hub, {copy}"
    try:
        files = list_repo_files(name)
        safe = any(file.endswith(".safetensors") and "/" not in file for file in files)
        tensors = _TENSORS[0] if safe else _TENSORS[1]
        copy = Path(snapshot_download(name, allow_patterns=[*_FILES, tensors]))
    except Exception as error:  # of the network, the library's own and others
        problem = f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
        raise RunError(
            f"no folder '{name}', it is not in the cache of the Hugging Face Hub ({constants.HF_HUB_CACHE}), and it "
            f"could not be downloaded: {problem}"
        ) from None
    return copy, f"{name}, downloaded from the Hugging Face Hub"
