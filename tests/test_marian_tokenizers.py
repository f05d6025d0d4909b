"""Marian's tokenizers: two SentencePiece models and a table of ids cut texts as the library transformers cuts them."""

import json
import random
import sys
from itertools import pairwise

import pytest

import marian
from heed.data.tokens.tokenizer import MappedTokenizer, TextTokenizer, extended
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.encoder_decoder import Marian
from heed.exchange.huggingface.pieces import cutter_of, read_pieces

spm = pytest.importorskip("sentencepiece")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

TEXTS = [
    *marian.ENGLISH[:4],
    *marian.GERMAN[:4],
    "",
    "  two  blanks ",
    "\u6771\u4eac\u30bf\u30ef\u30fc \U0001f600 \u041c\u043e\u0441\u043a\u0432\u0430, na\u00efve \uff21\uff22",
    ">>deu<< The dog.",
    ">>fra<<The dog.",
    ">>xxx<< The dog.",
    "The >>deu<< dog.",
    ">> no code",
    ">>deu<<",
    "a tab\tand\nlines",
    "The \u2581 mark",
]
KINDS = {
    "one-table": {},
    "two-tables": {"separate": True},
    "all-pieces": {"left_out": 0},
    "many-left-out": {"left_out": 30},
}


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    return folder, marian.train_pieces(folder)


def write(folder, pieces, **fields):
    models, names = pieces
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes((models / name).read_bytes())
    source, target = marian.write_tokenizers(folder, names, **fields)
    config = {
        "model_type": "marian",
        "vocab_size": len(source),
        "decoder_vocab_size": len(target),
        "pad_token_id": target["<pad>"],
        "eos_token_id": target["</s>"],
        "decoder_start_token_id": target["<pad>"],
    }
    (folder / "config.json").write_text(json.dumps(config))
    return Marian.read(folder / "config.json", config)


def read_tokenizers(folder, config):
    """The tokenizer of each side."""
    return {side: tokenizer for side, (tokenizer, _) in config.tokenizers(folder).items()}


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_texts_of_both_sides_are_cut_alike(tmp_path, pieces, fields):
    settings = write(tmp_path, pieces, **fields)
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    sides = read_tokenizers(tmp_path, settings)
    for text in map(str.strip, TEXTS):
        for side, argument in (("source", "text"), ("target", "text_target")):
            tokenizer = sides[side]
            end = tokenizer.special.end
            expected = library(**{argument: text}).input_ids
            ids = tokenizer.encode(text).ids
            assert [*ids, end] == expected, (side, text)
            assert tokenizer.encode_all(["the", text, ">>deu<< the"])[1] == ids
        assert tokenizer.decode([*ids, end]) == library.decode(expected, skip_special_tokens=True)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_characters_that_a_side_lacks_are_found_in_the_joint_table(tmp_path, kind):
    (tmp_path / "models").mkdir()
    names = marian.train_pieces(tmp_path / "models", model_type=kind, vocab_size=120)
    further = ["\u00fc", "\u00df\u00e4", "\u2581\u00d6", "\u6771\u4eac", "fi\u00df"]
    settings = write(tmp_path, (tmp_path / "models", [[*names[0], *further], [*names[1], *further]]), left_out=0)
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    sides = read_tokenizers(tmp_path, settings)
    assert sides["source"].tokens.index("\u00fc") in sides["source"].encode("f\u00fcr the dog").ids
    texts = [
        "f\u00fcr",
        "die \u00d6l \u00df\u00e4",
        "\u00c4pfel \uff21\u00df\u00e4\ufb01\u00df",
        "the \u6771\u4eac dog",
        "u\u0308ber",
    ]
    for text in [*texts, *map(str.strip, TEXTS)]:
        for side, argument in (("source", "text"), ("target", "text_target")):
            ids = sides[side].encode(text).ids
            assert [*ids, sides[side].special.end] == library(**{argument: text}).input_ids, (side, text)
            assert sides[side].encode_all(["the", text])[1] == ids


def test_spans_and_words_are_those_of_the_text(tmp_path, pieces):
    tokenizer = read_tokenizers(tmp_path, write(tmp_path, pieces))["source"]
    encoded = tokenizer.encode(">>deu<< The dog.")
    assert encoded.spans[0] == (0, 7) and encoded.ids[0] == tokenizer.tokens.index(">>deu<<")
    words = [tokenizer.word_label(encoded.ids[word.start : word.stop]) for word in tokenizer.words(encoded.ids)]
    assert words == [">>deu<<", "The", "dog", "."]
    assert tokenizer.unknown_in("The \u6771\u4eac") == ["\u6771\u4eac"]


