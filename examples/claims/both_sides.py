"""Is Teddy a person? Only the next word tells; networks that read from either side, or from both, tag the word.

The embedded sentences `teddy` are trained on as they are and mirrored, so that the word before Teddy decides. A network
cannot use what it has not read, however wide it is; what helps is to read the other way, both ways, or one word late.
"""

from __future__ import annotations

from harness import Cell, Claim, Plot, Results, Row, Verdict, cells, main

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
    """The rule; the mirrored sentences are a control, drawn and not judged."""
    mean = {name: results.mean("accuracy", network=name, decided_by="after") for name in _OF_NETWORK}
    effect = results.difference("accuracy", {"network": "both"}, {"network": "forward"}, decided_by="after")
    what = "accuracy on the word, both directions minus forward"
    if mean["both"].low > 0.95 and max(mean["forward"].high, mean["forward, 256 wide"].high) < 0.6:
        if max(mean["backward"].low, mean["one word late"].low) > 0.95:
            return Verdict("holds only", effect, what, "when the deciding word is on the unread side")
        return Verdict("holds", effect, what)
    return Verdict("does not hold here", effect, what)


CLAIM = Claim(
    name="both-sides",
    sentence='A recurrent network fails at "Teddy bear" and "Teddy Roosevelt"; a bidirectional one works.',
    varied=(
        "direction (forward, backward, both, forward one word late, forward of width 256), sentences mirrored or not"
    ),
    measured="accuracy of the tag of Teddy in held-out sentences",
    rule=(
        "Holds if both directions are above 0.95, forward and wide forward are below 0.6. Holds only when the "
        "deciding word is on the unread side if moreover backward or the late network is above 0.95 on the same "
        "sentences. Otherwise does not hold here."
    ),
    literature="Schuster and Paliwal 1997; Huang et al. 2015 (arXiv:1508.01991)",
    controls="the mirrored sentences; a network that tags one word late",
    finding=(
        "The forward network fails because the deciding word comes later, not because it is weak: width does not help "
        "it, and the mirrored sentences, where the word comes before, are easy for it. One word of delay helps as "
        "much as a second direction."
    ),
    grid=cells(network=tuple(_OF_NETWORK), decided_by=("after", "before")),
    measure=measure,
    decide=decide,
    plots=(Plot("accuracy", "accuracy of the tag of Teddy", "decided_by", "network", (0.5, "chance")),),
)

if __name__ == "__main__":
    main(CLAIM)
