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


def test_softmax_of_0_and_1_by_hand():
    assert_allclose(ref.softmax_row([0.0, 1.0]), [1 / (1 + E), E / (1 + E)], **TIGHT)


def test_softmax_ignores_what_is_forbidden_even_nan():
    assert_allclose(ref.softmax_row([0.0, math.nan, 1.0], [True, False, True]), [1 / (1 + E), 0, E / (1 + E)], **TIGHT)


def test_softmax_with_nothing_allowed_is_zero():
    assert_array_equal(ref.softmax_row([3.0, 4.0], [False, False]), [0.0, 0.0])


def test_softmax_does_not_overflow_and_ignores_a_shift():
    assert_allclose(ref.softmax_row([1e4, 1e4 + 1]), [1 / (1 + E), E / (1 + E)], **TIGHT)


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


def test_additive_without_bias_is_luongs_concat():
    q, k, W, v = random(3), random(2, seed=1), random(4, 5, seed=2), random(4, seed=3)
    concat = v @ np.tanh(W @ np.concatenate([q, k]))
    assert ref.additive(q, k, W[:, :3], W[:, 3:], None, v) == pytest.approx(concat)


# --- attention


def test_zero_query_attends_uniformly_and_returns_the_mean():
    context, weights = ref.attend([[0.0, 0.0]], random(4, 2), [[1.0], [2.0], [3.0], [6.0]], None, ref.dot)
    assert_allclose(weights, [[0.25] * 4], **TIGHT)
    assert_allclose(context, [[3.0]], **TIGHT)


def test_attend_by_hand():
    context, weights = ref.attend([[1.0]], [[0.0], [1.0]], [[1.0, 0.0], [0.0, 1.0]], None, ref.dot)
    assert_allclose(weights, [[1 / (1 + E), E / (1 + E)]], **TIGHT)
    assert_allclose(context, weights, **TIGHT)


def test_attend_never_reads_a_forbidden_position():
    keys, values = random(3, 2), random(3, 2, seed=1)
    short = ref.attend([[1.0, 2.0]], keys[:2], values[:2], None, ref.dot)
    keys[2] = values[2] = math.nan
    context, weights = ref.attend([[1.0, 2.0]], keys, values, [[True, True, False]], ref.dot)
    assert_array_equal(context, short[0])
    assert_array_equal(weights, np.append(short[1], [[0.0]], axis=1))


def test_attend_with_nothing_allowed_is_zero():
    context, weights = ref.attend([[1.0]], [[1.0]], [[5.0]], [[False]], ref.dot)
    assert_array_equal(context, [[0.0]])
    assert_array_equal(weights, [[0.0]])


def test_masks_by_hand():
    assert_array_equal(ref.padding_mask([2, 0, 3], 3), [[1, 1, 0], [0, 0, 0], [1, 1, 1]])
    assert_array_equal(ref.causal_mask(3, 3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    assert_array_equal(ref.causal_mask(2, 4), [[1, 1, 1, 0], [1, 1, 1, 1]])
    assert_array_equal(ref.causal_mask(3, 2), [[0, 0], [1, 0], [1, 1]])


def test_attention_layer_by_hand():
    # Width 4: keys 2 W_k = (2, 0, 0, 0) and 0; query (1, 0, 0, 0): scores 2 / sqrt(4) = 1 and 0; values 6 and
    # 0.
    y, a = ref.attention_layer([[1.0, 0, 0, 0]], [[2.0], [0.0]], [[1.0, 0, 0, 0]], [[3.0]])
    assert_allclose(a, [[E / (1 + E), 1 / (1 + E)]], **TIGHT)
    assert_allclose(y, [[6 * E / (1 + E)]], **TIGHT)


def test_multi_head_by_hand_takes_consecutive_slices():
    # d_head = 1. Head 0 has query 1 and keys 0, 1; head 1 has query 0, so it is uniform. W_o swaps the heads.
    eye = np.eye(2)
    x_key = [[0.0, 4.0], [1.0, 8.0]]
    W_o, b_o = [[0.0, 1.0], [1.0, 0.0]], [100.0, 0.0]
    y, a = ref.multi_head([[1.0, 0.0]], x_key, eye, None, eye, None, eye, None, W_o, b_o, 2, None)
    assert_allclose(a, [[[1 / (1 + E), E / (1 + E)]], [[0.5, 0.5]]], **TIGHT)
    assert_allclose(y, [[106.0, E / (1 + E)]], **TIGHT)


def test_multi_head_refuses_a_width_that_does_not_divide():
    W = np.eye(3)
    with pytest.raises(ValueError, match="3, not a multiple of 2 heads"):
        ref.multi_head(W, W, W, None, W, None, W, None, W, None, 2, None)


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


# --- the lion, docs/systems.md, section E: typed in by hand from lectures/lion.yaml

LION = [
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 1, 3, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 1, 3, 0, 0, 1, 0, 0, 0],
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 1, 3, 0, 0, 0],
    [0, 0, 0, 0, 2, 0, 0, 0, 0, 1],
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 0, 1, 0, 0, 2, 0, 1, 0, 0],
]
LION_Q = [
    *([0, 0, 0], [1, 0, 0], [0, 2, 0], [1, 1, 1], [0, 0, 0]),
    *([1, 0, 0], [0, 0, 2], [0, 1, 1], [0, 0, 0], [1, 0, 0]),
]
LION_K = [
    *([0, 0, 0], [2, 0, 0], [2, 0, 0], [0, 2, 2], [0, 0, 0]),
    *([2, 0, 0], [0, 0, 3], [0, 1, 1], [0, 0, 0], [2, 0, 0]),
]
LION_V = [[0, 0], [1, 0], [1, 0], [1, 1], [0, 0], [1, 0], [0, 1], [0, 1], [0, 0], [1, 0]]
LION_QUERY = [
    *([0, 0, 0], [2, 0, 0], [1, 6, 0], [3, 5, 5], [0, 0, 0], [2, 0, 0]),
    *([1, 0, 6], [1, 0, 0], [0, 0, 0], [2, 0, 0], [2, 3, 1]),
]
LION_OUTPUT = [
    *([1.727, 0.727], [3.854, 0.094], [4.000, 4.000], [4.000, 4.000], [1.727, 0.727], [3.854, 0.094]),
    *([2.500, 3.500], [3.299, 0.308], [1.727, 0.727], [3.854, 0.094], [4.000, 3.999]),
]


