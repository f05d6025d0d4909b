"""What tasks share whose model writes a text: scores of references, outputs by search or sampling, validation, memory.

The task says what the model reads (`plan`, `memory`, `first_token`) and how references become batches (`unit_costs`,
`unit_batch`, `hidden`); everything else follows.
"""

from __future__ import annotations

import hashlib
import math
import sys
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from heed.config import RunConfig
from heed.data.batch import plan_batches
from heed.data.examples import evenly
from heed.data.tokens.tokenizer import TextTokenizer
from heed.evaluation.measures import Measure, share, values_of
from heed.evaluation.text_scores import ROUGE, bleu_tokenizer, rouge_measures, text_measure
from heed.generation import Hypothesis, SamplingOptions, SearchOptions, generate, generate_steps, without_gradient
from heed.layers.transformer import DecoderBlock
from heed.models.base import Memory
from heed.registry import learned_positions
from heed.tasks.base.predictions import Prediction, one_line, short, with_unread
from heed.tasks.base.report import counted
from heed.tasks.base.task import Task
from heed.threads import threads_for
from heed.training.contracts import Loss
from heed.training.device import kept_bytes
from heed.training.loss import loss_at
from heed.training.processes import current

C = TypeVar("C", bound=RunConfig)
E = TypeVar("E")
S = TypeVar("S")
"""What the model reads to write one output."""
U = TypeVar("U")
"""References that stay together in a batch."""
_INCOMPLETE = "\ufffd"
"""The end of a decoded text whose last character is not complete."""
_POSITIONS = 512
"""Positions whose logits are in memory together when references are scored."""
TOGETHER = 8_000
"""Most tokens that are read together to write outputs."""


