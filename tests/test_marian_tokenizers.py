"""Marian's tokenizers: two SentencePiece models and a table of ids cut texts as the library transformers cuts them."""

import json

import pytest

import marian
from heed.data.tokens.extend import extended
from heed.data.tokens.special import UNKNOWN
from heed.data.tokens.tokenizer import END, PADDING, START, MappedTokenizer, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.files import Settings
from heed.exchange.huggingface.marian import read_tokenizers

pytest.importorskip("sentencepiece")
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
    return Settings.read(folder / "config.json")


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_texts_of_both_sides_are_cut_alike(tmp_path, pieces, fields):
    settings = write(tmp_path, pieces, **fields)
    library = transformers.AutoTokenizer.from_pretrained(tmp_path)
    sides = read_tokenizers(tmp_path, settings)
    for text in map(str.strip, TEXTS):
        for side, argument in (("source", "text"), ("target", "text_target")):
            tokenizer, numbering = sides[side]
            expected = library(**{argument: text}).input_ids
            ids = tokenizer.encode(text).ids
            assert [numbering.theirs[i] for i in (*ids, END)] == expected, (side, text)
            assert tokenizer.encode_all(["the", text, ">>deu<< the"])[1] == ids
        assert tokenizer.decode([*ids, END]) == library.decode(expected, skip_special_tokens=True)


def test_the_four_special_tokens_come_first_and_every_row_has_a_token(tmp_path, pieces):
    settings = write(tmp_path, pieces)
    tokenizer, numbering = read_tokenizers(tmp_path, settings)["source"]
    names = [json.loads((tmp_path / "vocab.json").read_text())[name] for name in ("<pad>", "<unk>", "<pad>", "</s>")]
    assert numbering.theirs[:4] == names
    assert sorted(numbering.ours) == list(range(numbering.size)) and len(tokenizer.tokens) == len(numbering)
    assert [tokenizer.token(i) for i in (PADDING, UNKNOWN, START, END)] == ["<pad>", "<unk>", "<s>", "</s>"]


def test_spans_and_words_are_those_of_the_text(tmp_path, pieces):
    tokenizer, _ = read_tokenizers(tmp_path, write(tmp_path, pieces))["source"]
    encoded = tokenizer.encode(">>deu<< The dog.")
    assert encoded.spans[0] == (0, 7) and encoded.ids[0] == tokenizer.tokens.index(">>deu<<")
    words = [tokenizer.word_label(encoded.ids[word.start : word.stop]) for word in tokenizer.words(encoded.ids)]
    assert words == [">>deu<<", "The", "dog", "."]
    assert tokenizer.unknown_in("The \u6771\u4eac") == ["\u6771\u4eac"]


def test_it_is_kept_in_a_file_with_the_model_it_came_from(tmp_path, pieces):
    tokenizer, _ = read_tokenizers(tmp_path, write(tmp_path, pieces))["target"]
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
    with pytest.raises(ConfigError, match="cannot sample"):
        again.sampler(0.1)
    with pytest.raises(ConfigError, match="cannot be extended"):
        extended(again, ["x"])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "source.spm").unlink(), r"lacks source\.spm: Marian's tokenizer is vocab\.json"),
        (lambda folder: (folder / "vocab.json").write_text("[]"), r"vocab\.json is damaged"),
        (lambda folder: (folder / "vocab.json").write_text('{"<unk>": 1, "a": 9999}'), "token 'a' has the id 9999"),
        (lambda folder: (folder / "vocab.json").write_text('{"a": 1}'), "lacks the unknown token '<unk>'"),
        (lambda folder: (folder / "target.spm").write_bytes(b"\x80"), r"target\.spm is not a SentencePiece model"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, pieces, damage, said):
    settings = write(tmp_path, pieces)
    damage(tmp_path)
    with pytest.raises(RunError, match=said):
        read_tokenizers(tmp_path, settings)
