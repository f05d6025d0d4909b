# ruff: noqa: N803, N806
"""Slow, readable NumPy references that the torch code is tested against.

Written from the papers and the notes (docs/systems.md), not from the code: one example at a time, one position at
a time, float64.

Conventions: `mask` is bool, True = may attend. Matrices act on column vectors, W (out, in), unless a
docstring says otherwise. A recurrent `state` is the hidden vector h, or a tuple whose first item is h (LSTM:
(h, c)).
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

Score = Callable[[np.ndarray, np.ndarray], float]
State = np.ndarray | tuple[np.ndarray, ...]
Step = Callable[[np.ndarray, State], State]


def _array(x) -> np.ndarray:
    return np.asarray(x, dtype=np.float64)


def _affine(W, x, b=None) -> np.ndarray:
    """W x + b for one vector x; b may be None."""
    y = _array(W) @ _array(x)
    return y if b is None else y + _array(b)


def _sigmoid(x) -> np.ndarray:
    # 1 / (1 + exp(-x)), written with tanh because exp overflows for large negative x.
    return 0.5 * (1.0 + np.tanh(0.5 * _array(x)))


def _hidden(state: State) -> np.ndarray:
    return state[0] if isinstance(state, tuple) else state


# --- softmax and scores


def softmax_row(scores, allowed: Sequence[bool] | None = None) -> np.ndarray:
    """One row of weights: a_j = exp(e_j) / sum_{k allowed} exp(e_k) where allowed, 0 elsewhere.

    A row without allowed positions is all zeros. Forbidden scores are never read, so they may have any value,
    nan included; allowed ones must be finite. `allowed` None means that every position is allowed.

    Source: Bahdanau et al. 2015, arXiv:1409.0473, section 3.1.
    """
    scores = _array(scores)
    allowed = [True] * len(scores) if allowed is None else list(allowed)
    if len(allowed) != len(scores):
        raise ValueError(f"{len(scores)} scores but {len(allowed)} allowed")
    weights = np.zeros(len(scores))
    if not any(allowed):
        return weights
    highest = max(scores[j] for j in range(len(scores)) if allowed[j])
    for j in range(len(scores)):
        if allowed[j]:
            weights[j] = math.exp(scores[j] - highest)
    return weights / math.fsum(weights)


def dot(q, k) -> float:
    """e = q' k. Source: Luong et al. 2015, arXiv:1508.04025, section 3.1 (dot)."""
    return float(_array(q) @ _array(k))


def scaled_dot(q, k) -> float:
    """e = q' k / sqrt(d), d the width of q. Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1."""
    return dot(q, k) / math.sqrt(len(q))


def general(q, k, W) -> float:
    """e = q' W k, W (d_query, d_key). Source: Luong et al. 2015, arXiv:1508.04025, section 3.1 (general)."""
    return float(_array(q) @ (_array(W) @ _array(k)))


def additive(q, k, W_q, W_k, b, v) -> float:
    """e = v' tanh(W_q q + W_k k + b); b may be None.

    [W_q W_k] side by side is the one matrix of Luong's concat, v' tanh(W [q ; k]), and of docs/systems.md, B1, which
    have no b.

    Source: Bahdanau et al. 2015, arXiv:1409.0473, A.1.2 (which leaves its biases out); Luong et al. 2015,
    section 3.1 (concat).
    """
    inner = _affine(W_q, q) + _affine(W_k, k, b)
    return float(_array(v) @ np.tanh(inner))


def key_query(q, k, W_q, W_k) -> float:
    """e = (W_k k)' (W_q q), unscaled. Source: docs/systems.md, B2."""
    return float(_affine(W_k, k) @ _affine(W_q, q))


# --- attention


