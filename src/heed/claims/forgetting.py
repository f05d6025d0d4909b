"""Random digit strings are copied by an encoder-decoder without attention and one with it, length by length.

Natural text hides the effect, because it can be guessed; random digits cannot. Both models have an
encoder of 64 GRU units in each direction, a decoder of 64, and as many updates on the same strings of 2 to 20 digits.
"""

from __future__ import annotations

from random import Random

from heed.claims.experiment import Cell, Experiment, Plot, Results, Row, Verdict, cells

TRAINED, TWICE, ASKED = (5, 10, 15, 20), 40, 200
_STEPS = 1500
_SETTINGS = (
    "data.length=[2,20] data.valid=100 data.test=100 model.cell=gru model.num_layers=1 model.bidirectional=true "
    "model.d_embedding=64 model.d_hidden=64 model.dropout=0.0 training.learning_rate=0.005 training.batch_tokens=1200 "
    "training.validate_every=500"
)
_OF_MODEL = {"seq2seq": "", "bahdanau": "model.d_attention=64"}


def measure(cell: Cell) -> list[Row]:
    """Train one model; the share of new strings that it copies exactly, by length."""
    settings = f"{_SETTINGS} {_OF_MODEL[cell['model']]}"
    run = cell.train("translation", _STEPS, settings, data="copy", model=cell["model"])
    rows, draw = [], Random(f"{cell.seed}:asked")
    for length in (*TRAINED, TWICE):
        asked = [f"{draw.randrange(10**length):0{length}d}" for _ in range(ASKED)]
        written = run.predictions(asked, beam_size=1, max_length=length + 5)
        right = sum(one.text == text for one, text in zip(written, asked, strict=True))
        rows.append({"length": length, "exact": right / ASKED})
    return rows


def decide(results: Results) -> Verdict:
    """The rule of `texts.yaml`."""
    effect = results.difference("exact", {"model": "bahdanau"}, {"model": "seq2seq"}, length=TRAINED[-1])
    inside = all(results.mean("exact", model="bahdanau", length=one).low > 0.9 for one in TRAINED)
    beyond = results.mean("exact", model="bahdanau", length=TWICE).low > 0.9
    what = f"exact copies of {TRAINED[-1]} digits, with attention minus without"
    if effect.low > 0.2 and inside:
        return (
            Verdict("holds", effect, what) if beyond else Verdict("holds only", effect, what, "within trained lengths")
        )
    return Verdict("does not hold here", effect, what)


EXPERIMENT = Experiment(
    grid=cells(model=("seq2seq", "bahdanau")),
    measure=measure,
    decide=decide,
    plots=(Plot("exact", "share of strings copied exactly", "length", "model"),),
)
