"""Run folders from Hugging Face checkpoints, and exports of runs: checkpoints for `transformers`, and CTranslate2."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from heed import folder as folders
from heed.config import TokenizerConfig, set_field, write_config
from heed.data.text_files import good_lines
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, RunError, suggest
from heed.exchange.huggingface.checkpoint import FAMILIES, Checkpoint, Origin, find_checkpoint
from heed.exchange.huggingface.family import Family, Layout, Vocabularies
from heed.exchange.huggingface.files import CONFIG, SAFETENSORS, Loaded, optional_json, store
from heed.exchange.huggingface.files import load as load_tensors
from heed.exchange.huggingface.heads import HEADS, Exportable, Heads, heads_of
from heed.exchange.huggingface.tokenizers import write_json
from heed.exchange.huggingface.vocabularies import trimmed
from heed.runs.loading import load
from heed.runs.pack import CARD, command_lines, with_file
from heed.runs.prepare import about
from heed.storage.disk import already_exists, write_folder
from heed.storage.files import cache_folder
from heed.tasks import capability, check_config, spec_of, task_class, task_names
from heed.tasks.base.report import counted
from heed.tasks.base.transfer import axes_of, shapes_of, unshared
from heed.tasks.base.transfer import places as places_of
from heed.tasks.run import Run
from heed.tasks.work import Work
from heed.training.weights import apply_weights, save_tensors, save_weights
from heed.visible import markdown, shell_word

if TYPE_CHECKING:
    from heed.exchange import Exported


_OPEN = ("data", "evaluation", "generation", "training")
"""Sections whose fields are not determined by a checkpoint."""
_SHOWN = 8
"""Number of unused tensors that are listed."""


@dataclass(frozen=True)
class Imported:
    """A checkpoint imported as a run."""

    run: Run
    place: str  # description of where the checkpoint was found
    architecture: str  # the class of its model
    unused: tuple[str, ...]  # tensors of the checkpoint that the run does not use
    remarks: tuple[str, ...] = ()  # further remarks on the checkpoint

    def __str__(self) -> str:
        run, spec = self.run, spec_of(self.run.config.task)
        vocabularies = [
            f"{tokenizer.vocab_size:,} tokens{'' if role == 'tokens' else f' ({role})'}"
            for role, tokenizer in run.task.tokenizers().items()
        ]
        unused = f"{counted(len(self.unused), 'tensor')} not used: {', '.join(self.unused[:_SHOWN])}"
        more = f" and {len(self.unused) - _SHOWN:,} more" if len(self.unused) > _SHOWN else ""
        return "\n".join(
            [
                f"found {self.place}",
                f"{self.architecture}: a run of {run.config.task.replace('_', ' ')}, model {run.config.model.name}, "
                + ", ".join([f"{run.report['parameters']:,} parameters", *vocabularies]),
                *self.remarks,
                unused + more if self.unused else "all tensors were used, and none is missing",
                f"\nrun folder: {run.folder}",
                f"next: {spec.next_command.format(run=shell_word(run.folder))}",
            ]
        )


def import_checkpoint(
    source: str | Path,
    out: str | Path | None = None,
    sections: Mapping[str, Any] | None = None,
    trim: Sequence[str | Path] = (),
) -> Imported:
    """Make a run folder from a checkpoint.

    Args:
        source: A folder, or a name on the Hub.
        out: The folder to make; `runs/<name>-<model>-<n>` by default.
        sections: Sections of the configuration, with fields that are not determined by the checkpoint.
        trim: Text files; only tokens that they need are kept.

    Raises:
        RunError: A file is missing or damaged, a tensor is missing or has another shape, or the folder exists.
        ConfigError: An architecture, a field or a tokenizer that heed lacks; the message names it. Or the model has no
            tokenizer to trim.
        DataError: A text file cannot be read.
    """
    folder, place = find_checkpoint(source)
    checkpoint = Checkpoint.open(folder)
    name = folder.resolve().name if os.path.exists(source) else str(source)
    task_name = _task_of(checkpoint)
    texts = [[*good_lines(Path(file))] for file in trim]  # an error must come before the model is read
    run, loaded = build(checkpoint, task_name, name, sections)
    before = {role: tokenizer.vocab_size for role, tokenizer in run.task.tokenizers().items()}
    if trim:
        run = trimmed_run(run, texts)
    needed = sum(tensor.nbytes for tensor in run.model.state_dict().values())
    with folders.create_whole(out, run.config, needed) as (path, part):
        run.folder = path
        run.task.save(part)
        Origin.of(checkpoint, name).write(part)
        save_weights(run.model, part / folders.WEIGHTS)
        write_config(run.config, part / folders.CONFIG)
        origin: dict[str, Any] = {
            "from": name,
            "architecture": checkpoint.architecture,
            "unused_tensors": list(loaded.unused),
        }
        versions = {"heed": metadata.version("heed-attention"), "torch": torch.__version__}
        if trim:
            origin["trimmed"] = {"files": [*map(str, trim)], "tokens_before": before}
        run.report = {**about(run.task, run.model), "imported": origin, "data": {}, "scores": {}, "versions": versions}
        folders.write_report(part, run.report)
        _write_card(run, name, checkpoint, part)
    remarks = (*checkpoint.remarks, *HEADS[spec_of(task_name).checkpoints].remarks(checkpoint))
    if trim:
        after = {role: tokenizer.vocab_size for role, tokenizer in run.task.tokenizers().items()}
        counts = " and ".join(dict.fromkeys(f"{after[role]:,} of {count:,} tokens" for role, count in before.items()))
        remarks += (
            f"trimmed to {counts}: texts of {', '.join(map(str, trim))} are cut as before, others into more tokens; "
            "probabilities are larger, since they are shared by fewer tokens",
        )
    return Imported(run, place, checkpoint.architecture, loaded.unused, remarks)


def import_model(
    source: str | Path,
    out: str | Path | None = None,
    *,
    settings: dict[str, Any] | None = None,
    trim: Sequence[str | Path] = (),
    quiet: bool = False,
) -> Run:
    """Import a Hugging Face checkpoint as a run: `heed.import_model("google-bert/bert-base-uncased")`.

    Args:
        source: A folder, or a name that is looked up in the Hub's cache on this machine, else on the Hub.
        out: Run folder to make; `runs/<name>-<model>-<n>` by default.
        settings: How to read and score its data, such as `{"data.columns.text": ["premise", "hypothesis"]}`.
        trim: Text files, a sentence on each line: only the tokens that they need are kept, which makes embeddings and
            output layer smaller. They are cut as before, other texts into more tokens.
        quiet: Print nothing.

    Returns:
        The run.

    Raises:
        RunError: A file is missing or damaged, or the folder exists.
        ConfigError: An architecture, a field or a tokenizer that heed lacks; the message names it.
    """
    sections: dict[str, Any] = {}
    for name, value in (settings or {}).items():
        set_field(sections, name, value)
    imported = import_checkpoint(source, out, sections, trim)
    if not quiet:
        print(imported)
    return imported.run


def trimmed_run(run: Run, texts: Sequence[Sequence[str]]) -> Run:
    """An imported run with only the tokens that texts need (`heed.exchange.huggingface.vocabularies`).

    Args:
        run: Not yet in a folder.
        texts: The lines of each file. Two files for two tokenizers with different tokens are one for each.

    Raises:
        ConfigError: The model has no tokenizer.
    """
    work, tokenizers = run.task, run.task.tokenizers()
    if not tokenizers:
        raise ConfigError(f"a model of {run.config.task} has no tokenizer to trim; omit --trim")
    together = [*chain.from_iterable(texts)]
    apart = len({tuple(tokenizer.tokens) for tokenizer in tokenizers.values()}) == len(texts) > 1
    read = dict(zip(tokenizers, texts, strict=True)) if apart else dict.fromkeys(tokenizers, together)
    smaller, ids = trimmed(tokenizers, read)
    sizes = {work.sizes[role]: len(places) for role, places in ids.items()}
    fields = {**run.config.model.model_dump(by_alias=True), **sizes}
    section = run.config.tokenizer.model_copy(update={"vocab_size": max(sizes.values())})
    config = run.config.model_copy(
        update={"model": type(run.config.model).model_validate(fields), "tokenizer": section}
    )
    learned = replace(work.input, tokenizers=smaller)
    task = Work(work.task, config, learned, work.head, None)
    model, axes, state = task.build_model(), axes_of(work), run.model.state_dict()
    rows = {name: {axis: ids[kind] for axis, kind in axes[name].items() if kind in ids} for name in axes}
    apply_weights(model, {name: state[name][places_of(state[name], rows[name])] for name in unshared(model)}, "trimmed")
    return Run(run.folder, task.config, task, model, {})


def build(
    checkpoint: Checkpoint, task_name: str, name: str, settings: Mapping[str, Any] | None = None
) -> tuple[Run, Loaded]:
    """The run of a checkpoint, not yet in a folder, and the tensors loaded.

    Raises:
        RunError: A tensor is missing or has another shape.
        ConfigError: A field that heed lacks.
    """
    family = checkpoint.family
    kind = HEADS[spec_of(task_name).checkpoints]
    heads = kind.named(checkpoint)
    fields = family.fields(checkpoint.files, heads)
    sections = kind.sections(checkpoint, heads, fields)
    fields |= sections.get("model", {})
    values: dict[str, Any] = {
        **sections,
        "task": task_name,
        "data": {**sections.get("data", {}), "memory": {}, "imported": name},
        "tokenizer": {**_tokenizer_section(checkpoint), **sections.get("tokenizer", {})},
        "model": {"name": family.model, "size": "base", **fields},
    }
    config = check_config(_with_settings(values, settings or {}), str(checkpoint.folder / CONFIG))
    task = task_class(task_name)(config, *kind.learned(checkpoint), None).settle(None)
    body, _ = task.model_and_head()
    table = kind.placed(family.table(Layout(body, heads, checkpoint.tied)))
    try:
        shapes = shapes_of(task)
    except (RuntimeError, TypeError) as error:  # numbers beyond 64 bits
        raise ConfigError(
            f"{checkpoint.folder / CONFIG}: no model has these sizes: {' '.join(str(error).split())}"
        ) from None
    loaded = load_tensors(table, checkpoint.files, shapes)  # compared before a model of these sizes is made
    model = task.build_model()
    empty = {name: tensor for name, tensor in model.state_dict().items() if not tensor.numel()}  # without labels
    apply_weights(model, {**empty, **loaded.tensors}, str(checkpoint.folder))
    return Run(checkpoint.folder, task.config, task, model, {}), loaded


def _task_of(checkpoint: Checkpoint) -> str:
    """The task that a checkpoint is for, by its heads."""
    tasks = {spec_of(task).checkpoints: task for task in task_names()}
    listed = checkpoint.family.heads_of(checkpoint.architecture) is not None
    if (name := heads_of(checkpoint.architecture)) is None or name not in tasks or not listed:
        supported = [name for name in checkpoint.family.architectures.values() if heads_of(name) in tasks]
        raise ConfigError(
            f"{checkpoint.folder / CONFIG}: the architecture {checkpoint.architecture} is for a task that heed "
            f"does not have; supported architectures of {checkpoint.family.model_type}: {', '.join(supported)}"
        )
    return tasks[name]


def _with_settings(values: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the user's fields; a ConfigError for a field that the checkpoint determines."""
    for section, fields in settings.items():
        if section not in _OPEN or not isinstance(fields, dict):
            name = f"{section}.{next(iter(fields))}" if isinstance(fields, dict) and fields else section
            raise ConfigError(
                f"{name} is determined by the checkpoint; an import takes only fields of {', '.join(_OPEN[:-1])} and "
                f"{_OPEN[-1]}"
            )
        values = {**values, section: {**values.get(section, {}), **fields}}
    return values


