"""Closed forms of docs/systems.md: costs, parameters, invariance to order and scales, against what is counted."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from heed.attention import Attention, Rows
from heed.attention.scores import Dot, Score
from heed.errors import ShapeError
from heed.layers import Recurrent
from heed.models.bag import Bag, BagConfig
from heed.models.bahdanau import Bahdanau, BahdanauConfig
from heed.models.encoder import Encoder, EncoderConfig
from heed.models.gpt import GPT, GPTConfig
from heed.models.mlp import MLP, MLPConfig
from heed.models.rnn import RNN, RNNConfig, RnnLanguageModel, RnnLanguageModelConfig
from heed.models.seq2seq import Seq2Seq, Seq2SeqConfig

SIZE = {"source_vocab_size": 20, "target_vocab_size": 20, "d_embedding": 16, "d_hidden": 16}


class Counting(Score):
    """Another score that counts what it returns; it has no scale, so no fused kernel takes its place."""

    def __init__(self, of):
        super().__init__()
        self.project, self.prepare = of.project, of.prepare
        self.of, self.count = of, 0

    def scores(self, projected, prepared):
        result = self.of.scores(projected, prepared)
        self.count += result.numel()
        return result


@pytest.mark.parametrize("name", [None, "additive", "scaled_dot"])
def test_translating_m_words_into_t_takes_m_t_scores_with_attention_and_none_without(name):
    if name is None:
        model = Seq2Seq(Seq2SeqConfig(**SIZE))
    else:
        model = Bahdanau(BahdanauConfig(**SIZE, d_attention=16, score=name, bidirectional=False))
    counting = []
    for attention in [module for module in model.modules() if isinstance(module, Attention)]:
        attention.score = Counting(attention.score)
        counting.append(attention.score)
    assert len(counting) == (name is not None)
    for m, t in ((8, 8), (16, 5), (3, 40)):
        before = sum(score.count for score in counting)
        source, target = torch.randint(4, 20, (1, m)), torch.randint(4, 20, (1, t))
        with torch.no_grad():
            model.eval()(source, torch.ones(1, m, dtype=torch.bool), target)
        assert sum(score.count for score in counting) - before == (m * t if name else 0)


def parameters(*modules):
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


@pytest.mark.parametrize(("length", "expected"), [(5, 10_954), (50, 103_114), (500, 1_024_714)])
def test_a_feed_forward_network_needs_weights_for_each_word_and_refuses_a_longer_text(length, expected):
    model = MLP(MLPConfig(vocab_size=8, window=length, d_embedding=32, d_hidden=64))
    count = parameters(model, nn.Linear(64, 10)) - parameters(model.embedding)
    assert count == expected == 10_954 + 2_048 * (length - 5)
    tokens = torch.ones(1, length + 1, dtype=torch.long)
    with pytest.raises(ShapeError):
        model(tokens, torch.ones_like(tokens, dtype=torch.bool))


@pytest.mark.parametrize(("cell", "expected"), [("rnn", 6_922), ("gru", 19_466), ("lstm", 25_738)])
def test_a_recurrent_network_reads_any_length_with_the_same_weights(cell, expected):
    model = Recurrent(32, 64, cell=cell)
    assert parameters(model, nn.Linear(64, 10)) == expected
    for length in (6, 51):
        assert model(torch.ones(1, length, 32), torch.ones(1, length, dtype=torch.bool))[0].shape == (1, length, 64)


BLOCKS = {"vocab_size": 50, "d_model": 32, "num_heads": 4, "num_layers": 2, "d_ff": 64, "dropout": 0.0}
WIDTHS = {"vocab_size": 50, "dropout": 0.0, "d_embedding": 32, "d_hidden": 32}
ENCODERS = {  # whether the vector of a text depends on the order of its words
    "mean of words": (lambda: Bag(BagConfig(**WIDTHS, num_layers=2)), False),
    "attention without positions": (lambda: Encoder(EncoderConfig(**BLOCKS, positions="none")), False),
    "attention with positions": (lambda: Encoder(EncoderConfig(**BLOCKS, positions="sinusoidal")), True),
    "concatenated words": (lambda: MLP(MLPConfig(**WIDTHS, window=12)), True),
    "GRU": (lambda: RNN(RNNConfig(**WIDTHS, cell="gru", bidirectional=False)), True),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_only_networks_that_know_positions_see_the_order_of_words(name):
    torch.manual_seed(1)
    make, ordered = ENCODERS[name]
    model, texts = make().double().eval(), torch.randint(4, 50, (50, 12))
    shuffled = torch.stack([text[torch.randperm(12)] for text in texts])
    with torch.no_grad():
        plain, moved = (model(some, torch.ones_like(some, dtype=torch.bool)) for some in (texts, shuffled))
    if plain.ndim == 3:
        plain, moved = (hidden[:, -1] if name == "GRU" else hidden.mean(1) for hidden in (plain, moved))
    change = ((moved - plain).norm(dim=-1) / plain.norm(dim=-1)).max()
    assert change > 1e-3 if ordered else change < 1e-5


@pytest.mark.parametrize(("divisor", "variance"), [(math.sqrt(64), 1), (math.sqrt(512), 0.125), (1, 64)])
def test_the_root_of_the_width_of_a_head_brings_the_variance_of_scores_to_1(divisor, variance):
    score, draw = Dot(), torch.Generator().manual_seed(1)
    score.scale = 1 / divisor
    query, key = torch.randn(2000, 1, 64, generator=draw), torch.randn(2000, 64, 64, generator=draw)
    scores = score.scores(score.project(query), score.prepare(key))
    assert_close(scores.var(), torch.tensor(float(variance)), rtol=0.03, atol=0)


class Chain(TorchDispatchMode):
    """Keeps the longest chain of matrix products, each of which needs the result of the one before."""

    def __init__(self):
        super().__init__()
        self.longest = 0
        self.behind = {}  # by address of memory
        self.kept = []  # so that no address is used again

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        read = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        written = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        product = any(name in str(func) for name in ("mm", "attention"))
        chain = max((self.behind.get(address(tensor), 0) for tensor in read), default=0) + product
        self.longest = max(self.longest, chain)
        self.kept += written
        for tensor in written:
            self.behind[address(tensor)] = max(chain, self.behind.get(address(tensor), 0))
        return result


def address(tensor):
    return tensor.untyped_storage().data_ptr()


def read(model, length):
    model(torch.randint(4, 20, (1, length)))


def write(model, length):
    state, word = model.start(None, Rows.repeat(1)), torch.zeros(1, 1, dtype=torch.long)
    for _ in range(length):
        hidden, state = model.step(word, state)
        word = model.logits(hidden).argmax(-1)


@pytest.mark.parametrize(
    ("network", "do", "steps"),
    [
        ("LSTM", read, lambda length: length),
        ("self-attention", read, lambda length: 1),
        ("LSTM", write, lambda length: length),
        ("self-attention", write, lambda length: length),
    ],
)
def test_dependent_steps_in_reading_and_in_writing(network, do, steps):
    if network == "LSTM":
        model = RnnLanguageModel(RnnLanguageModelConfig(vocab_size=20, d_embedding=16, d_hidden=16, dropout=0.0))
    else:
        sizes = {"d_model": 16, "num_heads": 2, "num_layers": 1, "positions": "sinusoidal"}
        model = GPT(GPTConfig(vocab_size=20, dropout=0.0, **sizes))
    model.double().eval()  # in float32, a whole LSTM may be one operation
    longest = {}
    for length in (1, 7, 32):
        with torch.no_grad(), Chain() as chain:
            do(model, length)
        longest[length] = chain.longest
    assert all(count == steps(length) * longest[1] for length, count in longest.items())
