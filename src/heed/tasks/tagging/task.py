"""Tagging: a tag for each word of a text, entities in BIO or any other tags."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from markupsafe import Markup

from heed.data.examples import Sentence
from heed.data.findings import Findings
from heed.data.kinds.contents import content_of
from heed.data.kinds.tagged import ColumnFile, by_sentence
from heed.data.tables import Head as Beginning
from heed.errors import ConfigError
from heed.evaluation.labels import mark_entities
from heed.tasks.base.comparison import Examiner, shadings_html
from heed.tasks.base.predictions import FileOutputs, TextOutputs, in_line
from heed.tasks.heads.tags import TagPrediction, Tags
from heed.tasks.inputs.words import SENTENCES, Words
from heed.tasks.tagging.look import contrast, explain, look_at_tags
from heed.tasks.work import Baselines, Looks, Task


def baselines(run: Any) -> Baselines:
    """The most frequent tag of each word in the training set."""
    known = run.known()
    return {} if known is None else {"most frequent tag of each word": frequent_tags(known)}


def frequent_tags(train: Iterable[Sentence]) -> Any:
    """A function that tags sentences: with the most frequent tag of each word in training, alphabetically the first.

    Words never seen have the most frequent tag of all. Words are compared case-sensitively.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    overall = Counter[str]()
    for sentence in train:
        overall.update(sentence.tags)
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    other, *best = (min(tags, key=lambda tag: (-tags[tag], tag)) for tags in (overall, *counts.values()))
    by_word = dict(zip(counts, best, strict=True))

    def tagged(examples: Sequence[Sentence]) -> list[TagPrediction]:
        tags = (tuple(by_word.get(word, other) for word in example.words) for example in examples)
        return [TagPrediction("", e.words, (), mine, (), (), False) for e, mine in zip(examples, tags, strict=True)]

    return tagged


class TaggingOutputs(TextOutputs):
    """The entities of a text on one line, separated by tabs: `start-end label probability words`.

    Plain tags are written as `word/tag`.
    """

    unit = "words"  # whatever the tokens

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        head = Beginning(Path("input"), tuple(lines[:1_000]), False)
        if head.filled and len(head.objects) == len(head.filled):
            raise ConfigError(f"{where or 'the input'}: each line is a JSON object; expected one text a line")
        content = content_of(head)
        if content is not None and content.kind == "tagged" and content.sure:
            raise ConfigError(
                f"{where or 'the input'}: {content.why}; expected one text per line (column files need --columns)"
            )

    def answer(self, text: str) -> str:
        return super().answer(text) or "(no entity)"


class ColumnOutputs(FileOutputs):
    """The lines of a column file, with the predicted tags in the tag column."""

    def write_file(self, path: Path) -> Iterable[str]:
        return tag_columns(self.run, path)


def tag_columns(run: Any, path: Path) -> list[str]:
    """The lines of a column file, with the predicted tags in the tag column.

    If the tag column is missing (words without tags), the tags are added as the last column. Lines without a word
    (blank lines, comments, -DOCSTART-) are unchanged.

    Raises:
        DataError: The file cannot be read, or lacks the columns.
    """
    file = ColumnFile(path, Findings.of(run.config.data, strict=True))
    file.choose_columns(run.config.data.columns, tagged=False)
    label, rows = int(file.columns.get("label", file.width)), list(by_sentence(file))
    tagged = run.predict([[row.text("word") for row in sentence] for sentence in rows])
    tags = (in_line(tag) for prediction in tagged for tag in prediction.tags)
    written = {
        row.number: file.written([*row.cells[:label], tag, *row.cells[label + 1 :]])
        for row, tag in zip(chain.from_iterable(rows), tags, strict=True)
    }
    return [written.get(number, line) for number, line in enumerate(file.lines, start=1)]


def outputs(run: Any, options: Mapping[str, Any]) -> TaggingOutputs | ColumnOutputs:
    """The writer of predictions."""
    return ColumnOutputs(run, options) if options["columns"] else TaggingOutputs(run, options)


class TaggingExaminer(Examiner):
    """Compares the tags of words."""

    @classmethod
    def truth_of(cls, example: Sentence) -> str:
        return mark_entities(example.words, example.tags)

    def _lengths(self) -> tuple[list[int], str]:
        return [len(sentence.words) for sentence in self.examples], "words"

    def count_tokens(self, run: Any, outputs: Sequence[TagPrediction]) -> int:
        return int(run.input.encode(self.examples).lengths[:, 0].sum())

    @property
    def known(self) -> bool:
        return any(run.head.plain for run in self.runs)

    def drawing(self, run: Any, index: int, *given: Any) -> Markup:
        return shadings_html(look_at_tags(run.task, run.model, self.examples[index].words))


TASK = Task(
    "tagging",
    input=Words(SENTENCES),
    head=Tags(),
    looks=Looks(look_at_tags, explain, contrast),
    baselines=baselines,
    outputs=outputs,
    examiner=lambda: TaggingExaminer,
    enough_updates=300,
)
