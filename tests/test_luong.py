"""Luong's model is the paper's equations (docs/systems.md, B3), with copied weights."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import heed
import reference as ref
from equations import LENGTHS, MASK, SOURCE, TARGET, TIGHT, array, hidden_of, sharpened, step_of
from heed.attention import Rows
from heed.models.luong import Luong, LuongConfig

D_EMBEDDING, D = 4, 3


def make_model(**fields):
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


def reference_decode(model, b):
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
    model = make_model(cell=cell, score=score, input_feeding=input_feeding)
    with torch.no_grad(), heed.trace(model) as seen:
        hidden = model(SOURCE, MASK, TARGET)
    maps = seen.maps("cross", head=0)
    for b, length in enumerate(LENGTHS):
        attentional, contexts, weights = reference_decode(model, b)
        assert_close(hidden[b], attentional, **TIGHT)
        assert_close(maps.context[b], contexts, **TIGHT)
        assert_close(maps.weights[b, :, :length], weights, **TIGHT)
        assert not maps.weights[b, :, length:].any()


@pytest.mark.parametrize("input_feeding", [False, True], ids=["whole", "feeding"])
def test_maps_and_gates_of_the_whole_target_are_those_of_its_steps(input_feeding):
    model = make_model(input_feeding=input_feeding)
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