def test_lion():
    x = np.array(LION, dtype=float)
    query = x @ LION_Q
    assert_array_equal(query, LION_QUERY)
    output, weights = ref.attention_layer(query, x, LION_K, LION_V)
    assert_allclose(output, LION_OUTPUT, rtol=0, atol=5.0001e-4)
    for row in (0, 4, 8):
        assert_allclose(weights[row], [1 / 11] * 11, **TIGHT)
    for row, column, value in [
        *((1, 2, 0.883), (1, 10, 0.088), (2, 3, 1.0), (6, 3, 0.5)),
        *((6, 6, 0.5), (7, 2, 0.576), (7, 10, 0.181), (10, 3, 1.0)),
    ]:
        assert weights[row, column] == pytest.approx(value, abs=5.0001e-4)


def test_lion_as_one_head_gives_the_same():
    W_q, W_k, W_v = np.array(LION_Q).T, np.array(LION_K).T, np.array(LION_V).T
    output, weights = ref.multi_head(
        LION, LION, W_q, None, W_k, None, W_v, None, np.eye(2), None, num_heads=1, mask=None
    )
    assert_allclose(output, LION_OUTPUT, rtol=0, atol=5.0001e-4)
    assert weights.shape == (1, 11, 11)


@pytest.mark.parametrize(("scale", "value"), [(3, 0.883), (10, 0.622), (11, 0.598)])
def test_lion_under_the_three_scales_of_the_notes(scale, value):
    query, key = np.array(LION) @ LION_Q, np.array(LION) @ LION_K
    _, weights = ref.attend(query, key, key, None, lambda q, k: ref.dot(q, k) / math.sqrt(scale))
    assert weights[1, 2] == pytest.approx(value, abs=5.0001e-4)


# --- recurrent cells


def test_rnn_step_by_hand():
    assert ref.rnn_step([2.0], [3.0], [[0.5]], [[-1.0]], [1.0], [4.0]) == pytest.approx(math.tanh(3.0))


def lstm_with_gates(i, f, g, o, h, c):
    """One LSTM step whose gates depend on their biases only."""
    return ref.lstm_step([0.0], [h], [c], np.zeros((4, 1)), np.zeros((4, 1)), [i, f, g, o], [0.0] * 4)


def test_lstm_gate_limits_pin_the_order_i_f_g_o():
    h, c = lstm_with_gates(-LARGE, LARGE, 0.7, LARGE, h=0.3, c=2.0)  # closed, kept, shown
    assert (h, c) == (pytest.approx(math.tanh(2.0)), 2.0)
    h, c = lstm_with_gates(LARGE, -LARGE, 0.7, LARGE, h=0.3, c=2.0)  # written over
    assert (h, c) == (pytest.approx(math.tanh(math.tanh(0.7))), pytest.approx(math.tanh(0.7)))
    h, c = lstm_with_gates(LARGE, LARGE, 0.7, -LARGE, h=0.3, c=2.0)  # added, hidden
    assert (h, c) == (0.0, pytest.approx(2.0 + math.tanh(0.7)))


