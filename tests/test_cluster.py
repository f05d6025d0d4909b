"""Comparisons on a Ray cluster: the same runs, lost workers, one writer for each attempt."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

import heed
from heed.comparison import cluster
from heed.comparison.cluster import begin_attempt, settle
from heed.errors import ConfigError, HeedError

TINY = ":d_embedding=8:d_hidden=8:d_attention=8"
MODELS = f"bahdanau{TINY},bahdanau{TINY}:cell=rnn"
FIRST = "bahdanau_d_embedding=8_d_hidden=8_d_attention=8-seed1"
WORDS = ["compare", "translation", "data.name=copy", "data.length=[2,6]", "data.train=150", "data.valid=20"]
WORDS += ["data.test=30", "--models", MODELS, "training.batch_tokens=200", "training.threads=1"]
WORDS += ["training.device=cpu", "generation.max_length=9", "--resamples", "20", "--sentences", "2"]
STEPS = ["training.steps=400", "training.validate_every=40"]


def weights(folder):
    return {path.parent.name: load_file(path) for path in sorted(Path(folder).glob("*/model.safetensors"))}


def events(folder):
    return [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]


def newest(folder):
    return max((int(path.name.removeprefix("step-")) for path in Path(folder).glob("checkpoints/step-*")), default=0)


def owner(folder):
    """The process that trains in a folder."""
    return int(re.match(r"process (\d+) on", (Path(folder) / ".lock").read_text())[1])


def check_went_on(folder, lost, step, err):
    """The run in `folder` went on from update `step` of `lost`, the events of the attempt whose worker was lost."""
    assert f"its worker was lost; attempt 2 goes on from update {step}\n" in err
    before = [one for one in lost if one["step"] <= step]
    now = events(folder)
    assert now[: len(before)] == before and now[len(before)]["step"] == step + 1  # with the times of the lost worker
    steps = [one["step"] for one in now if one["event"] == "update"]
    assert steps == [*range(1, newest(folder) + 1)]
    assert not list(Path(folder).parent.glob(".attempt*"))


def check_equal(one, two):
    first, second = weights(one), weights(two)
    assert first.keys() == second.keys() and len(first) == 2
    assert all(torch.equal(first[run][name], second[run][name]) for run in first for name in first[run])
    outputs = [json.loads((Path(folder) / "compare.json").read_text())["examples"] for folder in (one, two)]
    assert outputs[0] == outputs[1]


class LostError(Exception):
    """Stands for Ray's error of a lost actor."""


class FakeRay:
    """What heed uses of Ray, with actors in this process; `answers` stands between an actor and its caller."""

    def __init__(self, answers=lambda actor, signals: actor.poll(signals), processors=1.0):
        names = ("RayActorError", "RaySystemError", "LocalRayletDiedError")
        self.exceptions = SimpleNamespace(**dict.fromkeys(names, type("OtherError", (Exception,), {})))
        self.exceptions.RayActorError = LostError
        self.processors, self.actors, self.asked = processors, [], []

        def began(planned, path):
            actor = cluster.Worker(planned, path)
            self.actors.append(actor)
            return SimpleNamespace(poll=SimpleNamespace(remote=lambda signals: lambda: answers(actor, signals)))

        self._made = SimpleNamespace(remote=began)

    def is_initialized(self):
        return False

    def init(self, address, **options):
        print("what Ray prints")

    def shutdown(self):
        pass

    def nodes(self):
        return [{"Alive": True, "Resources": self.cluster_resources()}]

    def cluster_resources(self):
        return {"CPU": self.processors}

    def remote(self, kind):
        return SimpleNamespace(options=lambda **options: self.asked.append(options) or self._made)

    def wait(self, answers, timeout):
        return answers, []

    def get(self, answer):
        return answer()

    def kill(self, actor):
        pass  # as a worker that cannot be reached


