"""Rating: a body over characters, pooling and one output; the loss is the squared error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from heed.tasks.rating.config import RatingConfig, RatingHead
from torch import Tensor, nn

from heed.data.batch.plan import plan_batches
from heed.data.batch.rows import Batch, pad_rows
from heed.data.examples import Example
from heed.data.read.findings import Findings
from heed.data.read.reader import Reader
from heed.data.read.rows import tabbed_rows
from heed.data.store.splits import Splits, open_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.layers import max_pooling, mean_pooling
from heed.tasks.base.task import Task
from heed.tasks.base.transfer import with_parents


@dataclass(frozen=True, slots=True)
class Rated(Example):
    """A text and its rating."""

    unit = "text"
    sides = ("text",)
    text: str
    rating: float
    origin: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        return self.text, repr(self.rating)

    @classmethod
    def of(cls, fields: tuple[str, ...], origin: str) -> Rated:
        return cls(fields[0], float(fields[1]), origin)


def read_ratings(files: Sequence[str | Path], findings: Findings) -> Iterator[Rated]:
    """Read lines `4.5 TAB text`."""
    for path in map(Path, files):
        for number, row in tabbed_rows(path, findings):
            rating = row[0].replace(".", "", 1).removeprefix("-")
            if len(row) != 2 or not rating.isdecimal():
                wrong = f"'{path}' line {number} is {row[0]!r}, expected a number, a tab and a text"
                findings.leave_out(findings.bad("no rating", path, number, wrong).rule)
            else:
                yield Rated(row[1], float(row[0]), f"{path.name}:{number}")


@dataclass(frozen=True)
class RatingBatch(Batch):
    """A batch of texts as characters, with their ratings."""

    indices: list[int]
    tokens: Tensor
    mask: Tensor
    ratings: Tensor

    @property
    def num_targets(self) -> int:
        return len(self.indices)


class Rater(nn.Module):
    """A body, pooling and one output, limited to the scale."""

    def __init__(self, body: Any, pooling: str, ends: tuple[float, float] | None) -> None:
        super().__init__()
        self.body = body
        self.pool = {"mean": mean_pooling, "max": max_pooling}[pooling]
        self.output = nn.Linear(body.d_output, 1)
        self.ends = ends

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        rated = self.output(self.pool(self.body(tokens, mask), mask))[:, 0]
        return rated if self.ends is None or self.training else rated.clamp(*self.ends)


class Rating(Task[RatingConfig, Rated]):
    """The rating task."""

    interfaces = ("encoder",)
    head_class = RatingHead
    size_fields: ClassVar = {"tokens": "vocab_size"}
    alternatives: ClassVar = {"tokens": ("tokens", "source")}
    selected_by = "loss"

    def __init__(self, config: RatingConfig, tokenizer: TextTokenizer, splits: Splits[Rated] | None) -> None:
        super().__init__(config, splits)
        self.tokenizer = tokenizer

    @classmethod
    def prepare(cls, config: RatingConfig) -> Self:
        config, parent, _ = with_parents(config, cls)
        config = config.model_copy(update={"tokenizer": config.tokenizer.model_copy(update={"kind": "char"})})
        splits = cls.read_splits(config)
        texts = [one.text for one in splits.examples["train"]]
        return cls(config, TextTokenizer.train(texts, config.tokenizer), splits).settle(parent)

    @classmethod
    def open_splits(cls, config: RatingConfig) -> Splits[Rated]:
        return open_splits(config.data, Reader(Rated, read_ratings))

    @classmethod
    def restore(cls, config: RatingConfig, folder: Path) -> Self:
        return cls(config, TextTokenizer.load(folder / "tokenizer.json"), None)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / "tokenizer.json")

    def axes(self) -> dict[str, list[str]]:
        return {"tokens": self.tokenizer.tokens}

    def tokenizers(self) -> dict[str, TextTokenizer]:
        return {"tokens": self.tokenizer}

    def build_model(self) -> Rater:
        config, head = self.model_and_head()
        return Rater(self.body_class(config), head.pooling, self.ends)

    @property
    def ends(self) -> tuple[float, float] | None:
        scale = self.config.data.scale
        return None if scale is None else tuple(map(float, Path(scale).read_text().split()))

    # Data

    def batch(self, examples: Sequence[Rated], indices: list[int]) -> RatingBatch:
        chosen = [examples[i] for i in indices]
        tokens, mask = pad_rows(self.tokenizer.encode_all([one.text for one in chosen]))
        return RatingBatch(indices, tokens, mask, torch.tensor([one.rating for one in chosen]))

    def train_batches(self, epoch: int) -> list[list[int]]:
        lengths = [(len(one.text), 0) for one in self.splits.examples["train"]]
        return plan_batches(lengths, self.config.training.batch_tokens, self.config.training.seed, epoch)

    def collate(self, indices: list[int], epoch: int = 0) -> RatingBatch:
        return self.batch(self.splits.examples["train"], indices)

    def work(self, indices: list[int]) -> int:
        train = self.splits.examples["train"]
        return len(indices) * max(len(train[i].text) for i in indices)

    def describe(self, indices: list[int]) -> str:
        return f"{len(indices)} texts, the first {self.splits.examples['train'][indices[0]].origin}"

    def overview(self) -> str:
        return f"{self.notes}\n{self.tokenizer.vocab_size} characters"

    def report_counts(self) -> dict[str, Any]:
        return {name: {"examples": len(part)} for name, part in self.splits.examples.items()}

    # Learning

    def loss(self, model: Rater, batch: RatingBatch, label_smoothing: float) -> Tensor:
        return (model(batch.tokens, batch.mask) - batch.ratings).square().sum()

    def validate(self, model: Rater) -> dict[str, float]:
        valid = self.splits.examples["valid"]
        wrong = [said - one.rating for said, one in zip(self.rate(model, valid), valid, strict=True)]
        return {"loss": sum(e * e for e in wrong) / len(wrong)}

    @torch.no_grad()
    def rate(self, model: Rater, examples: Sequence[Rated]) -> list[float]:
        model.eval()
        batch = self.batch(examples, list(range(len(examples))))
        return model(batch.tokens, batch.mask).tolist()
