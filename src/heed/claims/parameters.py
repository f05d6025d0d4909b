"""Parameters of networks that read T words of width 32 into 64 hidden units and 10 classes; a text longer than T."""

from __future__ import annotations

import torch
from torch import nn

from heed.claims.experiment import Cell, Experiment, Kind, Plot, Results, Row, Verdict, cells
from heed.errors import ShapeError
from heed.evaluation.significance import over_seeds
from heed.layers import Recurrent
from heed.models.mlp import MLP, MLPConfig

D, HIDDEN, CLASSES, LENGTHS = 32, 64, 10, (5, 50, 500)


def measure(cell: Cell) -> list[Row]:
    """Build the network for T words; count its parameters without word embeddings, and read T + 1 words."""
    length, network = cell["length"], cell["network"]
    output = nn.Linear(HIDDEN, CLASSES)
    if network == "mlp":
        model: nn.Module = MLP(MLPConfig(vocab_size=8, window=length, d_embedding=D, d_hidden=HIDDEN))
        body = sum(one.numel() for name, one in model.named_parameters() if not name.startswith("embedding"))
        inputs = torch.ones(1, length + 1, dtype=torch.long)
    else:
        model = Recurrent(D, HIDDEN, cell=network)
        body = sum(one.numel() for one in model.parameters())
        inputs = torch.ones(1, length + 1, D)
    try:
        model(inputs, torch.ones(1, length + 1, dtype=torch.bool))
    except ShapeError:
        refused = True
    else:
        refused = False
    return [{"parameters": body + sum(one.numel() for one in output.parameters()), "refused": refused}]


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`."""
    counts = {name: [*map(int, _counts(results, name))] for name in ("mlp", "rnn", "gru", "lstm")}
    same = all(len(set(counts[name])) == 1 for name in ("rnn", "gru", "lstm"))
    first = counts["mlp"][0]
    grows = all(
        count - first == (length - LENGTHS[0]) * D * HIDDEN
        for length, count in zip(LENGTHS, counts["mlp"], strict=True)
    )
    refused = all(row["refused"] == (row["network"] == "mlp") for row in results.rows)
    effect = over_seeds([(counts["mlp"][-1] - first) / (LENGTHS[-1] - LENGTHS[0])])
    kind: Kind = "holds" if same and grows and refused else "does not hold here"
    return Verdict(kind, effect, "parameters that the feed-forward network adds for each further word")


def _counts(results: Results, network: str) -> list[float]:
    return [results.mean("parameters", network=network, length=length).value for length in LENGTHS]


EXPERIMENT = Experiment(
    grid=cells(network=("mlp", "rnn", "gru", "lstm"), length=LENGTHS),
    measure=measure,
    decide=decide,
    plots=(Plot("parameters", "parameters, without word embeddings", "length", "network"),),
    seeded=False,
)
