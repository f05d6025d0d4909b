"""Several processes are one: the same update, the same scores, whatever their number, and through a crash."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from heed.errors import ConfigError
from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.training import processes
from heed.training.loop import Trainer
from heed.training.progress import Quiet
from pages import blocks, page

HERE = Path(__file__).parent
CONFIG = {
    "task": "translation",
    "data": {"name": "copy", "length": [2, 6], "train": 120, "valid": 17, "test": 16},
    "model": {"name": "bahdanau", "d_embedding": 12, "d_hidden": 12, "d_attention": 12},
    "training": {"steps": 12, "validate_every": 4, "batch_tokens": 150, "threads": 1, "device": "cpu", "accumulate": 2},
    "evaluation": {"bootstrap": 10},
}


@pytest.fixture(scope="module")
def ranks():
    """Run `heed` or a file of Python in several processes, as torchrun does, without a start of Python for each."""
    server = subprocess.Popen(
        [sys.executable, HERE / "ranks.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )

    def run(folder, count, *words, config=CONFIG):
        (folder / "config.yaml").write_text(json.dumps(config))
        server.stdin.write(json.dumps({"folder": str(folder), "count": count, "words": words}) + "\n")
        server.stdin.flush()
        done = json.loads(server.stdout.readline())
        return done["codes"], done["said"]

    yield run
    server.communicate(timeout=60)


TRAIN = ("heed", "train", "config.yaml", "--out")


def alone(out, config=CONFIG):
    run, _ = train_config(check_config(config, "the test"), out, Quiet())
    return run


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return alone(tmp_path_factory.mktemp("runs") / "one")


def assert_alike(out, one):
    own, other = load_file(out / "model.safetensors"), load_file(one.folder / "model.safetensors")
    assert own.keys() == other.keys()
    for name, tensor in own.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=2e-6)
    for event in ("update", "validation"):
        lines, whole = metrics(out, event), metrics(one.folder, event)
        assert len(lines) == len(whole)
        for line, expected in zip(lines, whole, strict=True):
            for name in ("seconds", "waited"):
                line.pop(name, None), expected.pop(name, None)
            assert line == pytest.approx(expected, rel=1e-4)


def metrics(folder, event):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "event"} for line in lines if line["event"] == event]


def test_two_processes_are_one(tmp_path, ranks, one):
    codes, said = ranks(tmp_path, 2, *TRAIN, "two")
    assert codes == [0, 0], said
    assert "1 thread, 2 processes" in said
    assert said.count("run folder two") == 1  # one speaks
    assert_alike(tmp_path / "two", one)
    report = json.loads((tmp_path / "two" / "report.json").read_text())
    assert report["training"]["processes"] == 2
    own, other = report["scores"]["test"], one.report["scores"]["test"]
    assert own["exact_match"]["value"] == other["exact_match"]["value"]
    assert own["perplexity"] == pytest.approx(other["perplexity"], rel=1e-5)


def test_three_go_on_with_what_two_began(tmp_path, ranks):
    shorter = {**CONFIG, "training": {**CONFIG["training"], "schedule": "constant"}}
    expected = alone(tmp_path / "expected", shorter)
    half = {**shorter, "training": {**shorter["training"], "steps": 8}}
    codes, said = ranks(tmp_path, 2, *TRAIN, "run", config=half)
    assert codes == [0, 0], said
    codes, said = ranks(tmp_path, 3, *TRAIN, "run", "--resume", config=shorter)
    assert codes == [0, 0, 0], said
    assert "resumed at update 8" in said
    assert "the checkpoint was written by 2 processes; resuming with 3" in said
    assert "changed since the run began: training.steps: 8 -> 12" in said
    assert_alike(tmp_path / "run", expected)


def test_a_killed_worker_costs_the_steps_since_the_last_checkpoint(tmp_path, one):
    (tmp_path / "config.yaml").write_text(json.dumps(CONFIG))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    done = subprocess.run(
        [sys.executable, *torchrun, HERE / "killed_worker.py", *TRAIN[1:], "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "resumed at update 4" in done.stderr
    assert_alike(tmp_path / "run", one)


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_labelled_tasks_share_batches_and_validation_out(tmp_path, ranks, task):
    words = ["Ann", "Bob", "cats", "dogs"]
    if task == "tagging":
        lines = []
        for n in range(41):
            lines += [f"{words[n % 4]}\t{'B-PER' if n % 4 < 2 else 'O'}", "sees\tO", *(["it\tO"] * (n % 3)), ""]
    else:
        lines = [f"{'good' if n % 2 else 'bad'}\tthe {words[n % 4]} number {n % 7}" for n in range(61)]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    columns = {"columns": {"text": 1, "label": 0}} if task == "classification" else {}
    own = {"word_dropout": 0.0} if task == "tagging" else {}
    config = {
        "task": task,
        "data": {"train": str(tmp_path / "train.txt"), "valid": 9, **columns},
        "model": {"name": "rnn", "size": "tiny", "dropout": 0.0, **own},
        "training": {**CONFIG["training"], "steps": 4, "validate_every": 2, "micro_batches": 3},
        "evaluation": {"bootstrap": 10},
    }
    codes, said = ranks(tmp_path, 2, *TRAIN, "two", config=config)
    assert codes == [0, 0], said
    assert_alike(tmp_path / "two", alone(tmp_path / "one", config))


FROM_PYTHON = """
import gc, json, os, sys, heed
from pathlib import Path
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

