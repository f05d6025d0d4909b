"""Output of predicted tags: the entities of a text on one line, JSON, or a column file with predicted tags."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.data.read.contents import content_of
from heed.data.read.head import Head
from heed.data.tokens.words import split_words
from heed.errors import ConfigError
from heed.tasks.base.outputs import FileOutputs, TextOutputs, Written, one_line
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.tasks.tagging.prediction import TagPrediction
    from heed.tasks.tagging.run import WordTagger


class TaggingOutputs(TextOutputs):
    """The entities of a text on one line, separated by tabs: `start-end label probability words`.

    Plain tags are written as `word/tag`.
    """

    run: WordTagger

    unit = "words"

    def unknown_in(self, text: str) -> Sequence[str]:
        """The words of a text that training never saw."""
        return self.run.task.unknown_in(text[start:end] for start, end in split_words(text))

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        """Refuse input in columns (words with tags) and JSON objects."""
        filled = [line for line in lines if line.strip()]
        if filled and all(isinstance(_parsed(line), dict) for line in filled):
            raise ConfigError(f"{where or 'the input'}: each line is a JSON object; expected one text a line")
        content = content_of(Head(Path("input"), tuple(lines[:1_000]), False))
        if content is not None and content.kind == "tagged" and content.sure:
            raise ConfigError(
                f"{where or 'the input'}: {content.why}; expected one text per line (column files need --columns)"
            )

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Each text's entities."""
        for text, prediction in zip(texts, self.run.predict(texts), strict=True):
            yield Written((self._line(text, prediction),), prediction.uncertainty)

    def _line(self, text: str, prediction: TagPrediction) -> str:
        if self.options["json"]:
            return to_json({"text": text, **prediction.as_values()})
        line = prediction.summary()
        return "\t".join([f"{prediction.uncertainty:.4f}", one_line(text), line]) if self.options["sort"] else line

    def answer(self, text: str) -> str:
        """The entities."""
        return self.run.predict(text).summary() or "(no entity)"


def _parsed(line: str) -> Any:
    """The JSON value of a line; None for other text."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class ColumnOutputs(FileOutputs):
    """The lines of a column file, with the predicted tags in the tag column."""

    run: WordTagger

    def write_file(self, path: Path) -> Iterable[str]:
        """The file's lines."""
        return self.run.tag_columns(path)
