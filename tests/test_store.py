"""Corpora that do not live in memory are read, split, encoded and trained on as those that do, and found again."""

import multiprocessing
import os
import pwd
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import heed
from contract import data_of
from heed.config import TokenizerConfig
from heed.data import corpus as reading
from heed.data import corpus as store
from heed.data import examples as sequences
from heed.data.corpus import Corpus, StoredExamples, corpus_of, hashes_in, keep_examples
from heed.data.examples import Conversation, Example, Pair, Role, Sentence, Text, in_turn, select
from heed.data.kinds.numbers import Row
from heed.data.readers import Reader
from heed.data.splits import open_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.show import image_files
from heed.storage import cache as caching
from heed.storage.files import cache_folder
from heed.tasks import check_config, task_class
from heed.tasks.inputs import few_pairs as start
from heed.tasks.inputs import tokens
from heed.tasks.inputs.few_pairs import open_pairs
from heed.tasks.inputs.pairs import Pairs, TrainingSet, Weighted
from heed.tasks.translation import TASK

pytestmark = pytest.mark.usefixtures("own_cache")

PAIRS = [Pair(f"source {i % 37} \u0939\u093e", f"target {i}", origin=f"a.en:{i + 1}") for i in range(2500)]


def keep_pairs(pairs, in_memory):
    return keep_examples(lambda: pairs, Pair, in_memory)[0]


def write(folder, pairs=PAIRS):
    for side in ("source", "target"):
        text = "".join(getattr(pair, side) + "\n" for pair in pairs)
        (folder / f"a.{side}").write_text(text, encoding="utf-8")
    return [str(folder / "a.source"), str(folder / "a.target")]


def prepare(files, in_memory=0, kind="word", **fields):
    data = {"train": files, "max_length": 60, "in_memory": in_memory, **fields.pop("data", {})}
    tokenizer = {"kind": kind, **fields.pop("tokenizer", {})}
    values = {"data": data, "tokenizer": tokenizer, "model": {"size": "tiny"}, "training": {"steps": 1}, **fields}
    return TASK.prepare(check_config(values, "test"))


def same_batches(one, other):
    plan = list(one.train_batches(3))
    assert plan == list(other.train_batches(3))
    for indices in plan[:5]:
        left, right = one.collate(indices), other.collate(indices)
        assert left.indices == right.indices == indices
        assert left.inputs["source"].equal(right.inputs["source"])
        assert left.targets["labels"].equal(right.targets["labels"])


def entries():
    return {path.name: path for path in (cache_folder() / "entries").iterdir() if path.is_dir()}


# --- pairs in a file


def test_a_corpus_too_large_for_memory_reads_the_same_from_its_file():
    stored = keep_pairs(iter(PAIRS), in_memory=100)
    assert isinstance(stored, StoredExamples) and len(stored) == len(PAIRS)
    assert list(stored) == PAIRS and stored[1234] == PAIRS[1234] and stored[-1] == PAIRS[-1]
    assert stored[3:6] == PAIRS[3:6] and [p.origin for p in stored[:2]] == ["a.en:1", "a.en:2"]
    assert list(select(stored, [5, 2, 2])) == [PAIRS[5], PAIRS[2], PAIRS[2]]
    part = stored.select(range(0, 2500, 7)).select([3, 0])
    assert list(part) == [PAIRS[21], PAIRS[0]] and part.take([1]) == [PAIRS[0]]
    with pytest.raises(IndexError):
        stored[2500]


@pytest.mark.parametrize("origin", ["", "here", "a:b", "x:007:3", "train:12", "a.en:99999999999"])
def test_an_origin_is_kept_as_it_is(origin):
    assert keep_pairs(iter([Pair("a", "b", origin=origin)]), in_memory=0)[0].origin == origin


def test_a_corpus_that_fits_stays_a_list():
    assert keep_pairs(iter(PAIRS), in_memory=len(PAIRS)) == PAIRS
    assert not cache_folder().exists()