def test_lstm_is_the_notes_with_concatenated_matrices():
    d, d_x = 3, 2
    x, h, c = random(d_x), random(d, seed=1), random(d, seed=2)
    W_ih, W_hh, b_ih, b_hh = (random(4 * d, n, seed=3 + n) for n in (d_x, d, 4, 5))
    b_ih, b_hh = b_ih[:, 0], b_hh[:, 0]

    def gate(block):
        rows = slice(block * d, (block + 1) * d)
        W = np.concatenate([W_hh[rows], W_ih[rows]], axis=1)
        return W @ np.concatenate([h, x]) + b_ih[rows] + b_hh[rows]

    i, f, o = (1 / (1 + np.exp(-gate(block))) for block in (0, 1, 3))
    new_c = f * c + i * np.tanh(gate(2))
    got_h, got_c = ref.lstm_step(x, h, c, W_ih, W_hh, b_ih, b_hh)
    assert_allclose(got_c, new_c, **TIGHT)
    assert_allclose(got_h, o * np.tanh(new_c), **TIGHT)


def test_gru_torch_limits_pin_the_order_r_z_n():
    zeros, h = np.zeros((3, 1)), 0.3
    W_hh = [[0.0], [0.0], [2.0]]
    keep = ref.gru_step_torch([0.0], [h], zeros, W_hh, [0.0, LARGE, 0.7], [0.0] * 3)
    assert keep == h  # z = 1 keeps the old state
    reset = ref.gru_step_torch([0.0], [h], zeros, W_hh, [-LARGE, -LARGE, 0.7], [0.0, 0.0, 5.0])
    assert reset == pytest.approx(math.tanh(0.7))  # r = 0 removes W h AND its bias 5
    open_ = ref.gru_step_torch([0.0], [h], zeros, W_hh, [LARGE, -LARGE, 0.7], [0.0, 0.0, 0.1])
    assert open_ == pytest.approx(math.tanh(0.7 + 2.0 * h + 0.1))


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


def test_the_two_grus_agree_when_the_reset_gate_is_open():
    d, d_x = 3, 2
    x, h, W = random(d_x), random(d, seed=1), random(3, d, d + d_x, seed=2)
    notes = ref.gru_step_notes(x, h, W[0], W[1], W[2], b_r=[LARGE] * d)
    # z swapped: sigmoid(-a) = 1 - sigmoid(a); rows r, z, n
    stacked = np.concatenate([W[1], -W[0], W[2]])
    b_ih = np.concatenate([[LARGE] * d, np.zeros(2 * d)])
    assert_allclose(ref.gru_step_torch(x, h, stacked[:, d:], stacked[:, :d], b_ih, None), notes, **TIGHT)


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


def test_run_rnn_and_bidirectional_on_a_running_sum():
    def add(x, s):
        return s + x

    hidden, last = ref.run_rnn(add, [[1.0], [2.0], [4.0]], np.array([10.0]))
    assert_array_equal(hidden, [[11], [13], [17]])
    assert_array_equal(last, [17])
    both = ref.bidirectional(add, add, [[1.0], [2.0], [4.0]], np.array([0.0]))
    assert_array_equal(both, [[1, 7], [3, 6], [7, 4]])


# --- positions, decoder


def test_sinusoid_by_hand():
    table = ref.sinusoidal(3, 4)
    assert_array_equal(table[0], [0.0, 1.0, 0.0, 1.0])
    # columns 2 and 3 turn 10000^(2/4) = 100 times slower
    assert_allclose(table[2], [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)], **TIGHT)


def test_sinusoid_products_depend_on_the_distance_only():
    table = ref.sinusoidal(12, 8)
    products = table @ table.T
    for distance in range(12):
        diagonal = np.diagonal(products, distance)
        assert_allclose(diagonal, diagonal[0], **TIGHT)


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


