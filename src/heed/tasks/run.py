"""A trained model of any task, with everything it can do: predict, score, look."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, wraps
from itertools import repeat
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heed.config import RunConfig
from heed.config.data import without_missing
from heed.data.examples import HashedExamples
from heed.data.findings import Findings
from heed.data.tables import column_names
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError, UnknownKeywordError, nearest, suggest
from heed.evaluation.measures import Measure, Outcomes, rate
from heed.evaluation.significance import summarise
from heed.folder import EXPORT
from heed.generation import Writer
from heed.memory import READING, SCORING, explains_memory
from heed.show.shown import ShownCurves
from heed.tasks import capability, spec_of
from heed.tasks.base.attributing import attribute as attribute_words
from heed.tasks.base.attributing import beams as search_beams
from heed.tasks.base.attributing import lens as logit_lens
from heed.tasks.base.attributing import patch as patch_states
from heed.tasks.base.curves import curves_of
from heed.tasks.base.labels import difference_of, nats_of
from heed.tasks.base.looking import look as look_at_text
from heed.tasks.base.looking import readable
from heed.tasks.base.predictions import Outputs, Predictions, Scores, short
from heed.tasks.base.report import baseline_scores
from heed.tasks.contracts import Head, Input
from heed.tasks.work import Baselines, Looks, Work
from heed.threads import prediction_threads
from heed.training.device import predicting, scoring
from heed.watch.interventions import EqualWeights, equal_weights


def _in(
    context: Callable[..., AbstractContextManager[object]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For a method of a run that computes in a context of the run's `precision`."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Run, *args: Any, **options: Any) -> Any:
            first = next(self.model.parameters(), None)
            with nullcontext() if first is None else context(self.precision, first.device):
                return method(self, *args, **options)

        return call

    return decorate


_scoring = explains_memory("while scoring", SCORING)
_looking = explains_memory("while making a look", READING)


class Run:
    """A trained model with everything it needs, or several as an ensemble; made by `heed.train` and `heed.load`.

    Attributes:
        folder: The run folder.
        config: All settings.
        task: Data, tokenizers, labels.
        model: In evaluation mode.
        report: As in `report.json`.
        so_far: Which weights these are if training has not finished; "" if it has.
        precision: "float32" or "bf16", that of training; it may be changed. Scores are computed in it, and on a GPU
            predictions too; looks and, on a CPU, written texts in float32.
        reading: Remarks on the files of the latest call of `read`.
        members: The runs of an ensemble, which answer together (`Head.together`); for a single run, the run itself.
    """

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        task: Work,
        model: Any,
        report: dict[str, Any],
        members: Sequence[Run] = (),
    ) -> None:
        self.members: tuple[Run, ...] = tuple(members) or (self,)
        self.folder = folder
        self.config = config
        self.task = task
        self.model: Any = model.eval()
        self.report = report
        self.so_far = ""
        self.precision: str = report.get("training", {}).get("precision", "float32")
        self.reading: list[str] = []

    def __repr__(self) -> str:
        if len(self.members) > 1:
            return f"<heed ensemble of {', '.join(str(run.folder) for run in self.members)}>"
        test = self.report.get("scores", {}).get("test", {})
        name = self.config.evaluation.select_by
        score = f", test {name.replace('_', ' ')} {test[name]['value']:.4g}" if name in test else ""
        so_far = ", training not finished" if self.so_far else ""
        return f"<heed run {self.folder}: {self.config.model.name} on {self.config.data.name}{score}{so_far}>"

    def __getstate__(self) -> dict[str, Any]:
        # Baselines and opened exports are made again when they are needed.
        return {name: value for name, value in vars(self).items() if name not in ("baseline_writers", "_writers")}

    @property
    def input(self) -> Input:
        """The input of the task."""
        return self.task.input

    @property
    def head(self) -> Head:
        """The head of the task."""
        return self.task.head

    @property
    def title(self) -> str:
        """Title of a look."""
        return f"{self.config.model.name} on {self.config.data.name} ({self.folder.name})"

    @property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer of the inputs."""
        return next(iter(self.task.tokenizers().values()))

    def can(self, name: str) -> bool:
        """True if a run of this task has a capability."""
        return self.task.task.can(name)

    def curves(self) -> ShownCurves:
        """Loss, validation scores, learning rate and speed of the run's training; a notebook displays them.

        Raises:
            RunError: Nothing was logged.
        """
        return curves_of(self.folder, self.config)

    def between(self, source_language: str | None = None, target_language: str | None = None) -> Run:
        """The same run for texts of other languages, of a model that has several; None for those of its configuration.

        `run.between(target_language="fra_Latn").look("A small house.")`

        Raises:
            ConfigError: The model lacks a language, or has none.
        """
        if source_language is target_language is None:
            return self
        if not hasattr(self.input, "between"):
            raise AttributeError(f"a run of {self.config.task} has no languages")
        if len(self.members) > 1:
            return together([run.between(source_language, target_language) for run in self.members])
        task = self.task.between(source_language, target_language)
        run = Run(self.folder, task.config, task, self.model, self.report)
        run.so_far, run.precision = self.so_far, self.precision
        return run

    # Predicting -----------------------------------------------------------------------------------------------

    def outputs(self, options: Mapping[str, Any]) -> Outputs:
        """The writer of predictions, given the values of the task's flags."""
        outputs: Outputs = self.task.task.outputs(self, options)
        return outputs

    @explains_memory("while predicting", READING)
    @_in(predicting)
    @prediction_threads()
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
        check_options(options, self.head.keywords)
        examples, single = self.input.questions(given)
        predictions = self.predicted(examples, **options)
        return predictions[0] if single else Predictions(predictions, self.head.numbered)

    def predicted(self, examples: Sequence[Any], **options: Any) -> list[Any]:
        """The prediction for each example."""
        if not len(examples):
            return []
        if self.head.writes:
            return [best[0] for best in _writing_head(self).candidates(self, examples, **options)]
        (answers, encoded), head = self._answers(examples, **options), replace(self.head, **options)
        each = examples if self.input.predicts_from_example else repeat(None, len(examples))
        predictions = [head.predict(answer, example, self.input) for answer, example in zip(answers, each, strict=True)]
        return self.input.finished(head, predictions, examples, encoded)

    def _answers(self, examples: Sequence[Any], **options: Any) -> tuple[list[Any], Any]:
        """The answer to each example, and the examples as numbers."""
        each = []
        for run in self.members:
            encoded = self.input.encoded_for(run.input, examples)
            each.append(run.task.answers(run.model, encoded, replace(run.head, **options)))
        together = self.head.together
        return each[0] if len(each) == 1 else [together(answers) for answers in zip(*each, strict=True)], encoded

    def answers(self, inputs: Sequence[Any]) -> list[Any]:
        """The head's raw answer to each of several inputs, from which `predict` makes predictions."""
        return self._answers(self.input.questions(inputs)[0])[0]

    def probabilities(self, given: Sequence[Any]) -> Tensor:
        """The probability of each label for each of several inputs, `(inputs, labels)`, in the order of the labels."""
        return torch.stack(self.answers(given))

    def candidates(self, inputs: Sequence[Any], num_best: int = 1, **options: Any) -> list[list[Any]]:
        """The `num_best` best texts for each of several inputs, best first, of a run that writes.

        Options are `beam_size`, `length_penalty`, `min_length`, `max_length` (the configuration's by default),
        `sampling` (`heed.generation.SamplingOptions`); for a text written for a text `prefix`, and `engine`: "torch",
        one that the run was exported for ("ctranslate2", "ctranslate2-int8"), or "auto": an export if it gives the same
        outputs, else torch.
        """
        if isinstance(inputs, str):
            raise ConfigError(f"candidates takes several texts; for one, write [{inputs!r}]")
        examples, _ = self.input.questions(inputs)
        texts: list[list[Any]] = _writing_head(self).candidates(self, examples, num_best=num_best, **options)
        return texts

    def write(self, input: Any, *others: Any, **options: Any) -> Generator[str, None, Any]:
        """A text for one input, piece by piece while it is written: `for piece in run.write(...)`.

        A response takes `speaker` as its second argument. Options as of `predict`, without a beam search.
        """
        pieces: Generator[str, None, Any] = _writing_head(self).grow(self, input, *others, **options)
        return pieces

    def chat(self, speaker: str | None = None, **options: Any) -> Any:
        """Start a conversation with a model of dialogue as a speaker; `say` returns its response."""
        if self.task.task.chat is None:
            raise AttributeError(f"a run of {self.config.task} holds no conversations")
        return self.task.task.chat(self, speaker, **options)

    def rank(self, *args: Any, **options: Any) -> list[Any]:
        """Order given outputs by their probability, most probable first; arguments are those of the task."""
        if self.task.task.ranks is None:
            raise AttributeError(f"a run of {self.config.task} ranks nothing")
        ranked: list[Any] = self.task.task.ranks(self, *args, **options)
        return ranked

    def follows(self, pairs: Sequence[tuple[str, str]]) -> Predictions[Any]:
        """Predict for each pair of texts the probability that the second follows the first.

        Raises:
            ConfigError: The run has no head for pairs, or a text is blank.
        """
        if not self.task.task.follows:
            raise AttributeError(f"a run of {self.config.task} reads no pairs of texts")
        return Predictions(self.predicted(pairs))

    def writer(self, engine: str) -> Writer | None:
        """The exported model of this run, opened on first use; None for torch, or for "auto" if there is no export.

        Raises:
            ConfigError, RunError: As `heed.exchange.open_engine`; or this is an ensemble.
        """
        is_alone = len(self.members) == 1 and not self.so_far
        if engine == "torch" or (engine == "auto" and not (is_alone and os.path.isdir(self.folder / EXPORT))):
            return None
        if len(self.members) > 1:
            raise ConfigError(f"engine '{engine}' runs one model; ensembles need engine 'torch'")
        from heed.exchange import open_engine, open_present  # imported only when an engine is used

        writers: dict[str, Writer | None] = vars(self).setdefault("_writers", {})
        if engine not in writers:
            where = self.folder, self.task
            writers[engine] = open_present(*where) if engine == "auto" else open_engine(*where, engine)
        return writers[engine]

    def export(self, to: str = "ctranslate2", quantization: str = "float32") -> Any:
        """Write the model for another program; see `heed.exchange.export_translation`."""
        capability(self, "export")
        vars(self).pop("_writers", None)
        write = self.task.task.export
        assert write is not None
        return write(self.folder, self.task, self.model, to, quantization)

    # Examples -------------------------------------------------------------------------------------------------

    def examples(self, split: str) -> Sequence[Any]:
        """The examples of a split of the run's data."""
        return self.task.splits.examples[split]

    def training_examples(self) -> Sequence[Any] | None:
        """The training examples; None if they can no longer be read."""
        try:
            return self.examples("train")
        except DataError:
            return None

    def read_data(self, data: Any) -> Sequence[Any]:
        """Convert Python data, in the forms that `heed.train` takes, to examples; blank ones are left out.

        Raises:
            DataError: The data cannot be used; the message names the place and the value.
        """
        section = without_missing(self.config.data, column_names(data))
        config = self.config.model_copy(update={"data": section})
        examples = self.task.input.read_data(data, "examples", config, Findings.of(self.config.data, strict=True))
        if not isinstance(examples, HashedExamples):
            examples = [example for example in examples if not example.blank]
        return self.input.scorable(examples, "examples")

    def read(self, files: Sequence[str | Path]) -> Sequence[Any]:
        """Examples from files in the format of the run's own data; blank ones are left out."""
        findings = Findings.of(self.config.data, strict=True)
        examples = self.input.read_files(files, findings, getattr(self.head, "labels", ()))
        self.reading = findings.lines()
        if not isinstance(examples, HashedExamples) and not self.input.keeps_blank:
            examples = [example for example in examples if not example.blank]
        return self.input.scorable(examples, ", ".join(map(str, files)))

    # Scoring --------------------------------------------------------------------------------------------------

    @_scoring
    @_in(scoring)
    def outcomes(self, examples: Sequence[Any], outputs: Sequence[Any] | None = None, others: Any = None) -> Outcomes:
        """The predictions for examples with all their measures; `others` as in `Head.outcomes`."""
        _check(self, examples, others)
        head: Any = self.head
        if head.writes or not head.has_outputs:  # the model itself judges the examples
            return head.scored(self, examples, outputs, others)  # type: ignore[no-any-return]
        return head.outcomes(self.predicted(examples) if outputs is None else outputs, examples, self.input, others)  # type: ignore[no-any-return]

    @_scoring
    @_in(scoring)
    @prediction_threads()
    def score(self, examples: Any, **options: Any) -> Any:
        """Score any examples, and the task's baselines on them; of some tasks also one text, token by token.

        Returns:
            The report as plain values; of a text, the scores of its tokens.
        """
        of_text = self.task.task.scores_text
        if isinstance(examples, str) and of_text is not None:
            return of_text(self, examples, **options)
        report: dict[str, Any] = Scores(self.report_of(examples), self.head.report)
        report |= baseline_scores(self, report, examples)
        return report

    @_scoring
    @_in(scoring)
    @prediction_threads()
    def evaluate(self, split: Any = "test") -> dict[str, Any]:
        """Score a split of the run's data, or other examples.

        Args:
            split: "test", "valid", or another split that the data has ("unseen"); or a file or several; or data in one
                of the forms that `heed.train` takes, with the correct output of each example.

        Raises:
            ConfigError: The data has no such split.
            DataError: The split was passed in Python, which is not kept; or the examples cannot be used.
        """
        scores: dict[str, Any] = self.score(examples_of(self, split))
        return scores

    @prediction_threads()
    def equal_weights(self, split: Any = "test") -> EqualWeights:
        """Score a split, or other examples, while the keys of each attention have equal weight.

        `split` is as for `evaluate`. Returns the score, its change and the share of outputs that change for each
        attention of the model, and for all together if there are several.

        Raises:
            ConfigError: The model has no attention, or the run is an ensemble; and as `evaluate`.
            DataError: As `evaluate`.
        """
        return equal_weights(self, examples_of(self, split))

    @_scoring
    @_in(scoring)
    def report_of(self, examples: Sequence[Any]) -> dict[str, Any]:
        """The scores of examples with their intervals, as in a report."""
        bootstrap = self.config.evaluation.bootstrap
        return {"task": self.config.task, **summarise(self.outcomes(examples), bootstrap, self.head.by_length)}

    def score_and_loss(self, examples: Sequence[Any]) -> tuple[Measure, Measure | None]:
        """The most important measure of examples, and their loss in nats; None if the task has no such measure."""
        if self.head.has_outputs and not self.head.writes:
            outputs = self.predicted(examples)
            score, nats = self.outcomes(examples, outputs).measures[0], nats_of(self.head, outputs, examples)
            return score, None if nats is None else rate("loss", "loss", nats, [1.0] * len(nats), 3)
        outcomes, names = self.outcomes(examples), ("loss", "perplexity")
        every = (*outcomes.measures, *outcomes.further)
        score, loss = every[0], next((measure for measure in every if measure.name in names), None)
        if loss is None and self.head.writes:
            nats, _, tokens = self.task.judged(self.model, self.input.encode(examples)).T.tolist()
            loss = rate("loss", "loss", nats, tokens, 3)
        return score, loss

    def baselines(self, examples: Sequence[Any]) -> Mapping[str, Outcomes]:
        """Outcomes of each baseline on examples, by name."""
        outcomes = {}
        for name, predict in self.baseline_writers.items():
            with suppress(DataError):  # its data can no longer be read
                head: Any = self.head
                if head.samples:  # of texts, without the measures of tokens
                    outcomes[name] = head.baseline_outcomes(self, examples, predict)
                else:
                    outcomes[name] = self.outcomes(examples, predict(examples))
        return outcomes

    @cached_property
    def baseline_writers(self) -> Baselines:
        """The functions that predict examples, by the name of the baseline."""
        return self.task.task.baselines(self)

    # Looking --------------------------------------------------------------------------------------------------

    @property
    def looks(self) -> Looks:
        """The functions that look inside the model."""
        return self.task.task.looks

    def readable(self, text: Any) -> Any:
        """The input of a look.

        Raises:
            ConfigError, DataError: It is not an input of this run, or it is blank.
        """
        read = self.looks.readable
        return readable(text, self.input.pairs) if read is None else read(self.task, text)

    @_looking
    def align(self, source: Any, target: Any, **options: Any) -> Any:
        """Links between the words of a source and of a target, or of several (`heed.tasks.heads.alignment.align`)."""
        return capability(self, "align").task.task.aligns(self, source, target, **options)

    @_looking
    @wraps(look_at_text)
    def look(self: Any, text: Any, **options: Any) -> Any:
        """As the task looks."""
        return (self.looks.look or look_at_text)(self, text, **options)

    @wraps(attribute_words)
    def attribute(self: Any, text: Any, **options: Any) -> Any:
        """As the task attributes."""
        return (self.looks.attribute or attribute_words)(self, text, **options)

    beams = search_beams
    patch = patch_states
    lens = logit_lens


