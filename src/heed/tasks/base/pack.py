"""Runs packed into one zip file to hand over, without what only resuming needs and without paths of this machine.

The zip file has one folder with the sealed files of the run and `metrics.jsonl`; checkpoints and exports stay behind.
Paths of data files and parents are reduced to the last part in `config.yaml`, `data.json`, `report.json` and
`huggingface.json`, as is any other path of the home folder there; `README.md` begins with the command that uses the
zip file. What was learned (weights, tokenizers, labels) is copied byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from heed import folder as folders
from heed.config import config_text, data_files
from heed.errors import ConfigError, RunError
from heed.storage.archive import write_archive
from heed.storage.files import CHECKSUMS, read_bytes, read_object, read_text, recorded
from heed.tasks import check_config, spec_of
from heed.tasks.base.task import DATA
from heed.visible import code_span, shell_word

CARD = "README.md"
_COMMANDS = re.compile(r"Commands, to run in .*?\n```\n.*?\n```\n", re.DOTALL)
_USE = "To use this model"
_OF_A_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(json|safetensors)|curves\.svg")
"""Names of the sealed files that are copied; others in a run folder are the user's own."""
_ODD = re.compile(r"^\.|[\\:\x00-\x1f]")
"""What the name of a folder in a zip file must not have."""
_MOST_METRICS = 1 << 32
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[/\\]|\\\\")
_HOME = re.compile(re.escape(str(Path.home())) + r"[/\\](?:[^/\\\s'\"]+[/\\])*")


@dataclass(frozen=True)
class Packed:
    """A packed run."""

    path: Path  # the zip file
    size: int  # its bytes
    use: str  # the command that uses it

    def __str__(self) -> str:
        return f"wrote {self.path} ({self.size / 2**20:,.1f} MiB)\nto use it: {self.use}"


def pack(run: Any = "last", out: str | Path | None = None) -> Packed:
    """Write a finished run as one zip file, which every command, `heed.load` and `--from` take in place of its folder.

    Args:
        run: A run, its folder, or "last".
        out: The zip file; the folder's name and `.zip`, in the current folder, by default.

    Raises:
        RunError: The run has not finished or a file of it is damaged, or the zip file exists.
        ConfigError: An ensemble, which has no folder of its own; or `out` does not end in .zip.
        DiskError: The disk is full or writing fails.
    """
    if len(getattr(run, "members", ())) > 1:
        raise ConfigError("an ensemble cannot be packed; pack each of its runs, and open them with heed.ensemble")
    folder = folders.find(getattr(run, "folder", run), folders.State.FINISHED)
    folders.check_format(folder)
    folders.check_finished(folder)
    folders.verify(folder, force=None)
    name = _ODD.sub("_", folder.resolve().name.encode(errors="replace").decode())[:200]
    final = Path(f"{name}.zip" if out is None else out)
    if not folders.is_packed_name(final):
        raise ConfigError(f"--out is '{final}', expected a name that ends in .zip")
    if final.exists():
        raise RunError(f"'{final}' already exists and is never overwritten; give another --out")
    task, content = _without_paths(folder)
    uses = [with_file(use).format(run=shell_word(Path(final.name))) for use in spec_of(task).uses]
    content[CARD] = _card(read_text(folder / CARD) if (folder / CARD).is_file() else "", uses)
    data = {file: text.encode() for file, text in content.items()}
    sealed = recorded(folder) or {}
    kept = {file: one for file, one in sealed.items() if _OF_A_RUN.fullmatch(file) and file not in data}
    seal = {**kept, **{file: _checksum(one) for file, one in data.items()}}
    data[CHECKSUMS] = (json.dumps(dict(sorted(seal.items())), indent=1) + "\n").encode()
    if (folder / folders.METRICS).exists():
        data[folders.METRICS] = read_bytes(folder / folders.METRICS, _MOST_METRICS)
    write_archive(final, name, {**{file: folder / file for file in kept}, **data})
    return Packed(final, final.stat().st_size, uses[0])


def _without_paths(folder: Path) -> tuple[str, dict[str, str]]:
    """The task of a run, and its files that name other files, as texts without the folders of these."""
    config = check_config(*folders.read_settings(folder))
    written = (file for file in (folders.REPORT, DATA, folders.ORIGIN) if (folder / file).is_file())
    read = {file: read_object(folder / file) for file in written}
    settings = read.get(folders.ORIGIN, {}).get("settings")
    source = settings.get("_name_or_path") if isinstance(settings, dict) else None
    paths = (*data_files(config), config.model.from_, config.tokenizer.from_, source)
    known = {path: _last_part(path) for path in paths if isinstance(path, str) and _ABSOLUTE.match(path)}

    def whole(text: str) -> str:
        return known.get(text, text)

    def anywhere(text: str) -> str:
        for path in sorted(known, key=len, reverse=True):
            text = text.replace(path, known[path])
        return _HOME.sub("", text)

    values = _renamed(config.model_dump(mode="json", by_alias=True), whole)
    texts = {folders.CONFIG: config_text(check_config(values, str(folder / folders.CONFIG)))}
    for file, values in read.items():
        rename = whole if file == folders.ORIGIN else anywhere  # it also has tokens
        texts[file] = json.dumps(_renamed(values, rename), ensure_ascii=False) + "\n"
    return config.task, texts


def command_lines(uses: Iterable[str], where: str) -> list[str]:
    """The section of a model card with commands, to run in the directory that `where` describes."""
    return [f"Commands, to run in {where}:", "", "```", *uses, "```"]


def with_file(use: str) -> str:
    """A command of a task for a run whose data is not there: `heed evaluate` then needs a file."""
    return f"{use} FILE" if use == "heed evaluate {run}" else use


def _card(text: str, uses: Sequence[str]) -> str:
    """The model card of a packed run: its command first, and the other commands with the zip file's name."""
    if text.startswith(_USE):  # it was packed before
        text = text.partition("\n\n")[2]
    version = metadata.version("heed-attention")
    section = "\n".join(command_lines(uses, "the directory that holds the zip file")) + "\n"
    text = _COMMANDS.sub(lambda _: section, text)
    return f"{_USE}: {code_span(uses[0])} (heed {version} or newer)\n\n{text}"


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    """Plain values with a function applied to all texts in them, keys included."""
    if isinstance(value, dict):
        return {rename(key): _renamed(one, rename) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, rename) for one in value]
    return rename(value) if isinstance(value, str) else value


def _last_part(path: str) -> str:
    return re.split("/" if path.startswith("/") else r"[/\\]", path.rstrip("/\\"))[-1] or path


def _checksum(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "blake2b": hashlib.blake2b(content, digest_size=20).hexdigest()}
