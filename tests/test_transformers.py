"""The Transformer, GPT and BERT are their papers' equations, with copied weights."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import heed
import reference as ref
from equations import LENGTHS, MASK, SOURCE, TARGET, array, sharpened
from heed.data.batch import fit, frame, frame_size, framed, framed_features, unframed
from heed.data.tokens import END, OWN, PADDING, START
from heed.errors import ConfigError, DataError, ShapeError
from heed.kernels import vocabulary_loss
from heed.layers.elementwise import RELU
from heed.layers.embeddings import MaskedWords, TokenEmbedding
from heed.models.attention_only import AttentionOnly, AttentionOnlyConfig
from heed.models.bert import Bert, BertConfig
from heed.models.gpt import GPT, GPTConfig, GPTEncoder, GPTEncoderConfig
from heed.models.transformer import Transformer, TransformerConfig

TIGHT = {"rtol": 0, "atol": 1e-6}  # positions are float32


def make_transformer(**fields):
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


def layer_norm_of(layer_norm, eps):
    return lambda x: ref.layer_norm(x, array(layer_norm.weight), array(layer_norm.bias), eps)


def attend_with(attention, heads, memory=None, mask=None):
    def sublayer(xs):
        return ref.multi_head(xs, xs if memory is None else memory, *parts(attention), heads, mask)[0]

    return sublayer


def feed_forward_of(module, activation):
    w = [array(p) for layer in (module.inner, module.outer) for p in (layer.weight, layer.bias)]
    return lambda xs: np.stack([ref.feed_forward(x, *w, getattr(ref, activation)) for x in xs])


def transformer_reference(model, source, target):
    """One example, source without padding, by the equations."""
    c = model.config
    pre, heads, decoder_heads = c.norm == "pre", c.num_heads, c.decoder_heads or c.num_heads

    def norm(module):
        return layer_norm_of(module, c.norm_eps)

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
    model = make_transformer(norm=norm, **fields)
    hidden = model(SOURCE, MASK, TARGET)
    for row, length in enumerate(LENGTHS):
        expected = transformer_reference(model, SOURCE[row, :length].tolist(), TARGET[row].tolist())
        assert_close(hidden[row], torch.from_numpy(expected), **TIGHT)


def test_a_tied_output_layer_is_the_target_table():
    model = make_transformer(tied_output=True)
    hidden = model(SOURCE, MASK, TARGET)
    expected = hidden @ model.target_embedding.weight.T + model.output.bias
    assert_close(model.logits(hidden), expected)
    assert make_transformer(tied_output=False).output.weight is not model.target_embedding.weight


def test_shared_embeddings_are_one_table_and_need_one_vocabulary():
    model = make_transformer(shared_embeddings=True)
    assert model.source_embedding.weight is model.target_embedding.weight
    with pytest.raises(ConfigError, match=r"vocabulary has 11 tokens and .* 12; set tokenizer\.shared=true"):
        make_transformer(shared_embeddings=True, target_vocab_size=12)


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


# --- GPT is its papers' equations, with copied weights: GPT-2's blocks, rotary positions, RMS normalisation, SwiGLU


TOKENS = torch.tensor([[4, 5, 6, 7, 8, 4, 9], [1, 7, 4, 8, 10, 10, 2]])


def make_gpt(**fields):
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


def gpt_reference(model, tokens):
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
    model = make_gpt(**fields)
    hidden = model(TOKENS)
    expected = torch.tensor(np.stack([gpt_reference(model, row) for row in TOKENS]))
    assert_close(hidden.detach(), expected, **TIGHT)
    table = model.embedding.weight if model.config.tied_output else model.output.weight
    assert_close(model.logits(hidden), hidden @ table.T)


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
def test_the_gradient_is_that_of_the_equations(fields):
    """By differences along a random direction in all parameters at once, of the fast form in float32."""
    model = make_gpt(**fields)
    names = [name for name, _ in model.named_parameters()]
    direction = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    factor = np.random.default_rng(0).normal(size=(TOKENS.shape[1], 8))

    def value(step):
        moved = make_gpt(**fields)
        with torch.no_grad():
            for name, parameter in moved.named_parameters():
                parameter.add_(direction[name], alpha=step)
        return float((gpt_reference(moved, TOKENS[0]) * factor).sum())

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
    model, encoder = make_gpt(positions=positions), make_encoder(positions=positions)
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
        make_gpt()(tokens)
    for positions in ("rotary", "sinusoidal"):
        assert make_gpt(positions=positions)(tokens).shape == (1, 10, 8)


# --- BERT: its equations against an independent implementation, framed texts, segments, and the head for masked words


SMALL = {"vocab_size": 30, "d_model": 24, "num_heads": 3, "num_layers": 2, "d_ff": 40, "max_length": 20, "dropout": 0.0}


def make_bert(**fields):
    torch.manual_seed(0)
    model = Bert(BertConfig(**{**SMALL, **fields})).eval()
    with torch.no_grad():  # the first weights are small, biases zero: neither hides a slip that way
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch_of_pairs(seed=0):
    """A pair of texts, a text and a shorter text, framed and padded."""
    rows = [frame([5, 6, 7, 8], [9, 10]), frame([11, 12, 13]), frame([14])]
    width = max(map(len, rows))
    tokens = torch.tensor([row + [PADDING] * (width - len(row)) for row in rows])
    return tokens, tokens != PADDING


# --- the equations


def reference(model, tokens, segments):
    """One text at a time in plain operations, with torch's own layers nowhere."""
    c, w = model.config, {name: value.double() for name, value in model.state_dict().items()}
    eps, functions = (
        c.norm_eps,
        {"gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)), "relu": lambda x: x * (x > 0)},
    )
    functions["gelu_tanh"] = lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
    functions["silu"] = lambda x: x / (1 + torch.exp(-x))

    def norm(x, name):
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        return centred / (variance + eps).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = torch.stack([w["inputs.embedding.weight"][t] + w["positions.table.weight"][i] for i, t in enumerate(tokens)])
    if c.num_segments:
        x = x + torch.stack([w["segments.weight"][s] for s in segments])
    x = norm(x, "embedding_norm")
    states = []
    for n in range(c.num_layers):
        name = f"blocks.{n}"
        q, k, v = (linear(x, f"{name}.attention.w_{part}") for part in ("query", "key", "value"))
        width, heads = c.d_model // c.num_heads, []
        for h in range(c.num_heads):
            own = slice(h * width, (h + 1) * width)
            heads.append(torch.softmax(q[:, own] @ k[:, own].T / width**0.5, -1) @ v[:, own])
        x = norm(x + linear(torch.cat(heads, -1), f"{name}.attention.w_out"), f"{name}.around_attention.norm")
        inner = functions[c.activation](linear(x, f"{name}.feed_forward.inner"))
        x = norm(x + linear(inner, f"{name}.feed_forward.outer"), f"{name}.around_feed_forward.norm")
        states.append(x)
    first = x[0]
    if c.pooler != "none":
        first = {"tanh": torch.tanh, "relu": functions["relu"]}[c.pooler](linear(first, "pooler"))
    return x, first


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"activation": "gelu_tanh", "norm_eps": 0.1},
        {"activation": "relu", "pooler": "relu", "num_segments": 0},
        {"activation": "silu", "pooler": "none", "num_segments": 1, "double_separator": True},
    ],
    ids=str,
)
def test_the_states_are_those_of_the_paper(fields):
    model = make_bert(**fields)
    tokens, mask = batch_of_pairs()
    hidden = model(tokens, mask)
    last = model.last(hidden, mask)
    for row, length in enumerate(mask.sum(1)):
        segments = [0] * length
        if model.config.num_segments == 2 and row == 0:
            segments = [0] * 6 + [1] * 3
        states, first = reference(model, tokens[row, :length], segments)
        assert_close(hidden[row, :length].double(), states, rtol=1e-4, atol=1e-5)
        assert_close(last[row].double(), first, rtol=1e-4, atol=1e-5)


