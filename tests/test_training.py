"""Training: what an update is, what is kept, and that a run can be stopped, resumed, repeated, moved and trusted."""

import json
import math
import shutil
import signal
import time

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import heed
from heed.config import read_config
from heed.errors import HeedWarning, RunError, TrainingError
from heed.runs.train import train_config
from heed.storage.disk import write_checksums
from heed.tasks import check_config
from heed.tasks.translation import TASK
from heed.training.checkpoint import (
    Checkpoint,
    Progress,
    checkpoints_in,
    latest_checkpoint,
    load_checkpoint,
    random_state,
)
from heed.training.contracts import Loss
from heed.training.loop import Trainer
from heed.training.optimizer import Group, Schedule
from heed.training.progress import Quiet
from resuming import SMALL


def make_config(model=None, data=None, **training):
    values = {
        "data": {"name": "copy", "length": [2, 6], "train": 120, "valid": 16, "test": 16, **(data or {})},
        "model": {"d_embedding": 12, "d_hidden": 12, "d_attention": 12, **(model or {})},
        "training": {"steps": 6, **SMALL, **training},
        "evaluation": {"bootstrap": 10},
    }
    return check_config(values, "the test")


class Scripted:
    """A task with some of its parts replaced."""

    def __init__(self, task, **parts):
        self._task = task
        self.__dict__.update(parts)

    def __getattr__(self, name):
        return getattr(self._task, name)


class Recorder(Quiet):
    """Remembers what was said, and lets a test act after a given update."""

    def __init__(self, at=None, act=lambda: signal.raise_signal(signal.SIGINT)):
        self.said, self.closed, self.updates = [], 0, 0
        self.at, self.act = at, act

    def say(self, message):
        self.said.append(message)

    def update(self, message):
        self.updates += 1
        if self.updates == self.at:
            self.act()

    def close(self):
        self.closed += 1


def make_trainer(folder, config=None, reporter=None, on_validation=None, select_by="exact_match", seed=0, **parts):
    config = make_config() if config is None else config
    task = TASK.prepare(config)
    torch.manual_seed(seed)
    model = task.build_model()
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    task = Scripted(task, **parts)
    return Trainer(model, task, config.training, select_by, folder, reporter or Quiet(), on_validation)


def weights_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same_weights(a, b):
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


def metrics(folder, event):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


# --- one update


def test_accumulated_batches_are_one_batch(tmp_path):
    plan = {}

    def after_one_update(name, accumulate):
        training = {"steps": 1, "schedule": "constant", "warmup": 0, "optimizer": "sgd", "learning_rate": 0.5}
        config = make_config(**training, clip=None, accumulate=accumulate)
        trainer = make_trainer(tmp_path / name, config, train_batches=lambda epoch: plan[name])
        before = weights_of(trainer.model)
        trainer.run()
        moved = {n: tensor - before[n] for n, tensor in trainer.model.state_dict().items()}
        return moved, metrics(tmp_path / name, "update")[0]

    task = TASK.prepare(make_config())
    by_length = sorted(range(12), key=lambda i: len(task.encoded("train")[i].target))
    few, many = by_length[:2], by_length[2:]  # 2 short and 10 longer ones: the mean of their means is another number
    plan["one"], plan["pieces"] = [few + many], [few, many]
    assert len(few) * task.collate(many).num_targets > 6 * task.collate(few).num_targets
    (one, one_line), (pieces, pieces_line) = after_one_update("one", 1), after_one_update("pieces", 2)
    assert max(tensor.abs().max() for tensor in one.values()) > 1e-2
    for name, tensor in one.items():
        assert_close(pieces[name], tensor, rtol=0, atol=1e-6)
    for key in ("loss", "gradient_norm"):
        assert pieces_line[key] == pytest.approx(one_line[key], rel=1e-5)
    assert pieces_line["tokens"] == one_line["tokens"]


