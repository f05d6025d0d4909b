"""Runs packed into one zip file to hand over, without what only resuming needs, examples, and paths of this machine.

The zip file has one folder with the sealed files of the run and `metrics.jsonl`. Paths of data files and parents, and
any path in the home folder, are reduced to the last part; `README.md` begins with the command that uses the zip file.
Lists of examples and of outputs, which may be examples learned by heart, are removed from the scores.
What was learned (weights, tokenizers, labels) is copied byte for byte.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Any

from heed import folder as folders
from heed.config import RunConfig, config_text, data_files
from heed.errors import ConfigError
from heed.storage.archive import write_archive
from heed.storage.disk import already_exists
from heed.storage.files import CHECKSUMS, read_bytes, read_object, read_text, recorded
from heed.tasks import check_config, spec_of
from heed.tasks.base.data_files import DATA
from heed.visible import code_span, shell_word

CARD = "README.md"
_COMMANDS = re.compile(r"Commands, to run in .*?\n```\n.*?\n```\n", re.DOTALL)
_NOT_PACKED = re.compile(r"\ATo use this model: .*\n\n|^  most frequent responses: .*\n", re.MULTILINE)
_EXAMPLES = ("errors", "common")
"""Scores with examples of the data: wrong predictions, and a dialogue model's commonest outputs."""
_OF_A_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(json|safetensors)|curves\.svg")
"""Names of the sealed files that are copied; others in a run folder are the user's own."""
_ODD = re.compile(r"^\.|[\\:\x00-\x1f]")
"""What the name of a folder in a zip file must not have."""
_MOST_METRICS = 1 << 32
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[/\\]|\\\\")


@dataclass(frozen=True)
class PackedRun:
    """A packed run."""

    path: Path  # the zip file
    size: int  # its bytes
    use: str  # the command that uses it

    def __str__(self) -> str:
        return f"wrote {self.path} ({self.size / 2**20:,.1f} MiB)\nto use it: {self.use}"


def pack(run: Any = "last", out: str | Path | None = None) -> PackedRun:
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
    name = _ODD.sub("_", folder.resolve().name.encode(errors="replace")[:200].decode(errors="ignore"))
    final = Path(f"{name}.zip" if out is None else out)
    if not folders.is_packed(final):
        raise ConfigError(f"--out is '{final}', expected a name that ends in .zip")
    if os.path.exists(final):
        raise already_exists(final)
    config = check_config(*folders.read_settings(folder))
    uses = [with_file(use).format(run=shell_word(Path(final.name))) for use in spec_of(config.task).uses]
    texts = {**_made_public(folder, config), CARD: _card(folder / CARD, uses)}
    content = {file: text.encode() for file, text in texts.items()}
    kept = {n: one for n, one in (recorded(folder) or {}).items() if _OF_A_RUN.fullmatch(n) and n not in content}
    hashes = {n: {"bytes": len(one), "blake2b": blake2b(one, digest_size=20).hexdigest()} for n, one in content.items()}
    content[CHECKSUMS] = json.dumps(dict(sorted({**kept, **hashes}.items())), indent=1).encode()
    if (folder / folders.METRICS).exists():
        content[folders.METRICS] = read_bytes(folder / folders.METRICS, _MOST_METRICS)
    write_archive(final, name, {**{file: folder / file for file in kept}, **content})
    return PackedRun(final, final.stat().st_size, uses[0])


def _made_public(folder: Path, config: RunConfig) -> dict[str, str]:
    """The files of a run that name other files or examples, without examples and the folders of these files."""
    written = (file for file in (folders.REPORT, DATA, folders.ORIGIN) if (folder / file).is_file())
    read = {file: read_object(folder / file) for file in written}
    for scores in read.get(folders.REPORT, {}).get("scores", {}).values():
        for name in _EXAMPLES:
            scores.pop(name, None)
    for counts in read.get(folders.REPORT, {}).get("data", {}).values():
        for found in counts.get("found", ()):
            found["first"] = []  # names of pictures, among others
    settings = read.get(folders.ORIGIN, {}).get("settings")
    source = settings.get("_name_or_path") if isinstance(settings, dict) else None
    paths = {*data_files(config), config.model.from_, config.tokenizer.from_, source}
    known = sorted((path for path in paths if isinstance(path, str) and _ABSOLUTE.match(path)), key=len, reverse=True)

    in_home = re.compile(re.escape(os.path.expanduser("~")) + r"[/\\](?:[^/\\\s'\"]+[/\\])*")

    def shortened(value: Any) -> Any:
        if isinstance(value, dict):
            return {shortened(key): shortened(one) for key, one in value.items()}
        if isinstance(value, list):
            return [*map(shortened, value)]
        if isinstance(value, str):
            for path in known:
                value = value.replace(path, re.split(r"[/\\]", path.rstrip("/\\"))[-1] or path)
            return in_home.sub("", value)
        return value

    own = check_config(shortened(config.model_dump(mode="json", by_alias=True)), str(folder / folders.CONFIG))
    texts = {file: json.dumps(shortened(values), ensure_ascii=False) + "\n" for file, values in read.items()}
    return {**texts, folders.CONFIG: config_text(own)}


def command_lines(uses: Iterable[str], where: str) -> list[str]:
    """The section of a model card with commands, to run in the directory that `where` describes."""
    return [f"Commands, to run in {where}:", "", "```", *uses, "```"]


def with_file(use: str) -> str:
    """A command of a task for a run whose data is not there: `heed evaluate` then needs a file."""
    return f"{use} FILE" if use == "heed evaluate {run}" else use


def _card(path: Path, uses: Sequence[str]) -> str:
    """The model card of a packed run: its command first, and the other commands with the zip file's name."""
    section = "\n".join(command_lines(uses, "the directory that holds the zip file")) + "\n"
    card = _COMMANDS.sub(lambda _: section, _NOT_PACKED.sub("", read_text(path) if os.path.isfile(path) else ""))
    version = metadata.version("heed-attention")
    return f"To use this model: {code_span(uses[0])} (heed {version} or newer)\n\n{card}"