def test_what_is_not_kept_goes_when_nobody_reads_it_any_more():
    part = select(keep_pairs(iter(PAIRS), in_memory=0), [1, 2])
    assert len(list(cache_folder().iterdir())) == 1 and part[0] == PAIRS[1]
    del part
    assert not list(cache_folder().iterdir())


# --- training on them


@pytest.mark.parametrize("kind", ["word", "bpe", "char"])  # unigram is not trained alike twice
def test_training_sees_the_same_batches_from_memory_and_from_a_file(tmp_path, kind):
    files = write(tmp_path, [*PAIRS, Pair("", "blank"), Pair("long " * 99, "x")])
    light, heavy = prepare(files, 0, kind), prepare(files, 10_000, kind)
    assert isinstance(light.splits.examples["train"], StoredExamples) and isinstance(
        heavy.splits.examples["train"], list
    )
    assert light.splits.counts == heavy.splits.counts
    assert light.splits.counts["train"].filtered["longer than data.max_length 60 tokens"] == 1
    assert light.config.model == heavy.config.model and light.config.generation == heavy.config.generation
    same_batches(light, heavy)
    assert list(light.splits.examples["valid"]) == list(heavy.splits.examples["valid"])
    indices = light.train_batches(0)[0]
    assert light.work(indices) == heavy.work(indices)
    assert light.describe(indices, 0) == heavy.describe(indices, 0)
    assert light.report_counts()["train"] == heavy.report_counts()["train"]


def test_a_corpus_in_a_file_is_neither_held_as_text_nor_as_tokens(tmp_path, monkeypatch):
    """Peak memory by counting: how many pairs are alive at once, from the files to the batches of a pass."""
    monkeypatch.setattr(sequences, "CHUNK", 50)
    files = write(tmp_path)
    made = []
    init = Pair.__init__

    def counted(self, *args, **kwargs):
        made.append(None)
        init(self, *args, **kwargs)

    task = prepare(files, 10)
    kept = [value for value in vars(task.input.training(task)).values() if isinstance(value, list)]
    assert not any(len(value) > 10 for value in kept)
    monkeypatch.setattr(Pair, "__init__", counted)
    plan = task.train_batches(0)
    assert not made  # planned without a text
    batch = plan[len(plan) // 2]
    task.collate(batch)
    assert not made  # of the tokens, without a text
    assert not isinstance(plan, list)
    assert plan[:2] == [plan[0], plan[1]] and sorted(i for b in plan for i in b) == list(
        range(len(task.input.training(task)))
    )


def test_tokenizers_of_a_large_corpus_are_trained_on_a_sample_which_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "_SAMPLE", 6_000)
    task = prepare(write(tmp_path))
    (remark,) = [line for line in task.notes.splitlines() if "sample" in line]
    assert remark.startswith("tokenizers trained on a sample of ") and remark.endswith("of 2,297 pairs")
    assert prepare(write(tmp_path)).notes == task.notes
    assert "sample" not in prepare(write(tmp_path), 10_000).notes


# --- the cache


def test_what_was_found_in_the_texts_is_known_without_reading_them(tmp_path):
    """Repeats and overlap: of a kept corpus, and of files that are compared with it."""
    pairs = [Pair(f"the cat {i} sat on the wall", f"die Katze {i} auf der Mauer") for i in range(300)]
    train = write(tmp_path, [*pairs, pairs[3]])
    (tmp_path / "valid").mkdir()
    valid = write(tmp_path / "valid", [Pair("the other cat", "die andere Katze"), pairs[7]])
    wanted = prepare(train, 10_000, data={"valid": valid}).splits
    for in_memory in (0, 0, 10):
        splits = prepare(train, in_memory, data={"valid": valid}).splits
        assert splits.counts == wanted.counts and splits.found == wanted.found
    assert len(wanted.found["train"]) == len(wanted.found["valid"]) == 1


def counting(monkeypatch):
    """The keys of the entries that are made from now on."""
    made = []
    write = caching.write_folder
    monkeypatch.setattr(caching, "write_folder", lambda to: made.append(to.name) or write(to))
    return made