def test_a_batch_in_micro_batches_is_the_batch(tmp_path):
    def after_one_update(count):
        training = {"steps": 1, "schedule": "constant", "warmup": 0, "optimizer": "sgd", "learning_rate": 0.5}
        trainer = make_trainer(tmp_path / str(count), make_config(**training, clip=None, micro_batches=count))
        sizes = []
        collate = trainer.task.collate
        trainer.task.collate = lambda indices, epoch=0: sizes.append(len(indices)) or collate(indices, epoch)
        trainer.run()
        return trainer.model.state_dict(), metrics(tmp_path / str(count), "update")[0], sizes

    weights, line, (whole,) = after_one_update(1)
    for count in (2, 3, 1_000):
        other_weights, other_line, sizes = after_one_update(count)
        assert sum(sizes) == whole and len(sizes) == min(count, whole) and max(sizes) - min(sizes) <= 1
        for name, tensor in weights.items():
            assert_close(other_weights[name], tensor, rtol=0, atol=1e-6)
        assert other_line["loss"] == pytest.approx(line["loss"], rel=1e-5) and other_line["tokens"] == line["tokens"]


def test_the_gradient_is_that_of_the_mean_loss_per_target_token(tmp_path):
    config = make_config(steps=1, schedule="constant", warmup=0, optimizer="sgd", learning_rate=0.25, clip=None)
    trainer = make_trainer(tmp_path, config)
    task, model = trainer.task, trainer.model
    before = weights_of(model)
    batch = task.collate(task.train_batches(0)[0])
    logits = model.logits(model(**batch.inputs, **batch.forced))[batch.targets["target_mask"]]
    labels = batch.targets["labels"][batch.targets["target_mask"]]
    loss = torch.nn.functional.cross_entropy(logits, labels)
    expected = dict(zip(before, torch.autograd.grad(loss, list(model.parameters())), strict=True))
    trainer.run()
    for name, tensor in model.state_dict().items():
        assert_close(tensor, before[name] - 0.25 * expected[name], rtol=1e-4, atol=1e-6)
    line = metrics(tmp_path, "update")[0]
    assert line["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert line["tokens"] == len(labels) == batch.num_targets
    norm = math.sqrt(sum(g.square().sum().item() for g in expected.values()))
    assert line["gradient_norm"] == pytest.approx(norm, rel=1e-4)


def test_clipping_bounds_the_update_and_the_logged_norm_is_that_before_it(tmp_path):
    moved, norms = {}, []
    for clip in (None, 0.01):
        config = make_config(steps=1, schedule="constant", warmup=0, optimizer="sgd", learning_rate=1.0, clip=clip)
        trainer = make_trainer(tmp_path / str(clip), config)
        before = weights_of(trainer.model)
        trainer.run()
        after = trainer.model.state_dict()
        moved[clip] = math.sqrt(sum((after[n] - before[n]).square().sum().item() for n in before))
        norms += [event["gradient_norm"] for event in metrics(tmp_path / str(clip), "update")]
    assert moved[None] > 0.02
    assert moved[0.01] == pytest.approx(0.01, rel=1e-2)
    assert norms[0] == norms[1] > 0.01


def test_tokens_a_second_count_the_time_of_updates_alone():
    progress = Progress(step=5, tokens=1000, training_seconds=10.0, seconds=40.0, waiting_seconds=1.0)
    assert (progress.tokens_per_second, progress.waiting_share) == (100.0, 0.1)


def test_only_matrices_decay(tmp_path):
    zero = lambda model, batch, smoothing: 0.0 * sum(p.sum() for p in model.parameters())  # noqa: E731
    config = make_config(steps=1, schedule="constant", warmup=0, optimizer="sgd", learning_rate=0.1, weight_decay=0.5)
    trainer = make_trainer(tmp_path, config, loss=zero)
    before = weights_of(trainer.model)
    trainer.run()
    for name, tensor in trainer.model.state_dict().items():
        factor = 1 - 0.1 * 0.5 if tensor.dim() > 1 else 1.0
        assert_close(tensor, before[name] * factor)


def test_every_example_is_used_once_per_epoch(tmp_path):
    used = []
    config = make_config(steps=100, validate_every=100)
    task = TASK.prepare(config)
    per_epoch = len(task.train_batches(0))

    def collate(indices, epoch=0):
        used.append(indices)
        return task.collate(indices, epoch)

    trainer = make_trainer(
        tmp_path,
        make_config(steps=2 * per_epoch, validate_every=2 * per_epoch),
        collate=collate,
    )
    trainer.run()
    first, second = used[:per_epoch], used[per_epoch:]
    assert sorted(i for batch in first for i in batch) == list(range(120))
    assert sorted(i for batch in second for i in batch) == list(range(120))
    assert first != second


# --- the learning rate


@pytest.mark.parametrize(
    ("schedule", "step", "factor"),
    [
        *[(name, step, step / 10) for name in ("constant", "inverse_sqrt", "cosine") for step in (1, 5, 10)],
        ("constant", 11, 1.0),
        ("constant", 110, 1.0),
        ("inverse_sqrt", 40, 0.5),
        ("inverse_sqrt", 90, 1 / 3),
        ("cosine", 60, 0.5),  # half of the way from 10 to 110
        ("cosine", 110, 0.0),
    ],
)
def test_schedules(schedule, step, factor):
    assert Schedule(warmup=10, total=110).factor(schedule, step) == pytest.approx(factor, abs=1e-12)


def test_schedules_without_warmup_or_known_end():
    assert Schedule(0, None).factor("cosine", 1) == Schedule(0, None).factor("constant", 1) == 1.0
    assert Schedule(0, 100).factor("inverse_sqrt", 1) == 1.0
    assert Schedule(5, None).factor("cosine", 3) == 3 / 5
    assert 0.0 < Schedule(0, 4).factor("cosine", 1) < 1.0


@pytest.mark.parametrize("step", [4, 40])
def test_a_new_plan_changes_the_speed_of_the_rate_and_not_its_place(step):
    before = Schedule(warmup=10, total=100)
    after = Schedule(6 if step < 10 else 10, 60, step, before.rise(step), before.decay(step))
    assert after.factor("cosine", step) == pytest.approx(before.factor("cosine", step), abs=1e-12)
    factors = [after.factor("cosine", n) for n in range(step, 61)]
    assert max(factors) == (1.0 if step < 10 else factors[0])
    assert factors[-1] == pytest.approx(0.0, abs=1e-12)


def test_the_rate_of_each_update_is_the_schedules(tmp_path):
    config = make_config(steps=6, warmup=2, learning_rate=0.01, schedule="cosine")
    make_trainer(tmp_path, config).run()
    rates = [line["learning_rate"] for line in metrics(tmp_path, "update")]
    cosine = [0.5 * (1 + math.cos(math.pi * part / 4)) for part in (1, 2, 3, 4)]
    assert rates == pytest.approx([0.005, 0.01, *(0.01 * c for c in cosine)], abs=1e-12)


# --- repeating, stopping, going on


def train(out, config, reporter=None, resume=False, callback=None):
    torch.manual_seed(int(time.time_ns() % 1_000_003))  # whatever state the process is in
    return train_config(config, out, reporter or Quiet(), resume=resume, callback=callback)


def test_the_same_seed_gives_the_same_weights_and_another_one_others(tmp_path):
    config = {"model": {"dropout": 0.2}, "steps": 4}
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        train(tmp_path / name, make_config(**config, seed=seed))
    a, b, c = (load_file(tmp_path / name / "model.safetensors") for name in "abc")
    assert_same_weights(a, b)
    assert any(not torch.equal(a[name], c[name]) for name in a)


LONG = {"model": {"dropout": 0.3}, "steps": 12, "validate_every": 4, "average": 2, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    run, _ = train(out, make_config(**LONG))
    return run


def assert_same_run(out, expected):
    assert_same_weights(load_file(out / "model.safetensors"), load_file(expected.folder / "model.safetensors"))
    report = json.loads((out / "report.json").read_text())
    assert report["scores"] == json.loads(json.dumps(expected.report["scores"]))
    assert report["training"]["kept"] == expected.report["training"]["kept"]
    for event in ("update", "validation", "average"):
        lines, whole = metrics(out, event), metrics(expected.folder, event)
        for line in lines + whole:
            line.pop("seconds", None)
            line.pop("waited", None)
        assert lines == whole


# 4, 8 and 12 are updates after which a validation is due, 12 is the last one
@pytest.mark.parametrize("interrupts", [(4,), (12,), (2, 2, 4, 3)], ids=str)
def test_an_interrupted_and_resumed_run_has_the_same_bits(tmp_path, uninterrupted, interrupts):
    out = tmp_path / "run"
    config, resume, done = make_config(**LONG), False, 0
    for count in interrupts:
        reporter = Recorder(at=count)
        run, result = train(out, config, reporter, resume)
        done += count
        assert run is None and not result.finished
        assert result.progress.step == done
        assert reporter.closed and any("stopping" in line for line in reporter.said)
        assert not (out / "model.safetensors").exists()
        with pytest.warns(HeedWarning, match="--resume"):
            heed.load(out)
        config, resume = check_config(read_config(out / "config.yaml"), "the folder"), True
    run, result = train(out, config, resume=True)
    assert result.finished
    assert_same_run(out, uninterrupted)


def test_an_interrupt_during_a_validation_loses_nothing(tmp_path, uninterrupted):
    def stop(event):
        if event.kind == "validation" and len(metrics(tmp_path / "run", "update")) == 4:
            signal.raise_signal(signal.SIGINT)

    run, _ = train(tmp_path / "run", make_config(**LONG), callback=stop)
    assert run is None
    train(tmp_path / "run", make_config(**LONG), resume=True)
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_second_interrupt_ends_at_once(tmp_path):
    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    reporter = Recorder(at=2, act=twice)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", make_config(), reporter)
    assert reporter.closed
    assert signal.getsignal(signal.SIGINT) is before


def test_a_time_budget_is_kept_and_the_plan_said(tmp_path):
    reporter = Recorder()
    start = time.perf_counter()
    run, result = train(tmp_path / "run", make_config(steps=None, minutes=0.03), reporter)
    assert time.perf_counter() - start < 1.8 + 6
    assert result.finished
    assert any("updates/s" in line and "done at" in line for line in reporter.said)
    assert result.progress.total_steps >= result.progress.step >= 1
    assert run.report["training"]["planned_updates"] == result.progress.total_steps


# --- which weights are kept


def test_a_resumed_run_has_the_rest_of_its_time_budget(tmp_path):
    config = make_config(steps=None, minutes=60)
    reporter = Recorder(at=3)
    make_trainer(tmp_path, config, reporter).run()
    (path,) = checkpoints_in(tmp_path / "checkpoints")
    stored = json.loads((path / "progress.json").read_text())
    assert stored["seconds"] > 0
    (path / "progress.json").write_text(json.dumps(stored | {"seconds": 100.0}))
    write_checksums(path, [file.name for file in path.iterdir() if file.name != "checksums.json"])
    trainer = make_trainer(tmp_path, config, Recorder(at=1))
    before, left = trainer.budget.left, []
    trainer.reporter.act = lambda: (left.append(trainer.budget.left), signal.raise_signal(signal.SIGINT))
    trainer.run(resume=True)
    assert left[0] <= before - 100.0


def test_the_random_state_is_that_of_the_device_of_the_run(tmp_path, monkeypatch):
    asked, state = [], torch.tensor([1, 2], dtype=torch.uint8)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: asked.append(("get", str(device))) or state)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda new, device: asked.append((new.tolist(), str(device))))
    second = torch.device("cuda:1")
    assert set(random_state(0, torch.device("cpu"))) == {"0.cpu"} and not asked
    stored = random_state(0, second)
    trainer = make_trainer(tmp_path)
    checkpoint = Checkpoint(trainer.model.state_dict(), {}, stored, Progress())
    checkpoint.restore(trainer.model, None, 0, torch.device("cpu"))
    assert asked == [("get", "cuda:1")]
    checkpoint.restore(trainer.model, None, 0, second)
    assert asked == [("get", "cuda:1"), ([1, 2], "cuda:1")]
    used = []
    monkeypatch.setattr("heed.training.checkpoint.random_state", lambda rank, device: used.append(device) or {})
    monkeypatch.setattr(Checkpoint, "restore", lambda *given: used.append(given[4]) or Progress())
    trainer.saver.run()
    trainer._go_on(tmp_path / "checkpoints" / "step-0", ())
    assert used == [trainer.device, trainer.device]


