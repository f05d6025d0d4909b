"""Recurrent networks that attend to themselves are their equations, with copied weights, and their maps are causal."""

import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import LENGTHS, MASK, SOURCE, TIGHT, array, sharpened, step_of, weights_of, zeros_of
from heed.models.lstmn import LSTMN, LSTMNConfig
from heed.models.self_rnn import SelfRNN, SelfRNNConfig
from heed.observe.trace import trace

D = 3
SIZES = {"vocab_size": 11, "d_embedding": 4, "d_hidden": D, "d_attention": 5}


def make(body, config):
    torch.manual_seed(0)
    return sharpened(body(config).double().eval())


def score_of(score, name):
    w_query, w_key = array(score.w_query.weight), array(score.w_key.weight)
    if name == "key_query":
        return lambda q, k: ref.key_query(q, k, w_query, w_key)
    bias = None if score.w_key.bias is None else array(score.w_key.bias)
    return lambda q, k: ref.additive(q, k, w_query, w_key, bias, array(score.v))


@pytest.mark.parametrize("score", ["additive", "key_query"])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_self_rnn_is_the_notes_equations(cell, score):
    model = make(SelfRNN, SelfRNNConfig(**SIZES, cell=cell, score=score))
    with torch.no_grad(), trace(model) as seen:
        hidden = model(SOURCE, MASK)
    weights = seen.maps("self").weights[:, 0]  # (B, T, T)
    layer = model.forward_cells[0]
    for b, length in enumerate(LENGTHS):
        xs = array(model.inputs.embedding.weight)[SOURCE[b, :length].numpy()]
        states, expected = ref.self_rnn(xs, zeros_of(layer), step_of(layer), score_of(model.attention.score, score))
        assert_close(hidden[b, :length], torch.from_numpy(states), **TIGHT)
        assert_close(weights[b, :length, :length], torch.from_numpy(expected), **TIGHT)
    assert not weights.triu(1).any()


def test_the_gates_of_lstmn_are_replayed_from_its_summaries():
    torch.manual_seed(2)
    model = LSTMN(LSTMNConfig(vocab_size=9, d_embedding=5, d_hidden=4, d_attention=3)).eval()
    tokens = torch.tensor([[4, 5, 6, 7, 8], [5, 4, 8, 0, 0]])
    with torch.no_grad(), trace(model) as seen:
        hidden = model(tokens, tokens > 0)
    (gates,) = seen.gates().values()  # checked against the states when asked for
    torch.testing.assert_close(gates["hidden"], hidden)
    assert {"input", "forget", "output", "candidate", "cell"} <= set(gates)


def test_lstmn_is_the_papers_equations():
    model = make(LSTMN, LSTMNConfig(**SIZES))
    with torch.no_grad(), trace(model) as seen:
        hidden = model(SOURCE, MASK)
    weights = seen.maps("self").weights[:, 0]  # (B, T - 1, T - 1), from the second token on
    for b, length in enumerate(LENGTHS):
        xs = array(model.inputs.embedding.weight)[SOURCE[b, :length].numpy()]
        score = score_of(model.attention.score, "concat")
        states, expected = ref.lstmn(xs, D, score, *weights_of(model.cell))
        assert_close(hidden[b, :length], torch.from_numpy(states), **TIGHT)
        assert_close(weights[b, : length - 1, : length - 1], torch.from_numpy(expected[1:, :-1]), **TIGHT)


@pytest.mark.parametrize(("body", "config"), [(SelfRNN, SelfRNNConfig), (LSTMN, LSTMNConfig)])
def test_a_token_sees_no_later_one_and_features_are_read(body, config):
    model = make(body, config(**SIZES, d_features=2))
    features = torch.randn(3, 5, 2, dtype=torch.double)
    expected = model(SOURCE, MASK, features)
    changed = model(torch.cat([SOURCE[:, :3], torch.full((3, 2), 10)], 1), torch.ones_like(MASK), features)
    assert_close(changed[:, :3], expected[:, :3], **TIGHT)
    assert not torch.allclose(model(SOURCE, MASK, features + 1)[MASK], expected[MASK])
    assert model(SOURCE, MASK, features).shape == (3, 5, D)
    (expected * MASK.unsqueeze(-1)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name
