"""Every word of a text asks for its first word: stacks of Transformer blocks with and without residual connections.

The task needs the context, not the word itself; a linear probe asks the last states for the word. Blocks normalise
before their sublayers, have width 32 and two heads, and are trained alike; without residual connections a sublayer's
output is all that goes on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from harness import Cell, Claim, Pair, Part, Plot, Results, Row, Verdict, cells, control, headroom, judge, main, solved
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from heed.layers.transformer import Residual
from heed.models.encoder import Encoder, EncoderConfig

LAYERS, UPDATES = (2, 6, 12), 250
FEWER = 90  # with seed 100, two layers without connections are then at 0.6 to 0.85
_WORDS, _LENGTH, _D, _RATE = 20, 10, 32, 0.003
_MASK = torch.ones(1, _LENGTH, dtype=torch.bool)


class _Without(Residual):
    """A sublayer with normalisation and without the connection around it."""

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.dropout(sublayer(self.norm(x)))


def _encoder(layers: int, residual: bool) -> Encoder:
    config = EncoderConfig(
        vocab_size=_WORDS, d_model=_D, num_heads=2, num_layers=layers, d_ff=2 * _D, norm="pre", dropout=0.0
    )
    encoder = Encoder(config)
    for block in () if residual else encoder.blocks:
        block.around_attention, block.around_feed_forward = (_Without(_D, 0.0, "pre") for _ in range(2))
    return encoder


def _looked_at(encoder: Encoder, output: nn.Linear, texts: Tensor) -> Row:
    """Accuracy of the task and of a probe for the word fitted to the first half of the texts."""
    with torch.no_grad():
        states = encoder(texts, _MASK.expand(len(texts), -1))
    half = len(texts) // 2
    rows = torch.cat([states, torch.ones_like(states[..., :1])], dim=-1)
    fitted, asked = rows[:half].flatten(0, 1).double(), rows[half:].double()
    ridge = fitted.T @ fitted + 1e-3 * torch.eye(_D + 1, dtype=torch.double)
    probe = torch.linalg.solve(ridge, fitted.T @ one_hot(texts[:half].flatten(), _WORDS).double())
    return {
        "task": float((output(states).argmax(-1) == texts[:, :1]).float().mean()),
        "probe": float(((asked @ probe).argmax(-1) == texts[half:]).float().mean()),
    }


def measure(cell: Cell) -> list[Row]:
    """Train one stack; what its last states keep, and the same for its untrained twin."""
    torch.manual_seed(cell.seed)
    torch.set_num_threads(1)
    encoder, output = _encoder(cell["layers"], cell["connections"] == "residual"), nn.Linear(_D, _WORDS)

    def texts(count: int) -> Tensor:
        return torch.randint(_WORDS, (count, _LENGTH))

    def loss(_: int) -> Tensor:
        drawn = texts(32)
        logits = output(encoder(drawn, _MASK.expand(32, -1)))
        return cross_entropy(logits.flatten(0, 1), drawn[:, :1].expand(-1, _LENGTH).flatten())

    asked = texts(400)
    before = _looked_at(encoder.eval(), output, asked)
    cell.fit(nn.ModuleList([encoder, output]), loss, cell["updates"], _RATE)
    return [{"network": "untrained", **before}, {"network": "trained", **_looked_at(encoder, output, asked)}]


_WITH: Row = {"connections": "residual"}


def _gain(number: str, layers: int, updates: int) -> Pair:
    return Pair(number, _WITH, {"connections": "none"}, {"network": "trained", "layers": layers, "updates": updates})


_PROBE, _TASK = {layers: _gain("probe", layers, UPDATES) for layers in LAYERS}, _gain("task", LAYERS[0], FEWER)


def decide(results: Results) -> Verdict:
    """The rule, of the trained networks: of the probe, and apart from it of the task in a shallow network."""
    gained = [
        Part(f"word by a probe at {layers} layers, with minus without", pair.difference(results), "above", 0.2)
        for layers, pair in _PROBE.items()
    ]
    verdict = judge(("", gained), ("when the network is deep", [gained[-1], gained[0]._replace(side="below")]))
    task = Part("", _TASK.difference(results), "above", 0.1).settled
    words = {True: "at 2 layers too", False: "only in deeper networks", None: "undecided at 2 layers"}
    return verdict._replace(when=f"{verdict.when} (for the task {words[task]})".strip())


def _plot(y: str, title: str, network: str = "trained") -> Plot:
    return Plot(y, title, "layers", "connections", (1 / _WORDS, "chance"), {"network": network, "updates": UPDATES})


CLAIM = Claim(
    name="residual",
    sentence="Residual connections remind the network of the original.",
    varied=(
        "layers 2, 6 and 12 of an encoder 32 wide, with and without residual connections; every word asks for the "
        "first word. Shortened: texts of 10 words, 250 updates; for the task at 2 layers also fewer, off the ceiling"
    ),
    measured="accuracy of a probe of the last states for the word, and of the task",
    rule=(
        "Holds if with connections minus without a probe is above 0.2 at 2, 6 and 12 layers. Holds only when the "
        "network is deep if so at 12 and below 0.2 at 2. Otherwise does not hold here. Apart from that: whether they "
        "gain above 0.1 in the task at 2 layers too, after so few updates that it is not yet learned without them."
    ),
    literature="He et al. 2016 (arXiv:1512.03385)",
    finding=(
        "After training a probe finds the word in 0.88 to 0.98 of the states with connections, and without them in "
        "0.13 at 2 layers and by chance at 12. Without them the task is learned by 2 layers and not by 12; at 2 "
        "layers, after 90 updates, with minus without is 0.081 [-0.002, 0.163]. Even untrained, a deep network "
        "without them has lost the word that it read."
    ),
    grid=(
        *cells(connections=("residual", "none"), layers=LAYERS, updates=(UPDATES,)),
        *cells(connections=("residual", "none"), layers=LAYERS[:1], updates=(FEWER,)),
    ),
    measure=measure,
    checks=(
        control("untrained, word by a probe", "probe", {"network": "untrained", **_WITH}, low=0.9),
        solved("word by a probe at 12 layers", _PROBE[LAYERS[-1]], 0.8),
        headroom("task at 2 layers", _TASK, 1 / _WORDS),
    ),
    seeds=15,
    decide=decide,
    plots=(
        _plot("probe", "the word, by a probe"),
        _plot("task", "the first word"),
        _plot("probe", "untrained: the word, by a probe", "untrained"),
    ),
)

if __name__ == "__main__":
    main(CLAIM)