def scripted_run(tmp_path, scores, average=1, select_by="exact_match", extra=None, **training):
    """Train with given validation scores (exact match, loss) and return what every validation saw."""
    seen, asked = {}, []

    def validate(model):
        asked.append(None)
        exact, loss = scores[len(asked) - 1] if len(asked) <= len(scores) else (extra or scores[-1])
        return {"loss": loss, "exact_match": exact, "token_accuracy": 0.0}

    config = make_config(steps=len(scores), validate_every=1, average=average, learning_rate=0.02, **training)
    trainer = make_trainer(
        tmp_path,
        config,
        on_validation=lambda t, _: seen.__setitem__(t.progress.step, weights_of(t.model)),
        select_by=select_by,
        validate=validate,
    )
    return trainer.run(), weights_of(trainer.model), seen


@pytest.mark.parametrize(
    ("select_by", "best"),
    [("exact_match", 4), ("loss", 2)],
)
def test_the_best_checkpoint_is_kept(tmp_path, select_by, best):
    scores = [(0.1, 3.0), (0.3, 1.0), (0.5, 2.0), (0.5, 1.5), (0.2, 1.2), (0.5, 1.6)]
    result, weights, seen = scripted_run(tmp_path, scores, select_by=select_by)
    assert_same_weights(weights, seen[best])
    assert result.kept_weights == f"update {best}"
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {f"step-{best}", "step-5", "step-6"}  # two to go on from; nothing else is left behind
    assert {path.name for path in checkpoints_in(tmp_path / "checkpoints")} == {"step-5", "step-6"}
    assert not (tmp_path / "checkpoints" / f"step-{best}" / "optimizer.safetensors").exists()


