"""Training over conversations: `hred`, which reads every turn once, against a model of the joined history, and padded.

    python benchmarks/dialogue.py [--threads 1] [--width 256] [--responses 60] [--rounds 5]

One update over random tokens: forward, loss, backward, Adam. Every turn but the first of a conversation is a response,
given the turns before it; each update has about the same number of responses, whatever the length of the
conversations. The flat models read the history of each response again, as one text with a token before each turn, in
batches of like length as training makes them. All have the same cell (gru), widths, two directions over the words,
layers, vocabulary and readout; turns have 2 to 40 tokens, 12 on average. Examples are responses.

`padded` is `hred` without attention whose utterances are laid out as turns x longest turn, read in one group, with
empty turns up to the longest conversation: the cost of the plain form of the same network. For it conversations are of
unequal length, 2 up to the given number of turns, and one turn of 40 tokens is among them.

All forms take turns in each round; the least time of each counts. Processor time.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from heed.attention import padding_mask
from heed.models.bahdanau import Bahdanau, BahdanauConfig
from heed.models.base import DecoderBody
from heed.models.hred import HRED, HREDConfig
from heed.models.luong import Luong, LuongConfig
from heed.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heed.training.loss import vocabulary_loss

VOCAB_SIZE = 4000
Conversations = list[list[list[int]]]
"""Tokens of each turn of each conversation."""


def conversations(count: int, turns: Callable[[], int], seed: int) -> Conversations:
    """Random ones; lengths of turns are log-normal."""
    draw = random.Random(seed)

    def turn() -> list[int]:
        length = min(40, max(2, round(draw.lognormvariate(math.log(10), 0.6))))
        return [draw.randrange(4, VOCAB_SIZE) for _ in range(length)]

    return [[turn() for _ in range(turns())] for _ in range(count)]


def padded(texts: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Tokens and mask."""
    mask = padding_mask(torch.tensor([len(text) for text in texts]))
    tokens = torch.zeros_like(mask, dtype=torch.long)
    tokens[mask] = torch.tensor([token for text in texts for token in text])
    return tokens, mask


@dataclass
class Batch:
    """Arguments of a model's `forward`, and which of its outputs are scored on what."""

    given: dict[str, Tensor]
    mask: Tensor
    answers: Tensor


def turn_batch(batch: Conversations) -> Batch:
    """As `hred` reads it: each utterance once."""
    utterances = [turn for one in batch for turn in one]
    tokens, mask = padded(utterances)
    starts = [0, *accumulate(len(one) for one in batch)]
    turns = torch.full((len(batch), max(map(len, batch))), -1)
    for row, one in enumerate(batch):
        turns[row, : len(one)] = torch.arange(starts[row], starts[row] + len(one))
    places = [(row, read) for row, one in enumerate(batch) for read in range(1, len(one))]
    target, inside = padded([[1, *batch[row][read]] for row, read in places])
    conversation, read = (torch.tensor(column) for column in zip(*places, strict=True))
    said = {"tokens": tokens, "mask": mask, "turns": turns, "speakers": torch.arange(len(tokens)) % 2}
    return Batch({**said, "target": target, "conversation": conversation, "read": read}, *_answers(target, inside))


def flat_batches(batch: Conversations, size: int) -> list[Batch]:
    """As a pair decoder reads it: the joined history of each response, sorted by length before it is cut up."""
    pairs = [
        ([token for turn in one[:read] for token in (3, *turn)], one[read])
        for one in batch
        for read in range(1, len(one))
    ]
    pairs.sort(key=lambda pair: len(pair[0]))
    batches = []
    for start in range(0, len(pairs), size):
        sources, targets = zip(*pairs[start : start + size], strict=True)
        source, mask = padded(list(sources))
        target, inside = padded([[1, *one] for one in targets])
        batches.append(Batch({"source": source, "source_mask": mask, "target": target}, *_answers(target, inside)))
    return batches


