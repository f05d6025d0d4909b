"""Scores of a run whose attention gives all keys the same weight: `run.equal_weights` and `heed evaluate`."""

import json

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed.errors import ConfigError
from heed.evaluation.measures import share
from heed.visible import to_json
from heed.watch.interventions import EqualWeights, UniformEffect
from small_runs import SMALL, WORDS


def widened(run, factor=3.0):
    """A run with larger weights, so that its outputs differ between examples and under edits."""
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.mul_(factor)
    return run


@pytest.mark.parametrize(
    ("name", "model", "mechanisms"),
    [
        ("classification", "encoder", {"encoder", "pooling"}),
        ("classification", "han", {"words", "sentences"}),
        ("tagging", "encoder", {"encoder"}),
        ("translation", "luong", {"cross"}),
        ("summarisation", "transformer", {"encoder", "decoder", "cross"}),
        ("dialogue", "hred", {"turns", "words"}),
        ("language_modelling", "gpt", {"decoder"}),
        ("pretraining", "bert", {"encoder"}),
        ("images", "vit", {"encoder"}),
    ],
)
def test_each_attention_is_scored_as_under_the_edit(name, model, mechanisms, untrained):
    run = widened(untrained(name, model))
    found, examples = run.equal_weights("valid"), run.examples("valid")
    whole = run.outcomes(examples)
    assert (found.measure.score(), found.examples) == (whole.measures[0].score(), len(examples))
    places = [(one.mechanism, one.layer) for one in found.effects]
    assert {mechanism for mechanism, _ in places if mechanism} == mechanisms and len(places) == len({*places})
    assert (places[-1] == (None, None)) == (len(places) > 1)
    for one in found.effects:
        with heed.edit(run, heed.Uniform(one.mechanism, one.layer)):
            edited = run.outcomes(examples)
        assert one.score == edited.measures[0].score()
        assert one.change.value == pytest.approx(one.score - whole.measures[0].score())
        if name in ("language_modelling", "pretraining"):  # their outputs are scores
            assert one.outputs_changed is None and "outputs change" not in str(found)
        else:
            different = [a != b for a, b in zip(whole.outputs, edited.outputs, strict=True)]
            assert one.outputs_changed.value == np.mean(different)


def test_intervals_are_paired_by_example(untrained):
    run = widened(untrained("classification", "rnn"), 4.0)
    run.config = run.config.model_copy(
        update={"evaluation": run.config.evaluation.model_copy(update={"bootstrap": 4_000})}
    )
    draw = np.random.default_rng(1)
    texts = [(" ".join(draw.choice(WORDS, draw.integers(3, 9))), "ab"[n % 2]) for n in range(150)]
    (found,) = run.equal_weights(texts).effects
    label = lambda: np.array([one.label for one in run.predict([text for text, _ in texts])])  # noqa: E731
    before, true = label(), np.array([truth for _, truth in texts])
    with heed.edit(run, heed.Uniform()):
        after = label()
    assert 0.02 < np.mean(before != after) < 0.98
    chosen = draw.integers(150, size=(4_000, 150))
    change = ((after == true).astype(float) - (before == true))[chosen].mean(1)
    changed = (before != after)[chosen].mean(1)
    for ours, drawn in ((found.change, change), (found.outputs_changed, changed)):
        assert (ours.low, ours.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.015)
    assert found.outputs_changed.value == np.mean(before != after)


def test_what_no_example_shows_has_the_exact_interval(untrained):
    run = untrained("classification", "rnn")
    with torch.no_grad():
        run.model.output.weight.zero_()  # the label is that of the bias
    found = run.equal_weights([("one two", "a")] * 50)
    assert str(found).splitlines()[1].endswith("[-7.1, +7.1]; 0.0% [0.0%, 7.1%] of outputs change")


def test_the_lines_are_in_the_unit_of_the_measure():
    half = heed.evaluation.significance.Interval(-0.5, -0.625, -0.25)
    found = EqualWeights(share("accuracy", "accuracy", [1.0, 1.0]), 2, [UniformEffect("cross", 0, 0.5, half, None)])
    assert str(found).splitlines() == [
        "accuracy 100.0% on 2 examples; under equal weights:",
        "  cross layer 0: accuracy 50.0%, -50.0 points [-62.5, -25.0]",
    ]


def test_the_command_prints_lines_and_the_same_as_data(data, small_run, capsys):
    run = small_run("translation")
    known = heed.load(run).equal_weights("valid")
    words = ("evaluate", run, "--equal-weights")
    code, out, err = call(capsys, *words, "--split", "valid")
    assert code == 0, err
    assert f"valid: {known}" in out and out.startswith("valid: 6 pairs")
    report = json.loads(call(capsys, *words, "--split", "valid", "--json")[1])["valid"]
    assert report["equal_weights"] == json.loads(to_json(known.to_json())) and "examples" in report
    file = data / SMALL["translation"].train
    report = json.loads(call(capsys, *words, file, "--json")[1])[str(file)]
    assert report["equal_weights"]["examples"] == len(heed.load(run).read([file]))
    assert report["equal_weights"] == json.loads(to_json(heed.load(run).equal_weights(str(file)).to_json()))
    code, _, err = call(capsys, *words, "--with", run, "--split", "valid")
    assert code == 2 and f"equal weights are not available for an ensemble; use one run at a time: {run}, {run}" in err


@pytest.mark.parametrize(("name", "model"), [("images", "cnn"), ("tagging", "rnn"), ("table", "mlp")])
def test_a_model_without_attention_is_refused(name, model, untrained):
    run = untrained(name, model)
    with pytest.raises(ConfigError, match=r"^this model has no attention, so equal weights do not apply$"):
        run.equal_weights("valid")
    with pytest.raises(ConfigError, match="the data has no split 'tset'"):
        run.equal_weights("tset")
