"""Export of runs for other programs: CTranslate2, and Hugging Face checkpoints, which `transformers` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from heed import folder as folders
from heed.errors import ConfigError, RunError, suggest
from heed.exchange.huggingface.checkpoint import FAMILIES, Checkpoint, Origin
from heed.exchange.huggingface.family import Family, Vocabularies, Wanted
from heed.exchange.huggingface.files import CONFIG, SAFETENSORS, Settings, store
from heed.exchange.huggingface.numbering import Numbering
from heed.exchange.huggingface.tokenizers import write_json
from heed.runs.imported import build
from heed.runs.loading import load
from heed.storage.disk import write_folder
from heed.tasks import checkpoint_class, task_names
from heed.tasks.base.capabilities import capability
from heed.tasks.base.huggingface import Exportable, TaskCheckpoint
from heed.tasks.base.run import Run
from heed.tasks.base.transfer import unshared
from heed.training.weights import save_tensors

if TYPE_CHECKING:
    from heed.exchange import Exported

_CLOSE = 1e-5
"""Largest difference of a state that float32 rounding may cause."""
_TEXTS = (
    "The quick brown fox doesn't jump over 1,234.50 lazy dogs (e.g. in N.Y.)!",
    "  Two  spaces,\ta tab, naïve café, ÅNGSTRÖM, and a/b_c-d@e.org  ",
    "Der Fluß überschwemmte Städte. Il a été près de l'œuvre. ¿Qué? ¡No!",
    "Москва слезам не верит. Καλημέρα κόσμε. 東京タワーは333メートルです。 안녕하세요 세계",
    "مرحبا بالعالم नमस्ते दुनिया ไทย 🙂🙃 [CLS] </s> <unk>",
)
"""Texts that both tokenizers must split identically."""
_OF_THE_HEAD = {"id2label", "label2id", "problem_type", "num_labels"}
_OF_THE_FILE = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"}
"""Fields of the original checkpoint that may no longer be valid."""


@dataclass(frozen=True)
class ExportedCheckpoint:
    """A run exported as a checkpoint."""

    folder: Path  # the folder of the checkpoint
    architecture: str  # the class of `transformers` that reads it
    size: int  # bytes of its tensors
    numbered_as: str  # the checkpoint whose numbering of tokens it uses; empty for this run's numbering
    difference: float  # the largest difference of a state between the run and the checkpoint as read back
    notes: tuple[str, ...]  # remarks for users of the checkpoint
    has_tokens: bool = True  # True if it has a tokenizer

    def __str__(self) -> str:
        order = f"numbered as in {self.numbered_as}" if self.numbered_as else "in this run's order"
        tokens, same = (f", tokens {order}", "settings and tokens") if self.has_tokens else ("", "settings")
        return "\n".join(
            [
                f"wrote {self.folder} ({self.size / 2**20:,.1f} MiB): {self.architecture}{tokens}",
                f"read back: the same {same}, states differ by at most {self.difference:.2g}",
                *(f"note: {note}" for note in self.notes),
            ]
        )


def export(
    run: Run[Any, Any] | str | Path = "last",
    to: str = "ctranslate2",
    quantization: str = "float32",
    out: str | Path | None = None,
    *,
    force: bool = False,
) -> Exported | ExportedCheckpoint:
    """Export a run for another program, into `RUN/export/`, and compare the outputs of both.

    With quantization "float32" the outputs must equal the run's; "int8" is smaller and faster.

    Args:
        run: A run, its folder, or "last".
        to: "ctranslate2", or "huggingface": a checkpoint that `transformers` reads.
        quantization: "float32" or, for ctranslate2, "int8".
        out: The folder of the checkpoint; `RUN/export/huggingface` by default.
        force: Export despite missing or altered files of the run, with a warning.

    Raises:
        ConfigError: The program cannot express the model, or its library is missing.
        RunError: The folder is not a complete run, or the outputs differ from the run's; nothing is kept.
    """
    if to not in ("ctranslate2", "huggingface"):
        raise ConfigError(f"cannot export to '{to}'{suggest(to, ['ctranslate2', 'huggingface'])}")
    if to == "huggingface" and quantization != "float32":
        raise ConfigError(
            f"quantization is '{quantization}', but checkpoints are written in float32; remove quantization "
            "(out= names the folder)"
        )
    if to != "huggingface" and out is not None:
        raise ConfigError(f"--out applies only to --to huggingface; {to} writes into RUN/{folders.EXPORT}")
    where = run.folder if isinstance(run, Run) else run
    opened = run if isinstance(run, Run) and not run.so_far else load(where, finished=True, force=force)
    if to == "huggingface":
        return export_checkpoint(opened, out)
    exported: Exported = capability(opened, "export").export(to, quantization)
    return exported


def export_checkpoint(run: Run[Any, Any], out: str | Path | None = None) -> ExportedCheckpoint:
    """Write a run as a checkpoint, read it back, and compare.

    Args:
        run: A run of a task that has checkpoints.
        out: The folder to make; `RUN/export/huggingface` by default.

    Raises:
        ConfigError: No family can express the model; the message names the field.
        RunError: The folder exists, or the checkpoint as read back differs; nothing is kept.
        DiskError: The disk is full or writing fails.
    """
    kind = checkpoint_class(run.config.task)
    if kind is None or len(run.members) > 1:
        names = ", ".join(name for name in task_names() if checkpoint_class(name) is not None)
        what = "an ensemble" if len(run.members) > 1 else run.config.task
        raise ConfigError(f"export to huggingface is not available for {what}; it is for {names}")
    final = run.folder / folders.EXPORT / "huggingface" if out is None else Path(out)
    if out is not None and final.exists() and (not final.is_dir() or any(final.iterdir())):
        raise RunError(f"'{final}' already exists and is never overwritten; give another --out")
    exportable, origin = kind.exportable(run), Origin.read(run.folder)
    vocabularies, numbered_as = _vocabularies(exportable, origin)
    family, fields = _family(run, exportable, origin, vocabularies)
    settings = _settings(family, fields, exportable, origin if numbered_as else None)
    written = Settings(final / CONFIG, settings), exportable.body, exportable.heads, vocabularies, exportable.tied
    table = kind.ours(family.table(Wanted(*written)))
    model = run.model
    bare = "" if exportable.heads else family.prefix  # a body alone is stored without its name
    tensors = {name.removeprefix(bare): one.cpu() for name, one in store(table, model.state_dict()).items()}
    known = {name for line in table for name in line.ours}
    missing = exportable.held(unshared(model)).keys() - known
    assert not missing, f"the table has no line for {sorted(missing)}"
    needed = sum(one.numel() * one.element_size() for one in tensors.values())
    # Outside the run folder it is an ordinary checkpoint, without heed's checksums.
    with write_folder(final, needed, checksums=out is None) as part:
        save_tensors(tensors, part / SAFETENSORS, {"format": "pt"})
        write_json(part / CONFIG, settings)
        family.write_tokenizers(vocabularies, part)
        for name, values in (exportable.files(vocabularies) if exportable.files else {}).items():
            write_json(part / name, values)
        difference = _check(run, kind, part)
    return ExportedCheckpoint(
        final, settings["architectures"][0], (final / SAFETENSORS).stat().st_size, numbered_as, difference,
        exportable.notes, bool(vocabularies),
    )  # fmt: skip


def _vocabularies(exportable: Exportable, origin: Origin | None) -> tuple[Vocabularies, str]:
    """The tokenizers with their numberings, and the checkpoint that the numbering is from ("" for this run's)."""
    found = {}
    for role, tokenizer in exportable.tokenizers.items():
        numbering = None if origin is None else origin.numbering(tokenizer)
        if numbering is None:
            own = {one: (tok, Numbering.same(tok.vocab_size)) for one, tok in exportable.tokenizers.items()}
            return own, ""
        found[role] = tokenizer, numbering
    return found, "" if origin is None else origin.source


def _family(
    run: Run[Any, Any], exportable: Exportable, origin: Origin | None, vocabularies: Vocabularies
) -> tuple[Family, dict[str, Any]]:
    """The family to write a run as: that of its original checkpoint, or the first that can express it."""
    fitting = [family for family in FAMILIES if family.model == run.config.model.name]
    if not fitting:
        known = ", ".join(dict.fromkeys(family.model for family in FAMILIES))
        raise ConfigError(f"model '{run.config.model.name}' cannot be exported to huggingface; these can: {known}")
    if origin is not None:
        fitting.sort(key=lambda family: family.model_type != origin.family)
    refused: list[ConfigError] = []
    for family in fitting:
        try:
            if exportable.label_bias is not None and exportable.label_bias != family.label_bias:
                own, theirs = (str(one).lower() for one in (exportable.label_bias, family.label_bias))
                raise ConfigError(
                    f"{family.model_type} cannot express model.output_bias={own}: train with model.output_bias={theirs}"
                )
            return family, family.settings(exportable.body, exportable.heads, vocabularies)
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


def _settings(
    family: Family, fields: Mapping[str, Any], exportable: Exportable, origin: Origin | None
) -> dict[str, Any]:
    """The fields of config.json: those of the run, and further ones of its original checkpoint."""
    kept: dict[str, Any] = {}
    if origin is not None and origin.family == family.model_type:
        drop = _OF_THE_HEAD | _OF_THE_FILE
        kept = {name: value for name, value in origin.settings.items() if name not in drop}
    return {
        **kept,
        "architectures": [family.architectures[exportable.heads]],
        "model_type": family.model_type,
        **fields,
        **exportable.settings,
        **({"tie_word_embeddings": exportable.tied} if exportable.tokenizers else {}),
        "dtype": "float32",
    }


def _check(run: Run[Any, Any], kind: type[TaskCheckpoint[Any]], part: Path) -> float:
    """Read the written checkpoint like any other, and compare it with the run.

    Returns:
        The largest difference of a state of the body.
    """
    checkpoint = Checkpoint.open(part)
    again, _ = build(checkpoint, kind, run.config.task, run.folder.name)
    exportable = kind.exportable(run)
    for role, tokenizer in exportable.tokenizers.items():
        other = checkpoint.tokenizers[role]
        if tokenizer.tokens != other.tokens:
            raise _differs(f"its {role} differ: {tokenizer.first_difference(other)}")
        for text in _TEXTS:
            if (a := tokenizer.encode(text).ids) != (b := other.encode(text).ids):
                pieces = [[one.token(i) for i in ids] for one, ids in ((tokenizer, a), (other, b))]
                raise _differs(f"it splits {text!r} into {pieces[1]} instead of {pieces[0]}")
    bodies = [one.task.body(one.model).cpu().eval() for one in (run, again)]
    example = type(bodies[0]).example(bodies[0].config, 1)
    with torch.no_grad():
        a, b = (body(**example) for body in bodies)
    difference = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
    if not difference <= _CLOSE:
        raise _differs(f"a state of its body differs by {difference:.2g}")
    absent = {len(numbering): numbering.not_restored for _, numbering in checkpoint.vocabularies.values()}
    own, others = exportable.held(unshared(run.model)), again.model.state_dict()
    for name, tensor in own.items():
        other = others.get(name)
        if other is None or other.shape != tensor.shape:
            raise _differs(f"tensor '{name}' is missing or has another shape")
        rows = torch.ones(len(tensor) if tensor.dim() else 1, dtype=torch.bool)
        rows[absent.get(len(rows), [])] = False
        if tensor.dim() and not torch.equal(tensor.cpu()[rows], other[rows]):
            raise _differs(f"tensor '{name}' differs")
    return difference


def _differs(what: str) -> RunError:
    return RunError(f"the exported checkpoint, read back, differs from the run: {what}; the export was discarded")