def test_a_second_start_makes_nothing_and_sees_the_same(tmp_path, monkeypatch):
    files = write(tmp_path)
    made = counting(monkeypatch)
    first = prepare(files, kind="bpe")
    assert len(made) == 3  # the pairs, the tokenizers, the tokens
    monkeypatch.setattr("heed.data.kinds.pairs._parallel", None)
    monkeypatch.setattr("heed.tasks.inputs.few_pairs.train_tokenizers", None)
    monkeypatch.setattr(Pairs, "_tagged", None)
    second = prepare(files, kind="bpe")
    assert len(made) == 3
    same_batches(first, second)
    assert first.notes == second.notes and first.config == second.config
    assert first.input.source_tokenizer.first_difference(second.input.source_tokenizer) == ""


def test_a_changed_file_is_read_again(tmp_path, monkeypatch):
    files = write(tmp_path)
    prepare(files)
    before = os.stat(files[0])
    text = (tmp_path / "a.source").read_text(encoding="utf-8")
    (tmp_path / "a.source").write_text(text.replace("source 1 ", "sOurce 1 "), encoding="utf-8")
    os.utime(files[0], ns=(before.st_atime_ns, before.st_mtime_ns))  # neither size nor time tells
    made = counting(monkeypatch)
    task = prepare(files)
    assert len(made) == 3
    assert any(pair.source.startswith("sOurce 1 ") for pair in task.splits.examples["train"])


def test_a_large_file_is_not_read_again_until_something_touches_it(tmp_path, monkeypatch):
    monkeypatch.setattr(caching, "_LARGE", 10)
    monkeypatch.setattr(caching, "_SETTLED", -1.0)
    monkeypatch.setattr(caching, "_FINE", -1.0)
    path = tmp_path / "a.txt"
    path.write_text("a" * 20)
    first = caching.content_of(path)
    checksum = caching.checksum
    monkeypatch.setattr(caching, "checksum", None)
    assert caching.content_of(path) == first
    monkeypatch.setattr(caching, "checksum", checksum)
    before = os.stat(path)
    path.write_text("b" * 20)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert caching.content_of(path) not in (first, None)
    for memory in (cache_folder() / "contents").iterdir():
        memory.write_text("{")  # damaged: it only saves time
    assert caching.content_of(path) == checksum(path)


def test_the_content_of_a_file_that_has_just_been_written_is_not_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(caching, "_LARGE", 10)
    (tmp_path / "a.txt").write_text("a" * 20)
    caching.content_of(tmp_path / "a.txt")
    assert not cache_folder().exists()


@pytest.mark.parametrize(
    ("changed", "remade"),
    [
        ({"tokenizer": {"lowercase": True}}, 2),  # tokenizers, tokens
        ({"tokenizer": {"vocab_size": 300}}, 2),
        ({"data": {"valid": 50}}, 2),  # the same pairs, others of them
        ({"data": {"max_length": 5}}, 0),  # the same tokens, fewer pairs
        ({"data": {"columns": {"source": 1, "target": 0}}}, 3),
        ({"training": {"batch_tokens": 500, "seed": 7}, "model": {"size": "tiny"}}, 0),
    ],
)
def test_a_changed_setting_makes_again_what_it_decides(tmp_path, monkeypatch, changed, remade):
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in PAIRS), encoding="utf-8")
    prepare([str(path)], kind="bpe")
    made = counting(monkeypatch)
    prepare([str(path)], kind="bpe", **changed)
    assert len(made) == remade


def test_another_version_or_format_finds_nothing(tmp_path, monkeypatch):
    prepare(write(tmp_path))
    made = counting(monkeypatch)
    monkeypatch.setattr(caching, "FORMAT", caching.FORMAT + 1)
    prepare(write(tmp_path))
    assert len(made) == 3