def test_without_ray_the_error_says_how_to_get_it(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, out, err = call(*WORDS, "--on", "ray")
    assert code == 2 and out == "" and not os.path.exists("runs")
    assert "--on ray needs the package ray" in err and "pip install -e '.[cluster]'" in err
    with pytest.raises(ConfigError, match="on is 'slurm', expected 'ray'"):
        heed.compare("translation", models=MODELS, data="copy", on="slurm")
    with pytest.raises(ConfigError, match="jobs is 0"):
        heed.compare("translation", models=MODELS, data="copy", jobs=0)
    code, _, err = call("compare", "runs/a", "runs/b", "--on", "ray")
    assert code == 2 and "--on is for training, but these runs are already trained" in err


def test_what_the_cluster_cannot_do_is_refused_before_anything_trains(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    for words, text in (
        (["training.threads=8"], "no node of the cluster has 8 CPUs (training.threads, training.device)"),
        (["training.device=cuda"], "no node of the cluster has 1 CPU and 1 GPU"),
        (["training.device=cuda:1"], "training.device is cuda:1, but on a cluster Ray chooses the GPU; give cuda"),
    ):
        code, out, err = call(*WORDS, *words, "--on", "ray", "--out", "one")
        assert code == 2 and out == "" and text in err
        assert not os.path.exists("one")
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    code, _, err = call(*WORDS, "--on", "ray", "--out", "one")
    assert code == 2 and "RAY_ADDRESS is 'ray://head:10001', for a Ray client" in err
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    code, _, err = call(*WORDS, "--on", "ray", "--out", "one")
    assert code == 2 and "cannot reach a cluster at RAY_ADDRESS=127.0.0.1:1: [Errno 111] Connection refused; st" in err


def test_each_attempt_has_its_own_folder(tmp_path):
    final = tmp_path / "run-seed1"
    final.mkdir()
    (final / "config.yaml").write_text("interrupted")
    first = begin_attempt(final, 3)
    assert first.name == final.name and not final.exists()  # the model card names it
    (first / "checkpoints" / "step-5").mkdir(parents=True)
    (first / "checkpoints" / "step-5" / "progress.json").write_text("5")
    (first / ".lock").write_text("process 1 on other since 2026-01-01 00:00:00")
    second = begin_attempt(final, 12)
    assert (second / "config.yaml").read_text() == "interrupted" and not (second / ".lock").exists()
    (second / "config.yaml").write_text("second")
    # the first worker, believed dead, writes on
    (first / "config.yaml").write_text("late")
    (first / "checkpoints" / "step-6").mkdir()
    assert (second / "config.yaml").read_text() == "second"
    assert [path.name for path in (second / "checkpoints").iterdir()] == ["step-5"]
    other = begin_attempt(tmp_path / "other-seed1", 1)
    settle(final, ended=True)
    assert (final / "config.yaml").read_text() == "second" and other.is_dir()
    assert {path.name for path in tmp_path.iterdir()} == {"run-seed1", ".attempt-1"}
    # what a worker has made again after its attempt was given up is not taken for the run
    (tmp_path / ".attempt-3" / final.name).mkdir(parents=True)
    settle(final)
    assert (final / "config.yaml").read_text() == "second" and not (tmp_path / ".attempt-3").exists()
    # the comparison was killed, and its worker may still be alive
    begun = begin_attempt(final, 13)
    with (begun / "metrics.jsonl").open("w") as late:
        settle(final)
        late.write("late")
    assert (final / "metrics.jsonl").read_text() == "" and not begun.exists()


def test_a_run_that_ends_its_workers_is_given_up(call, monkeypatch):
    def answers(actor, signals):
        raise LostError("heed is not installed\nthere")

    monkeypatch.setitem(sys.modules, "ray", FakeRay(answers))
    code, out, err = call(*WORDS, *STEPS, "--on", "ray", "--jobs", "1", "--out", "one")
    assert code == 3 and out == "" and err.count("its worker was lost; attempt") == 4
    assert "5 workers were lost at update 0, the last because: heed is not installed there" in err
    plan = json.loads(Path("one/compare.plan.json").read_text())["runs"]
    assert plan[FIRST]["attempts"] == 5
    call(*WORDS, *STEPS, "--on", "ray", "--jobs", "1", "--out", "one")
    plan = json.loads(Path("one/compare.plan.json").read_text())["runs"]
    assert plan[FIRST]["attempts"] == 10  # no number is used twice
    assert not list(Path("one").glob(".attempt-[1-5]"))


@pytest.mark.usefixtures("compared_here")
def test_a_lost_worker_that_writes_on_does_no_damage(call, monkeypatch):
    words = [*WORDS, "training.steps=60", "training.validate_every=10"]
    code, _, err = call(*words, "--out", "one")
    assert code == 0, err
    shutil.copytree("one", "two")
    shutil.rmtree(f"two/{FIRST}")
    stopped = []

    def answers(actor, signals):
        """The first worker is lost after its first checkpoint, and wakes up while the second trains."""
        at = None if stopped else next(Path("two").glob(f".attempt-*/{FIRST}"))
        if at is not None and newest(at) and (at / ".lock").exists():
            stopped.append(owner(at))
            os.kill(stopped[0], signal.SIGSTOP)
            time.sleep(0.2)
            stopped.extend([newest(at), events(at)])
            raise LostError
        if len(stopped) == 3 and newest(f"two/.attempt-2/{FIRST}") > stopped[1]:
            stopped.append("woken")
            os.kill(stopped[0], signal.SIGCONT)
        return actor.poll(signals)

    ray = FakeRay(answers)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(cluster, "POLL", 0.01)
    code, out, err = call(*words, "--on", "ray", "--out", "two")
    assert code == 0 and "what Ray prints" not in out + err and "1 of 2 runs exist; 1 to train" in err
    _, step, lost, woken = stopped
    assert step >= 10 and woken and ray.asked[0]["num_cpus"] == 1 and ray.asked[0]["num_gpus"] == 0
    check_went_on(f"two/{FIRST}", lost, step, err)
    check_equal("one", "two")
    with suppress(HeedError):  # it found its folder deleted, or had ended before
        ray.actors[0]._apart.result()
    assert not list(Path("two").glob(".attempt*"))


@pytest.mark.slow
def test_on_two_nodes_of_which_one_is_killed(call, tmp_path):
    pytest.importorskip("ray", reason="needs the extra cluster: pip install -e '.[cluster]'")
    from ray.cluster_utils import Cluster

    code, _, err = call(*WORDS, *STEPS, "--out", "one", "--jobs", "2")
    assert code == 0, err
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        workers = [nodes.add_node(num_cpus=2) for _ in range(2)]
        environment = {**os.environ, "RAY_ADDRESS": nodes.address}
        heeded = [sys.executable, "-m", "heed", *WORDS, *STEPS, "--on", "ray", "--out"]
        pipes = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([*heeded, "two"], **pipes)
        at, deadline = tmp_path / "two" / ".attempt-1" / FIRST, time.monotonic() + 60
        while not (newest(at) and (at / ".lock").exists()):
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.01)
        stale = owner(at)
        os.kill(stale, signal.SIGSTOP)
        time.sleep(0.2)
        step, lost = newest(at), events(at)
        raylets = {node.all_processes["raylet"][0].process.pid: node for node in workers}
        above = stale
        while above not in raylets:  # heed's process, Ray's worker, the node
            above = int(Path(f"/proc/{above}/stat").read_text().rpartition(")")[2].split()[1])
        nodes.remove_node(raylets[above], allow_graceful=False)
        while max(map(newest, (tmp_path / "two").glob(f".attempt-*/{FIRST}"))) <= step and process.poll() is None:
            time.sleep(0.01)
        with suppress(ProcessLookupError):  # if Ray has not killed it, it wakes up and writes on
            os.kill(stale, signal.SIGCONT)
        out, err = process.communicate(timeout=90)
        assert process.returncode == 0 and "Traceback" not in err, err
        check_went_on(tmp_path / "two" / FIRST, lost, step, err)
        check_equal("one", "two")
        assert out.startswith("scores on 30 test examples")
        own = re.compile(
            r"bahdanau|\d of \d: |two|wrote |warning: .* too few|\d+ of \d+ runs exist|.*test examples$|drawing |\s*$"
        )
        assert all(own.match(line) for line in err.splitlines()), err  # nothing of Ray's
        # Ctrl-C
        process = subprocess.Popen([*heeded, "three", "training.steps=100000"], **pipes)
        runs = tmp_path / "three"
        while len(list(runs.glob(".attempt-*/*/checkpoints/step-*"))) < 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130 and out == "" and err.endswith("saved. Resume with the same command\n"), err
        assert len(list(runs.glob("*-seed1/checkpoints/step-*"))) >= 2 and not list(runs.glob(".attempt*"))
    finally:
        nodes.shutdown()