class _WithKeywords:
    """A method of runs with the keywords of the run's task in its signature."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, run: Run | None, kind: type[Run]) -> Callable[..., Any]:
        if run is None:
            return self._method
        method = self._method.__get__(run, kind)

        @wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            return method(*args, **options)

        shown, only = inspect.signature(method), inspect.Parameter.KEYWORD_ONLY
        parameters = [parameter for parameter in shown.parameters.values() if parameter.kind < only]
        parameters += [inspect.Parameter(name, only, default=value) for name, value in run.head.keywords.items()]
        call.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
        return call


Run.predict = _WithKeywords(Run.predict)  # type: ignore[method-assign, assignment]


def _writing_head(run: Run) -> Any:
    """The head of a run that writes."""
    if not run.head.writes:
        raise AttributeError(f"a run of {run.config.task} writes no texts")
    return run.head


def _check(run: Run, examples: Sequence[Any], others: Any = None) -> None:
    """Refuse examples that cannot be scored, before anything is predicted."""
    if not len(examples):
        spec = spec_of(run.config.task)
        raise ConfigError(f"there are no {spec.scored_unit or spec.unit}s to score")
    if others is None:  # a comparison may have labels that only another run knows
        run.head.encode(examples, run.input)


def examples_of(run: Run, split: Any) -> Sequence[Any]:
    """The examples that `evaluate` scores; arguments and errors are its."""
    several = isinstance(split, list | tuple)
    files = split if several else [split]
    if files and all(isinstance(item, Path) or _is_path(item, exists=several) for item in files):
        return run.read(files)
    if not isinstance(split, str):
        return run.read_data(split)
    splits = run.task.split_names
    if split not in splits:
        hint = nearest(split, splits) or f"; its splits: {', '.join(splits)}"
        raise ConfigError(f"the data has no split {short(split)}{hint}")
    return run.input.scorable(run.examples(split), split)


def together(several: Sequence[Run]) -> Run:
    """Runs that predict together; the settings are those of the first.

    Raises:
        ConfigError: Two runs differ in what they answer; the message names the first difference.
    """
    first = several[0]
    for other in several[1:]:
        why = _difference(first, other) if first.head.writes else ""
        if why := why or difference_of(first.head, other.head):
            raise ConfigError(f"'{first.folder}' and '{other.folder}' cannot form an ensemble: {why}")
    deciding = next((run for run in several if run.head.decides), first)
    head: Any = first.head
    model = head.combined([run.model for run in several]) if head.writes else deciding.model
    return Run(deciding.folder, first.config, deciding.task, model, {}, several)


def _difference(first: Run, other: Run) -> str:
    """How the tokens of two runs differ, which write texts together; "" if they do not."""
    for side, mine in first.task.tokenizers().items():
        theirs = other.task.tokenizers()[side]
        difference = mine.first_difference(theirs)
        if not difference and side == "target" and mine.tags != theirs.tags:  # tags are tokens of the output layer
            difference = f"the tags {' '.join(mine.tags) or '(none)'} and {' '.join(theirs.tags) or '(none)'}"
        if difference:
            return f"their {side} tokenizers differ: {difference}; train one with tokenizer.from={first.folder}"
    return ""


def _is_path(value: Any, exists: bool) -> bool:
    """True for a text that names a file: with a folder, or with an ending, which no split has; it may have to exist."""
    named = isinstance(value, str) and (os.path.dirname(value) or os.path.splitext(value)[1])
    return bool(named) and (not exists or os.path.exists(value))


def check_options(options: Mapping[str, Any], keywords: Mapping[str, Any]) -> None:
    """Refuse keywords that `predict` does not have.

    Raises:
        UnknownKeywordError: The message names the nearest keyword.
    """
    for name in options.keys() - keywords:
        near = suggest(name, keywords) if keywords else "; this task has no options"
        raise UnknownKeywordError(f"predict has no keyword '{name}'{near}")
