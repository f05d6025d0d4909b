"""Run folders made from Hugging Face checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heed import folder as folders
from heed.config import TokenizerConfig, set_field, write_config
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.checkpoint import ORIGIN, Checkpoint, Origin, find_checkpoint
from heed.exchange.huggingface.family import Wanted
from heed.exchange.huggingface.files import Loaded, load
from heed.tasks import check_config, checkpoint_class, run_class, spec_of, task_of
from heed.tasks.base.huggingface import TaskCheckpoint
from heed.tasks.base.report import counted
from heed.tasks.base.run import Run
from heed.tasks.base.transfer import unshared
from heed.training.weights import check_finite, save_weights
from heed.visible import markdown, shell_word

_OPEN = ("data", "evaluation", "generation", "training")
"""Sections whose fields are not determined by a checkpoint."""
_SHOWN = 8
"""Number of unused tensors that are listed."""


@dataclass(frozen=True)
class Imported:
    """A checkpoint imported as a run."""

    run: Run[Any, Any]
    found: str  # description of where the checkpoint was found
    architecture: str  # the class of its model
    unused: tuple[str, ...]  # tensors of the checkpoint that the run does not use
    remarks: tuple[str, ...] = ()  # further remarks on the checkpoint

    def __str__(self) -> str:
        run, spec = self.run, spec_of(self.run.config.task)
        vocabularies = [
            f"{one.vocab_size:,} tokens{'' if role == 'tokens' else f' ({role})'}"
            for role, one in run.task.tokenizers().items()
        ]
        unused = f"{counted(len(self.unused), 'tensor')} not used: {', '.join(self.unused[:_SHOWN])}"
        more = f" and {len(self.unused) - _SHOWN:,} more" if len(self.unused) > _SHOWN else ""
        return "\n".join(
            [
                f"found {self.found}",
                f"{self.architecture}: a run of {run.config.task.replace('_', ' ')}, model {run.config.model.name}, "
                + ", ".join([f"{run.report['parameters']:,} parameters", *vocabularies]),
                *self.remarks,
                unused + more if self.unused else "all tensors were used, and none is missing",
                f"\nrun folder: {run.folder}",
                f"next: {spec.next_command.format(run=shell_word(run.folder))}",
            ]
        )


def import_checkpoint(
    source: str | Path, out: str | Path | None = None, given: Mapping[str, Any] | None = None
) -> Imported:
    """Make a run folder from a checkpoint.

    Args:
        source: A folder, or a name on the Hub.
        out: The folder to make; `runs/<name>-<model>-<n>` by default.
        given: Sections of the configuration, with fields that are not determined by the checkpoint.

    Raises:
        RunError: A file is missing or damaged, a tensor is missing or has another shape, or the folder exists.
        ConfigError: An architecture, a field or a tokenizer that heed lacks; the message names it.
    """
    folder, found = find_checkpoint(source)
    checkpoint = Checkpoint.open(folder)
    name = str(source) if not Path(source).is_dir() else folder.resolve().name
    kind, task_name = _kind(checkpoint)
    run, loaded = build(checkpoint, kind, task_name, name, given)
    needed = sum(one.numel() * one.element_size() for one in run.model.state_dict().values())
    with folders.create_whole(out, run.config, needed) as (path, part):
        run.folder = path
        run.task.save(part)
        Origin.of(checkpoint, name).write(part)
        save_weights(run.model, part / folders.WEIGHTS)
        write_config(run.config, part / folders.CONFIG)
        run.report = _report(run, name, checkpoint, loaded)
        folders.write_report(part, run.report)
        _write_card(run, name, checkpoint, part)
    return Imported(run, found, checkpoint.architecture, loaded.unused, kind.remarks(checkpoint))


def import_model(
    source: str | Path, out: str | Path | None = None, *, settings: dict[str, Any] | None = None, quiet: bool = False
) -> Run[Any, Any]:
    """Import a Hugging Face checkpoint as a run: `heed.import_model("google-bert/bert-base-uncased")`.

    Args:
        source: A folder, or a name that is looked up in the Hub's cache on this machine, else on the Hub.
        out: Run folder to make; `runs/<name>-<model>-<n>` by default.
        settings: How to read and score its data, such as `{"data.columns.text": ["premise", "hypothesis"]}`.
        quiet: Print nothing.

    Returns:
        The run.

    Raises:
        RunError: A file is missing or damaged, or the folder exists.
        ConfigError: An architecture, a field or a tokenizer that heed lacks; the message names it.
    """
    given: dict[str, Any] = {}
    for name, value in (settings or {}).items():
        set_field(given, name, value)
    imported = import_checkpoint(source, out, given)
    if not quiet:
        print(imported)
    return imported.run


def build(
    checkpoint: Checkpoint,
    kind: type[TaskCheckpoint[Any]],
    task_name: str,
    name: str,
    given: Mapping[str, Any] | None = None,
) -> tuple[Run[Any, Any], Loaded]:
    """The run of a checkpoint, not yet in a folder, and the tensors loaded.

    Raises:
        RunError: A tensor is missing or has another shape.
        ConfigError: A field that heed lacks.
    """
    family, settings = checkpoint.family, checkpoint.settings
    heads = kind.heads(checkpoint)
    tied = family.tied(settings, checkpoint.files)
    sections = kind.sections(checkpoint, heads, tied)
    fields = {**family.fields(settings, checkpoint.files, heads), **sections.get("model", {})}
    values: dict[str, Any] = {
        **sections,
        "task": task_name,
        "data": {**sections.get("data", {}), "memory": {}, "imported": name},
        "tokenizer": {**_tokenizer_section(checkpoint), **sections.get("tokenizer", {})},
        "model": {"name": family.model, "size": "base", **fields},
    }
    config = check_config(_with_given(values, given or {}), str(settings.path))
    task = kind.task(config, checkpoint).settle(None)
    model = task.build_model()
    body, _ = task.model_and_head()
    table = kind.ours(family.table(Wanted(settings, body, heads, checkpoint.vocabularies, tied)))
    loaded = load(table, checkpoint.files, {key: one.shape for key, one in model.state_dict().items()})
    _fill(model, loaded, str(checkpoint.folder))
    return run_class(task_name)(checkpoint.folder, task.config, task, model, {}), loaded


def carry_origin(parent: str | Path, path: Path) -> None:
    """Copy to a new run its parent's record of the checkpoint that the parent was imported from."""
    if (origin := Origin.read(Path(parent))) is not None:
        origin.write(path)


