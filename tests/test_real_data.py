"""Real corpora are read whole. They lie in the folder that HEED_DATA names, and are never part of the project."""

import os
from collections import Counter
from pathlib import Path

import pytest

from contract import data_of
from heed.data.findings import Findings
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.tagged import ColumnFile, by_sentence, entities, read_sentences
from heed.data.kinds.texts import text_reader
from heed.evaluation.labels import tag_measures
from heed.tasks.inputs.few_pairs import open_pairs

DATA = Path(os.environ.get("HEED_DATA", "no-such-folder"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="HEED_DATA names no folder with the corpora")


def multi30k(split):
    return [str(DATA / "multi30k" / f"{split}.{language}.gz") for language in ("de", "en")]


def test_multi30k_is_read_whole_and_nothing_is_left_out():
    splits = open_pairs(
        data_of("translation", train=multi30k("train"), valid=multi30k("val"), test=multi30k("test_2016_flickr"))
    )
    pairs, counts, remarks = splits.examples, splits.counts, splits.remarks
    assert {name: len(split) for name, split in pairs.items()} == {"train": 29000, "valid": 1014, "test": 1000}
    assert all(not count.filtered for count in counts.values()), counts
    assert not [remark for remark in remarks if "test" in remark], "no test caption stands in the training set"


@pytest.mark.parametrize(("name", "count"), [("hin", 2915), ("spa", 118964)])
def test_tatoeba_is_read_with_two_columns_and_with_three(name, count):
    pairs = list(pair_reader().read([DATA / "tatoeba" / f"{name}.txt.gz"], Findings()))
    assert len(pairs) == count
    assert all(pair.source.strip() and pair.target.strip() for pair in pairs)
    assert not any("CC-BY" in pair.target for pair in pairs)


def test_the_systems_of_wnut17_score_what_was_published():
    folder = DATA / "ner" / "wnut17"
    published = {"uh_ritual": 41.86, "spinningbytes": 40.78, "sjtu_adapt": 40.42, "arcada": 39.98}
    published |= {"flytxt": 38.35, "mic-cis": 37.06, "drexel_cci": 26.30}

    def tags(path):
        return [[row.cells[-1] for row in rows] for rows in by_sentence(ColumnFile(path))]

    gold = tags(folder / "emerging.test.annotated.gz")
    found = {}
    for path in (folder / "submissions").iterdir():
        f1 = tag_measures(gold, tags(path), plain=False)[0].score()
        found[path.name.split(".")[0]] = round(100 * f1, 2)
    assert found == published


@pytest.mark.parametrize(
    ("path", "columns", "sentences", "words", "found"),
    [
        ("wnut17/wnut17train.conll.gz", {}, 3394, 62730, 1975),
        ("wnut17/emerging.dev.conll.gz", {}, 1009, 15733, 836),
        ("btc/h.conll.gz", {}, 2001, 29480, 3368),
        ("wikigold/wikigold.conll.txt.gz", {}, 1696, 39007, 3558),
        ("uner_en_ewt/en_ewt-ud-dev.iob2.gz", {"word": 1, "label": 2}, 2001, 25149, 966),
    ],
)
def test_entity_corpora_are_read_whole(path, columns, sentences, words, found):
    data = data_of("tagging", columns=columns)
    read = read_sentences([DATA / "ner" / path], data)
    assert len(read) == sentences
    assert sum(len(sentence.words) for sentence in read) == words
    assert sum(len(entities(sentence.tags)) for sentence in read) == found


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("sentiment/sst/stsa.binary.train.gz", {"0": 3310, "1": 3610}),
        ("sentiment/mr/rt-polarity.all.gz", {"0": 5331, "1": 5331}),
        ("documents/imdb/imdb.test.tsv.xz", {"neg": 12500, "pos": 12500}),
    ],
)
def test_labelled_corpora_are_read_whole(path, counts):
    texts = list(text_reader(data_of("classification")).read([DATA / path], Findings()))
    assert Counter(text.labels[0] for text in texts) == counts
    assert all(text.text.strip() for text in texts)
