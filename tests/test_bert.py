"""BERT: its equations against an independent implementation, framed texts, segments, and the head for masked words."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import heed
from heed.data.batch import fit, frame, frame_size, framed, framed_features, unframed
from heed.data.tokens import END, OWN, PADDING, START
from heed.errors import ConfigError, DataError
from heed.kernels import vocabulary_loss
from heed.layers.elementwise import RELU
from heed.layers.embeddings import MaskedWords, TokenEmbedding
from heed.models.bert import Bert, BertConfig

SMALL = {"vocab_size": 30, "d_model": 24, "num_heads": 3, "num_layers": 2, "d_ff": 40, "max_length": 20, "dropout": 0.0}


def make_bert(**fields):
    torch.manual_seed(0)
    model = Bert(BertConfig(**{**SMALL, **fields})).eval()
    with torch.no_grad():  # the first weights are small, biases zero: neither hides a slip that way
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch(seed=0):
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
    tokens, mask = batch()
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
