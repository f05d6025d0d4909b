"""Scores that a translation model computes for m source and t target words, counted where its score gives them."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from heed.attention import Attention
from heed.attention.scores import Score
from heed.claims.experiment import Cell, Experiment, Kind, Plot, Results, Row, Verdict, cells
from heed.evaluation.significance import over_seeds
from heed.models.bahdanau import Bahdanau, BahdanauConfig
from heed.models.base import PairDecoder
from heed.models.seq2seq import Seq2Seq, Seq2SeqConfig

_LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
_SIZE: dict[str, Any] = {"source_vocab_size": 20, "target_vocab_size": 20, "d_embedding": 16, "d_hidden": 16}


def measure(cell: Cell) -> list[Row]:
    """Read and write m = t words with an untrained model; the scores computed, by length."""
    torch.manual_seed(cell.seed)
    model: PairDecoder
    if cell["model"] == "no attention":
        model = Seq2Seq(Seq2SeqConfig(**_SIZE))
    else:  # queries have the width of the keys, which the dot product needs
        score = {"additive": "additive", "dot product": "scaled_dot"}[cell["model"]]
        model = Bahdanau(BahdanauConfig(**_SIZE, d_attention=16, score=score, bidirectional=False))
    counts = []
    for attention in [one for one in model.modules() if isinstance(one, Attention)]:
        attention.score = _Counting(attention.score)
        counts.append(attention.score)
    rows = []
    for length in _LENGTHS:
        before = sum(one.count for one in counts)
        tokens, began = torch.randint(4, 20, (1, length)), time.perf_counter()
        with torch.no_grad():
            model.eval()(tokens, torch.ones(1, length, dtype=torch.bool), tokens)
        seconds = time.perf_counter() - began
        scores = sum(one.count for one in counts) - before
        rows.append({"length": length, "scores": scores, "over_mt": scores / length**2, "seconds": seconds})
    return rows


class _Counting(Score):
    """Another score that counts what it returns; without a scale, so that no fused kernel takes its place."""

    def __init__(self, of: Score) -> None:
        super().__init__()
        self.of, self.count = of, 0

    def project(self, query: Tensor) -> Tensor:
        return self.of.project(query)

    def prepare(self, key: Tensor) -> Tensor:
        return self.of.prepare(key)

    def scores(self, projected: Tensor, prepared: Tensor) -> Tensor:
        result = self.of.scores(projected, prepared)
        self.count += result.numel()
        return result


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`."""
    with_attention = [row["scores"] == row["length"] ** 2 for row in results.rows if row["model"] != "no attention"]
    without = [row["scores"] == 0 for row in results.rows if row["model"] == "no attention"]
    effect = over_seeds([max(row["over_mt"] for row in results.rows)])
    kind: Kind = "holds" if all(with_attention) and all(without) and with_attention else "does not hold here"
    return Verdict(kind, effect, "scores for each pair of a source and a target word, with attention")


EXPERIMENT = Experiment(
    grid=cells(model=("no attention", "additive", "dot product")),
    measure=measure,
    decide=decide,
    plots=(
        Plot("scores", "scores computed", "length", "model"),
        Plot("over_mt", "scores for each pair of words", "length", "model"),
    ),
    seeded=False,
)
