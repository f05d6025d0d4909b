"""A trained model of any task made of an input and a head, with all that it can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

from heed.data.examples import Kept
from heed.data.findings import Findings
from heed.errors import ConfigError
from heed.evaluation.measures import Measure, Outcomes, rate
from heed.tasks import spec_of
from heed.tasks.base import run as runs
from heed.tasks.base.attributing import Attributes
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.predictions import Outputs, Predictions
from heed.tasks.base.tracing import HasLens, HasPatching
from heed.tasks.contracts import Head, Input
from heed.tasks.work import Baselines, Looks, Work
from heed.threads import sparing


class Run(runs.Run[Work, Any]):
    """A trained model, or several as an ensemble, which answer together (`Head.together`)."""

    @property
    def input(self) -> Input:
        """What the model reads."""
        return self.task.input

    @property
    def head(self) -> Head:
        """What is compared with its states."""
        return self.task.head

    @property
    def names(self) -> tuple[str, str]:  # type: ignore[override]
        return self.input.key, self.head.names

    @property
    def reads_texts(self) -> bool:  # type: ignore[override]
        return self.input.is_text

    @property
    def uses(self) -> Sequence[str]:
        uses = self.task.task.uses
        return super().uses if uses is None else uses(self)

    def can(self, name: str) -> bool:
        return self.task.task.can(name)

    # Predicting -----------------------------------------------------------------------------------------------

    def outputs(self, options: Mapping[str, Any]) -> Outputs:
        made: Outputs = self.task.task.outputs(self, options)
        return made

    @sparing()
    def predict(self, given: Any, **options: Any) -> Any:
        """The prediction for an input, or for each of several, as a list with `to_frame()`.

        Args:
            given: For tasks over texts, a text, or several: a list, an array, a series, or a data frame with a column
                of texts; if the run reads pairs, a pair is a tuple of two texts. For a table, a row (a dict, column ->
                value), a list of rows, a data frame, a dict of columns, or an array with the run's columns in their
                order; a missing value is None or NaN. For a series, the rows before the forecast in one of these forms,
                a plain list for one column; the answer is one `Forecast` of `horizon` rows, of several series one
                below the other.
            options: Those of the task.

        Raises:
            DataError: An item cannot be read; the message names it.
            UnknownKeywordError: The task has no such option; the message names the nearest.
        """
        runs.check_options(options, self.head.keywords)
        examples, single = self.input.questions(given)
        made = self.predicted(examples, **options)
        return made[0] if single else Predictions(made, self.head.numbered)

    def predictions(self, texts: Sequence[Any], **options: Any) -> list[Any]:
        """The prediction for each input, as `predict` takes several."""
        return self.predicted(self.input.questions(list(texts))[0], **options)

    def predicted(self, examples: Sequence[Any], **options: Any) -> list[Any]:
        """The prediction for each example."""
        if not len(examples):
            return []
        each = []
        for run in self.members:
            encoded = self.input.encoded_for(run.input, examples)
            each.append(run.task.answers(run.model, encoded, run.head.with_options(**options)))
            unread = [run.input.unread(one) for one in encoded] if self.input.is_text else ()
        answers = each[0] if len(each) == 1 else [self.head.together(some) for some in zip(*each, strict=True)]
        made = [self.head.predict(a, e, self.input) for a, e in zip(answers, self.input.each(examples), strict=True)]
        return self.input.finished(self.head, made, examples, unread)

    def unknown_in(self, text: Any) -> Sequence[str]:
        return self.input.unknown_in(text)

    def typed(self, texts: Sequence[str]) -> list[Any]:
        """The inputs given as arguments of the command.

        Raises:
            ConfigError: The second text of a pair is missing.
        """
        return self.input.typed(texts)

    def input_of(self, example: Any) -> Any:
        return self.input.question(example)

    # Scoring --------------------------------------------------------------------------------------------------

    def held(self, data: Any) -> Sequence[Any]:
        examples = self.task.input.hold(
            data, "examples", self.section_of(data), Findings.of(self.config.data, strict=True)
        )
        return examples if isinstance(examples, Kept) else [one for one in examples if not one.blank]

    def read(self, files: Sequence[str | Path]) -> Sequence[Any]:
        """Examples from files in the format of the run's own data; blank ones are left out."""
        findings = Findings.of(self.config.data, strict=True)
        examples = self.input.read_files(files, findings, getattr(self.head, "labels", ()))
        self.reading = findings.lines()
        return examples if isinstance(examples, Kept) else [one for one in examples if not one.blank]

    def outcomes(self, examples: Sequence[Any], outputs: Sequence[Any] | None = None, others: Any = None) -> Outcomes:
        """The predictions for examples with all their measures; `others` as in `Head.outcomes`."""
        outputs = self._to_score(examples) if outputs is None else outputs
        return self.head.outcomes(outputs, examples, self.input, others)

    def report_of(self, examples: Sequence[Any]) -> dict[str, Any]:
        scores = self.head.scores(self._to_score(examples), examples, self.input, self.config.evaluation.bootstrap)
        return {"task": self.config.task, **scores}

    def _to_score(self, examples: Sequence[Any]) -> list[Any]:
        if not len(examples):
            spec = spec_of(self.config.task)
            raise ConfigError(f"there are no {spec.scored_unit or spec.unit}s to score")
        return self.predicted(examples)

    def score_and_loss(self, examples: Sequence[Any]) -> tuple[Measure, Measure | None]:
        outputs = self.predicted(examples)
        score, nats = self.outcomes(examples, outputs).measures[0], self.head.nats(outputs, examples)
        return score, None if nats is None else rate("loss", "loss", nats, [1.0] * len(nats), 3)

    def baselines(self, examples: Sequence[Any]) -> Mapping[str, Outcomes]:
        return {name: self.outcomes(examples, predict(examples)) for name, predict in self._baselines.items()}

    @cached_property
    def _baselines(self) -> Baselines:
        return self.task.task.baselines(self)

    def body(self, report: dict[str, Any]) -> list[str]:  # type: ignore[override]
        return self.head.report(report)

    def errors(self, report: Mapping[str, Any], most: int) -> list[str]:
        """The wrong examples of a report, as lines for people."""
        return self.head.errors(report, most)

    def errors_page(self, errors: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
        """An HTML page of the wrong examples of reports, by the name of the set."""
        made = self.task.task.errors_page
        assert made is not None
        return made(self, errors)

    def examiner(self) -> type[Any]:
        """The class that compares these runs."""
        made = self.task.task.examiner
        return Examiner if made is None else made()

    @classmethod
    def ensemble(cls, several: Sequence[Run]) -> Run:
        """Runs that predict together; the settings are those of the first.

        Raises:
            ConfigError: Two runs differ in what they answer; the message names the first difference.
        """
        first = several[0]
        for other in several[1:]:
            if why := first.head.check_alike(other.head):
                raise ConfigError(f"'{first.folder}' and '{other.folder}' cannot form an ensemble: {why}")
        deciding = next((run for run in several if run.head.decides), first)
        return cls(deciding.folder, first.config, deciding.task, deciding.model, {}, several)

    # Looking --------------------------------------------------------------------------------------------------

    @property
    def looks(self) -> Looks:
        """The functions that look inside the model."""
        return self.task.task.looks

    look_at = property(lambda self: self.looks.at)
    explain = property(lambda self: self.looks.explain)
    contrast = property(lambda self: self.looks.contrast)
    lens_reads = property(lambda self: self.looks.lens)
    looks_at_several = property(lambda self: self.looks.several)
    patch: Any = HasPatching.patch
    lens: Any = HasLens.lens

    def readable(self, text: Any) -> Any:
        return self.input.readable(text)

    @wraps(LooksAtText.look)
    def look(self: Any, text: Any, **options: Any) -> Any:
        """As the task looks."""
        return (self.looks.look or LooksAtText.look)(self, text, **options)

    @wraps(Attributes.attribute)
    def attribute(self: Any, text: Any, **options: Any) -> Any:
        """As the task attributes."""
        return (self.looks.attribute or Attributes.attribute)(self, text, **options)
