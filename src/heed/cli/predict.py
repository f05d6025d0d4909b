"""`heed predict`.

Each input line gives an output line, blank for a blank line; a line break or tab inside an output is written as a space
(`--json` keeps it). Counts of characters and words never seen in training go to stderr. On a terminal, runs that write
a continuation or a response show the output for a single text or line while it is generated, except with a beam,
several candidates or `--json`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from heed.cli.options import read_as_texts
from heed.cli.terminal import interactive, open_output, say
from heed.data.findings import BadLine
from heed.data.text_files import InputFindings, Numbered, in_batches, incoming, without_compression
from heed.errors import ConfigError, DataError, DiskError, HeedError, InputError, RunError
from heed.runs.loading import open_together
from heed.storage.disk import make_folder
from heed.tasks import capability, options_of
from heed.tasks.base.predictions import FileOutputs, Outputs, TextOutputs, Written, one_line, some_pieces
from heed.tasks.base.report import counted_are
from heed.tasks.run import Run
from heed.threads import sparing
from heed.visible import shell_word

_OF_ALL = (ConfigError, RunError, DiskError)
"""Errors that concern all inputs, not one of them, unless they are `InputError`s."""
_EMPTY = Written(("",))
"""The output for an input that cannot be used."""
_HEAD = 1_000
"""Lines by which a task recognises the kind of its input."""
_DISTINCT = 10_000
"""Number of different unknown pieces that are counted separately."""


_NAMED = 5
"""Most inputs that a note names."""


class Unseen:
    """Counts of pieces never seen in training: separately for the first 10,000, so that memory is bounded."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._total = 0

    def add(self, pieces: Sequence[str]) -> None:
        """Count pieces."""
        self._total += len(pieces)
        for piece in (shown for one in pieces for shown in some_pieces([one])):
            if piece in self._counts or len(self._counts) < _DISTINCT:
                self._counts[piece] += 1

    def note(self, unit: str) -> str:
        """One line about the unseen pieces; "" if there are none. `unit` is a plural such as "words"."""
        if not self._total:
            return ""
        listing = ", ".join(f"{piece!r} ({count:,})" for piece, count in self._counts.most_common(10))
        many = f"{self._total:,} {unit} were" if self._total > 1 else f"1 {unit.removesuffix('s')} was"
        return f"{many} never seen in training: {listing}"


