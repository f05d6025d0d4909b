"""Real corpora are read whole. They lie in the folder that HEED_DATA names, and are never part of the project."""

import os
from pathlib import Path

import pytest

from heed.config import FilesData, TokenizerConfig
from heed.data.files import open_files
from heed.data.readers import read_pairs
from heed.data.tokenizer import UNKNOWN, TextTokenizer

DATA = Path(os.environ.get("HEED_DATA", "no-such-folder"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="HEED_DATA names no folder with the corpora")


def multi30k(split):
    return [str(DATA / "multi30k" / f"{split}.{language}.gz") for language in ("de", "en")]


def test_multi30k_is_read_whole_and_nothing_is_left_out():
    pairs, counts, remarks = open_files(
        FilesData(train=multi30k("train"), valid=multi30k("val"), test=multi30k("test_2016_flickr"))
    )
    assert {name: len(split) for name, split in pairs.items()} == {"train": 29000, "valid": 1014, "test": 1000}
    assert all(not count.filtered for count in counts.values()), counts
    assert not [remark for remark in remarks if "test" in remark], "no test caption stands in the training set"


@pytest.mark.parametrize(("name", "count"), [("hin", 2915), ("spa", 118964)])
def test_tatoeba_is_read_with_two_columns_and_with_three(name, count):
    pairs = list(read_pairs([DATA / "tatoeba" / f"{name}.txt.gz"]))
    assert len(pairs) == count
    assert all(pair.source.strip() and pair.target.strip() for pair in pairs)
    assert not any("CC-BY" in pair.target for pair in pairs)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_of_real_sentences_decode_to_the_sentences(kind):
    texts = [pair.target for pair in read_pairs([DATA / "tatoeba" / "hin.txt.gz"])]
    tokenizer = TextTokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=1000))
    for text, ids in zip(texts, tokenizer.encode_all(texts), strict=True):
        if UNKNOWN not in ids:
            assert tokenizer.decode(ids).split() == tokenizer.normalize(text).split()
