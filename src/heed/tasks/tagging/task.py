"""Tagging: a tag for each word of a text, entities in BIO or any other tags."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from markupsafe import Markup

from heed.data.examples import Sentence, is_entity_tag, label_order
from heed.data.findings import Findings
from heed.data.kinds.contents import content_of
from heed.data.kinds.tagged import ColumnFile, by_sentence
from heed.data.tables import Head as Beginning
from heed.errors import ConfigError
from heed.evaluation.labels import entity_errors, mark_entities, score_words, tag_measures, tag_outcomes
from heed.evaluation.measures import Measure, Outcomes
from heed.tasks.base.comparison import Examiner, shadings_html
from heed.tasks.base.head_options import TaggingHead
from heed.tasks.base.predictions import FileOutputs, TextOutputs, in_line
from heed.tasks.base.report import interval, per_label, shown_errors
from heed.tasks.contracts import Input
from heed.tasks.heads.tags import TagPrediction, Tags
from heed.tasks.inputs.words import SENTENCES, Words
from heed.tasks.tagging.look import contrast, explain, look_at_tags
from heed.tasks.work import Baselines, Looks, Task, Work
from heed.visible import escaped

_ERRORS = 100
"""Largest number of errors in a report."""


def report_lines(report: dict[str, Any]) -> list[str]:
    """The scores of one split."""
    lines = [f"  {'words':<20} {report['words']:7,}"]
    if "entity_f1" in report:
        lines.append(f"  {'entity F1':<20} {interval(report['entity_f1'])}")
        lines += [f"  {key:<20} {report[key]:7.2%}" for key in ("precision", "recall")]
    lines.append(f"  {'accuracy of tags':<20} {interval(report['accuracy'])}")
    kind = "type" if "per_type" in report else "tag"
    lines += per_label(report[f"per_{kind}"], kind)
    for word, found in report.get("per_word", {}).items():
        lines.append(f"  the word {word!r:<11} {interval(found['accuracy'])}  ({found['support']:,} times)")
    if "never_seen" in report:
        lines.append(f"  never seen in training, so never predicted: {', '.join(map(escaped, report['never_seen']))}")
    return lines


def error_lines(report: Mapping[str, Any], most: int) -> list[str]:
    """Wrong entities in their context, or the most frequent confusions."""
    errors = shown_errors(report, most)
    if not errors:
        return ["no errors"]
    if "count" in errors[0]:
        lines = (f"  {e['count']:>6,}  {e['true']} predicted as {e['predicted']}" for e in errors)
        return ["most frequent errors:", *lines]
    kinds = (" as ".join(kind for kind in (e["true"], e["predicted"]) if kind) for e in errors)
    lines = (f"  {e['origin']}  {e['kind']}: {k}\n    {e['context']}" for e, k in zip(errors, kinds, strict=True))
    return ["errors (true entity in [ ], predicted in { }):", *lines]


def _errors(examples: Sequence[Sentence], predicted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    pairs = zip(examples, predicted, strict=True)
    every = ((example, error) for example, tags in pairs for error in entity_errors(example.tags, tags))
    return [
        {
            "origin": example.origin,
            "kind": error.kind,
            "true": error.true[0] if error.true else "",
            "predicted": error.predicted[0] if error.predicted else "",
            "context": error.context(example.words),
        }
        for example, error in islice(every, _ERRORS)
    ]


def _confusions(examples: Sequence[Sentence], predicted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """The most frequent confusions of plain tags."""
    tags = (pair for e, said in zip(examples, predicted, strict=True) for pair in zip(e.tags, said, strict=True))
    counts = Counter((true, said) for true, said in tags if true != said)
    return [{"true": t, "predicted": p, "count": count} for (t, p), count in counts.most_common(_ERRORS)]


@dataclass(frozen=True)
class EntityTags(Tags):
    """Tags whose B- and I- of every type are known, though training has only one of them; or tags of no entities."""

    @property
    def select(self) -> str:
        return "accuracy" if self.plain else "entity_f1"

    def complete(self, labels: Sequence[str]) -> Sequence[str]:
        types = {label[2:] for label in labels if is_entity_tag(label)}
        return label_order({*labels, *(f"{letter}-{kind}" for letter in "BI" for kind in types)})

    def settled(self, options: TaggingHead, given: dict[str, Any], work: Work) -> dict[str, Any]:
        if work.config.evaluation.select_by == "entity_f1" and self.plain:
            raise ConfigError("evaluation.select_by is entity_f1, but the tags mark no entities; use accuracy")
        return super().settled(options, given, work)

    def measures(self, predictions: Sequence[TagPrediction], examples: Sequence[Sentence]) -> Sequence[Measure]:
        entity_f1, *others = tag_measures([e.tags for e in examples], [p.tags for p in predictions], self.plain)
        return [*others[-1:], entity_f1]  # of plain tags, accuracy alone

    def outcomes(
        self, predictions: Sequence[TagPrediction], examples: Sequence[Sentence], input: Input, others: Any = None
    ) -> Outcomes:
        """As for every head; `others` is True if a run of a comparison has tags that mark no entities."""
        plain, evaluation = self.plain if others is None else others, self.config.evaluation
        words, true, said = [e.words for e in examples], [e.tags for e in examples], [p.tags for p in predictions]
        made = tag_outcomes([*map(mark_entities, words, said)], true, said, plain)
        if evaluation.words:
            made.details["per_word"] = score_words(words, true, said, evaluation.words, evaluation.bootstrap)
        if never := {*chain(*true)} - {*self.labels}:
            made.details["never_seen"] = sorted(never)
        made.details["errors"] = _confusions(examples, said) if plain else _errors(examples, said)
        return made

    report, errors = staticmethod(report_lines), staticmethod(error_lines)  # type: ignore[assignment]


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
    tagged = run.predictions([[row.text("word") for row in sentence] for sentence in rows])
    tags = (in_line(tag) for prediction in tagged for tag in prediction.tags)
    written = {
        row.number: file.written([*row.cells[:label], tag, *row.cells[label + 1 :]])
        for row, tag in zip(chain.from_iterable(rows), tags, strict=True)
    }
    return [written.get(number, line) for number, line in enumerate(file.lines, start=1)]


def outputs(run: Any, options: Mapping[str, Any]) -> TaggingOutputs | ColumnOutputs:
    """The writer of predictions."""
    return ColumnOutputs(run, options) if options["columns"] else TaggingOutputs(run, options)


class TaggingExaminer(Examiner[Any, Sentence, TagPrediction]):
    """Compares the tags of words."""

    @classmethod
    def truth_of(cls, example: Sentence) -> str:
        return mark_entities(example.words, example.tags)

    def _lengths(self) -> tuple[list[int], str]:
        return [len(sentence.words) for sentence in self.examples], "words"

    def predict(self, run: Any, examples: Sequence[Sentence], beam_size: int | None) -> list[TagPrediction]:
        made: list[TagPrediction] = run.predicted(examples)
        return made

    def count_tokens(self, run: Any, outputs: Sequence[TagPrediction]) -> int:
        return int(run.input.encode(self.examples).lengths[:, 0].sum())

    def outcomes(self, run: Any, outputs: Sequence[TagPrediction]) -> Outcomes:
        made: Outcomes = run.outcomes(self.examples, outputs, any(one.head.plain for one in self.runs))
        return made

    def drawing(self, run: Any, index: int, *given: Any) -> Markup:
        return shadings_html(look_at_tags(run.task, run.model, self.examples[index].words))


TASK = Task(
    "tagging",
    input=Words(SENTENCES),
    head=EntityTags(),
    looks=Looks(look_at_tags, explain, contrast),
    baselines=baselines,
    outputs=outputs,
    examiner=lambda: TaggingExaminer,
    enough_updates=300,
)
