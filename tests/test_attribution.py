"""Attributions: against closed forms, captum, and passes without a word; for every task and model that has them."""

import math
import re

import numpy as np
import pytest
import torch
from torch import nn

from contract import assert_close_in_scale
from heed.errors import ConfigError
from heed.tasks import tasks_with
from heed.tasks.base.attributing import table_of
from heed.tasks.images.look import opened
from heed.watch import attribution
from heed.watch.attribution import LEFT_OUT, Attribution, Scored, attribute, leave_one_out
from small_runs import SMALL
from test_conformance import usable

TEXT = "one two three four"


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """An untrained classifier: a recurrent network with attention pooling."""
    return SMALL["classification"].untrained(data, tmp_path_factory.mktemp("run"), "rnn", {})


class Linear(nn.Module):
    """score = sum over the tokens of w_position . embedding"""

    def __init__(self, length, d=3):
        super().__init__()
        self.embedding = nn.Embedding(7, d)
        self.weight = nn.Parameter(torch.randn(length, d))


def linear_score(model, rows):
    tokens = rows.where(rows != LEFT_OUT, 0)
    parts = (model.embedding(tokens) * model.weight).sum(-1)
    return (parts * (rows != LEFT_OUT)).sum(1)


def test_every_method_has_its_closed_form_on_a_linear_model():
    torch.manual_seed(1)
    model, tokens = Linear(4), torch.tensor([2, 5, 2, 1])
    scored = Scored(model, "embedding.weight", tokens, linear_score, unknown=3)
    table, weight = model.embedding.weight.detach().numpy(), model.weight.detach().numpy()
    own = table[tokens.numpy()]
    for method, expected in {
        "gradxinput": (own * weight).sum(1),
        "ig": ((own - table.mean(0)) * weight).sum(1),
        "grad": np.linalg.norm(weight, axis=1),
    }.items():
        found = attribute(scored, method)
        np.testing.assert_allclose(found.values, expected, rtol=1e-5, atol=1e-6)
        assert found.score == pytest.approx((own * weight).sum(), rel=1e-5)
    for kind, base in {"zero": 0.0, "unknown": table[3]}.items():
        np.testing.assert_allclose(
            attribute(scored, "ig", baseline=kind).values, ((own - base) * weight).sum(1), rtol=1e-4, atol=1e-6
        )
    parts = [range(0, 1), range(1, 4)]
    sums = np.array([(own * weight)[:1].sum(), (own * weight)[1:].sum()])
    np.testing.assert_allclose(leave_one_out(scored, parts).values, sums, rtol=1e-4, atol=1e-6)
    replaced = ((own - table[3]) * weight).sum(1)
    expected = [replaced[:1].sum(), replaced[1:].sum()]
    np.testing.assert_allclose(leave_one_out(scored, parts, "unknown").values, expected, rtol=1e-4, atol=1e-6)


def test_steps_are_doubled_until_the_values_add_up():
    torch.manual_seed(2)
    model, tokens = Linear(3), torch.tensor([1, 2, 3])

    whole = float(linear_score(model, tokens.unsqueeze(0)).detach())

    def score(model, rows):  # rises within a small part of the way from the baseline
        return torch.sigmoid(300.0 * (linear_score(model, rows) / whole - 0.37))

    scored = Scored(model, "embedding.weight", tokens, score)
    found = attribute(scored, "ig", baseline="zero")
    assert found.steps > 25 and found.error <= 0.01 * abs(found.score - found.baseline_score)
    assert found.note.endswith(f"with an error of {found.error:.2g} ({found.steps} steps)")
    rough = attribute(scored, "ig", baseline="zero", steps=3)
    assert rough.steps == 3 and rough.error > 0.1 * abs(rough.score - rough.baseline_score)
    assert rough.note.endswith("far too much for the values to mean anything: use leave-one-out (loo)")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (1.005, None),
        (1.05, ", which is 4.8% of the sum of their absolute values, more than 1 %, so that small values may be wrong"),
        (0.0, ": far too much for the values to mean anything: use leave-one-out (loo)"),
    ],
)
def test_a_sum_that_is_off_is_said_in_terms_of_the_absolute_values(values, said):
    note = Attribution("ig", torch.tensor([values], dtype=torch.float64), 1.0, 0.0, 400).note
    assert note.endswith(said) if said else note.endswith("(400 steps)")


