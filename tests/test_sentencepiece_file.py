"""SentencePiece models as tokenizers of another library: texts are cut as SentencePiece cuts them."""

import random
import sys
from itertools import pairwise

import pytest

from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.marian import cutter_of
from heed.exchange.huggingface.tokenizers import read_pieces

spm = pytest.importorskip("sentencepiece")

LINES = [
    "The quick brown fox jumps over the lazy dog.",
    "Der schnelle braune Fuchs springt \u00fcber den faulen Hund!",
    "Le renard brun saute par-dessus le chien paresseux; \u00e7a va ?",
    "\u0411\u044b\u0441\u0442\u0440\u0430\u044f \u043b\u0438\u0441\u0430 \u043f\u0440\u044b\u0433\u0430\u0435\u0442",
    "\u5feb\u901f\u7684\u68d5\u8272\u72d0\u72f8\u8df3\u8fc7\u61d2\u72d7",
    "prices: 12,50 \u20ac - 3.14 % of 1,000",
] * 30
TEXTS = [
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
    for text in [*TEXTS, *drawn]:
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
    with pytest.raises(RunError, match=r"source\.spm cannot be read: No such file"):
        read_pieces(tmp_path / "source.spm")


def test_words_as_pieces_are_refused(tmp_path):
    with pytest.raises(RunError, match="of whole words or characters; unigram and bpe are read"):
        read_pieces(train(tmp_path, model_type="word", vocab_size=30))


def test_without_the_package_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ConfigError, match=r"m\.model can be read only .* pip install -e '.\[hf\]'"):
        read_pieces(tmp_path / "m.model")
