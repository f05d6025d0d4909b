"""Corpora that never end: each pair of a window once, in an order of (seed, window) only, found again on resume."""

import gzip
import json
import os
import threading
from collections import Counter

import pytest
from safetensors.torch import load_file

from heed.data.splits.stored import StoredExamples
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.runs.loading import load
from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.tasks.base.training_set import StreamSet
from heed.tasks.translation.task import Translation
from heed.training.batches import Place, draws
from heed.training.processes import Processes
from heed.training.progress import Quiet

pytestmark = pytest.mark.usefixtures("own_cache")

COUNT, WINDOW = 1_000, 150
FIRST = Place(0, 0, "")


def lines(count=COUNT, start=0):
    return "".join(f"source {i} {'a ' * (i % 7)}end\ttarget {i}\n" for i in range(start, start + count))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "endless.tsv"
    path.write_text(lines(), encoding="utf-8")
    return path


def configured(path, **fields):
    data = {"train": [str(path)], "stream": True, "window": WINDOW, "valid": 20, **fields.pop("data", {})}
    values = {"data": data, "tokenizer": {"kind": "word"}, "model": {"size": "tiny"}, **fields}
    return check_config(values, "test")


def prepare(path, **fields):
    return Translation.prepare(configured(path, **fields))


def seen(task, window):
    return [pair.origin for batch in task.train_batches(window) for pair in task.training.examples_at(batch)]


def numbers(task, window):
    return sorted(int(origin.split(":")[1]) for origin in seen(task, window))


def test_each_pair_of_a_window_is_trained_on_once(file):
    task = prepare(file)
    for window in range(3):
        assert numbers(task, window) == list(range(21 + window * WINDOW, 21 + (window + 1) * WINDOW))
    for batch in task.train_batches(2):
        made = task.collate(batch)
        sources = [task.source_tokenizer.encode(pair.source).ids for pair in task.training.examples_at(batch)]
        assert made.indices == batch
        assert [row[mask].tolist() for row, mask in zip(made.source, made.source_mask, strict=True)] == sources
        assert made.source.numel() + made.target.numel() == task.work(batch) <= 2_000


def test_the_order_is_a_function_of_seed_and_window_only(file):
    task, other = prepare(file), prepare(file)
    wanted = [task.train_batches(window) for window in range(4)]
    assert [other.train_batches(window) for window in (3, 1, 0, 2)] == [wanted[n] for n in (3, 1, 0, 2)]
    reseeded = prepare(file, training={"seed": 2, "steps": 1})
    assert reseeded.train_batches(2) != wanted[2] and numbers(reseeded, 2) == numbers(task, 2)
    places = [[i - n * WINDOW for batch in plan for i in batch] for n, plan in enumerate(wanted)]
    assert places[0] != places[1]


def test_at_its_end_a_stream_is_read_again_without_what_is_held_out(file):
    task = prepare(file)
    pairs = COUNT - 20
    last = pairs // WINDOW
    left = pairs - last * WINDOW
    assert numbers(task, last) == sorted([*range(COUNT - left + 1, COUNT + 1), *range(21, 21 + WINDOW - left)])
    assert task.splits.stream.passes == 1
    assert "at its end it is read again from the beginning" in task.notes


def test_the_first_pairs_are_held_out_and_their_sources_left_out_wherever_they_come(tmp_path, file):
    file.write_text(lines() + lines(5), encoding="utf-8")
    (tmp_path / "test.tsv").write_text(lines(2, start=30), encoding="utf-8")
    task = prepare(file, data={"test": [str(tmp_path / "test.tsv")], "overlap": "drop"})
    assert [pair.origin for pair in task.splits.examples["valid"]] == [f"endless.tsv:{n}" for n in range(1, 21)]
    held_out = {pair.source for split in ("valid", "test") for pair in task.splits.examples[split]}
    for window in range(8):
        assert not held_out & {
            pair.source for batch in task.train_batches(window) for pair in task.training.examples_at(batch)
        }
    counts = task.splits.counts["train"]
    assert counts.filtered["source in the valid set"] >= 5 and counts.filtered["source in the test set"] >= 2
    assert counts.read == counts.kept + sum(counts.filtered.values())
    assert task.report_counts()["train"]["examples"] == counts.kept
    file.write_text(lines(1_200), encoding="utf-8")
    assert prepare(file, data={"valid": None}).notes.count("first 1,000 pairs of the stream are held out") == 1


