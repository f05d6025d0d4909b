"""Bahdanau's, Luong's and the plain encoder-decoder are their equations (docs/systems.md), with copied weights."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import heed
import reference as ref
from equations import LENGTHS, MASK, SOURCE, TARGET, TIGHT, array, hidden_of, sharpened, step_of
from heed.attention import Rows
from heed.models.bahdanau import Bahdanau, BahdanauConfig
from heed.models.luong import Luong, LuongConfig
from heed.models.seq2seq import Seq2Seq, Seq2SeqConfig

D_EMBEDDING, D = 4, 3


def make_bahdanau(**fields):
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


def bahdanau_reference(model, b, step):
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
    model = make_bahdanau(cell=form.split()[0])
    step = notes_step(model.cell) if "notes" in form else step_of(model.cell)
    with torch.no_grad(), heed.trace(model) as seen:
        hidden = model(SOURCE, MASK, TARGET)
    states, contexts = hidden.split([D, 2 * D], dim=-1)
    weights = seen.maps("cross", head=0).weights
    assert len(seen.attention_records) == TARGET.shape[1]
    for b, length in enumerate(LENGTHS):
        expected_states, expected_contexts, expected_weights = bahdanau_reference(model, b, step)
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
    model = make_bahdanau(**NOTES)
    hidden = model(SOURCE, MASK, TARGET)
    for b in range(len(SOURCE)):
        assert_close(hidden[b], notes_decode(model, b), **TIGHT)
    names = set(model.state_dict())
    assert not {name for name in names if "backward" in name or name.startswith("initial") or "w_key.bias" in name}


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_copied_first_state_is_the_whole_last_state_of_the_encoder(cell, bidirectional):
    model = make_bahdanau(cell=cell, bidirectional=bidirectional, first_state="copied", num_layers=2)
    memory = model.encode(SOURCE, MASK)
    _, finals = model.encoder(model.source_embedding(SOURCE), MASK)
    started = model.start(memory, Rows(torch.tensor([2, 0, 1]), 3)).states
    assert len(started) == len(started[0]) == 1 and len(started[0][0]) == len(finals[-1][-1])
    for part, final in zip(started[0][0], finals[-1][-1], strict=True):
        assert_close(part, final[[2, 0, 1]], **TIGHT)


def test_with_lexical_the_output_also_reads_the_words_looked_at():
    model = make_bahdanau(lexical=True, d_readout=5)
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
    model = make_bahdanau(token_dropout=0.5)
    ones = torch.ones(40, 20, D_EMBEDDING, dtype=torch.double)
    assert_close(model.token_dropout(ones), ones)
    dropped = model.train().token_dropout(ones)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert_close(dropped.amin(-1), dropped.amax(-1))
    assert 0.4 < (dropped == 0).double().mean() < 0.6


# --- Luong's model is the paper's equations (docs/systems.md, B3), with copied weights


def make_luong(**fields):
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 11, "target_vocab_size": 11, "d_embedding": D_EMBEDDING, "d_hidden": D}
    return sharpened(Luong(LuongConfig(**{**sizes, "d_attention": 5, "num_layers": 2, **fields})).double().eval())


def pair_score(model):
    score, name = model.attention.score, model.config.score
    if name == "dot":
        return ref.dot
    if name == "general":
        return lambda q, k: ref.general(q, k, array(score.w_key.weight))
    w_q, w_k = array(score.w_query.weight), array(score.w_key.weight)
    if name == "key_query":
        return lambda q, k: ref.key_query(q, k, w_q, w_k)
    assert name == "concat"
    return lambda q, k: ref.additive(q, k, w_q, w_k, None, array(score.v))


def luong_reference(model, b):
    """h~_t, c_t and a_t of one example, from its true length, one layer of one token at a time."""
    lstm = model.config.cell == "lstm"
    memory = array(model.source_embedding.weight)[SOURCE[b, : LENGTHS[b]].numpy()]
    states = []
    for cell in model.encoder.forward_cells:
        memory, final = ref.run_rnn(step_of(cell), memory, (np.zeros(D), np.zeros(D)) if lstm else np.zeros(D))
        states.append(final)
    attentional, rows = np.zeros(D), []
    for x in array(model.target_embedding.weight)[TARGET[b].numpy()]:
        below = np.concatenate([x, attentional]) if model.config.input_feeding else x
        for layer, cell in enumerate(model.decoder.forward_cells):
            states[layer] = step_of(cell)(below, states[layer])
            below = hidden_of(states[layer])
        context, weights = ref.attend([below], memory, memory, None, pair_score(model))
        attentional = np.tanh(array(model.combine.weight) @ np.concatenate([context[0], below]))
        rows.append((attentional, context[0], weights[0]))
    return tuple(torch.from_numpy(np.stack(part)) for part in zip(*rows, strict=True))


@pytest.mark.parametrize(
    ("cell", "score", "input_feeding"),
    [
        ("rnn", "dot", False),
        ("lstm", "general", True),
        ("gru", "concat", False),
        ("rnn", "key_query", True),
        ("lstm", "dot", False),
        ("gru", "general", True),
        ("lstm", "concat", True),
        ("gru", "key_query", False),
    ],
)
def test_outputs_contexts_and_weights_are_the_reference(cell, score, input_feeding):
    model = make_luong(cell=cell, score=score, input_feeding=input_feeding)
    with torch.no_grad(), heed.trace(model) as seen:
        hidden = model(SOURCE, MASK, TARGET)
    maps = seen.maps("cross", head=0)
    for b, length in enumerate(LENGTHS):
        attentional, contexts, weights = luong_reference(model, b)
        assert_close(hidden[b], attentional, **TIGHT)
        assert_close(maps.context[b], contexts, **TIGHT)
        assert_close(maps.weights[b, :, :length], weights, **TIGHT)
        assert not maps.weights[b, :, length:].any()


@pytest.mark.parametrize("input_feeding", [False, True], ids=["whole", "feeding"])
def test_maps_and_gates_of_the_whole_target_are_those_of_its_steps(input_feeding):
    model = make_luong(input_feeding=input_feeding)
    with torch.no_grad():
        with heed.trace(model) as whole:
            model(SOURCE, MASK, TARGET)
        with heed.trace(model) as stepped:
            state = model.start(model.encode(SOURCE, MASK), Rows.repeat(3))
            for token in TARGET.split(1, dim=1):
                _, state = model.step(token, state)
    assert len(whole.attention_records) == (TARGET.shape[1] if input_feeding else 1)
    assert len(stepped.attention_records) == TARGET.shape[1]
    for name in ("weights", "scores", "context"):
        ours, theirs = (getattr(seen.maps("cross"), name)[0] for seen in (whole, stepped))  # the first is not padded
        assert_close(ours, theirs, **TIGHT)
    assert whole.gates().keys() == stepped.gates().keys()
    for cell, gates in whole.gates().items():
        for name, gate in gates.items():
            assert_close(gate, stepped.gates()[cell][name], **TIGHT)


# --- The encoder-decoder without attention is its equations (docs/systems.md, A7), with copied weights


def make_seq2seq(**fields):
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 11, "target_vocab_size": 11, "d_embedding": D_EMBEDDING, "d_hidden": D}
    return sharpened(Seq2Seq(Seq2SeqConfig(**sizes, **fields)).double().eval())


def reference_summary(model, b):
    """The decoder's first state, layer by layer, from the source at its true length, one position at a time."""
    config, lstm = model.config, model.config.cell == "lstm"
    xs = array(model.source_embedding.weight)[SOURCE[b, : LENGTHS[b]].numpy()]
    states = []
    for layer in range(config.num_layers):
        zero = (np.zeros(D), np.zeros(D)) if lstm else np.zeros(D)
        outputs, final = ref.run_rnn(step_of(model.encoder.forward_cells[layer]), xs, zero)
        runs, finals = [outputs], [final]
        if config.bidirectional:
            outputs, final = ref.run_rnn(step_of(model.encoder.backward_cells[layer]), xs[::-1], zero)
            runs, finals = [*runs, outputs[::-1]], [*finals, final]
        xs = np.concatenate(runs, axis=1)
        if not config.bidirectional:
            states.append(finals[0])
            continue
        w = array(model.bridge.hidden[layer].weight)
        first = np.tanh(w @ np.concatenate([hidden_of(final) for final in finals]))
        if lstm:
            first = first, array(model.bridge.cell[layer].weight) @ np.concatenate([final[1] for final in finals])
        states.append(first)
    return states