def _answers(target: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
    last = inside.sum(1, keepdim=True) - 1
    after = torch.cat([target[:, 1:], target[:, :1]], dim=1).scatter(1, last, 2)  # ends with the end token
    return inside, after[inside]


class Padded(HRED):
    """All utterances in one group, turns x longest turn, the empty ones too."""

    def forward(self, tokens: Tensor, mask: Tensor, turns: Tensor, speakers: Tensor, **rest: Tensor) -> Tensor:  # type: ignore[override]
        """As `HRED`, after every turn of every conversation has been laid out."""
        real = turns.flatten() >= 0
        laid = tokens[turns.flatten().clamp_min(0)]
        every = torch.arange(turns.numel()).view_as(turns)
        whole = torch.ones_like(laid, dtype=torch.bool)  # padding is read too
        who = speakers[turns.flatten().clamp_min(0)]
        assert len(real) == len(laid)
        return super().forward(laid, whole, every, who, **rest)


def models(width: int) -> Iterator[tuple[str, DecoderBody]]:
    """Every form with the same widths, cell and output layer."""
    wide = {"d_embedding": width, "d_hidden": width, "d_readout": width, "cell": "gru", "dropout": 0.0}
    both = {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE, "bidirectional": True}
    turns = {**wide, "vocab_size": VOCAB_SIZE, "num_speakers": 2, "d_context": width, "d_attention": width}
    looks = {"word_attention": True, "turn_attention": True}
    without_readout = {key: value for key, value in wide.items() if key != "d_readout"}
    yield "hred", HRED(HREDConfig(**turns))
    yield "hred, words and turns", HRED(HREDConfig(**turns, **looks))
    yield "padded", Padded(HREDConfig(**turns))
    yield "flat seq2seq", Seq2Seq(Seq2SeqConfig(**both, **wide))
    yield "flat bahdanau", Bahdanau(BahdanauConfig(**both, **wide, d_attention=width))
    yield (
        "flat luong",
        Luong(LuongConfig(**both, **without_readout, d_attention=width, num_layers=1, input_feeding=False)),
    )


def update(model: DecoderBody, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    """One step of training."""
    optimizer.zero_grad()
    hidden = model(**batch.given)
    (vocabulary_loss(hidden[batch.mask], model.output, batch.answers) / len(batch.answers)).backward()
    optimizer.step()


def measured(forms: dict[str, tuple[DecoderBody, list[Batch]]], rounds: int) -> dict[str, float]:
    """Responses a second of each form."""
    optimizers = {name: torch.optim.Adam(model.parameters()) for name, (model, _) in forms.items()}
    best = dict.fromkeys(forms, math.inf)
    for _ in range(rounds):
        for name, (model, batches) in forms.items():
            start = time.process_time()
            for batch in batches:
                update(model.train(), optimizers[name], batch)
            best[name] = min(best[name], time.process_time() - start)
    return {name: sum(len(b.mask) for b in batches) / best[name] for name, (_, batches) in forms.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--responses", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, nargs="+", default=[2, 4, 6, 10, 15, 20])
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    made = dict(models(given.width))
    print(f"torch {torch.__version__}, {given.threads} threads, {given.width} wide, about {given.responses} responses")
    print("responses a second\n" + "turns".ljust(8) + "".join(name.rjust(len(name) + 3) for name in made))
    for turns in given.turns:
        count = max(1, round(given.responses / (turns - 1)))
        said = conversations(4 * count, lambda turns=turns: turns, seed=turns)
        together = [turn_batch(said[start : start + count]) for start in range(0, len(said), count)]
        flat = flat_batches(said, len(together[0].mask))
        forms = {name: (model, flat if name.startswith("flat") else together) for name, model in made.items()}
        speeds = measured(forms, given.rounds)
        print(f"{turns:<8}" + "".join(f"{speed:.0f}".rjust(len(name) + 3) for name, speed in speeds.items()))


if __name__ == "__main__":
    main()
