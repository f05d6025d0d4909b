"""Runs of translation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from heed.config import Columns, FilesData
from heed.data.examples import Pair
from heed.data.read.findings import Findings
from heed.data.read.pairs import read_pairs
from heed.data.read.shuffled import sentence_reader
from heed.data.tokens.tokenizer import UNKNOWN
from heed.errors import ConfigError, DataError
from heed.evaluation.measures import Outcomes, share
from heed.evaluation.report import summarise
from heed.generation import Writer
from heed.models.base import PairDecoder
from heed.observe.frames import Look
from heed.tasks.base.contents import advice
from heed.tasks.base.looking import LooksAtText
from heed.tasks.base.run import TextRun, part
from heed.tasks.translation.alignments import AlignsWords
from heed.tasks.translation.baselines import NearestSentence
from heed.tasks.translation.links import aligned_counts, word_links
from heed.tasks.translation.look import look_at
from heed.tasks.translation.outputs import TranslationOutputs
from heed.tasks.translation.report import body
from heed.tasks.translation.sides import remarks_on_files
from heed.tasks.translation.task import VALIDATE_AT_MOST, Translation, output_measures
from heed.tasks.translation.word_order import Trigrams, learn_trigrams
from heed.tasks.translation.word_order import baselines as word_order_baselines
from heed.tasks.translation.writing import Prediction

if TYPE_CHECKING:
    from heed.exchange import Exported


class Translator(AlignsWords, TextRun[Translation, PairDecoder, Prediction]):
    """Base of runs and ensembles: writing targets for sources, and scoring them."""

    task_class = Translation
    text_columns: ClassVar[tuple[str, ...]] = ("source", "text")
    options = frozenset(
        ("beam_size", "length_penalty", "min_length", "max_length", "sampling", "prefix", "num_best", "engine")
    )
    body = staticmethod(body)

    @property
    def attending(self) -> Translator:
        """The run whose attention links words."""
        return self

    def predictions(self, texts: Sequence[str], **options: Any) -> list[Prediction]:
        """Write the output for each text.

        Args:
            texts: The sources.
            options: `beam_size`, `length_penalty`, `min_length`, `max_length` (the configuration's by default),
                `sampling` (`heed.generation.SamplingOptions`), `prefix`, `engine` ("torch", or one that the run was
                exported for: "ctranslate2", "ctranslate2-int8").
        """
        return [candidates[0] for candidates in self.candidates(texts, **options)]

    def candidates(
        self, texts: Sequence[str], num_best: int = 1, engine: str = "torch", **options: Any
    ) -> list[list[Prediction]]:
        """The `num_best` best outputs for each text, best first; unknown words are replaced if configured."""
        if isinstance(texts, str):
            raise ConfigError(f"candidates takes several texts; for one, write [{texts!r}]")
        writer = None if engine == "torch" else self.writer(engine)
        results = self.task.translate(self.model, texts, num_best=num_best, writer=writer, **options)
        if self.task.writes_unknown:
            for source, candidates in zip(texts, results, strict=True):
                candidates[:] = [self._without_unknown(source, candidate) for candidate in candidates]
        return results

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

    def _without_unknown(self, source: str, prediction: Prediction) -> Prediction:
        if UNKNOWN not in prediction.ids:
            return prediction
        run = self.attending
        _, instead = word_links(run.task, run.model, source.strip(), prediction.ids)
        words = {n: f" {word}" for n, word in instead.items()}
        return replace(prediction, text=self.task.target_tokenizer.decode(prediction.ids, words))

    def read(self, files: Sequence[str | Path]) -> Sequence[Pair]:
        """Pairs from two parallel files, or from one with both sides; one file of sentences if sources are shuffled."""
        data = self.task.config.data
        # Columns of a Hub data set do not apply to files.
        columns = (data.columns.source, data.columns.target) if type(data) is FilesData else (None, None)
        findings = Findings.of(data, strict=True)
        if isinstance(data, FilesData) and data.shuffle_source is not None and len(files) == 1:
            reader = sentence_reader(Columns(target=columns[1]), data.shuffle_seed)
            return list(reader.read([*map(str, files)], findings))
        pairs = list(read_pairs(files, *columns, findings, advice))
        name = ", ".join(Path(file).name for file in files)
        self.reading = [*findings.lines(), *remarks_on_files(self.task, pairs, name)]
        return pairs

    def baselines(self, examples: Sequence[Pair]) -> Mapping[str, Outcomes]:
        """The copied source, and the translation of the nearest training sentence.

        For shuffled sentences: the shuffled words, and their most probable order under a trigram model.
        """
        data = self.task.config.data
        if isinstance(data, FilesData) and data.shuffle_source is not None:
            return word_order_baselines(self.task, self._trigrams, examples)
        texts = {"copying the source": [pair.source for pair in examples]}
        if self._nearest is not None:
            found = self._nearest.translate([pair.source for pair in examples])
            texts["nearest training sentence"] = found
        return self._outcomes_of_texts(texts, examples)

    def _outcomes_of_texts(
        self, texts: Mapping[str, Sequence[str]], examples: Sequence[Pair]
    ) -> Mapping[str, Outcomes]:
        """Outcomes of outputs that no model wrote, by name."""
        normalize = self.task.target_tokenizer.normalize
        references = [normalize(pair.target) for pair in examples]
        names = self.task.quick_scores
        return {
            name: Outcomes(tuple(made), tuple(output_measures([*map(normalize, made)], references, names)))
            for name, made in texts.items()
        }

    def validated(self) -> Sequence[Pair]:
        """The first validation pairs, whose outputs are scored in a validation."""
        return self.examples("valid")[:VALIDATE_AT_MOST]

    @cached_property
    def _nearest(self) -> NearestSentence | None:
        """Look-up in the training pairs; None if they can no longer be read."""
        known = self.known()
        return None if known is None else NearestSentence((pair.source, pair.target) for pair in known)

    @cached_property
    def _trigrams(self) -> Trigrams | None:
        """Trigrams of the training sentences; None if these can no longer be read."""
        try:
            return learn_trigrams(self.task)
        except DataError:
            return None

    @property
    def by_length(self) -> tuple[str, ...]:  # type: ignore[override]
        """Exact match; also BLEU and chrF for data from files."""
        return ("exact_match", *self.task.quick_scores)

    def outcomes(
        self,
        examples: Sequence[Pair],
        outputs: Sequence[Prediction] | None = None,
        references: Sequence[str] | None = None,
        per_token: bool = True,
    ) -> Outcomes:
        """Outputs for pairs and their measures: text scores for data from files, exact match, alignment error if known.

        The default `references` are the targets, normalised as by the run; `per_token` adds scores of its tokens.
        """
        task = self.task
        outputs = self.predict([pair.source for pair in examples]) if outputs is None else outputs
        if references is None:
            references = [task.target_tokenizer.normalize(pair.target) for pair in examples]
        texts = [output.text for output in outputs]
        encoded = task.encode_pairs(examples)
        nll, correct, tokens = task.forced_scores(self.model, encoded)
        measures = output_measures(texts, references, task.text_scores)
        if per_token:
            measures.append(share("token_accuracy", "token accuracy", correct, tokens))
        details: dict[str, Any] = {
            "perplexity": math.exp(min(700.0, sum(nll) / max(1, sum(tokens)))),
            "cut_off": sum(not output.finished for output in outputs),
        }
        if any(pair.links for pair in examples):
            nothing = [0] * len(examples)
            found = aligned_counts(task, self.model, examples) if self.attending is self else None
            aligned, linked = found or (nothing, nothing)
            wrong = [known - right for right, known in zip(aligned, linked, strict=True)]
            measures.append(share("alignment_error", "alignment error", wrong, linked, higher_is_better=False))
            if not self.model.aligns:
                details["alignment"] = "no attention"
        lengths = tuple(len(pair.source) for pair in encoded)
        return Outcomes(tuple(texts), tuple(measures), lengths=lengths, details=details)

    def report_of(self, examples: Sequence[Pair]) -> dict[str, Any]:
        """The report as for every task, without the alignment error if it is not known."""
        outcomes = self.outcomes(examples)
        known = tuple(m for m in outcomes.measures if m.name != "alignment_error" or not math.isnan(m.score()))
        return summarise(replace(outcomes, measures=known), self.config.evaluation.bootstrap, self.by_length)

    def outputs(self, options: Mapping[str, Any]) -> TranslationOutputs:
        """The writer of predictions."""
        return TranslationOutputs(self, options)


class TranslationRun(Translator, LooksAtText):
    """A model that writes a target for a source."""

    examiner, ensemble = part("comparison"), part("ensemble")

    def export(self, to: str = "ctranslate2", quantization: str = "float32") -> Exported:
        """Write the model for another program; see `heed.exchange.export_translation`."""
        from heed.exchange import export_translation

        self._writers.clear()
        return export_translation(self.folder, self.task, self.model, to, quantization)

    def _look(self, text: str, **options: Any) -> Look:
        return look_at(self.task, self.model, text, **options)
