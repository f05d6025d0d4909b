"""One vector for a text: bag, window, convolution, encoder and hierarchy are their equations, with copied weights."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import array
from heed.data.batch import pad_nested, pad_rows
from heed.data.tokens import OWN
from heed.errors import ShapeError
from heed.models.bag import Bag, BagConfig
from heed.models.cnn import CNN, CNNConfig
from heed.models.encoder import Encoder, EncoderConfig
from heed.models.han import HAN, HANConfig
from heed.models.mlp import MLP, MLPConfig
from heed.models.rnn import RNN
from heed.models.self_rnn import SelfRNN
from heed.tasks.base.head_options import ClassificationHead
from heed.tasks.contracts import Batch
from heed.tasks.heads.pooled import Classifier
from heed.watch.trace import trace

TOKENS = torch.tensor([[4, 5, 6, 7, 8, 9], [9, 4, 10, 0, 0, 0], [7, 0, 0, 0, 0, 0], [0] * 6])
LENGTHS = [6, 3, 1, 0]
MASK = torch.arange(6) < torch.tensor(LENGTHS).unsqueeze(1)
TIGHT = {"rtol": 0, "atol": 1e-12}


def make(body, config):
    torch.manual_seed(0)
    model = body(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
            if name.endswith("embedding.weight"):
                parameter[0] = 0.0
    return model


def texts(table):
    for b, length in enumerate(LENGTHS):
        yield b, array(table.weight)[TOKENS[b, :length].numpy()]


def test_cnn_is_the_largest_of_each_filter():
    model = make(CNN, CNNConfig(vocab_size=11, d_embedding=4, num_filters=3, windows=(2, 4)))
    outputs = model(TOKENS, MASK)
    for b, xs in texts(model.embedding):
        if not len(xs):
            assert not outputs[b].any()
            continue
        banks = [
            ref.max_over_time(xs, array(bank.weight).transpose(0, 2, 1), array(bank.bias)) for bank in model.filters
        ]
        assert_close(outputs[b], torch.from_numpy(np.concatenate(banks)), **TIGHT)


def test_bag_is_layers_on_the_mean_and_blind_to_order():
    model = make(Bag, BagConfig(vocab_size=11, d_embedding=4, d_hidden=5, num_layers=2))
    outputs = model(TOKENS, MASK)
    for b, xs in texts(model.embedding):
        z = xs.mean(0) if len(xs) else np.zeros(4)
        for layer in model.layers:
            z = np.maximum(0, array(layer.weight) @ z + array(layer.bias))
        assert_close(outputs[b], torch.from_numpy(z), **TIGHT)
    assert_close(model(TOKENS[:1].flip(1), MASK[:1]), outputs[:1], **TIGHT)


def test_mlp_has_weights_for_each_place_and_takes_no_longer_text():
    model = make(MLP, MLPConfig(vocab_size=11, window=7, d_embedding=4, d_hidden=5))
    outputs = model(TOKENS, MASK)
    for b, xs in texts(model.embedding):
        window = np.zeros(7 * 4)
        window[: xs.size] = xs.flatten()
        expected = np.tanh(array(model.hidden.weight) @ window + array(model.hidden.bias))
        assert_close(outputs[b], torch.from_numpy(expected), **TIGHT)
    short = make(MLP, MLPConfig(vocab_size=11, window=3, d_embedding=4, d_hidden=5))
    assert short(TOKENS[1:], MASK[1:]).shape == (3, 5)
    with pytest.raises(ShapeError, match=r"a text of 6 tokens is longer than .*\(3 tokens\).* data.max_length=3"):
        short(TOKENS, MASK)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_is_the_papers_equations(norm):
    config = EncoderConfig(vocab_size=11, d_model=8, num_heads=2, num_layers=2, d_ff=12, norm=norm)
    model = make(Encoder, config)
    hidden = model(TOKENS, MASK)
    for b, xs in texts(model.inputs.embedding):
        if not len(xs):
            continue
        x = np.sqrt(8) * xs + ref.sinusoidal(len(xs), 8)
        for block in model.blocks:
            a, f = block.attention, block.feed_forward
            attention = [array(p) for s in (a.w_query, a.w_key, a.w_value, a.w_out) for p in (s.weight, s.bias)]
            feed = [array(p) for layer in (f.inner, f.outer) for p in (layer.weight, layer.bias)]
            norms = [
                lambda v, n=part.norm: ref.layer_norm(v, array(n.weight), array(n.bias))
                for part in (block.around_attention, block.around_feed_forward)
            ]
            sublayers = [
                (lambda ys, w=attention: ref.multi_head(ys, ys, *w, 2, None)[0], norms[0]),
                (lambda ys, w=feed: np.stack([ref.feed_forward(y, *w) for y in ys]), norms[1]),
            ]
            x = ref.transformer_block(x, sublayers, norm == "pre")
        if norm == "pre":
            x = np.stack([ref.layer_norm(v, array(model.norm.weight), array(model.norm.bias)) for v in x])
        assert_close(hidden[b, : len(xs)], torch.from_numpy(x), rtol=0, atol=1e-6)  # positions are float32


@pytest.mark.parametrize(
    ("body", "fields", "same"),
    [
        (Bag, {"d_embedding": 8, "d_hidden": 8}, True),
        (Encoder, {"d_model": 8, "num_heads": 2, "d_ff": 12, "positions": "none"}, True),
        (Encoder, {"d_model": 8, "num_heads": 2, "d_ff": 12, "positions": "sinusoidal"}, False),
        (Encoder, {"d_model": 8, "num_heads": 2, "d_ff": 12, "positions": "learned"}, False),
        (RNN, {"d_embedding": 8, "d_hidden": 8}, False),
        (SelfRNN, {"d_embedding": 8, "d_hidden": 8}, False),
    ],
)
def test_a_classifier_knows_the_order_of_words_by_positions_or_recurrence_only(body, fields, same):
    torch.manual_seed(0)
    model = Classifier(
        body(body.config_class(vocab_size=11, **fields)), ClassificationHead(pooling="mean"), 3, OWN
    ).eval()
    logits = model(TOKENS[:1], MASK[:1])
    for seed in range(5):
        order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
        assert torch.allclose(model(TOKENS[:1, order], MASK[:1]), logits, rtol=0, atol=1e-6) == same


# --- hierarchical attention


WORDS = [[9, 2, 4], [3], [], [1, 1, 6, 2]]  # words of each sentence of each document
D = 3


def documents():
    shape = (4, 4, 9)
    lengths = torch.zeros(shape[:2], dtype=torch.long)
    for b, of_sentences in enumerate(WORDS):
        lengths[b, : len(of_sentences)] = torch.tensor(of_sentences, dtype=torch.long)
    mask = torch.arange(9) < lengths.unsqueeze(-1)
    tokens = torch.randint(4, 11, shape, generator=torch.Generator().manual_seed(0))
    return tokens.masked_fill(~mask, 0), mask


def make_han(**fields):
    torch.manual_seed(0)
    model = HAN(HANConfig(vocab_size=11, d_embedding=4, d_hidden=D, d_attention=5, **fields)).double().eval()
    with torch.no_grad():
        for parameter in (model.word_pooling.query, model.sentence_pooling.query):
            parameter.mul_(5.0)  # weights that are far from even
    return model


def read(recurrent, xs):
    cells = [recurrent.forward_cells[0], recurrent.backward_cells[0]]
    steps = []
    for cell in cells:
        w = [array(p) for p in (cell.w_ih, cell.w_hh, cell.b_ih, cell.b_hh)]
        steps.append(lambda x, s, w=w: ref.gru_step_torch(x, s, *w))
    return ref.bidirectional(*steps, xs, np.zeros(D))


def pool(pooling, states):
    w = array(pooling.key.weight), array(pooling.key.bias), array(pooling.query)[0]
    return ref.learned_attention(states, *w)


def test_both_levels_are_the_papers_equations():
    model, (tokens, mask) = make_han(), documents()
    with torch.no_grad(), trace(model) as seen:
        outputs = model(tokens, mask)
    of_words = seen.maps("words").weights[:, 0, 0]  # (N, words), one row per real sentence
    of_sentences = seen.maps("sentences").weights[:, 0, 0]  # (B, sentences)
    row = 0
    for b, lengths in enumerate(WORDS):
        vectors = []
        for i, length in enumerate(lengths):
            xs = array(model.embedding.weight)[tokens[b, i, :length].numpy()]
            vector, weights = pool(model.word_pooling, read(model.words, xs))
            vectors.append(vector)
            assert_close(of_words[row, :length], torch.from_numpy(weights), rtol=0, atol=1e-12)
            assert not of_words[row, length:].any()
            row += 1
        if not vectors:
            assert not outputs[b].any()
            continue
        vector, weights = pool(model.sentence_pooling, read(model.sentences, np.stack(vectors)))
        assert_close(outputs[b], torch.from_numpy(vector), rtol=0, atol=1e-12)
        assert_close(of_sentences[b, : len(lengths)], torch.from_numpy(weights), rtol=0, atol=1e-12)


def test_documents_without_words_are_zeros():
    model, (tokens, mask) = make_han(), documents()
    assert not model(tokens[2:3], mask[2:3]).any()


def test_one_long_document_makes_the_others_no_longer():
    lengths = [[5, 7, 60], [9] * 300, [40]]  # words of each sentence
    texts = [[[4] * n for n in inside] for inside in lengths]
    tokens, mask = pad_nested(texts)
    model, read = make_han(), []
    model.words.register_forward_hook(lambda module, inputs, outputs: read.append(inputs[0].shape[:2].numel()))
    outputs = model(tokens, mask)
    assert mask.numel() == 3 * 300 * 60 and sum(read) < 2 * sum(map(sum, lengths))
    assert_close(outputs[:1], model(*pad_nested(texts[:1])))


def test_the_padding_that_is_reported_is_what_the_model_computes():
    texts = [[[5] * length for length in words] for words in ([9, 2, 4], [3], [1, 1, 40])]
    tokens, mask = pad_nested(texts)
    model, computed = make_han(), []
    model.words.register_forward_hook(lambda net, inputs, outputs: computed.append(inputs[0].shape[:2].numel()))
    model(tokens, mask)
    assert Batch([0, 1, 2], {"mask": mask}).padding_share == pytest.approx(1 - 60 / sum(computed))
    _, mask = pad_rows([[token for sentence in text for token in sentence] for text in texts])
    assert Batch([0, 1, 2], {"mask": mask}).padding_share == pytest.approx(1 - 60 / (3 * 42))