def _tokenizer_section(checkpoint: Checkpoint) -> dict[str, Any]:
    if (tokenizer := next(iter(checkpoint.tokenizers.values()), None)) is None:
        return {}  # an image model
    forms = (("nfkc", "\ufb01", "fi"), ("nfc", "e\u0301", "\u00e9"))
    return {
        "kind": kind_of(tokenizer),
        "vocab_size": max(5, tokenizer.vocab_size),
        "lowercase": tokenizer.lowercases,
        "normalization": next((n for n, text, normal in forms if tokenizer.normalize(text) == normal), "none"),
    }


def kind_of(tokenizer: TextTokenizer) -> str:
    """The value of `tokenizer.kind` for a tokenizer."""
    if tokenizer.unit != "token":
        return {"character": "char"}.get(tokenizer.unit, tokenizer.unit)
    name = type(tokenizer.library.model).__name__
    kind = "byte_bpe" if tokenizer.is_of_bytes else {"BPE": "bpe", "Unigram": "unigram"}.get(name, name.lower())
    assert kind in str(TokenizerConfig.model_fields["kind"].annotation), kind
    return kind


def _write_card(run: Run, name: str, checkpoint: Checkpoint, folder: Path) -> None:
    report, place = run.report, shell_word(Path(run.folder.name))
    special = run.task.task.uses
    uses = [
        *(with_file(use).format(run=place) for use in (special(run) if special else spec_of(run.config.task).uses)),
        f"heed export {place} --to huggingface --out FOLDER",
    ]
    lines = [
        f"# {markdown(name)}",
        "",
        f"A {run.config.task.replace('_', ' ')} model of {report['parameters']:,} parameters, imported by heed "
        f"{report['versions']['heed']} from the Hugging Face checkpoint {markdown(name)} ({checkpoint.architecture}). "
        f"`{folders.ORIGIN}` records its origin; heed has not scored it.",
        *([] if checkpoint.licence is None else ["", f"Licence of the checkpoint: {checkpoint.licence}"]),
        "",
        *command_lines(uses, "the directory that holds this folder"),
    ]
    (folder / CARD).write_text("\n".join(lines) + "\n", encoding="utf-8")


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
    numbered_as: str  # the checkpoint whose tokenizer it has; empty for one of this run
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
    run: Run | str | Path = "last",
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


