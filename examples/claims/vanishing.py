"""How much of a symbol reaches the answer after 1 to 100 words, in gradients, before and after training?

A text is a symbol, noise and a question mark; its label is the symbol. The state of the question mark is classified.
The gradient is that of the right label's score, minus the mean score, by the symbol's embedding, over texts of one lag.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import torch
from harness import (
    Cell,
    Claim,
    Pair,
    Part,
    Plot,
    Results,
    Row,
    Verdict,
    cells,
    control,
    headroom,
    judge_each,
    main,
    power,
    solved,
    untrained,
)
from torch import Tensor

from heed.layers import TokenEmbedding
from recall import delayed_recall

LAGS = (1, 2, 5, 10, 20, 50, 100)
MIXED = (1, 2) * 8 + (5, 10) * 4 + (20,) * 2 + (50, 100)  # a batch has fewer long texts, so they fill more batches
SETTINGS = (
    "model.pooling=last model.dropout=0.0 tokenizer.kind=word tokenizer.min_count=1 training.label_smoothing=0.0 "
    "training.batch_tokens=600 training.learning_rate=0.005 training.warmup=20 training.validate_every=10000 "
    "evaluation.bootstrap=5"
)
_STEPS, _TRAIN, _ASKED, _GRADIENTS = 600, 6000, 200, 32
_RECURRENT = "model.name=rnn model.bidirectional=false model.d_embedding=32 model.d_hidden=32 model.cell="
_OF_NETWORK = {
    "rnn": f"{_RECURRENT}rnn",
    "gru": f"{_RECURRENT}gru",
    "lstm": f"{_RECURRENT}lstm",
    "transformer": "model.name=encoder model.d_model=32 model.num_heads=2 model.num_layers=2 model.d_ff=64",
}


def train_recall(cell: Cell, steps: int, network: str, lags: tuple[int, ...]) -> Any:
    """A run trained on delayed recall, on texts of lags drawn uniformly from `lags`."""
    made = list(islice(delayed_recall(lags, cell.seed), _TRAIN + 100))
    data = {"train": made[100:], "valid": made[:50], "test": made[50:100]}
    return cell.train("classification", steps, f"{SETTINGS} {network}", **data)


def recalled(run: Any, lag: int, seed: int) -> float:
    """Share of new texts of one lag whose symbol is recalled."""
    asked = list(islice(delayed_recall((lag,), f"{seed}:asked"), _ASKED))
    found = run.probabilities([text for text, _ in asked]).argmax(-1).tolist()
    right: int = sum(run.head.labels[one] == symbol for one, (_, symbol) in zip(found, asked, strict=True))
    return right / _ASKED


def gradients(run: Any, lags: tuple[int, ...], seed: int) -> list[float]:
    """Logarithm to base 10 of the mean norm of the gradient by the symbol, relative to the first lag's."""
    norms = []
    for lag in lags:
        asked = list(islice(delayed_recall((lag,), f"{seed}:gradients"), _GRADIENTS))
        embedded: list[Tensor] = []
        layer = next(one for one in run.model.modules() if isinstance(one, TokenEmbedding))
        hook = layer.register_forward_hook(lambda *given, to=embedded: to.append(given[2]))
        batch = run.task.batch_of([text for text, _ in asked])
        with torch.enable_grad():
            scores = run.head.states(run.model, batch)
        hook.remove()
        right = scores[range(_GRADIENTS), [run.head.labels.index(symbol) for _, symbol in asked]] - scores.mean(1)
        (grad,) = torch.autograd.grad(right.sum(), embedded)  # (texts, lag + 1, width)
        norms.append(float(grad[:, 0].double().norm(dim=-1).mean()))
    return [math.log10(max(norm, 1e-45) / norms[0]) for norm in norms]  # 1e-45: the least positive float32


def measure(cell: Cell) -> list[Row]:
    """Train one network; gradient by lag of the network and of its untrained twin, and what is recalled."""
    run = train_recall(cell, _STEPS, _OF_NETWORK[cell["network"]], MIXED)
    rows: list[Row] = []
    for when, one in (("before", untrained(run, cell.seed)), ("after", run)):
        found = gradients(one, LAGS, cell.seed)
        rows += [{"training": when, "lag": lag, "gradient": value} for lag, value in zip(LAGS, found, strict=True)]
    return rows + [{"lag": lag, "recalled": recalled(run, lag, cell.seed)} for lag in LAGS]


_AFTER: Row = {"training": "after", "lag": LAGS[-1]}
_GATED = {name: Pair("gradient", {"network": "rnn"}, {"network": name}, _AFTER) for name in ("gru", "lstm")}
_RECALLED = Pair("recalled", {"network": "rnn"}, {"network": "gru"}, {"lag": LAGS[-1]})


def decide(results: Results) -> Verdict:
    """The rule, for each gated cell."""
    what = f"decimal logarithm of the gradient at lag {LAGS[-1]} after training, simple cell minus {{}}"
    parts = {
        f"the {name.upper()}": Part(what.format(name.upper()), pair.difference(results), "below", -1)
        for name, pair in _GATED.items()
    }
    return judge_each(parts)


CLAIM = Claim(
    name="vanishing",
    sentence="A simple recurrent network starts to forget, because its gradients vanish.",
    varied=(
        "network (rnn, gru, lstm, transformer; width 32), lag 1 to 100, before and after 600 updates on delayed recall"
    ),
    measured="logarithm to base 10 of the gradient's norm at a lag relative to that at lag 1",
    rule=(
        "Holds against a gated cell if after training the gradient at lag 100 of the simple cell, relative to that at "
        "lag 1, is smaller by more than a factor of 10 (a logarithm below -1). Holds if so against GRU and LSTM, does "
        "not hold here if against neither."
    ),
    literature="Bengio et al. 1994; Pascanu et al. 2013 (arXiv:1211.5063)",
    finding=(
        "After training the difference to the GRU is -7.0 [-13.6, -0.4] decades: of 15 simple networks 8 keep more "
        "than a hundredth of the gradient, and others less than 1e-15. That they forget is certain: they recall 0.67 "
        "at lag 100, GRUs all. But an LSTM recalls 0.96 with a gradient as small, of 1e-6, and before training the "
        "gradients of all three cells are 19 to 23 decades smaller."
    ),
    grid=cells(network=tuple(_OF_NETWORK)),
    measure=measure,
    checks=(
        control("symbols recalled by the simple cell at lag 1", "recalled", {"network": "rnn", "lag": 1}, low=0.9),
        headroom("symbols recalled", _RECALLED, 1 / 8),
        solved("symbols recalled", _RECALLED, 0.9),
        power(_GATED["gru"], -5, -1, "Pascanu et al.: a largest singular value of 0.9"),
    ),
    seeds=15,
    decide=decide,
    plots=(
        Plot("gradient", "log10 gradient, before training", "lag", "network", None, {"training": "before"}),
        Plot("gradient", "log10 gradient, after training", "lag", "network", None, {"training": "after"}),
        Plot("recalled", "share of symbols recalled", "lag", "network", (1 / 8, "chance")),
    ),
)

if __name__ == "__main__":
    main(CLAIM)
