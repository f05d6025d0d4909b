"""Masked words, and whether the second of two texts follows the first: loss, scores of documents, answers.

The loss is the sum of both. Scored is each row of a document with its words masked, then each pair as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax, softmax

from heed.attention.host import host_copy, sent
from heed.errors import ConfigError
from heed.evaluation.measures import Array, Outcomes, rate, share, values_of
from heed.layers import mean_pooling
from heed.layers.embeddings import MaskedWords
from heed.models.base import TokenEncoder
from heed.models.bert import ACTIVATIONS
from heed.tasks.base.predictions import Prediction
from heed.tasks.base.report import interval, with_interval
from heed.tasks.contracts import Batch, Facts, Head, Input
from heed.tasks.heads.states import judged_tokens
from heed.tasks.pretraining.config import PretrainingHead, objectives
from heed.tasks.pretraining.filling import NextSentence, filled
from heed.tasks.pretraining.passages import TextRows
from heed.tasks.pretraining.rows import FOLLOWS, NO_QUESTION, Rows
from heed.tasks.work import Work
from heed.training.contracts import Loss
from heed.training.loss import vocabulary_loss
from heed.training.processes import current

_PIECE = 2**22
"""Numbers of one piece of logits."""
MEASURES = {
    "masked": (("masked_accuracy", "masked words right"), ("masked_loss", "nats per masked word"), "masked words"),
    "pairs": (("next_accuracy", "next sentences right"), ("next_loss", "nats per pair"), "pairs"),
}
"""Of masked words and of pairs: names and labels of share and loss, and what is counted."""


class Pretrainer(nn.Module):
    """A body that reads framed texts, and heads that are dropped when another task starts from its weights.

    Attributes:
        body: Computes a state for each token.
        words: Scores over the vocabulary at masked places; None if no words are masked.
        order: Maps one vector of the row to two scores: 0, the second text follows the first; 1, it does not. None
            without pairs.

    Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1.
    Differs from the paper: the vector is the mean of the states (`pooling`) unless [CLS] is asked for. A small model
    learns to compare two texts in minutes from their mean and not at all from [CLS]: docs/pretraining.md.
    """

    def __init__(self, body: TokenEncoder, head: PretrainingHead) -> None:
        super().__init__()
        self.body = body
        self.words: MaskedWords | None = None
        self.order: nn.Linear | None = None
        if head.masked_words:
            config, inputs = body.config, body.inputs
            activation, eps = getattr(config, "activation", "gelu"), getattr(config, "norm_eps", 1e-12)
            self.words = MaskedWords(
                inputs.embedding,  # type: ignore[union-attr, arg-type]  # of a framed body, a TokenInput
                activation=ACTIVATIONS[activation],
                eps=eps,
                tied=head.tied_output,
            )
        self.pooling = head.pooling
        if not head.next_sentence:
            body.without_last()
        else:
            self.order = nn.Linear(body.d_output, 2)
            nn.init.normal_(self.order.weight, std=0.02)
            nn.init.zeros_(self.order.bias)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """States of framed texts `(batch, length)`, `(batch, length, d)`."""
        return self.body(tokens, mask)

    def order_scores(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Scores of both answers `(batch, 2)` from the states of pairs; needs `order`."""
        assert self.order is not None
        body = self.body
        pooled = body.pooled(mean_pooling(hidden, mask)) if self.pooling == "mean" else body.last(hidden, mask)
        return self.order(pooled)  # type: ignore[no-any-return]


def by_document(rows: Rows, judged: Any) -> Array:
    """The scores of each document, `(documents, 2, 3)`, the sums of those of its rows, `(rows, 3)`.

    They are nats, right answers and targets, of masked words and of pairs. A pair counts for the document of its first
    text.
    """
    sums = np.zeros((rows.passages.num_documents, 2, 3))
    np.add.at(sums, (rows.passages.document_at(rows.first), np.where(rows.masked, 0, 1)), np.reshape(judged, (-1, 3)))
    return sums


def answers(scores: Array, labels: NDArray[np.int64]) -> Array:
    """For each pair the nats, 1 if it was answered right, and 1, `(pairs, 3)`, from log-probabilities."""
    nats = -scores[np.arange(len(labels)), labels]
    right = nats < -scores[np.arange(len(labels)), 1 - labels]
    return np.stack([nats, right, np.ones(len(labels))], axis=1)


def outcomes_of(scores: Any) -> Outcomes:
    """Accuracies, and losses in nats per masked word and per pair, of `by_document`; only those that are learned."""
    table, main, further, details = np.array(scores).reshape(-1, 2, 3), [], [], {}
    for (kind, (right, loss, _)), (nats, correct, counts) in zip(
        MEASURES.items(), table.transpose(1, 2, 0), strict=True
    ):
        details[kind] = int(counts.sum())
        if details[kind]:
            main.append(share(*right, correct.tolist(), counts.tolist()))
            further.append(rate(*loss, nats, counts, 3))
    units = [unit for *_, unit in MEASURES.values()]
    shares = ([f"{right:.0f} of {count:.0f}" * (count > 0) for _, right, count in both] for both in table.tolist())
    texts = (", ".join(f"{text} {unit}" for text, unit in zip(both, units, strict=True) if text) for both in shares)
    return Outcomes(tuple(texts), tuple(main), tuple(further), details=details)


