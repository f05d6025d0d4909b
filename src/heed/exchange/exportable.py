"""Interface of tasks from text to text that can be exported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from heed.data.tokens.tokenizer import TextTokenizer


class Exportable(Protocol):
    """A task whose model other programs can run with its tokenizers."""

    @property
    def config(self) -> Any:
        """The configuration; its `generation` section has the options of the search."""
        ...

    @property
    def splits(self) -> Any:
        """The examples; the self-check uses the sources of "valid"."""
        ...

    source_tokenizer: TextTokenizer
    target_tokenizer: TextTokenizer

    def framed(self, source: Sequence[int]) -> list[int]:
        """A source as the model reads it."""
        ...

    def never_written(self, model: Any) -> tuple[int, ...]:
        """The tokens that may not occur in outputs."""
        ...

    def save(self, folder: Path) -> None:
        """Write the tokenizers into a folder."""
        ...
