"""Translation: a text for a text. Its attention may be guided by links, and gives links between words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from markupsafe import Markup
from torch import Tensor, nn

from heed.config import Section
from heed.data.examples import Pair
from heed.data.findings import Findings
from heed.data.kinds.inputs import inputs_in
from heed.data.tables import Field
from heed.data.text_files import Numbered
from heed.data.tokens.tokenizer import beginning
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes, share
from heed.evaluation.text_scores import ROUGE
from heed.generation import SamplingOptions, Writer
from heed.generation.pointer import PointerGenerator
from heed.models.base import PairDecoder
from heed.tasks.base.predictions import short
from heed.tasks.base.report import counted_are, length_lines, note_lines, score_lines, signature_lines
from heed.tasks.base.writing import (
    SEARCH,
    NearestSentence,
    WritingExaminer,
    WritingOutputs,
    WrittenText,
    map_html,
    output_measures,
)
from heed.tasks.contracts import Batch, Facts, NoOptions
from heed.tasks.heads.alignment import align, aligned_counts, replace_unknown
from heed.tasks.heads.written import TextScores, Written, settings
from heed.tasks.inputs.few_pairs import counterparts, inherited_part, with_body
from heed.tasks.inputs.pairs import Pairs
from heed.tasks.inputs.supervision import attention_loss, check_model, supervised_weights
from heed.tasks.translation.look import contrast, explain, lens_reads, look_at
from heed.tasks.work import Baselines, Looks, Task
from heed.training.contracts import Loss
from heed.watch.trace import trace

if TYPE_CHECKING:
    from heed.tasks.run import Run

_SCORES = {
    **ROUGE,
    **{"bleu": "BLEU", "chrf": "chrF", "ter": "TER, lower is better"},
    **{"exact_match": "exact match", "token_accuracy": "token accuracy", "alignment_error": "alignment error"},
    "alignment": "alignment error",  # the reason why there is none although links are known
    **{"aer": "AER, lower is better", "alignment_precision": "link precision", "alignment_recall": "link recall"},
    "perplexity": "perplexity",
}
_EMBEDDED = TextScores((), (), ("exact_match",), "exact_match")
_BLANK = WrittenText("", 0.0, 0.0, (), (), True, ())


class Guided(NamedTuple):
    """The states of a batch, and the attention to the source that is compared with links, `(rows, target, source)`."""

    hidden: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Translated(Written):
    """A text for a text; unknown words are replaced by source words, by attention to the source."""

    keywords: ClassVar = {
        **SEARCH,
        "prefix": "",
        "engine": "torch",
        "no_repeat_ngram": None,
        "source_language": None,
        "target_language": None,
    }
    targets: str = "tokens"
    scores: TextScores = TextScores(("chrf", "bleu", "ter"), ("bleu", "chrf"), ("exact_match", "bleu", "chrf"), "chrf")  # noqa: RUF009
    section: type[Section] = NoOptions
    """With `pointer`, words may be copied from the source."""

    options = property(lambda self: self.section)

    def fitted(self, work: Any) -> Self:
        head = super().fitted(work)
        return replace(head, scores=_EMBEDDED) if work.config.data.is_embedded else head

    def build(self, body: nn.Module, options: Any, facts: Facts) -> nn.Module:
        """The body, or a model that copies.

        Raises:
            ConfigError: Attention is to be guided, or `model.pointer` is true, but the model lacks that attention.
        """
        assert isinstance(body, PairDecoder)
        if (section := self.config.training.supervision) is not None:
            check_model(body, section, self.config.training.supervised_by, self.config.model.name)
        if not getattr(options, "pointer", False):
            return body
        if not body.aligns:
            raise ConfigError(
                f"model.pointer is true, but model '{self.config.model.name}' has no attention to the source, so it "
                "cannot copy; set model.pointer=false or choose another model"
            )
        return PointerGenerator(body)

    def states(self, model: Any, batch: Batch, carried: Any = None) -> Any:
        section = self.config.training.supervision
        if "alignment" not in batch.targets or section is None:
            return super().states(model, batch)
        with trace(model, grad=True, mechanism="cross", layer=section.layer) as seen:
            hidden = super().states(model, batch)
        return Guided(hidden, supervised_weights(seen, section))

    def loss(self, model: Any, states: Any, batch: Batch, smoothing: float) -> Tensor | Loss:
        """The loss over the target's tokens, plus that of guided attention."""
        if not isinstance(states, Guided):
            return super().loss(model, states, batch, smoothing)
        section, mask = self.config.training.supervision, batch.inputs["source_mask"]
        of_text = super().loss(model, states.hidden, batch, smoothing)
        assert isinstance(of_text, Tensor)
        links = attention_loss(states.weights, batch.targets["alignment"], mask, section.loss)
        of_weights = section.weight * links
        return Loss(of_text + of_weights, {"text": of_text, "alignment": of_weights})

    # Writing --------------------------------------------------------------------------------------------------

    def never_written(self, model: Any) -> tuple[int, ...]:
        never = super().never_written(model)
        may_be_unknown = self.config.generation.unknown or (self.replaces_unknown and model.aligns)
        unknown = self.tokenizer.special.unknown
        return tuple(token for token in never if token != unknown) if may_be_unknown else never

    @property
    def replaces_unknown(self) -> bool:
        """True if a model with attention may write the unknown token, replaced by the source word it looked at."""
        return bool(self.tokenizer.unit == "word" and self.config.generation.replace_unknown)

    def translate(
        self,
        work: Any,
        model: PairDecoder,
        texts: Sequence[str],
        *,
        sampling: SamplingOptions | None = None,
        prefix: str = "",
        writer: Writer | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        **search: Any,
    ) -> list[list[WrittenText]]:
        """Write a target for each text: its candidates, best first; for a blank text one blank output.

        Args:
            work: Its input reads the texts.
            model: The model that writes.
            texts: Sources; spaces around them are removed, except for an imported run.
            sampling: Draw instead of searching.
            prefix: Every output begins with this text.
            writer: An engine that searches instead of torch; it can neither draw outputs nor continue a prefix.
            source_language: That of the texts; the configuration's by default.
            target_language: That to write; the configuration's by default.
            search: Options of `search_options`.

        Raises:
            ConfigError: The prefix has text never seen in training, which cannot be written; or the writer does not
                support an option.
        """
        if writer is not None and (sampling is not None or prefix):
            what = "draw outputs (sampling)" if sampling is not None else f"continue a prefix ({prefix!r})"
            raise ConfigError(f"engine '{writer.name}' cannot {what}; use engine 'torch'")
        if unknown := self.tokenizer.unknown_in(prefix):
            what = f"prefix {short(prefix)} has {short(unknown[0])}"
            raise ConfigError(f"{what}, which was never seen in training targets")
        begun, given = beginning(self.tokenizer, prefix), self.config.generation
        fields: dict[str, Any] = {"renormalize": given.renormalize, "early_stopping": given.early_stopping}
        options = self.search_options(model, forbidden_first=begun.never_next, **fields, **search)
        # A space at either end could be read as an unknown word.
        texts = [work.input.stripped(text) if text.strip() else "" for text in texts]
        input = work.input.between(source_language, target_language)
        sources, unread = input.read([text for text in texts if text])
        if writer is None:
            written = self.write(input, model, sources, options, sampling, begun.ids)
        else:
            options = replace(options, forced=(*input.target_prefix,) * len(sources))
            written = [[WrittenText.of(self.tokenizer, h) for h in some] for some in writer.write(sources, options)]
        made = iter([[replace(one, unread=n) for one in some] for some, n in zip(written, unread, strict=True)])
        return [next(made) if text else [_BLANK] for text in texts]

    def candidates(
        self,
        run: Any,
        examples: Sequence[Pair],
        num_best: int = 1,
        engine: str = "torch",
        **options: Any,
    ) -> list[list[WrittenText]]:
        """The `num_best` best outputs for each text, best first; unknown words are replaced if configured."""
        texts = [pair.source for pair in examples]
        writer = None if engine == "torch" else run.writer(engine)
        results = self.translate(run.task, run.model, texts, num_best=num_best, writer=writer, **options)
        first = run.members[0]
        for source, some in zip(texts, results, strict=True):
            some[:] = [replace_unknown(first.task, first.model, source.strip(), one) for one in some]
        return results

    # Scores ---------------------------------------------------------------------------------------------------

    def scored(self, run: Any, examples: Sequence[Pair], outputs: Sequence[Any] | None, others: Any) -> Outcomes:
        """Outputs for pairs and their measures: text scores for data from files, exact match, alignment error if known.

        Of a comparison: whether scores of tokens are added, whether differences count that the run's tokenizer does not
        make, and the tokenizer of BLEU.
        """
        per_token, literal, bleu = others or (True, False, None)
        outputs = run.predicted(examples) if outputs is None else outputs
        texts, references = [output.text for output in outputs], run.input.references(examples)
        encoded = run.input.encode(examples)
        nats, correct, tokens = run.task.judged(run.model, encoded).T.tolist()
        tokenizer = None if literal else self.tokenizer
        measures = output_measures(texts, references, self.scores.all, tokenizer, bleu or self.bleu_tokenize)
        if per_token:
            measures.append(share("token_accuracy", "token accuracy", correct, tokens))
        details: dict[str, Any] = {
            "perplexity": math.exp(min(700.0, sum(nats) / max(1, sum(tokens)))),
            "cut_off": sum(not output.finished for output in outputs),
        }
        if run.input.documents and (cut := run.input.cut_in([pair.source for pair in examples])):
            details |= {"cut": len(cut), "cut_first": [examples[n].origin or f"example {n + 1}" for n in cut[:10]]}
        if any(pair.links for pair in examples):
            nothing = [0] * len(examples)
            found = aligned_counts(run.task, run.model, examples) if len(run.members) == 1 else None
            aligned, linked = found or (nothing, nothing)
            wrong = [known - right for right, known in zip(aligned, linked, strict=True)]
            if found is not None or others is not None:  # compared runs have the same measures
                measures.append(share("alignment_error", "alignment error", wrong, linked, higher_is_better=False))
            if not run.model.aligns:
                details["alignment"] = "no attention"
        return Outcomes(tuple(texts), tuple(measures), lengths=tuple(encoded.lengths[:, 0].tolist()), details=details)

    def report(self, scores: dict[str, Any]) -> list[str]:
        name = next(name for name in ("rouge2", "chrf", "exact_match") if name in scores)
        title = f"{_SCORES[name]} by {'document' if name in ROUGE else 'source'} tokens"
        lines = score_lines(scores, _SCORES) + length_lines(title, scores["by_source_length"], name, "examples")
        lines += signature_lines(scores)
        if scores.get("cut"):
            more = ", ..." if scores["cut"] > 3 else ""
            lines.append(
                f"  {counted_are(scores['cut'], 'document')} longer than data.max_source; only the beginning was read: "
                f"{', '.join(scores['cut_first'][:3])}{more}"
            )
        return lines + note_lines(scores, "cut_off")


