"""How often the processor waits for a GPU, and the kernels it starts: a change of these numbers must be meant.

Counted on the stand-in, in bf16, of tiny models; an update is the third of a run. Where a change lowers the numbers,
copy those of the failed assertion into the table.
"""

import sys

import pytest
import torch
from test_pairs import trained

from heed.training.loop import Trainer
from small_runs import SMALL, usable

pytestmark = pytest.mark.gpu
stand_in = sys.modules.get("stand_in")

COUNTS = {
    ("language_modelling", "gpt"): {"update": (2, 212), "greedy": (24, 364)},
    ("language_modelling", "rnn"): {"update": (1, 70), "greedy": (20, 80)},
    ("translation", "bahdanau"): {"update": (1, 314), "greedy": (11, 71), "beam": (152, 646)},
    ("translation", "transformer"): {"update": (2, 659), "greedy": (22, 419), "beam": (253, 2011)},
}
"""Waits and kernels of an update, and of writing (8 tokens, or a translation) by greedy search and by a beam of 4."""


@pytest.mark.skipif(stand_in is None, reason="counts are those of the stand-in: make gpu-stand-in")
@pytest.mark.parametrize(("name", "model"), COUNTS)
def test_waits_and_kernels_are_those_of_the_table(name, model, data, tmp_path, monkeypatch):
    updates, update = [], Trainer._update

    def counting(self, draw, start):
        with stand_in.counted() as found:
            update(self, draw, start)
        updates.append(found)

    monkeypatch.setattr(Trainer, "_update", counting)
    settings = {"training.steps": 4, "training.precision": "bf16", "training.optimizer": "adamw"}
    run = trained(name, model, dict(usable(name))[model], data, tmp_path / "run", "cuda", **settings)
    made = {"update": updates[2]}
    torch.manual_seed(1)
    with stand_in.counted() as made["greedy"]:
        written(run, name)
    if name == "translation":
        with stand_in.counted() as made["beam"]:
            written(run, name, beam_size=4)
    found = {kind: (one["waits"], one["kernels"]) for kind, one in made.items()}
    assert found == COUNTS[name, model]


def written(run, name, **options):
    if name == "language_modelling":
        run.predict(SMALL[name].predict[0], length=8, beam_size=1)
    else:
        run.predict("one two three four", **{"beam_size": 1, **options})