def test_a_loss_that_is_not_a_number_is_never_the_best(tmp_path):
    _, weights, seen = scripted_run(tmp_path, [(0.5, 1.0), (0.5, math.nan), (0.5, math.inf)])
    assert_same_weights(weights, seen[1])


@pytest.mark.parametrize("better", [True, False])
def test_the_average_of_the_last_checkpoints_is_kept_where_it_is_better(tmp_path, better):
    scores = [(0.1, 1.0), (0.6, 1.0), (0.5, 1.0), (0.4, 1.0), (0.3, 1.0)]
    result, weights, seen = scripted_run(tmp_path, scores, average=3, extra=(0.9, 0.5) if better else (0.6, 1.0))
    if better:
        assert result.kept_weights == "the average of updates 3, 4, 5"
        for name, tensor in weights.items():
            mean = (seen[3][name].double() + seen[4][name].double() + seen[5][name].double()) / 3
            assert_close(tensor, mean.float(), rtol=0, atol=1e-7)
    else:
        assert result.kept_weights == "update 2"
        assert_same_weights(weights, seen[2])
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-2", "step-3", "step-4", "step-5"}


@pytest.mark.parametrize(("patience", "stopped"), [(1, 3), (2, 6), (None, 7)])
def test_patience_stops(tmp_path, patience, stopped):
    scores = [(0.1, 1.0), (0.2, 1.0), (0.1, 1.0), (0.3, 1.0), (0.2, 1.0), (0.2, 1.0), (0.2, 1.0)]
    result, _, seen = scripted_run(tmp_path, scores, patience=patience)
    assert max(seen) == result.progress.step == stopped
    assert result.finished
    assert ("no better exact_match" in result.reason) == (patience is not None)


