"""Predictions for inputs, in their order, as they arrive: the work of `heed predict`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from heed.data.read.findings import BadLine
from heed.data.read.incoming import InputFindings, Numbered
from heed.errors import ConfigError, DataError, DiskError, HeedError, InputError, RunError
from heed.tasks.base.outputs import TextOutputs, Written, one_line

_OF_ALL = (ConfigError, RunError, DiskError)
"""Errors that concern all inputs, not one of them, unless they are `InputError`s."""
_EMPTY = Written(("",))
"""The output for an input that cannot be used."""
_HEAD = 1_000
"""Lines by which a task recognises the kind of its input."""
_DISTINCT = 10_000
"""Number of different unknown pieces that are counted separately."""


class Unseen:
    """Counts of pieces never seen in training: separately for the first 10,000, so that memory is bounded."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._total = 0

    def add(self, pieces: Sequence[str]) -> None:
        """Count pieces."""
        self._total += len(pieces)
        for piece in pieces:
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
                    if isinstance(text, str) and written is not _EMPTY:
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
            filled = [(number, text) for number, text in batch if isinstance(text, BadLine) or text.strip()]
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
        """Each input with its answer.

        Raises:
            HeedError: An input cannot be answered, and the policy is to stop; raised after the answers before it.
        """
        checked, error = self._checked(batch, where, single)
        usable = [(number, str(text)) for (number, text), good in checked if good]
        answers = self._each(usable, where, single) if usable else iter(())
        for one, good in checked:
            written = next(answers) if good else _EMPTY
            if written.problem:
                self._report(written.problem, one[0])
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
                for piece in self.outputs.grow(str(one[1])):
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
            good = isinstance(text, str)
            try:
                if isinstance(text, str):
                    self.outputs.check(text, _place(where, number, single))
            except HeedError as error:
                try:
                    self.findings.refuse(error, number)
                except HeedError as final:
                    return checked, final
                good = False
            checked.append(((number, text), good))
        return checked, None

    def _each(self, batch: list[tuple[int, str]], where: str | None, single: bool) -> Iterator[Written]:
        """Answers to usable inputs, computed together; if that fails, each half separately.

        Raises:
            HeedError: An input cannot be answered, and the policy is to stop.
        """
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