def _kind(checkpoint: Checkpoint) -> tuple[type[TaskCheckpoint[Any]], str]:
    architecture = checkpoint.architecture
    task = task_of(architecture)
    kind = None if task is None else checkpoint_class(task)
    if task is None or kind is None:
        known = [name for family in (checkpoint.family,) for name in family.architectures.values() if task_of(name)]
        raise ConfigError(
            f"{checkpoint.settings.path}: the architecture {architecture} is for a task that heed does not have; "
            f"supported architectures of {checkpoint.family.model_type}: {', '.join(known)}"
        )
    return kind, task


def _with_given(values: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the user's fields; a ConfigError for a field that the checkpoint determines."""
    for section, fields in given.items():
        if section not in _OPEN or not isinstance(fields, dict):
            name = f"{section}.{next(iter(fields))}" if isinstance(fields, dict) and fields else section
            raise ConfigError(
                f"{name} is determined by the checkpoint; an import takes only fields of {', '.join(_OPEN[:-1])} and "
                f"{_OPEN[-1]}"
            )
        values = {**values, section: {**values.get(section, {}), **fields}}
    return values


def _tokenizer_section(checkpoint: Checkpoint) -> dict[str, Any]:
    if (one := next(iter(checkpoint.tokenizers.values()), None)) is None:
        return {}  # an image model
    forms = (("nfkc", "\ufb01", "fi"), ("nfc", "e\u0301", "\u00e9"))
    found = (name for name, given, normal in forms if one.normalize(given) == normal)
    return {
        "kind": kind_of(one),
        "vocab_size": max(5, one.vocab_size),
        "lowercase": one.normalize("Ab") == "ab",
        "normalization": next(found, "none"),
    }


def kind_of(tokenizer: TextTokenizer) -> str:
    """The value of `tokenizer.kind` for a tokenizer."""
    if tokenizer.unit != "token":
        return {"character": "char"}.get(tokenizer.unit, tokenizer.unit)
    name = type(tokenizer.library.model).__name__
    kind = "byte_bpe" if tokenizer.is_of_bytes else {"BPE": "bpe", "Unigram": "unigram"}.get(name, name.lower())
    assert kind in str(TokenizerConfig.model_fields["kind"].annotation), kind
    return kind


@torch.no_grad()
def _fill(model: nn.Module, loaded: Loaded, source: str) -> None:
    """Copy the loaded tensors into a model; all its tensors must be loaded, with finite numbers."""
    state = model.state_dict()
    places = {id_: name for name, tensor in unshared(model).items() if (id_ := tensor.data_ptr())}
    filled = {places.get(state[name].data_ptr(), name) for name in loaded.tensors}
    assert not (missing := set(places.values()) - filled), f"the table has no line for {sorted(missing)}"
    for name, tensor in loaded.tensors.items():
        check_finite(tensor, name, source)
        state[name].copy_(tensor)


def _report(run: Run[Any, Any], name: str, checkpoint: Checkpoint, loaded: Loaded) -> dict[str, Any]:
    return {
        "format": folders.FORMAT,
        "task": run.config.task,
        "model": run.config.model.name,
        "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
        "imported": {
            "from": name,
            "architecture": checkpoint.architecture,
            "unused_tensors": list(loaded.unused),
        },
        "data": {},
        "scores": {},
        "versions": {"heed": metadata.version("heed-attention"), "torch": torch.__version__},
    }


def _with_file(use: str) -> str:
    """A command of the task for a run without data: `heed evaluate` then needs a file."""
    return f"{use} FILE" if use == "heed evaluate {run}" else use


def _write_card(run: Run[Any, Any], name: str, checkpoint: Checkpoint, folder: Path) -> None:
    report, place = run.report, shell_word(Path(run.folder.name))
    lines = [
        f"# {markdown(name)}",
        "",
        f"A {run.config.task.replace('_', ' ')} model of {report['parameters']:,} parameters, imported by heed "
        f"{report['versions']['heed']} from the Hugging Face checkpoint {markdown(name)} ({checkpoint.architecture}). "
        f"`{ORIGIN}` records its origin; heed has not scored it.",
        "",
        "```",
        *(_with_file(use).format(run=place) for use in run.uses),
        f"heed export {place} --to huggingface --out FOLDER",
        "```",
    ]
    text = "\n".join(lines) + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")