def attend(queries, keys, values, mask, score: Score) -> tuple[np.ndarray, np.ndarray]:
    """For each query i: e_ij = score(q_i, k_j), a_i = softmax_j(e_ij) over allowed j, c_i = sum_j a_ij v_j.

    Args:
        queries: (Q, d_query).
        keys: (K, d_key).
        values: (K, d_value).
        mask: (Q, K) bool, True = may attend, or None. Forbidden keys and values are never read.
        score: one query vector and one key vector to a number.

    Returns:
        context (Q, d_value) and weights (Q, K).

    Source: Bahdanau et al. 2015, section 3.1.
    """
    queries, keys, values = _array(queries), _array(keys), _array(values)
    num_queries, num_keys = len(queries), len(keys)
    if len(values) != num_keys:
        raise ValueError(f"{num_keys} keys but {len(values)} values")
    if mask is not None and np.shape(mask) != (num_queries, num_keys):
        raise ValueError(f"mask has shape {np.shape(mask)}, expected {(num_queries, num_keys)}")
    context = np.zeros((num_queries, values.shape[1]))
    weights = np.zeros((num_queries, num_keys))
    for i in range(num_queries):
        allowed = [True if mask is None else bool(mask[i][j]) for j in range(num_keys)]
        scores = [score(queries[i], keys[j]) if allowed[j] else math.nan for j in range(num_keys)]
        weights[i] = softmax_row(scores, allowed)
        for j in range(num_keys):
            if allowed[j]:
                context[i] += weights[i, j] * values[j]
    return context, weights


def padding_mask(lengths, max_length: int) -> np.ndarray:
    """(batch, max_length) bool: position j of row n is True iff j < lengths[n]."""
    mask = np.zeros((len(lengths), max_length), dtype=bool)
    for n in range(len(lengths)):
        for j in range(max_length):
            mask[n, j] = j < lengths[n]
    return mask


def causal_mask(Q: int, K: int) -> np.ndarray:
    """(Q, K) bool, aligned bottom-right: query i may see key j iff j <= i + K - Q.

    The last query is aligned with the last key, as in a step with cached keys. Q = K is the lower triangle of
    Vaswani et al. 2017, section 3.2.3. With Q > K the first Q - K queries may attend to no key.
    """
    mask = np.zeros((Q, K), dtype=bool)
    for i in range(Q):
        for j in range(K):
            mask[i, j] = j <= i + K - Q
    return mask


def multi_head(
    x_query, x_key, W_q, b_q, W_k, b_k, W_v, b_v, W_o, b_o, num_heads: int, mask
) -> tuple[np.ndarray, np.ndarray]:
    """head_h = softmax(Q_h K_h' / sqrt(d_head)) V_h; output = W_o [head_1 ; ... ; head_H] + b_o; one example.

    Args:
        x_query: (Q, d_in), gives the queries.
        x_key: (K, d_in_key), gives the keys and the values.
        W_q, W_k, W_v: (H * d_head, in), torch's convention y = x W' + b. Head h is the h-th consecutive slice
        of
            the projected width.
        W_o: (d_out, H * d_head_value).
        b_q, b_k, b_v, b_o: vectors, or None.
        num_heads: H.
        mask: (Q, K) bool, the same for every head, or None.

    Returns:
        output (Q, d_out) and weights (H, Q, K). A query that may attend to nothing has zero weights and
        output b_o.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """
    query = np.stack([_affine(W_q, x, b_q) for x in _array(x_query)])
    key = np.stack([_affine(W_k, x, b_k) for x in _array(x_key)])
    value = np.stack([_affine(W_v, x, b_v) for x in _array(x_key)])
    for name, width in (("queries", query.shape[1]), ("values", value.shape[1])):
        if width % num_heads:
            raise ValueError(f"width of the {name} is {width}, not a multiple of {num_heads} heads")
    d_head, d_head_value = query.shape[1] // num_heads, value.shape[1] // num_heads
    contexts, weights = [], []
    for h in range(num_heads):
        qk = slice(h * d_head, (h + 1) * d_head)
        vv = slice(h * d_head_value, (h + 1) * d_head_value)
        head_context, head_weights = attend(query[:, qk], key[:, qk], value[:, vv], mask, scaled_dot)
        contexts.append(head_context)
        weights.append(head_weights)
    output = []
    for i in range(len(query)):
        joined = np.concatenate([contexts[h][i] for h in range(num_heads)])
        output.append(_affine(W_o, joined, b_o))
    return np.stack(output), np.stack(weights)


