"""Scores without each head, and what heads look at."""

import json

import pytest
import torch

import heed
from commands import call
from heed.data.examples import evenly
from heed.runs.heads import score_heads
from small_runs import SMALL


@pytest.mark.parametrize(
    ("name", "model", "factor", "mechanisms"),
    [
        ("translation", "luong", 1.0, {"cross"}),
        ("classification", "encoder", 3.0, {"encoder", "pooling"}),  # so that the score changes
        ("images", "vit", 1.0, {"encoder"}),
    ],
)
def test_changes_are_those_of_score_and_loss_with_and_without_the_head(name, model, factor, mechanisms, data, tmp_path):
    run = SMALL[name].untrained(data, tmp_path, model, {})
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.mul_(factor)
    found = score_heads(run, "valid", 4, say=lambda line: None)
    examples = evenly(run.examples("valid"), 4)
    whole, loss = run.score_and_loss(examples)
    assert (found.score, found.examples) == (whole.score(), 4)
    places = [(one.mechanism, one.layer, one.head) for one in found.heads]
    assert len(places) == len(set(places)) and {mechanism for mechanism, *_ in places} == mechanisms
    for one in found.heads:
        with heed.edit(run, heed.ZeroHead(one.mechanism, one.layer, one.head)):
            without, its_loss = run.score_and_loss(examples)
        assert one.change.value == pytest.approx(without.score() - whole.score())
        assert one.change.low <= one.change.high
        assert one.loss.value == pytest.approx(its_loss.score() - loss.score(), abs=1e-5)


@pytest.mark.parametrize("name", ["translation", "language_modelling", "tagging", "pretraining", "dialogue"])
def test_runs_of_every_kind_have_heads(name, data, tmp_path, capsys):
    SMALL[name].trained(data, tmp_path / "run")
    if name == "tagging":  # its small run is recurrent
        code, _, err = call(capsys, "heads", tmp_path / "run")
        assert code == 2 and "this model has no attention, so it has no heads" in err
        return
    code, out, err = call(capsys, "heads", tmp_path / "run", "--json", "--examples", 3)
    assert code == 0, err
    report = json.loads(out)
    assert report["heads"] and all(
        {"mechanism", "layer", "head", "change", "looks_at"} <= {*one} for one in report["heads"]
    )
    code, out, _ = call(capsys, "heads", tmp_path / "run", "--examples", 3)
    assert code == 0 and "the change without each head" in out and "layer 0 head  0" in out
    code, _, err = call(capsys, "heads", tmp_path / "run", "--split", "tset")
    assert code == 2 and "this run has no set 'tset'" in err


def test_a_head_that_follows_the_known_alignment_is_named(tmp_path):
    settings = {"data.name": "copy", "data.length": [4, 6], "data.train": 40, "data.valid": 4, "data.test": 4}
    settings |= {"model.name": "luong", "model.size": "tiny", "training.threads": 1, "evaluation.bootstrap": 5}
    run = heed.train("translation", steps=1, out=tmp_path / "run", settings=settings, quiet=True)
    pair = run.examples("valid")[0]
    assert pair.links
    count = len(run.task.source_tokenizer.encode(pair.source).ids)
    places = torch.eye(count).tolist()  # each position looks at its own place in the source
    with heed.edit(run, [heed.Force("cross", position=i, weights=place) for i, place in enumerate(places)]):
        assert run.aligned_heads([pair]) == {0: [1.0]}
    with heed.edit(run, [heed.Force("cross", position=i, weights=place) for i, place in enumerate(places[::-1])]):
        assert run.aligned_heads([pair])[0][0] < 0.5
