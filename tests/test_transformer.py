"""The Transformer is the paper's equations (docs/systems.md, C2-C6), with copied weights; one layer alone is C1."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import LENGTHS, MASK, SOURCE, TARGET, array, sharpened
from heed.errors import ConfigError
from heed.models.attention_only import AttentionOnly, AttentionOnlyConfig
from heed.models.transformer import Transformer, TransformerConfig

TIGHT = {"rtol": 0, "atol": 1e-6}  # positions are float32


def make_model(**fields):
    torch.manual_seed(0)
    sizes = {"source_vocab_size": 11, "target_vocab_size": 11, "d_model": 8, "num_heads": 2, "num_layers": 2}
    model = Transformer(TransformerConfig(**{**sizes, "d_ff": 12, **fields})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))  # norms and biases away from one and zero
    return model


def parts(attention):
    sides = (attention.w_query, attention.w_key, attention.w_value, attention.w_out)
    return [array(p) for side in sides for p in (side.weight, side.bias)]


def norm_of(layer_norm, eps):
    return lambda x: ref.layer_norm(x, array(layer_norm.weight), array(layer_norm.bias), eps)


def attend_with(attention, heads, memory=None, mask=None):
    def sublayer(xs):
        return ref.multi_head(xs, xs if memory is None else memory, *parts(attention), heads, mask)[0]

    return sublayer


def feed_forward_of(module, activation):
    w = [array(p) for layer in (module.inner, module.outer) for p in (layer.weight, layer.bias)]
    return lambda xs: np.stack([ref.feed_forward(x, *w, getattr(ref, activation)) for x in xs])


def reference_hidden(model, source, target):
    """One example, source without padding, by the equations."""
    c = model.config
    pre, heads, decoder_heads = c.norm == "pre", c.num_heads, c.decoder_heads or c.num_heads

    def norm(module):
        return norm_of(module, c.norm_eps)

    def embed(table, module, tokens):
        positions = (
            ref.sinusoidal(len(tokens), c.d_model)
            if c.positions == "sinusoidal"
            else array(model.positions.table.weight)[: len(tokens)]
        )
        scale = math.sqrt(c.d_model) if c.scaled_embeddings else 1
        embedded = scale * array(table.weight)[tokens] + positions
        return np.stack([norm(module)(x) for x in embedded]) if c.normalized_embeddings else embedded

    xs = embed(model.source_embedding, model.source_embedding_norm, source)
    for block in model.encoder:
        around = (block.around_attention.norm, block.around_feed_forward.norm)
        sublayers = (attend_with(block.attention, heads), feed_forward_of(block.feed_forward, c.activation))
        xs = ref.transformer_block(xs, [(f, norm(n)) for f, n in zip(sublayers, around, strict=True)], pre)
    if pre:
        xs = np.stack([norm(model.encoder_norm)(x) for x in xs])
    ys = embed(model.target_embedding, model.target_embedding_norm, target)
    causal = ref.causal_mask(len(ys), len(ys))
    for block in model.decoder:
        around = (block.around_attention.norm, block.around_cross.norm, block.around_feed_forward.norm)
        sublayers = (
            attend_with(block.attention, decoder_heads, mask=causal),
            attend_with(block.cross, decoder_heads, memory=xs),
            feed_forward_of(block.feed_forward, c.activation),
        )
        ys = ref.transformer_block(ys, [(f, norm(n)) for f, n in zip(sublayers, around, strict=True)], pre)
    return np.stack([norm(model.decoder_norm)(y) for y in ys]) if pre else ys


FIELDS = {
    "sinusoidal": {},
    "learned": {"positions": "learned"},
    "unequal": {"num_layers": 1, "decoder_layers": 3, "decoder_heads": 4, "decoder_d_ff": 5},
    "gelu": {"activation": "gelu"},
    "gelu-tanh": {"activation": "gelu_tanh"},
    "silu": {"activation": "silu"},
    "eps": {"norm_eps": 0.1},
    "unscaled": {"scaled_embeddings": False},
    "as-bert": {"scaled_embeddings": False, "normalized_embeddings": True, "norm_eps": 1e-12, "activation": "gelu"},
}


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_hidden_states_are_the_reference(fields, norm):
    model = make_model(norm=norm, **fields)
    hidden = model(SOURCE, MASK, TARGET)
    for row, length in enumerate(LENGTHS):
        expected = reference_hidden(model, SOURCE[row, :length].tolist(), TARGET[row].tolist())
        assert_close(hidden[row], torch.from_numpy(expected), **TIGHT)


def test_a_tied_output_layer_is_the_target_table():
    model = make_model(tied_output=True)
    hidden = model(SOURCE, MASK, TARGET)
    expected = hidden @ model.target_embedding.weight.T + model.output.bias
    assert_close(model.logits(hidden), expected)
    assert make_model(tied_output=False).output.weight is not model.target_embedding.weight


def test_shared_embeddings_are_one_table_and_need_one_vocabulary():
    model = make_model(shared_embeddings=True)
    assert model.source_embedding.weight is model.target_embedding.weight
    with pytest.raises(ConfigError, match=r"vocabulary has 11 tokens and .* 12; set tokenizer\.shared=true"):
        make_model(shared_embeddings=True, target_vocab_size=12)


# --- one attention layer alone


def make_layer_alone(**fields):
    torch.manual_seed(0)
    config = AttentionOnlyConfig(source_vocab_size=11, target_vocab_size=11, d_model=6, **fields)
    model = sharpened(AttentionOnly(config).double().eval())
    return model


def test_contexts_of_the_layer_alone_are_the_reference():
    model = make_layer_alone()
    hidden = model(SOURCE, MASK, TARGET)
    bilinear, w_value = array(model.attention.score.w_key.weight), array(model.attention.w_value.weight)
    for row, length in enumerate(LENGTHS):
        x = array(model.source_embedding.weight)[SOURCE[row, :length].tolist()]
        queries = array(model.target_embedding.weight)[TARGET[row].tolist()]
        contexts, _ = ref.attend(
            queries, x, x @ w_value.T, None, lambda q, k: ref.general(q, k, bilinear) / math.sqrt(len(q))
        )
        assert_close(hidden[row], torch.from_numpy(contexts))


def test_a_context_of_the_layer_alone_knows_its_own_word_only():
    """docs/systems.md, G: changing x'_1 changes c_2 by exactly 0."""
    model = make_layer_alone()
    changed = TARGET.clone()
    changed[:, 0] = 10
    before, after = model(SOURCE, MASK, TARGET), model(SOURCE, MASK, changed)
    assert torch.equal(before[:, 1:], after[:, 1:])
    assert not torch.equal(before[:, :1], after[:, :1])
