"""Tokenizer folders of Hugging Face: texts are cut as `AutoTokenizer` cuts them, before and after an export."""

import json
import subprocess
import sys

import pytest
from tokenizers import Tokenizer, models
from transformers import AddedToken, AutoTokenizer, BertTokenizer, GPT2Tokenizer, RobertaTokenizer

from heed.config import TokenizerConfig
from heed.data.tokens import END, START
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.tokenizers import imported, read_tokenizer, write_tokenizer
from multilingual import LINES
from tokenizer_folders import (
    CASED,
    FOLDERS,
    GPT2,
    ROBERTA,
    SEEN,
    UNCASED,
    bert,
    merges_txt,
    saved,
    spm,
    vocab_txt,
    whole_bpe,
    with_added,
)


def configured(folder, family, vocab_size):
    values = {"model_type": family, "vocab_size": vocab_size, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(values))
    return values


@pytest.fixture(scope="module", params=FOLDERS)
def opened(request, tmp_path_factory):
    """A folder, its family, and both sides' reading of it."""
    folder = tmp_path_factory.mktemp("checkpoint") / "their"
    family, make = FOLDERS[request.param]
    make(folder)
    configured(folder, family, 1)
    theirs = AutoTokenizer.from_pretrained(folder)
    config = configured(folder, family, max(theirs.get_vocab().values()) + 1)
    return folder, family, theirs, *read_tokenizer(folder, config)


def test_texts_are_cut_as_theirs(opened):
    _, _, theirs, ours, _ = opened
    for text in LINES:
        assert ours.encode(text).ids == theirs.encode(text, add_special_tokens=False), text
    assert ours.encode_all(LINES) == [ours.encode(text).ids for text in LINES]


def test_every_token_keeps_its_id_and_the_end_token_stands_in_for_others(opened):
    folder, _, theirs, ours, _ = opened
    end = theirs.sep_token_id if theirs.sep_token else theirs.eos_token_id
    start = theirs.cls_token_id if theirs.cls_token else theirs.bos_token_id
    named = [theirs.pad_token_id, theirs.unk_token_id, start, end]
    assert ours.special[0] == (end if named[0] is None else named[0])
    assert ours.special[1] == (-1 if named[1] in (None, end) else named[1])
    assert ours.special[2:] == (end if start is None else start, end)
    assert ours.vocab_size == json.loads((folder / "config.json").read_text())["vocab_size"]
    inside = range(ours.library.get_vocab_size(with_added_tokens=False))
    tokens = theirs.convert_ids_to_tokens([*inside])
    assert ours.tokens[: len(inside)] == [name or f"<unused row {i}>" for i, name in enumerate(tokens)]
    assert ours.tags == {} and ours.mask == theirs.mask_token_id


def test_it_is_kept_in_a_file_with_its_ids(opened, tmp_path):
    *_, ours, _ = opened
    ours.save(tmp_path / "tokenizer.json")
    again = TextTokenizer.load(tmp_path / "tokenizer.json")
    assert (again.special, again.vocab_size, again.text) == (ours.special, ours.vocab_size, ours.text)
    assert again.encode_all(LINES) == ours.encode_all(LINES)


def test_no_text_is_cut_into_our_special_tokens(opened):
    *_, ours, _ = opened
    never = {ours.special.padding, ours.special.start, ours.special.end, ours.mask}
    for i in never - {None}:
        assert not never & {*ours.encode(f"a {ours.token(i)} b{ours.token(i)}").ids}, ours.token(i)


def test_a_letter_without_a_token_does_not_end_the_text():
    library = Tokenizer(models.BPE({"a": 0, "b": 1, "<end>": 2}, [], unk_token="<end>"))
    ours = imported(library, {"eos_token": "<end>", "unk_token": "<end>"}, None)
    assert ours.special == (2, -1, 2, 2) and ours.encode("azb").ids == [0, 1]