def test_bad_lines_of_a_stream_are_counted_as_they_are_met(file):
    rows = lines().splitlines(keepends=True)
    rows[40], rows[300] = "no second column\n", "\ttarget\n"
    file.write_text("".join(rows), encoding="utf-8")
    with pytest.raises(DataError, match=r"endless.tsv' line 41 has 1 column"):
        prepare(file)
    task = prepare(file, data={"bad_lines": "skip"})
    task.train_batches(0)
    counts = task.splits.counts["train"]
    assert sum(counts.filtered.values()) == 21 and counts.read == counts.kept + 21
    task.train_batches(2)
    assert counts.filtered["source blank"] == 1 and counts.read == counts.kept + sum(counts.filtered.values())
    assert "1 line (41)" in task.notes


def test_pairs_that_are_too_long_are_left_out_of_their_window_and_counted(file):
    task = prepare(file, data={"max_length": 6})
    assert all(task.training.lengths_at(b).max() <= 6 for b in task.train_batches(1))
    assert len(numbers(task, 1)) < WINDOW
    assert task.splits.counts["train"].filtered["longer than data.max_length 6 tokens"] > 0
    with pytest.raises(DataError, match=r"every pair of window 0 of '.*' is longer than data.max_length 1 tokens"):
        prepare(file, data={"max_length": 1})


def test_no_more_than_two_windows_are_held(file):
    task = prepare(file)
    for window in range(6):
        task.train_batches(window)
        stream = task.splits.stream
        assert sum(map(len, stream._windows.values())) <= 2 * WINDOW
        assert sum(len(held.examples) for held in task.training._windows.values()) <= 2 * WINDOW


def test_a_process_encodes_only_the_batches_it_collates(file, monkeypatch):
    task = prepare(file)
    plan = task.train_batches(1)
    encoded = []
    encode = TextTokenizer.encode_all
    monkeypatch.setattr(
        TextTokenizer, "encode_all", lambda self, texts: encoded.append(len(texts)) or encode(self, texts)
    )
    for batch in plan[::2]:
        task.collate(batch)
    assert sum(encoded) == 2 * sum(map(len, plan[::2]))


def test_a_resumed_run_goes_on_at_its_window(file, tmp_path, monkeypatch):
    """Some windows; stopped in the third, it reads on to it and ends at the same weights."""
    training = {"steps": 14, "warmup": 20, "threads": 1, "batch_tokens": 500, "validate_every": 100}
    train_config(configured(file, training=training), tmp_path / "whole", Quiet())
    train_config(configured(file, training={**training, "steps": 8}), tmp_path / "parts", Quiet())
    planned = []
    batches = StreamSet.batches
    monkeypatch.setattr(StreamSet, "batches", lambda self, *where: planned.append(where[2]) or batches(self, *where))
    train_config(configured(file, training=training), tmp_path / "parts", Quiet(), resume=True)
    assert max(planned) >= 2 and 1 in planned
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(whole[name].equal(parts[name]) for name in whole)


def drawn(config, count, until, begin=FIRST):
    """What the processes train on up to pass `until`, each reading the stream by itself: all, and where each stands."""
    found, ended = Counter(), []
    for rank in range(count):
        processes = Processes()
        processes.rank, processes.count = rank, count
        task = task_class(config.task).prepare(config)
        for draw in draws(task, config.training, processes, begin, pytest.fail):
            ended.append(draw.place)
            for batch, counts in draw.batches:
                found.update((draw.place.epoch, index) for index in batch.indices if counts)
            if (draw.place.epoch, draw.place.batch) == until:
                break
    return found, ended[-1]