class TranslationOutputs(WritingOutputs):
    """A line for each candidate; with --align, its alignment last."""

    key = "source"

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        if run.input.documents:
            self.asks, self.limit = "a document", "data.max_source"
        if options["align"] and not run.model.aligns:
            raise ConfigError(
                f"model '{run.config.model.name}' has no attention, so --align cannot link words; omit --align"
            )

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        data, reads = self.run.config.data, self.run.input
        if data.is_embedded:
            return None
        names, first = (reads.text_columns, None) if reads.documents else (("source",), 0)
        trained = data.train if data.origin == "files" else ()
        return inputs_in(path, [Field("text", data.columns.source, names)], findings, trained=trained, default=first)

    def candidates(self, texts: list[str], num_best: int) -> list[list[WrittenText]]:
        names = ("prefix", "engine", "no_repeat_ngram", "source_language", "target_language")
        further = {name: self.options[name] for name in names if name in self.options}
        made: list[list[WrittenText]] = self.run.candidates(texts, num_best, **self.search, **further)
        return made

    def lines(self, text: str, prediction: Any) -> tuple[str, ...]:
        if self.options["align"]:
            prediction = replace(prediction, alignment=self.run.align(text, prediction))
        return super().lines(text, prediction)


class TranslationExaminer(WritingExaminer):
    """Comparison of runs that write a text for a text."""

    def count_tokens(self, run: Any, outputs: Sequence[WrittenText]) -> int:
        return sum(len(output.tokens) for output in outputs)

    def drawing(self, run: Any, index: int, beam_size: int | None, numbers: Iterator[int]) -> Markup:
        shown = run.look(self.sources[index], beam_size=beam_size, layer=-1, head="mean")
        return map_html(shown.look, ("cross",), "This model does not attend to the source while it writes.", numbers)