def test_words_and_text_come_back(opened):
    *_, ours, _ = opened
    for text in LINES[:3]:
        ids = ours.encode(text).ids
        words = ours.words(ids)
        assert [n for word in words for n in word] == list(range(len(ids)))
        joined = "".join(ours.word_label(ids[word.start : word.stop]) for word in words)
        if ours.special.unknown not in ids and ours.unit != "word" and "<tag>" not in ours.tokens:
            assert joined.replace("\u2581", "") == ours.normalize(text).replace(" ", "")
            assert ours.decode(ids).replace(" ", "") == ours.normalize(text).replace(" ", "")


def test_what_is_written_is_read_by_both_as_before(opened, tmp_path):
    _, family, theirs, ours, files = opened
    write_tokenizer(ours, json.loads(json.dumps(files)), tmp_path, family)
    config = configured(tmp_path, family, ours.vocab_size)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert type(again) is type(theirs)
    assert {name: i for name, i in again.get_vocab().items() if "unused row" not in name} == theirs.get_vocab()
    for text in LINES:
        assert again.encode(text) == theirs.encode(text), text
        assert again.encode(text, "b c") == theirs.encode(text, "b c"), text
    for name in ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token"):
        assert getattr(again, name) == getattr(theirs, name)
    assert {*again.all_special_tokens} == {*theirs.all_special_tokens}
    back, _ = read_tokenizer(tmp_path, config)
    assert back.first_difference(ours) == "" and back.special == ours.special


def test_without_their_files_texts_are_cut_the_same(opened, tmp_path):
    _, family, theirs, ours, _ = opened
    write_tokenizer(ours, {}, tmp_path, family)
    config = configured(tmp_path, family, ours.vocab_size)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for text in LINES:
        expected = theirs.encode(text, add_special_tokens=False)
        assert again.encode(text, add_special_tokens=False) == expected, text
        start, end = ([], []) if family == "gpt2" else ([ours.special.start], [ours.special.end])
        assert again.encode(text) == [*start, *expected, *end]
    back, _ = read_tokenizer(tmp_path, config)
    assert back.tokens == ours.tokens and back.special == ours.special


OWN = {
    "wordpiece": {"lowercase": True, "normalization": "none"},
    "wordpiece with nfc": {"kind": "wordpiece"},
    "bpe": {},
    "byte_bpe": {},
    "unigram": {"normalization": "nfkc"},
    "word": {"min_count": 1},
    "char": {},
    "byte": {},
}


FRAMES = ("bert", "roberta", "gpt2")
WRITTEN = [  # each kind with two families, with and without a mask
    (family, kind, (n + m) % 2 == 0) for n, kind in enumerate(OWN) for m, family in enumerate(FRAMES) if (n + m) % 3 < 2
]


@pytest.mark.parametrize(("family", "kind", "mask"), WRITTEN)
def test_tokenizers_trained_here_are_written(tmp_path, family, kind, mask):
    config = TokenizerConfig(**{"kind": kind, "vocab_size": 500, **OWN[kind]})
    ours = TextTokenizer.train(SEEN, config, mask=mask)
    write_tokenizer(ours, {}, tmp_path, family)
    configured(tmp_path, family, ours.vocab_size)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert len(theirs) == ours.vocab_size
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id, theirs.sep_token_id) == (0, 1, 2, 3)
    assert theirs.mask_token_id == ours.mask
    for text in (text[:99] for text in LINES if text.strip()):
        ids = ours.encode(text).ids
        assert theirs.encode(text, add_special_tokens=False) == ids, text
        framed = {"bert": [START, *ids, END, *ids, END], "roberta": [START, *ids, END, END, *ids, END]}
        both = theirs(text, text)
        assert both["input_ids"] == framed.get(family, [*ids, *ids])
        if family == "bert":
            assert both["token_type_ids"] == [0] * (len(ids) + 2) + [1] * (len(ids) + 1)
        else:
            assert "token_type_ids" not in both


