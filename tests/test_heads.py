"""Scores without each head, and what heads look at."""

import json

import pytest
import torch

import heed
from commands import call
from heed.runs.heads import score_heads
from small_runs import SMALL, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


def test_the_change_is_that_of_the_scores_with_and_without_the_head(data, tmp_path):
    run = SMALL["classification"].untrained(data, tmp_path, "encoder", {})
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.mul_(3.0)
    found = score_heads(run, "valid", say=lambda line: None)
    examples = run.examples("valid")
    whole = run.outcomes(examples).measures[0].score()
    assert found.score == whole and found.examples == len(examples)
    places = [(one.mechanism, one.layer, one.head) for one in found.heads]
    assert len(places) == len(set(places)) and {"encoder", "pooling"} == {mechanism for mechanism, *_ in places}
    for one in found.heads:
        with heed.edit(run, heed.ZeroHead(one.mechanism, one.layer, one.head)):
            without = run.outcomes(examples).measures[0].score()
        assert one.change.value == pytest.approx(without - whole)
        assert one.change.low <= one.change.high


def test_pictures_are_looked_at_in_the_runs_own_files(data, tmp_path):
    run = SMALL["images"].untrained(data, tmp_path, "vit", {})
    found = score_heads(run, "valid", 3, say=lambda line: None)
    assert {one.mechanism for one in found.heads} == {"encoder"} and found.examples == 3


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