def seq2seq_reference(model, b):
    """What predicts each token, one layer of one token at a time."""
    states = reference_summary(model, b)
    c = [hidden_of(states[-1])] if model.config.summary == "each_step" else []
    out = []
    for x in array(model.target_embedding.weight)[TARGET[b].numpy()]:
        below = np.concatenate([x, *c])
        for layer, cell in enumerate(model.decoder.forward_cells):
            states[layer] = step_of(cell)(below, states[layer])
            below = hidden_of(states[layer])
        seen = np.concatenate([below, *c])
        if model.readout is not None:
            w, bias = array(model.readout.weight), array(model.readout.bias)
            seen = np.tanh(w @ np.concatenate([seen, x]) + bias)
        out.append(seen)
    return torch.from_numpy(np.stack(out))


@pytest.mark.parametrize(
    ("cell", "num_layers", "bidirectional", "summary", "d_readout"),
    [
        ("rnn", 1, False, "start", None),
        ("lstm", 1, True, "each_step", 2),
        ("gru", 2, False, "each_step", None),
        ("rnn", 2, True, "each_step", 2),
        ("lstm", 2, True, "start", None),
        ("gru", 1, True, "start", 2),
        ("lstm", 2, False, "start", 2),
    ],
)
def test_every_form_is_the_reference(cell, num_layers, bidirectional, summary, d_readout):
    model = make_seq2seq(
        cell=cell, num_layers=num_layers, bidirectional=bidirectional, summary=summary, d_readout=d_readout
    )
    with torch.no_grad():
        hidden = model(SOURCE, MASK, TARGET)
    for b in range(len(SOURCE)):
        assert_close(hidden[b], seq2seq_reference(model, b), **TIGHT)


