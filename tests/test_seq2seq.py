"""The encoder-decoder without attention is its equations (docs/systems.md, A7), with copied weights."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import LENGTHS, MASK, SOURCE, TARGET, TIGHT, array, hidden_of, sharpened, step_of
from heed.attention import Rows
from heed.models.seq2seq import Seq2Seq, Seq2SeqConfig

D_EMBEDDING, D = 4, 3


def make_model(**fields):
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


def reference_decode(model, b):
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
    model = make_model(
        cell=cell, num_layers=num_layers, bidirectional=bidirectional, summary=summary, d_readout=d_readout
    )
    with torch.no_grad():
        hidden = model(SOURCE, MASK, TARGET)
    for b in range(len(SOURCE)):
        assert_close(hidden[b], reference_decode(model, b), **TIGHT)


def test_the_simple_cell_from_the_start_is_the_notes_equation():
    # docs/systems.md, A7 as written: s_0 = h_m; s_t = tanh(A' [x'_t ; s_{t-1}] + b), one matrix on both
    model = make_model(cell="rnn", summary="start")
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
    model = make_model(cell="lstm", num_layers=2, summary=summary)
    memory = model.encode(SOURCE, MASK)
    assert memory.keys == () and memory.summary.shape == (3, 2 * 2 * D)
    memory.summary[1:] = memory.summary[:1].clone()
    same = TARGET[:1].expand(3, -1)
    hidden, _ = model.step(same, model.start(memory, Rows.repeat(3)))
    assert_close(hidden[1:], hidden[:1].expand(2, -1, -1), **TIGHT)
