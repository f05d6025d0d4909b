"""`heed predict`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

from heed.cli.flags import options_of
from heed.cli.terminal import interactive, open_output, read_lines
from heed.errors import ConfigError
from heed.runs.ensemble import open_together
from heed.tasks.base.capabilities import Writes, capability
from heed.tasks.base.outputs import FileOutputs, Outputs, TextOutputs
from heed.tasks.base.run import Run

_TOGETHER = 2_000
"""Lines read, decoded and written at a time, so that output flows."""


def outputs_of(run: Run[Any, Any], given: dict[str, Any]) -> Outputs:
    """The outputs of a run by the options that were typed.

    Raises:
        ConfigError: The task has no outputs of the kind, or an option does not apply.
    """
    return capability(run, Writes).outputs(options_of(run.config.task, "predict", given))


def run_predict(
    names: list[str],
    texts: list[str],
    given: Path | None,
    out: Path | None,
    flags: dict[str, Any],
    force: bool = False,
) -> None:
    """Write the output for each text in the order of the input, blank lines included; several runs write together."""
    if texts and given is not None:
        raise ConfigError("give either texts or --input, not both")
    run: Run[Any, Any] = open_together(names, force)
    outputs = outputs_of(run, flags)
    if given is not None and given.is_file() and out is not None and out.exists() and out.samefile(given):
        raise ConfigError(f"--out '{out}' is the input; it would be overwritten")
    if isinstance(outputs, FileOutputs):
        if texts or given is None or not given.is_file():
            raise ConfigError(f"a run of {run.config.task} reads {outputs.reads}; name it with --input")
        with open_output(out) as file:
            file.writelines(line + "\n" for line in outputs.write_file(given))
        for note in outputs.notes():
            print(f"heed: {note}", file=sys.stderr)
        return
    assert isinstance(outputs, TextOutputs)
    if not texts and given is None and interactive():
        ask(outputs)
        return
    texts = outputs.arguments(texts)
    unknown: Counter[str] = Counter()
    if given is not None and given.is_dir() and not outputs.takes_folders:
        _folder(outputs, given, out, unknown)
    elif len(texts) == 1 and out is None and outputs.streams and sys.stdout.isatty():
        outputs.expect(texts, None)
        _show(outputs, texts[0])
        unknown.update(outputs.unknown_in(texts[0]))
    else:
        found = None if given is None else outputs.inputs(given)
        if found is not None:
            print(f"heed: {found[1]}", file=sys.stderr)
        lines = texts or (read_lines(given) if found is None else found[0])
        outputs.expect(lines, None if texts else "stdin" if given is None else f"'{given}'")
        with open_output(out) as file:
            file.writelines(line + "\n" for line in outputs.header())
            _write(outputs, lines, file, unknown)
    for note in outputs.notes():
        print(f"heed: {note}", file=sys.stderr)
    if unknown:
        listing = ", ".join(f"{piece!r} ({count})" for piece, count in unknown.most_common(10))
        print(f"heed: {unknown.total()} {outputs.unit} were never seen in training: {listing}", file=sys.stderr)


def ask(outputs: TextOutputs) -> None:
    """Answer what a person types until an empty line or the end of input."""
    print(f"Type {outputs.asks}; an empty line ends.")
    said: set[str] = set()
    while True:
        try:
            text = input("> ")
        except EOFError:
            print()
            return
        if not text.strip():
            return
        if (reply := outputs.command(text)) is not None:
            print(reply)
            continue
        _show(outputs, text)
        if unknown := outputs.unknown_in(text):
            print(f"never seen in training: {' '.join(dict.fromkeys(unknown))}")
        for note in outputs.notes():
            if note not in said:
                print(note)
                said.add(note)


def _show(outputs: TextOutputs, text: str) -> None:
    """Print the answer to one text, as it is written where the task can."""
    for piece in outputs.pieces(text):
        print(piece, end="", flush=True)
    print()


def _folder(outputs: TextOutputs, given: Path, out: Path | None, unknown: Counter[str]) -> None:
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
        outputs.expect(lines, f"'{path}'")
        with open_output(out / path.name) as file:
            _write(outputs, lines, file, unknown)
        print(f"wrote {out / path.name}", file=sys.stderr)


def _write(outputs: TextOutputs, lines: list[str], file: TextIO, unknown: Counter[str]) -> None:
    if outputs.options.get("sort"):  # the most uncertain first; blank lines say nothing
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
