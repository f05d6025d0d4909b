"""Word pieces, and tokenizers of every kind under any text: ids in range, text that comes back as declared."""

import os
import subprocess
import sys
import unicodedata
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertTokenizer

from heed.config import TokenizerConfig
from heed.data.tokens import END, PADDING, SPECIAL_TOKENS, START, UNKNOWN
from heed.data.tokens.tokenizer import TextTokenizer, beginning, extended

TEXTS = [
    "The player was playing; the players played!",
    "She said: \"No!\" It isn't 3.5 km, it's 7...",
    "unaffordable walking, talking and sleeping walkers",
    "\u00bfQu\u00e9 tal, se\u00f1or? Cr\u00e8me br\u00fbl\u00e9e na\u00efve",
    "\u6211\u7231\u5317\u4eac and \u041c\u043e\u0441\u043a\u0432\u0430",
]
ODD = [
    *TEXTS,
    "Cafe\u0301 CAF\u00c9 caf\u00e9",
    "tab\tand\u00a0blank\u3000line\nend\x00\ufffd\u200b.",
    "[MASK] [CLS] </s> ##ing # #",
    "a" * 101 + " " + "b" * 100,
    "\u6211\u7231\u5317\u4eac\u5929\u5b89\u95e8",
    "",
    "   ",
]


def trained(texts=TEXTS, mask=True, **fields):
    config = TokenizerConfig(kind="wordpiece", **{"vocab_size": 160, "normalization": "none", **fields})
    return TextTokenizer.train(texts * 3, config, mask=mask)


PIECES = trained(lowercase=True)


def pieces(tokenizer, text):
    return [tokenizer.token(i) for i in tokenizer.encode(text).ids]


def test_special_tokens_come_first_and_have_the_names_of_bert():
    assert PIECES.tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert (PIECES.mask, trained(mask=False).mask) == (4, None)
    assert PIECES.vocab_size <= 160 and len(set(PIECES.tokens)) == PIECES.vocab_size
    assert PIECES.tags == {}
    assert PIECES.unit == "token"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"lowercase": True},
        {"lowercase": True, "strip_accents": False},
        {"strip_accents": True},
        {"chinese_characters": False},
    ],
    ids=str,
)
def test_texts_are_cut_as_bert_cuts_them(tmp_path, fields):
    tokenizer = trained(**fields)
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in tokenizer.tokens), encoding="utf-8")
    theirs = BertTokenizer(
        vocab=dict(zip(tokenizer.tokens, range(tokenizer.vocab_size), strict=True)),
        do_lower_case=fields.get("lowercase", False),
        strip_accents=fields.get("strip_accents"),
        tokenize_chinese_chars=fields.get("chinese_characters", True),
    )
    for text in ODD:
        if "[" not in text:
            assert tokenizer.encode(text).ids == theirs.encode(text, add_special_tokens=False), text


def test_fields_decide_what_is_read():
    assert trained(clean_text=False).normalize("a\x00\tb") == "a\x00\tb"
    assert trained(normalization="nfkc").normalize("\ufb01n") == "fin"


def test_no_text_becomes_a_special_token():
    text = "[MASK] [CLS] [PAD] </s>"
    tokenizer = trained([*TEXTS, text.lower(), text])
    assert min(tokenizer.encode(text).ids) > 4


def test_a_mask_in_a_text_is_asked_for():
    for text in ("the [MASK] was", "the[MASK]was", "the   [MASK]   was"):
        assert PIECES.encode_masked(text) == [*PIECES.encode("the").ids, 4, *PIECES.encode("was").ids]
    assert PIECES.encode_masked("[MASK][MASK]") == [4, 4]
    assert PIECES.encode_masked("[CLS] no!") == PIECES.encode("[CLS] no!").ids


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte_bpe", "word"])
def test_a_mask_stands_for_a_word_with_its_blank(kind):
    config = TokenizerConfig(kind=kind, vocab_size=330, min_count=1)
    tokenizer = TextTokenizer.train(["the cat sat. the cats, ran."] * 9, config, mask=True)
    assert (tokenizer.mask, tokenizer.token(4), tokenizer.tags) == (4, "[MASK]", {})
    whole, masked = tokenizer.encode("the cat sat.").ids, tokenizer.encode_masked("the [MASK] sat.")
    cat = tokenizer.encode("the cat").ids[len(tokenizer.encode("the").ids) :]
    assert masked == [4 if i == cat[0] else i for i in whole if i not in cat[1:]]
    assert tokenizer.encode_masked("the cat [MASK].")[-2:] == [4, *tokenizer.encode("the cat.").ids[-1:]]
    assert len(tokenizer.words(masked)) == 4
    assert tokenizer.decode(masked).split() == ["the", "sat."]
    assert 4 not in tokenizer.encode("the [MASK] sat").ids


