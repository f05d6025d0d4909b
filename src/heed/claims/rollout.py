"""Does attention rollout find the deciding word better than the last layer's attention, in encoders of 1 to 6 layers?

The state of [CLS] is classified, so its row of weights should be on the planted word. Rollout multiplies the layers'
weights, with half of each state kept by the residual connection.
"""

from __future__ import annotations

import numpy as np

from heed.claims.experiment import Cell, Experiment, Plot, Results, Row, Verdict, cells
from heed.claims.explanation import SETTINGS, planted, traced
from heed.lessons.verdict import untrained
from heed.observe.trace import rollout

_STEPS, _DOCUMENTS = 300, 100


def measure(cell: Cell) -> list[Row]:
    """Train one encoder; how often the row of [CLS] has its largest weight on the planted word."""
    settings = f"{SETTINGS} model.name=encoder model.pooling=cls model.num_layers={cell['layers']}"
    run = cell.train("classification", _STEPS, settings, data="planted")
    rows: list[Row] = []
    for network, one in (("trained", run), ("untrained", untrained(run, cell.seed))):
        found: dict[str, list[bool]] = {"rollout": [], "last layer": []}
        for document, _, place in planted(one, _DOCUMENTS):
            seen = traced(one, document.text.text)
            for name, weights in (("rollout", rollout(seen)[0]), ("last layer", seen.weights()[0].mean(0))):
                found[name].append(int(weights[0, 1:].argmax()) == place)  # without the weight of [CLS] on itself
        rows += [{"network": network, "by": name, "precision": float(np.mean(hits))} for name, hits in found.items()]
    return [*rows, {"accuracy": run.report["scores"]["test"]["accuracy"]["value"]}]


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`; with one layer both rank alike, and the untrained twins are drawn, not judged."""
    layers = [one for one in results.of("layers") if one > 1]
    effect = {
        one: results.difference("precision", {"by": "rollout"}, {"by": "last layer"}, layers=one, network="trained")
        for one in layers
    }
    deepest = effect[layers[-1]]
    what = f"planted words found first in {layers[-1]} layers, rollout minus the last layer"
    if all(one.low > 0 for one in effect.values()):
        return Verdict("holds", deepest, what)
    if deepest.low > 0 and not effect[2].low > 0:
        return Verdict("holds only", deepest, what, "when the network is deep")
    return Verdict("does not hold here", deepest, what)


EXPERIMENT = Experiment(
    grid=cells(layers=(1, 2, 4, 6)),
    measure=measure,
    decide=decide,
    plots=(
        Plot("precision", "planted word is first, trained", "layers", "by", None, {"network": "trained"}),
        Plot("precision", "planted word is first, untrained", "layers", "by", None, {"network": "untrained"}),
    ),
)