def test_it_is_kept_in_a_file_with_the_model_it_came_from(tmp_path, pieces):
    tokenizer = read_tokenizers(tmp_path, write(tmp_path, pieces))["target"]
    tokenizer.add_tags(["<bt>"])
    tokenizer.save(tmp_path / "tokenizer.json")
    again = TextTokenizer.load(tmp_path / "tokenizer.json")
    assert isinstance(again, MappedTokenizer)
    assert again.origin == (tmp_path / "target.spm").read_bytes()
    assert again.text == tokenizer.text and again.first_difference(tokenizer) == ""
    assert again.encode_all(TEXTS) == tokenizer.encode_all(TEXTS)
    assert again.tags == {"<bt>": again.vocab_size - 1}
    assert again.tags["<bt>"] not in again.encode("a <bt> <bt>").ids
    assert "<bt>" not in again.decode([4, again.tags["<bt>"]])
    with pytest.raises(ConfigError, match="cannot be extended"):
        extended(again, ["x"])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "source.spm").unlink(), r"lacks source\.spm: Marian's tokenizer is vocab\.json"),
        (lambda folder: (folder / "vocab.json").write_text("[]"), r"vocab\.json is damaged"),
        (lambda folder: (folder / "vocab.json").write_text('{"<unk>": 1, "a": 9999}'), "token 'a' has the id 9999"),
        (lambda folder: (folder / "vocab.json").write_text('{"a": 1}'), "lacks the token '<unk>'"),
        (lambda folder: (folder / "target.spm").write_bytes(b"\x80"), r"target\.spm is not a SentencePiece model"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, pieces, damage, said):
    settings = write(tmp_path, pieces)
    damage(tmp_path)
    with pytest.raises(RunError, match=said):
        read_tokenizers(tmp_path, settings)


# --- sentencepiece models as tokenizers of another library: texts are cut as sentencepiece cuts them

LINES = [
    "The quick brown fox jumps over the lazy dog.",
    "Der schnelle braune Fuchs springt \u00fcber den faulen Hund!",
    "Le renard brun saute par-dessus le chien paresseux; \u00e7a va ?",
    "\u0411\u044b\u0441\u0442\u0440\u0430\u044f \u043b\u0438\u0441\u0430 \u043f\u0440\u044b\u0433\u0430\u0435\u0442",
    "\u5feb\u901f\u7684\u68d5\u8272\u72d0\u72f8\u8df3\u8fc7\u61d2\u72d7",
    "prices: 12,50 \u20ac - 3.14 % of 1,000",
] * 30
HARD_TEXTS = [
    *LINES[:6],
    "",
    " ",
    "  two  blanks  ",
    "tab\tand\nline",
    "\uff21\uff22\uff23 \u2460 \ufb01ne Cafe\u0301",  # full width, a circle, a ligature, a combining accent
    "unknown \u0e01\u0e02\u0e03 letters \u0905 \U0001f600\U0001f601 end",
    "</s> <unk> <s>",
    "\u2581low \u2581 line",
    "zzzzz \u00fc\u00fc\u00fc \u4e0d\u77e5\u9053",
    "\u200bzero\u200dwidth\u00a0space",
]


def train(path, **fields):
    corpus = path / "corpus.txt"
    corpus.write_text("\n".join(LINES), encoding="utf-8")
    spm.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(path / "m"),
        minloglevel=2,
        **{"vocab_size": 200, "character_coverage": 0.98, "hard_vocab_limit": False, **fields},
    )
    return path / "m.model"


MODELS = {
    "unigram": {},
    "bpe": {"model_type": "bpe"},
    "plain": {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "no-prefix": {"add_dummy_prefix": False},
    "lower": {"normalization_rule_name": "nmt_nfkc_cf"},
    "user": {"user_defined_symbols": ["fox", "over the"]},
    "bytes": {"byte_fallback": True, "vocab_size": 400},
    "bpe-bytes": {"byte_fallback": True, "vocab_size": 450, "model_type": "bpe"},
    "across": {"split_by_whitespace": False},
}


@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS)
def test_texts_are_cut_as_the_library_cuts_them(tmp_path, fields):
    path = train(tmp_path, **fields)
    library = spm.SentencePieceProcessor(str(path))
    cutter = cutter_of(read_pieces(path))
    letters = sorted({letter for line in LINES for letter in line})
    random.seed(1)
    drawn = ["".join(random.choices(letters, k=20)) for _ in range(200)]
    for text in [*HARD_TEXTS, *drawn]:
        encoding = cutter.encode(text, add_special_tokens=False)
        assert encoding.ids == library.encode(text), text
    assert cutter.get_vocab_size() == library.vocab_size()


def test_offsets_lie_in_the_text(tmp_path):
    cutter = cutter_of(read_pieces(train(tmp_path)))
    text = "The \uff21 fox  jumps"
    spans = cutter.encode(text, add_special_tokens=False).offsets
    assert {n for a, b in spans for n in range(a, b)} >= {n for n, letter in enumerate(text) if letter != " "}
    assert all(b <= c for (_, b), (c, _) in pairwise(spans[1:]))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) // 2], "damaged"),
        (lambda data: b"", "no pieces"),
        (lambda data: data.replace("\u2581".encode(), b"\xff\x96\x81", 1), "a piece is not UTF-8"),
        (lambda data: b"\x80\x04\x95 not a model", "damaged"),
        (lambda data: b"version https://git-lfs.github.com/spec/v1\n", "damaged"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name(tmp_path, damage, said):
    path = train(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunError, match=rf"m\.model is not a SentencePiece model.*{said}"):
        read_pieces(path)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(RunError, match=r"source\.spm is missing"):
        read_pieces(tmp_path / "source.spm")


def test_words_as_pieces_are_refused(tmp_path):
    with pytest.raises(RunError, match="of whole words or characters; unigram and bpe are read"):
        read_pieces(train(tmp_path, model_type="word", vocab_size=30))


def test_without_the_package_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ConfigError, match=r"m\.model can be read only .* pip install -e '.\[hf\]'"):
        read_pieces(tmp_path / "m.model")
