"""A sentence begins well and ends badly: which recurrent networks still know its beginning after the filler?

Texts are two words of praise or blame with 0 to 100 words between them that say nothing; the label is both words. The
networks read from left to right, one layer of width 32. Their answer is read from the last state, or from all states by
attention with a learned query.
"""

from __future__ import annotations

from itertools import islice
from random import Random

from heed.claims.experiment import Cell, Experiment, Plot, Results, Row, Verdict, cells
from heed.data.embedded.recall import two_clauses

FILLERS, ASKED = (0, 10, 30, 100), 200
_STEPS, _TRAIN = 800, 2000
_SETTINGS = (
    "model.name=rnn model.bidirectional=false model.d_embedding=32 model.d_hidden=32 model.dropout=0.0 "
    "tokenizer.kind=word tokenizer.min_count=1 training.batch_tokens=1000 training.learning_rate=0.01 "
    "training.warmup=20 training.label_smoothing=0.0 training.validate_every=10000 evaluation.bootstrap=5"
)
_JUDGED: Row = {"network": "simple recurrent", "texts": "mixed"}
_ALONE, _SHUFFLED = f"{FILLERS[-1]} words only", "shuffled labels"


def measure(cell: Cell) -> list[Row]:
    """Train one network; the share of new texts of which it knows both clauses, and of which it knows the second."""
    made = list(islice(two_clauses(FILLERS[-1:] if cell["texts"] == _ALONE else FILLERS, cell.seed), _TRAIN + 50))
    if cell["texts"] == _SHUFFLED:
        labels = [label for _, label in made]
        Random(cell.seed).shuffle(labels)
        made = [(text, label) for (text, _), label in zip(made, labels, strict=True)]
    recurrent = "rnn" if cell["network"] == "simple recurrent" else "gru"
    settings = f"{_SETTINGS} model.cell={recurrent} model.pooling={cell['pooling'].split()[0]}"
    run = cell.train("classification", _STEPS, settings, train=made[50:], valid=made[:50])
    rows = []
    for filler in FILLERS:
        asked = list(islice(two_clauses((filler,), f"{cell.seed}:asked"), ASKED))
        found = run.probabilities([text for text, _ in asked]).argmax(-1).tolist()
        pairs = [(run.task.labels[one], label) for one, (_, label) in zip(found, asked, strict=True)]
        both = sum(given == label for given, label in pairs)
        second = sum(given.split("-")[1] == label.split("-")[1] for given, label in pairs)
        rows.append({"filler": filler, "both": both / ASKED, "second": second / ASKED})
    return rows


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`, of simple recurrent networks trained on all fillers; the others are drawn."""
    ways: tuple[Row, Row] = {"pooling": "attention"}, {"pooling": "last state"}
    without, longest = (results.difference("both", *ways, **_JUDGED, filler=one) for one in (FILLERS[0], FILLERS[-1]))
    what = "accuracy after {} words of filler, attention minus last state"
    if longest.low > 0.1:
        if without.low > 0.1:
            return Verdict("holds only", without, what.format(FILLERS[0]), "for another reason than the filler")
        if without.high < 0.1:
            return Verdict("holds", longest, what.format(FILLERS[-1]))
    return Verdict("does not hold here", longest, what.format(FILLERS[-1]))


def _plot(title: str, where: Row, y: str = "both", chance: float = 0.25) -> Plot:
    return Plot(y, title, "filler", "pooling", (chance, "chance"), where)


EXPERIMENT = Experiment(
    grid=(
        *cells(network=("simple recurrent", "GRU"), pooling=("last state", "attention"), texts=("mixed",)),
        *cells(network=("simple recurrent",), pooling=("last state", "attention"), texts=(_ALONE, _SHUFFLED)),
    ),
    measure=measure,
    decide=decide,
    plots=(
        _plot("simple recurrent, both clauses right", _JUDGED),
        _plot("GRU, both clauses right", {"network": "GRU"}),
        _plot(f"trained on {_ALONE}: both right", {"texts": _ALONE}),
        _plot(f"trained on {_ALONE}: second right", {"texts": _ALONE}, "second", 0.5),
        _plot("simple recurrent, shuffled labels", {"texts": _SHUFFLED}),
    ),
)
