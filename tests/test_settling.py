"""What a user leaves open is settled once, each value with its reason, which `--dry-run` prints."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
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
from heed.tasks import check_config
from heed.tasks.base.sizing import with_choice
from heed.training.plan import SizeChoice

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
