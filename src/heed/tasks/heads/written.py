"""Texts: a model writes them token by token, by a search or by drawing; references are scored by teacher forcing.

The input of such a task gives the texts of a batch as `targets["written"]`, and for writing `groups`, `memory`,
`positions_read`, `ids_read` and `first_token` of what is read; its last tokenizer is that of the texts.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from heed.data.batch import pad_shifted
from heed.data.examples import evenly
from heed.data.tokens.tokenizer import TextTokenizer
from heed.evaluation.measures import Measure, Outcomes, values_of
from heed.evaluation.text_scores import bleu_tokenizer
from heed.generation import Ensemble, SamplingOptions, SearchOptions, generate, generate_steps, without_gradient
from heed.kernels import loss_at
from heed.registry import learned_positions
from heed.tasks.base.report import counted
from heed.tasks.base.writing import SEARCH, WrittenText, bleu_of, cached_bytes, or_usual, output_measures
from heed.tasks.contracts import Batch, Draw, Head
from heed.tasks.heads import judged_tokens
from heed.threads import threads_for
from heed.training.contracts import Loss
from heed.training.device import saved_bytes
from heed.training.processes import current

if TYPE_CHECKING:
    from heed.tasks.work import Work

_INCOMPLETE = "\ufffd"
"""The end of a decoded text whose last character is not complete."""
_POSITIONS = 512
"""Positions whose logits are in memory together when references are scored."""


class TextScores(NamedTuple):
    """By what texts are scored, besides exact match (see `output_measures`)."""

    all: tuple[str, ...] = ()
    """In reports."""
    quick: tuple[str, ...] = ()
    """In validations and of baselines."""
    by_length: tuple[str, ...] = ()
    """In reports also for ranges of source length."""
    select: str = "loss"
    """The best checkpoint is chosen by this."""


@dataclass(frozen=True)
class Written(Head):
    """Texts that a model writes, each after a first token."""

    names: ClassVar[str] = "reference"
    writes: ClassVar[bool] = True
    samples: ClassVar[bool] = True
    keywords: ClassVar[Mapping[str, Any]] = SEARCH
    longest_output: ClassVar[int | None] = None
    """Most tokens of an output, unless the configuration sets it; None for what the references need."""

    tokenizer: TextTokenizer = None  # type: ignore[assignment]  # of the texts; known once the input has learned
    scores: TextScores = TextScores(("bleu", "chrf"), ("bleu", "chrf"))  # noqa: RUF009  # a tuple

    select = property(lambda self: self.scores.select)
    by_length = property(lambda self: self.scores.by_length)

    @staticmethod
    def combined(models: Sequence[Any]) -> Any:
        """The model of an ensemble of models that write: the mean of their probabilities."""
        return models[0] if len(models) == 1 else Ensemble(models)

    def fitted(self, work: Work) -> Self:
        return replace(super().fitted(work), tokenizer=[*work.tokenizers().values()][-1])

    @property
    def positions(self) -> int | None:
        """Positions in the model's learned table; None if it has no table."""
        assert self.body is not None
        return learned_positions(self.body.config_class, self.config.model.settings)

    @property
    def bleu_tokenize(self) -> str:
        """Sacrebleu's tokenizer for BLEU."""
        return bleu_of(self.config)

    def notes(self, work: Work) -> list[str]:
        chosen = self.bleu_tokenize
        return [f"BLEU: sacrebleu's tokenizer {chosen} (evaluation.bleu_tokenize)"] if chosen != "13a" else []

    # Loss and scores ------------------------------------------------------------------------------------------

    def collate(self, truths: Any, batch: Batch, draw: Draw | None) -> Batch:
        others = {**batch.targets}
        written = others.pop("written")
        read, labels, mask = pad_shifted(written, self.tokenizer.special)
        if (starts := others.pop("starts", None)) is not None:
            read[:, 0] = starts
        return replace(
            batch,
            forced={**batch.forced, "target": read},
            targets={**others, "labels": labels, "target_mask": mask},
            num_targets=sum(len(ids) + 1 for ids in written),
            masks=(*batch.masks, "target_mask"),
        )

    def loss(self, model: Any, states: Any, batch: Batch, smoothing: float) -> Tensor | Loss:
        """Sum of the cross-entropy in nats over the real target tokens of the batch."""
        targets = batch.targets
        return loss_at((targets["target_mask"], batch.num_targets), states, targets["labels"], model.output, smoothing)

    def judge(self, model: Any, states: Any, batch: Batch) -> Tensor:
        """Nats of each text, its tokens that were the most probable, without unknown ones, and all its tokens."""
        real, unknown = batch.targets["target_mask"], self.tokenizer.special.unknown
        hidden, labels, owners = states[real], batch.targets["labels"][real], real.nonzero()[:, 0]
        return judged_tokens(model.logits, hidden, labels, owners, len(real), _POSITIONS, unknown)

    def validated(self, work: Any, model: Any) -> dict[str, float]:
        """All references are judged, and texts are written for some of the validation examples."""
        units = work.encoded("valid")
        numbers = work.validated_part(range(len(units)))
        judged = current().map(lambda part: work.judged_units(model, units, part), [*numbers])
        nats, right, count = np.array([row for rows in judged for row in rows]).sum(0).tolist()
        chosen = work.input.to_write(work)
        options = self.search_options(model, beam_size=1, max_length=chosen.longest)

        def written(sources: list[Any]) -> list[str]:
            return [candidates[0].text for candidates in self.write(work.input, model, sources, options)]

        texts = current().map(written, work.validated_part(chosen.sources))
        *of_texts, exact = self.measures_of(texts, work.validated_part(chosen.references))
        scores = {"loss": nats / max(1.0, count), "token_accuracy": right / max(1.0, count)}
        return {**scores, **values_of([exact, *of_texts])}

    def measures_of(self, texts: Sequence[str], references: Sequence[str]) -> list[Measure]:
        """The scores of texts in validations and of baselines."""
        return output_measures(texts, references, self.scores.quick, self.tokenizer, self.bleu_tokenize)

    # Writing --------------------------------------------------------------------------------------------------

    def never_written(self, model: Any) -> tuple[int, ...]:
        """The tokens that no output may contain."""
        return (*self.tokenizer.special.never_written, *self.tokenizer.tags.values())

    def search_options(
        self, model: Any, num_best: int = 1, beam_size: int | None = None, max_length: int | None = None, **others: Any
    ) -> SearchOptions:
        """Search options; those that are None come from the configuration."""
        usual = self.config.generation
        if max_length is None:
            max_length = usual.max_length or self.longest_output or 200
        if beam_size is None:
            beam_size = max(num_best, usual.beam_size)
        others = {"forbidden": self.never_written(model), **or_usual(usual, others)}
        end = self.tokenizer.special.end
        return SearchOptions(end, max_length, beam_size=beam_size, num_best=num_best, **others)

    def write(
        self,
        input: Any,
        model: Any,
        sources: Sequence[Any],
        options: SearchOptions,
        sampling: SamplingOptions | None = None,
        forced: Sequence[int] = (),
    ) -> list[list[WrittenText]]:
        """The candidates for each source, best first.

        Every output begins with `input.target_prefix`, then the `forced` tokens.
        """
        results: list[list[WrittenText]] = [[] for _ in sources]
        for chosen in input.groups(sources, options.beam_size):
            arguments = self._search(input, model, [sources[i] for i in chosen], options, sampling, forced)
            before = (*input.target_prefix, *forced) if forced else ()
            for i, hypotheses in zip(chosen, generate(**arguments).hypotheses, strict=True):
                results[i] = [WrittenText.of(self.tokenizer, hypothesis, before) for hypothesis in hypotheses]
        return results

    def stream(
        self, input: Any, model: Any, source: Any, options: SearchOptions, sampling: SamplingOptions | None = None
    ) -> Generator[str, None, WrittenText]:
        """Write one output without a beam, yielding its text as soon as no later token can change it.

        The pieces add up to the text of the returned prediction.
        """
        steps = generate_steps(**self._search(input, model, [source], options, sampling))
        tokens: list[int] = []
        shown = ""
        while True:
            try:
                tokens += [token for _, token in next(steps)]
            except StopIteration as end:
                prediction = WrittenText.of(self.tokenizer, end.value.hypotheses[0][0])
                if tail := prediction.text.removeprefix(shown):
                    yield tail
                return prediction
            text = self.tokenizer.decode(tokens).rstrip(_INCOMPLETE)
            if text.startswith(shown) and text != shown:
                yield text[len(shown) :]
                shown = text

    def _search(
        self,
        input: Any,
        model: Any,
        sources: Sequence[Any],
        options: SearchOptions,
        sampling: SamplingOptions | None,
        forced: Sequence[int] = (),
    ) -> dict[str, Any]:
        """The arguments of a search over sources, which are read here."""
        device = next(model.eval().parameters()).device
        with without_gradient(), threads_for(model, input.positions_read(sources)):
            memory = input.memory(model, sources, device)
        before = (*input.target_prefix, *forced) if forced else ()
        prompt = torch.tensor([[input.first_token(source), *before] for source in sources], device=device)
        if not forced:
            options = replace(options, forced=(*input.target_prefix,) * len(sources))
        if sampling is not None:
            # Derived from its tokens, so that an output does not depend on the place of its source in the input.
            keys = [repr((sampling.seed, input.ids_read(source))).encode() for source in sources]
            digests = [hashlib.blake2b(key, digest_size=8).digest() for key in keys]
            sampling = replace(sampling, seed=tuple(int.from_bytes(digest, "big") for digest in digests))
        return {"model": model, "memory": memory, "prompt": prompt, "options": options, "sampling": sampling}

    def scoring_memory(self, work: Any, model: Any, activations: float) -> int:
        """Bytes that the greedy outputs of a validation take.

        For a Transformer, these are keys and values; a recurrent encoder holds about as much as for a backward pass.
        """
        input, (sources, _, longest) = work.input, work.input.to_write(work)
        if not sources:
            return 0
        groups = [[sources[i] for i in chosen] for chosen in input.groups(sources, 1)]
        read = [input.positions_read(some) for some in groups]
        positions = max(count + len(some) * longest for count, some in zip(read, groups, strict=True))
        if num_bytes := cached_bytes(model, positions):
            return int(num_bytes)
        few, device = sources[:8], next(model.eval().parameters()).device
        num_bytes = saved_bytes(model, lambda: input.memory(model, few, device))
        return round(num_bytes / int(input.positions_read(few)) * int(max(read)))

    # Runs -----------------------------------------------------------------------------------------------------

    def baseline_outcomes(
        self, run: Any, examples: Sequence[Any], predict: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> Outcomes:
        texts = predict(examples)
        return Outcomes(tuple(texts), tuple(self.measures_of(texts, run.input.references(examples))))


def settings(config: Any, work: Any) -> Any:
    """A settled configuration with `generation.max_length` and BLEU's tokenizer set."""
    head = work.head
    if config.evaluation.bleu_tokenize == "auto" and "bleu" in head.scores.quick and not work.is_imported:
        references = work.input.references(evenly(work.splits.examples["train"], _FEW))
        if references:
            script = {"evaluation.bleu_tokenize": bleu_tokenizer(references)}
            config = config.settle("the script of the training references", script)
    if config.generation.max_length is None:
        longest = int(work.input.written_lengths("train", work).max())
        limits = head.longest_output or sys.maxsize, head.positions or sys.maxsize
        why = f"the longest training target has {counted(longest, 'token')}"
        config = config.settle(why, {"generation.max_length": min(math.ceil(1.5 * longest) + 20, *limits)})
    return config


_FEW = 2_000
"""Training examples by whose references BLEU's tokenizer is chosen."""
