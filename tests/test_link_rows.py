"""Links between words as rows of attention weights between tokens, whatever the tokenizer."""

import pytest
import torch
from torch.testing import assert_close

from heed.config import TokenizerConfig
from heed.data.examples import Link, Pair
from heed.data.kinds.links import WordLink, linked
from heed.data.tokens.alignment import rows_of
from heed.data.tokens.tokenizer import TextTokenizer

SOURCE, TARGET = "Main ghar ja raha hoon", "I am going home"
LINKS = [WordLink(0, 0), WordLink(4, 1), WordLink(2, 2), WordLink(3, 2), WordLink(1, 3)]
PAIR = linked(Pair(SOURCE, TARGET), LINKS)
BY_WORD = torch.tensor([[1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0.5, 0.5, 0], [0, 1, 0, 0, 0]])


def rows_with(kind, pair=PAIR, **config):
    texts = [pair.source, pair.target] * 3
    tokenizer = TextTokenizer.train(texts, TokenizerConfig(kind=kind, min_count=1, **config))
    source, target = tokenizer.encode(pair.source), tokenizer.encode(pair.target)
    return rows_of(pair.links, source.spans, target.spans), source.spans, target.spans


def owners(spans, text):
    """The word of each token, None for a blank alone."""
    result = []
    for start, end in spans:
        before = len(text[:end].split()) - 1
        result.append(before if text[start:end].strip() else None)
    return result


def test_words_look_where_they_are_linked():
    rows, _, _ = rows_with("word")
    assert_close(rows, BY_WORD)


@pytest.mark.parametrize(("kind", "size"), [("char", None), ("bpe", 40), ("unigram", 40), ("byte", None)])
def test_however_a_text_is_cut_the_tokens_of_a_word_share_its_row(kind, size):
    config = {} if size is None else {"vocab_size": size}
    rows, source_spans, target_spans = rows_with(kind, **config)
    sources, targets = owners(source_spans, SOURCE), owners(target_spans, TARGET)
    assert len(sources) > 5 and len(targets) > 4
    for row, word in zip(rows, targets, strict=True):
        by_word = torch.zeros(5)
        for weight, owner in zip(row, sources, strict=True):
            if owner is None:
                assert weight == 0
            else:
                by_word[owner] += weight
        assert_close(by_word, torch.zeros(5) if word is None else BY_WORD[word])
    for owner in range(5):  # all tokens of a word alike
        columns = rows[:, [n for n, one in enumerate(sources) if one == owner]]
        assert_close(columns, columns[:, :1].expand_as(columns))


def test_a_token_without_a_link_has_a_row_of_zeros():
    rows, _, _ = rows_with("word", linked(Pair(SOURCE, TARGET), [WordLink(1, 3)]))
    assert_close(rows[:3], torch.zeros(3, 5))
    assert_close(rows[3], BY_WORD[3])


def test_a_link_to_text_that_no_token_holds_says_nothing():
    pair = Pair("a b", "c", links=(Link((0, 1), (2, 3)), Link((0, 1), (0, 1))))
    assert_close(rows_of(pair.links, [(0, 1)], [(0, 1)]), torch.ones(1, 1))
    assert_close(rows_of(pair.links[:1], [(0, 1)], [(0, 1)]), torch.zeros(1, 1))


@pytest.mark.parametrize(("sources", "targets"), [(0, 2), (2, 0), (0, 0)])
def test_texts_without_tokens(sources, targets):
    spans = [(0, 1), (2, 3)]
    assert rows_of(PAIR.links, spans[:sources], spans[:targets]).shape == (targets, sources)
    assert_close(rows_of((), spans, spans), torch.zeros(2, 2))
