"""What a user leaves open is settled once, with its reason; sizes of models and batches fit into the time budget."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import yaml

import heed
from heed.cli import main
from heed.config.settling import (
    GPU_BATCH,
    LEAST_UPDATES,
    has_open_gpu_batch,
    reasons_text,
    with_gpu_batch,
    with_rate,
    with_share_of_pass,
    with_steps,
)
from heed.runs.prepare import settle_updates
from heed.runs.train import forecast, train_config
from heed.tasks import check_config, task_class
from heed.tasks.base import sizing
from heed.tasks.base.sizing import with_choice
from heed.training.plan import SizeChoice, choose_size
from heed.training.progress import Quiet

EXAMPLE = re.compile(r"\$ heed (train [^\n]* --dry-run)\n\.\.\.\n(.*?)\n\.\.\.\n", re.DOTALL)


def config(**sections):
    return check_config({"task": "translation", "data": {"name": "dates"}, **sections}, "the test")


def test_a_settled_value_has_a_reason_and_a_given_one_is_kept():
    settled = config(training={"clip": 2.0}).settle_open("calm", {"training.clip": 0.5, "training.learning_rate": 0.1})
    assert (settled.training.clip, settled.training.learning_rate) == (2.0, 0.1)
    assert settled.reasons == {"training.learning_rate": "calm"}
    again = settled.settle_open("wild", {"training.learning_rate": 0.2})
    assert again.training.learning_rate == 0.1 and again.reasons == settled.reasons  # the first one counts


def test_reasons_are_no_settings():
    plain = config()
    settled = plain.because("why not", "training.seed")
    assert settled == plain and settled.model_dump() == plain.model_dump() and not plain.reasons
    assert settled != plain.settle("another", {"training.seed": 2})
    assert reasons_text(settled) == "# Settled for you:\n# training.seed=1  why not"
    assert reasons_text(plain) == ""


@pytest.mark.parametrize(
    ("model", "training", "rate"),
    [({}, {}, 5e-4), ({"d_model": 64}, {}, 5e-4), ({"d_model": 768}, {}, 8.3e-5), ({}, {"learning_rate": 0.1}, 0.1)],
)
def test_the_rate_is_smaller_for_a_wide_body_unless_it_was_given(model, training, rate):
    settled = with_rate(config(model=model, training=training), 5e-4, "fine-tuning")
    assert settled.training.learning_rate == rate
    why = settled.reasons.get("training.learning_rate", "")
    assert why.startswith("fine-tuning") == (not training) and ("128 / model.d_model" in why) == (768 in model.values())


@pytest.mark.parametrize(
    ("positions", "batch"),
    [(10**9, GPU_BATCH), (5_000 * LEAST_UPDATES, 5_000), (100, 2_000)],
)
def test_the_batch_of_a_gpu_is_a_share_of_a_pass(positions, batch):
    large = with_gpu_batch(config(), "batch_tokens")
    assert large.training.batch_tokens == GPU_BATCH and has_open_gpu_batch(large, "batch_tokens")
    settled = with_share_of_pass(large, "batch_tokens", positions)
    assert settled.training.batch_tokens == batch and not has_open_gpu_batch(settled, "batch_tokens")


def test_a_given_batch_is_kept_on_a_gpu():
    given = config(training={"batch_tokens": 64})
    assert with_gpu_batch(given, "batch_tokens") is given and not has_open_gpu_batch(given, "batch_tokens")


@pytest.mark.parametrize(
    ("choice", "values"),
    [
        (SizeChoice("small", 1.0, 900, {}), {}),
        (SizeChoice("small", 0.5, 900, {}), {"training.batch_tokens": 1_000}),
        (SizeChoice("tiny", 0.25, 900, {"small": 7}), {"model.size": "tiny", "training.batch_tokens": 500}),
    ],
)
def test_the_measured_cost_decides_size_and_batch(choice, values):
    settled = with_choice(config(), "batch_tokens", "small", choice)
    assert (settled.model.size, settled.training.batch_tokens) == (
        values.get("model.size", "auto"),
        values.get("training.batch_tokens", 2_000),
    )
    assert settled.reasons == dict.fromkeys(values, str(choice)) and "about 900 updates fit" in str(choice)


def test_passes_become_steps():
    settled = with_steps(config(training={"epochs": 2.5}), 9)
    assert (settled.training.steps, settled.training.epochs, settled.training.minutes) == (22, None, None)
    assert settled.reasons == {"training.steps": "2.5 passes of 9 updates"}
    assert with_steps(config(training={"epochs": 1}), 1).reasons == {"training.steps": "1 pass of 1 update"}


def test_the_example_of_the_docs(capsys):
    command, shown = EXAMPLE.search(Path("docs/training.md").read_text()).groups()
    with suppress(SystemExit):
        main(command.split())
    out = capsys.readouterr().out
    assert f"\n{shown}\n" in out
    assert yaml.safe_load(out[: out.index("dates: 500")])["training"]["steps"] == 16  # reasons are comments


def test_every_value_that_differs_from_the_given_ones_has_a_reason(tmp_path):
    """What `config.yaml` has beside the defaults was given or has a reason, of a task with many such values."""
    lines = [f"{'good fine' if n % 2 else 'bad dull'} film number {n},{'pos' if n % 2 else 'neg'}" for n in range(80)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    values = {"task": "classification", "data": {"train": [str(tmp_path / "reviews.csv")], "valid": 20}}
    task = heed.tasks.task_class("classification").prepare(check_config(values, "the test"))
    made, given = task.config, check_config(values, "the test")
    for section in ("tokenizer", "training", "evaluation"):
        before, after = (getattr(one, section).model_dump() for one in (given, made))
        changed = {f"{section}.{name}" for name in before if before[name] != after[name]}
        assert changed <= made.reasons.keys()
    usual = made.model.model_extra.keys() & task.model_defaults.keys()
    differing = {f"model.{n}" for n in usual if made.model.model_extra[n] != task.model_defaults[n]}
    assert differing <= made.reasons.keys() and "model.size" in made.reasons
    assert {"data.columns.text", "data.columns.label", "training.learning_rate"} <= made.reasons.keys()


# --- The size of a model and of its batches that fit into a time budget


SECONDS = {"base": (1.0, 10.0), "small": (0.1, 1.0), "tiny": (0.01, 0.1)}


@pytest.mark.parametrize(
    ("seconds", "size", "batch"),
    [
        (2_000, "base", 1.0),
        (1_000, "base", 0.5),
        (500, "base", 0.25),
        (400, "small", 1.0),
        (50, "small", 0.25),
        (20, "tiny", 1.0),
        (1, "tiny", 0.25),  # not enough of anything
    ],
)
def test_the_largest_size_of_which_enough_updates_fit(seconds, size, batch):
    choice = choose_size([*SECONDS], (1.0, 0.5, 0.25), SECONDS.__getitem__, lambda size, batch, n: n >= 100, seconds)
    assert (choice.size, choice.batch) == (size, batch)
    fixed, of_batch = SECONDS[size]
    assert choice.updates == pytest.approx(0.8 * seconds / (fixed + batch * of_batch), abs=1)
    assert [*choice.larger] == [*SECONDS][: [*SECONDS].index(size)]


TEXT = "the cat sees a dog . a dog sees the cat . " * 2_000


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    return path


def prepared(book, seconds_of_small, monkeypatch, minutes=2.0, **sections):
    """A language model's task on a machine on which an update of size small takes so long."""
    monkeypatch.setattr(
        sizing._Trial,
        "measure",
        lambda trial, budget: (0.0, seconds_of_small * {"small": 1.0, "tiny": 0.05}[trial.task.config.model.size]),
    )
    monkeypatch.setattr("heed.tasks.inputs.stream.Stream.tokens_of_size", {"small": 10**9})
    training = {"minutes": minutes, "threads": 1, **sections.pop("training", {})}
    values = {"task": "language_modelling", "data": {"train": [str(book)]}, "training": training, **sections}
    return task_class("language_modelling").prepare(check_config(values, "the test"))


