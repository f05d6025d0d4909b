"""GPT is its papers' equations, with copied weights: GPT-2's blocks, rotary positions, RMS normalisation, SwiGLU."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import array
from heed.errors import ConfigError, ShapeError
from heed.models.gpt import GPT, GPTConfig, GPTEncoder, GPTEncoderConfig

TOKENS = torch.tensor([[4, 5, 6, 7, 8, 4, 9], [1, 7, 4, 8, 10, 10, 2]])
TIGHT = {"rtol": 0, "atol": 1e-6}


def make_model(**fields):
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "d_model": 8, "num_heads": 2, "num_layers": 2, "max_length": 9, "dropout": 0.0}
    model = GPT(GPTConfig(**{**sizes, **fields})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))  # norms and biases away from one and zero
    return model


def make_encoder(**fields):
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "d_model": 8, "num_heads": 2, "num_layers": 2, "max_length": 9, "dropout": 0.0}
    return GPTEncoder(GPTEncoderConfig(**{**sizes, **fields})).double().eval()


def layer(module):
    """A linear layer of one vector, y = W x + b."""
    weight, bias = array(module.weight), 0.0 if module.bias is None else array(module.bias)
    return lambda x: weight @ x + bias


def norm_of(module, kind):
    if kind == "rms":
        return lambda x: ref.rms_norm(x, array(module.weight), module.eps)
    bias = np.zeros(len(module.weight)) if module.bias is None else array(module.bias)
    return lambda x: ref.layer_norm(x, array(module.weight), bias, module.eps)


ACTIVATIONS = {
    "gelu": ref.gelu_tanh,
    "gelu_exact": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def reference_hidden(model, tokens):
    """One sequence by the equations, position after position, head after head."""
    c = model.config
    d_head, length = c.d_model // c.num_heads, len(tokens)
    xs = array(model.embedding.weight)[tokens.numpy()]
    if c.positions == "learned":
        xs = xs + array(model.positions.table.weight)[:length]
    elif c.positions == "sinusoidal":
        xs = xs + ref.sinusoidal(length, c.d_model)
    for block in model.blocks:
        attention, net = block.attention, block.feed_forward
        normal = [norm_of(block.around_attention.norm, c.norm)(x) for x in xs]
        contexts = np.zeros((length, c.d_model))
        for h in range(c.num_heads):
            part = slice(h * d_head, (h + 1) * d_head)
            q, k, v = (
                np.stack([layer(side)(x)[part] for x in normal])
                for side in (attention.w_query, attention.w_key, attention.w_value)
            )
            if c.positions == "rotary":
                q, k = (np.stack([ref.rotary(row, p) for p, row in enumerate(rows)]) for rows in (q, k))
            contexts[:, part] = ref.attend(q, k, v, ref.causal_mask(length, length), ref.scaled_dot)[0]
        xs = np.stack([x + layer(attention.w_out)(context) for x, context in zip(xs, contexts, strict=True)])
        new = []
        for x in xs:
            inner = layer(net.inner)(norm_of(block.around_feed_forward.norm, c.norm)(x))
            if c.activation == "swiglu":
                half = len(inner) // 2
                active = ref.swiglu(inner[:half], inner[half:])
            else:
                active = ACTIVATIONS[c.activation](inner)
            new.append(x + layer(net.outer)(active))
        xs = np.stack(new)
    return np.stack([norm_of(model.norm, c.norm)(x) for x in xs])


VARIANTS = [
    {},
    {"positions": "rotary"},
    {"positions": "sinusoidal", "activation": "relu"},
    {"norm": "rms", "bias": False},
    {"activation": "gelu_exact", "norm_eps": 0.01},
    {"activation": "silu", "norm": "rms", "norm_eps": 0.1},
    {"activation": "swiglu", "d_ff": 6},
    {"positions": "rotary", "norm": "rms", "activation": "swiglu", "bias": False, "tied_output": False},
]


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_hidden_states_and_logits_are_the_equations(fields):
    model = make_model(**fields)
    hidden = model(TOKENS)
    expected = torch.tensor(np.stack([reference_hidden(model, row) for row in TOKENS]))
    assert_close(hidden.detach(), expected, **TIGHT)
    table = model.embedding.weight if model.config.tied_output else model.output.weight
    assert_close(model.logits(hidden), hidden @ table.T)


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_the_gradient_is_that_of_the_equations(fields):
    """By differences along a random direction in all parameters at once, of the fast form in float32."""
    model = make_model(**fields)
    names = [name for name, _ in model.named_parameters()]
    direction = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    factor = np.random.default_rng(0).normal(size=(TOKENS.shape[1], 8))

    def value(step):
        moved = make_model(**fields)
        with torch.no_grad():
            for name, parameter in moved.named_parameters():
                parameter.add_(direction[name], alpha=step)
        return float((reference_hidden(moved, TOKENS[0]) * factor).sum())

    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    single = model.float().train()
    (single(TOKENS[:1])[0] * torch.tensor(factor, dtype=torch.float32)).sum().backward()
    found = sum(
        float((single.get_parameter(name).grad.double() * direction[name]).sum())
        for name in names
        if single.get_parameter(name).grad is not None  # an output layer of its own is not used here
    )
    assert found == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_the_encoder_is_the_language_model_without_its_output(positions):
    model, encoder = make_model(positions=positions), make_encoder(positions=positions)
    weights = {name: value for name, value in model.state_dict().items() if name != "output.weight"}
    weights["inputs.embedding.weight"] = weights.pop("embedding.weight")
    encoder.load_state_dict(weights)
    mask = torch.ones_like(TOKENS, dtype=torch.bool)
    mask[0, 4:] = False
    hidden = encoder(TOKENS, mask)
    assert_close(hidden[mask], model(TOKENS)[mask])
    assert_close(encoder.last(hidden, mask), torch.stack([hidden[0, 3], hidden[1, 6]]))


def test_initial_weights_are_gpt2s():
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=300, d_model=96, num_heads=4, num_layers=8, max_length=64))
    residual = 0.02 / math.sqrt(2 * 8)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif parameter.dim() == 1:
            assert (parameter == 1).all(), name
        else:
            expected = residual if name.endswith(("w_out.weight", "outer.weight")) else 0.02
            # the deviation of n normal numbers has a relative error of sqrt(1 / 2n)
            assert parameter.std().item() == pytest.approx(expected, rel=5 / math.sqrt(2 * parameter.numel())), name
    assert model.output.weight is model.embedding.weight


def test_the_base_size_is_gpt2_small():
    with torch.device("meta"):
        model = GPT(GPTConfig(vocab_size=50_257))
    assert sum(p.numel() for p in model.parameters()) == 124_439_808  # as published by OpenAI, and by transformers


def test_an_odd_head_cannot_be_rotated():
    with pytest.raises(ConfigError, match=r"a head is 3 wide \(d_model / num_heads\); choose an even width"):
        GPT(GPTConfig(vocab_size=5, d_model=6, num_heads=2, positions="rotary"))


def test_a_text_beyond_the_table_is_refused_and_other_positions_have_no_end():
    tokens = torch.randint(4, 11, (1, 10))
    with pytest.raises(ShapeError, match="length 10 does not fit 9 learned positions"):
        make_model()(tokens)
    for positions in ("rotary", "sinusoidal"):
        assert make_model(positions=positions)(tokens).shape == (1, 10, 8)