@pytest.mark.parametrize("damage", ["cut", "flip", "remove", "manifest"])
def test_a_damaged_entry_is_made_again_and_said(tmp_path, damage):
    files = write(tmp_path)
    whole = prepare(files)
    (entry,) = [path for path in entries().values() if (path / "rows-3.bin").exists()]
    texts = entry / "rows-0.bin"
    data = texts.read_bytes()
    if damage in ("cut", "flip"):
        texts.unlink()  # the first task goes on reading what it opened
    if damage == "cut":
        texts.write_bytes(data[:-9])
    elif damage == "flip":
        texts.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    elif damage == "remove":
        texts.unlink()
    else:
        (entry / "checksums.json").write_text("{}")
    again = prepare(files)
    (remark,) = [line for line in again.notes.splitlines() if "was damaged" in line]
    assert remark.startswith(f"warning: {entry} was damaged (") and remark.endswith("has been rebuilt")
    assert "was damaged" not in prepare(files).notes
    same_batches(whole, again)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    files = write(tmp_path)
    original = store.write_examples

    def write_pairs(*given):
        record = original(*given)
        with (tmp_path / "a.source").open("a") as file:
            file.write("more\n")
        return record

    monkeypatch.setattr("heed.data.corpus.write_examples", write_pairs)
    with pytest.raises(DataError, match=r"a\.source.*changed while being read; start again when no other program"):
        prepare(files)
    assert not entries()  # nothing is left behind


def test_what_a_killed_process_left_is_removed(tmp_path):
    files = write(tmp_path)
    prepare(files)
    (entry,) = [path for path in entries().values() if (path / "rows-3.bin").exists()]
    left = entry.rename(entry.with_name(f".{entry.name}.part"))
    prepare(files)
    assert not left.exists() and entry.exists()


def test_a_cache_folder_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot write to the cache folder .*; set HEED_CACHE to a folder with room"):
        prepare(write(tmp_path))
    assert prepare(write(tmp_path), 10_000)


def _prepare_in_a_process(files, cache, start, results):
    os.environ["HEED_CACHE"] = cache
    start.wait()
    made = []
    write = caching.write_folder
    caching.write_folder = lambda to: made.append(to.name) or write(to)
    task = prepare(files)
    results.put((len(made), [list(b) for b in task.train_batches(0)][:3]))


