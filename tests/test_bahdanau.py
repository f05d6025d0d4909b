"""Bahdanau's model is the paper's equations and the notes' (docs/systems.md, B1, B2, B4), with copied weights."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import heed
import reference as ref
from equations import LENGTHS, MASK, SOURCE, TARGET, TIGHT, array, sharpened, step_of
from heed.attention import Rows
from heed.models.bahdanau import Bahdanau, BahdanauConfig

D_EMBEDDING, D = 4, 3


def make_model(**fields):
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 11, "target_vocab_size": 11, "d_embedding": D_EMBEDDING, "d_hidden": D}
    return sharpened(Bahdanau(BahdanauConfig(**{**sizes, "d_attention": 5, **fields})).double().eval())


def notes_step(cell):
    """The notes' B4 as written: s_t = tanh(A' [x'_t ; s_{t-1} ; c_{t-1}] + b), one matrix on all three."""
    w_ih, w_hh = array(cell.w_ih), array(cell.w_hh)
    A = np.hstack([w_ih[:, :D_EMBEDDING], w_hh, w_ih[:, D_EMBEDDING:]])  # noqa: N806
    b = array(cell.b_ih) + array(cell.b_hh)

    def step(x_and_context, s):
        x, context = x_and_context[:D_EMBEDDING], x_and_context[D_EMBEDDING:]
        return np.tanh(A @ np.concatenate([x, s, context]) + b)

    return step


def reference_decode(model, b, step):
    """States, contexts and weights of one example, from its true length."""
    length, score, lstm = LENGTHS[b], model.attention.score, model.cell.cell == "lstm"
    xs = array(model.source_embedding.weight)[SOURCE[b, :length].numpy()]
    zero = (np.zeros(D), np.zeros(D)) if lstm else np.zeros(D)
    encoder = [step_of(cells[0]) for cells in (model.encoder.forward_cells, model.encoder.backward_cells)]
    memory = ref.bidirectional(*encoder, xs, zero)
    steps = ref.bahdanau_decode(
        memory,
        memory[0, D:],
        array(model.target_embedding.weight)[TARGET[b].numpy()],
        array(model.initial.weight),
        None,
        array(score.w_query.weight),
        array(score.w_key.weight),
        array(score.w_key.bias),
        array(score.v),
        step,
        initial_cell=np.zeros(D) if lstm else None,
    )
    return tuple(torch.from_numpy(np.stack(part)) for part in zip(*steps, strict=True))


@pytest.mark.parametrize("form", ["rnn", "rnn as the notes write it", "gru", "lstm"])
def test_states_contexts_and_weights_are_the_reference(form):
    model = make_model(cell=form.split()[0])
    step = notes_step(model.cell) if "notes" in form else step_of(model.cell)
    with torch.no_grad(), heed.trace(model) as seen:
        hidden = model(SOURCE, MASK, TARGET)
    states, contexts = hidden.split([D, 2 * D], dim=-1)
    weights = seen.maps("cross", head=0).weights
    assert len(seen.attention_records) == TARGET.shape[1]
    for b, length in enumerate(LENGTHS):
        expected_states, expected_contexts, expected_weights = reference_decode(model, b, step)
        assert_close(states[b], expected_states, **TIGHT)
        assert_close(contexts[b], expected_contexts, **TIGHT)
        assert_close(weights[b, :, :length], expected_weights, **TIGHT)
        assert not weights[b, :, length:].any()


NOTES = {"cell": "rnn", "bidirectional": False, "first_state": "copied", "score": "concat"}


def notes_decode(model, b):
    """The notes' set-up, equation by equation: one direction, s_0 = h_m, no bias in the alignment, nothing of heed."""
    words, written = array(model.source_embedding.weight), array(model.target_embedding.weight)
    encoder, score, step = model.encoder.forward_cells[0], model.attention.score, notes_step(model.cell)
    w_hx, w_hh, b_h = array(encoder.w_ih), array(encoder.w_hh), array(encoder.b_ih) + array(encoder.b_hh)
    h, states = np.zeros(D), []
    for x in words[SOURCE[b, : LENGTHS[b]].numpy()]:
        h = np.tanh(w_hh @ h + w_hx @ x + b_h)
        states.append(h)
    W, v = np.hstack([array(score.w_key.weight), array(score.w_query.weight)]), array(score.v)  # noqa: N806
    s, rows = states[-1], []  # s_0 = h_m
    for x in written[TARGET[b].numpy()]:
        scores = np.array([v @ np.tanh(W @ np.concatenate([h_i, s])) for h_i in states])
        a = np.exp(scores) / np.exp(scores).sum()
        context = sum(a_i * h_i for a_i, h_i in zip(a, states, strict=True))
        s = step(np.concatenate([x, context]), s)
        rows.append(np.concatenate([s, context]))
    return torch.from_numpy(np.stack(rows))


def test_the_set_up_of_the_notes_can_be_chosen():
    model = make_model(**NOTES)
    hidden = model(SOURCE, MASK, TARGET)
    for b in range(len(SOURCE)):
        assert_close(hidden[b], notes_decode(model, b), **TIGHT)
    names = set(model.state_dict())
    assert not {name for name in names if "backward" in name or name.startswith("initial") or "w_key.bias" in name}


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_copied_first_state_is_the_whole_last_state_of_the_encoder(cell, bidirectional):
    model = make_model(cell=cell, bidirectional=bidirectional, first_state="copied", num_layers=2)
    memory = model.encode(SOURCE, MASK)
    _, finals = model.encoder(model.source_embedding(SOURCE), MASK)
    started = model.start(memory, Rows(torch.tensor([2, 0, 1]), 3)).states
    assert len(started) == len(started[0]) == 1 and len(started[0][0]) == len(finals[-1][-1])
    for part, final in zip(started[0][0], finals[-1][-1], strict=True):
        assert_close(part, final[[2, 0, 1]], **TIGHT)


def test_with_lexical_the_output_also_reads_the_words_looked_at():
    model = make_model(lexical=True, d_readout=5)
    with torch.no_grad(), heed.trace(model) as seen:
        hidden = model(SOURCE, MASK, TARGET)
    assert hidden.shape[-1] == 5 + D_EMBEDDING
    words, w, b = (array(p) for p in (model.source_embedding.weight, model.lexical.weight, model.lexical.bias))
    for row, weights in enumerate(seen.maps("cross", head=0).weights):
        for t, of_step in enumerate(array(weights)):
            looked_at = np.tanh(of_step @ words[SOURCE[row].numpy()])
            expected = np.tanh(w @ looked_at + b) + looked_at
            assert_close(hidden[row, t, 5:], torch.from_numpy(expected), **TIGHT)


def test_dropped_tokens_are_dropped_whole_and_only_in_training():
    model = make_model(token_dropout=0.5)
    ones = torch.ones(40, 20, D_EMBEDDING, dtype=torch.double)
    assert_close(model.token_dropout(ones), ones)
    dropped = model.train().token_dropout(ones)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert_close(dropped.amin(-1), dropped.amax(-1))
    assert 0.4 < (dropped == 0).double().mean() < 0.6