def test_a_slow_machine_gets_a_smaller_model_and_says_so(book, monkeypatch):
    task = prepared(book, 2.0, monkeypatch)
    assert (task.config.model.size, task.config.training.batch_tokens) == ("tiny", 2_048 // 2)
    assert "size tiny and training.batch_tokens 1,024 instead of 2,048: about 1,920 updates" in task.notes
    assert "of size small only 192" in task.notes


def test_a_fast_machine_keeps_the_size_of_the_data(book, monkeypatch):
    task = prepared(book, 0.01, monkeypatch)
    assert (task.config.model.size, task.config.training.batch_tokens) == ("small", 2_048)
    assert "fit into the time budget" not in task.notes


def test_what_the_user_gave_is_kept(book, monkeypatch):
    task = prepared(book, 2.0, monkeypatch, model={"size": "small"}, training={"batch_tokens": 4_096})
    assert (task.config.model.size, task.config.training.batch_tokens) == ("small", 4_096)


def test_a_run_of_given_steps_is_not_measured(book, monkeypatch):
    task = prepared(book, 2.0, monkeypatch, training={"steps": 5})
    assert (task.config.model.size, task.config.training.batch_tokens) == ("small", 2_048)


def test_the_trial_of_a_size_leaves_the_task_as_it_was(book, monkeypatch):
    monkeypatch.setattr(sizing, "_SLOWEST", 0.0)
    training = {"minutes": 0.02, "threads": 1}
    values = {"task": "language_modelling", "data": {"train": [str(book)], "context": 64}, "training": training}
    values["model"] = {"name": "rnn"}
    task = task_class("language_modelling").prepare(check_config(values, "the test"))
    assert task.config.model.size == "tiny"
    one, other = (task.collate(batch) for batch in task.train_batches(0)[:2])
    assert one.inputs["tokens"].shape[1] == other.inputs["tokens"].shape[1] == 64
    assert not task.carried()


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr("heed.tasks.work.choose_device", lambda name: torch.device("cuda"))


def test_a_time_budget_on_a_gpu_is_shared_out_among_batches_from_large_to_small(book, on_gpu, monkeypatch):
    task = prepared(book, 2.0, monkeypatch)
    assert (task.config.model.size, task.config.training.batch_tokens) == ("small", 32_000 // 32)
    assert "training.batch_tokens 1,000 instead of 32,000: about 1,536 updates" in task.notes


BASE = {"size": "base", "d_model": 16, "num_heads": 2, "num_layers": 1, "max_length": 32}


def settings(book, model, **training):
    training = {"steps": 1, "threads": 1, **training}
    data = {"train": [str(book)], "context": 32}
    model = {"name": "gpt", **model}
    sections = {"data": data, "model": model, "training": training, "tokenizer": {"kind": "word"}}
    return {"task": "language_modelling", **sections}


@pytest.mark.parametrize(
    ("model", "training", "updates", "expected"),
    [
        (BASE, {}, 4, (6_000, 6_400, 0.0)),  # a quarter of the book's 24,000 words, whole rows
        (BASE, {}, 100, (2_048, 2_048, 0.0)),
        (BASE, {"epochs": 1, "steps": None}, 1, (24_000, 25_600, 0.0)),
        ({**BASE, "size": "small"}, {}, 4, (6_000, 6_400, 0.0)),
        ({**BASE, "size": "tiny"}, {}, 4, (6_000, 6_400, None)),
        ({**BASE, "attention_dropout": 0.2}, {"batch_tokens": 500}, 4, (500, 500, 0.2)),
    ],
)
def test_on_a_gpu_batches_are_larger_and_large_models_have_no_attention_dropout_by_default(
    model, training, updates, expected, book, on_gpu, monkeypatch
):
    monkeypatch.setattr("heed.config.settling.LEAST_UPDATES", updates)
    task = task_class("language_modelling").prepare(check_config(settings(book, model, **training), "the test"))
    settle_updates(task)
    found, least, most, dropout = task.config, *expected
    assert least <= found.training.batch_tokens <= most and found.model.model_extra["attention_dropout"] == dropout
    assert found.training.steps == 1 and found.training.epochs is None


def test_what_a_gpu_has_by_default_is_told_and_kept_by_a_resumed_run(book, tmp_path, monkeypatch):
    monkeypatch.setattr("heed.config.settling.LEAST_UPDATES", 4)
    config = check_config(settings(book, BASE), "the test")
    with monkeypatch.context() as patch:
        patch.setattr("heed.tasks.work.choose_device", lambda name: torch.device("cuda"))
        told = forecast(config)
        run, _ = train_config(config, tmp_path / "run", Quiet())
    batch = run.config.training.batch_tokens
    assert f"batch_tokens: {batch}\n" in told and "attention_dropout: 0.0\n" in told and batch > 5_000
    more = check_config(settings(book, BASE, steps=2), "the test")
    resumed, _ = train_config(more, tmp_path / "run", Quiet(), resume=True)
    assert (resumed.config.training.batch_tokens, resumed.config.training.steps) == (batch, 2)
    assert resumed.config.model.model_extra["attention_dropout"] == 0.0
    fresh, _ = train_config(more, tmp_path / "fresh", Quiet())
    assert (fresh.config.training.batch_tokens, fresh.config.model.model_extra["attention_dropout"]) == (2_048, None)