def test_validation_leaves_the_random_state_alone(tmp_path):
    weights = []
    for every in (1, 6):
        config = make_config(model={"dropout": 0.3}, steps=6, validate_every=every)
        last = {}
        trainer = make_trainer(
            tmp_path / str(every),
            config,
            on_validation=lambda t, _, last=last: last.update(weights_of(t.model)),
        )
        trainer.run()
        weights.append(last)
    assert_same_weights(*weights)


# --- when it cannot go on


def test_a_loss_that_is_not_finite_stops_with_what_happened_and_where(tmp_path):
    reporter = Recorder()
    trainer = make_trainer(tmp_path, make_config(steps=6, validate_every=2), reporter)

    def poison():
        with torch.no_grad():
            trainer.model.output.weight[0, 0] = math.nan

    reporter.at, reporter.act = 3, poison
    with pytest.raises(TrainingError) as error:
        trainer.run()
    message = str(error.value)
    for part in ("the loss is nan at update 4", "learning rate", "pairs, the first digits:copy", "step-2"):
        assert part in message
    assert "training.learning_rate (now 0.003)" in message and "training.warmup (now 2)" in message
    assert reporter.closed
    kept = load_checkpoint(latest_checkpoint(trainer.checkpoints))
    assert all(tensor.isfinite().all() for tensor in kept.weights.values())


