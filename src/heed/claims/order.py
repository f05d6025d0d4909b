"""Shuffle the words of random texts; how far does each untrained encoder's vector of the text move?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heed.claims.experiment import Cell, Experiment, Plot, Results, Row, Verdict, cells
from heed.evaluation.significance import Interval
from heed.models.bag import Bag, BagConfig
from heed.models.encoder import Encoder, EncoderConfig
from heed.models.mlp import MLP, MLPConfig
from heed.models.rnn import RNN, RNNConfig

_LENGTH, _TEXTS, _VOCABULARY = 12, 200, 50
INDEPENDENT = ("mean of words", "attention, no positions")
_BLOCKS: dict[str, Any] = {"d_model": 32, "num_heads": 4, "num_layers": 2, "d_ff": 64, "dropout": 0.0}


def _encoder(name: str) -> nn.Module:
    common: dict[str, Any] = {"vocab_size": _VOCABULARY, "dropout": 0.0}
    if name == "mean of words":
        return Bag(BagConfig(**common, d_embedding=32, d_hidden=32, num_layers=2))
    if name == "MLP on concatenated words":
        return MLP(MLPConfig(**common, window=_LENGTH, d_embedding=32, d_hidden=32))
    if name == "GRU":
        return RNN(RNNConfig(**common, d_embedding=32, d_hidden=32, cell="gru", bidirectional=False))
    positions = "none" if name == "attention, no positions" else "sinusoidal"
    return Encoder(EncoderConfig(vocab_size=_VOCABULARY, positions=positions, **_BLOCKS))


def measure(cell: Cell) -> list[Row]:
    """The largest change of a text's vector when its words are shuffled, relative to the vector's norm."""
    torch.manual_seed(cell.seed)
    model = _encoder(cell["encoder"]).double().eval()
    texts = torch.randint(4, _VOCABULARY, (_TEXTS, _LENGTH))
    shuffled = torch.stack([text[torch.randperm(_LENGTH)] for text in texts])
    with torch.no_grad():
        plain, moved = (_vector(model, cell["encoder"], one) for one in (texts, shuffled))
    return [
        {"texts": f"{_TEXTS} random texts", "change": float(((moved - plain).norm(dim=-1) / plain.norm(dim=-1)).max())}
    ]


def _vector(model: nn.Module, name: str, texts: Tensor) -> Tensor:
    """One vector for each text: of a recurrent network the last state, of attention the mean over words."""
    hidden: Tensor = model(texts, torch.ones_like(texts, dtype=torch.bool))
    return hidden if hidden.ndim == 2 else hidden[:, -1] if name == "GRU" else hidden.mean(1)


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`."""
    change: dict[str, Interval] = {name: results.mean("change", encoder=name) for name in results.of("encoder")}
    mlp, what = change["MLP on concatenated words"], "change of a text's vector by shuffling, MLP on concatenated words"
    if max(change[name].high for name in INDEPENDENT) < 1e-5:
        if mlp.high < 1e-5:
            return Verdict("holds", mlp, what)
        if min(one.low for name, one in change.items() if name not in INDEPENDENT) > 1e-3:
            return Verdict("holds only", mlp, what, "for independent words")
    return Verdict("does not hold here", mlp, what)


EXPERIMENT = Experiment(
    grid=cells(encoder=(*INDEPENDENT, "attention, positions", "MLP on concatenated words", "GRU")),
    measure=measure,
    decide=decide,
    plots=(Plot("change", "largest relative change of the text's vector", "encoder", "texts"),),
)