class BaselineText(NamedTuple):
    """The output of a baseline."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {one_line(self.text)}"


@dataclass(frozen=True, repr=False)
class WrittenText(Prediction):
    """One output."""

    text: str
    score: float  # ranks the candidates: log-probability / length ** length_penalty
    log_prob: float  # of the whole output, in nats
    tokens: tuple[str, ...]  # tokens written after a forced prefix, as text; "</s>" last if the model ended the output
    token_probs: tuple[float, ...]  # of each of `tokens`
    finished: bool  # the model ended the output; False if the largest length cut it off
    ids: tuple[int, ...]  # numbers of all tokens, including a forced prefix, without the end token
    alignment: list[tuple[int, int]] | None = None  # links (source word, written word), if they were asked for
    replaced: dict[int, str] = field(default_factory=dict)  # source words for unknown tokens, by their place in `ids`
    baseline: BaselineText | None = None  # the output of the best baseline for the same input, if it was asked for

    @classmethod
    def of(cls, tokenizer: TextTokenizer, hypothesis: Hypothesis, forced: Sequence[int] = ()) -> WrittenText:
        """A hypothesis as a prediction, after the `forced` tokens."""
        ids = (*forced, *hypothesis.tokens)
        tokens = [tokenizer.piece(t) for t in hypothesis.tokens]
        if hypothesis.finished:
            tokens.append(tokenizer.token(tokenizer.special.end))
        probs = tuple(math.exp(p) for p in hypothesis.log_probs)
        text, score, log_prob = tokenizer.decode(ids), hypothesis.score, hypothesis.log_prob
        return cls(text, score, log_prob, tuple(tokens), probs, hypothesis.finished, ids)

    def __repr__(self) -> str:
        return f"<{short(self.text)}{'' if self.finished else ', cut off'}>"

    def rows(self) -> list[dict[str, Any]]:
        row = {"text": self.text, "score": self.score, "log_prob": self.log_prob, "finished": self.finished}
        return [row if self.baseline is None else {**row, "baseline": self.baseline.text}]

    def as_json(self) -> dict[str, Any]:
        values = {
            "text": self.text,
            "score": round(self.score, 6),
            "log_prob": round(self.log_prob, 6),
            "tokens": self.tokens,
            "token_probs": [round(p, 6) for p in self.token_probs],
            "finished": self.finished,
        }
        values |= {} if self.alignment is None else {"alignment": self.alignment}
        return with_unread(values, self) | ({} if self.baseline is None else {"baseline": self.baseline._asdict()})

    def lines(self, given: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        score = [f"{self.score:.4f}"] if options["nbest"] > 1 else []
        links = [] if self.alignment is None else [" ".join(f"{i}-{j}" for i, j in self.alignment)]
        return ("\t".join([*score, one_line(self.text), *links]),)

    def summary(self) -> str:
        return f"{self.text}    (log-probability {self.log_prob:.3f})"


class ForcedScores(NamedTuple):
    """References scored by teacher forcing, an entry for each; end tokens are tokens."""

    nll: list[float]  # negative log-likelihood in nats
    correct: list[int]  # number of tokens that were the most probable, without unknown ones
    tokens: list[int]  # number of tokens


class ToWrite(NamedTuple, Generic[S]):
    """What a validation writes."""

    sources: list[S]
    references: list[str]
    longest: int  # most tokens of an output


class Writing(Task[C, E], Generic[C, E, S, U]):
    """A task whose model writes a text for each source."""

    longest_output: ClassVar[int | None] = None
    """Most tokens of an output, unless the configuration sets it; None for what the references need."""
    target_tokenizer: TextTokenizer
    """The tokenizer of outputs."""

    @property
    @abstractmethod
    def quick_scores(self) -> tuple[str, ...]:
        """Scores of texts in validations and of baselines, besides exact match (see `output_measures`)."""

    @abstractmethod
    def plan(self, sources: Sequence[S], rows: int) -> list[list[int]]:
        """Groups of sources to read together, if each becomes `rows` rows."""

    @abstractmethod
    def memory(self, model: Any, sources: Sequence[S], device: torch.device) -> Memory:
        """The model's memory of sources, a row each."""

    @abstractmethod
    def positions_read(self, sources: Sequence[S]) -> int:
        """Number of positions that are computed when sources are read together."""

    @abstractmethod
    def ids_read(self, source: S) -> list[int]:
        """The tokens of a source."""

    def first_token(self, source: S) -> int:
        """The first token of the output for a source."""
        return self.target_tokenizer.special.start

    @abstractmethod
    def unit_costs(self, units: Sequence[U]) -> Any:
        """The cost of each group of references in a batch, `(units, 2)`."""

    @abstractmethod
    def unit_batch(self, units: Sequence[U], indices: list[int]) -> Any:
        """The chosen groups of references as a batch, each reference a row."""

    def rows_in(self, unit: U) -> int:
        """The number of references in a group."""
        return 1

    @abstractmethod
    def hidden(self, model: Any, batch: Any) -> Tensor:
        """The states that predict the labels of a batch, `(rows, target, d)`."""

    @abstractmethod
    def valid_units(self) -> Sequence[U]:
        """All validation references."""

    @abstractmethod
    def to_validate(self) -> ToWrite[S]:
        """What a validation writes."""

    @abstractmethod
    def valid_lengths(self) -> list[int]:
        """Tokens of the validation references."""

    @abstractmethod
    def num_references(self, split: str) -> int:
        """The number of references of a split."""

    @abstractmethod
    def training_references(self) -> Sequence[str]:
        """Some training references, by which BLEU's tokenizer is chosen; empty if BLEU is not computed."""

    def few_trained(self) -> list[E]:
        """At most 2,000 training examples, evenly chosen; none of an imported run."""
        examples = () if self.is_imported else self.splits.examples["train"]
        return [*evenly(examples, 2_000)]

    @property
    def bleu_tokenize(self) -> str:
        """Sacrebleu's tokenizer for BLEU."""
        return bleu_of(self.config)

    @property
    def notes(self) -> str:
        chosen = self.bleu_tokenize
        said = f"\nBLEU: sacrebleu's tokenizer {chosen} (evaluation.bleu_tokenize)" if chosen != "13a" else ""
        return super().notes + said

    @property
    def num_validated(self) -> int:
        """The number of validation references, as the measure of what a validation costs."""
        return self.num_references("valid")

    @property
    def _generation(self) -> Any:
        config: Any = self.config
        return config.generation

    # Model ----------------------------------------------------------------------------------------------------

    @property
    def positions(self) -> int | None:
        """Positions in the model's learned table; None if it has no table."""
        return learned_positions(self.body_class.config_class, self.config.model.model_extra or {})

    def build_model(self) -> Any:
        return self.body_class(self.model_and_head()[0])

    def body(self, model: Any) -> Any:
        """The whole model."""
        return model

    @property
    @abstractmethod
    def longest_trained(self) -> int:
        """Tokens of the longest target that is trained on."""

    def settled(self) -> C:
        """The settled configuration as for every task, with `generation.max_length` and BLEU's tokenizer set."""
        config: Any = super().settled()
        if config.evaluation.bleu_tokenize == "auto" and (references := self.training_references()):
            script = {"evaluation.bleu_tokenize": bleu_tokenizer(references)}
            config = config.settle("the script of the training references", script)
        if config.generation.max_length is None:
            limits = self.longest_output or sys.maxsize, self.positions or sys.maxsize
            most = min(math.ceil(1.5 * self.longest_trained) + 20, *limits)
            why = f"the longest training target has {counted(self.longest_trained, 'token')}"
            config = config.settle(why, {"generation.max_length": most})
        return config  # type: ignore[no-any-return]

    # Loss and scores ------------------------------------------------------------------------------------------

    def loss(self, model: Any, batch: Any, label_smoothing: float) -> Tensor | Loss:
        """Sum of the cross-entropy in nats over the real target tokens of the batch."""
        real, hidden = (batch.target_mask, batch.num_targets), self.hidden(model, batch)
        return loss_at(real, hidden, batch.labels, model.output, label_smoothing)

    @torch.no_grad()
    def forced_scores(self, model: Any, units: Sequence[U]) -> ForcedScores:
        """Score references by teacher forcing, an entry for each, in order."""
        device = next(model.eval().parameters()).device
        first = np.cumsum([0, *map(self.rows_in, units)])
        found = np.zeros((3, first[-1]))
        unknown = self.target_tokenizer.special.unknown
        for indices in plan_batches(self.unit_costs(units), self.config.training.batch_tokens) if len(units) else ():
            batch = self.unit_batch(units, indices).to(device)
            rows = np.concatenate([np.arange(*first[index : index + 2]) for index in indices])
            real = batch.target_mask
            owners = rows[real.nonzero()[:, 0].cpu().numpy()]
            with threads_for(model, batch.target.numel()):
                hidden, labels = self.hidden(model, batch)[real], batch.labels[real]
                for start in range(0, len(owners), _POSITIONS):
                    part = slice(start, start + _POSITIONS)
                    log_probs = torch.log_softmax(model.logits(hidden[part]).float(), dim=-1)
                    nll = -log_probs.gather(1, labels[part].unsqueeze(1)).squeeze(1).double()
                    right = (log_probs.argmax(-1) == labels[part]) & (labels[part] != unknown)
                    for sums, values in zip(found, (nll, right, torch.ones(1)), strict=True):
                        np.add.at(sums, owners[part], values.cpu().numpy())
        return ForcedScores(found[0].tolist(), found[1].astype(int).tolist(), found[2].astype(int).tolist())

    def validate(self, model: Any) -> dict[str, float]:
        """Loss in nats per token and token accuracy of all references; scores of greedy outputs for some of them."""

        def forced(units: list[U]) -> list[tuple[float, int, int]]:
            """Sums over the references of each group."""
            starts = np.cumsum([0, *map(self.rows_in, units)])[:-1]
            sums = [np.add.reduceat(one, starts).tolist() for one in self.forced_scores(model, units)]
            return list(zip(*sums, strict=True))

        nll, correct, tokens = zip(*current().map(forced, self.validated_part(self.valid_units())), strict=True)
        chosen = self.to_validate()
        options = self.search_options(model, beam_size=1, max_length=chosen.longest)

        def written(sources: list[S]) -> list[str]:
            return [candidates[0].text for candidates in self.write(model, sources, options)]

        texts = current().map(written, self.validated_part(chosen.sources))
        references = self.validated_part(chosen.references)
        *of_texts, exact = output_measures(
            texts, references, self.quick_scores, self.target_tokenizer, self.bleu_tokenize
        )
        token_accuracy = share("token_accuracy", "token accuracy", correct, tokens)
        return {"loss": sum(nll) / max(1, sum(tokens)), **values_of([token_accuracy, exact, *of_texts])}

    @property
    def trained_validation(self) -> float:
        """Time of a validation after training: trained models write outputs as long as references, not the largest."""
        lengths = self.valid_lengths() or [1]
        # Outputs of a batch are written together, until the longest ends.
        return min(1.0, 1.5 * (sum(lengths) / len(lengths) + 1) / (max(lengths) + 2))

    @property
    def finishing_work(self) -> float:
        """The time to evaluate every test set, in validations (scoring attention as well about doubles the cost)."""
        tested = sum(self.num_references(name) for name in self.split_names if name not in ("train", "valid"))
        # Validation is greedy; a beam search costs at most the beam size times as much.
        return (1.0 + int(self._generation.beam_size)) * tested / max(1, self.num_validated)

    # Writing --------------------------------------------------------------------------------------------------

    def never_written(self, model: Any) -> tuple[int, ...]:
        """The tokens that no output may contain."""
        return (*self.target_tokenizer.special.never_written, *self.target_tokenizer.tags.values())

    def search_options(
        self,
        model: Any,
        *,
        beam_size: int | None = None,
        num_best: int = 1,
        length_penalty: float | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
        **others: Any,
    ) -> SearchOptions:
        """Search options: the given ones, and the configuration's for those that are None; others are as given."""
        given = self._generation
        longest = given.max_length or self.longest_output or 200
        return SearchOptions(
            end_token=self.target_tokenizer.special.end,
            max_length=longest if max_length is None else max_length,
            min_length=given.min_length if min_length is None else min_length,
            beam_size=max(num_best, given.beam_size) if beam_size is None else beam_size,
            length_penalty=given.length_penalty if length_penalty is None else length_penalty,
            num_best=num_best,
            forbidden=self.never_written(model),
            **others,
        )

    def write(
        self,
        model: Any,
        sources: Sequence[S],
        options: SearchOptions,
        sampling: SamplingOptions | None = None,
        forced: Sequence[int] = (),
    ) -> list[list[WrittenText]]:
        """The candidates for each source, best first; every output begins with the `forced` tokens."""
        results: list[list[WrittenText]] = [[] for _ in sources]
        for chosen in self.plan(sources, options.beam_size):
            given = self._search(model, [sources[i] for i in chosen], options, sampling, forced)
            for i, hypotheses in zip(chosen, generate(**given).hypotheses, strict=True):
                results[i] = [WrittenText.of(self.target_tokenizer, one, forced) for one in hypotheses]
        return results

    def stream(
        self, model: Any, source: S, options: SearchOptions, sampling: SamplingOptions | None = None
    ) -> Generator[str, None, WrittenText]:
        """Write one output without a beam, yielding its text as soon as no later token can change it.

        The pieces add up to the text of the returned prediction.
        """
        tokenizer = self.target_tokenizer
        steps = generate_steps(**self._search(model, [source], options, sampling))
        tokens: list[int] = []
        shown = ""
        while True:
            try:
                tokens += [token for _, token in next(steps)]
            except StopIteration as end:
                prediction = WrittenText.of(tokenizer, end.value.hypotheses[0][0])
                if rest := prediction.text.removeprefix(shown):
                    yield rest
                return prediction
            text = tokenizer.decode(tokens).rstrip(_INCOMPLETE)
            if text.startswith(shown) and text != shown:
                yield text[len(shown) :]
                shown = text

    def _search(
        self,
        model: Any,
        sources: Sequence[S],
        options: SearchOptions,
        sampling: SamplingOptions | None,
        forced: Sequence[int] = (),
    ) -> dict[str, Any]:
        """The arguments of a search over sources, which are read here."""
        device = next(model.eval().parameters()).device
        with without_gradient(), threads_for(model, self.positions_read(sources)):
            memory = self.memory(model, sources, device)
        prompt = torch.tensor([[self.first_token(source), *forced] for source in sources], device=device)
        if sampling is not None:
            # Derived from its tokens, so that an output does not depend on the place of its source in the input.
            keys = [repr((sampling.seed, self.ids_read(source))).encode() for source in sources]
            digests = [hashlib.blake2b(key, digest_size=8).digest() for key in keys]
            sampling = replace(sampling, seed=tuple(int.from_bytes(digest, "big") for digest in digests))
        return {"model": model, "memory": memory, "prompt": prompt, "options": options, "sampling": sampling}

    def scoring_memory(self, model: Any, activations: float) -> int:
        """Bytes that writing the outputs of a validation takes."""
        chosen = self.to_validate()
        return self.writing_memory(model, chosen.sources, chosen.longest) if chosen.sources else 0

    def writing_memory(self, model: Any, sources: Sequence[S], written: int) -> int:
        """Bytes that greedy outputs take, with at most `written` tokens each.

        For a Transformer, these are keys and values; a recurrent encoder holds about as much as for a backward pass.
        """
        plan = [[sources[i] for i in chosen] for chosen in self.plan(sources, 1)]
        read = [self.positions_read(some) for some in plan]
        held = cached_bytes(model, max(count + len(some) * written for count, some in zip(read, plan, strict=True)))
        if held:
            return held
        few, device = sources[:8], next(model.eval().parameters()).device
        kept = kept_bytes(model, lambda: self.memory(model, few, device))
        return round(kept / self.positions_read(few) * max(read))