@dataclass(frozen=True)
class Masked(Head):
    """Masked words of rows, and whether the second text of a row follows the first."""

    options: ClassVar = PretrainingHead
    names: ClassVar = "length"
    keywords: ClassVar[Mapping[str, Any]] = {"most": 5}
    is_tuned: ClassVar[bool] = False
    has_outputs: ClassVar = False

    most: int = 5
    """Candidates for each mask."""

    def settled(self, options: PretrainingHead, given: dict[str, Any], work: Work) -> dict[str, Any]:
        if not work.is_imported:  # a checkpoint may be a body alone
            _check(options)  # another run's fields may have come along
        return super().settled(options, given, work)

    def fitted(self, work: Work) -> Self:
        words = objectives(work.config).masked_words
        return replace(super().fitted(work), targets="masked words" if words else "pairs")

    def build(self, body: Any, options: PretrainingHead, facts: Facts) -> Pretrainer:
        return Pretrainer(body, options)

    def loss(self, model: Pretrainer, states: Tensor, batch: Batch, smoothing: float) -> Loss:
        targets, parts = batch.targets, dict[str, Tensor]()
        if model.words is not None:
            masked = model.words.states(states.flatten(0, 1)[targets["places"]])
            parts["masked"] = vocabulary_loss(masked, model.words.output, targets["words"], smoothing)
        if model.order is not None:
            asked = sent((host_copy(targets["order"]) != NO_QUESTION).nonzero().squeeze(1), states.device)
            logits = model.order_scores(states, batch.inputs["mask"])[asked]
            nats = cross_entropy(logits.float(), targets["order"][asked], reduction="none")
            parts["next"] = targets["pair_weight"] * (nats * targets["shares"][asked]).sum()
        return Loss(sum(parts.values()), parts)  # type: ignore[arg-type]  # there is one at least

    # Scores ---------------------------------------------------------------------------------------------------

    def judge(self, model: Pretrainer, states: Tensor, batch: Batch) -> Tensor:
        """Nats, right answers and number of the masked words of each row, or of the pair that it is."""
        if "order" in batch.targets:
            scores = log_softmax(model.order_scores(states, batch.inputs["mask"]).double(), dim=-1)
            return torch.from_numpy(answers(scores.cpu().numpy(), batch.targets["order"].cpu().numpy()))
        assert model.words is not None
        places, words = batch.targets["places"], batch.targets["words"]
        hidden, owners = model.words.states(states.flatten(0, 1)[places]), places // states.shape[1]
        most = max(1, _PIECE // model.words.output.weight.shape[0])
        return judged_tokens(model.words.output, hidden, words, owners, len(states), most)

    def validated(self, work: Work, model: Any) -> dict[str, float]:
        """Both losses, their sum and both accuracies; the processes share the rows."""
        input: Any = work.input
        units: Rows = input.scored_units(work.encoded("valid"))
        masked = np.count_nonzero(units.masked)
        numbers = [*work.validated_part(range(masked)), *work.validated_part(range(masked, len(units)))]
        judged = current().map(lambda part: work.judged_units(model, units, part), numbers)
        outcomes = outcomes_of(by_document(units.select(numbers), judged))
        values = values_of((*outcomes.measures, *outcomes.further))
        return {"loss": sum(values[name] for name in ("masked_loss", "next_loss") if name in values), **values}

    def document_scores(self, run: Any, examples: Sequence[Any]) -> Array:
        """Score the masked words and pairs of each document; the second text of a pair may be of another one."""
        units = run.input.scored_units(run.input.encode(examples))
        return by_document(units, run.task.judged(run.model, units))

    def scored(self, run: Any, examples: Sequence[Any], outputs: Sequence[Any] | None, others: Any) -> Outcomes:
        found = outcomes_of(self.document_scores(run, examples) if outputs is None else outputs)
        if not found.measures:
            raise ConfigError(
                "nothing can be scored: no document is long enough for a pair of texts (data.side_words, "
                "data.max_length), or there is only one document"
            )
        return found

    def report(self, scores: dict[str, Any]) -> list[str]:
        lines = []
        for kind, ((right, label), (loss, unit), _) in MEASURES.items():
            if right in scores:
                lines.append(f"  {label:<22} {interval(scores[right])}")
                lines.append(f"  {unit:<22}  {with_interval(scores[loss])}  of {scores[kind]:,}")
        return lines

    # Answers --------------------------------------------------------------------------------------------------

    def decode(self, model: Pretrainer, states: Tensor, batch: Batch) -> Sequence[Any]:
        """Of a pair the probability that the second text follows; else log-probabilities of all words at each mask."""
        if "order" in batch.targets:
            logits = model.order_scores(states, batch.inputs["mask"])
            probabilities: list[float] = softmax(logits.float(), dim=-1)[:, FOLLOWS].tolist()
            return probabilities
        assert model.words is not None
        places = batch.targets["places"]
        scores = log_softmax(model.words(states.flatten(0, 1)[places]).float(), dim=-1).cpu()
        counts = torch.bincount(places // states.shape[1], minlength=len(states))
        return list(scores.split(counts.tolist()))

    def predict(self, answer: Any, example: Any = None, input: Input | None = None) -> Prediction:
        if not isinstance(example, str):
            return NextSentence(example[0], example[1], answer)
        assert isinstance(input, TextRows)
        return filled(example, answer, input.tokenizer, self.most)


def with_objective(config: Any) -> Any:
    """The configuration of a new run; a ConfigError if it has no objective, as only an imported body may."""
    _check(objectives(config))
    return config


def _check(options: PretrainingHead) -> None:
    if not (options.masked_words or options.next_sentence):
        raise ConfigError("model.masked_words and model.next_sentence are both false; set one of them to true")