def test_rows_without_a_token_are_kept(tmp_path):
    saved(with_added(BertTokenizer(vocab=dict(CASED), do_lower_case=False)), tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    size = len(theirs) + 13
    ours, files = read_tokenizer(tmp_path, {"model_type": "bert", "vocab_size": size})
    assert ours.vocab_size == size and ours.token(size - 1) == f"<unused row {size - 1}>"
    for text in LINES:
        assert ours.encode(text).ids == theirs.encode(text, add_special_tokens=False)
    write_tokenizer(ours, files, tmp_path / "out", "bert")
    configured(tmp_path / "out", "bert", size)
    again = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert len(again) == len(theirs)
    assert [again.encode(text) for text in LINES] == [theirs.encode(text) for text in LINES]


def test_added_tokens_without_a_row_are_left_out(tmp_path):
    saved(GPT2Tokenizer(*GPT2, pad_token="[PAD]"), tmp_path)
    ours, _ = read_tokenizer(tmp_path, {"model_type": "gpt2", "vocab_size": len(GPT2[0])})
    end = GPT2[0]["<|endoftext|>"]
    assert ours.special == (end, -1, end, end) and "[PAD]" not in ours.tokens


def test_words_of_byte_tokens_have_the_blank_before_them(tmp_path):
    saved(RobertaTokenizer(*ROBERTA, add_prefix_space=True), tmp_path)
    theirs = RobertaTokenizer.from_pretrained(tmp_path)
    ours, _ = read_tokenizer(tmp_path, {"model_type": "roberta"})
    words = LINES[0].split()
    ids = ours.encode_words([words])[0]
    expected = theirs(words, is_split_into_words=True, add_special_tokens=False)["input_ids"]
    assert [i for word in ids for i in word] == expected


def damaged(text):
    def make(folder):
        bert(CASED, False)(folder)
        (folder / "tokenizer.json").write_text(text)

    return make


def other(name):
    def make(folder):
        vocab_txt(folder, CASED, tokenizer_class=name)

    return make


def other_decoder(folder):
    whole_bpe(folder)
    path = folder / "tokenizer.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["decoder"] = {"type": "ByteFallback"}
    path.write_text(json.dumps(values), encoding="utf-8")


def not_text(folder):
    folder.mkdir()
    (folder / "vocab.txt").write_bytes(b"a\n\xff\xfe\n")


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (
            lambda folder: folder.mkdir(),
            RunError,
            "has no tokenizer that heed reads: neither tokenizer.json, nor vocab.txt",
        ),
        (damaged("{"), RunError, r"tokenizer\.json is damaged"),
        (damaged("[1]"), RunError, "input should be an object"),
        (damaged("{}"), RunError, "it has no 'model'"),
        (damaged('{"model": {"type": "WordPiece", "vocab": {"a": "b"}}}'), RunError, "is damaged"),
        (not_text, RunError, r"vocab\.txt is damaged"),
        (other("BertJapaneseTokenizer"), ConfigError, "is 'BertJapaneseTokenizer', which heed does not support"),
        (bert(CASED, False, do_lower_case="no"), ConfigError, 'do_lower_case is "no": input should be a valid boolean'),
        (bert(CASED, False, added_tokens_decoder=[1]), RunError, "added_tokens_decoder has no tokens by number"),
        (other_decoder, ConfigError, "its decoder is ByteFallback, which heed does not support"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, make, error, said):
    folder = tmp_path / "their"
    make(folder)
    with pytest.raises(error, match=said):
        read_tokenizer(folder, {"model_type": "bert", "vocab_size": 2000})


def test_xlm_roberta_needs_the_file_that_transformers_makes_of_its_pieces(tmp_path):
    folder = tmp_path / "their"
    spm(folder)
    with pytest.raises(RunError, match=r"has no tokenizer that heed reads: neither tokenizer\.json") as caught:
        read_tokenizer(folder, {"model_type": "xlm-roberta"})
    line = str(caught.value).partition("trained from: ")[2]
    exec(f"from transformers import AutoTokenizer; FOLDER = {str(folder)!r}; {line}")
    ours, _ = read_tokenizer(folder, {"model_type": "xlm-roberta"})
    theirs = AutoTokenizer.from_pretrained(folder)
    assert ours.encode(LINES[0]).ids == theirs.encode(LINES[0], add_special_tokens=False)


def test_a_vocabulary_larger_than_the_embedding_is_refused(tmp_path):
    vocab_txt(tmp_path / "their", CASED)
    with pytest.raises(ConfigError, match=f"has {len(CASED)} tokens, but vocab_size of config.json is 100"):
        read_tokenizer(tmp_path / "their", {"model_type": "bert", "vocab_size": 100})


def test_nothing_but_the_files_is_needed(tmp_path):
    """Neither transformers nor sentencepiece nor a network."""
    folders = {"bert": tmp_path / "b", "gpt2": tmp_path / "g"}
    vocab_txt(folders["bert"], CASED)
    merges_txt(folders["gpt2"], *GPT2)
    program = (
        "import sys, socket, json, pathlib\n"
        "sys.modules |= dict.fromkeys(('transformers', 'sentencepiece', 'huggingface_hub', 'google.protobuf'))\n"
        "def refuse(*a, **k): raise AssertionError('a socket')\n"
        "socket.socket.connect = socket.create_connection = refuse\n"
        "from heed.exchange.huggingface.tokenizers import read_tokenizer, write_tokenizer\n"
        "for family, folder in json.loads(sys.argv[1]).items():\n"
        "    tokenizer, files = read_tokenizer(pathlib.Path(folder), {'model_type': family})\n"
        "    write_tokenizer(tokenizer, files, pathlib.Path(folder) / 'out', family)\n"
        "    print(family, tokenizer.decode(tokenizer.encode('fox').ids))\n"
    )
    given = json.dumps({family: str(folder) for family, folder in folders.items()})
    done = subprocess.run([sys.executable, "-c", program, given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["bert", "fox", "gpt2", "fox"]


def with_mask(**flags):
    """RoBERTa's files without a table of added tokens, in which the mask token has properties."""
    mask = {"__type": "AddedToken", "content": "<mask>", **flags}
    return lambda folder: merges_txt(folder, *ROBERTA, tokenizer_class="RobertaTokenizer", mask_token=mask)


def in_the_map(folder):
    merges_txt(folder, *ROBERTA)
    (folder / "special_tokens_map.json").write_text('{"mask_token": {"content": "<mask>", "lstrip": true}}')


MASKED = {
    "bert": bert(UNCASED, True),
    "roberta": lambda folder: saved(RobertaTokenizer(*ROBERTA), folder),
    "roberta, tokenizer.json": lambda folder: saved(
        RobertaTokenizer(*ROBERTA, mask_token=AddedToken("<mask>", lstrip=True, normalized=False)), folder
    ),
    "roberta, a mask that takes the blank": with_mask(lstrip=True, rstrip=False, normalized=True),
    "roberta, a mask that does not": with_mask(lstrip=False),
    "roberta, special_tokens_map.json": in_the_map,
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_in_a_text_are_where_theirs_are(tmp_path, name):
    family, tmp_path = name.partition(",")[0], tmp_path / "theirs"
    MASKED[name](tmp_path)
    configured(tmp_path, family, 1)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    ours, _ = read_tokenizer(tmp_path, {"model_type": family})
    for text in ("the {} fox jumped", "{} quick", "the {}.", "the {} {}, and after"):
        expected = theirs.encode(text.replace("{}", theirs.mask_token), add_special_tokens=False)
        for name in ("[MASK]", theirs.mask_token):
            assert ours.encode_masked(text.replace("{}", name)) == expected
