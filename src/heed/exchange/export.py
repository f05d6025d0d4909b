"""Exporting a run for another program, and opening an export.

`RUN/export/ENGINE-QUANTIZATION/` has the model in the other program's format, the run's tokenizers, `export.json`
(origin and result of the self-check) and checksums. It is complete without the run.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from heed import folder as folders
from heed.errors import ConfigError, RunError, suggest
from heed.exchange.ctranslate2_model import QUANTIZATIONS, expressible, need_ctranslate2, write_model
from heed.exchange.ctranslate2_writer import CTranslate2Writer
from heed.exchange.exportable import Exportable
from heed.exchange.selfcheck import SelfCheck, self_check
from heed.models.base import PairDecoder
from heed.storage.disk import checksum, write_folder
from heed.storage.files import read_object
from heed.storage.seal import describe_damage
from heed.visible import shell_word

ENGINES = {"ctranslate2": "float32", "ctranslate2-int8": "int8"}
"""Names of the engines other than torch, with the quantization that each one reads."""
_DESCRIPTION, _FORMAT = "export.json", 1
_POSITIONS = 4_096
"""Number of sinusoidal positions to export: more than sentences have, and small compared with the weights."""


@dataclass(frozen=True)
class Exported:
    """An export of a run: name of the engine, bytes of the model file, result of the self-check."""

    folder: Path
    engine: str
    size: int
    check: SelfCheck

    def __str__(self) -> str:
        return f"wrote {self.folder} ({self.size / 2**20:,.1f} MiB)\n{self.check}"


def export_translation(
    folder: Path, task: Exportable, model: PairDecoder, to: str = "ctranslate2", quantization: str = "float32"
) -> Exported:
    """Export a translation run for another program, and check that its outputs are the run's.

    Raises:
        ConfigError: The library is missing, it does not support the model, or there is no such quantization.
        RunError: The outputs differ from the run's; nothing is kept.
        DiskError: The disk is full or cannot be written to.
    """
    if to != "ctranslate2":
        raise ConfigError(f"cannot export to '{to}'{suggest(to, ['ctranslate2'])}")
    if quantization not in QUANTIZATIONS:
        raise ConfigError(f"quantization is '{quantization}'{suggest(quantization, QUANTIZATIONS)}")
    transformer = deepcopy(expressible(model, task.config.model.name)).cpu()
    library = need_ctranslate2()
    tokenizers = task.source_tokenizer, task.target_tokenizer
    final = _place(folder, quantization)
    needed = sum(p.numel() for p in model.parameters()) * (4 if quantization == "float32" else 1)
    with write_folder(final, needed) as part:
        limit = max(_POSITIONS, task.config.generation.max_length or 0)
        positions = write_model(transformer, *tokenizers, part, quantization, limit)
        task.save(part)
        writer = CTranslate2Writer(part, *tokenizers, positions)
        check = self_check(task, transformer, writer, exact=quantization == "float32")
        description = {
            "format": _FORMAT,
            "engine": to,
            "quantization": quantization,
            "positions": positions,
            "weights": checksum(folder / folders.WEIGHTS),
            "check": asdict(check),
            "versions": {"heed": metadata.version("heed-attention"), to: library.__version__},
        }
        (part / _DESCRIPTION).write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
        size = (part / "model.bin").stat().st_size
    name = next(name for name, own in ENGINES.items() if own == quantization)
    return Exported(final, name, size, check)


def open_engine(folder: Path, task: Exportable, engine: str) -> CTranslate2Writer:
    """Open the export of a run, ready to generate.

    Raises:
        ConfigError: There is no such engine, or its library is missing.
        RunError: The run was not exported for it, its weights have changed since, or a file is missing or altered.
    """
    if engine not in ENGINES:
        raise ConfigError(f"unknown engine '{engine}'{suggest(engine, ['torch', *ENGINES])}")
    quantization = ENGINES[engine]
    path = _place(folder, quantization)
    command = f"heed export {shell_word(folder)} --to ctranslate2"
    if quantization != "float32":
        command += f" --quantization {quantization}"
    if not path.is_dir():
        raise RunError(f"'{folder}' was not exported for {engine}; export it with: {command}")
    if damage := describe_damage(path):
        name, what = next(iter(damage.items()))
        raise RunError(f"{path / name} is {what}; export the run again with: {command}")
    description = read_object(path / _DESCRIPTION)
    if description["format"] != _FORMAT:
        raise RunError(
            f"{path} has format {description['format']}, but this version of heed reads format {_FORMAT}; export the "
            f"run again with: {command}"
        )
    if description["weights"] != checksum(folder / folders.WEIGHTS):
        changed = f"the weights of {folder} have changed since it was exported"
        raise RunError(f"{changed}; export the run again with: {command}")
    return CTranslate2Writer(path, task.source_tokenizer, task.target_tokenizer, description["positions"])


def _place(folder: Path, quantization: str) -> Path:
    return folder / folders.EXPORT / f"ctranslate2-{quantization}"
