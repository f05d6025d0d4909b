"""A trained model of any task made of an input and a head, with all that it can do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heed.data.examples import Kept
from heed.data.findings import Findings
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import Measure, Outcomes, rate
from heed.generation import Writer
from heed.tasks import capability, spec_of
from heed.tasks.base import run as runs
from heed.tasks.base.attributing import Attributes
from heed.tasks.base.beams import HasBeams
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.predictions import Outputs, Predictions
from heed.tasks.base.tracing import HasLens, HasPatching
from heed.tasks.contracts import Head, Input
from heed.tasks.work import Baselines, Looks, Work
from heed.threads import sparing


class Run(runs.Run[Work, Any]):
    """A trained model, or several as an ensemble, which answer together (`Head.together`)."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.predict = _with_keywords(self.predict, self.head.keywords)  # type: ignore[method-assign]

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
    def has_outputs(self) -> bool:  # type: ignore[override]
        return self.head.has_outputs

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
        if self.head.writes:
            return [some[0] for some in self.head.candidates(self, examples, **options)]
        answers, unread = self._answers(examples, **options)
        made = [self.head.predict(a, e, self.input) for a, e in zip(answers, self.input.each(examples), strict=True)]
        return self.input.finished(self.head, made, examples, unread)

    def _answers(self, examples: Sequence[Any], **options: Any) -> tuple[list[Any], Sequence[int]]:
        """The answer to each example, and the number of its tokens that are not read."""
        each = []
        for run in self.members:
            encoded = self.input.encoded_for(run.input, examples)
            each.append(run.task.answers(run.model, encoded, run.head.with_options(**options)))
            unread = [run.input.unread(one) for one in encoded] if self.input.is_text else ()
        together = self.head.together
        return each[0] if len(each) == 1 else [together(some) for some in zip(*each, strict=True)], unread

    def answers(self, given: Sequence[Any]) -> list[Any]:
        """The head's answer to each of several inputs, of which `predict` makes a prediction."""
        return self._answers(self.input.questions(given)[0])[0]

    def probabilities(self, given: Sequence[Any]) -> Tensor:
        """The probability of each label for each of several inputs, `(inputs, labels)`, in the order of the labels."""
        return torch.stack(self.answers(given))

    def unknown_in(self, text: Any) -> Sequence[str]:
        return self.input.unknown_in(text)

    def candidates(self, given: Sequence[Any], num_best: int = 1, **options: Any) -> list[list[Any]]:
        """The `num_best` best texts for each of several inputs, best first, of a run that writes.

        Options are `beam_size`, `length_penalty`, `min_length`, `max_length` (the configuration's by default),
        `sampling` (`heed.generation.SamplingOptions`), `with_baseline` (adds the output of the best baseline by the
        run's report, as `.baseline`); for a text written for a text `prefix`, and `engine`: "torch", or one that the
        run was exported for ("ctranslate2", "ctranslate2-int8").
        """
        if isinstance(given, str):
            raise ConfigError(f"candidates takes several texts; for one, write [{given!r}]")
        examples, _ = self.input.questions(given)
        texts: list[list[Any]] = self.head.candidates(self, examples, num_best=num_best, **options)
        return texts

    def searched(self, given: Any, **options: Any) -> tuple[str, Any]:
        """What was read, for people, and the best output; options of writing, `watch` (as of a search) among them."""
        best = self.candidates([given], **{**self.head.looked, **options})[0][0]
        return given if isinstance(given, str) else self.head.shown(given), best

    def write(self, given: Any, *others: Any, **options: Any) -> Generator[str, None, Any]:
        """A text for one input, piece by piece while it is written: `for piece in run.write(...)`.

        A response takes `speaker` as its second argument. Options as of `predict`, without a beam search.
        """
        pieces: Generator[str, None, Any] = self.head.grow(self, given, *others, **options)
        return pieces

    def chat(self, speaker: str | None = None, **options: Any) -> Any:
        """Start a conversation with a model of dialogue as a speaker; `say` returns its response."""
        if self.task.task.chat is None:
            raise AttributeError(f"a run of {self.config.task} holds no conversations")
        return self.task.task.chat(self, speaker, **options)

    def rank(self, *given: Any, **options: Any) -> list[Any]:
        """Order given outputs by their probability, most probable first; arguments are those of the task."""
        if self.task.task.ranks is None:
            raise AttributeError(f"a run of {self.config.task} ranks nothing")
        ranked: list[Any] = self.task.task.ranks(self, *given, **options)
        return ranked

    def follows(self, pairs: Sequence[tuple[str, str]]) -> Predictions[Any]:
        """Predict for each pair of texts the probability that the second follows the first.

        Raises:
            ConfigError: The run has no head for pairs, or a text is blank.
        """
        if not self.task.task.follows:
            raise AttributeError(f"a run of {self.config.task} reads no pairs of texts")
        return Predictions(self.predicted(pairs))

    @cached_property
    def _writers(self) -> dict[str, Writer]:
        return {}

    def writer(self, engine: str) -> Writer:
        """The exported model of this run, opened on first use.

        Raises:
            ConfigError, RunError: As `heed.exchange.open_engine`; or this is an ensemble.
        """
        if len(self.members) > 1:
            raise ConfigError(f"engine '{engine}' runs one model; ensembles need engine 'torch'")
        from heed.exchange import open_engine  # imported only when an engine is used

        if engine not in self._writers:
            self._writers[engine] = open_engine(self.folder, self.task, engine)
        return self._writers[engine]

    def export(self, to: str = "ctranslate2", quantization: str = "float32") -> Any:
        """Write the model for another program; see `heed.exchange.export_translation`."""
        capability(self, "export")
        self._writers.clear()
        made = self.task.task.export
        assert made is not None
        return made(self.folder, self.task, self.model, to, quantization)

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
        kept = examples if isinstance(examples, Kept) else [one for one in examples if not one.blank]
        return self.input.scorable(kept, "examples")

    def read(self, files: Sequence[str | Path]) -> Sequence[Any]:
        """Examples from files in the format of the run's own data; blank ones are left out."""
        findings = Findings.of(self.config.data, strict=True)
        examples = self.input.read_files(files, findings, getattr(self.head, "labels", ()))
        self.reading = findings.lines()
        if not isinstance(examples, Kept) and not self.input.keeps_blank:
            examples = [one for one in examples if not one.blank]
        return self.input.scorable(examples, ", ".join(map(str, files)))

    def outcomes(self, examples: Sequence[Any], outputs: Sequence[Any] | None = None, others: Any = None) -> Outcomes:
        """The predictions for examples with all their measures; `others` as in `Head.outcomes`."""
        self._check_any(examples)
        return self.head.scored(self, examples, outputs, others)

    def score(self, examples: Any, **options: Any) -> Any:
        """Score any examples, and the task's baselines on them; of some tasks also one text, token by token.

        Returns:
            The report as plain values; of a text, the scores of its tokens.
        """
        of_text = self.task.task.scores_text
        if isinstance(examples, str) and of_text is not None:
            return of_text(self, examples, **options)
        return super().score(examples)

    def report_of(self, examples: Sequence[Any]) -> dict[str, Any]:
        if self.head.writes or not self.has_outputs:
            return super().report_of(examples)
        scores = self.head.scores(self._to_score(examples), examples, self.input, self.config.evaluation.bootstrap)
        return {"task": self.config.task, **scores}

    def _to_score(self, examples: Sequence[Any]) -> list[Any]:
        self._check_any(examples)
        self.head.encode(examples, self.input)  # truths that cannot be scored are refused before anything is predicted
        return self.predicted(examples)

    def _check_any(self, examples: Sequence[Any]) -> None:
        if not len(examples):
            spec = spec_of(self.config.task)
            raise ConfigError(f"there are no {spec.scored_unit or spec.unit}s to score")

    def score_and_loss(self, examples: Sequence[Any]) -> tuple[Measure, Measure | None]:
        if self.has_outputs and not self.head.writes:
            outputs = self.predicted(examples)
            score, nats = self.outcomes(examples, outputs).measures[0], self.head.nats(outputs, examples)
            return score, None if nats is None else rate("loss", "loss", nats, [1.0] * len(nats), 3)
        score, loss = super().score_and_loss(examples)
        if loss is None and self.head.writes:
            nats, _, tokens = self.task.judged(self.model, self.input.encode(examples)).T.tolist()
            loss = rate("loss", "loss", nats, tokens, 3)
        return score, loss

    def baselines(self, examples: Sequence[Any]) -> Mapping[str, Outcomes]:
        made = {}
        for name, predict in self.baseline_writers.items():
            with suppress(DataError):  # its data can no longer be read
                made[name] = self.head.beside(self, examples, predict)
        return made

    @cached_property
    def baseline_writers(self) -> Baselines:
        """What each baseline predicts for examples, by its name."""
        return self.task.task.baselines(self)

    def validated(self) -> Sequence[Any]:
        return self.input.validated(self.examples("valid"))

    by_length = property(lambda self: self.head.by_length)

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
            if why := first.input.check_alike(other.input, first.folder) or first.head.check_alike(other.head):
                raise ConfigError(f"'{first.folder}' and '{other.folder}' cannot form an ensemble: {why}")
        deciding = next((run for run in several if run.head.decides), first)
        head: Any = first.head
        model = head.combined([run.model for run in several]) if head.writes else deciding.model
        return cls(deciding.folder, first.config, deciding.task, model, {}, several)

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

    def readable(self, text: Any) -> Any:
        """The input of a look.

        Raises:
            ConfigError, DataError: It is not an input of this run, or it is blank.
        """
        own = self.looks.readable
        return self.input.readable(text) if own is None else own(self.task, text)

    @property
    def attending(self) -> Run:
        """The run whose attention links words."""
        first: Run = self.members[0]
        return first

    @property
    def _links(self) -> Any:
        return capability(self, "align").task.task.aligns

    def aligner(self, **options: Any) -> Any:
        """Links of several pairs; see `heed.tasks.heads.alignment.AlignsWords`, also for the options."""
        return self._links.aligner(self, **options)

    def align(self, source: Any, target: Any, **options: Any) -> Any:
        """Links between the words of a source and of a target, or of several."""
        return self._links.align(self, source, target, **options)

    def aligned_heads(self, examples: Sequence[Any]) -> dict[int, list[float]]:
        """What each head of the attention to the source looks at."""
        heads: dict[int, list[float]] = self._links.aligned_heads(self, examples)
        return heads

    def alignment_scores(self, examples: Sequence[Any], gold: str | Path) -> tuple[dict[str, Any], list[str]]:
        """Scores of the links against those of a file, and remarks."""
        scores: tuple[dict[str, Any], list[str]] = self._links.alignment_scores(self, examples, gold)
        return scores

    def _links_of(self, source: str, prediction: Any) -> Any:
        return self._links._links_of(self, source, prediction)

    beams: Any = HasBeams.beams
    patch: Any = HasPatching.patch
    lens: Any = HasLens.lens

    @wraps(LooksAtText.look)
    def look(self: Any, text: Any, **options: Any) -> Any:
        """As the task looks."""
        return (self.looks.look or LooksAtText.look)(self, text, **options)

    @wraps(Attributes.attribute)
    def attribute(self: Any, text: Any, **options: Any) -> Any:
        """As the task attributes."""
        return (self.looks.attribute or Attributes.attribute)(self, text, **options)


def _with_keywords(method: Callable[..., Any], keywords: Mapping[str, Any]) -> Callable[..., Any]:
    """A method of a run with the keywords of its task in its signature."""

    @wraps(method)
    def call(*given: Any, **options: Any) -> Any:
        return method(*given, **options)

    shown, only = inspect.signature(method), inspect.Parameter.KEYWORD_ONLY
    parameters = [one for one in shown.parameters.values() if one.kind < only]
    parameters += [inspect.Parameter(name, only, default=value) for name, value in keywords.items()]
    call.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call
