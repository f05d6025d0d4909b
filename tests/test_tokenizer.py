"""The tokenizer: what goes in comes out, each token knows its characters, the unknown is counted."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from heed.config import TokenizerConfig
from heed.data.tokens import END, PADDING, SPECIAL_TOKENS, START, UNKNOWN, library_of
from heed.data.tokens.tokenizer import TextTokenizer, beginning, extended
from heed.errors import ConfigError, InputError, RunError

relaxed = settings(deadline=None, max_examples=50)


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
    assert tokenizer.encode("abcd") == TextTokenizer.train_characters(["d", "bac"]).encode("abcd")
    assert (PADDING, UNKNOWN, START, END) == (0, 1, 2, 3)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"t\.json is missing"):
        TextTokenizer.load(tmp_path / "t.json")
    (tmp_path / "t.json").write_text('{"model": 3}')
    with pytest.raises(RunError, match=r"t\.json is not a tokenizer"):
        TextTokenizer.load(tmp_path / "t.json")


# --- words and parts of words

KINDS = ("word", "bpe", "unigram")
TEXTS = [
    "The cat (a big one) sat on the mat.",
    "She said: \"No!\" It isn't 3.5 km, it's 7...",
    "the cats sat; the dogs ran, the cat ran",
    "\u00a1Hola! \u00bfQu\u00e9 tal, se\u00f1or?",
    "\u092e\u0941\u091d\u0947 \u0915\u093f\u0924\u093e\u092c \u092a\u0922\u093c\u0928\u093e \u0939\u0948\u0964",
    "\u1ecd\u0301m\u1ecd mi \u0144 b\u1ecd\u0300, \u1ecd\u0301m\u1ecd",
]
LETTERS = sorted(set("".join(unicodedata.normalize("NFC", text) for text in TEXTS)) | {"\t", "\n", "\u00a0"})


def is_mark(text):
    return len(text) == 1 and (unicodedata.category(text).startswith("P") or text in "$+<=>^`|~\u20ac\u00a3")


def trained(kind, texts=(*TEXTS, *LETTERS), **fields):
    return TextTokenizer.train(texts, TokenizerConfig(kind=kind, **{"vocab_size": 150, "min_count": 1, **fields}))


TOKENIZERS = {kind: trained(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@relaxed
@given(text=st.text(st.sampled_from([*LETTERS, "\u4e00", "\u00a7"]), max_size=30))
def test_words_are_every_token_once_and_marks_stand_alone(kind, text):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text).ids
    words = tokenizer.words(ids)
    assert [n for word in words for n in word] == list(range(len(ids)))
    assert all(len(word) for word in words)
    for word in words:
        label = tokenizer.word_label(ids[word.start : word.stop]).replace(SPECIAL_TOKENS[UNKNOWN], "u")
        if any(is_mark(c) for c in label):
            assert len(label.strip()) == 1, label
        elif len(words) > 1:
            assert label.strip() != "", "a blank is no word of its own"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat (a big one) sat.", ["The", "cat", "(", "a", "big", "one", ")", "sat", "."]),
        ("the  cat sat ", ["the", "cat", "sat"]),
        ("cat", ["cat"]),
        ("", []),
        ("isn't", ["isn", "'", "t"]),
        (TEXTS[4], [*unicodedata.normalize("NFC", TEXTS[4][:-1]).split(), "\u0964"]),  # vowel signs are no marks
        (TEXTS[5], [*unicodedata.normalize("NFC", TEXTS[5]).replace(",", " ,").split()]),  # nor are tones
    ],
)
def test_words_by_hand(kind, text, expected):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text).ids
    labels = [tokenizer.word_label(ids[word.start : word.stop]) for word in tokenizer.words(ids)]
    assert [label.replace("\u2581", "") for label in labels] == expected


def test_the_end_is_no_part_of_a_word():
    tokenizer = TOKENIZERS["bpe"]
    for text in ("cat", "cat ", "", "."):
        ids = [*tokenizer.encode(text).ids, END]
        assert tokenizer.words(ids)[-1] == range(len(ids) - 1, len(ids))


def test_an_unknown_character_stays_in_its_word():
    for kind in ("bpe", "unigram"):
        ids = TOKENIZERS[kind].encode("the ca\u4e00ts sat").ids
        assert UNKNOWN in ids and len(TOKENIZERS[kind].words(ids)) == 3
    assert len(TOKENIZERS["word"].words(TOKENIZERS["word"].encode("the zebra sat").ids)) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_joins_a_mark_to_anything(kind):
    tokenizer = TOKENIZERS[kind]
    for token in range(4, tokenizer.vocab_size):
        text = tokenizer.token(token)
        assert len(text) == 1 or not any(is_mark(c) for c in text), text


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_never_seen_is_counted(kind):
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.unknown_in("the cat sat") == []
    assert tokenizer.unknown_in("the \u4e00 cat \u4e01.") == ["\u4e00", "\u4e01"]
    assert tokenizer.encode("the \u4e00").ids.count(UNKNOWN) == 1


def test_a_word_must_occur_often_enough():
    texts = ["a b", "a b", "a c"]
    assert trained("word", texts, min_count=2).unknown_in("a b c") == ["c"]
    assert trained("word", texts, min_count=3).unknown_in("a b c") == ["b", "c"]


def test_a_vocabulary_is_no_larger_than_asked():
    texts = [" ".join(chr(0x4E00 + (7 * n + k) % 300) * 2 for k in range(8)) for n in range(200)]
    for kind, size in (("word", 50), ("bpe", 50), ("bpe", 500), ("unigram", 400)):
        assert trained(kind, texts, vocab_size=size).vocab_size <= size
    with pytest.raises(ConfigError, match=r"tokenizer.vocab_size 50 is less than the number of different characters"):
        trained("unigram", texts, vocab_size=50)


def test_a_replacement_stands_where_the_unknown_word_stood():
    tokenizer = TOKENIZERS["word"]
    ids = tokenizer.encode("the zebra sat.").ids
    assert tokenizer.decode(ids, {ids.index(UNKNOWN): " Zebra"}) == "the Zebra sat."
    ids = tokenizer.encode("zebra sat").ids
    assert tokenizer.decode(ids, {0: " Zebra"}) == "Zebra sat"


def test_lower_case_for_the_source_only():
    config = TokenizerConfig(kind="bpe", vocab_size=60, lowercase="source")
    texts = ["The Cat", "the dog"]
    source, target = (TextTokenizer.train(texts, config, side) for side in ("source", "target"))
    assert source.encode("The Cat").ids == source.encode("the cat").ids
    assert target.decode(target.encode("The Cat").ids) == "The Cat"


# --- bytes


SAID = 'He said: "Gr\u00f6\u00dfe\u2026 (isn\'t \U0001f355)"\n\nThe  end\u3002'
BYTES = {kind: trained(kind, vocab_size=300) for kind in ("byte", "byte_bpe")}


def test_one_token_for_each_byte_in_their_order():
    tokenizer = BYTES["byte"]
    assert (tokenizer.vocab_size, tokenizer.unit) == (260, "byte")
    assert tokenizer.encode(SAID).ids == [4 + byte for byte in SAID.encode()]
    assert tokenizer.decode(range(4, 260)[0x41:0x44]) == "ABC"


@pytest.mark.parametrize("kind", BYTES)
def test_nothing_is_unknown_to_bytes_and_broken_characters_are_replaced(kind):
    tokenizer = BYTES[kind]
    assert tokenizer.unknown_in(SAID) == [] and tokenizer.decode(tokenizer.encode(SAID).ids) == SAID
    pizza = tokenizer.encode("\U0001f355").ids
    assert tokenizer.decode(pizza) == "\U0001f355" and len(pizza) > 1
    broken = [*pizza[:-1], *tokenizer.encode("!").ids]
    assert tokenizer.decode(broken) == "\ufffd!"
    assert tokenizer.characters(broken) == [range(len(broken) - 1), range(len(broken) - 1, len(broken))]


@pytest.mark.parametrize("kind", BYTES)
def test_people_see_text_and_not_the_letters_of_bytes(kind):
    tokenizer = BYTES[kind]
    ids = tokenizer.encode(SAID).ids
    for i in range(4, tokenizer.vocab_size):
        text = tokenizer.label(i)
        assert not set(text) & set("\u0120\u010a\u00c3\u0122"), text
    words = [tokenizer.word_label(ids[word.start : word.stop]) for word in tokenizer.words(ids)]
    start = ["He", "said", ":", '"', "Gr\u00f6\u00dfe", "\u2026", "("]
    assert words == [*start, "isn", "'", "t", "\U0001f355", ")", '"', "The", "end", "\u3002"]
    pizza = tokenizer.encode("\U0001f355").ids
    assert [tokenizer.label(i) for i in pizza][:1] == ["\u27e8f0\u27e9"]
    assert tokenizer.word_label(pizza) == "\U0001f355" and tokenizer.word_label(pizza[1:]).startswith("\u27e89f\u27e9")
    spans = tokenizer.encode("a\U0001f355b").spans
    assert spans == [(0, 1), *[(1, 2)] * len(pizza), (2, 3)]  # characters, not bytes
    assert tokenizer.label(tokenizer.encode("\n").ids[0]) == "\n"
    assert [tokenizer.piece(i) for i in (PADDING, END)] == ["<pad>", "</s>"]


def test_words_are_cut_as_gpt_2_cuts_them():
    tokenizer = trained("byte_bpe", ["I'll go, it isn't 2024!!  ok"] * 50, vocab_size=400)
    ids = tokenizer.encode("I'll go, it isn't 2024!!  ok").ids
    assert [tokenizer.piece(i) for i in ids] == [
        *"I 'll \u2581go , \u2581it \u2581isn 't \u25812024 !! \u2581 \u2581ok".split()
    ]


def test_a_vocabulary_that_cannot_hold_every_byte_is_refused():
    with pytest.raises(ConfigError, match=r"tokenizer.vocab_size is 259, but byte_bpe needs 260 \(256 bytes"):
        trained("byte_bpe", vocab_size=259)
    assert trained("byte_bpe", vocab_size=260).unit == "byte"  # no room for a merge


@pytest.mark.parametrize("kind", ["char", *KINDS, "wordpiece", *BYTES])
def test_a_saved_tokenizer_is_the_same_one(tmp_path, kind):
    tokenizer = trained(kind, vocab_size=300)
    tokenizer.save(tmp_path / "t.json")
    again = TextTokenizer.load(tmp_path / "t.json")
    assert (again.unit, again.vocab_size) == (tokenizer.unit, tokenizer.vocab_size)
    assert again.first_difference(tokenizer) == "" or kind == "unigram"  # whose scores a file rounds
    assert again.first_difference(BYTES["byte_bpe" if kind == "byte" else "byte"]) != ""
    for text in (*TEXTS, SAID, "the zebra \u4e00"):
        ids = again.encode(text).ids
        assert again.encode(text) == tokenizer.encode(text)
        assert again.decode(ids) == tokenizer.decode(ids) and again.words(ids) == tokenizer.words(ids)


def test_an_exact_tokenizer_and_one_that_puts_a_blank_before_a_text_differ():
    for kind in KINDS:
        config = TokenizerConfig(kind=kind, vocab_size=150, min_count=1)
        exact, other = (TextTokenizer.train([*TEXTS, *LETTERS], config, exact=way) for way in (True, False))
        assert exact.first_difference(other) != ""
        first, second = (one.token(one.encode("the cat").ids[0]) for one in (exact, other))
        assert (first[0], second[0]) == ("t", "\u2581")


@pytest.mark.parametrize("kind", [*KINDS, "byte_bpe"])
def test_long_texts_are_cut_as_short_ones(kind, monkeypatch):
    monkeypatch.setattr("heed.data.tokens.tokenizer._LONG", 40)
    text = "\n".join([*TEXTS, "", "  two blanks", "\ttab ", "", "", *TEXTS, "ends in a blank ", "the cat", "", ""] * 40)
    config = TokenizerConfig(kind=kind, vocab_size=400, min_count=1)
    tokenizer = TextTokenizer.train([*TEXTS, *LETTERS, text], config, exact=True)
    if kind == "byte_bpe":
        assert "\n\n" in map(tokenizer.label, range(tokenizer.vocab_size))  # a line end is no border by itself
    assert tokenizer.encode_arrays([text])[0].tolist() == tokenizer.encode(text).ids


# --- further tokens

OTHER = "Gr\u00f6\u00dfe \U0001f355 pizza with chilli flakes; the pizza, pizzas\n"


@pytest.mark.parametrize("kind", ["char", *KINDS])
def test_an_extended_tokenizer_knows_more_and_all_else_as_before(kind):
    tokenizer = TextTokenizer.train(TEXTS, TokenizerConfig(kind=kind, vocab_size=150, min_count=1), exact=True)
    more = extended(tokenizer, [OTHER])
    assert UNKNOWN in tokenizer.encode(OTHER).ids and UNKNOWN not in more.encode(OTHER).ids
    assert more.decode(more.encode(OTHER).ids) == OTHER
    assert more.tokens[: tokenizer.vocab_size] == tokenizer.tokens and len(set(more.tokens)) == more.vocab_size
    for text in TEXTS:
        assert more.encode(text) == tokenizer.encode(text)
    new = more.tokens[tokenizer.vocab_size :]
    if kind == "word":
        assert set(new) >= {"\u2581pizza", "\u2581chilli"} and new[0] == "\u2581pizza"
        assert extended(tokenizer, [OTHER], min_count=2).tokens[tokenizer.vocab_size :] == ["\u2581pizza"]
    else:
        assert all(len(token) == 1 and token in OTHER and token != " " for token in new)
    assert extended(more, [OTHER]).tokens == more.tokens


def test_what_cannot_be_extended_is_refused():
    tagged = trained("bpe")
    tagged.add_tags(["<bt>"])
    with pytest.raises(ConfigError, match=r"a tokenizer with tags \(<bt>\) cannot be extended"):
        extended(tagged, [OTHER])
    assert extended(trained("byte"), [OTHER]).tokens == trained("byte").tokens


@pytest.mark.parametrize("kind", ["char", "byte", "word", "bpe", "unigram", "byte_bpe"])
def test_a_beginning_that_ends_in_a_blank_is_gone_on_with_by_a_whole_word(kind):
    texts = ["le chat voit une maison.", "le chien aime du pain !", "un oiseau trouve le pain."] * 4
    size = None if kind in ("char", "byte", "word") else 290 if kind == "byte_bpe" else 60
    tokenizer = TextTokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=size))
    begun = beginning(tokenizer, "le pain ")
    nexts = {*range(len(SPECIAL_TOKENS), tokenizer.vocab_size)} - {*begun.never_next}
    assert nexts
    for token in nexts:
        assert tokenizer.decode([*begun.ids, token]).startswith("le pain "), tokenizer.token(token)
    assert tokenizer.encode("le pain voit").ids[: len(begun.ids)] == begun.ids  # as training had it
    for text in ("le pain", "", "le pa"):
        assert (beginning(tokenizer, text).ids, beginning(tokenizer, text).never_next) == (
            tokenizer.encode(text).ids,
            (),
        )


def test_a_text_on_which_a_regular_expression_fails_is_refused():
    library = Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1, "a": 2}, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    tokenizer, text = TextTokenizer(library), "a" * 50 + "b"
    for ask in (
        tokenizer.encode,
        tokenizer.unknown_in,
        lambda one: tokenizer.encode_all([one]),
    ):
        ask("a")
        with pytest.raises(InputError) as raised:
            ask(text)
        assert str(raised.value) == (
            f"the tokenizer's own rules fail on the text '{text[:40]}' (Onig: Regex search error: retry-limit-in-match "
            "over); use another tokenizer"
        )
    with pytest.raises(InputError, match=r"rules fail on a text \(Onig"):
        tokenizer.encode_all(["a", text])


def test_a_tokenizer_whose_replacements_fail_is_refused():
    pattern = {"type": "Replace", "pattern": {"Regex": "(.+)+[^ -~\\s]"}, "content": ""}
    with pytest.raises(InputError, match="the tokenizer's own rules fail on the text '0123"):
        library_of({"normalizer": pattern, "model": {}})