@pytest.mark.parametrize(("height", "is_wrong"), [(0.1, False), (300.0, True)])
def test_where_the_difference_vanishes_only_an_integral_that_is_wrong_is_called_so(height, is_wrong):
    """One word adds 100 and another takes as much, beside a step of some height that 25 steps of the integral miss."""
    torch.manual_seed(3)
    model, tokens = Linear(2), torch.tensor([1, 2])
    whole = (model.embedding(tokens) * model.weight).sum(-1).detach()

    def score(model, rows):
        first, second = ((model.embedding(rows) * model.weight).sum(-1) / whole).T  # 0 at the baseline, 1 at the input
        return 100.0 * first - 100.0 * second + height * torch.sigmoid(1e3 * (first - 0.36))

    scored = Scored(model, "embedding.weight", tokens, score)
    found = attribute(scored, "ig", baseline="zero", steps=25)
    known = np.array([100.0 + height, -100.0])  # along the path the step is in the first word alone
    off, whole_error = np.abs(found.values.numpy() - known).max(), found.error
    assert whole_error > 0.1 * abs(found.score - found.baseline_score)
    if is_wrong:
        assert off > 50 and found.note.endswith("far too much for the values to mean anything: use leave-one-out (loo)")
    else:
        assert off < 1 and found.note.endswith("(25 steps)")
        assert attribute(scored, "ig", baseline="zero").steps == 25


@pytest.mark.parametrize("model", ["rnn", "encoder", "cnn"])
def test_integrated_gradients_equal_those_of_captum(model, data, tmp_path):
    from captum.attr import IntegratedGradients

    run = SMALL["classification"].untrained(data, tmp_path, model, {})
    steps, text = 40, TEXT
    ours = run.attribute(text, method="ig", target="a", steps=steps, baseline="zero").of.values
    inputs = run.task.batch_of([text]).inputs
    module, name = run.model, table_of(run.model).removesuffix(".weight")
    embedding = run.model.get_submodule(name)

    def forward(vectors):
        handle = embedding.register_forward_hook(lambda *_: vectors)
        try:
            tokens, mask = (t.expand(len(vectors), -1) for t in (inputs["tokens"], inputs["mask"]))
            return module(tokens, mask)[:, run.head.labels.index("a")]
        finally:
            handle.remove()

    vectors = embedding(inputs["tokens"]).detach()
    given = IntegratedGradients(forward).attribute(
        vectors, torch.zeros_like(vectors), n_steps=steps, method="riemann_middle"
    )
    np.testing.assert_allclose(ours, given[0].sum(1).detach().numpy(), rtol=1e-4, atol=1e-6)


def every_model():
    for name in tasks_with("attribute"):
        if name == "images":
            continue
        yield from (pytest.param(name, model, id=f"{name}-{model}") for model, _ in usable(name))


@pytest.mark.parametrize(("name", "model"), [*every_model()])
def test_vectors_in_a_virtual_table_are_read_as_tokens_are_and_values_add_up(name, model, data, tmp_path):
    run = SMALL[name].untrained(data, tmp_path, model, {})
    text = TEXT if name != "pretraining" else TEXT.replace("two", "[MASK]")
    explained = run.looks.explain(run.task, run.model, run.readable(text))
    scored = explained.scored
    several = torch.stack([scored.tokens, scored.tokens.roll(1)])
    if scored.fixed is not None:
        several = torch.where(scored.fixed, scored.tokens, several)
    both = scored.of_tokens(several)
    with torch.no_grad():
        table = run.model.get_parameter(scored.table)
        assert_close_in_scale(scored.of_vectors(table[several]), both, rtol=1e-5)
    assert len(explained.words.axis) == len(explained.words.tokens) > 1
    found = run.attribute(text, method="ig", steps=200)
    assert found.of.error == pytest.approx(0.0, abs=0.02 * max(1.0, abs(found.of.score)))
    for method in ("grad", "gradxinput", "loo"):
        assert np.isfinite(run.attribute(text, method=method).values).all()
    assert {"ig", "grad", "gradxinput", "loo"} == {*attribution.METHODS}


