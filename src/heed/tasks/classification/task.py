"""Classification: texts, or pairs of texts, with one label or several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from markupsafe import Markup

from heed.data.corpus import characters_of, sample_of
from heed.data.findings import Findings
from heed.data.kinds.inputs import Input, inputs_in, pair_fields
from heed.data.tables import Field
from heed.data.text_files import Numbered
from heed.tasks.base.comparison import LabelExaminer, shadings_html
from heed.tasks.base.labels import LabelPrediction
from heed.tasks.base.predictions import TextOutputs, question_of
from heed.tasks.classification.look import look_at_text
from heed.tasks.heads.number import LabelsOrNumber, mean_number
from heed.tasks.heads.pooled import TextLabels, TextNumber
from heed.tasks.heads.tfidf import ALONE, MOST_FITTED, NAME, NETWORK, TfidfClassifier
from heed.tasks.inputs.texts import TEXTS, Texts
from heed.tasks.look import contrast, explain, look_at_texts
from heed.tasks.work import Baselines, Looks, Task, Work
from heed.watch.looks import Look

LONGEST = 2
"""Length of the longest n-grams by default: single words and pairs."""
_RATE = 0.001
"""Learning rate of the body with n-grams: at 0.003 it has memorised small sets after two passes."""
_MANY_LABELS = 20
"""From so many labels on the rate is the usual 0.003: with 77, 56.2 % right in place of 53.7 (docs/benchmarks.md)."""
_OFTEN = 400
"""Largest number of batches in a pass for validations twice a pass: a twelfth of the budget would be several passes."""


def is_default(config: Any) -> bool:
    """True if neither a model nor a number of updates is given; never for embedded data, meant for plain models."""
    section = config.model
    named = "name" in section.model_fields_set or section.from_ is not None
    return not named and config.training.steps is None and not config.data.is_embedded


def longest(work: Work) -> int:
    """Length of the longest n-grams beside a network that nobody chose, unless there is much text."""
    few = is_default(work.config) and characters_of(work.splits.examples["train"]) <= MOST_FITTED
    return LONGEST if few else 0


def defaults(settled: Any, work: Any) -> Any:
    """With n-grams by default, the `training` section is adapted to them."""
    if not is_default(work.config) or not settled.model.settings.get("ngrams"):
        return settled
    batches = int(work.input.counted(work.encoded("train").lengths).sum()) / settled.training.batch_tokens
    if len(work.head.labels) < _MANY_LABELS:
        settled = settled.settle_open("beside n-grams", {"training.learning_rate": _RATE})
    if batches > _OFTEN:
        return settled
    return settled.settle_open("twice in a pass", {"training.validate_every": max(1, math.ceil(batches / 2))})


def baselines(run: Any) -> Baselines:
    """The run's n-grams and its network, each alone; TF-IDF and a linear SVM, fitted to its training set once."""
    made: dict[str, Any] = {}
    if len(run.members) == 1 and run.input.linear is not None:
        made = {ALONE: partial(_alone, run, True), NETWORK: partial(_alone, run, False)}
    if isinstance(run.head, TextNumber):
        return mean_number(run)
    if (known := run.training_examples()) is not None:
        known = sample_of(known, MOST_FITTED)

        @cache
        def machine() -> TfidfClassifier:
            return TfidfClassifier([one.source for one in known], [one.labels for one in known], run.head.several)

        made[NAME] = lambda examples: machine().predict([one.source for one in examples])
    return made


def _alone(run: Any, linear: bool, examples: Sequence[Any]) -> list[LabelPrediction]:
    """The labels by the n-grams alone, or by the network alone."""
    work = run.task
    logits = work.input.linear.logits(map(work.input.words_of, examples))
    if not linear:
        encoded = work.input.encode(examples)
        both = torch.stack(work.scored(run.model, encoded, lambda b: [*work.head.states(run.model, b).float().cpu()]))
        logits = both - run.model.ngram_scale.detach().cpu() * logits
    labels = [work.head.predict(row) for row in work.head.probabilities(logits)]
    return [LabelPrediction(one.label, one.labels, one.probability, {}, one.several) for one in labels]


def look(work: Any, model: Any, text: Input, *, contributions: bool = True, **options: Any) -> Look:
    """A look at the label, or the number, of a text; with `contributions`, what each word adds to a label."""
    if isinstance(work.head, TextNumber):
        return look_at_texts(work, model, text, **options)
    return look_at_text(work, model, text, contributions=contributions, **options)


class ClassificationOutputs(TextOutputs):
    """Labels of texts, which may be in a file such as those of training."""

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        data, columns = self.run.config.data, self.run.config.data.columns
        fields = pair_fields(columns.text, columns.second) if self.pairs else [Field("text", columns.text)]
        trained = () if data.is_embedded else data.train
        return inputs_in(path, fields, findings, self.run.head.labels, trained)


class ClassificationExaminer(LabelExaminer):
    """Texts, drawn without the contributions of words, which take a pass for each word."""

    def count_tokens(self, run: Any, outputs: Sequence[LabelPrediction]) -> int:
        return sum(text.length for text in run.input.encode(self.examples))

    def drawing(self, run: Any, index: int, *given: Any) -> Markup:
        return shadings_html(run.look(question_of(run.input, self.examples[index]), contributions=False).look)


TASK = Task(
    "classification",
    input=Texts(TEXTS),
    head=LabelsOrNumber("texts", labels=TextLabels(longest=longest), number=TextNumber()),
    looks=Looks(look, explain, contrast),
    baselines=baselines,
    defaults=defaults,
    outputs=ClassificationOutputs,
    examiner=lambda: ClassificationExaminer,
    enough_updates=300,
)
