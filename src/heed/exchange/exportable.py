"""What an export asks of a task that writes texts for texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from heed.data.tokens.tokenizer import TextTokenizer


class Exportable(Protocol):
    """A task whose model can run elsewhere, given its tokenizers."""

    @property
    def config(self) -> Any:
        """The configuration, whose `generation` section says how outputs are searched."""
        ...

    @property
    def splits(self) -> Any:
        """The examples, of which the sources of "valid" are tried."""
        ...

    source_tokenizer: TextTokenizer
    target_tokenizer: TextTokenizer

    def framed(self, source: Sequence[int]) -> list[int]:
        """A source as the model reads it."""
        ...

    def never_written(self, model: Any) -> tuple[int, ...]:
        """The tokens that no output may hold."""
        ...

    def save(self, folder: Path) -> None:
        """Write the tokenizers into a folder."""
        ...
