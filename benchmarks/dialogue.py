"""Training speed on conversations: `hred`, which reads every turn once, against joined history and a padded form.

    python benchmarks/dialogue.py [--threads 1] [--width 256] [--responses 60] [--rounds 5]

One update on random tokens: forward, loss, backward, Adam. Every turn except the first of a conversation is a response
to the turns before it; each update has about the same number of responses, however long the conversations are. The flat
models read the whole history for each response, as one text with a token before each turn, in batches of similar length
as in training. All have the same cell (gru), widths, two directions over the words, layers, vocabulary and readout;
turns have 2 to 40 tokens, 12 on average. Examples are responses.

The second table compares `hred` without attention with its plain form, `padded`: all conversations padded to the
largest number of turns x the longest turn, encoded in one group and decoded in another. Conversations have from 2 to
the given number of turns, and one turn of each batch has the length given in the table. Besides milliseconds the table
shows the positions that the word-level network processes, padding included.

All forms run in turn in each round, and the shortest time of each counts. Processor time.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import torch
from machine import print_machine
from torch import Tensor

from heed.attention import padding_mask
from heed.layers.groups import length_groups
from heed.models.bahdanau import Bahdanau, BahdanauConfig
from heed.models.base import DecoderBody, TurnDecoder
from heed.models.hred import HRED, HREDConfig
from heed.models.luong import Luong, LuongConfig
from heed.models.seq2seq import Seq2Seq, Seq2SeqConfig
from heed.training.loss import vocabulary_loss

VOCAB_SIZE = 4000
Conversations = list[list[list[int]]]
"""Tokens of each turn of each conversation."""


def conversations(count: int, turns: int, seed: int, ragged: bool = False) -> Conversations:
    """Random conversations with the given number of turns, or from 2 to that number; turn lengths are log-normal."""
    draw = random.Random(seed)

    def turn() -> list[int]:
        length = min(40, max(2, round(draw.lognormvariate(math.log(10), 0.6))))
        return [draw.randrange(4, VOCAB_SIZE) for _ in range(length)]

    counts = [2 + row % (turns - 1) if ragged else turns for row in range(count)]
    return [[turn() for _ in range(one)] for one in counts]


def padded(texts: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Pad rows to tokens and mask."""
    mask = padding_mask(torch.tensor([len(text) for text in texts]))
    tokens = torch.zeros_like(mask, dtype=torch.long)
    tokens[mask] = torch.tensor([token for text in texts for token in text])
    return tokens, mask


@dataclass
class Batch:
    """Arguments of a model's `forward`, the outputs to score, and their targets."""

    given: dict[str, Tensor]
    mask: Tensor
    answers: Tensor


def turn_batch(batch: Conversations) -> Batch:
    """A batch for `hred`, which reads each utterance once."""
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
    """Batches for an encoder-decoder: the joined history of each response, sorted by length before batching."""
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
    """All utterances in one group, turns x longest turn, including empty ones; all responses in another."""

    def forward(self, tokens: Tensor, mask: Tensor, turns: Tensor, speakers: Tensor, **rest: Tensor) -> Tensor:  # type: ignore[override]
        """As `TurnDecoder.forward`, but on turns padded to a rectangle; padding is processed too."""
        utterance = turns.flatten().clamp_min(0)
        laid, every = tokens[utterance], torch.arange(turns.numel()).view_as(turns)
        return TurnDecoder.forward(
            self, laid, torch.ones_like(laid, dtype=torch.bool), every, speakers[utterance], **rest
        )


def config_of(width: int, **fields: bool) -> HREDConfig:
    """Configuration of `hred` with all widths equal."""
    wide = dict.fromkeys(("d_embedding", "d_hidden", "d_readout", "d_context", "d_attention"), width)
    return HREDConfig(vocab_size=VOCAB_SIZE, num_speakers=2, **wide, **fields)


