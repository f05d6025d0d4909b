"""Batches made ahead: the same ones in the same order, errors as they are, no thread left."""

import itertools
import json
import threading
import time

import pytest
import torch

from heed.data.batch import pad_rows, pad_shifted
from heed.data.tokens import OWN
from heed.runs.train import train_config
from heed.tasks.contracts import Batch
from heed.training.batches import Feed, draws
from heed.training.cost import Cost
from heed.training.progress import Quiet
from reporters import Stopper
from resuming import translation


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "heed-batches"]


@pytest.fixture(autouse=True)
def none_left():
    yield
    assert not threads()


def test_items_come_in_order_and_then_their_end():
    feed = Feed(iter(range(50)))
    assert list(itertools.islice(feed, 50)) == list(range(50))
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(feed)
    feed.close()


def test_an_error_comes_as_it_is_where_its_item_would():
    def items():
        yield from range(3)
        raise OSError("train.de cannot be read")

    feed = Feed(items())
    assert [next(feed) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match=r"train\.de cannot be read"):
        next(feed)
    feed.close()


def test_no_more_than_two_items_are_ahead():
    made = []
    feed = Feed(made.append(n) or n for n in itertools.count())
    assert next(feed) == 0
    time.sleep(0.05)
    assert len(made) <= 1 + 2 + 1  # taken, ahead, and one that the taking made room for
    feed.close()


def config(**training):
    return translation(tokenizer={"kind": "bpe", "vocab_size": 60}, **training)


@pytest.fixture
def always_ahead(monkeypatch):
    monkeypatch.setattr("heed.training.loop.draws", lambda *given, **named: Feed(draws(*given, **named)))


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
    monkeypatch.setattr("heed.tasks.inputs.pairs.Pairs._batch", broken)
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
    source, mask = pad_rows([[5, 6], [5]])
    read, labels, read_mask = pad_shifted([[7], [7, 8]], OWN)
    forced = {"target": read, "groups": (read_mask, 3)}
    batch = Batch([0, 1], {"source": source, "mask": mask}, 5, forced, {"labels": labels})
    assert batch.to(torch.device("cpu")) is batch and batch.padding_share == 0.25
    away = batch.to(torch.device("meta"))
    assert len(tensors_of(batch)) == 5 and all(tensor.device.type == "meta" for tensor in tensors_of(away))
    assert away.indices == [0, 1] and away.num_targets == 5 and away.forced["groups"][1] == 3
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.clone())
    for before, after in zip(tensors_of(batch), tensors_of(batch.pin()), strict=True):
        assert after is not before and torch.equal(after, before)


def tensors_of(batch):
    values = [*batch.inputs.values(), *batch.forced.values(), *batch.targets.values()]
    return [
        one for value in values for one in (value if isinstance(value, tuple) else (value,)) if torch.is_tensor(one)
    ]