def test_of_two_processes_at_once_one_makes_each_entry(tmp_path):
    context = multiprocessing.get_context("fork")
    start, results = context.Event(), context.Queue()
    arguments = (write(tmp_path), str(tmp_path / "cache"), start, results)
    processes = [context.Process(target=_prepare_in_a_process, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    start.set()
    (made, plan), (also_made, other_plan) = results.get(timeout=60), results.get(timeout=60)
    for process in processes:
        process.join()
    assert made + also_made == 3 and plan == other_plan
    assert len(entries()) == 3


def test_a_resumed_run_of_a_kept_corpus_knows_its_batches_again(tmp_path):
    """The loop tells by a plan's text whether the batches are those it had."""
    files = write(tmp_path)
    first, second = prepare(files), prepare(files)
    assert repr(first.train_batches(0)) == repr(second.train_batches(0)) != repr(first.train_batches(1))
    assert repr(prepare(files, data={"valid": 50}).train_batches(0)) != repr(first.train_batches(0))


def test_without_a_home_folder_everything_but_the_cache_works(monkeypatch, tmp_path):
    def unknown(*_):
        raise KeyError("this user has no entry")

    for name in ("HOME", "HEED_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert image_files._system_fonts.__wrapped__() is not None
    said = "no home folder for the cache: set HEED_CACHE to a folder that can be written to"
    with pytest.raises(ConfigError, match=said):
        cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "heed"


# --- Labelled texts that are kept on disk: the same labels, held-out texts, batches and results as in memory


WORDS = "the a red old big cat dog man sees eats likes fish house.".split()
SETTINGS = {"training.device": "cpu", "training.threads": 1, "evaluation.bootstrap": 5, "data.valid": 8}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files of texts and of tagged sentences."""
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))
    drawn = random.Random(0)
    texts = [[drawn.choice(WORDS) for _ in range(drawn.randrange(1, 12))] for _ in range(80)]
    lines = [f"{' '.join(one)}\t{'cats' if 'cat' in one else 'none'}\n" for one in texts]
    (tmp_path / "texts.tsv").write_text("".join(lines))
    tagged = ["".join(f"{w} {'B-X' if w in ('cat', 'dog') else 'O'}\n" for w in one) for one in texts]
    (tmp_path / "tags.conll").write_text("\n".join(tagged))
    return {"classification": tmp_path / "texts.tsv", "tagging": tmp_path / "tags.conll"}


def prepared(task, file, **fields):
    data = {"train": [str(file)], "valid": 8, "max_length": 9, **fields}
    values = {"task": task, "data": data, "training": {"steps": 2}, "model": {"name": "rnn", "size": "tiny"}}
    return task_class(task).prepare(check_config(values, "the test"))


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_labelled_texts_on_disk_are_those_in_memory(files, task):
    held, stored = (prepared(task, files[task], in_memory=most) for most in (1_000, 20))
    train = stored.splits.examples["train"]
    assert isinstance(train, StoredExamples) and isinstance(stored.encoded("train"), Corpus)
    assert list(train) == list(held.splits.examples["train"])
    assert list(stored.splits.examples["valid"]) == list(held.splits.examples["valid"])
    assert stored.head.labels == held.head.labels and stored.input.tokenizer.text == held.input.tokenizer.text
    assert list(stored.encoded("train")) == list(held.encoded("train"))
    assert stored.report_counts() == held.report_counts()
    kept = [one for one in stored.notes.splitlines() if "stored in" not in one]
    assert kept == held.notes.splitlines() and any("stored in" in one for one in stored.notes.splitlines())
    plan = list(stored.train_batches(0))
    assert plan == held.train_batches(0)
    assert sorted(i for batch in plan for i in batch) == list(range(len(train)))
    for indices in plan:
        mine, theirs = stored.collate(indices), held.collate(indices)
        assert mine.indices == theirs.indices == indices
        assert (mine.inputs["tokens"] == theirs.inputs["tokens"]).all() and mine.num_targets == theirs.num_targets
        assert all((mine.targets[name] == truth).all() for name, truth in theirs.targets.items())
        assert stored.work(indices) == held.work(indices)
        assert task == "tagging" or held.work(indices) == mine.positions


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_a_run_on_texts_on_disk_trains_and_resumes(files, task, tmp_path):
    given = {"train": files[task], "model": "rnn", "size": "tiny", "quiet": True, "out": tmp_path / "run"}
    run = heed.train(task, steps=2, settings=SETTINGS | {"data.in_memory": 20}, **given)
    assert run.report["data"]["train"]["tokens"] > run.report["data"]["train"]["examples"]
    longer = heed.train(task, steps=4, resume=True, settings=SETTINGS | {"data.in_memory": 20}, **given)
    assert longer.report["training"]["updates"] == 4 and heed.check_run(tmp_path / "run").whole


def test_files_that_may_take_more_than_a_quarter_of_the_memory_are_kept_on_disk(files, monkeypatch):
    size = files["classification"].stat().st_size
    for free, kind in ((4 * 8 * size + 4, list), (4 * 8 * size - 4, StoredExamples)):
        monkeypatch.setattr(reading, "free_memory", lambda free=free: free)
        assert isinstance(prepared("classification", files["classification"]).splits.examples["train"], kind)


def test_a_large_corpus_trains_its_tokenizer_on_a_sample_and_says_so(files, monkeypatch):
    monkeypatch.setattr(tokens.Tokens, "sampled_bytes", 1_000)
    task = prepared("classification", files["classification"], in_memory=20)
    assert "tokenizer trained on a sample of" in task.notes and task.input.tokenizer.vocab_size > 4


def test_batches_of_one_cost_are_those_of_two():
    from heed.data.batch import plan_pass

    costs = np.random.default_rng(0).integers(1, 60, 500)
    both = np.stack([costs, np.zeros_like(costs)], axis=1)
    for epoch in (None, 0, 3):
        assert list(plan_pass(costs, 100, 7, epoch)) == list(plan_pass(both, 100, 7, epoch))


# --- Data of one text or of three is read, held out, stored, measured and planned as pairs are


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


def numbered_texts(count):
    return [Text(f"the text {i % 40} of {'many ' * (i % 5)}words", origin=f"a.txt:{i}") for i in range(count)]


def triples(count):
    return [
        Triple(f"who {i % 40}", "so " * (1 + i % 4) + "it is", f"me {i}", origin=f"a.tsv:{i}") for i in range(count)
    ]


KINDS = [(numbered_texts, Reader(Text, read_lines)), (triples, Reader(Triple, read_triples))]
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


def write_rows(tmp_path, examples):
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
    path = write_rows(tmp_path, examples)
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
    splits = open_splits(
        data_of("translation", train=[write_rows(tmp_path, rows)], valid=2), Reader(Triple, read_triples)
    )
    assert splits.counts["train"].filtered == {"all sides blank": 1, "passage blank": 1, "held out for validation": 2}
    assert "duplicate question, kept: 1 question" in splits.notes
    with pytest.raises(DataError, match=r"no training questions left in .*: 0 of 1 questions kept, .*; give more data"):
        open_splits(data_of("translation", train=[write_rows(tmp_path, rows[-1:])]), Reader(Triple, read_triples))


@pytest.mark.parametrize(("make", "reader"), KINDS)
def test_lengths_are_those_of_the_tokens_on_every_side(tmp_path, make, reader):
    examples = make(200)
    sides = zip(*(example.texts for example in examples), strict=True)
    tokenizers = [TextTokenizer.train(side, TokenizerConfig(kind="bpe", vocab_size=60)) for side in sides]
    stored = keep_examples(lambda: iter(examples), reader.kind, 0, [write_rows(tmp_path, examples)])[0]

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
def resident_of_rows():
    """Resident kB of each mapped file of rows, by address."""
    entries = re.finditer(
        r"^([0-9a-f]+-[0-9a-f]+) .*rows-0\.bin\n(?:.*\n)*?Rss: +(\d+) kB", Path("/proc/self/smaps").read_text(), re.M
    )
    return {entry[1]: int(entry[2]) for entry in entries}


def test_memory_does_not_grow_with_the_tokens_read_from_disk():
    before = resident_of_rows()  # of runs of other tests
    stored = keep_examples(lambda: iter(numbered_texts(300)), Text, 0)[0]
    encode = lambda: ([[range(5_000)] for _ in some] for some in in_turn(stored))  # noqa: E731
    corpus = corpus_of(stored, encode, ["<i4"], lambda rows: [sum(*row) for row in rows])
    assert sum(corpus) == 300 * sum(range(5_000))
    new = {place: size for place, size in resident_of_rows().items() if place not in before}
    assert len(new) >= 2 and {*new.values()} == {0}  # of the texts and of 6 MB of tokens


def test_examples_in_memory_are_held_out_compared_and_counted_as_files_are():
    given = {
        "train": [*numbered_texts(50), Text(""), numbered_texts(50)[7]],
        "test": [Text("new"), numbered_texts(1)[0]],
    }
    data = data_of("classification", train=["memory"], valid=5, overlap="drop", duplicates="drop")
    splits = open_splits(data, Reader(Text, read_lines), given)
    assert {split: len(examples) for split, examples in splits.examples.items()}["test"] == 2
    assert splits.counts["train"].filtered["blank"] == 1 and len(splits.examples["valid"]) >= 5
    assert numbered_texts(1)[0].text not in {text.text for text in splits.examples["train"]}
    pairs = [Pair(f"s {i}", f"t {i}") for i in range(30)]
    splits = open_pairs(
        data_of("translation", train=["memory"], in_memory=3), {"train": pairs[:20], "valid": pairs[20:]}
    )
    assert splits.examples == {"train": pairs[:20], "valid": pairs[20:]}
