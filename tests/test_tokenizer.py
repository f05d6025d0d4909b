"""The tokenizer: what goes in comes out, each token knows its characters, the unknown is counted."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.tokenizer import END, PADDING, SPECIAL_TOKENS, START, UNKNOWN, TextTokenizer
from heed.errors import RunError

ODD = (
    "a b\tc\n\n\nd\r\n\r\ne\u2028f\u00a0g\u0301h"
    "\u200di\U0001f468\u200d\U0001f469\u200d\U0001f467 \u05d0\u0661\ufeff\x00</s><pad>"
)
relaxed = settings(deadline=None, max_examples=100)


@relaxed
@given(st.lists(st.text(), min_size=1, max_size=5))
def test_text_goes_round_unchanged(texts):
    tokenizer = TextTokenizer.train_characters(texts)
    for text in [*texts, "".join(texts), "".join(reversed(texts))]:
        encoded = tokenizer.encode(text)
        assert tokenizer.decode(encoded.ids) == text
        assert UNKNOWN not in encoded.ids
        assert "".join(tokenizer.token(i) for i in encoded.ids) == text


def test_odd_characters_go_round_unchanged():
    tokenizer = TextTokenizer.train_characters([ODD])
    assert tokenizer.decode(tokenizer.encode(ODD).ids) == ODD
    assert len(tokenizer.encode(ODD).ids) == len(ODD)
    assert min(tokenizer.encode(ODD).ids) > END  # text that looks like a special token is text


@relaxed
@given(st.text(), st.text())
def test_spans_say_which_characters_a_token_stands_for(seen, text):
    tokenizer = TextTokenizer.train_characters([seen])
    encoded = tokenizer.encode(text)
    assert encoded.spans == [(i, i + 1) for i in range(len(text))]
    for token, (start, end) in zip(encoded.ids, encoded.spans, strict=True):
        assert tokenizer.token(token) == (text[start:end] if text[start:end] in seen else SPECIAL_TOKENS[UNKNOWN])


@relaxed
@given(st.text(), st.text())
def test_the_unknown_is_listed_in_order(seen, text):
    tokenizer = TextTokenizer.train_characters([seen])
    assert tokenizer.unknown_in(text) == [c for c in text if c not in seen]
    assert tokenizer.encode(text).ids.count(UNKNOWN) == len(tokenizer.unknown_in(text))


def test_the_vocabulary_is_the_characters_and_the_special_tokens():
    tokenizer = TextTokenizer.train_characters(["cab", "bad"])
    assert tokenizer.vocab_size == 4 + len("abcd")
    assert [tokenizer.token(i) for i in range(8)] == [*SPECIAL_TOKENS, *"abcd"]
    assert (PADDING, UNKNOWN, START, END) == (0, 1, 2, 3)


def test_the_order_of_the_texts_does_not_matter():
    one, other = (TextTokenizer.train_characters(texts) for texts in (["cab", "d"], ["d", "bac"]))
    assert one.encode("abcd") == other.encode("abcd")


@relaxed
@given(st.lists(st.text(), max_size=6))
def test_many_texts_are_encoded_as_each_alone(texts):
    tokenizer = TextTokenizer.train_characters(["abc \n", *texts[:2]])
    assert tokenizer.encode_all(texts) == [tokenizer.encode(text).ids for text in texts]


def test_special_tokens_are_left_out_of_text():
    tokenizer = TextTokenizer.train_characters(["abc"])
    assert tokenizer.decode([START, 4, PADDING, 5, UNKNOWN, 6, END, PADDING]) == "abc"
    assert tokenizer.decode([]) == tokenizer.decode([START, END]) == ""


@relaxed
@given(st.text(min_size=1), st.text())
def test_a_saved_tokenizer_is_the_same_one(tmp_path_factory, seen, text):
    path = tmp_path_factory.mktemp("tokenizer") / "t.json"
    tokenizer = TextTokenizer.train_characters([seen])
    tokenizer.save(path)
    json.loads(path.read_text(encoding="utf-8"))
    again = TextTokenizer.load(path)
    assert again.encode(text) == tokenizer.encode(text)
    assert again.vocab_size == tokenizer.vocab_size
    assert again.decode(again.encode(seen).ids) == seen


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"t\.json is missing"):
        TextTokenizer.load(tmp_path / "t.json")
    (tmp_path / "t.json").write_text('{"model": 3}')
    with pytest.raises(RunError, match=r"t\.json is not a tokenizer"):
        TextTokenizer.load(tmp_path / "t.json")