def test_a_gradient_that_is_not_finite_stops_before_the_weights_are_spoilt(tmp_path):
    at_zero = lambda model, batch, smoothing: (0.0 * model.output.weight).sum().sqrt()  # noqa: E731
    trainer = make_trainer(tmp_path, loss=at_zero)
    before = weights_of(trainer.model)
    with pytest.raises(TrainingError, match="the gradient's norm is nan at update 1"):
        trainer.run()
    assert_same_weights(weights_of(trainer.model), before)


@pytest.mark.parametrize(
    "problem",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_out_of_memory_says_what_to_lower(tmp_path, problem):
    def loss(model, batch, smoothing):
        raise problem

    with pytest.raises(TrainingError) as error:
        make_trainer(tmp_path, make_config(accumulate=2), loss=loss).run()
    for part in ("out of memory at update 1", "examples at a time", "raise training.micro_batches (now 1;"):
        assert part in str(error.value)


def test_other_errors_of_a_model_are_not_called_out_of_memory(tmp_path):
    def loss(model, batch, smoothing):
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match") as error:
        make_trainer(tmp_path, loss=loss).run()
    assert not isinstance(error.value, TrainingError)


# --- the run folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "finished"
    return train(out, make_config(steps=4, validate_every=2))[0]


@pytest.fixture
def folder(finished, tmp_path):
    """A copy elsewhere, the original out of reach by name."""
    return shutil.copytree(finished.folder, tmp_path / "moved")


def test_a_moved_folder_gives_the_same_outputs(finished, folder):
    loaded = heed.load(folder)
    assert not loaded.model.training
    assert_same_weights(weights_of(loaded.model), weights_of(finished.model))
    texts = ["123", "4", "", "907654"]
    assert loaded.predict(texts) == finished.predict(texts)
    assert torch.equal(loaded.look("314").maps[0].weights, finished.look("314").maps[0].weights)
    assert loaded.evaluate("valid") == finished.evaluate("valid")
    assert loaded.report == json.loads(json.dumps(finished.report))
    assert loaded.config == finished.config


def test_nothing_in_a_run_folder_executes(finished):
    endings = {path.suffix for path in finished.folder.rglob("*") if path.is_file()}
    assert endings == {".yaml", ".json", ".jsonl", ".safetensors", ".md", ".svg"}
    assert "<script" not in (finished.folder / "curves.svg").read_text()


def test_nothing_in_a_run_folder_names_another_place(finished):
    for path in finished.folder.rglob("*"):
        if path.suffix in (".yaml", ".json", ".jsonl", ".md", ".svg"):
            assert str(finished.folder.parent) not in path.read_text(), path.name


def change_weights(folder, change):
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda w: w.pop("output.bias"), "lacks tensor 'output.bias'"),
        (lambda w: w.update(extra=torch.zeros(1)), "has an unknown tensor 'extra'"),
        (lambda w: w.update({"output.bias": torch.zeros(3)}), r"tensor 'output.bias' has shape \(3,\)"),
    ],
)
def test_weights_of_another_model_are_refused_by_name(folder, change, problem):
    change_weights(folder, change)
    with pytest.raises(RunError, match=r"model\.safetensors is altered"):
        heed.load(folder)
    with pytest.warns(HeedWarning, match="using it anyway"), pytest.raises(RunError, match=problem):
        heed.load(folder, force=True)