def test_bahdanau_decode_with_the_notes_matrix_an_lstm_and_a_mask():
    # s_t = tanh(A' [x' ; s ; c] + b) is rnn_step with the columns of A' dealt out.
    memory, targets, A = random(3, 2), random(2, 2, seed=1), random(3, 2 + 3 + 2, seed=2)
    W_s, W_q, W_k, v = random(3, 2, seed=3), random(4, 3, seed=4), random(4, 2, seed=5), random(4, seed=6)
    W_ih, W_hh = np.concatenate([A[:, :2], A[:, 5:]], axis=1), A[:, 2:5]
    first = memory[0]
    arguments = (targets, W_s, None, W_q, W_k, None, v)
    steps = ref.bahdanau_decode(memory, first, *arguments, lambda x, s: ref.rnn_step(x, s, W_ih, W_hh))
    s = np.tanh(W_s @ first)
    for x, (got, c, _) in zip(targets, steps, strict=True):
        s = np.tanh(A @ np.concatenate([x, s, c]))
        assert_allclose(got, s, **TIGHT)

    W_ih, W_hh = random(12, 4, seed=7), random(12, 3, seed=8)

    def lstm(x, s):
        return ref.lstm_step(x, *s, W_ih, W_hh)

    short = ref.bahdanau_decode(memory[:2], first, *arguments, lstm, initial_cell=np.zeros(3))
    memory[2] = math.nan
    masked = ref.bahdanau_decode(memory, first, *arguments, lstm, [True, True, False], np.zeros(3))
    for (s, c, a), (s_masked, c_masked, a_masked) in zip(short, masked, strict=True):
        assert_array_equal(s, s_masked)
        assert_array_equal(c, c_masked)
        assert_array_equal([*a, 0.0], a_masked)


# --- losses, search, alignment


def test_log_softmax_by_hand():
    assert_allclose(ref.log_softmax([0.0, math.log(3)]), [math.log(1 / 4), math.log(3 / 4)], **TIGHT)
    assert_allclose(ref.log_softmax([1e4, 1e4]), [-math.log(2)] * 2, **TIGHT)


def test_smoothed_cross_entropy_by_hand():
    logits = [0.0, math.log(3)]  # p = 1/4, 3/4
    assert ref.cross_entropy_smoothed(logits, 1, 0.0) == pytest.approx(math.log(4 / 3))
    expected = 0.8 * math.log(4 / 3) + 0.2 * (math.log(4) + math.log(4 / 3)) / 2
    assert ref.cross_entropy_smoothed(logits, 1, 0.2) == pytest.approx(expected)


def test_smoothed_cross_entropy_is_torchs():
    logits = random(7)
    expected = torch.nn.functional.cross_entropy(torch.from_numpy(logits)[None], torch.tensor([4]), label_smoothing=0.1)
    assert ref.cross_entropy_smoothed(logits, 4, 0.1) == pytest.approx(expected.item())


EOS, A = 0, 1


def chain(prefix):
    """Two symbols: p(eos) = 1/4 at the start, 2/3 after an A."""
    p = [1 / 4, 3 / 4] if not prefix else [2 / 3, 1 / 3]
    return np.log(p)


def test_exhaustive_search_on_a_chain_by_hand():
    found = ref.exhaustive_search(chain, EOS, max_length=3)
    assert [tokens for _, tokens in found] == [(A, EOS), (EOS,), (A, A, EOS), (A, A, A)]
    assert_allclose(np.exp([score for score, _ in found]), [1 / 2, 1 / 4, 1 / 6, 1 / 12], **TIGHT)


def test_exhaustive_search_covers_all_probability():
    found = ref.exhaustive_search(lambda prefix: ref.log_softmax(random(3, seed=len(prefix))), 2, 4)
    assert len(found) == 1 + 2 + 4 + 8 + 16  # eos after 0..3 tokens, and those without
    assert math.fsum(math.exp(score) for score, _ in found) == pytest.approx(1.0)


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


def test_exhaustive_search_leaves_out_the_impossible():
    found = ref.exhaustive_search(lambda prefix: np.array([0.0, -math.inf]), EOS, max_length=3)
    assert found == [(0.0, (EOS,))]


def test_alignment_error_rate_by_hand():
    sure, possible = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2)}
    assert ref.alignment_error_rate(sure, possible, sure) == 0.0
    assert ref.alignment_error_rate(sure, possible, possible) == 0.0  # a possible link costs nothing
    assert ref.alignment_error_rate(sure, possible, {(5, 5)}) == 1.0
    # A = one sure, one possible, one wrong: 1 - (1 + 2) / (3 + 2)
    assert ref.alignment_error_rate(sure, possible, {(0, 0), (1, 2), (7, 7)}) == pytest.approx(0.4)
    # possible listed without the sure ones means the same
    assert ref.alignment_error_rate(sure, {(1, 2)}, {(0, 0), (1, 2), (7, 7)}) == pytest.approx(0.4)
    with pytest.raises(ValueError, match="undefined"):
        ref.alignment_error_rate(set(), set(), set())