class Answering:
    """Writes answers; an unusable input is an error, or is reported and answered by an empty line."""

    def __init__(self, outputs: TextOutputs, findings: InputFindings, strict: bool) -> None:
        """With `strict`, an input for which the task returns a problem instead of an answer is an error too."""
        self.outputs, self.findings, self._strict = outputs, findings, strict
        self.unseen = Unseen()
        self._long: list[str] = []  # the first inputs that were not read to their ends
        self._num_long = 0
        self._named: str | None = None  # the file of the last of them

    def notes(self) -> list[str]:
        """Remarks for the user on all inputs."""
        notes = [*self.outputs.notes(), self.unseen.note(self.outputs.unit)]
        if self._num_long:
            longer = f"{counted_are(self._num_long, 'input')} longer than the model reads ({self.outputs.limit})"
            more = ", ..." if self._num_long > len(self._long) else ""
            notes.append(f"{longer}; tokens not read: {', '.join(self._long)}{more}")
        return notes

    def write(
        self, batches: Iterable[list[Numbered]], where: str | None, file: TextIO, head: Sequence[str] | None = None
    ) -> None:
        """Answer each input, batch by batch; the output is flushed after each batch.

        On a terminal, the answer to a single input is shown while it is generated.

        Args:
            batches: The inputs.
            where: The name of their source in messages; None for arguments.
            file: The output.
            head: All inputs, if they are known beforehand.

        Raises:
            HeedError: An input cannot be answered, and the policy is to stop; the answers before it are written.
        """
        live = file is sys.stdout and file.isatty() and self.outputs.streams
        single = head is not None and len(head) == 1
        try:
            for batch in self._expected(batches, where, head):
                grows = live and (len(batch) == 1 or where is None)
                answers = self._grown(batch, where, file, single) if grows else self._answered(batch, where, single)
                for (_, text), written in answers:
                    if not isinstance(text, BadLine) and written is not _EMPTY:
                        self.unseen.add(self.outputs.unknown_in(text))
                    put(written.lines, file)
                file.flush()
        finally:
            file.flush()

    def sort(self, batches: Iterable[list[Numbered]], where: str | None, file: TextIO) -> None:
        """Write the answers to all inputs, the most uncertain first; blank and unusable inputs are left out.

        Raises:
            HeedError: An input cannot be answered, and the policy is to stop.
        """
        answers: list[Written] = []
        for batch in self._expected(batches, where, None):
            filled = [(number, one) for number, one in batch if isinstance(one, BadLine) or "".join(one).strip()]
            answers += (written for _, written in self._answered(filled, where, False) if written is not _EMPTY)
        for written in sorted(answers, key=lambda written: -written.uncertainty):
            put(written.lines, file)

    def _expected(
        self, batches: Iterable[list[Numbered]], where: str | None, head: Sequence[str] | None
    ) -> Iterator[list[Numbered]]:
        """Yield the batches, showing the first lines to the task, and again whenever their number has doubled."""
        if head is not None:
            self.outputs.expect(head, where)
            yield from batches
            return
        lines: list[str] = []
        seen = 0
        empty = True
        for batch in batches:
            empty = False
            if seen < _HEAD:
                lines += [text for _, text in batch[: _HEAD - len(lines)] if isinstance(text, str)]
                if lines and len(lines) >= min(2 * seen, _HEAD):
                    self.outputs.expect(lines, where)
                    seen = len(lines)
            yield batch
        if empty:
            self.outputs.expect([], where)

    def _answered(self, batch: list[Numbered], where: str | None, single: bool) -> Iterator[tuple[Numbered, Written]]:
        """Each input with its answer."""
        checked, error = self._checked(batch, where, single)
        usable = [one for one, good in checked if good]
        answers = self._each(usable, where, single) if usable else iter(())
        for one, good in checked:
            written = next(answers) if good else _EMPTY
            if written.problem:
                self._report(written.problem, one[0])
            if written.unread:
                self._num_long += 1
                place = f"line {one[0]}" if where == self._named and where else _place(where, one[0], single)
                self._long += [f"{written.unread:,} of {place}"][: len(self._long) < _NAMED]
                self._named = where
            yield one, written
        for _ in answers:
            raise AssertionError("more answers than inputs")
        if error is not None:
            raise error

    def _grown(
        self, batch: list[Numbered], where: str | None, file: TextIO, single: bool
    ) -> Iterator[tuple[Numbered, Written]]:
        """As `_answered`, one by one, each written piece by piece; a single text's answer keeps its line breaks."""
        for one in batch:
            checked, error = self._checked([one], where, single)
            if error is not None:
                raise error
            if not checked[0][1]:
                yield one, _EMPTY
                continue
            try:
                for piece in self.outputs.grow(checked[0][0][1]):
                    print(piece if single else one_line(piece), end="", flush=True)
            except HeedError as problem:
                if _is_of_all(problem):
                    raise
                self.findings.refuse(type(problem)(f"{_place(where, one[0], single)}: {problem}"), one[0])
            yield one, Written(("",))  # the end of the line

    def _checked(
        self, batch: list[Numbered], where: str | None, single: bool
    ) -> tuple[list[tuple[Numbered, bool]], HeedError | None]:
        """Each input with True if it is usable, up to the first one that is an error, and that error."""
        checked: list[tuple[Numbered, bool]] = []
        for number, text in batch:
            good = not isinstance(text, BadLine)
            try:
                if good:
                    text = self.outputs.read(text, _place(where, number, single))
            except HeedError as error:
                try:
                    self.findings.refuse(error, number)
                except HeedError as final:
                    return checked, final
                good = False
            checked.append(((number, text), good))
        return checked, None

    def _each(self, batch: list[Numbered], where: str | None, single: bool) -> Iterator[Written]:
        """Answers to usable inputs, computed together; if that fails, each half separately."""
        done = 0
        try:
            for written in self.outputs.write([text for _, text in batch]):
                done += 1
                yield written
            return
        except HeedError as error:
            if _is_of_all(error):
                raise
            problem = error
        rest = batch[done:]
        if len(rest) > 1:
            yield from self._each(rest[: len(rest) // 2], where, single)
            yield from self._each(rest[len(rest) // 2 :], where, single)
            return
        number = rest[0][0]
        self.findings.refuse(type(problem)(f"{_place(where, number, single)}: {problem}"), number)
        yield _EMPTY

    def _report(self, problem: str, number: int) -> None:
        """Report an input that has no answer."""
        if self._strict:
            raise DataError(problem)
        self.findings.count(f"{problem}; left empty", number)


def _is_of_all(error: HeedError) -> bool:
    return isinstance(error, _OF_ALL) and not isinstance(error, InputError)


def put(lines: Iterable[str], file: TextIO) -> None:
    """Write lines."""
    file.write("".join(line + "\n" for line in lines))


def _place(where: str | None, number: int, single: bool) -> str:
    """The name of an input in messages."""
    if where is None:
        return "the text" if single else f"text {number}"
    return f"{where} line {number}"


SOME_BAD = 4
"""Exit status if some inputs could not be used."""
_HINT = "--bad-lines skip writes an empty line in its place and continues"


def outputs_of(run: Run, given: dict[str, Any]) -> Outputs:
    """The outputs of a run for the options typed.

    Raises:
        ConfigError: The task does not predict, or an option does not apply to it.
    """
    outputs: Outputs = capability(run, "outputs").outputs(options_of(run.config.task, "predict", given))
    return outputs


@dataclass(frozen=True)
class Given:
    """The input of `heed predict`, and how to treat it."""

    texts: list[str]
    input: Path | None = None
    out: Path | None = None
    bad_lines: Literal["error", "skip"] | None = None  # as in training by default
    window: int = 2_000  # lines sorted by length and computed together
    force: bool = False  # use a damaged run
    device: str = "auto"

    def findings(self, run: Run) -> InputFindings:
        """The policy for unusable lines."""
        data = run.config.data
        policy = self.bad_lines or getattr(data, "bad_lines", "error")
        return InputFindings(data, policy == "skip", lambda line: say([line]), "" if self.texts else _HINT)


@sparing()
def run_predict(names: list[str], given: Given, flags: dict[str, Any]) -> None:
    """Write the output for each text in the order of the input, including blank lines; several runs are an ensemble."""
    if given.texts and given.input is not None:
        raise ConfigError("give either texts or --input, not both")
    run: Run = open_together(names, given.force, given.device)
    outputs = outputs_of(run, flags)
    source, out = given.input, given.out
    if (
        source is not None
        and os.path.isfile(source)
        and out is not None
        and os.path.exists(out)
        and out.samefile(source)
    ):
        raise ConfigError(f"--out '{out}' is the input; it would be overwritten")
    findings = given.findings(run)
    if isinstance(outputs, FileOutputs):
        _file(run, outputs, given)
    elif not given.texts and source is None and interactive():
        assert isinstance(outputs, TextOutputs)
        say([outputs.warning])
        ask(outputs)
        return
    else:
        assert isinstance(outputs, TextOutputs)
        answering = Answering(outputs, findings, strict=given.bad_lines == "error")
        if source is not None and os.path.isdir(source) and not outputs.takes_folders:
            _folder(answering, given)
        elif given.texts:
            if not outputs.takes_folders:
                for name, line in read_as_texts(given.texts):
                    say([f"{line}; to read the file: --input {shell_word(name)}"])
            texts = outputs.arguments(given.texts)
            _answer(answering, in_batches(enumerate(texts, start=1), given.window), None, out, texts)
        else:
            _answer_file(answering, source, out, given.window)
        say([outputs.warning, *answering.notes()])
    if findings.num_bad:
        say([_bad(findings)])
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
        try:
            read = outputs.read(text, "the text")
        except HeedError as error:
            print(error)
            continue
        _show(outputs, read)
        if unknown := outputs.unknown_in(read):
            print(f"never seen in training: {' '.join(some_pieces(unknown))}")
        for note in outputs.notes():
            if note not in said:
                print(note)
                said.add(note)


def _show(outputs: TextOutputs, text: Any) -> None:
    """Print the answer to one input, while it is generated if the task can."""
    for piece in outputs.pieces(text):
        print(piece, end="", flush=True)
    print()


def _file(run: Run, outputs: FileOutputs, given: Given) -> None:
    """Write the output for a file that is read as a whole."""
    if given.texts or given.input is None or not os.path.isfile(given.input):
        raise ConfigError(f"a run of {run.config.task} reads {outputs.reads}; name it with --input")
    if given.bad_lines == "skip":
        raise ConfigError(f"--bad-lines skip does not apply: {outputs.reads} is used as a whole")
    with open_output(given.out) as file:
        file.writelines(line + "\n" for line in outputs.write_file(given.input))
    say(outputs.notes())


def _answer_file(answering: Answering, path: Path | None, out: Path | None, window: int) -> None:
    """Answer a file of lines, of columns or of JSON lines, or standard input."""
    found = None if path is None else answering.outputs.inputs(path, answering.findings)
    if found is None:
        name = "stdin" if path is None else f"'{path}'"
        _answer(answering, incoming(path, answering.findings, window), name, out)
    else:
        say([found[1]])
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
    files = [path for path in entries if os.path.isfile(path) and not path.name.startswith(".")]
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
    make_folder(out)
    if left := [path.name for path in entries if path not in files]:
        say([f"skipped (hidden, or not a file): {', '.join(left)}"])
    for name, path in names.items():
        _answer_file(answering, path, out / name, given.window)
        print(f"wrote {out / name}", file=sys.stderr)


def _bad(findings: InputFindings) -> str:
    """One line about the inputs that could not be used."""
    count = findings.num_bad
    places = ", ".join(findings.bad_places) + (", ..." if count > len(findings.bad_places) else "")
    inputs, numbers, their = ("input", "number", "its") if count == 1 else ("inputs", "numbers", "their")
    return f"{count:,} {inputs} could not be used ({numbers} {places}); {their} output is empty"