def bleu_of(config: Any) -> str:
    """Sacrebleu's tokenizer for BLEU; runs older than the setting are scored with 13a."""
    chosen: str = config.evaluation.bleu_tokenize
    return "13a" if chosen == "auto" else chosen


def cached_bytes(model: Module, positions: int) -> int:
    """Bytes of keys and values that a Transformer decoder needs for `positions`; 0 for other decoders.

    Keys and values of the output are held twice while their buffers grow; those of the source are held twice, as
    prepared by the model and as read by the search.
    """
    widths = [one.attention.w_query.out_features for one in model.modules() if isinstance(one, DecoderBlock)]
    return 2 * 2 * 4 * sum(widths) * positions


def output_measures(
    texts: Sequence[str],
    references: Sequence[str],
    names: Sequence[str],
    tokenizer: TextTokenizer | None,
    bleu_tokenize: str,
) -> list[Measure]:
    """Scores of written texts: those in `names` ("chrf", "bleu", "ter", `ROUGE`), then exact match.

    References are as in the user's files. If the `tokenizer` that writes lower-cases, BLEU and chrF ignore case, as
    their signatures say; an exact match may differ in what it normalises. Without it, all differences count.
    """
    normalize, ignore_case = (str, False) if tokenizer is None else (tokenizer.normalize, tokenizer.lowercases)
    same = [float(normalize(one) == normalize(other)) for one, other in zip(texts, references, strict=True)]
    of_texts = rouge_measures(texts, references, [name for name in names if name in ROUGE])
    of_texts += [
        text_measure(name, texts, references, ignore_case, bleu_tokenize) for name in names if name not in ROUGE
    ]
    return [*of_texts, share("exact_match", "exact match", same)]
