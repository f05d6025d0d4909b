"""Attributions: against closed forms, captum, and passes without a word; for every task and model that has them."""

import numpy as np
import pytest
import torch
from torch import nn

from heed.errors import ConfigError
from heed.observe import attribution
from heed.observe.attribution import LEFT_OUT, Scored, attribute, leave_one_out
from heed.tasks import run_class, tasks_with
from heed.tasks.base.attributing import padded, table_of
from small_runs import SMALL, write_data
from test_conformance import usable

TEXT = "one two three four"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


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
    assert f"with an error of {found.error:.2g} ({found.steps} steps)" in found.note
    assert attribute(scored, "ig", baseline="zero", steps=3).steps == 3


@pytest.mark.parametrize("model", ["rnn", "encoder", "cnn"])
def test_integrated_gradients_equal_those_of_captum(model, data, tmp_path):
    from captum.attr import IntegratedGradients

    run = SMALL["classification"].untrained(data, tmp_path, model, {})
    steps, text = 40, TEXT
    ours = run.attribute(text, method="ig", target="a", steps=steps, baseline="zero").of.values
    (encoded,) = run.task.encode_texts([text])
    batch = run.task.collate_encoded([encoded], [0])
    module, name = run.model, table_of(run.model).removesuffix(".weight")
    embedding = run.model.get_submodule(name)

    def forward(vectors):
        handle = embedding.register_forward_hook(lambda *_: vectors)
        try:
            tokens, mask = (t.expand(len(vectors), -1) for t in (batch.tokens, batch.mask))
            return module(tokens, mask)[:, run.task.labels.index("a")]
        finally:
            handle.remove()

    vectors = embedding(batch.tokens).detach()
    given = IntegratedGradients(forward).attribute(
        vectors, torch.zeros_like(vectors), n_steps=steps, method="riemann_middle"
    )
    np.testing.assert_allclose(ours, given[0].sum(1).detach().numpy(), rtol=1e-4, atol=1e-6)


def every_model():
    for name in tasks_with("attribute"):
        yield from (pytest.param(name, model, id=f"{name}-{model}") for model, _ in usable(name))


@pytest.mark.parametrize(("name", "model"), [*every_model()])
def test_vectors_in_a_virtual_table_are_read_as_tokens_are_and_values_add_up(name, model, data, tmp_path):
    run = SMALL[name].untrained(data, tmp_path, model, {})
    explained = run_class(name).explain(run.task, run.model, TEXT)
    scored = explained.scored
    several = torch.stack([scored.tokens, scored.tokens.roll(1)])
    both = scored.of_tokens(several)
    with torch.no_grad():
        table = run.model.get_parameter(scored.table)
        torch.testing.assert_close(scored.of_vectors(table[several]), both, rtol=1e-5, atol=1e-5)
    assert len(explained.words.axis) == len(explained.words.tokens) > 1
    found = run.attribute(TEXT, method="ig", steps=200)
    assert found.of.error == pytest.approx(0.0, abs=0.02 * max(1.0, abs(found.of.score)))
    for method in ("grad", "gradxinput", "loo"):
        assert np.isfinite(run.attribute(TEXT, method=method).values).all()
    assert {"ig", "grad", "gradxinput", "loo"} == {*attribution.METHODS}


def test_what_is_left_out_is_what_a_text_without_the_word_gives(run):
    found = run.attribute(TEXT, method="loo", target="a")
    texts = run.task.encode_texts([TEXT, "two three four", "one three four"])
    whole, *others = run.task.logits(run.model, texts)[:, 0].tolist()
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
        ({"without": "gone"}, "a word cannot be left out as 'gone'; valid: deleted, mean, unknown"),
    ],
)
def test_what_cannot_be_attributed_is_said(run, options, message):
    with pytest.raises(ConfigError) as refused:
        run.attribute(TEXT, **options)
    assert str(refused.value) == message


def test_tokens_that_are_left_out_close_up():
    tokens, real = padded(torch.tensor([[5, LEFT_OUT, 7], [LEFT_OUT, LEFT_OUT, 9], [1, 2, 3]]))
    assert tokens.tolist() == [[5, 7, 0], [9, 0, 0], [1, 2, 3]]
    assert real.tolist() == [[True, True, False], [True, False, False], [True] * 3]


def test_on_a_gpu_recurrent_networks_are_differentiated_without_cudnn(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.backends.cudnn, "flags", lambda **flags: asked.append(flags))
    attribution.differentiable(torch.empty(1, device="meta"))
    assert asked == []

    class OnGpu:
        device = torch.device("cuda")

    attribution.differentiable(OnGpu())
    assert asked == [{"enabled": False}]