# --- segments, positions, features


def test_segments_follow_from_the_end_tokens():
    model = make_bert()
    assert model.segments_of(torch.tensor([frame([5, 6], [7])])).tolist() == [[0, 0, 0, 0, 1, 1]]
    assert model.segments_of(torch.tensor([[*frame([5, 6]), PADDING]])).tolist() == [[0, 0, 0, 0, 1]]
    double = make_bert(double_separator=True)
    assert double.segments_of(torch.tensor([frame([5], [7, 8], double=True)])).tolist() == [[0, 0, 0, 1, 1, 1, 1]]
    three = make_bert(num_segments=3)
    assert three.segments_of(torch.tensor([[START, 5, END, 6, END, 7, END, 8]])).tolist() == [[0, 0, 0, 1, 1, 2, 2, 2]]


def test_sizes_are_the_published_ones():
    counts = {"tiny": 4_385_920, "small": 11_170_560, "base": 109_482_240, "large": 335_141_888}
    for size, count in counts.items():
        with torch.device("meta"):
            model = Bert(BertConfig(vocab_size=30_522, **BertConfig.sizes[size]))
        assert sum(parameter.numel() for parameter in model.parameters()) == count


@pytest.mark.parametrize(("width", "deviation"), [(768, 0.02), (192, 0.04)])
def test_first_weights_are_those_of_the_published_width_and_scaled_for_others(width, deviation):
    model = Bert(BertConfig(vocab_size=300, d_model=width, num_heads=2, num_layers=1, d_ff=300))
    assert float(model.inputs.embedding.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert float(model.blocks[0].feed_forward.inner.weight.detach().std()) == pytest.approx(deviation, rel=0.1)
    assert not model.blocks[0].feed_forward.inner.bias.any()


def test_matching_heads_begin_by_looking_at_equal_tokens():
    config = BertConfig(vocab_size=300, d_model=64, num_heads=4, num_layers=2, d_ff=32, matching_heads=2)
    model = Bert(config).eval()
    tokens = torch.tensor([[2, 10, 11, 12, 3, 20, 10, 21, 3]])
    with torch.no_grad():
        model.positions.table.weight.zero_()
        model.segments.weight.zero_()
        with heed.trace(model) as seen:
            model(tokens, torch.ones_like(tokens, dtype=torch.bool))
    (first,) = seen.weights("encoder", layer=0)  # (heads, query, key)
    for head in range(2):
        assert float(first[head, 1, [1, 6]].sum()) > 0.9  # token 10 stands in both texts
    assert float(first[2:, 1, [1, 6]].sum(-1).max()) < 0.9
    with pytest.raises(ConfigError, match=r"model\.matching_heads is 5, but model\.num_heads is 4; reduce"):
        Bert(config.model_copy(update={"matching_heads": 5}))


# --- framed texts


def test_a_text_or_two_are_framed():
    assert frame([5, 6]) == [START, 5, 6, END]
    assert frame([5], [6]) == [START, 5, END, 6, END]
    assert frame([5], [6], double=True) == [START, 5, END, END, 6, END]
    assert frame([]) == [START, END]
    for pair, double in ((None, False), ([6], False), ([6], True)):
        assert frame_size(pair is not None, double) == len(frame([], None if pair is None else [], double))


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(3, 20))
def test_the_longer_of_two_texts_is_cut(first, second, max_length):
    expected = [*range(first)], [*range(second)]
    while sum(map(len, expected)) > max_length - 3:
        expected[len(expected[0]) <= len(expected[1])].pop()
    assert fit(np.array([[first, second]]), max_length, 3).tolist() == [[*map(len, expected)]]
    assert fit(np.array([[first]]), max_length, 2).tolist() == [[min(first, max_length - 2)]]


