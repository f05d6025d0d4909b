"""`heed predict`."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

import heed
from heed.cli.app import read_lines
from heed.cli.outputs import Outputs, PredictOptions, outputs_of
from heed.cli.terminal import interactive
from heed.errors import ConfigError
from heed.runs.train import Run
from heed.tasks.series.run import SeriesRun
from heed.tasks.table.run import TableRun
from heed.tasks.tagging.run import TaggingRun

__all__ = ["ask", "run_predict"]

_TOGETHER = 2_000
"""Lines read, decoded and written at a time, so that output flows."""


def run_predict(
    names: list[str], texts: list[str], given: Path | None, out: Path | None, options: PredictOptions
) -> None:
    """Write one output (or `nbest`) per text, in the order of the input, blank lines included.

    Several runs write together.
    """
    if texts and given is not None:
        raise ConfigError("give either texts or --input, not both")
    if options.beam is not None and options.nbest > options.beam:
        raise ConfigError(f"--nbest {options.nbest} needs a --beam of at least {options.nbest}, not {options.beam}")
    options.sampling()
    run: Run[Any, Any] = heed.load(names[0]) if len(names) == 1 else heed.ensemble(names)
    if isinstance(run, TableRun | SeriesRun):
        _numbers(run, texts, given, out, options)
        return
    if options.horizon is not None:
        raise ConfigError(f"--horizon does not apply to a run of {run.config.task}")
    outputs = outputs_of(run, options)
    if options.align and not run.model.aligns:
        raise ConfigError(f"model '{run.config.model.name}' has no attention, so there is nothing for --align to show")
    if options.columns:
        _columns(run, given, out)
        return
    if not texts and given is None and interactive():
        ask(run, PredictOptions(engine=options.engine))
        return
    unknown: Counter[str] = Counter()
    if given is not None and given.is_dir():
        _folder(outputs, given, out, unknown)
    else:
        lines = texts or read_lines(given)
        if out is not None and given is not None and out.exists() and out.samefile(given):
            raise ConfigError(f"--out '{out}' is the input; it would be overwritten")
        with nullcontext(sys.stdout) if out is None else _open(out) as file:
            _write(outputs, lines, file, unknown)
    if unknown:
        listing = ", ".join(f"{piece!r} ({count})" for piece, count in unknown.most_common(10))
        what = {"character": "characters", "word": "words"}.get(outputs.tokenizer.unit, "pieces")
        print(f"heed: {unknown.total()} {what} were never seen in training: {listing}", file=sys.stderr)


def _open(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write '{path}': {error.strerror}") from None


def ask(run: Run[Any, Any], options: PredictOptions | None = None) -> None:
    """Answer what a person types until an empty line or the end of input."""
    outputs = outputs_of(run, options or PredictOptions())
    print("Type a text; an empty line ends.")
    while True:
        try:
            text = input("> ")
        except EOFError:
            print()
            return
        if not text.strip():
            return
        print(outputs.answer(text))
        if unknown := outputs.unknown_in(text):
            print(f"never seen in training: {' '.join(dict.fromkeys(unknown))}")


def _folder(outputs: Outputs[Any], given: Path, out: Path | None, unknown: Counter[str]) -> None:
    """Each file of a folder to a file of the same name in another folder."""
    if out is None:
        raise ConfigError(f"'{given}' is a folder; name the folder for the outputs with --out")
    entries = sorted(given.iterdir())
    files = [path for path in entries if path.is_file() and not path.name.startswith(".")]
    if not files:
        raise ConfigError(f"no file in folder '{given}'")
    if out.resolve() == given.resolve():
        raise ConfigError(f"--out '{out}' is the folder of the input; its files would be overwritten")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make folder '{out}': {error.strerror}") from None
    if left := [path.name for path in entries if path not in files]:
        print(f"heed: left out, hidden or no file: {', '.join(left)}", file=sys.stderr)
    for path in files:
        lines = read_lines(path)
        with _open(out / path.name) as file:
            _write(outputs, lines, file, unknown)
        print(f"wrote {out / path.name}", file=sys.stderr)


def _write(outputs: Outputs[Any], lines: list[str], file: TextIO, unknown: Counter[str]) -> None:
    if outputs.options.sort:  # the most uncertain first; blank lines say nothing
        lines = [line for line in lines if line.strip()]
        for written in sorted(outputs.write(lines), key=lambda written: -written.uncertainty):
            file.writelines(text + "\n" for text in written.lines)
        return
    for start in range(0, len(lines), _TOGETHER):
        chunk = lines[start : start + _TOGETHER]
        for line, written in zip(chunk, outputs.write(chunk), strict=True):
            unknown.update(outputs.unknown_in(line))
            file.writelines(text + "\n" for text in written.lines)
        file.flush()


def _numbers(
    run: TableRun | SeriesRun, texts: list[str], given: Path | None, out: Path | None, options: PredictOptions
) -> None:
    """The label of each row of a file, or the rows that follow a series, as CSV."""
    options.refuse_others(run.config.task, ("horizon",) if isinstance(run, SeriesRun) else ("as_json",))
    if texts or given is None or not given.is_file():
        raise ConfigError(f"a run of {run.config.task} reads a file of columns; name it with --input")
    if out is not None and out.exists() and out.samefile(given):
        raise ConfigError(f"--out '{out}' is the input; it would be overwritten")
    if isinstance(run, SeriesRun):
        rows = run.predict_file(given, options.horizon)
        table = [list(run.task.standard.columns), *([f"{value:.6g}" for value in row] for row in rows)]
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(table)
        lines = buffer.getvalue().splitlines()
    elif options.as_json:
        lines = [
            json.dumps({"label": one.label, "probabilities": one.probabilities}, ensure_ascii=False)
            for one in run.predict_file(given)
        ]
    else:
        lines = [f"{one.label}\t{one.probability:.4f}" for one in run.predict_file(given)]
    with nullcontext(sys.stdout) if out is None else _open(out) as file:
        file.writelines(line + "\n" for line in lines)


def _columns(run: Run[Any, Any], given: Path | None, out: Path | None) -> None:
    """The lines of a file in columns again, with the predicted tags in the column of the tags."""
    assert isinstance(run, TaggingRun)
    if given is None or not given.is_file():
        raise ConfigError("--columns reads a file in columns; name it with --input")
    if out is not None and out.exists() and out.samefile(given):
        raise ConfigError(f"--out '{out}' is the input; it would be overwritten")
    lines = run.tag_columns(given)
    with nullcontext(sys.stdout) if out is None else _open(out) as file:
        file.writelines(line + "\n" for line in lines)
