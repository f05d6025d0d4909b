"""How often the processor waits for a GPU, and the kernels it starts: a change of these numbers must be meant.

Counted on the stand-in, in bf16, of tiny models; an update is the third of a run. Where a change lowers the numbers,
copy those of the failed assertion into the table.
"""

import copy
import sys

import pytest
import torch
from test_pairs import trained

from heed.attention.host import sent
from heed.data.batch import pad_rows
from heed.errors import TrainingError
from heed.generation import SamplingOptions, SearchOptions, generate
from heed.training.loop import Trainer
from small_runs import SMALL, usable

pytestmark = pytest.mark.gpu
stand_in = sys.modules.get("stand_in")

COUNTS = {
    ("language_modelling", "gpt"): {"update": (0, 198), "greedy": (4, 328)},
    ("language_modelling", "rnn"): {"update": (0, 77), "greedy": (2, 58)},
    ("translation", "bahdanau"): {"update": (0, 319), "greedy": (2, 207), "beam": (3, 620)},
    ("translation", "transformer"): {"update": (0, 559), "greedy": (2, 459), "beam": (5, 1792)},
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


SOURCES = [[4, 5, 6, 7], [8, 9, 4], [5, 5], [9, 8, 7, 6, 5, 4], [4]]


@pytest.mark.parametrize("name", ["transformer", "bahdanau"])
@pytest.mark.parametrize(
    ("options", "sampling"),
    [
        ({}, None),
        ({"repetition_penalty": 1.3, "min_length": 3}, None),
        ({"num_best": 3}, SamplingOptions(temperature=1.5, top_p=0.9, seed=3)),
        ({"beam_size": 3, "num_best": 2}, None),
        ({"beam_size": 4, "early_stopping": "full"}, None),
        ({"beam_size": 4, "early_stopping": "heuristic", "length_penalty": 0.0}, None),
        ({"beam_size": 3, "stop": lambda source, tokens: tokens[-1] == 7}, None),
    ],
)
def test_a_search_that_reads_its_steps_together_finds_what_one_finds_that_reads_each(name, options, sampling):
    torch.manual_seed(3)
    body = next(one for model, one in usable("translation") if model == name)
    sizes = {"source_vocab_size": 12, "target_vocab_size": 12, **body.config_class.sizes["tiny"], "dropout": 0.0}
    model = body(body.config_class(**sizes)).eval()
    with torch.no_grad():
        model.output.weight.mul_(6.0)  # outputs of many lengths
    tokens, mask = pad_rows(SOURCES)
    found = {}
    for device in map(torch.device, ("cuda", "cpu")):
        own = copy.deepcopy(model).to(device)
        with torch.no_grad():
            memory = own.encode(sent(tokens, device), sent(mask, device))
        prompt = sent(torch.tensor([[1]] * len(SOURCES)), device)
        given = SearchOptions(2, (20, 13, 20, 17, 1), forbidden=(0, 1), **options)
        ended = generate(own, memory, prompt, given, sampling=sampling)
        found[device.type] = [[(one.tokens, one.finished) for one in group] for group in ended.hypotheses]
        if stand_in is not None and device.type == "cuda":
            with stand_in.counted() as counts:
                generate(own, memory, prompt, given, sampling=sampling)
            longest = max(len(one.tokens) + 1 for group in ended.hypotheses for one in group)
            assert counts["waits"] <= (longest / 8 + 4 if given.stop is None else 2 * longest)
    assert found["cuda"] == found["cpu"]
    assert len({len(one) for group in found["cpu"] for one, _ in group}) > 2


def test_an_update_that_is_not_finite_is_skipped_on_the_gpu_and_named_an_update_later(data, tmp_path, monkeypatch):
    weights, backward, update = [], Trainer._backward, Trainer._update

    def poisoned(self, batches, count):
        sums = backward(self, batches, count)
        if self.progress.step == 2:
            next(self.model.parameters()).grad[0, 0] = torch.nan
        return sums

    def watched(self, draw, start):
        update(self, draw, start)
        weights.append([one.detach().cpu().clone() for one in self.model.parameters()])

    monkeypatch.setattr(Trainer, "_backward", poisoned)
    monkeypatch.setattr(Trainer, "_update", watched)
    body = dict(usable("translation"))["bahdanau"]
    settings = {"training.steps": 4, "training.optimizer": "adamw"}
    with pytest.raises(TrainingError, match="the gradient's norm is nan at update 3 "):
        trained("translation", "bahdanau", body, data, tmp_path / "run", "cuda", **settings)
    assert len(weights) == 3 and all(map(torch.equal, weights[1], weights[2]))
    assert not all(map(torch.equal, weights[0], weights[1]))