def test_a_length_without_room_is_refused():
    assert fit(np.array([[1, 1]]), 4, 4).tolist() == [[0, 0]]
    with pytest.raises(DataError, match="3 positions are too few for the 4 start and end tokens"):
        fit(np.array([[1, 1]]), 3, 4)


def test_padded_rows_are_framed_and_back():
    tokens = torch.tensor([[5, 6, 7], [8, 9, 9], [9, 9, 9]])
    mask = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    moved, moved_mask = framed(tokens, mask, OWN)
    assert moved.tolist() == [[START, 5, 6, 7, END], [START, 8, END, 0, 0], [START, END, 0, 0, 0]]
    assert moved_mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2, [True] * 2 + [False] * 3]
    assert unframed(moved.unsqueeze(-1))[mask].squeeze(-1).tolist() == [5, 6, 7, 8]
    assert tokens[1].tolist() == [8, 9, 9], "the rows that were given stay as they are"
    features = torch.ones(3, 3, 2)
    assert framed_features(features).shape == (3, 5, 2) and framed_features(features)[:, [0, -1]].sum() == 0


# --- masked words


@pytest.mark.parametrize("tied", [True, False])
def test_masked_words_are_scored_over_the_vocabulary(tied):
    torch.manual_seed(0)
    embedding = TokenEmbedding(30, 24)
    words = MaskedWords(embedding, activation=RELU, eps=0.1, tied=tied)
    assert (words.output.weight is embedding.weight) == tied
    with torch.no_grad():
        for parameter in words.parameters():
            parameter.add_(torch.randn_like(parameter))
    hidden = torch.randn(5, 24)
    inner = (hidden @ words.dense.weight.T + words.dense.bias).clamp_min(0)
    normal = (inner - inner.mean(-1, keepdim=True)) / (inner.var(-1, keepdim=True, unbiased=False) + 0.1).sqrt()
    expected = (normal * words.norm.weight + words.norm.bias) @ words.output.weight.T + words.output.bias
    assert_close(words(hidden), expected, rtol=1e-4, atol=1e-5)
    targets = torch.tensor([4, 0, 7, 29, 7])
    loss = vocabulary_loss(words.states(hidden), words.output, targets)
    assert_close(loss, nn.functional.cross_entropy(expected, targets, reduction="sum"), rtol=1e-4, atol=0)


def test_a_task_that_never_pools_does_not_train_the_pooling_layer():
    model = make_bert()
    model.without_last()
    assert {name for name, p in model.named_parameters() if not p.requires_grad} == {"pooler.weight", "pooler.bias"}
    make_bert(pooler="none").without_last()
