"""Batches made ahead: the same ones in the same order, errors as they are, no thread left."""

import itertools
import json
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
import torch

from heed.config import TrainingConfig
from heed.data.batch import TokenPair, collate_pairs, pin, to_device
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training.batches import Feed, Place, draws
from heed.training.cost import Cost
from heed.training.processes import Processes
from heed.training.progress import Quiet
from reporters import Stopper


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "heed-batches"]


@pytest.fixture(autouse=True)
def none_left():
    yield
    assert not threads()


@pytest.mark.parametrize("ahead", [False, True])
def test_items_come_in_order_and_then_their_end(ahead):
    feed = Feed(iter(range(50)), ahead)
    assert list(itertools.islice(feed, 50)) == list(range(50))
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(feed)
    feed.close()


@pytest.mark.parametrize("ahead", [False, True])
def test_an_error_comes_as_it_is_where_its_item_would(ahead):
    def items():
        yield from range(3)
        raise OSError("train.de cannot be read")

    feed = Feed(items(), ahead)
    assert [next(feed) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match=r"train\.de cannot be read"):
        next(feed)
    feed.close()


@pytest.mark.parametrize(("waiting", "wanted"), [(0.002, True), (0.0, False)])
def test_a_thread_begins_only_where_items_are_waited_for(monkeypatch, waiting, wanted):
    now = 0.0
    monkeypatch.setattr("heed.training.batches.time", SimpleNamespace(perf_counter=lambda: now))

    def made():
        nonlocal now
        for item in itertools.count():
            now += waiting
            yield item

    with closing(Feed(made())) as feed:
        for number in range(25):
            assert next(feed) == number
            now += 0.004
        assert feed.is_ahead == wanted


def test_a_thread_that_makes_waiting_longer_ends_and_no_item_is_lost():
    def slow_in_threads():
        for item in range(60):
            time.sleep(0.02 if threading.current_thread().name == "heed-batches" else 0.002)
            yield item

    ahead = []
    with closing(Feed(slow_in_threads())) as feed:
        for number in range(60):
            assert next(feed) == number
            ahead.append(feed.is_ahead)
            time.sleep(0.004)
        assert ahead[20:25] == [True] * 5 and ahead[35:] == [False] * 25
        with pytest.raises(StopIteration):
            next(feed)
        assert not threads()


def test_no_more_than_two_items_are_ahead():
    made = []
    feed = Feed((made.append(n) or n for n in itertools.count()), ahead=True)
    assert next(feed) == 0
    time.sleep(0.05)
    assert len(made) <= 1 + 2 + 1  # taken, ahead, and one that the taking made room for
    feed.close()


def config(**training):
    return check_config(
        {
            "data": {"name": "copy", "length": [2, 6], "train": 60, "valid": 16, "test": 16},
            "tokenizer": {"kind": "bpe", "vocab_size": 60, "sampling": 0.2},
            "model": {"d_embedding": 12, "d_hidden": 12, "d_attention": 12, "dropout": 0.3},
            "training": {"steps": 6, "batch_tokens": 150, "threads": 1, "device": "cpu", "warmup": 2, **training},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


@pytest.fixture
def always_ahead(monkeypatch):
    monkeypatch.setattr("heed.training.loop.Feed", lambda source, ahead: Feed(source, True))


def test_a_run_is_the_same_whoever_makes_its_batches_and_wherever_it_was_stopped(tmp_path, request):
    train_config(config(accumulate=2), tmp_path / "plain", Quiet())
    request.getfixturevalue("always_ahead")
    train_config(config(accumulate=2), tmp_path / "ahead", Quiet())
    assert train_config(config(accumulate=2), tmp_path / "stopped", Stopper(3))[0] is None
    train_config(config(accumulate=2), tmp_path / "stopped", Quiet(), resume=True)
    plain, *others = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "ahead", "stopped")]
    assert others == [plain, plain]


def test_an_error_of_the_data_ends_the_run_with_its_message(tmp_path, always_ahead, monkeypatch):
    def broken(*given, **named):
        raise OSError("texts.bin cannot be read")

    made = config()
    monkeypatch.setattr("heed.training.loop.Trainer.predict_cost", lambda self, work: Cost(0, 0.0, 0.0, 0, 1, 1))
    monkeypatch.setattr("heed.tasks.base.training_set.TrainingSet.collate", broken)
    with pytest.raises(OSError, match=r"texts\.bin cannot be read"):
        train_config(made, tmp_path / "run", Quiet())


def test_the_time_that_updates_waited_is_in_report_and_metrics(tmp_path):
    run, _ = train_config(config(), tmp_path / "run", Quiet())
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if line["event"] == "update"]
    share = sum(line["waited"] for line in updates) / sum(line["seconds"] for line in updates)
    assert 0 < share < 1
    assert run.report["training"]["waiting_share"] == pytest.approx(share, abs=1e-4)


def test_every_tensor_of_a_batch_is_pinned_and_moved(monkeypatch):
    batch = collate_pairs([TokenPair([5, 6], [7]), TokenPair([5], [7, 8])], [0, 1])
    assert to_device(batch, torch.device("cpu")) is batch
    away = to_device(batch, torch.device("meta"))
    tensors = [name for name, value in vars(batch).items() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 5 and all(getattr(away, name).device.type == "meta" for name in tensors)
    assert away.indices == [0, 1] and away.num_targets == 5 and away.alignment is None
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.clone())
    copy = pin(batch)
    for name in tensors:
        assert getattr(copy, name) is not getattr(batch, name)
        assert torch.equal(getattr(copy, name), getattr(batch, name))


class Numbers:
    """A task of 11 examples in batches of 2; `collate_all` also notes how many batches it made."""

    def __init__(self):
        self.made = []

    def train_batches(self, epoch):
        return [[(i + epoch) % 11, (i + 1 + epoch) % 11] for i in range(0, 11, 2)]

    def collate(self, indices, epoch=0):
        return SimpleNamespace(indices=indices, num_targets=10 * epoch + sum(indices), padding_share=0.5)


class Together(Numbers):
    updates_together = 4

    def collate_all(self, batches, epoch):
        self.made.append(len(batches))
        return [self.collate(indices, epoch) for indices in batches]


@pytest.mark.parametrize(("accumulate", "parts"), [(1, 1), (2, 1), (1, 2), (4, 2)])
@pytest.mark.parametrize("batch", [0, 3])
def test_batches_that_a_task_makes_together_are_those_of_the_same_updates(accumulate, parts, batch):
    config = TrainingConfig(steps=1, accumulate=accumulate)
    plan = next(draws(Numbers(), config, Processes(), Place(1, 0, ""), print)).place.plan
    given = config, Processes(), Place(1, batch, plan), pytest.fail
    together = Together()
    alone = itertools.islice(draws(Numbers(), *given, micro_batches=parts), 15)
    for one, other in zip(alone, draws(together, *given, micro_batches=parts), strict=False):
        assert one == other
    assert together.made[0] == parts * min(4 * accumulate, 6 - batch)  # four updates, or what is left of the pass
