"""Output of summaries, with a note on documents that were cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from heed.config import FilesData
from heed.data.read.findings import Findings
from heed.data.read.incoming import Numbered
from heed.data.read.inputs import input_texts
from heed.tasks.base.outputs import Written
from heed.tasks.base.report import counted_are
from heed.tasks.summarisation.config import DOCUMENT_NAMES, MemorySummaries, SummaryHub
from heed.tasks.translation.outputs import TranslationOutputs

if TYPE_CHECKING:
    from heed.tasks.summarisation.run import Summariser


_NAMED = 5
"""Most cut documents that are listed by number."""


class SummaryOutputs(TranslationOutputs):
    """Output as for translation, for summaries."""

    run: Summariser
    asks = "a document"
    _read = 0
    _num_long = 0
    _long: tuple[int, ...] = ()  # numbers of the first long documents

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        """The documents of a file of columns: the column with such a name, or the first one."""
        data = self.run.task.config.data
        own = data if isinstance(data, FilesData) and not isinstance(data, SummaryHub | MemorySummaries) else None
        given = None if own is None else own.columns.source
        return input_texts(path, given, (*DOCUMENT_NAMES,), findings, (), () if own is None else own.train)

    def write(self, texts: list[str]) -> Iterator[Written]:
        """The candidates for each document."""
        yield from super().write(texts)
        self._count(texts)

    def answer(self, text: str) -> str:
        """The best summary and its probability."""
        self._count([text])
        return super().answer(text)

    def _count(self, texts: list[str]) -> None:
        cut = self.run.task.cut_in(texts)
        self._num_long += len(cut)
        self._long = (*self._long, *(self._read + n + 1 for n in cut))[:_NAMED]
        self._read += len(texts)

    def notes(self) -> list[str]:
        """The numbers of documents and summaries that were cut."""
        if not self._long:
            return super().notes()
        places = ", ".join(f"{n:,}" for n in self._long) + (", ..." if self._num_long > _NAMED else "")
        what = (
            f"{counted_are(self._num_long, 'document')} longer than data.max_source {self.run.task.max_source} tokens"
        )
        return [f"{what}; only the beginning was read: number {places}", *super().notes()]
