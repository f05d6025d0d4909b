"""`attend` is softmax(score(query, key)) value, for every score and every mask."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import randn
from heed.attention import (
    SCORES,
    attend,
    make_score,
    masked_softmax,
)
from heed.errors import ConfigError, ShapeError

B, Q, K, D_QUERY, D_KEY, D_VALUE, D = 2, 3, 5, 4, 6, 2, 7
EQUAL_WIDTHS = ("dot", "scaled_dot")
E = math.e


def make_inputs(name, seed=0):
    """A score with random weights, query, key, value, all float64."""
    d_key = D_QUERY if name in EQUAL_WIDTHS else D_KEY
    torch.manual_seed(seed)
    score = make_score(name, D_QUERY, d_key, D).double()
    return score, randn(B, Q, D_QUERY, seed=seed + 1), randn(B, K, d_key, seed=seed + 2), randn(B, K, D_VALUE, seed=9)


def reference_score(name, score):
    w = {k: p.detach().numpy() for k, p in score.named_parameters()}
    if name == "dot":
        return ref.dot
    if name == "scaled_dot":
        return ref.scaled_dot
    if name == "general":
        return lambda q, k: ref.general(q, k, w["w_key.weight"])
    if name == "key_query":
        return lambda q, k: ref.key_query(q, k, w["w_query.weight"], w["w_key.weight"])
    assert name in ("additive", "concat"), f"no reference for score {name}"
    return lambda q, k: ref.additive(q, k, w["w_query.weight"], w["w_key.weight"], w.get("w_key.bias"), w["v"])


PADDING = torch.tensor([[True, True, True, False, False], [True] * 5]).unsqueeze(1)  # (B, 1, K)
PER_QUERY = randn(B, Q, K, seed=3) > -0.3
ONE_BLIND_ROW = PER_QUERY.clone()
ONE_BLIND_ROW[1, 2] = False
MASKS = {"none": None, "padding": PADDING, "per query": PER_QUERY, "one row sees nothing": ONE_BLIND_ROW}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("name", SCORES)
def test_attend_is_the_reference(name, mask):
    score, query, key, value = make_inputs(name)
    context, weights = attend(query, key, value, mask, score)
    for b in range(B):
        one_mask = None if mask is None else mask[b].expand(Q, K).numpy()
        expected = ref.attend(query[b], key[b], value[b], one_mask, reference_score(name, score))
        assert_close((context[b], weights[b]), tuple(map(torch.from_numpy, expected)), rtol=0, atol=1e-12)


def test_the_default_score_is_the_scaled_dot_product():
    # q'k / sqrt(4) is 0 for the first key and 1 for the second
    query, key = torch.ones(1, 4), torch.tensor([[0.0, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]])
    context, weights = attend(query, key, torch.tensor([[0.0], [1.0]]))
    assert_close(weights, torch.tensor([[1, E]]) / (1 + E))
    assert_close(context, torch.tensor([[E / (1 + E)]]))


@pytest.mark.parametrize("name", SCORES)
def test_a_row_that_sees_nothing_gives_zeros_and_passes_no_gradient(name):
    score, query, key, value = make_inputs(name)
    inputs = [x.requires_grad_() for x in (query, key, value)]
    mask = torch.ones(B, Q, K, dtype=torch.bool)
    mask[0, 1] = False
    context, weights = attend(*inputs, mask, score)
    assert not context[0, 1].any() and not weights[0, 1].any()
    gradients = torch.autograd.grad(context.square().sum() + weights.square().sum(), inputs, retain_graph=True)
    assert all(g.isfinite().all() for g in gradients)
    assert not gradients[0][0, 1].any() and gradients[0][0, 0].any()
    from_blind_row = torch.autograd.grad(context[0, 1].sum() + weights[0, 1].sum(), [*inputs, *score.parameters()])
    assert not any(g.any() for g in from_blind_row)


@pytest.mark.parametrize("mask", [None, ONE_BLIND_ROW], ids=["no mask", "with a blind row"])
@pytest.mark.parametrize("name", SCORES)
def test_gradients_of_values_and_parameters(name, mask):
    score, query, key, value = make_inputs(name)
    inputs = [x.requires_grad_() for x in (query, key, value)]

    def run(query, key, value, *parameters):  # gradcheck moves the parameters in place
        return attend(query, key, value, mask, score)

    assert torch.autograd.gradcheck(run, (*inputs, *score.parameters()))


def test_large_scores_do_not_overflow():
    scores = torch.tensor([[1e30, -1e30, 1e30]])
    assert_close(masked_softmax(scores), torch.tensor([[0.5, 0.0, 0.5]]))
    mask = torch.tensor([[True, True, False]])
    assert_close(masked_softmax(scores, mask), torch.tensor([[1.0, 0.0, 0.0]]))


@pytest.mark.usefixtures("as_installed")
class TestErrors:
    def test_a_mask_must_be_boolean(self):
        with pytest.raises(ShapeError, match=r"mask has type torch\.float64, expected torch\.bool \(True = may attend"):
            attend(randn(2, 3), randn(4, 3), randn(4, 3), randn(2, 4))

    def test_a_mask_must_fit_the_scores(self):
        mask = torch.ones(2, 7, dtype=torch.bool)
        expected = r"mask has shape \(2, 7\), expected one broadcastable to \(batch 6, query 2, key 4\)"
        with pytest.raises(ShapeError, match=expected):
            attend(randn(6, 2, 3), randn(6, 4, 3), randn(6, 4, 3), mask)

    def test_a_mask_must_not_add_dimensions(self):
        with pytest.raises(ShapeError, match=r"mask has shape \(5, 2, 4\)"):
            attend(randn(2, 3), randn(4, 3), randn(4, 3), torch.ones(5, 2, 4, dtype=torch.bool))

    def test_each_key_needs_its_value(self):
        with pytest.raises(ShapeError, match="4 keys but 5 values"):
            attend(randn(2, 3), randn(4, 3), randn(5, 3))

    def test_unequal_widths_name_both_and_the_score_that_takes_them(self):
        with pytest.raises(ShapeError, match=r"the query has 3 and the key 5; score 'general'"):
            attend(randn(2, 3), randn(4, 5), randn(4, 3))


@pytest.mark.parametrize("name", EQUAL_WIDTHS)
def test_a_plain_product_of_unequal_widths_is_refused_when_built(name):
    with pytest.raises(ConfigError, match=f"score '{name}' needs equal widths.* 3 and the key 5; score 'general'"):
        make_score(name, 3, 5, 4)


def test_an_unknown_score_suggests_the_nearest():
    with pytest.raises(ConfigError, match="unknown score 'aditive'; did you mean 'additive'"):
        make_score("aditive", 3, 3, 3)


def test_the_weights_returned_are_those_before_dropout():
    torch.manual_seed(0)
    query, key, value = randn(2, 3), randn(50, 3), randn(50, 3)
    context, weights = attend(query, key, value, dropout=0.5)
    assert_close(weights, attend(query, key, value)[1])
    assert not np.allclose(context, weights @ value)
