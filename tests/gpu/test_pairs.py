"""Every task with each of its models, trained, resumed, predicting, scored and looked at on a GPU as on a CPU.

On the stand-in (`make gpu-stand-in`) or a real GPU. Sums are the CPU's but for rounding: SGD, whose updates are
proportional to gradients, no dropout, float32.
"""

import json

import pytest
import torch
from torch.testing import assert_close

import heed
from heed.errors import TrainingError
from heed.layers import Recurrent
from heed.runs.train import train_config
from heed.tasks import check_config, spec_of, task_names
from heed.tasks.work import Work
from heed.training.loop import Trainer
from heed.training.progress import Quiet
from small_runs import SMALL, TRAINING, assert_alike, set_field, usable

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]
PAIRS = [pytest.param(name, *pair, id=f"{name}-{pair[0]}") for name in task_names() for pair in usable(name)]
GIVEN = {
    "table": {"width": 0.1, "length": 0.2},
    "dialogue": ["one two", "three"],
    "series": {"sold": [0.1, 0.5, 0.2, 0.9], "made": [0.3, 0.1, 0.7, 0.4]},
}


def trained(name, model, body, data, out, device, **more):
    """A run on a device that has made its first update, or as many as asked for."""
    small = SMALL[name]
    settings_of_model = {
        key: value for key, value in small.settings.items() if model == small.model or key[:6] != "model."
    }
    settings = {**TRAINING, **settings_of_model, "data.train": str(data / small.train), "model.name": model}
    if model != small.model:
        settings["model.size"] = "tiny"
    for field in ("dropout", "attention_dropout", "token_dropout", "embedding_dropout"):
        if field in body.config_class.model_fields:
            settings[f"model.{field}"] = 0.0
    settings |= {"training.optimizer": "sgd", "training.learning_rate": 0.01, "training.warmup": 1}
    settings |= {"training.precision": "float32", "training.device": device, "training.steps": 1, **more}
    values = {"task": name}
    for key, value in settings.items():
        if value is not None:
            set_field(values, key, value)
    run, _ = train_config(check_config(values, "the test"), out, Quiet(), resume=out.exists())
    return run


@pytest.mark.parametrize(("name", "model", "body"), PAIRS)
def test_a_gpu_computes_what_a_cpu_computes(name, model, body, data, tmp_path):
    two = {"training.steps": 2}
    on_cpu = trained(name, model, body, data, tmp_path / "cpu", "cpu", **two)
    trained(name, model, body, data, tmp_path / "gpu", "cuda")
    resumed = trained(name, model, body, data, tmp_path / "gpu", "cuda", **two)
    weights = resumed.model.state_dict()
    for key, weight in on_cpu.model.state_dict().items():
        assert weights[key].device.type == "cuda", key
        assert_close(weights[key].cpu(), weight, rtol=1e-3, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}")
    losses = [losses_of(run) for run in (on_cpu, resumed)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    on_cpu_again, on_gpu = (heed.load(tmp_path / "gpu", device=device) for device in ("cpu", "cuda"))
    assert next(on_gpu.model.parameters()).device.type == "cuda"
    compare(name, data, on_cpu_again, on_gpu)


def losses_of(run):
    lines = map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["event"] == "update"]


def compare(name, data, on_cpu, on_gpu):
    """Scores, predictions (greedy and beam search) and looks of a run on both devices."""
    assert_alike(scores(on_gpu), scores(on_cpu), 1e-4)
    question = GIVEN.get(name, SMALL[name].predict[0])
    if name == "images":
        question = str(data / "photos/a/0.png")
    beams = [flag for flag in spec_of(name).flags if "predict" in flag.command.split() and flag.name == "beam"]
    for options in [{}, {"beam_size": 3}][: 1 + len(beams)]:
        if name == "language_modelling":
            options |= {"length": 3}
        answers = [run.predict(question, **options) for run in (on_gpu, on_cpu)]
        assert_alike(*([*one.flat] if name == "series" else one.as_json() for one in answers), 1e-4)
    if SMALL[name].look and "look" not in spec_of(name).why_not:
        steps = {} if name == "images" else {"steps": True}
        looks = [run.look(question, **steps) for run in (on_gpu, on_cpu)]
        assert_alike(*(without_ties(json.loads(one.json())) for one in looks), 1e-3)


