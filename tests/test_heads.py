"""Scores without each head, and what heads look at."""

import json

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed.data.examples import evenly
from heed.evaluation.measures import share
from heed.runs.heads import corrected, score_heads
from heed.tasks.heads.alignment import aligned_heads


@pytest.mark.parametrize(
    ("name", "model", "factor", "mechanisms"),
    [
        ("translation", "luong", 1.0, {"cross"}),
        ("classification", "encoder", 3.0, {"encoder", "pooling"}),  # so that the score changes
        ("images", "vit", 1.0, {"encoder"}),
        ("dialogue", "hred", 1.0, {"turns", "words"}),  # a conversation has several responses
    ],
)
def test_changes_are_those_of_score_and_loss_with_and_without_the_head(name, model, factor, mechanisms, untrained):
    run = untrained(name, model)
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.mul_(factor)
    found = score_heads(run, "valid", 4, say=lambda line: None)
    examples = evenly(run.examples("valid"), 4)
    whole, loss = run.score_and_loss(examples)
    assert len(whole.statistics) == len(loss.statistics) == 4
    assert (found.measure.score(), found.examples) == (whole.score(), 4)
    places = [(one.mechanism, one.layer, one.head) for one in found.heads]
    assert len(places) == len(set(places)) and {mechanism for mechanism, *_ in places} == mechanisms
    for one in found.heads:
        with heed.edit(run, heed.ZeroHead(one.mechanism, one.layer, one.head)):
            without, its_loss = run.score_and_loss(examples)
        assert one.change.value == pytest.approx(without.score() - whole.score())
        assert not one.change.low > one.change.high  # NaN if no resample changes
        assert one.loss.value == pytest.approx(its_loss.score() - loss.score(), abs=1e-5)


@pytest.mark.parametrize("name", ["translation", "language_modelling", "tagging", "pretraining", "dialogue"])
def test_runs_of_every_kind_have_heads(name, small_run, capsys):
    run = small_run(name)
    if name == "tagging":  # its small run is recurrent
        code, _, err = call(capsys, "heads", run)
        assert code == 2 and "this model has no attention, so it has no heads" in err
        return
    code, out, err = call(capsys, "heads", run, "--json", "--examples", 3)
    assert code == 0, err
    report = json.loads(out)
    assert report["heads"] and all(
        {"mechanism", "layer", "head", "change", "looks_at", "matters"} <= {*one}
        and one["matters"] == (one["p"] <= 0.05)
        for one in report["heads"]
    )
    code, out, _ = call(capsys, "heads", run, "--examples", 3)
    assert code == 0 and "the change without each head" in out and "layer 0 head  0" in out
    assert f"* p <= 0.05 after Holm's correction for {len(report['heads'])} heads" in out
    code, _, err = call(capsys, "heads", run, "--split", "tset")
    assert code == 2 and "this run has no set 'tset'" in err


def table_of(draw, null, examples=500, *, worse=0, changed=100):
    """The whole run, and it without each head: `null` that change some examples at random, and one that matters."""
    right = draw.random(examples) < 0.8
    cuts = np.tile(right, (null, 1))
    for cut in cuts:
        cut[draw.choice(examples, changed, replace=False)] = draw.choice(right, changed)
    mattering = right & (np.cumsum(right) > worse)  # the first right outputs are lost
    return [share("accuracy", "accuracy", one.astype(float)) for one in (right, mattering, *cuts)]


def stars(tables, null):
    """The share of tables with a star beside a head that does nothing."""
    draw, some = np.random.default_rng(4), 0
    for _ in range(tables):
        whole, _, *cuts = table_of(draw, null, 200)
        some += bool((corrected(whole, cuts) <= 0.05).any())
    return some / tables


def test_of_144_heads_that_do_nothing_none_has_a_star_and_the_one_that_matters_has():
    whole, *cuts = table_of(np.random.default_rng(5), 143, worse=30)
    p = corrected(whole, cuts)
    assert p[0] <= 0.05 and p[1:].min() > 0.05
    assert stars(20, 30) <= 0.1


@pytest.mark.slow  # 5 s
def test_stars_by_chance_are_in_at_most_5_per_cent_of_tables_of_144_heads():
    assert stars(200, 144) <= 0.05


def test_a_head_that_follows_the_known_alignment_is_named(tmp_path):
    settings = {"data.name": "copy", "data.length": [4, 6], "data.train": 40, "data.valid": 4, "data.test": 4}
    settings |= {"model.name": "luong", "model.size": "tiny", "training.threads": 1, "evaluation.bootstrap": 5}
    run = heed.train("translation", steps=1, out=tmp_path / "run", settings=settings, quiet=True)
    pair = run.examples("valid")[0]
    assert pair.links
    count = len(run.input.source_tokenizer.encode(pair.source).ids)
    places = torch.eye(count).tolist()  # each position looks at its own place in the source
    with heed.edit(run, [heed.Force("cross", position=i, weights=place) for i, place in enumerate(places)]):
        assert aligned_heads(run, [pair]) == {0: [1.0]}
    with heed.edit(run, [heed.Force("cross", position=i, weights=place) for i, place in enumerate(places[::-1])]):
        assert aligned_heads(run, [pair])[0][0] < 0.5
