"""Is Teddy a person? Only the next word tells; networks that read from either side, or from both, tag the word.

The embedded sentences `teddy` are trained on as they are and mirrored, so that the word before Teddy decides. A network
cannot use what it has not read, however wide it is; what helps is to read the other way, both ways, or one word late.
"""

from __future__ import annotations

from heed.claims.experiment import Cell, Experiment, Plot, Results, Row, Verdict, cells

_STEPS = 150
_SETTINGS = (
    "data.train=600 data.valid=100 data.test=500 evaluation.words=[Teddy] model.d_embedding=16 model.dropout=0.0 "
    "training.batch_tokens=300 training.learning_rate=0.02 training.warmup=5"
)
_OF_NETWORK = {
    "forward": "model.d_hidden=16 model.bidirectional=false",
    "forward, 256 wide": "model.d_hidden=256 model.bidirectional=false",
    "backward": "model.d_hidden=16 model.bidirectional=false model.backward=true",
    "one word late": "model.d_hidden=16 model.bidirectional=false model.delay=1",
    "both": "model.d_hidden=16 model.bidirectional=true",
}


def measure(cell: Cell) -> list[Row]:
    """Train one network; accuracy of the tag of Teddy in held-out sentences."""
    settings = f"{_SETTINGS} {_OF_NETWORK[cell['network']]} data.mirrored={str(cell['decided_by'] == 'before').lower()}"
    run = cell.train("tagging", _STEPS, settings, data="teddy", model="rnn")
    return [{"accuracy": run.report["scores"]["test"]["per_word"]["Teddy"]["accuracy"]["value"]}]


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`; the mirrored sentences are a control, drawn and not judged."""
    mean = {name: results.mean("accuracy", network=name, decided_by="after") for name in _OF_NETWORK}
    effect = results.difference("accuracy", {"network": "both"}, {"network": "forward"}, decided_by="after")
    what = "accuracy on the word, both directions minus forward"
    if mean["both"].low > 0.95 and max(mean["forward"].high, mean["forward, 256 wide"].high) < 0.6:
        if max(mean["backward"].low, mean["one word late"].low) > 0.95:
            return Verdict("holds only", effect, what, "when the deciding word is on the unread side")
        return Verdict("holds", effect, what)
    return Verdict("does not hold here", effect, what)


EXPERIMENT = Experiment(
    grid=cells(network=tuple(_OF_NETWORK), decided_by=("after", "before")),
    measure=measure,
    decide=decide,
    plots=(Plot("accuracy", "accuracy of the tag of Teddy", "decided_by", "network", (0.5, "chance")),),
)
