"""Written summaries, and which documents were cut before they were read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from heed.config import FilesData
from heed.data.read.findings import Findings
from heed.data.read.inputs import input_texts
from heed.tasks.base.outputs import Written
from heed.tasks.base.report import counted_are
from heed.tasks.summarisation.config import DOCUMENT_NAMES, MemorySummaries, SummaryHub
from heed.tasks.translation.outputs import TranslationOutputs

if TYPE_CHECKING:
    from heed.tasks.summarisation.run import Summariser


class SummaryOutputs(TranslationOutputs):
    """As written translations."""

    run: Summariser
    asks = "a document"
    _read = 0
    _long: tuple[int, ...] = ()

    def inputs(self, path: Path) -> tuple[list[str], str] | None:
        """The documents of a file with columns: by the name of their column, or the first one."""
        data = self.run.task.config.data
        own = data if isinstance(data, FilesData) and not isinstance(data, SummaryHub | MemorySummaries) else None
        given = None if own is None else own.columns.source
        findings = Findings.of(data, strict=True)
        return input_texts(path, given, (*DOCUMENT_NAMES,), findings, (), () if own is None else own.train)

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Each document's candidates."""
        self._long += tuple(self._read + n + 1 for n in self.run.task.cut_in(texts))
        self._read += len(texts)
        return super().write(texts)

    def answer(self, text: str) -> str:
        """The best summary and its probability."""
        self._long += (self._read + 1,) * len(self.run.task.cut_in([text]))
        self._read += 1
        return super().answer(text)

    def notes(self) -> list[str]:
        """How many documents and summaries were cut."""
        if not self._long:
            return super().notes()
        places = ", ".join(f"{n:,}" for n in self._long[:5]) + (", ..." if len(self._long) > 5 else "")
        what = (
            f"{counted_are(len(self._long), 'document')} longer than data.max_source {self.run.task.max_source} tokens"
        )
        return [f"{what}; only the beginning was read: number {places}", *super().notes()]