def test_a_mask_of_characters_leaves_the_blank():
    for kind in ("char", "byte"):
        tokenizer = TextTokenizer.train(["the cat"], TokenizerConfig(kind=kind), mask=True)
        assert tokenizer.unit == ("character" if kind == "char" else "byte")
        assert tokenizer.encode_masked("the [MASK]at") == [
            4 if n == 4 else i for n, i in enumerate(tokenizer.encode("the cat").ids)
        ]


def test_words_labels_and_text():
    for text, expected in [
        ("The players sleep!", "the players sleep !"),
        ("\u6211\u7231 it isn't", "\u6211 \u7231 it isn ' t"),
        ("afford \u0917x affordable.", "afford [UNK] affordable ."),
    ]:
        ids = PIECES.encode(text).ids
        assert " ".join(PIECES.word_label(ids[word.start : word.stop]) for word in PIECES.words(ids)) == expected
    assert PIECES.decode(PIECES.encode("The sleepers said: isn't it 3, playing?").ids) == (
        "the sleepers said: isn't it 3, playing?"
    )
    play = PIECES.encode("affords").ids
    assert len(play) > 1 and PIECES.label(play[1]).startswith("##") and PIECES.piece(play[0])[:1] == "a"
    framed = [START, *play, END, play[1], 4, play[1], PADDING]
    assert [len(word) for word in PIECES.words(framed)] == [1, len(play), 1, 1, 2, 1]
    assert PIECES.decode(framed[: len(play) + 2]) == "affords"
    assert PIECES.decode([4, *play], {0: "an"}) == "an affords"
    assert PIECES.decode([]) == ""


def test_a_word_with_an_unknown_character_is_unknown():
    assert PIECES.unknown_in("the \u0917layer was") == ["\u0917layer"]
    ids = PIECES.encode("the \u0917layer was").ids
    assert ids.count(UNKNOWN) == 1 and len(PIECES.words(ids)) == 3


def test_the_same_texts_give_the_same_tokens_in_every_process():
    program = (
        "from heed.config import TokenizerConfig as C; from heed.data.tokens.tokenizer import TextTokenizer as T;"
        "import pathlib, hashlib; text = pathlib.Path('README.md').read_text(encoding='utf-8').splitlines();"
        "print(hashlib.md5(T.train(text, C(kind='wordpiece', vocab_size=900)).text.encode()).hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        ).stdout
        for seed in "12"
    }
    assert len(runs) == 1 and runs != {""}


def test_a_vocabulary_holds_no_more_than_asked():
    texts = [" ".join(chr(0x400 + (7 * n + k) % 200) * 2 for k in range(8)) for n in range(200)]
    for size in (20, 150, 500):
        tokenizer = trained(texts, vocab_size=size)
        assert tokenizer.vocab_size <= size
        assert {f"##{t}" for t in tokenizer.tokens[5:] if len(t) == 1} <= set(tokenizer.tokens)


def test_long_texts_are_cut_as_short_ones(monkeypatch):
    monkeypatch.setattr("heed.data.tokens.tokenizer._LONG", 20)
    text = "\n".join(TEXTS * 3)
    assert PIECES.encode_arrays([text])[0].tolist() == PIECES.encode(text).ids


def test_what_follows_a_blank_begins_a_word():
    start = beginning(PIECES, "the play ")
    assert start.ids == PIECES.encode("the play").ids
    assert {PIECES.token(i)[:2] for i in start.never_next} == {"##"}
    assert beginning(PIECES, "the play").never_next == ()


def test_unknown_characters_are_added_at_the_start_and_within_words():
    new = ["\u0917\u0918 \u0918x the", "\u4e2d\u56fd"]
    grown = extended(PIECES, new)
    assert grown.tokens[: PIECES.vocab_size] == PIECES.tokens
    assert set(grown.tokens[PIECES.vocab_size :]) == {"\u0917", "##\u0918", "\u0918", "##x", "\u4e2d", "\u56fd"} - {
        *PIECES.tokens
    }
    assert all(grown.unknown_in(text) == [] for text in new)
    assert grown.mask == 4 and pieces(grown, "the players") == pieces(PIECES, "the players")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "bpe", "strip_accents": True}, "tokenizer.strip_accents is for kind wordpiece"),
        ({"kind": "char", "chinese_characters": False}, "tokenizer.kind is char"),
    ],
)
def test_fields_of_word_pieces_are_refused_elsewhere(fields, said):
    with pytest.raises(ValueError, match=said):
        TokenizerConfig(**fields)


# --- Tokenizers of every kind under any text: ids in range, text comes back as declared, no special token from text


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
