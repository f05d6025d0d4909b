"""Hierarchical attention is the paper's equations, with copied weights, and reads no padding."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import array
from heed.data.batch.texts import TokenText, collate_texts
from heed.layers.ragged import length_groups
from heed.models.han import HAN, HANConfig
from heed.observe.trace import trace

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


def make(**fields):
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
    model, (tokens, mask) = make(), documents()
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


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_every_parameter_learns_whatever_the_cell(cell):
    model, (tokens, mask) = make(cell=cell), documents()
    model(tokens, mask).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.any(), name


def test_documents_without_words_are_zeros():
    model, (tokens, mask) = make(), documents()
    assert not model(tokens[2:3], mask[2:3]).any()


def test_sentences_are_read_in_groups_of_like_length():
    lengths = [1, 60, 31, 30, 2, 16, 15, 58]
    groups = length_groups(lengths)
    assert sorted(row for group in groups for row in group) == list(range(8))
    assert [[lengths[row] for row in group] for group in groups] == [[60, 58, 31], [30, 16], [15], [2], [1]]
    assert length_groups([]) == []


def test_one_long_document_makes_the_others_no_longer():
    lengths = [[5, 7, 60], [9] * 300, [40]]  # words of each sentence
    texts = [TokenText([[4] * n for n in inside], [0]) for inside in lengths]
    batch = collate_texts(texts, [0, 1, 2], hierarchical=True, num_labels=None)
    model, read = make(), []
    model.words.register_forward_hook(lambda module, inputs, outputs: read.append(inputs[0].shape[:2].numel()))
    outputs = model(batch.tokens, batch.mask)
    assert batch.mask.numel() == 3 * 300 * 60 and sum(read) < 2 * sum(map(sum, lengths))
    alone = collate_texts(texts, [0], hierarchical=True, num_labels=None)
    assert_close(outputs[:1], model(alone.tokens, alone.mask))


def test_the_padding_that_is_reported_is_what_the_model_computes():
    texts = [TokenText([[5] * length for length in words], [0]) for words in ([9, 2, 4], [3], [1, 1, 40])]
    batch, model, computed = collate_texts(texts, [0, 1, 2], hierarchical=True, num_labels=None), make(), []
    model.words.register_forward_hook(lambda net, inputs, outputs: computed.append(inputs[0].shape[:2].numel()))
    model(batch.tokens, batch.mask)
    assert batch.padding_share == pytest.approx(1 - 60 / sum(computed))
    flat = collate_texts(texts, [0, 1, 2], hierarchical=False, num_labels=None)
    assert flat.padding_share == pytest.approx(1 - 60 / (3 * 42))
