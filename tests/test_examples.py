"""Data of one text or of three is read, held out, stored, measured and planned as pairs are."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from contract import data_of
from heed.config import TokenizerConfig
from heed.data.corpus import StoredExamples, corpus_of, hashes_in, keep_examples
from heed.data.examples import Conversation, Example, Pair, Role, Sentence, Text, in_turn, select
from heed.data.kinds.numbers import Row
from heed.data.readers import Reader
from heed.data.splits import open_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.tasks.inputs.few_pairs import open_pairs
from heed.tasks.inputs.pairs import TrainingSet, Weighted

pytestmark = pytest.mark.usefixtures("own_cache")


@dataclass(frozen=True, slots=True)
class Triple(Example):
    """A question, a passage and an answer."""

    unit, groups = "question", "question"
    roles: ClassVar = {name: Role(name) for name in ("question", "passage", "answer")}

    question: str
    passage: str
    answer: str
    origin: str = field(default="", compare=False)


def read_triples(files, findings):
    for file in files:
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield Triple(*line.rstrip("\n").split("\t"), f"{file}:{number}")


def read_lines(files, findings):
    for file in files:
        with open(file, encoding="utf-8") as lines:
            yield from (Text(line.rstrip("\n"), origin=f"{file}:{n}") for n, line in enumerate(lines, start=1))


def texts(count):
    return [Text(f"the text {i % 40} of {'many ' * (i % 5)}words", origin=f"a.txt:{i}") for i in range(count)]


def triples(count):
    return [
        Triple(f"who {i % 40}", "so " * (1 + i % 4) + "it is", f"me {i}", origin=f"a.tsv:{i}") for i in range(count)
    ]


KINDS = [(texts, Reader(Text, read_lines)), (triples, Reader(Triple, read_triples))]
EXAMPLES = [
    Pair("a", "b\u0939", origin="x:1"),
    Text("one text", ("one", "another label"), origin="x:1"),
    Text("no label", origin="x:1"),
    Text("a\tb", ("label",), origin="x:1"),
    Text("a", ("label",), "x:1", "b\tc"),
    Text("one text", ("one",), "x:1", "another"),
    Text("with\ta tab", origin="x:1"),
    Text("with\ta tab", ("one", "another"), "x:1", "and\tanother"),
    Sentence(("10 000", "words", ""), ("O", "B-a b", "O"), origin="x:1"),
    Conversation(("one", "\u0939"), ("a", ""), origin="x:1"),
    Conversation(("one", "two"), origin="x:1"),
    Triple("a", "", "c", origin="x:1"),
    Row((1.5, -2e-9), "label", origin="x:1"),
]


def written(tmp_path, examples):
    path = tmp_path / "a.txt"
    path.write_text("".join("\t".join(e.texts) + "\n" for e in examples), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_an_example_is_its_fields_and_its_origin(example):
    (stored,) = keep_examples(lambda: iter([example]), type(example), 0)[0]
    assert stored == example and stored.origin == example.origin and type(stored) is type(example)


def test_both_texts_of_a_pair_decide_its_split():
    one, other = Text("one", second="text"), Text("one", second="other text")
    assert one.keys[0] == "one\ttext" != other.keys[0]


@pytest.mark.parametrize(("make", "reader"), KINDS)
def test_a_corpus_of_any_kind_is_stored_and_found_again(tmp_path, make, reader):
    examples = make(300)
    path = written(tmp_path, examples)
    data = data_of("translation", train=[path], in_memory=10, valid=30, duplicates="drop")
    first, second = open_splits(data, reader), open_splits(data, reader)
    held = open_splits(data.model_copy(update={"in_memory": 1_000}), reader)
    assert isinstance(first.examples["train"], StoredExamples) and isinstance(held.examples["train"], list)
    for splits in (second, held):
        for split in ("train", "valid"):
            assert list(splits.examples[split]) == list(first.examples[split])
        assert splits.counts == first.counts
    assert f"{reader.kind.unit}s stored in" in first.notes
    train, valid = ({example.texts[0] for example in first.examples[split]} for split in ("train", "valid"))
    assert len(first.examples["valid"]) >= 30 and not train & valid
    part = select(first.examples["train"], [5, 2])
    assert list(part) == [held.examples["train"][5], held.examples["train"][2]]
    assert np.array_equal(hashes_in(part), hashes_in(list(part)))


def test_repeats_and_blanks_of_any_kind_are_counted_in_its_words(tmp_path):
    rows = [*triples(20), triples(20)[3], Triple("", " ", ""), Triple("a", "", "c")]
    splits = open_splits(data_of("translation", train=[written(tmp_path, rows)], valid=2), Reader(Triple, read_triples))
    assert splits.counts["train"].filtered == {"all sides blank": 1, "passage blank": 1, "held out for validation": 2}
    assert "duplicate question, kept: 1 question" in splits.notes
    with pytest.raises(DataError, match=r"no training questions left in .*: 0 of 1 questions kept, .*; give more data"):
        open_splits(data_of("translation", train=[written(tmp_path, rows[-1:])]), Reader(Triple, read_triples))


@pytest.mark.parametrize(("make", "reader"), KINDS)
def test_lengths_are_those_of_the_tokens_on_every_side(tmp_path, make, reader):
    examples = make(200)
    sides = zip(*(example.texts for example in examples), strict=True)
    tokenizers = [TextTokenizer.train(side, TokenizerConfig(kind="bpe", vocab_size=60)) for side in sides]
    stored = keep_examples(lambda: iter(examples), reader.kind, 0, [written(tmp_path, examples)])[0]

    def encode(some):
        sides = zip(*(example.texts for example in some), strict=True)
        rows = (tokenizer.encode_all(list(side)) for tokenizer, side in zip(tokenizers, sides, strict=True))
        return list(map(list, zip(*rows, strict=True)))

    wanted = encode(examples)
    sets = []
    for given in (examples, stored, stored):
        in_parts = lambda given=given: map(encode, in_turn(given))  # noqa: E731
        corpus = corpus_of(given, in_parts, ["<i4"] * len(tokenizers), lambda rows: [*map(list, rows)])
        assert list(corpus) == wanted and corpus.lengths.tolist() == [[*map(len, rows)] for rows in wanted]
        assert list(corpus.select([7, 3, 3]).select([2, 0])) == [wanted[3], wanted[7]]
        sets.append(TrainingSet([Weighted(given, corpus)]))
    held, unheld, _ = sets
    plan = held.batches(held.lengths, 90, 1, 2)
    assert plan == list(unheld.batches(unheld.lengths, 90, 1, 2))
    assert sorted(i for b in plan for i in b) == list(range(200))
    assert all(len(b) == 1 or len(b) * held.lengths[b].max(0).sum() <= 90 for b in plan)
    assert held.tokens_at(plan[3]) == unheld.tokens_at(plan[3])
    assert held.examples_at(plan[3]) == unheld.examples_at(plan[3])


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the memory of one mapped file is listed by Linux")
def test_memory_does_not_grow_with_the_tokens_read_from_disk():
    stored = keep_examples(lambda: iter(texts(300)), Text, 0)[0]
    encode = lambda: ([[range(5_000)] for _ in some] for some in in_turn(stored))  # noqa: E731
    corpus = corpus_of(stored, encode, ["<i4"], lambda rows: [sum(*row) for row in rows])
    assert sum(corpus) == 300 * sum(range(5_000))
    maps = Path("/proc/self/smaps").read_text().split("rows-0.bin\n")[1:]  # of the texts and of 6 MB of tokens
    assert len(maps) >= 2 and {int(re.search(r"Rss: +(\d+) kB", one)[1]) for one in maps} == {0}


def test_examples_in_memory_are_held_out_compared_and_counted_as_files_are():
    given = {"train": [*texts(50), Text(""), texts(50)[7]], "test": [Text("new"), texts(1)[0]]}
    data = data_of("classification", train=["memory"], valid=5, overlap="drop", duplicates="drop")
    splits = open_splits(data, Reader(Text, read_lines), given)
    assert {split: len(examples) for split, examples in splits.examples.items()}["test"] == 2
    assert splits.counts["train"].filtered["blank"] == 1 and len(splits.examples["valid"]) >= 5
    assert texts(1)[0].text not in {text.text for text in splits.examples["train"]}
    pairs = [Pair(f"s {i}", f"t {i}") for i in range(30)]
    splits = open_pairs(
        data_of("translation", train=["memory"], in_memory=3), {"train": pairs[:20], "valid": pairs[20:]}
    )
    assert splits.examples == {"train": pairs[:20], "valid": pairs[20:]}