def test_the_simple_cell_from_the_start_is_the_notes_equation():
    # docs/systems.md, A7 as written: s_0 = h_m; s_t = tanh(A' [x'_t ; s_{t-1}] + b), one matrix on both
    model = make_seq2seq(cell="rnn", summary="start")
    assert not list(model.bridge.parameters())
    cell = model.decoder.forward_cells[0]
    A, b = torch.cat([cell.w_ih, cell.w_hh], dim=1), cell.b_ih + cell.b_hh  # noqa: N806
    states, _ = model.encoder(model.source_embedding(SOURCE[:1]))
    s, hidden = states[0, -1], model(SOURCE[:1], MASK[:1], TARGET[:1])  # h_m
    for t, x in enumerate(model.target_embedding(TARGET[0])):
        s = torch.tanh(A @ torch.cat([x, s]) + b)
        assert_close(hidden[0, t], s, **TIGHT)


@pytest.mark.parametrize("summary", ["start", "each_step"])
def test_the_summary_is_all_the_decoder_knows_of_the_source(summary):
    # two sources of other lengths and words, one summary: the same outputs
    model = make_seq2seq(cell="lstm", num_layers=2, summary=summary)
    memory = model.encode(SOURCE, MASK)
    assert memory.keys == () and memory.summary.shape == (3, 2 * 2 * D)
    memory.summary[1:] = memory.summary[:1].clone()
    same = TARGET[:1].expand(3, -1)
    hidden, _ = model.step(same, model.start(memory, Rows.repeat(3)))
    assert_close(hidden[1:], hidden[:1].expand(2, -1, -1), **TIGHT)
