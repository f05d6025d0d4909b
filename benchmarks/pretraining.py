"""Pretraining and fine-tuning speed of BERT against Hugging Face's, in one run on the same batches.

    pip install -e '.[bench]' transformers
    HEED_DATA=../shared/data python benchmarks/pretraining.py [--threads 1] [--seconds 10] [--processor-time]

Pretraining: `bert` with its head for masked words, as in heed's task, against `BertForMaskedLM` with random weights,
both unchanged (logits over the vocabulary at every position) and with its head applied only to masked positions.
Fine-tuning: `bert` with a classifier over its pooled state against `BertForSequenceClassification`, on whole sentences.
All models get the same padded batches, sizes, dropout, AdamW and clipping. Batches are planned by heed (similar
lengths) or unsorted, as from a plain data loader. Texts are IMDb reviews and SST-2 sentences (the stories of
examples/data without HEED_DATA), with a WordPiece vocabulary trained on them. Only real tokens are counted, no padding;
rounds are interleaved and the medians compared.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from machine import print_machine
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heed.config import TrainingConfig
from heed.data.batch import frame, frame_size, pad_rows, plan_pass
from heed.data.tokens import END, START
from heed.kernels import vocabulary_loss
from heed.layers.embeddings import MaskedWords
from heed.models.bert import Bert, BertConfig
from heed.tasks import check_config, task_class
from heed.training.optimizer import make_optimizer

LENGTH = 128
STORIES = Path(__file__).parents[1] / "examples" / "data" / "stories.py"
MASKED = 0.15
DROPOUTS = ((0.1, 0.1), (0.1, 0.0))


@dataclass(frozen=True)
class Batch:
    """Padded rows, masked positions `(M,)` with their original words, and a label for each row."""

    tokens: Tensor
    mask: Tensor
    places: Tensor
    words: Tensor
    labels: Tensor

    @property
    def count(self) -> int:
        """Number of tokens without padding."""
        return int(self.mask.sum())


Step = Callable[[Batch], float]


def texts(data: str | None) -> tuple[Any, list[list[int]], list[list[int]]]:
    """A prepared pretraining task, its rows and sentences with special tokens."""
    values: dict[str, Any] = {"task": "pretraining"}
    if data is None:
        folder = tempfile.mkdtemp()
        subprocess.run([sys.executable, STORIES, folder], check=True)
        values |= {"data": {"train": [f"{folder}/train.txt"], "format": "lines", "max_length": 64}}
    else:
        reviews = Path(data) / "documents" / "imdb" / "imdb.train.tsv.xz"
        columns = {"train": [str(reviews)], "max_length": LENGTH, "columns": {"text": "text"}}
        values |= {"data": columns, "tokenizer": {"kind": "wordpiece", "vocab_size": 8_000}}
    values |= {"model": {"size": "tiny", "next_sentence": False}, "training": {"steps": 1}}
    task = task_class("pretraining").prepare(check_config(values, "the benchmark"))
    rows = [row for batch in list(task.train_batches(0))[:60] for row in real_rows(task.collate(batch, 0))]
    sentences = rows
    if data is not None:
        file = Path(data) / "sentiment" / "sst" / "stsa.binary.train.gz"
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            some = [line.strip().partition(" ")[2] for line in lines]
        room = LENGTH - frame_size(is_pair=False)
        sentences = [frame(ids[:room]) for ids in task.input.tokenizer.encode_all(some)]
    return task, rows, sentences


def real_rows(batch: Any) -> list[list[int]]:
    """The rows before masking, without padding."""
    tokens = batch.inputs["tokens"].clone()
    tokens.view(-1)[batch.targets["places"]] = batch.targets["words"]
    return [row[own].tolist() for row, own in zip(tokens, batch.inputs["mask"], strict=True)]


def batches(rows: list[list[int]], batch_tokens: int, alike: bool, count: int) -> list[Batch]:
    """Some batches of rows with masked words, sorted by length or in data order."""
    generator, order = torch.Generator().manual_seed(1), [*range(len(rows))]
    random.Random(1).shuffle(order)
    lengths = [len(rows[i]) for i in order]
    if alike:
        plan = plan_pass(lengths, batch_tokens, seed=1, epoch=0)
    else:
        size = max(1, batch_tokens // max(lengths))
        plan = [[*range(start, start + size)] for start in range(0, len(order) - size, size)]
    made = []
    for indices in plan[:count]:
        tokens, mask = pad_rows([rows[order[i]] for i in indices])
        words = mask & (tokens != START) & (tokens != END)
        places = ((torch.rand(tokens.shape, generator=generator) < MASKED) & words).flatten().nonzero().squeeze(1)
        labels = torch.randint(0, 2, (len(indices),), generator=generator)
        made.append(Batch(tokens, mask, places, tokens.flatten()[places], labels))
    return made


def step_of(modules: nn.Module, optimizer: torch.optim.Optimizer | Any, loss: Callable[[Batch], Tensor]) -> Step:
    """Forward, backward, clipping, update."""

    def step(batch: Batch) -> float:
        value = loss(batch)
        value.backward()
        nn.utils.clip_grad_norm_(modules.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return value.item()

    return step


def heed_body(size: str, vocab_size: int, dropout: tuple[float, float]) -> Bert:
    fields = {**BertConfig.sizes[size], "dropout": dropout[0], "attention_dropout": dropout[1]}
    return Bert(BertConfig(vocab_size=vocab_size, **fields))


def heed_pretrains(size: str, vocab_size: int, dropout: tuple[float, float]) -> Step:
    body = heed_body(size, vocab_size, dropout)
    body.without_last()
    words = MaskedWords(body.inputs.embedding)
    modules = nn.ModuleList([body, words]).train()

    def loss(batch: Batch) -> Tensor:
        states = words.states(body(batch.tokens, batch.mask).flatten(0, 1)[batch.places])
        return vocabulary_loss(states, words.output, batch.words) / len(batch.words)

    return step_of(modules, make_optimizer(modules, TrainingConfig(steps=1, learning_rate=1e-4)), loss)


def heed_tunes(size: str, vocab_size: int, dropout: tuple[float, float]) -> Step:
    body = heed_body(size, vocab_size, dropout)
    output = nn.Linear(body.d_output, 2)
    modules = nn.ModuleList([body, output]).train()

    def loss(batch: Batch) -> Tensor:
        return cross_entropy(output(body.last(body(batch.tokens, batch.mask), batch.mask)), batch.labels)

    return step_of(modules, make_optimizer(modules, TrainingConfig(steps=1, learning_rate=1e-4)), loss)


def their_config(size: str, vocab_size: int, dropout: tuple[float, float]) -> Any:
    from transformers import BertConfig as TheirConfig

    own = BertConfig(vocab_size=vocab_size, **BertConfig.sizes[size])
    return TheirConfig(
        vocab_size=vocab_size,
        hidden_size=own.d_model,
        num_hidden_layers=own.num_layers,
        num_attention_heads=own.num_heads,
        intermediate_size=own.d_ff,
        hidden_dropout_prob=dropout[0],
        attention_probs_dropout_prob=dropout[1],
        attn_implementation="sdpa",
    )


def their_step(model: nn.Module, loss: Callable[[Batch], Tensor]) -> Step:
    return step_of(model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True), loss)


def they_pretrain(size: str, vocab_size: int, dropout: tuple[float, float]) -> Step:
    from transformers import BertForMaskedLM

    model = BertForMaskedLM(their_config(size, vocab_size, dropout)).train()

    def loss(batch: Batch) -> Tensor:
        labels = torch.full_like(batch.tokens, -100)
        labels.view(-1)[batch.places] = batch.words
        found = model(input_ids=batch.tokens, attention_mask=batch.mask.long(), labels=labels)
        return found.loss  # type: ignore[no-any-return]

    return their_step(model, loss)


def they_pretrain_masked(size: str, vocab_size: int, dropout: tuple[float, float]) -> Step:
    from transformers import BertForMaskedLM

    model = BertForMaskedLM(their_config(size, vocab_size, dropout)).train()

    def loss(batch: Batch) -> Tensor:
        hidden = model.bert(input_ids=batch.tokens, attention_mask=batch.mask.long()).last_hidden_state
        return cross_entropy(model.cls(hidden.flatten(0, 1)[batch.places]), batch.words)

    return their_step(model, loss)


def they_tune(size: str, vocab_size: int, dropout: tuple[float, float]) -> Step:
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification(their_config(size, vocab_size, dropout)).train()

    def loss(batch: Batch) -> Tensor:
        found = model(input_ids=batch.tokens, attention_mask=batch.mask.long(), labels=batch.labels)
        return found.loss  # type: ignore[no-any-return]

    return their_step(model, loss)


PRETRAINING = {
    "heed": heed_pretrains,
    "BertForMaskedLM, head only at masked tokens": they_pretrain_masked,
    "BertForMaskedLM, unchanged": they_pretrain,
}
TUNING = {"heed": heed_tunes, "BertForSequenceClassification": they_tune}


def race(title: str, makers: dict[str, Callable[[], Step]], data: list[Batch], given: argparse.Namespace) -> None:
    """Train all competitors in turn, on a third of the batches in each round."""
    clock = time.process_time if given.processor_time else time.perf_counter
    padding = 1 - sum(batch.count for batch in data) / sum(batch.mask.numel() for batch in data)
    steps: dict[str, Step] = {}
    for name, make in makers.items():
        torch.manual_seed(1)
        try:
            steps[name] = make()
        except ImportError as error:
            print(f"{name} is not installed ({error.name})")
    for step in steps.values():
        step(data[0])
    times: dict[str, list[float]] = {name: [] for name in steps}
    end, rounds = time.perf_counter() + given.seconds * len(steps), 0
    while time.perf_counter() < end or rounds < 3:
        part = data[rounds % 3 :: 3]
        for name, step in steps.items():
            gc.collect()
            start = clock()
            for batch in part:
                step(batch)
            times[name].append((clock() - start) / sum(batch.count for batch in part))
        rounds += 1
    print(f"\n{title}, {padding:.0%} padding; {rounds} rounds")
    for name, found in times.items():
        middle = statistics.median(found)
        ratios = sorted(theirs / ours for theirs, ours in zip(found, times["heed"], strict=True))
        print(
            f"  {name:44} {1 / middle:9,.0f} tokens/s   {statistics.median(ratios):5.2f}x heed's time"
            f" (rounds {ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of BERT's pretraining and fine-tuning")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds for each competitor and setting")
    parser.add_argument("--batch-tokens", type=int, default=4_096)
    parser.add_argument("--sizes", default="tiny,small")
    parser.add_argument("--processor-time", action="store_true", help="processor time instead of wall-clock time")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print_machine()
    task, rows, sentences = texts(os.environ.get("HEED_DATA"))
    vocab_size = task.input.tokenizer.vocab_size
    print(f"{vocab_size:,} tokens in the vocabulary")
    for size in given.sizes.split(","):
        for alike in (True, False):
            kind = "batches of similar length" if alike else "unsorted rows"
            for dropout in DROPOUTS:
                what = f"{size}, {kind}, dropout {dropout[0]}, of attention {dropout[1]}"
                for title, competitors, some in (
                    ("Pretraining", PRETRAINING, rows),
                    ("Fine-tuning on sentences", TUNING, sentences),
                ):
                    data = batches(some, given.batch_tokens, alike, 9)
                    makers = {name: partial(make, size, vocab_size, dropout) for name, make in competitors.items()}
                    race(f"{title}, {what}", makers, data, given)


if __name__ == "__main__":
    main()
