"""Extractive answers: a question, a context, and the span of the context that answers."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heed.config import Section
from heed.data.kinds import kind_of
from heed.errors import DataError
from heed.evaluation.measures import Measure, Outcomes, share
from heed.tasks.base.predictions import Prediction
from heed.tasks.base.report import interval
from heed.tasks.contracts import Batch, Draw, Facts, Head
from heed.tasks.heads import states_of
from heed.tasks.inputs.texts import Texts
from heed.tasks.look import look_at_texts
from heed.tasks.work import Looks, Task

QUESTIONS = kind_of("question", texts=("question", "context"), truth={"answer": str}, groups="context")


class SpanOptions(Section):
    longest: int = 20
    """Most tokens of an answer."""


class Pointer(nn.Module):
    """Scores of each token as the first and the last of an answer, `(batch, 2, length)`."""

    def __init__(self, body: Any, facts: Facts) -> None:
        super().__init__()
        self.body, self.special = body, facts.special
        body.without_last()
        self.output = nn.Linear(body.d_output, 2)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        scores = self.output(states_of(self.body, tokens, mask, self.special)).float().transpose(1, 2)
        return scores.masked_fill(~mask.unsqueeze(1), -1e4)


@dataclass(frozen=True, repr=False)
class Span(Prediction):
    """A part of the context, from character `start` to `end`; `begins` is the probability of each token to begin it."""

    text: str
    start: int
    end: int
    probability: float
    begins: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "start": self.start, "end": self.end, "probability": round(self.probability, 6)}

    def summary(self) -> str:
        return f"{self.text}\t{self.probability:.3f}"


@dataclass(frozen=True)
class Spans(Head):
    options, select, names, targets, per_token = SpanOptions, "token_f1", "answer", "answers", True

    def build(self, body: Any, options: SpanOptions, facts: Facts) -> Pointer:
        return Pointer(body, facts)

    def encode(self, examples: Sequence[Any], input: Texts) -> list[list[int]]:
        """The first and last token of each answer; -100, which no loss counts, where it was cut off."""
        ends = []
        for one in examples:
            if (start := one.context.find(one.answer)) < 0:
                raise DataError(f"{one.origin}: the answer {one.answer!r:.60} is not in the context")
            tokens, spans = input.places(one)["context"]
            inside = zip(tokens, spans, strict=True)
            covered = [n for n, (a, b) in inside if a < start + len(one.answer) and b > start] or [-100]
            ends.append([covered[0], covered[-1]])
        return ends

    def collate(self, truths: list[list[int]], batch: Batch, draw: Draw | None) -> Batch:
        ends = torch.tensor([truths[n] for n in batch.rows])
        return replace(batch, targets={"ends": ends}, num_targets=len(ends))

    def loss(self, model: Pointer, states: Tensor, batch: Batch, smoothing: float) -> Tensor:
        ends = batch.targets["ends"].flatten()
        return cross_entropy(states.flatten(0, 1), ends, reduction="sum", label_smoothing=smoothing) / 2

    def judge(self, model: Pointer, states: Tensor, batch: Batch) -> Tensor:
        ends = batch.targets["ends"]
        nats = cross_entropy(states.transpose(1, 2), ends, reduction="none").double().mean(1)
        return torch.stack([nats, (states.argmax(2) == ends).all(1).double(), torch.ones_like(nats)], dim=1)

    def decode(self, model: Pointer, states: Tensor, batch: Batch) -> list[Tensor]:
        return [*states.log_softmax(2).cpu()]

    def predict(self, answer: Tensor, example: Any, input: Texts) -> Span:
        tokens, spans = input.places(example)["context"]
        first, last = answer[:, tokens.start : tokens.stop]
        longest = self.chosen.longest
        allowed = torch.ones(len(tokens), len(tokens)).triu().tril(longest - 1) > 0
        both = (first.unsqueeze(1) + last).where(allowed, -torch.inf)
        a, b = divmod(int(both.argmax()), len(tokens))
        start, end = spans[a][0], spans[b][1]
        return Span(example.context[start:end], start, end, float(both[a, b].exp()), tuple(first.exp().tolist()))

    def measures(self, predictions: Sequence[Span], examples: Sequence[Any]) -> list[Measure]:
        words = [(p.text.lower().split(), e.answer.lower().split()) for p, e in zip(predictions, examples, strict=True)]
        f1 = [2 * (Counter(a) & Counter(b)).total() / max(1, len(a) + len(b)) for a, b in words]
        return [share("token_f1", "token F1", f1), share("exact_match", "exact match", [a == b for a, b in words])]

    def outcomes(
        self, predictions: Sequence[Span], examples: Sequence[Any], input: Any, others: Any = None
    ) -> Outcomes:
        return Outcomes(tuple(one.text for one in predictions), tuple(self.measures(predictions, examples)))

    def report(self, scores: dict[str, Any]) -> list[str]:
        return [f"  {name:<20} {interval(scores[name])}" for name in ("token_f1", "exact_match")]

    def shade(self, prediction: Span, sides: Any) -> list[Any]:
        return [sides["context"].shaded("Where the answer begins", prediction.begins)]


def sample(count: int) -> list[tuple[str, str, str]]:
    """Who does what: the question names one of two parts of the context."""
    draw = random.Random(1)
    who, what = ["Ann", "Bob", "Cid", "Dora"], ["eats", "reads", "sings", "runs"]
    drawn = [(draw.choice(who), draw.choice(what), draw.randrange(2)) for _ in range(count)]
    return [(("who ?", "what ?")[n], f"now {a} {b} n{i} .", (a, b)[n]) for i, (a, b, n) in enumerate(drawn)]


ANSWERS = Looks(look_at_texts)
TASK = Task("answers", Texts(QUESTIONS), Spans(), ANSWERS, summary="Answer questions on a text.", sample=sample)