def attention_layer(queries, inputs, W_k, W_v, mask=None) -> tuple[np.ndarray, np.ndarray]:
    """k = X W_k, v = X W_v, e_ij = q_j . k_i / sqrt(D), a = softmax over i, y_j = sum_i a_ij v_i.

    The matrices act from the right here, as in the notes: queries (M, D), inputs (N, d), W_k (d, D), W_v (d,
    d_value). D is the width of the queries. The notes index a by (input, query); returned are outputs (M,
    d_value) and weights (M, N), one row per query.

    Source: docs/systems.md, B7.
    """
    inputs = _array(inputs)
    keys = np.stack([x @ _array(W_k) for x in inputs])
    values = np.stack([x @ _array(W_v) for x in inputs])
    return attend(queries, keys, values, mask, scaled_dot)


# --- recurrent cells, one step for one example


def rnn_step(x, h, W_ih, W_hh, b_ih=None, b_hh=None) -> np.ndarray:
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh). Source: docs/systems.md, A3 (b_h = b_ih + b_hh); torch.nn.RNN."""
    return np.tanh(_affine(W_ih, x, b_ih) + _affine(W_hh, h, b_hh))


def lstm_gates(x, h, W_ih, W_hh, b_ih=None, b_hh=None) -> dict[str, np.ndarray]:
    """The four gates of one step by name: i, f, o = sigmoid(...), g = tanh(...) (the notes' candidate C~).

    Row blocks of the (4 d, in) matrices and (4 d,) biases are torch's: i, f, g, o.
    """
    stacked = _affine(W_ih, x, b_ih) + _affine(W_hh, h, b_hh)
    d = len(h)
    return {
        "i": _sigmoid(stacked[0:d]),
        "f": _sigmoid(stacked[d : 2 * d]),
        "g": np.tanh(stacked[2 * d : 3 * d]),
        "o": _sigmoid(stacked[3 * d : 4 * d]),
    }


def lstm_step(x, h, c, W_ih, W_hh, b_ih=None, b_hh=None) -> tuple[np.ndarray, np.ndarray]:
    """c' = f * c + i * g; h' = o * tanh(c'); returns (h', c'), gates from `lstm_gates`, stacked i, f, g, o.

    Equal to docs/systems.md, A4 with W_f = [W_hh block f, W_ih block f] acting on [h, x] and b_f the sum of the two
    biases; the same for i, C~ (our g) and o.

    Source: docs/systems.md, A4; Gers et al. 2000; stacking from torch.nn.LSTM.
    """
    gate = lstm_gates(x, h, W_ih, W_hh, b_ih, b_hh)
    c_next = gate["f"] * _array(c) + gate["i"] * gate["g"]
    return gate["o"] * np.tanh(c_next), c_next


def gru_gates_torch(x, h, W_ih, W_hh, b_ih=None, b_hh=None) -> dict[str, np.ndarray]:
    """The gates of one step of torch's GRU by name: r, z, and the candidate n; row blocks in that order."""
    from_x, from_h = _affine(W_ih, x, b_ih), _affine(W_hh, h, b_hh)
    d = len(h)
    r = _sigmoid(from_x[0:d] + from_h[0:d])
    z = _sigmoid(from_x[d : 2 * d] + from_h[d : 2 * d])
    n = np.tanh(from_x[2 * d : 3 * d] + r * from_h[2 * d : 3 * d])
    return {"r": r, "z": z, "n": n}


def gru_step_torch(x, h, W_ih, W_hh, b_ih=None, b_hh=None) -> np.ndarray:
    """r, z = sigmoid(...); n = tanh(W_in x + b_in + r * (W_hn h + b_hn)); h' = (1 - z) * n + z * h.

    The reset gate acts AFTER the matrix (and on its bias b_hn), and z weighs the old state.

    Source: torch.nn.GRU.
    """
    gate = gru_gates_torch(x, h, W_ih, W_hh, b_ih, b_hh)
    return (1.0 - gate["z"]) * gate["n"] + gate["z"] * _array(h)


def gru_gates_notes(x, h, W_z, W_r, W_h, b_z=None, b_r=None, b_h=None) -> dict[str, np.ndarray]:
    """The gates of one step of the notes' GRU by name: z, r, and the candidate "h~"."""
    x, h = _array(x), _array(h)
    z = _sigmoid(_affine(W_z, np.concatenate([h, x]), b_z))
    r = _sigmoid(_affine(W_r, np.concatenate([h, x]), b_r))
    candidate = np.tanh(_affine(W_h, np.concatenate([r * h, x]), b_h))
    return {"z": z, "r": r, "h~": candidate}


def gru_step_notes(x, h, W_z, W_r, W_h, b_z=None, b_r=None, b_h=None) -> np.ndarray:
    """z = s(W_z [h, x]); r = s(W_r [h, x]); h~ = tanh(W_h [r * h, x]); h' = (1 - z) * h + z * h~.

    Each W is (d, d + d_x) and acts on the state first, then the input. The reset gate acts BEFORE the matrix,
    and z weighs the candidate. The notes have no biases; each is added inside its bracket when given.

    Source: docs/systems.md, A5.
    """
    gate = gru_gates_notes(x, h, W_z, W_r, W_h, b_z, b_r, b_h)
    return (1.0 - gate["z"]) * _array(h) + gate["z"] * gate["h~"]


def run_rnn(step: Step, xs, state: State) -> tuple[np.ndarray, State]:
    """state_t = step(x_t, state_{t-1}) for t = 1..T; returns the hidden vectors (T, d) and the last state.

    Args:
        step: x and state to the next state, e.g. `lambda x, s: lstm_step(x, *s, W_ih, W_hh, b_ih, b_hh)`.
        xs: (T, d_in), one sequence of its true length.
        state: h, or (h, c).
    """
    hidden = []
    for x in _array(xs):
        state = step(x, state)
        hidden.append(_hidden(state))
    width = len(_hidden(state))
    return np.array(hidden, dtype=np.float64).reshape(len(hidden), width), state


def bidirectional(
    step_forward: Step, step_backward: Step, xs, h0: State, h0_backward: State | None = None
) -> np.ndarray:
    """Row t is [h_fwd(t) ; h_bwd(t)], h_bwd computed from x_T down to x_t; (T, 2 d).

    `h0` starts both directions unless `h0_backward` is given. xs has its true length: no padding. Row 0,
    second half, is the backward state that has read everything (it starts Bahdanau's decoder).

    Source: docs/systems.md, A6 (without its output layer); Schuster & Paliwal 1997; Bahdanau et al. 2015, section 3.2.
    """
    xs = _array(xs)
    forward, _ = run_rnn(step_forward, xs, h0)
    reversed_backward, _ = run_rnn(step_backward, xs[::-1], h0 if h0_backward is None else h0_backward)
    rows = []
    for t in range(len(xs)):
        rows.append(np.concatenate([forward[t], reversed_backward[len(xs) - 1 - t]]))
    return np.stack(rows)


# --- positions, decoder


def sinusoidal(length: int, d_model: int) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(pos / 10000^(2i / d)); (length, d).

    An odd d_model ends with a sine.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    """
    table = np.zeros((length, d_model))
    for position in range(length):
        for column in range(d_model):
            i = column // 2
            angle = position / 10000 ** (2 * i / d_model)
            table[position, column] = math.sin(angle) if column % 2 == 0 else math.cos(angle)
    return table


def bahdanau_decode(
    memory,
    first_backward,
    targets,
    W_s,
    b_s,
    W_q,
    W_k,
    b,
    v,
    cell: Step,
    mask: Sequence[bool] | None = None,
    initial_cell=None,
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """c_{t-1} = attend(s_{t-1}); s_t = cell([x'_t ; c_{t-1}], s_{t-1}) for t = 1..n; one example.

    s_0 = tanh(W_s h_1_backward + b_s); the score is additive(s_{t-1}, h_j).

    Args:
        memory: (m, d_h) encoder states: keys and values.
        first_backward: h_1 of the backward net, for s_0.
        targets: (n, d_x) embeddings x'_1 (the start token), x'_2, ...
        W_s, b_s: of s_0; b_s may be None.
        W_q, W_k, b, v: of `additive`; b may be None.
        cell: input [x' ; c] and state to the next state.
        mask: (m,) bool over the source, or None.
        initial_cell: None, or the c_0 of an LSTM cell: the state is then the tuple (s, cell).

    Returns:
        One (s_t, c_{t-1}, weights (m,)) per target; the weights are those that made c_{t-1}.

    Source: docs/systems.md, B1, B4; Bahdanau et al. 2015, arXiv:1409.0473, A.1.2 and A.2.2.
    """
    memory = _array(memory)
    s = np.tanh(_affine(W_s, first_backward, b_s))
    state: State = s if initial_cell is None else (s, _array(initial_cell))
    row_mask = None if mask is None else [list(mask)]
    steps = []
    for x in _array(targets):
        context, weights = attend(
            [_hidden(state)], memory, memory, row_mask, lambda q, k: additive(q, k, W_q, W_k, b, v)
        )
        state = cell(np.concatenate([x, context[0]]), state)
        steps.append((_hidden(state), context[0], weights[0]))
    return steps


def self_rnn(xs, state: State, cell: Step, score: Score, size: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """h_t = cell([x_t ; c_{t-1}], h_{t-1}), then c_t = sum_{i <= t} softmax(score(h_t, h_i)) h_i; c_0 = 0.

    Args:
        xs: (n, d_x), one sequence of its true length.
        state: State before the first step.
        cell: input [x ; c] and state to the next state.
        score: query h_t and key h_i to a number.
        size: the sum runs over the last `size` of them only; None for all.

    Returns:
        states (n, d) and weights (n, n), row t over positions 0 .. t.

    Source: docs/systems.md, B5.
    """
    xs = _array(xs)
    tape: list[np.ndarray] = []
    weights = np.zeros((len(xs), len(xs)))
    context = np.zeros(len(_hidden(state)))
    for t, x in enumerate(xs):
        state = cell(np.concatenate([x, context]), state)
        tape.append(_hidden(state))
        first = 0 if size is None else max(0, t + 1 - size)
        contexts, rows = attend([_hidden(state)], tape[first:], tape[first:], None, score)
        context, weights[t, first : t + 1] = contexts[0], rows[0]
    return np.stack(tape), weights


def lstmn(
    xs, d: int, score: Score, W_ih, W_hh, b_ih=None, b_hh=None, size: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """s^t = softmax over i < t of score([x_t ; h~_{t-1}], h_i); [h~_t ; c~_t] = sum_i s_i^t [h_i ; c_i]; then an
    LSTM step from (h~_t, c~_t). Both summaries are 0 at the first token. With `size`, i is one of the last `size`
    tokens before t.

    Returns:
        states (n, d) and weights (n, n), row t over positions 0 .. t - 1.

    Source: Cheng et al. 2016, arXiv:1601.06733, section 3.1, equations 4-9.
    """
    xs = _array(xs)
    hidden_tape: list[np.ndarray] = []
    cell_tape: list[np.ndarray] = []
    weights = np.zeros((len(xs), len(xs)))
    h_summary, c_summary = np.zeros(d), np.zeros(d)
    for t, x in enumerate(xs):
        if t > 0:
            first = 0 if size is None else max(0, t - size)
            scores = [score(np.concatenate([x, h_summary]), h) for h in hidden_tape[first:]]
            weights[t, first:t] = softmax_row(scores)
            h_summary, c_summary = np.zeros(d), np.zeros(d)
            for i in range(first, t):
                h_summary += weights[t, i] * hidden_tape[i]
                c_summary += weights[t, i] * cell_tape[i]
        h, c = lstm_step(x, h_summary, c_summary, W_ih, W_hh, b_ih, b_hh)
        hidden_tape.append(h)
        cell_tape.append(c)
    return np.stack(hidden_tape), weights


# --- whole texts


def learned_attention(states, W, b, u) -> tuple[np.ndarray, np.ndarray]:
    """u_t = tanh(W h_t + b); a = softmax_t(u_t' u); s = sum_t a_t h_t; returns s and a.

    Source: Yang et al. 2016, N16-1174, equations 5-7.
    """
    states = _array(states)
    weights = softmax_row([float(np.tanh(_affine(W, h, b)) @ _array(u)) for h in states])
    return sum(a * h for a, h in zip(weights, states, strict=True)), weights


def max_over_time(xs, filters, bias) -> np.ndarray:
    """max over windows i of relu(w . x_{i:i+h-1} + b), for each filter w (h, d); a short text is filled with zeros.

    Args:
        xs: (n, d), n >= 1.
        filters: (F, h, d).
        bias: (F,).

    Source: Kim 2014, arXiv:1408.5882, section 2.
    """
    xs, filters = _array(xs), _array(filters)
    height = filters.shape[1]
    if len(xs) < height:
        xs = np.concatenate([xs, np.zeros((height - len(xs), xs.shape[1]))])
    largest = []
    for w, b in zip(filters, _array(bias), strict=True):
        found = [max(0.0, float((w * xs[i : i + height]).sum()) + b) for i in range(len(xs) - height + 1)]
        largest.append(max(found))
    return np.array(largest)


# --- Transformer


def layer_norm(x, weight, bias, eps: float = 1e-5) -> np.ndarray:
    """(x - mean) / sqrt(var + eps) * weight + bias for one vector; var divides by the width, eps inside the root.

    Source: Ba et al. 2016, arXiv:1607.06450, section 3.
    """
    x = _array(x)
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return (x - mean) / math.sqrt(variance + eps) * _array(weight) + _array(bias)


def rms_norm(x, weight, eps: float = 1e-5) -> np.ndarray:
    """x / sqrt(mean of x_i^2 + eps) * weight for one vector.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467, equation 4; eps as in Llama.
    """
    x = _array(x)
    return x / math.sqrt(sum(value * value for value in x) / len(x) + eps) * _array(weight)


def gelu_tanh(x) -> np.ndarray:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2."""
    x = _array(x)
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def swiglu(gate, value) -> np.ndarray:
    """Swish_1(gate) * value, Swish_1(x) = x sigmoid(x); Shazeer 2020, arXiv:2002.05202, equations 5 and 6."""
    return _array(gate) * _sigmoid(gate) * _array(value)


def rotary(x, position: int) -> np.ndarray:
    """R x for one query or key: pair i = 1 .. d/2 rotated by position * 10000^(-2(i-1)/d).

    R is the block-diagonal matrix of the paper, written whole. Source: Su et al. 2021, arXiv:2104.09864, equation 15.
    """
    d = len(x)
    R = np.zeros((d, d))
    for i in range(1, d // 2 + 1):
        angle = position * 10000.0 ** (-2.0 * (i - 1) / d)
        a, b = 2 * i - 2, 2 * i - 1
        R[a, a], R[a, b] = math.cos(angle), -math.sin(angle)
        R[b, a], R[b, b] = math.sin(angle), math.cos(angle)
    return R @ _array(x)


def relu(x) -> np.ndarray:
    """max(0, x)."""
    return np.maximum(0, x)


def gelu(x) -> np.ndarray:
    """x Phi(x), Phi the distribution function of the standard normal; Hendrycks and Gimpel 2016, section 2."""
    return np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in _array(x)])


def silu(x) -> np.ndarray:
    """x / (1 + exp(-x)); Ramachandran et al. 2017, section 4 (swish with beta 1)."""
    return np.array([v / (1 + math.exp(-v)) for v in _array(x)])


def feed_forward(x, W_1, b_1, W_2, b_2, activation: Callable = relu) -> np.ndarray:
    """g(x W_1 + b_1) W_2 + b_2 for one vector, g = relu in Vaswani et al. 2017, section 3.3."""
    return _affine(W_2, activation(_affine(W_1, x, b_1)), b_2)


def transformer_block(xs, sublayers: Sequence[tuple[Callable, Callable]], pre: bool) -> np.ndarray:
    """One block over a sequence (n, d): sublayers in turn, each with a residual connection and a norm.

    Args:
        xs: (n, d).
        sublayers: Pairs (f, norm): f maps a sequence to a sequence, norm a vector to a vector.
        pre: x + f(norm(x)) instead of norm(x + f(x)).

    Source: Vaswani et al. 2017, section 3.1; pre-norm as Xiong et al. 2020, arXiv:2002.04745, figure 1.
    """
    xs = _array(xs)
    for sublayer, norm in sublayers:
        if pre:
            xs = xs + sublayer(np.stack([norm(x) for x in xs]))
        else:
            ys = sublayer(xs)
            xs = np.stack([norm(x + y) for x, y in zip(xs, ys, strict=True)])
    return xs


# --- pictures


def convolution(picture, filters, bias=None, stride: int = 1, padding: int = 0) -> np.ndarray:
    """(channels, H, W) and filters (F, channels, k, k) to (F, rows, columns); zeros around the picture.

    No filter is flipped: "convolution" as in LeCun et al. 1998, section II.
    """
    picture, filters = _array(picture), _array(filters)
    channels, height, width = picture.shape
    size = filters.shape[2]
    wide = np.zeros((channels, height + 2 * padding, width + 2 * padding))
    wide[:, padding : padding + height, padding : padding + width] = picture
    rows, columns = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
    result = np.zeros((len(filters), rows, columns))
    for f in range(len(filters)):
        for i in range(rows):
            for j in range(columns):
                window = wide[:, i * stride : i * stride + size, j * stride : j * stride + size]
                result[f, i, j] = float((filters[f] * window).sum()) + (0.0 if bias is None else float(bias[f]))
    return result


def max_pool(picture, size: int, stride: int, padding: int = 0) -> np.ndarray:
    """Max pooling: the largest number of each window of each channel; windows may reach `padding` over the edges."""
    picture = _array(picture)
    channels, height, width = picture.shape
    rows, columns = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
    result = np.zeros((channels, rows, columns))
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride - padding, j * stride - padding
            inside = picture[:, max(0, top) : top + size, max(0, left) : left + size]
            result[:, i, j] = inside.max(axis=(1, 2))
    return result


def batch_norm(picture, mean, variance, weight, bias, eps: float = 1e-5) -> np.ndarray:
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel, with given statistics.

    Source: Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 2.
    """
    parts = zip(_array(picture), mean, variance, weight, bias, strict=True)
    return np.stack([(x - m) / math.sqrt(v + eps) * w + b for x, m, v, w, b in parts])


def patches(picture, size: int, stride: int) -> np.ndarray:
    """The patches of a picture (channels, H, W), row by row, each flattened channel by channel, then row by row.

    Source: Dosovitskiy et al. 2021, arXiv:2010.11929, section 3.1.
    """
    picture = _array(picture)
    channels, height, width = picture.shape
    found = []
    for top in range(0, height - size + 1, stride):
        for left in range(0, width - size + 1, stride):
            numbers = [picture[c, top + i, left + j] for c in range(channels) for i in range(size) for j in range(size)]
            found.append(numbers)
    return np.array(found)


def sinusoidal_grid(rows: int, columns: int, d: int) -> np.ndarray:
    """Positions of a grid, row by row: the sinusoids of the row, d / 2 wide, then those of the column."""
    of_rows, of_columns = sinusoidal(rows, d // 2), sinusoidal(columns, d // 2)
    return np.array([np.concatenate([of_rows[i], of_columns[j]]) for i in range(rows) for j in range(columns)])


# --- tags


def crf_sequences(emissions, start, transitions, end) -> dict[tuple[int, ...], float]:
    """Score of every tag sequence of one sentence: start + emissions + transitions + end; -inf forbids.

    Args:
        emissions: (n, K), n >= 1.
        start, end: (K,).
        transitions: (K, K), row: the tag before.

    Source: Lample et al. 2016, arXiv:1603.01360, section 2.2. Exponential: K ** n sequences.
    """
    emissions = _array(emissions)
    num_words, num_tags = emissions.shape
    scores = {}
    for tags in itertools.product(range(num_tags), repeat=num_words):
        score = float(start[tags[0]]) + float(end[tags[-1]])
        for t, tag in enumerate(tags):
            score += float(emissions[t, tag])
            if t > 0:
                score += float(transitions[tags[t - 1], tag])
        scores[tags] = score
    return scores


# --- losses, search


def log_softmax(logits) -> np.ndarray:
    """log p_i = x_i - log sum_j exp(x_j), for one vector."""
    logits = _array(logits)
    highest = float(max(logits))
    log_sum = highest + math.log(math.fsum(math.exp(x - highest) for x in logits))
    return np.array([x - log_sum for x in logits])


def cross_entropy_smoothed(logits, target: int, smoothing: float = 0.0) -> float:
    """(1 - eps) (-log p_target) + eps * (1 / V) sum_i -log p_i, for one position.

    Source: Szegedy et al. 2016, arXiv:1512.00567, section 7 (the uniform prior includes the target);
    torch.nn.functional.cross_entropy(label_smoothing=eps).
    """
    log_p = log_softmax(logits)
    uniform = math.fsum(-x for x in log_p) / len(log_p)
    return float((1.0 - smoothing) * -log_p[target] + smoothing * uniform)


def exhaustive_search(
    next_log_probs: Callable[[tuple[int, ...]], np.ndarray],
    eos: int,
    max_length: int,
    min_length: int = 0,
    length_penalty: float = 0.0,
) -> list[tuple[float, tuple[int, ...]]]:
    """Every finished sequence with score = log p / length ** length_penalty, best first.

    A sequence is finished when it ends with eos, or has max_length tokens without one. Length counts eos, so
    a sequence never has more than max_length tokens. eos is forbidden after fewer than min_length tokens,
    without renormalising the other probabilities. Impossible sequences (log p =
    -inf) are left out. Ties are sorted by tokens. Exponential: V ** max_length sequences.

    Source: the definition of the search problem; a plain power of the length, not the
    ((5 + n) / 6) ** alpha of Wu et al. 2016.
    """
    if max_length < 1:
        raise ValueError(f"max_length is {max_length}, expected at least 1")
    finished = []

    def extend(prefix: tuple[int, ...], log_p: float) -> None:
        if len(prefix) == max_length or (prefix and prefix[-1] == eos):
            finished.append((log_p / len(prefix) ** length_penalty, prefix))
            return
        log_probs = _array(next_log_probs(prefix))
        for token in range(len(log_probs)):
            if token == eos and len(prefix) < min_length:
                continue
            if log_probs[token] == -math.inf:
                continue
            extend((*prefix, token), log_p + float(log_probs[token]))

    extend((), 0.0)
    return sorted(finished, key=lambda item: (-item[0], item[1]))
