"""Finding a checkpoint: in a folder, in the user's cache of the Hugging Face Hub, or on the Hub."""

from __future__ import annotations

import os
import re
from pathlib import Path

from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.config_file import CONFIG

_NAME = re.compile(r"(?:[\w.-]+/)?[\w.-]+")
_FILES = ("*.json", "*.txt", "*.model", "*.spm")
"""Configuration and tokenizers."""
_TENSORS = ("model*.safetensors", "pytorch_model*.bin")
"""Files of tensors, in order of preference."""


def find_checkpoint(source: str | Path) -> tuple[Path, str]:
    """The folder of a checkpoint, and a description of where it was found.

    Args:
        source: A folder, or a name on the Hub, such as "google-bert/bert-base-uncased".

    Raises:
        RunError: The checkpoint was not found, or the download failed.
        ConfigError: It would have to be downloaded, and huggingface_hub is not installed.
    """
    path = Path(source)
    if path.is_dir():
        return path, f"folder {path}"
    if path.exists():
        raise RunError(f"{path} is a file; a checkpoint is a folder with {CONFIG}, tensors and a tokenizer")
    name = str(source)
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise RunError(f"no folder '{source}'")
    if (found := _cached(name)) is not None:
        return found, f"{name} in the cache of the Hugging Face Hub, {found}"
    return _download(name), f"{name}, downloaded from the Hugging Face Hub"


def cache_folder() -> Path:
    """The user's cache of the Hub, by the variables that huggingface_hub reads."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if given := os.environ.get(variable):
            return Path(given).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    return Path(os.environ.get("HF_HOME", cache / "huggingface")).expanduser() / "hub"


def _cached(name: str) -> Path | None:
    """The newest download of a checkpoint, if its configuration and tensors are there."""
    folder = cache_folder() / f"models--{name.replace('/', '--')}"
    try:
        revision = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    snapshot = folder / "snapshots" / revision
    whole = (snapshot / CONFIG).is_file() and any(any(snapshot.glob(pattern)) for pattern in _TENSORS)
    return snapshot if whole else None


def _download(name: str) -> Path:
    try:
        from huggingface_hub import list_repo_files, snapshot_download
    except ImportError:
        raise ConfigError(
            f"no folder '{name}', and it is not in the cache of the Hugging Face Hub ({cache_folder()}); to download "
            "checkpoints by name: pip install 'heed-attention[hf]'"
        ) from None
    try:
        files = list_repo_files(name)
        safe = any(file.endswith(".safetensors") and "/" not in file for file in files)
        tensors = _TENSORS[0] if safe else _TENSORS[1]
        return Path(snapshot_download(name, allow_patterns=[*_FILES, tensors]))
    except Exception as error:  # of the network, the library's own and others
        raise RunError(
            f"no folder '{name}', it is not in the cache of the Hugging Face Hub ({cache_folder()}), and it could not "
            f"be downloaded: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        ) from None