def test_what_is_left_out_is_what_a_text_without_the_word_gives(run):
    found = run.attribute(TEXT, method="loo", target="a")
    batch = run.task.batch_of([TEXT, "two three four", "one three four"])
    whole, *others = run.head.states(run.model, batch)[:, 0].tolist()
    assert found.values[:2] == pytest.approx([whole - other for other in others], abs=1e-6)
    assert found.axis.labels == ("one", "two", "three", "four") and found.of.score == pytest.approx(whole, abs=1e-6)


def test_a_difference_of_two_labels_is_the_difference_of_their_attributions(run):
    a, b = (run.attribute(TEXT, method="ig", target=label, steps=50) for label in "ab")
    both = run.attribute(TEXT, method="ig", target="a", rather_than="b", steps=50)
    np.testing.assert_allclose(both.values, np.subtract(a.values, b.values), atol=1e-5)
    assert both.name == "the logit of 'a' minus that of 'b'"
    frame = both.to_frame()
    assert [*frame.columns] == ["word", "value"] and tuple(frame["value"]) == both.values
    assert both.shading.signed and not run.attribute(TEXT, method="grad").shading.signed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "igg"}, "unknown attribution 'igg'; did you mean 'ig'?"),
        ({"target": "c"}, "this run has no label 'c'; valid: a, b"),
        ({"baseline": "zeros"}, "unknown baseline 'zeros'; did you mean 'zero'?"),
        ({"method": "loo", "without": "gone"}, "a word cannot be left out as 'gone'; valid: deleted, mean, unknown"),
        ({"without": "mean"}, "without 'mean' has no effect on method 'ig'; it is for 'loo'"),
        ({"method": "loo", "steps": 5}, "steps 5 has no effect on method 'loo'; it is for 'ig'"),
        ({"method": "grad", "baseline": "zero"}, "baseline 'zero' has no effect on method 'grad'; it is for 'ig'"),
    ],
)
def test_what_cannot_be_attributed_is_said(run, options, message):
    with pytest.raises(ConfigError) as refused:
        run.attribute(TEXT, **options)
    assert str(refused.value) == message