def without_ties(look):
    """A look as JSON, without the names of outputs that change by less than is compared: rounding decides which."""
    if isinstance(look, list):
        return [without_ties(part) for part in look]
    if not isinstance(look, dict):
        return look
    unchanged = {"output", "before", "after"} <= look.keys() and abs(look["after"] - look["before"]) < 1e-3
    return {name: without_ties(part) for name, part in look.items() if not (unchanged and name == "output")}


def scores(run):
    return {key: value for key, value in run.evaluate("valid").items() if key not in ("seconds", "threads")}


@pytest.mark.parametrize(("name", "model"), [("translation", "transformer"), ("classification", "encoder")])
def test_a_gpu_validates_and_predicts_in_the_precision_of_training_and_looks_in_float32(name, model, data, tmp_path):
    body, folder = dict(usable(name))[model], tmp_path / "run"
    seen = set()

    def during(call):
        seen.clear()
        handle = torch.nn.modules.module.register_module_forward_pre_hook(
            lambda *_: seen.add((torch.is_grad_enabled(), torch.is_autocast_enabled("cuda")))
        )
        try:
            call()
        finally:
            handle.remove()
        return {*seen}

    more = {"training.precision": "bf16", "training.validate_every": 1}
    assert during(lambda: trained(name, model, body, data, folder, "cuda", **more)) >= {(True, True), (False, True)}
    given = SMALL[name].predict[0]
    for device, expected in (("cuda", {(False, True)}), ("cpu", {(False, False)})):
        run = heed.load(folder, device=device)
        assert run.precision == "bf16"
        assert during(lambda run=run: run.predict(given)) == during(lambda run=run: run.evaluate("valid")) == expected
        assert during(lambda run=run: run.look(given)) == {(False, False)}
    run = heed.load(folder, device="cuda")
    run.precision = "float32"
    assert during(lambda: run.predict(given)) == {(False, False)}


def test_a_batch_that_does_not_fit_on_a_gpu_is_computed_in_parts(data, tmp_path, monkeypatch):
    """As told by free memory, or found out by the first step."""
    body, found, loss = dict(usable("translation"))["transformer"], {}, Work.loss

    def too_large(self, model, batch, *given):
        if model.training and len(batch.indices) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss(self, model, batch, *given)

    for name in ("whole", "found out", "told"):
        with monkeypatch.context() as patch:
            if name == "found out":
                patch.setattr(Work, "loss", too_large)
            elif name == "told":
                patch.setattr(torch.cuda, "mem_get_info", lambda *_: (3 * 2**20, 80 * 2**30))
            found[name] = trained("translation", "transformer", body, data, tmp_path / name, "cuda")
    parts = {name: one.report["training"]["micro_batches"] for name, one in found.items()}
    assert parts["whole"] == 1 < parts["found out"] and parts["told"] > 1
    for one in (found["found out"], found["told"]):
        for key, weight in found["whole"].model.state_dict().items():
            assert_close(one.model.state_dict()[key], weight, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_recurrent_networks_are_not_computed_in_float16_under_autocast(cell):
    with torch.autocast("cuda", torch.bfloat16):
        hidden = Recurrent(16, 32, cell=cell).cuda()(torch.randn(8, 20, 16, device="cuda"))[0]
    assert hidden.dtype == torch.float32


def test_an_update_that_is_not_finite_is_skipped_on_the_gpu_and_named_an_update_later(data, tmp_path, monkeypatch):
    weights, backward, update = [], Trainer._backward, Trainer._update

    def poisoned(self, batches, count):
        sums = backward(self, batches, count)
        if self.progress.step == 2:
            next(self.model.parameters()).grad[0, 0] = torch.nan
        return sums

    def watched(self, *given):
        update(self, *given)
        weights.append([one.detach().cpu().clone() for one in self.model.parameters()])

    monkeypatch.setattr(Trainer, "_backward", poisoned)
    monkeypatch.setattr(Trainer, "_update", watched)
    body = dict(usable("translation"))["bahdanau"]
    settings = {"training.steps": 4, "training.optimizer": "adamw"}
    with pytest.raises(TrainingError, match="the gradient's norm is nan at update 3 "):
        trained("translation", "bahdanau", body, data, tmp_path / "run", "cuda", **settings)
    assert len(weights) == 3 and all(map(torch.equal, weights[1], weights[2]))
    assert not all(map(torch.equal, weights[0], weights[1]))