@pytest.mark.parametrize("kind", ["pairs", "shards"])
def test_processes_train_on_each_example_of_a_stream_once_also_after_a_resume(kind, file, tmp_path):
    if kind == "pairs":
        config = configured(file, training={"batch_tokens": 500})
    else:  # documents in several compressed files of a folder
        (tmp_path / "shards").mkdir()
        for shard in range(4):
            text = "".join(
                json.dumps({"text": f"document {i} {'a ' * (i % 7)}end"}) + "\n" for i in range(shard, 400, 4)
            )
            (tmp_path / "shards" / f"{shard}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        data = {"train": [str(tmp_path / "shards")], "stream": True, "window": 90, "valid": 20}
        values = {"data": data, "tokenizer": {"kind": "word"}, "model": {"size": "tiny"}}
        values["training"] = {"batch_tokens": 100}
        config = check_config({"task": "language_modelling", **values}, "test")
    alone = task_class(config.task).prepare(config)
    plans = [[*alone.train_batches(epoch)] for epoch in range(3)]
    expected = Counter((epoch, index) for epoch, plan in enumerate(plans) for batch in plan for index in batch)
    assert set(expected.values()) == {1} and all(len(plan) > 2 for plan in plans)
    if kind == "pairs":
        assert {index for _, index in expected} == set(range(3 * WINDOW))
    end, middle = (2, len(plans[2])), (1, len(plans[1]) // 2)
    for count in (1, 2, 3):
        assert drawn(config, count, end)[0] == expected
        before, place = drawn(config, count, middle)
        after, _ = drawn(config, 4 - count, end, place)  # with another number of processes
        assert before + after == expected


def test_a_pipe_is_read_once_and_its_end_is_said(tmp_path, monkeypatch):
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def feed():
        with path.open("w", encoding="utf-8") as pipe:
            pipe.write(lines(500))

    writer = threading.Thread(target=feed)
    writer.start()
    task = prepare(path)
    assert numbers(task, 0) == list(range(21, 171)) and numbers(task, 1) == list(range(171, 321))
    assert len(numbers(task, 2)) == WINDOW
    assert task.report_counts()["train"]["examples"] == 3 * WINDOW  # without reading anything again
    with pytest.raises(DataError, match=r"'.*pipe' ended after 500 pairs and, being a pipe, cannot be read again"):
        task.train_batches(3)
    writer.join()
    with pytest.raises(DataError, match=r"'.*pipe' is a pipe and cannot be read again from the beginning; give files"):
        task.train_batches(0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(DataError, match=r"'.*pipe' is a pipe, and 2 processes cannot all read it; give files"):
        prepare(path)


def test_a_file_that_is_no_pipe_may_be_large_in_validation(tmp_path, file):
    (tmp_path / "valid.tsv").write_text(lines(30, start=5_000), encoding="utf-8")
    task = prepare(file, data={"valid": [str(tmp_path / "valid.tsv")], "in_memory": 10})
    assert isinstance(task.splits.examples["valid"], StoredExamples) and len(task.splits.examples["valid"]) == 30
    assert numbers(task, 0) == list(range(1, 1 + WINDOW))


def test_a_run_of_a_stream_is_evaluated_without_reading_it(file, tmp_path):
    (tmp_path / "valid.tsv").write_text(lines(30, start=5_000), encoding="utf-8")
    config = configured(file, data={"valid": [str(tmp_path / "valid.tsv")]}, training={"steps": 1, "threads": 1})
    train_config(config, tmp_path / "run", Quiet())
    file.unlink()
    assert load(tmp_path / "run").evaluate("valid")["examples"] == 30


def test_a_stream_is_looked_at_without_its_end(file):
    shown = prepare(file).overview()
    assert "train is a stream, read in windows of 150 pairs" in shown and "endless.tsv:21" in shown


def test_a_stream_with_nothing_in_it_is_refused(tmp_path):
    path = tmp_path / "blank.tsv"
    path.write_text("\t\n" * 50, encoding="utf-8")
    with pytest.raises(DataError, match="no validation pairs left"):
        prepare(path)
    path.write_text(lines(5), encoding="utf-8")
    with pytest.raises(DataError, match=r"no training pairs left in '.*': 0 of 5 pairs kept, 5 left out: held out"):
        prepare(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data": {"extra": [{"files": "b.tsv"}]}}, "data.stream is true and data.extra names further corpora"),
        ({"training": {"guided_attention": 1.0}}, "combined with data.stream=true, because words are aligned"),
        (
            {"data": {"duplicates": "drop"}},
            "data.stream is true and data.duplicates is drop, but a stream is not",
        ),
        ({"data": {"stream": False}}, "data.window is 150, but only a stream has windows; add data.stream=true"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        configured("a.tsv", **fields)


def test_a_data_set_of_the_hub_is_no_stream():
    with pytest.raises(ConfigError, match=r"only files are read as a stream, not data.hub 'user/name'"):
        check_config({"data": {"hub": "user/name", "stream": True}}, "test")


def test_subword_sampling_cuts_a_stream_by_its_pass_and_place(file):
    tokenizer = {"kind": "bpe", "vocab_size": 200}
    plain, task = prepare(file, tokenizer=tokenizer), prepare(file, tokenizer={**tokenizer, "sampling": 0.5})
    batch = task.train_batches(0)[0]
    drawn = [task.collate(batch) for _ in range(2)]
    assert drawn[0].source.equal(drawn[1].source) and drawn[0].indices == batch
    assert plain.train_batches(0) and plain.collate(batch).source.shape != drawn[0].source.shape
    assert drawn[0].source.numel() + drawn[0].target.numel() <= task.work(batch)