def export_checkpoint(run: Run, out: str | Path | None = None) -> ExportedCheckpoint:
    """Write a run as a checkpoint, read it back, and compare.

    Args:
        run: A run of a task that has checkpoints.
        out: The folder to make; `RUN/export/huggingface` by default.

    Raises:
        ConfigError: No family can express the model; the message names the field.
        RunError: The folder exists, or the checkpoint as read back differs; nothing is kept.
        DiskError: The disk is full or writing fails.
    """
    kind = HEADS.get(spec_of(run.config.task).checkpoints)
    if kind is None or len(run.members) > 1:
        names = ", ".join(name for name in task_names() if spec_of(name).checkpoints)
        what = "an ensemble" if len(run.members) > 1 else run.config.task
        raise ConfigError(f"export to huggingface is not available for {what}; it is for {names}")
    if out is None and run.folder.is_relative_to(cache_folder()):
        raise ConfigError("a packed run has no folder to keep the checkpoint in; name one with --out")
    final = run.folder / folders.EXPORT / "huggingface" if out is None else Path(out)
    if out is not None and os.path.exists(final) and (not final.is_dir() or any(final.iterdir())):
        raise already_exists(final)
    exportable, origin = kind.exportable(run), Origin.read(run.folder)
    vocabularies, numbered_as = _vocabularies(exportable, origin)
    family, fields = _family(run, exportable, origin, vocabularies)
    settings = _settings(family, fields, exportable, origin if numbered_as else None)
    layout = Layout(exportable.body, exportable.heads, exportable.tied)
    table = kind.placed(family.read(final / CONFIG, settings).table(layout))
    model = run.model
    bare = "" if exportable.heads else family.prefix  # a body alone is stored without its name
    tensors = {name.removeprefix(bare): tensor.cpu() for name, tensor in store(table, model.state_dict()).items()}
    missing = exportable.exported_tensors(unshared(model)).keys() - {name for line in table for name in line.ours}
    assert not missing, f"the table has no line for {sorted(missing)}"
    # Outside the run folder it is an ordinary checkpoint, without heed's checksums.
    needed = sum(tensor.nbytes for tensor in tensors.values())
    with write_folder(final, needed, checksums=out is None, replace=out is None) as part:
        save_tensors(tensors, part / SAFETENSORS, {"format": "pt"})
        write_json(part / CONFIG, settings)
        family.write_tokenizers(vocabularies, part)
        for name, values in exportable.files.items():
            write_json(part / name, {**(optional_json(part / name) or {}), **values})
        difference = _check(run, kind, part)
    written_as = settings["architectures"][0], (final / SAFETENSORS).stat().st_size, numbered_as, difference
    return ExportedCheckpoint(final, *written_as, exportable.notes, bool(vocabularies))


