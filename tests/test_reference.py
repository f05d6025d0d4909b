# ruff: noqa: N806
"""The references themselves: numbers to check by hand, limits, and torch's conventions."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import reference as ref

E = math.e
TIGHT = {"rtol": 0, "atol": 1e-12}
LARGE = 1000.0  # a bias that closes or opens a gate exactly in float64


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def as_numpy(module, *names):
    return [getattr(module, name).detach().numpy() for name in names]


# --- softmax and scores


def test_scores_by_hand():
    q, k = [1.0, 2.0, 3.0, 4.0], [1.0, 0.0, -1.0, 2.0]
    assert ref.dot(q, k) == 6.0
    assert ref.scaled_dot(q, k) == 3.0
    # W is not symmetric, so that W and W' differ: [1, 2] [[0, 1], [0, 0]] [3, 5]' = 5
    assert ref.general([1.0, 2.0], [3.0, 5.0], [[0.0, 1.0], [0.0, 0.0]]) == 5.0
    assert ref.key_query([1.0, 2.0], [3.0], [[1.0, 1.0]], [[2.0]]) == 18.0


def test_additive_by_hand():
    # W_q q = [1, 0], W_k k = [1, 2], b = [0, -2]: 3 tanh(2) + 5 tanh(0)
    e = ref.additive([1.0, 0.0], [2.0], [[1.0, 0.0], [0.0, 1.0]], [[0.5], [1.0]], [0.0, -2.0], [3.0, 5.0])
    assert e == pytest.approx(3 * math.tanh(2))


# --- attention


def test_attend_by_hand():
    context, weights = ref.attend([[1.0]], [[0.0], [1.0]], [[1.0, 0.0], [0.0, 1.0]], None, ref.dot)
    assert_allclose(weights, [[1 / (1 + E), E / (1 + E)]], **TIGHT)
    assert_allclose(context, weights, **TIGHT)


def test_masks_by_hand():
    assert_array_equal(ref.padding_mask([2, 0, 3], 3), [[1, 1, 0], [0, 0, 0], [1, 1, 1]])
    assert_array_equal(ref.causal_mask(3, 3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    assert_array_equal(ref.causal_mask(2, 4), [[1, 1, 1, 0], [1, 1, 1, 1]])
    assert_array_equal(ref.causal_mask(3, 2), [[0, 0], [1, 0], [1, 1]])


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_multi_head_is_torchs(num_heads):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(8, num_heads, batch_first=True, dtype=torch.float64)
    torch.nn.init.normal_(module.in_proj_bias)
    torch.nn.init.normal_(module.out_proj.bias)
    x_query, x_key, mask = random(3, 8), random(5, 8, seed=1), ref.causal_mask(3, 5)
    W, b = as_numpy(module, "in_proj_weight", "in_proj_bias")
    W_o, b_o = as_numpy(module.out_proj, "weight", "bias")
    y, a = ref.multi_head(x_query, x_key, W[:8], b[:8], W[8:16], b[8:16], W[16:], b[16:], W_o, b_o, num_heads, mask)
    q, k = torch.from_numpy(x_query)[None], torch.from_numpy(x_key)[None]
    # torch's module has the opposite mask: True = ignore
    expected_y, expected_a = module(q, k, k, attn_mask=torch.from_numpy(~mask), average_attn_weights=False)
    assert_allclose(y, expected_y[0].detach().numpy(), **TIGHT)
    assert_allclose(a, expected_a[0].detach().numpy(), **TIGHT)


# --- recurrent cells


def test_gru_notes_limits():
    W, h = [[0.0, 0.0]], 0.3
    W_h = [[2.0, 10.0]]  # the state first, then the input
    keep = ref.gru_step_notes([0.05], [h], W, W, W_h, b_z=[-LARGE])
    assert keep == h  # z = 0 keeps the old state
    reset = ref.gru_step_notes([0.05], [h], W, W, W_h, b_z=[LARGE], b_r=[-LARGE], b_h=[0.1])
    assert reset == pytest.approx(math.tanh(0.5 + 0.1))  # r = 0 removes the state, not the bias
    open_ = ref.gru_step_notes([0.05], [h], W, W, W_h, b_z=[LARGE], b_r=[LARGE])
    assert open_ == pytest.approx(math.tanh(0.6 + 0.5))
    half = ref.gru_step_notes([0.05], [h], W, W, W_h)  # no bias: z = r = 1/2
    assert half == pytest.approx(0.5 * h + 0.5 * math.tanh(0.3 + 0.5))


def test_gru_notes_resets_before_the_matrix():
    # The matrix swaps the two units, so gating before and after it differ: r = [0, 1] keeps unit 1, seen by
    # candidate 0.
    zeros, swap = np.zeros((2, 3)), [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    h = ref.gru_step_notes([0.0], [0.3, 0.4], zeros, zeros, swap, b_z=[LARGE, LARGE], b_r=[-LARGE, LARGE], b_h=None)
    assert_allclose(h, [math.tanh(0.4), 0.0], **TIGHT)
    W_hh = np.concatenate([np.zeros((4, 2)), np.array(swap)[:, :2]])
    b_ih = [-LARGE, LARGE, -LARGE, -LARGE, 0.0, 0.0]
    after = ref.gru_step_torch([0.0], [0.3, 0.4], np.zeros((6, 1)), W_hh, b_ih, np.zeros(6))
    assert_allclose(after, [0.0, math.tanh(0.3)], **TIGHT)


STEPS = {
    "RNN": lambda p: lambda x, s: ref.rnn_step(x, s, *p),
    "LSTM": lambda p: lambda x, s: ref.lstm_step(x, *s, *p),
    "GRU": lambda p: lambda x, s: ref.gru_step_torch(x, s, *p),
}


@pytest.mark.parametrize("kind", STEPS)
def test_bidirectional_run_is_torchs(kind):
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(2, 3, batch_first=True, bidirectional=True, dtype=torch.float64)
    names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    step_forward = STEPS[kind](as_numpy(module, *names))
    step_backward = STEPS[kind](as_numpy(module, *[name + "_reverse" for name in names]))
    xs, h, c = random(5, 2), random(2, 3, seed=1), random(2, 3, seed=2)
    start = [(h[n], c[n]) if kind == "LSTM" else h[n] for n in range(2)]
    got = ref.bidirectional(step_forward, step_backward, xs, start[0], start[1])
    h_torch, c_torch = torch.from_numpy(h)[:, None], torch.from_numpy(c)[:, None]
    expected, _ = module(torch.from_numpy(xs)[None], (h_torch, c_torch) if kind == "LSTM" else h_torch)
    assert_allclose(got, expected[0].detach().numpy(), **TIGHT)


# --- positions, decoder


def test_sinusoid_by_hand():
    table = ref.sinusoidal(3, 4)
    assert_array_equal(table[0], [0.0, 1.0, 0.0, 1.0])
    # columns 2 and 3 turn 10000^(2/4) = 100 times slower
    assert_allclose(table[2], [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)], **TIGHT)


def test_bahdanau_decode_by_hand():
    # Widths 1. s_0 = tanh(0.5); v = 0: uniform weights, context = mean = 2; the cell adds everything up.
    def cell(x, s):
        return s + x.sum()

    steps = ref.bahdanau_decode(
        [[1.0], [3.0]], [0.25], [[10.0], [20.0]], [[1.0]], [0.25], [[1.0]], [[1.0]], None, [0.0], cell
    )
    s_0 = math.tanh(0.5)
    for (s, c, a), expected in zip(steps, [s_0 + 12, s_0 + 34], strict=True):
        assert_allclose(s, [expected], **TIGHT)
        assert_allclose(c, [2.0], **TIGHT)
        assert_allclose(a, [0.5, 0.5], **TIGHT)


def test_bahdanau_decode_asks_with_the_previous_state():
    # e_j = tanh(s + h_j) with h = 0 and 1, s_0 = 0 and s_1 = 1.
    asked = []

    def cell(x, s):
        asked.append((x.copy(), s.copy()))
        return np.array([1.0])

    steps = ref.bahdanau_decode(
        [[0.0], [1.0]], [0.0], [[5.0], [7.0]], [[1.0]], None, [[1.0]], [[1.0]], [0.0], [1.0], cell
    )
    # the weight of h = 1
    first, second = (1 / (1 + math.exp(math.tanh(s) - math.tanh(s + 1))) for s in (0, 1))
    assert_allclose([steps[0][2][1], steps[1][2][1]], [first, second], **TIGHT)
    assert_allclose(asked[0][0], [5.0, first], **TIGHT)  # [x' ; c], c = weight of h = 1
    assert_allclose(asked[1][0], [7.0, second], **TIGHT)
    assert_array_equal([asked[0][1], asked[1][1]], [[0.0], [1.0]])


# --- search


EOS, A = 0, 1


def chain(prefix):
    """Two symbols: p(eos) = 1/4 at the start, 2/3 after an A."""
    p = [1 / 4, 3 / 4] if not prefix else [2 / 3, 1 / 3]
    return np.log(p)


def test_exhaustive_search_on_a_chain_by_hand():
    found = ref.exhaustive_search(chain, EOS, max_length=3)
    assert [tokens for _, tokens in found] == [(A, EOS), (EOS,), (A, A, EOS), (A, A, A)]
    assert_allclose(np.exp([score for score, _ in found]), [1 / 2, 1 / 4, 1 / 6, 1 / 12], **TIGHT)


def test_exhaustive_search_length_penalty_divides_by_the_length_with_eos():
    found = ref.exhaustive_search(chain, EOS, max_length=3, length_penalty=1.0)
    by_tokens = {tokens: score for score, tokens in found}
    assert by_tokens[(EOS,)] == pytest.approx(math.log(1 / 4))
    assert by_tokens[(A, EOS)] == pytest.approx(math.log(1 / 2) / 2)
    assert by_tokens[(A, A, A)] == pytest.approx(math.log(1 / 12) / 3)
    # -0.35, -0.60, -0.83, -1.39: the long ones overtake (EOS,)
    assert [tokens for _, tokens in found] == [(A, EOS), (A, A, EOS), (A, A, A), (EOS,)]


def test_exhaustive_search_forbids_an_early_eos_without_renormalising():
    found = ref.exhaustive_search(chain, EOS, max_length=3, min_length=2)
    assert [tokens for _, tokens in found] == [(A, A, EOS), (A, A, A)]
    assert_allclose(np.exp([score for score, _ in found]), [1 / 6, 1 / 12], **TIGHT)
