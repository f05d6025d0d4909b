"""Runs of translation: outputs and their lines, looks, scores and their report, baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from markupsafe import Markup
from torch import Tensor

from heed.attention import Rows
from heed.config import Columns, FilesData
from heed.data.columns import Column
from heed.data.examples import Pair
from heed.data.findings import Findings
from heed.data.kinds.inputs import inputs_in
from heed.data.kinds.pairs import pair_reader
from heed.data.tables import Field
from heed.data.text_files import Numbered
from heed.errors import ConfigError
from heed.evaluation.measures import Measure, Outcomes, rate, share
from heed.generation import Ensemble, Writer
from heed.models.base import PairDecoder
from heed.observe.attribution import LEFT_OUT
from heed.observe.edits import Edit
from heed.observe.looks import Choice, Look
from heed.observe.maps import Axis
from heed.observe.trace import edit
from heed.tasks import capability, suggest_task
from heed.tasks.base.attributing import Attributes, Explained
from heed.tasks.base.beams import HasBeams
from heed.tasks.base.looking import InputSpans, LooksAtText, Units, encoder_frames, gate_maps, networks, notes_on
from heed.tasks.base.report import interval, points, span
from heed.tasks.base.tracing import HasLens, HasPatching
from heed.tasks.base.writing import WrittenText, output_measures
from heed.tasks.base.writing_run import (
    SEARCH,
    Baselines,
    NearestSentence,
    Reread,
    WritingExaminer,
    WritingOutputs,
    WritingRun,
    answer_of_output,
    boundaries,
    cut_off_lines,
    explain_output,
    map_html,
    side_of,
    signature_lines,
    views_of_sides,
)
from heed.tasks.translation.alignment import AlignsWords, aligned_counts, known_links, replace_unknown
from heed.tasks.translation.task import VALIDATE_AT_MOST, Translation

if TYPE_CHECKING:
    from heed.exchange import Exported

_TEXT_NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER, lower is better"}
_LINKS = {"aer": "AER, lower is better", "alignment_precision": "link precision", "alignment_recall": "link recall"}


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one set."""
    names = {"exact_match": "exact match", "token_accuracy": "token accuracy", "alignment_error": "alignment error"}
    lines = [f"  {label:<20} {points(report[key])}" for key, label in _TEXT_NAMES.items() if key in report]
    lines += [f"  {label:<20} {interval(report[key])}" for key, label in names.items() if key in report]
    if "alignment" in report:  # the reason why there is no alignment error although links are known
        lines.append(f"  {names['alignment_error']:<20} {report['alignment']}")
    if "aer" in report:
        lines += [f"  {label:<20} {interval(report[key])}" for key, label in _LINKS.items()]
    lines.append(f"  {'perplexity':<20} {report['perplexity']:.4f}")
    shown, show = ("chrf", points) if "chrf" in report else ("exact_match", interval)
    lines.append(f"  {_TEXT_NAMES.get(shown, 'exact match')} by source tokens:")
    for bucket in report["by_source_length"]:
        lines.append(f"    {span(bucket):>8}  {show(bucket[shown])}  ({bucket['examples']})")
    signed = {key: label.partition(",")[0] for key, label in _TEXT_NAMES.items() if key in report}
    lines += signature_lines(report, signed)
    return [*lines, *cut_off_lines(report)]