def _vocabularies(exportable: Exportable, origin: Origin | None) -> tuple[Vocabularies, str]:
    """The tokenizers with what their files said, and the checkpoint that they are from ("" for this run's own)."""
    tokenizers = exportable.tokenizers
    files = {} if origin is None else {role: origin.files_of(tokenizer) for role, tokenizer in tokenizers.items()}
    source = "" if origin is None or None in files.values() else origin.source
    return {role: (tokenizer, (source and files[role]) or {}) for role, tokenizer in tokenizers.items()}, source


def _family(
    run: Run, exportable: Exportable, origin: Origin | None, vocabularies: Vocabularies
) -> tuple[type[Family], dict[str, Any]]:
    """The family to write a run as: that of its original checkpoint, or the first that can express it."""
    fitting = [family for family in FAMILIES if family.model == run.config.model.name]
    if not fitting:
        models = ", ".join(dict.fromkeys(family.model for family in FAMILIES))
        raise ConfigError(f"model '{run.config.model.name}' cannot be exported to huggingface; these can: {models}")
    if origin is not None:
        fitting.sort(key=lambda family: family.model_type != origin.family)
    refused: list[ConfigError] = []
    for family in fitting:
        try:
            if exportable.label_bias is not None and exportable.label_bias != family.label_bias:
                ours, theirs = (str(bias).lower() for bias in (exportable.label_bias, family.label_bias))
                raise ConfigError(
                    f"{family.model_type} cannot express model.output_bias={ours}: train with "
                    f"model.output_bias={theirs}"
                )
            family.check(exportable.body, exportable.heads)
            return family, family.settings(exportable.body, exportable.heads, vocabularies)
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