def nearest(run: Run) -> Callable[[Sequence[Pair]], list[str]]:
    """The target of the nearest training pair for each example; the pairs of a run are read on first use."""
    sentences = cache(lambda: NearestSentence((pair.source, pair.target) for pair in run.examples("train")))
    return lambda examples: sentences().translate([pair.source for pair in examples])


def baselines(run: Run) -> Baselines:
    """The copied source, and the translation of the nearest training sentence."""
    return {
        "copying the source": lambda examples: [pair.source for pair in examples],
        "nearest training sentence": nearest(run),
    }


def taken_from(
    work: Any, parent: Any, own: Mapping[str, Tensor], prefix: str, given: dict[str, Tensor]
) -> Mapping[str, str] | None:
    """The tensors of the part of another run that is taken."""
    part = inherited_part(work.config, parent)
    return None if part is None else counterparts(part, parent.task.config.model.name, own, prefix, given)


def export(*given: Any) -> Any:
    """Write a model for another program; see `heed.exchange.export_translation`."""
    from heed.exchange import export_translation

    return export_translation(*given)


LOOKS = Looks(look_at, explain, contrast, lens_reads)
TASK = Task(
    "translation",
    input=Pairs(),
    head=Translated(),
    looks=LOOKS,
    baselines=baselines,
    defaults=settings,
    outputs=TranslationOutputs,
    examiner=lambda: TranslationExaminer,
    before=with_body,
    taken_from=taken_from,
    aligns=align,
    export=export,
)
