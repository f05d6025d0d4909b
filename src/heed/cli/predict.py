"""`heed predict`.

Each input line gives an output line, blank for a blank line; a line break or tab inside an output is written as a space
(`--json` keeps it). Counts of characters and words never seen in training go to stderr. On a terminal, runs that write
a continuation or a response show the output for a single text or line while it is generated, except with a beam,
several candidates or `--json`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from heed.cli.answering import Answering, put
from heed.cli.flags import options_of
from heed.cli.given import read_as_texts
from heed.cli.terminal import interactive, open_output
from heed.data.read.incoming import Incoming, InputFindings, Numbered, in_batches
from heed.data.read.lines import without_compression
from heed.errors import ConfigError
from heed.runs.ensemble import open_together
from heed.tasks.base.capabilities import Writes, capability
from heed.tasks.base.outputs import FileOutputs, Outputs, TextOutputs
from heed.tasks.base.run import Run
from heed.threads import sparing
from heed.visible import shell_word

SOME_BAD = 4
"""Exit status if some inputs could not be used."""
_HINT = "--bad-lines skip writes an empty line in its place and continues"


def outputs_of(run: Run[Any, Any], given: dict[str, Any]) -> Outputs:
    """The outputs of a run for the options typed.

    Raises:
        ConfigError: The task does not predict, or an option does not apply to it.
    """
    return capability(run, Writes).outputs(options_of(run.config.task, "predict", given))


@dataclass(frozen=True)
class Given:
    """The input of `heed predict`, and how to treat it."""

    texts: list[str]
    input: Path | None = None
    out: Path | None = None
    bad_lines: Literal["error", "skip"] | None = None  # as in training by default
    window: int = 2_000  # lines sorted by length and computed together
    force: bool = False  # use a damaged run

    def findings(self, run: Run[Any, Any]) -> InputFindings:
        """The policy for unusable lines."""
        data = run.config.data
        policy = self.bad_lines or getattr(data, "bad_lines", "error")
        return InputFindings(data, policy == "skip", _say, "" if self.texts else _HINT)


@sparing()
def run_predict(names: list[str], given: Given, flags: dict[str, Any]) -> None:
    """Write the output for each text in the order of the input, including blank lines; several runs are an ensemble."""
    if given.texts and given.input is not None:
        raise ConfigError("give either texts or --input, not both")
    run: Run[Any, Any] = open_together(names, given.force)
    outputs = outputs_of(run, flags)
    source, out = given.input, given.out
    if source is not None and source.is_file() and out is not None and out.exists() and out.samefile(source):
        raise ConfigError(f"--out '{out}' is the input; it would be overwritten")
    findings = given.findings(run)
    if isinstance(outputs, FileOutputs):
        _file(run, outputs, given)
    elif not given.texts and source is None and interactive():
        assert isinstance(outputs, TextOutputs)
        ask(outputs)
        return
    else:
        assert isinstance(outputs, TextOutputs)
        answering = Answering(outputs, findings, strict=given.bad_lines == "error")
        if source is not None and source.is_dir() and not outputs.takes_folders:
            _folder(answering, given)
        elif given.texts:
            if not outputs.takes_folders:
                for name, line in read_as_texts(given.texts):
                    _say(f"{line}; to read the file: --input {shell_word(name)}")
            texts = outputs.arguments(given.texts)
            _answer(answering, in_batches(enumerate(texts, start=1), given.window), None, out, texts)
        else:
            _answer_file(answering, source, out, given.window)
        _say(*outputs.notes(), answering.unseen.note(outputs.unit))
    if findings.num_bad:
        _say(_bad(findings))
        sys.exit(SOME_BAD)


def ask(outputs: TextOutputs) -> None:
    """Answer typed texts until an empty line or the end of input."""
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
    """Print the answer to one text, while it is generated if the task can."""
    for piece in outputs.pieces(text):
        print(piece, end="", flush=True)
    print()


def _file(run: Run[Any, Any], outputs: FileOutputs, given: Given) -> None:
    """Write the output for a file that is read as a whole."""
    if given.texts or given.input is None or not given.input.is_file():
        raise ConfigError(f"a run of {run.config.task} reads {outputs.reads}; name it with --input")
    if given.bad_lines == "skip":
        raise ConfigError(f"--bad-lines skip does not apply: {outputs.reads} is used as a whole")
    with open_output(given.out) as file:
        file.writelines(line + "\n" for line in outputs.write_file(given.input))
    _say(*outputs.notes())


def _answer_file(answering: Answering, path: Path | None, out: Path | None, window: int) -> None:
    """Answer a file of lines, of columns or of JSON lines, or standard input."""
    found = None if path is None else answering.outputs.inputs(path, answering.findings)
    if found is None:
        lines = Incoming(path, answering.findings)
        _answer(answering, lines.batches(window), lines.name, out)
    else:
        _say(found[1])
        _answer(answering, in_batches(found[0], window), f"'{path}'", out)


def _answer(
    answering: Answering,
    batches: Iterable[list[Numbered]],
    where: str | None,
    out: Path | None,
    texts: list[str] | None = None,
) -> None:
    outputs = answering.outputs
    with open_output(out) as file:
        put(outputs.header(), file)
        if outputs.options.get("sort"):
            answering.sort(batches, where, file)
        else:
            answering.write(batches, where, file, texts)


def _folder(answering: Answering, given: Given) -> None:
    """Answer each file of a folder into a file of the same name in another folder."""
    folder, out = given.input, given.out
    assert folder is not None
    if out is None:
        raise ConfigError(f"'{folder}' is a folder; name the folder for the outputs with --out")
    entries = sorted(folder.iterdir())
    files = [path for path in entries if path.is_file() and not path.name.startswith(".")]
    if not files:
        raise ConfigError(f"folder '{folder}' contains no files")
    if out.resolve() == folder.resolve():
        raise ConfigError(f"--out '{out}' is the folder of the input; its files would be overwritten")
    names: dict[str, Path] = {}
    for path in files:  # outputs are not compressed
        name = without_compression(path).name
        if name in names:
            raise ConfigError(
                f"the outputs of '{names[name]}' and '{path}' would both be written to '{out / name}'; rename one"
            )
        names[name] = path
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot create folder '{out}': {error.strerror}") from None
    if left := [path.name for path in entries if path not in files]:
        _say(f"skipped (hidden, or not a file): {', '.join(left)}")
    for name, path in names.items():
        _answer_file(answering, path, out / name, given.window)
        print(f"wrote {out / name}", file=sys.stderr)


def _bad(findings: InputFindings) -> str:
    """One line about the inputs that could not be used."""
    count = findings.num_bad
    places = ", ".join(findings.bad_places) + (", ..." if count > len(findings.bad_places) else "")
    inputs, numbers, their = ("input", "number", "its") if count == 1 else ("inputs", "numbers", "their")
    return f"{count:,} {inputs} could not be used ({numbers} {places}); {their} output is empty"


def _say(*lines: str) -> None:
    """Print messages on stderr, without empty ones."""
    for line in lines:
        if line:
            print(f"heed: {line}", file=sys.stderr)
