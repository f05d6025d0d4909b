"""Recurrent networks that attend to themselves are their equations, with copied weights, and their maps are causal."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import array, sharpened, weights_of
from heed.models.lstmn import LSTMN, LSTMNConfig
from heed.models.self_rnn import SelfRNN, SelfRNNConfig
from heed.observe.trace import trace

TOKENS = torch.tensor([[4, 5, 6, 7, 8], [9, 4, 10, 0, 0], [7, 0, 0, 0, 0]])
LENGTHS = [5, 3, 1]
MASK = torch.arange(5) < torch.tensor(LENGTHS).unsqueeze(1)
D = 3
SIZES = {"vocab_size": 11, "d_embedding": 4, "d_hidden": D, "d_attention": 5}
TIGHT = {"rtol": 0, "atol": 1e-12}


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
@pytest.mark.parametrize(("cell", "step"), [("rnn", ref.rnn_step), ("gru", ref.gru_step_torch), ("lstm", None)])
def test_self_rnn_is_the_notes_equations(cell, step, score):
    model = make(SelfRNN, SelfRNNConfig(**SIZES, cell=cell, score=score))
    with torch.no_grad(), trace(model) as seen:
        hidden = model(TOKENS, MASK)
    weights = seen.maps("self").weights[:, 0]  # (B, T, T)
    w = weights_of(model.forward_cells[0])
    for b, length in enumerate(LENGTHS):
        xs = array(model.inputs.embedding.weight)[TOKENS[b, :length].numpy()]
        if cell == "lstm":
            first, one = (np.zeros(D), np.zeros(D)), lambda x, s: ref.lstm_step(x, *s, *w)
        else:
            first, one = np.zeros(D), lambda x, h: step(x, h, *w)
        states, expected = ref.self_rnn(xs, first, one, score_of(model.attention.score, score))
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
        hidden = model(TOKENS, MASK)
    weights = seen.maps("self").weights[:, 0]  # (B, T - 1, T - 1), from the second token on
    for b, length in enumerate(LENGTHS):
        xs = array(model.inputs.embedding.weight)[TOKENS[b, :length].numpy()]
        score = score_of(model.attention.score, "concat")
        states, expected = ref.lstmn(xs, D, score, *weights_of(model.cell))
        assert_close(hidden[b, :length], torch.from_numpy(states), **TIGHT)
        assert_close(weights[b, : length - 1, : length - 1], torch.from_numpy(expected[1:, :-1]), **TIGHT)


@pytest.mark.parametrize(("body", "config"), [(SelfRNN, SelfRNNConfig), (LSTMN, LSTMNConfig)])
def test_a_token_sees_no_later_one_and_features_are_read(body, config):
    model = make(body, config(**SIZES, d_features=2))
    features = torch.randn(3, 5, 2, dtype=torch.double)
    expected = model(TOKENS, MASK, features)
    changed = model(torch.cat([TOKENS[:, :3], torch.full((3, 2), 10)], 1), torch.ones_like(MASK), features)
    assert_close(changed[:, :3], expected[:, :3], **TIGHT)
    assert not torch.allclose(model(TOKENS, MASK, features + 1)[MASK], expected[MASK])
    assert model(TOKENS, MASK, features).shape == (3, 5, D)
    (expected * MASK.unsqueeze(-1)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name