class TranslationOutputs(WritingOutputs):
    """A line for each candidate; with --align, its alignment last."""

    run: PairRun
    key = "source"

    def __init__(self, run: PairRun, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        if options["align"] and not run.model.aligns:
            raise ConfigError(
                f"model '{run.config.model.name}' has no attention, so --align cannot link words; omit --align"
            )

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        data = self.run.task.config.data
        if not isinstance(data, FilesData):
            return None
        fields = [Field("text", self.run.columns[0], ("source",))]
        return inputs_in(path, fields, findings, trained=data.train, default=0)

    def candidates(self, texts: list[str], num_best: int) -> list[list[WrittenText]]:
        further = {name: self.options[name] for name in ("prefix", "engine")}
        return self.run.candidates(texts, num_best, **self.search, **further)

    def lines(self, text: str, prediction: Any) -> tuple[str, ...]:
        if self.options["align"]:
            prediction = replace(prediction, alignment=self.run.align(text, prediction))
        return super().lines(text, prediction)


_AXES = {"cross": ("target", "source"), "encoder": ("source", "source"), "decoder": ("target", "target read")}
_AXES["copy"] = _AXES["cross"]
_CAPTIONS = {
    "cross": "Row t: where the model looked to write output t. Weights before dropout.",
    "encoder": "Row i: where source position i looked. Weights before dropout.",
    "copy": "Row t: where output t would be copied from.",
    "decoder": "Row t: where the pass that wrote output t looked, among the tokens read until then: the start token "
    "and the outputs before t. Weights before dropout.",
}


def look_at(
    task: Translation,
    model: PairDecoder,
    source: str,
    *,
    target: str | WrittenText | None = None,
    beam_size: int | None = None,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    gates: bool = False,
    units: Units | None = None,
) -> Look:
    """Look at the output of a model for a source, or at a given `target`.

    The finished output is read again in one traced pass, which equals the steps that wrote it. `edits` also apply while
    the output is written; by default the last layer of every mechanism is shown, the mean of its heads.

    Raises:
        ConfigError: The model lacks the mechanism, layer or head.
    """
    source, choice = task.stripped(source), choice or Choice()
    read = task.framed(task.source_tokenizer.encode(source).ids)
    with edit(model, *edits):
        written = task.translate(model, [source], beam_size=beam_size)[0][0] if target is None else target
        if not isinstance(written, str):
            written = replace_unknown(task, model, source, written)
        seen = Reread.of(task, model, read, written)
    typed = InputSpans.of(task.source_tokenizer, source, before=len(task.frame[0]))
    sides = {
        "source": side_of(task.source_tokenizer, read, "source", boundaries(task.source_tokenizer), typed),
        **seen.sides("target", task.target_tokenizer, boundaries(task.target_tokenizer)),
    }
    choice.check(seen.mechanisms)
    (encoder, encoder_words), (decoder, decoder_words) = (
        views_of_sides(trace, choice, sides, _AXES, lambda maps: (maps, _CAPTIONS[maps.mechanism]))
        for trace in (seen.reading, seen.writing)
    )
    links = known_links(task, source, seen.text, (sides["target"][1], sides["source"][1])) if decoder else None
    maps = [
        replace(view.map, links=links if view.map.mechanism == "cross" else None)
        for view in (*encoder_words, *decoder_words)
    ]
    tokens = sides["source"][0]
    unknown, replaced = (
        task.source_tokenizer.unknown_in(source),
        () if isinstance(seen.typed, str) else seen.typed.values(),
    )
    notes = notes_on(unknown, edits, choice.hidden([*encoder, *decoder]), replaced=replaced)
    nets = networks(seen.reading, len(tokens.axis))
    read_nets = [(replace(net, kind=f"encoder {net.kind}"), sides["source"][1]) for net in nets]
    special, ended = boundaries(task.source_tokenizer), not isinstance(written, str) and written.finished

    def without(row: list[int]) -> list[int]:
        return [token for token in row if token != LEFT_OUT] or [task.source_tokenizer.special.unknown]

    words = [word for word in sides["source"][1].tokens if read[word.start] not in special]
    greedy = target is None and (beam_size or task.config.generation.beam_size) == 1
    return Look(
        title or task.title,
        source,
        seen.text,
        (*maps, *gate_maps([*read_nets, *seen.networks(sides["target"][1])], task.config.model.name, gates, units)),
        encoder_frames(nets, tokens, seen.layer_states, encoder),
        seen.frames(decoder, sides["target"][0].axis, task.target_tokenizer),
        (f"output: {seen.score}", *notes),
        seen.summary(model),
        output=None if isinstance(written, str) else written,
        answer=answer_of_output(task, model, seen, ended, read, without, words, "source", greedy),
    )


def explain(
    task: Translation,
    model: PairDecoder,
    source: str,
    target: str | None = None,
    rather_than: str | None = None,
    output: str | WrittenText | None = None,
) -> Explained:
    """The log-probability of the output, or of one token of it, as `explain_output` has it."""
    source = task.stripped(source)
    read = task.framed(task.source_tokenizer.encode(source).ids)
    typed, names = InputSpans.of(task.source_tokenizer, source, len(task.frame[0])), boundaries(task.source_tokenizer)
    _, words = side_of(task.source_tokenizer, read, "source", names, typed)
    written, unknown = output or task.translate(model, [source])[0][0], task.source_tokenizer.special.unknown
    written = written if isinstance(written, str) else replace_unknown(task, model, source, written)
    return explain_output(task, model, read, words, unknown, task.first_token(read), written, target, rather_than)


def contrast(task: Translation, model: PairDecoder, text: str, other: str) -> dict[str, Any]:
    """The score that tells two texts apart: the log-probability of the output for the other."""
    return {"output": task.translate(model, [task.stripped(other)])[0][0]}


def lens_reads(
    task: Translation, model: PairDecoder, text: str
) -> tuple[Callable[[], Tensor], Axis, Callable[[int], str]]:
    """A pass over the output for a text; see `HasLens`."""
    text, device, tokenizer = task.stripped(text), next(model.parameters()).device, task.target_tokenizer
    source = task.framed(task.source_tokenizer.encode(text).ids)
    ids = [task.first_token(source), *task.translate(model, [text])[0][0].ids]
    memory, names = task.memory(model, [source], device), boundaries(tokenizer)

    def read() -> Tensor:
        with torch.no_grad():
            start = model.start(memory, Rows.repeat(1, device=device))
            return model.logits(model.step(torch.tensor([ids], device=device), start)[0])

    def name(token: int) -> str:
        return names.get(token) or tokenizer.label(token)

    return read, Axis("output read", "token", tuple(map(name, ids))), name


class PairRun(
    AlignsWords, WritingRun[Translation, PairDecoder], LooksAtText, Attributes, HasPatching, HasLens, HasBeams
):
    """A model that writes a text for a text, or several as an ensemble, which write by their mean probability.

    Settings, data and tokenizers of an ensemble are those of the first run. Its attention also gives links between
    words, and the source words that replace unknown ones.
    """

    task_class = Translation
    outputs_class = TranslationOutputs
    names = ("source", "reference")
    text_columns: ClassVar[tuple[str, ...]] = ("source", "text")
    options: ClassVar = {**SEARCH, "prefix": "", "engine": "torch"}
    body = staticmethod(body)
    look_at = staticmethod(look_at)
    explain = staticmethod(explain)
    contrast = staticmethod(contrast)
    lens_reads = staticmethod(lens_reads)

    @classmethod
    def ensemble(cls, runs: Sequence[PairRun]) -> PairRun:
        """Several runs that write together.

        Raises:
            ConfigError: The runs have different tokenizers; the message names the first difference.
        """
        first = runs[0]
        for other in runs[1:]:
            _check_tokenizers(first, other)
        return cls(first.folder, first.config, first.task, Ensemble([run.model for run in runs]), {}, runs)

    @classmethod
    def examiner(cls) -> type[TranslationExaminer]:
        return TranslationExaminer

    @property
    def attending(self) -> PairRun:
        return self.members[0]  # type: ignore[no-any-return]

    def predictions(self, texts: Sequence[str], **options: Any) -> list[WrittenText]:
        """Write the output for each text.

        Options are `beam_size`, `length_penalty`, `min_length`, `max_length` (the configuration's by default),
        `sampling` (`heed.generation.SamplingOptions`), `prefix`, `engine` ("torch", or one that the run was exported
        for: "ctranslate2", "ctranslate2-int8"), `with_baseline` (adds the output of the best baseline by the run's
        report, as `.baseline`).
        """
        return [candidates[0] for candidates in self.candidates(texts, **options)]

    def candidates(
        self,
        texts: Sequence[str],
        num_best: int = 1,
        engine: str = "torch",
        with_baseline: bool = False,
        **options: Any,
    ) -> list[list[WrittenText]]:
        """The `num_best` best outputs for each text, best first; unknown words are replaced if configured."""
        if isinstance(texts, str):
            raise ConfigError(f"candidates takes several texts; for one, write [{texts!r}]")
        writer = None if engine == "torch" else self.writer(engine)
        results = self.task.translate(self.model, texts, num_best=num_best, writer=writer, **options)
        task, model = self.attending.task, self.attending.model
        for source, candidates in zip(texts, results, strict=True):
            candidates[:] = [replace_unknown(task, model, source.strip(), candidate) for candidate in candidates]
        return self.beside_baseline(texts, results) if with_baseline else results

    def searched(self, text: str, **options: Any) -> tuple[str, WrittenText]:
        return text, self.candidates([text], **options)[0][0]

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

    @property
    def columns(self) -> tuple[Column, Column]:
        """The columns of both sides that the run was trained on."""
        columns = getattr(self.task.config.data, "columns", None)
        return (columns.source, columns.target) if isinstance(columns, Columns) else (None, None)

    def read(self, files: Sequence[str | Path]) -> Sequence[Pair]:
        findings = Findings.of(self.task.config.data, strict=True)
        pairs = list(self.read_pairs(files, findings))
        self.reading = findings.lines()
        return pairs

    def read_pairs(self, files: Sequence[str | Path], findings: Findings) -> Iterable[Pair]:
        """Read the pairs in files by the columns of training."""
        columns = Columns(source=self.columns[0], target=self.columns[1])
        return pair_reader(columns, suggest_task, self.task.names, again=True).read([*map(str, files)], findings)

    def baselines(self, examples: Sequence[Pair]) -> Mapping[str, Outcomes]:
        sources, references = ([getattr(pair, side) for pair in examples] for side in ("source", "target"))
        given = self.task.quick_scores, self.task.target_tokenizer, self.task.bleu_tokenize
        return {
            name: Outcomes(tuple(made), tuple(output_measures(made, references, *given)))
            for name, made in self.baseline_texts(sources).items()
        }

    @property
    def baseline_writers(self) -> Baselines:
        """The copied source, and the translation of the nearest training sentence."""
        return {
            "copying the source": list,
            "nearest training sentence": lambda sources: self._nearest.translate(sources),
        }

    def validated(self) -> Sequence[Pair]:
        return self.examples("valid")[:VALIDATE_AT_MOST]

    @cached_property
    def _nearest(self) -> NearestSentence:
        """Look-up in the training pairs."""
        return NearestSentence((pair.source, pair.target) for pair in self.learned_from())

    @property
    def by_length(self) -> tuple[str, ...]:  # type: ignore[override]
        """Exact match; also BLEU and chrF for data from files."""
        return ("exact_match", *self.task.quick_scores)

    def outcomes(
        self,
        examples: Sequence[Pair],
        outputs: Sequence[WrittenText] | None = None,
        per_token: bool = True,
        literal: bool = False,
        bleu_tokenize: str | None = None,
    ) -> Outcomes:
        """Outputs for pairs and their measures: text scores for data from files, exact match, alignment error if known.

        `per_token` adds scores of the run's tokens; with `literal`, also differences count that they do not make;
        `bleu_tokenize` replaces the run's own.
        """
        task = self.task
        outputs = self.predict([pair.source for pair in examples]) if outputs is None else outputs
        texts = [output.text for output in outputs]
        encoded = task.encode_pairs(examples)
        nll, correct, tokens = task.forced_scores(self.model, encoded)
        measures = output_measures(
            texts,
            [pair.target for pair in examples],
            task.text_scores,
            None if literal else task.target_tokenizer,
            bleu_tokenize or task.bleu_tokenize,
        )
        if per_token:
            measures.append(share("token_accuracy", "token accuracy", correct, tokens))
        details: dict[str, Any] = {
            "perplexity": math.exp(min(700.0, sum(nll) / max(1, sum(tokens)))),
            "cut_off": sum(not output.finished for output in outputs),
        }
        if any(pair.links for pair in examples):
            nothing = [0] * len(examples)
            found = aligned_counts(task, self.model, examples) if len(self.members) == 1 else None
            aligned, linked = found or (nothing, nothing)
            wrong = [known - right for right, known in zip(aligned, linked, strict=True)]
            measures.append(share("alignment_error", "alignment error", wrong, linked, higher_is_better=False))
            if not self.model.aligns:
                details["alignment"] = "no attention"
        lengths = tuple(len(pair.source) for pair in encoded)
        return Outcomes(tuple(texts), tuple(measures), lengths=lengths, details=details)

    def score_and_loss(self, examples: Sequence[Pair]) -> tuple[Measure, Measure | None]:
        nll, _, tokens = self.task.forced_scores(self.model, self.task.encode_pairs(examples))
        return super().score_and_loss(examples)[0], rate("loss", "loss", nll, tokens, 3)

    def report_of(self, examples: Sequence[Pair]) -> dict[str, Any]:
        """The report as for every task, without the alignment error if it is not known."""
        report = super().report_of(examples)
        if math.isnan(report.get("alignment_error", {}).get("low", 0.0)):
            del report["alignment_error"]
        return report


class TranslationExaminer(WritingExaminer[PairRun, Pair, WrittenText]):
    """Comparison of runs that write a text for a text."""

    def predict(self, run: PairRun, examples: Sequence[Pair], beam_size: int | None) -> list[WrittenText]:
        return run.predict([pair.source for pair in examples], beam_size=beam_size)

    def count_tokens(self, run: PairRun, outputs: Sequence[WrittenText]) -> int:
        return sum(len(output.tokens) for output in outputs)

    def outcomes(self, run: PairRun, outputs: Sequence[WrittenText]) -> Outcomes:
        return run.outcomes(self.examples, outputs, self.per_token, self.literal, self.bleu_tokenize)

    def drawing(self, run: PairRun, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        shown = run.look(self.sources[index], beam_size=beam_size, layer=-1, head="mean")
        return map_html(shown.look, ("cross",), "This model does not attend to the source while it writes.", numbers)


def _check_tokenizers(first: PairRun, other: PairRun) -> None:
    for side, mine in first.task.tokenizers().items():
        theirs = other.task.tokenizers()[side]
        difference = mine.first_difference(theirs)
        if not difference and side == "target" and mine.tags != theirs.tags:  # tags are tokens of the output layer
            difference = f"the tags {' '.join(mine.tags) or '(none)'} and {' '.join(theirs.tags) or '(none)'}"
        if difference:
            raise ConfigError(
                f"'{first.folder}' and '{other.folder}' cannot form an ensemble: their {side} tokenizers differ: "
                f"{difference}; train one with tokenizer.from={first.folder}"
            )


class TranslationRun(PairRun):
    """A model that writes a target for a source, or an ensemble of such models."""

    targets = "target tokens"

    def export(self, to: str = "ctranslate2", quantization: str = "float32") -> Exported:
        """Write the model for another program; see `heed.exchange.export_translation`."""
        from heed.exchange import export_translation

        capability(self, "export")
        self._writers.clear()
        return export_translation(self.folder, self.task, self.model, to, quantization)