end = distributed.destroy_process_group

def end_without_holders():  # what still held the group would end its threads later, and could wait for ever
    assert not [held for held in gc.get_objects() if type(held) is DistributedDataParallel]
    end()

distributed.destroy_process_group = end_without_holders
for out in ("first", "second"):  # one process group after the other
    run = heed.train("config.yaml", out=out, steps=4, quiet=True)
    found = {"report": run.report, "says": run.predict("3 4 5").text, "sealed": heed.check_run(out).whole}
    Path(f"{out}-{os.environ['RANK']}.json").write_text(json.dumps(found))
"""


def test_train_from_python_returns_the_finished_run_in_every_process(tmp_path, ranks):
    (tmp_path / "program.py").write_text(FROM_PYTHON)
    codes, said = ranks(tmp_path, 2, "program.py")
    assert codes == [0, 0], said
    for out in ("first", "second"):
        found = [json.loads((tmp_path / f"{out}-{rank}.json").read_text()) for rank in (0, 1)]
        assert found[0] == found[1]
        assert found[0]["sealed"] and found[0]["report"]["scores"]["test"]["examples"] == 16


def test_a_failure_of_the_first_process_after_training_ends_the_others(tmp_path, ranks):
    program = """
import heed.runs.train
heed.runs.train.write_card = None
heed.train("config.yaml", out="run", steps=4, quiet=True)
"""
    (tmp_path / "program.py").write_text(program)
    codes, said = ranks(tmp_path, 2, "program.py")
    assert all(codes)
    assert "RunError: the first process failed after training" in said


def test_an_error_of_the_data_ends_all_processes_with_its_message(tmp_path, ranks):
    config = {**CONFIG, "data": {"train": ["no.en", "no.de"]}}
    codes, said = ranks(tmp_path, 2, *TRAIN, "run", config=config)
    assert all(codes)
    assert "heed: cannot read" in said or "no.en" in said
    assert not (tmp_path / "run").exists()


def test_the_first_command_of_the_page_runs(tmp_path, ranks):
    command = blocks(page("docs/scaling.md"), "bash")[0].strip()
    assert "data.name=copy" in command
    torchrun, _, words = command.partition(" -m ")
    assert torchrun == "torchrun --standalone --nproc-per-node 2"  # as in the test of a killed worker
    less = "data.train=60 data.valid=8 data.test=8 --size tiny evaluation.bootstrap=5"
    codes, said = ranks(tmp_path, 2, *words.split(), *less.split())
    assert codes == [0, 0] and "2 processes" in said, said
    assert (tmp_path / "runs" / "two" / "report.json").is_file()


# --- one alone


def test_one_device_for_several_processes_is_an_error(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"training.device is 'cuda:1', but 2 processes were started"):
        processes.join("cuda:1")


# --- what it costs


def test_each_run_says_what_was_predicted_and_what_it_took(one):
    training = one.report["training"]
    predicted = training["predicted"]
    assert predicted["network_mib_per_update"] == 0 and training["processes"] == 1
    assert predicted["seconds_per_update"] > 0 and training["seconds_per_update"] > 0
    assert training["peak_memory_mib"] == pytest.approx(predicted["memory_mib"], rel=0.5)


def test_predicting_changes_neither_model_nor_random_state(tmp_path):
    task = task_class("translation").prepare(check_config(CONFIG, "the test"))
    torch.manual_seed(1)
    model = task.build_model()
    trainer = Trainer(model, task, task.config.training, "loss", tmp_path, Quiet())
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before = torch.get_rng_state()
    cost = trainer.predict_cost(task.work)
    assert torch.equal(torch.get_rng_state(), before)
    for state in trainer.optimizer.state.values():
        assert not any(tensor.any() for tensor in state.values())
    assert {group["lr"] for group in trainer.optimizer.param_groups} == {task.config.training.learning_rate}
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    parameters = sum(p.numel() for p in model.parameters())
    assert cost.memory > 12 * parameters and cost.network == 0
    wide = predicted_with(tmp_path, d_hidden=48)
    assert wide.activations > 1.5 * cost.activations


def test_memory_counts_the_keys_and_values_of_a_validation(tmp_path):
    """Of a Transformer; of other models the states of the sources that are read together."""
    short, long = (
        decoding(tmp_path, length=length, name="transformer", size="tiny", num_layers=2)
        for length in ([2, 6], [40, 80])
    )
    assert long > 5 * short > 0
    narrow, wide = (decoding(tmp_path, length=[40, 80], **{**CONFIG["model"], "d_hidden": d}) for d in (8, 32))
    assert wide > 2 * narrow > 0


def decoding(tmp_path, length, **model):
    config = check_config({**CONFIG, "data": {**CONFIG["data"], "length": length}, "model": model}, "the test")
    task = task_class("translation").prepare(config)
    return task.scoring_memory(task.build_model(), 0.0)


def test_the_chosen_number_of_threads_is_that_of_the_run(tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)  # who sets them has chosen
    monkeypatch.setattr("heed.training.cost.threads_of", lambda *_: 2)
    before = torch.get_num_threads()
    try:
        config = {**CONFIG, "training": {**CONFIG["training"], "steps": 2, "threads": None}}
        assert alone(tmp_path / "run", config).report["training"]["threads"] == 2
    finally:
        torch.set_num_threads(before)


def test_batches_are_divided_where_much_would_be_kept_for_the_way_back(tmp_path, monkeypatch):
    whole = predicted_with(tmp_path, name="transformer", size="tiny")
    assert whole.micro_batches == 1
    monkeypatch.setattr("heed.training.device._SAVED", 2**18)
    divided = predicted_with(tmp_path, name="transformer", size="tiny")
    assert divided.micro_batches > 2
    assert predicted_with(tmp_path, **CONFIG["model"]).micro_batches == 1  # its steps would have fewer rows


def predicted_with(tmp_path, **model):
    model = {**CONFIG["model"], **model} if "name" not in model else model
    config = check_config({**CONFIG, "model": model}, "the test")
    task = task_class("translation").prepare(config)
    return Trainer(task.build_model(), task, task.config.training, "loss", tmp_path, Quiet()).predict_cost(task.work)