def models(width: int) -> Iterator[tuple[str, DecoderBody]]:
    """Every form with the same widths, cell and output layer."""
    both = {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE, "bidirectional": True, "dropout": 0.0}
    wide = {**both, "d_embedding": width, "d_hidden": width, "cell": "gru"}
    attends = {**wide, "d_attention": width}
    yield "hred", HRED(config_of(width))
    yield "hred words+turns", HRED(config_of(width, word_attention=True, turn_attention=True))
    yield "flat seq2seq", Seq2Seq(Seq2SeqConfig(**wide, d_readout=width))
    yield "flat bahdanau", Bahdanau(BahdanauConfig(**attends, d_readout=width))
    yield "flat luong", Luong(LuongConfig(**attends, num_layers=1, input_feeding=False))


def update(model: DecoderBody, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    """One training step."""
    optimizer.zero_grad()
    hidden = model(**batch.given)
    (vocabulary_loss(hidden[batch.mask], model.output, batch.answers) / len(batch.answers)).backward()
    optimizer.step()


def measured(forms: dict[str, tuple[DecoderBody, list[Batch]]], rounds: int) -> dict[str, float]:
    """Responses per second of each form."""
    optimizers = {name: torch.optim.Adam(model.parameters()) for name, (model, _) in forms.items()}
    best = dict.fromkeys(forms, math.inf)
    for _ in range(rounds):
        for name, (model, batches) in forms.items():
            start = time.process_time()
            for batch in batches:
                update(model.train(), optimizers[name], batch)
            best[name] = min(best[name], time.process_time() - start)
    return {name: sum(len(b.mask) for b in batches) / best[name] for name, (_, batches) in forms.items()}


def against_flat(given: argparse.Namespace) -> None:
    """Print the first table."""
    made = dict(models(given.width))
    print("responses per second\n" + "turns".ljust(8) + "".join(name.rjust(len(name) + 3) for name in made))
    for turns in given.turns:
        count = max(1, round(given.responses / (turns - 1)))
        said = conversations(2 * count, turns, seed=turns)
        together = [turn_batch(said[start : start + count]) for start in range(0, len(said), count)]
        flat = flat_batches(said, len(together[0].mask))
        forms = {name: (model, flat if name.startswith("flat") else together) for name, model in made.items()}
        speeds = measured(forms, given.rounds)
        print(
            f"{turns:<8}" + "".join(f"{speed:.0f}".rjust(len(name) + 3) for name, speed in speeds.items()), flush=True
        )


def against_padded(given: argparse.Namespace) -> None:
    """Print the second table."""
    turns_model, padded_model = (kind(config_of(given.width)) for kind in (HRED, Padded))
    print("\nms per update, positions\nturns   longest turn" + "hred".rjust(16) + "padded".rjust(16))
    for turns in (5, 10, 20):
        for longest in (40, 80, 160):
            said = conversations(max(2, 2 * given.responses // turns), turns, seed=turns, ragged=True)
            said[0][0] = [4] * longest
            batch = turn_batch(said)
            forms: dict[str, tuple[DecoderBody, list[Batch]]] = {
                "hred": (turns_model, [batch]),
                "padded": (padded_model, [batch]),
            }
            speeds = measured(forms, given.rounds)
            lengths = [len(turn) for one in said for turn in one]
            places = {
                "hred": sum(len(group) * lengths[group[0]] for group in length_groups(lengths)),
                "padded": len(said) * max(map(len, said)) * max(lengths),
            }
            cells = (f"{1000 * len(batch.mask) / speeds[name]:.0f}, {places[name]}".rjust(16) for name in forms)
            print(f"{turns:<8}{longest:<12}" + "".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--responses", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, nargs="*", default=[2, 4, 6, 10, 15, 20])
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    print_machine()
    print(f"width {given.width}, about {given.responses} responses")
    against_flat(given)
    against_padded(given)


if __name__ == "__main__":
    main()