def _settings(
    family: type[Family], fields: Mapping[str, Any], exportable: Exportable, origin: Origin | None
) -> dict[str, Any]:
    """The fields of config.json: those of the run, and further ones of its original checkpoint."""
    before = origin.settings if origin is not None and origin.family == family.model_type else {}
    return {
        **{name: value for name, value in before.items() if name not in _OF_THE_HEAD | _OF_THE_FILE},
        "architectures": [family.architectures[exportable.heads]],
        "model_type": family.model_type,
        **fields,
        **exportable.settings,
        **({"tie_word_embeddings": exportable.tied} if exportable.tokenizers else {}),
        "dtype": "float32",
    }


def _check(run: Run, kind: Heads, part: Path) -> float:
    """Read the written checkpoint like any other, and compare it with the run.

    Returns:
        The largest difference of a state of the body.
    """
    checkpoint = Checkpoint.open(part)
    again, _ = build(checkpoint, run.config.task, run.folder.name)
    exportable = kind.exportable(run)
    for role, tokenizer in exportable.tokenizers.items():
        other = checkpoint.tokenizers[role]
        if tokenizer.tokens != other.tokens:
            raise _differs(f"its {role} differ: {tokenizer.first_difference(other)}")
        for text in _TEXTS:
            if (a := tokenizer.encode(text).ids) != (b := other.encode(text).ids):
                pieces = [[reader.token(i) for i in ids] for reader, ids in ((tokenizer, a), (other, b))]
                raise _differs(f"it splits {text!r} into {pieces[1]} instead of {pieces[0]}")
    bodies: list[Any] = [each.task.body(each.model).cpu().eval() for each in (run, again)]
    example = bodies[0].example(bodies[0].config, 1)
    with torch.no_grad():
        a, b = (body(**example) for body in bodies)
    difference = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
    if not difference <= _CLOSE:
        raise _differs(f"a state of its body differs by {difference:.2g}")
    read_back = again.model.state_dict()
    for name, tensor in exportable.exported_tensors(unshared(run.model)).items():
        theirs = read_back.get(name)
        if theirs is None or theirs.shape != tensor.shape:
            raise _differs(f"tensor '{name}' is missing or has another shape")
        if tensor.dim() and not torch.equal(tensor.cpu(), theirs):
            raise _differs(f"tensor '{name}' differs")
    return difference


def _differs(what: str) -> RunError:
    return RunError(f"the exported checkpoint, read back, differs from the run: {what}; the export was discarded")