# --- what a task may ask for besides


def test_terms_of_a_loss_are_logged_and_their_sum_is_followed(tmp_path):
    def loss(model, batch, smoothing):
        whole = trainer.task._task.loss(model, batch, smoothing)
        return Loss(whole, {"first": whole * 0.25, "second": whole * 0.75})

    config = make_config(steps=2, micro_batches=2)
    trainer = make_trainer(tmp_path / "terms", config, loss=loss)
    trainer.run()
    plain = make_trainer(tmp_path / "plain", config)
    plain.run()
    assert_same_weights(weights_of(trainer.model), weights_of(plain.model))
    for line in metrics(tmp_path / "terms", "update"):
        assert line["loss.first"] + line["loss.second"] == pytest.approx(line["loss"], rel=1e-6)
        assert line["loss.second"] == pytest.approx(3 * line["loss.first"], rel=1e-6)


def carrying():
    """A task's state from batch to batch: how many targets its losses have seen."""
    state = {}

    def loss(model, batch, smoothing):
        if model.training:
            state["seen"] = state.get("seen", torch.zeros(1)) + batch.num_targets
        return state["task"].loss(model, batch, smoothing)

    def carry(given):
        state.pop("seen", None)
        state.update(given)

    parts = {"loss": loss, "carried": lambda: {"seen": state["seen"]} if "seen" in state else {}, "carry": carry}
    return state, parts


def test_carried_state_starts_from_nothing_and_goes_on_after_a_resume(tmp_path):
    def run(folder, steps, resume=False):
        state, parts = carrying()
        trainer = make_trainer(folder, make_config(steps=steps, micro_batches=1, validate_every=3), **parts)
        state["task"] = trainer.task._task
        trainer.predict_cost(trainer.task.work)  # its measured steps leave nothing behind
        trainer.run(resume)
        return state["seen"], trainer.progress.tokens

    whole, tokens = run(tmp_path / "whole", 6)
    assert whole == tokens
    run(tmp_path / "half", 3)
    assert run(tmp_path / "half", 6, resume=True) == (whole, tokens)


def test_groups_are_frozen_or_trained_at_a_rate_of_their_own(tmp_path):
    training = {"steps": 1, "optimizer": "sgd", "learning_rate": 0.5, "schedule": "constant", "warmup": 0, "clip": None}

    def moved(folder, *rates):
        def groups(model):
            return [Group(list(model.source_embedding.parameters()), rate) for rate in rates]

        trainer = make_trainer(folder, make_config(**training), **({"groups": groups} if rates else {}))
        before = weights_of(trainer.model)
        trainer.run()
        return {name: tensor - before[name] for name, tensor in weights_of(trainer.model).items()}

    plain, slow, frozen = moved(tmp_path / "a"), moved(tmp_path / "b", 0.5), moved(tmp_path / "c", 0)
    assert plain["source_embedding.weight"].any() and not frozen["source_embedding.weight"].any()
    assert_close(slow["source_embedding.weight"], plain["source_embedding.weight"] / 2)
    for name in plain.keys() - {"source_embedding.weight"}:
        assert_close(slow[name], plain[name])
        assert_close(frozen[name], plain[name])
