"""Tokenizers of every kind under any text: ids in range, text comes back as declared, no special token from text."""

import unicodedata
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.config import TokenizerConfig
from heed.data.tokens import END, PADDING, SPECIAL_TOKENS, START, UNKNOWN
from heed.data.tokens.tokenizer import TextTokenizer

some = settings(deadline=None, max_examples=40)
SAID = [
    "The cat sat on the mat, twice!",
    "Où est l'été?",
    "मुझे किताब",
    "שלום עולם",
    "ﬁne ①²",
    "a\tb\nc\u00a0d  e ",
    "</s> <pad>",
    "\u2581x",
]
LETTERS = sorted(
    {c for text in SAID for form in ("NFC", "NFD", "NFKC") for c in text + unicodedata.normalize(form, text)}
)
FORMS = ("none", "nfc", "nfkc")
KINDS = ("char", "byte", "word", "bpe", "unigram", "byte_bpe")
TOKENIZERS = {
    (kind, form, lower): TextTokenizer.train(
        [*SAID, *LETTERS, *(c.lower() for c in LETTERS)],
        TokenizerConfig(kind=kind, normalization=form, lowercase=lower, vocab_size=300, min_count=1),
    )
    for kind in KINDS
    for form, lower in (product(FORMS, (False, True)) if kind == "bpe" else (("nfc", False), ("nfkc", True)))
}
every = pytest.mark.parametrize("made", TOKENIZERS, ids=lambda made: "-".join(map(str, made)))
any_text = st.text(max_size=30)
known_text = st.one_of(
    st.text(st.sampled_from(LETTERS), max_size=30),
    st.lists(st.sampled_from([*SAID, *SPECIAL_TOKENS, " ", "cat", "the"]), max_size=4).map("".join),
)


@every
@settings(deadline=None, max_examples=15)
@given(text=st.one_of(any_text, known_text))
def test_ids_are_in_range_and_no_text_says_a_special_token(made, text):
    tokenizer = TOKENIZERS[made]
    encoded = tokenizer.encode(text)
    assert all(i == UNKNOWN or len(SPECIAL_TOKENS) <= i < tokenizer.vocab_size for i in encoded.ids)
    assert all(0 <= start <= end <= len(text) for start, end in encoded.spans)
    assert tokenizer.encode_all([text, text]) == [encoded.ids] * 2


READING = TextTokenizer.train_to_read([*SAID, *LETTERS], TokenizerConfig(kind="word", min_count=1, lowercase=True))


@pytest.mark.parametrize("tokenizer", [*TOKENIZERS.values(), READING])
@settings(deadline=None, max_examples=15)
@given(texts=st.lists(st.one_of(any_text, known_text), max_size=4))
def test_many_texts_have_the_tokens_that_each_has_alone(tokenizer, texts):
    texts += [" ".join(texts), *["the cat"] * 100]
    assert tokenizer.encode_all(texts) == [tokenizer.encode(text).ids for text in texts]


@every
@settings(deadline=None, max_examples=15)
@given(text=st.one_of(any_text, known_text))
def test_text_comes_back_up_to_normalisation_and_a_blank_at_its_start(made, text):
    tokenizer = TOKENIZERS[made]
    ids = tokenizer.encode(text).ids
    if UNKNOWN not in ids:
        normal = tokenizer.normalize(text)
        blanks = normal.replace("\u2581", " ").removeprefix(" ")
        assert tokenizer.decode(ids) == (normal if made[0] in ("char", "byte", "byte_bpe") else blanks)
        assert tokenizer.decode([PADDING, START, *ids, END, PADDING]) == tokenizer.decode(ids)


@pytest.mark.parametrize("form", FORMS)
@some
@given(text=st.text(st.sampled_from(LETTERS), max_size=30))
def test_normalisation_is_that_of_unicode(form, text):
    normal = text if form == "none" else unicodedata.normalize(form.upper(), text)
    assert TOKENIZERS["bpe", form, False].normalize(text) == normal
    assert TOKENIZERS["bpe", form, True].normalize(text) == normal.lower()


EXACT = {
    kind: TextTokenizer.train(
        [*SAID, *LETTERS], TokenizerConfig(kind=kind, normalization="none", vocab_size=300, min_count=1), exact=True
    )
    for kind in KINDS
}


@pytest.mark.parametrize("kind", EXACT)
@settings(deadline=None, max_examples=40)
@given(text=st.one_of(any_text, known_text, st.text(st.sampled_from(" \t\n\r\u00a0\u3000.ab"), max_size=12)))
def test_an_exact_tokenizer_gives_every_known_text_back_to_the_last_blank(kind, text):
    tokenizer = EXACT[kind]
    ids = tokenizer.encode(text).ids
    if kind in ("byte", "byte_bpe"):
        assert UNKNOWN not in ids
    if UNKNOWN not in ids:
        wanted = text if kind in ("char", "byte", "byte_bpe") else text.replace("\u2581", " ")
        assert tokenizer.decode(ids) == wanted
        assert tokenizer.decode(ids, {-1: "never there"}) == wanted
    assert [one.tolist() for one in tokenizer.encode_arrays([text, "", text])] == [ids, [], ids]


@pytest.mark.parametrize("kind", EXACT)
@some
@given(text=st.one_of(any_text, known_text))
def test_spans_cover_the_text_and_words_have_every_token_once(kind, text):
    tokenizer = EXACT[kind]
    encoded = tokenizer.encode(text)
    assert [n for word in tokenizer.words(encoded.ids) for n in word] == list(range(len(encoded.ids)))
    groups = tokenizer.characters(encoded.ids)
    assert [n for group in groups for n in group] == list(range(len(encoded.ids)))
    if kind in ("byte", "byte_bpe"):
        assert sorted({c for start, end in encoded.spans for c in range(start, end)}) == list(range(len(text)))
        for group in groups:  # whole characters: what they say is the text that they span
            start, end = encoded.spans[group.start][0], max(encoded.spans[n][1] for n in group)
            assert tokenizer.decode([encoded.ids[n] for n in group]).endswith(text[start:end][-1])
            assert "\ufffd" not in tokenizer.decode([encoded.ids[n] for n in group]) or "\ufffd" in text


@pytest.mark.parametrize("kind", ["char", "byte", "word", "bpe", "byte_bpe"])
@some
@given(sentences=st.lists(st.lists(any_text, max_size=4), max_size=4))
def test_words_that_are_given_have_tokens_each(kind, sentences):
    tokenizer = TOKENIZERS[kind, "nfc", False]
    ids = tokenizer.encode_words(sentences)
    assert [[len(word) > 0 for word in words] for words in ids] == [[True] * len(words) for words in sentences]
    assert ids == [[tokenizer.encode(word).ids or [UNKNOWN] for word in words] for words in sentences]


@every
@settings(deadline=None, max_examples=15)
@given(text=st.one_of(any_text, known_text))
def test_a_tag_is_never_cut_from_a_text(made, text):
    library = TOKENIZERS[made].library
    tokenizer = TextTokenizer(library.from_str(library.to_str()))
    tokenizer.add_tags(["<bt>"])
    ids = tokenizer.encode(f"{text}<bt>{text}").ids
    assert tokenizer.tags["<bt>"] not in ids
