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
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from heed.cli.options import PredictOptions, read_as_texts
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
from heed.threads import prediction_threads
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
_Place = Callable[[int], str]
"""Names an input in messages, by its number."""


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
        place = partial(_place, where, single)
        try:
            for batch in self._expected(batches, where, head):
                grows = live and (len(batch) == 1 or where is None)
                for text, written in self._grown(batch, place, single) if grows else self._answered(batch, place):
                    if written is not _EMPTY:
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
            place = partial(_place, where, False)
            answers += (written for _, written in self._answered(filled, place) if written is not _EMPTY)
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

    def _answered(self, batch: list[Numbered], place: _Place) -> Iterator[tuple[Any, Written]]:
        """Each input as it was read, with its answer; None for one that cannot be used."""
        inputs, final = self._read(batch, place)
        answers = self._each([(number, text) for number, text in inputs if text is not None], place)
        for number, text in inputs:
            written = _EMPTY if text is None else next(answers)
            if written.problem:
                self._report(written.problem, number)
            if written.unread:
                self._num_long += 1
                self._long += [f"{written.unread:,} of {place(number)}"][: len(self._long) < _NAMED]
            yield text, written
        if final is not None:
            raise final

    def _grown(self, batch: list[Numbered], place: _Place, single: bool) -> Iterator[tuple[Any, Written]]:
        """As `_answered`, one by one, each written piece by piece; a single text's answer keeps its line breaks."""
        for one in batch:
            inputs, final = self._read([one], place)
            if final is not None:
                raise final
            number, text = inputs[0]
            if text is None:
                yield text, _EMPTY
                continue
            try:
                for piece in self.outputs.grow(text):
                    print(piece if single else one_line(piece), end="", flush=True)
            except HeedError as problem:
                if _is_of_all(problem):
                    raise
                self.findings.refuse(type(problem)(f"{place(number)}: {problem}"), number)
            yield text, Written(("",))  # the end of the line

    def _read(self, batch: list[Numbered], place: _Place) -> tuple[list[tuple[int, Any]], HeedError | None]:
        """Inputs as the task reads them, None for unusable ones, up to the first that is an error, and that error."""
        inputs: list[tuple[int, Any]] = []
        for number, text in batch:
            try:
                read = None if isinstance(text, BadLine) else self.outputs.read(text, place(number))
            except HeedError as error:
                try:
                    self.findings.refuse(error, number)
                except HeedError as final:
                    return inputs, final
                read = None
            inputs.append((number, read))
        return inputs, None

    def _each(self, inputs: list[tuple[int, Any]], place: _Place) -> Iterator[Written]:
        """Answers to usable inputs, computed together; if that fails, each half separately."""
        done = 0
        try:
            for written in self.outputs.write([text for _, text in inputs]):
                done += 1
                yield written
            return
        except HeedError as error:
            if _is_of_all(error):
                raise
            problem = error
        rest = inputs[done:]
        if len(rest) > 1:
            yield from self._each(rest[: len(rest) // 2], place)
            yield from self._each(rest[len(rest) // 2 :], place)
            return
        number = rest[0][0]
        self.findings.refuse(type(problem)(f"{place(number)}: {problem}"), number)
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


def _place(where: str | None, single: bool, number: int) -> str:
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


@prediction_threads()
def run_predict(names: list[str], texts: list[str], options: PredictOptions, flags: dict[str, Any]) -> None:
    """Write the output for each text in the order of the input, including blank lines; several runs are an ensemble."""
    source, out, window = options.input, options.out, options.sort_window
    if texts and source is not None:
        raise ConfigError("give either texts or --input, not both")
    run: Run = open_together(names, options.force, options.device)
    outputs = outputs_of(run, flags)
    if (
        source is not None
        and os.path.isfile(source)
        and out is not None
        and os.path.exists(out)
        and out.samefile(source)
    ):
        raise ConfigError(f"--out '{out}' is the input; it would be overwritten")
    policy = options.bad_lines or getattr(run.config.data, "bad_lines", "error")
    findings = InputFindings(run.config.data, policy == "skip", lambda line: say([line]), "" if texts else _HINT)
    if isinstance(outputs, FileOutputs):
        _file(run, outputs, texts, options)
    elif not texts and source is None and interactive():
        assert isinstance(outputs, TextOutputs)
        say([outputs.warning])
        ask(outputs)
        return
    else:
        assert isinstance(outputs, TextOutputs)
        answering = Answering(outputs, findings, strict=options.bad_lines == "error")
        if source is not None and os.path.isdir(source) and not outputs.takes_folders:
            _folder(answering, source, out, window)
        elif texts:
            if not outputs.takes_folders:
                for name, line in read_as_texts(texts):
                    say([f"{line}; to read the file: --input {shell_word(name)}"])
            read = outputs.arguments(texts)
            _answer(answering, in_batches(enumerate(read, start=1), window), None, out, read)
        else:
            _answer_file(answering, source, out, window)
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


def _file(run: Run, outputs: FileOutputs, texts: list[str], options: PredictOptions) -> None:
    """Write the output for a file that is read as a whole."""
    if texts or options.input is None or not os.path.isfile(options.input):
        raise ConfigError(f"a run of {run.config.task} reads {outputs.reads}; name it with --input")
    if options.bad_lines == "skip":
        raise ConfigError(f"--bad-lines skip does not apply: {outputs.reads} is used as a whole")
    with open_output(options.out) as file:
        file.writelines(line + "\n" for line in outputs.write_file(options.input))
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


def _folder(answering: Answering, folder: Path, out: Path | None, window: int) -> None:
    """Answer each file of a folder into a file of the same name in another folder."""
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
        _answer_file(answering, path, out / name, window)
        print(f"wrote {out / name}", file=sys.stderr)


def _bad(findings: InputFindings) -> str:
    """One line about the inputs that could not be used."""
    count = findings.num_bad
    places = ", ".join(findings.bad_places) + (", ..." if count > len(findings.bad_places) else "")
    inputs, numbers, their = ("input", "number", "its") if count == 1 else ("inputs", "numbers", "their")
    return f"{count:,} {inputs} could not be used ({numbers} {places}); {their} output is empty"