@pytest.mark.parametrize("model", ["vit", "cnn", "resnet"])
def test_attributions_of_a_picture_equal_those_of_captum_and_of_filled_places(model, data, tmp_path):
    from captum.attr import IntegratedGradients

    run = SMALL["images"].untrained(data, tmp_path, model, {})
    head, form, file = run.head, run.input.form, sorted((data / SMALL["images"].train).rglob("*.png"))[0]
    array, _ = opened(run, str(file))
    pixels, label = form.tensor([array]), head.labels[0]

    def forward(given):
        logits = run.model(given)
        return logits[:, 0] if not head.sigmoid else -logits[:, 0]

    found = run.attribute(file, target=label, baseline="zero", steps=30)
    of = IntegratedGradients(forward).attribute(pixels, torch.zeros_like(pixels), n_steps=30, method="riemann_middle")
    (height, width), (rows, columns) = pixels.shape[2:], found.weights.shape
    places = of[0].sum(0).detach().view(rows, height // rows, columns, width // columns).sum((1, 3))
    np.testing.assert_allclose(found.weights, places, rtol=1e-4, atol=1e-5)
    assert found.maps[0].signed and (rows, columns) == (getattr(run.model.body, "grid", None) or (8, 8))

    filled = pixels.clone()
    filled[:, :, : height // rows, : width // columns] = pixels.mean((2, 3), keepdim=True)
    without = run.attribute(file, method="loo", target=label)
    with torch.no_grad():
        assert float(without.weights[0, 0]) == pytest.approx(float(forward(pixels) - forward(filled)), abs=1e-5)
    shown = run.look(file, attribution="loo", label=label)
    assert torch.equal(shown.maps[0].weights, without.weights) and "the score of" in shown.maps[0].title
    with pytest.raises(ConfigError, match="a picture"):
        run.attribute(file, method="loo", baseline="deleted")
    with pytest.raises(ConfigError, match="baseline 'mean' has no effect on method 'grad'; it is for 'ig' and 'loo'"):
        run.attribute(file, method="grad", baseline="mean")
    with pytest.raises(ConfigError, match="without 'mean' is for texts; a place of a picture is filled with the base"):
        run.attribute(file, method="loo", without="mean")
    with pytest.raises(ConfigError, match="2 pictures were given; give exactly one"):
        run.attribute([file, file])


def test_a_word_at_a_mask_and_a_pair_are_attributed_to_the_other_words(data, tmp_path):
    run = SMALL["pretraining"].untrained(data, tmp_path, "bert", {})
    text = "one [MASK] three [MASK]"
    words = run.predict(text).masks[1]
    found = run.attribute(text, method="loo", target=f"{words[1].word}:1")
    assert found.axis.labels == ("one", "three")
    assert found.of.score == pytest.approx(math.log(words[1].probability), abs=1e-4)
    (left,) = run.predict(["[MASK] three [MASK]"], most=50)
    other = {one.word: one.probability for one in left.masks[1]}[words[1].word]
    assert found.values[0] == pytest.approx(found.of.score - math.log(other), abs=1e-4)
    pair = run.attribute(("one two", "three four"), target="does not follow", rather_than="follows")
    (answer,) = run.follows([("one two", "three four")])
    assert pair.of.score == pytest.approx(math.log(1 / answer.probability - 1), abs=1e-4)
    assert pair.axis.labels == ("one", "two", "three", "four") and pair.of.error < 1e-2
    for wrong, said in {"one:5": "no mask 5: the text has 2", "absent": "unknown to the tokenizer"}.items():
        with pytest.raises(ConfigError, match=said):
            run.attribute(text, target=wrong)


@pytest.mark.parametrize("model", ["hred", "bahdanau"])
def test_a_response_is_attributed_to_the_words_of_the_turns(model, data, tmp_path):
    run = SMALL["dialogue"].untrained(data, tmp_path, model, {})
    turns = ["one two", "three", "four five"]
    found = run.attribute(turns, method="loo", output="six")
    assert found.axis.labels == ("one", "two", "three", "four", "five")
    assert [len(range(part.start, part.stop)) for part in found.axis.parts] == [2, 1, 2]
    score = lambda turns: float(re.search(r"log-probability (\S+)", run.look(turns, target="six").look.notes[0])[1])  # noqa: E731
    assert found.of.score == pytest.approx(score(turns), abs=2e-3)
    assert found.values[0] == pytest.approx(score(turns) - score(["two", *turns[1:]]), abs=4e-3)


def test_the_given_output_of_a_look_is_what_is_attributed(data, tmp_path):
    run = SMALL["translation"].untrained(data, tmp_path, "bahdanau", {})
    notes = run.look("one two", target="three", attribution="loo").look.notes
    assert "output: three" in notes and notes != run.look("one two", attribution="loo").look.notes


def test_on_a_gpu_recurrent_networks_are_differentiated_without_cudnn(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.backends.cudnn, "flags", lambda **flags: asked.append(flags))
    attribution.differentiable(torch.empty(1, device="meta"))
    assert asked == []

    class OnGpu:
        device = torch.device("cuda")

    attribution.differentiable(OnGpu())
    assert asked == [{"enabled": False}]
