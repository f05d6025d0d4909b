"""ResNets named as in torchvision give the numbers of torchvision's forward pass, written here in plain torch."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn.functional import adaptive_avg_pool2d, batch_norm, conv2d, linear, max_pool2d, relu

import heed
from checkpoints import refused
from heed.errors import ConfigError, RunError
from heed.runs.checkpoints import import_checkpoint

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


def shapes(depth, width=8, classes=5):
    """The names and shapes of a torchvision ResNet's state_dict, with `width` filters in the stem instead of 64."""
    bottleneck = depth >= 50
    names = {"conv1.weight": (width, 3, 7, 7)}
    norms = {"bn1": width}
    d_in = width
    for stage, count in enumerate(BLOCKS[depth]):
        d = width << stage
        d_out = 4 * d if bottleneck else d
        for block in range(count):
            at = f"layer{stage + 1}.{block}"
            kernels = [(d, d_in, 1), (d, d, 3), (d_out, d, 1)] if bottleneck else [(d, d_in, 3), (d, d, 3)]
            for n, (after, before, kernel) in enumerate(kernels, 1):
                names[f"{at}.conv{n}.weight"] = (after, before, kernel, kernel)
                norms[f"{at}.bn{n}"] = after
            if block == 0 and (stage or bottleneck):
                names[f"{at}.downsample.0.weight"] = (d_out, d_in, 1, 1)
                norms[f"{at}.downsample.1"] = d_out
            d_in = d_out
    for name, size in norms.items():
        names |= {f"{name}.{part}": (size,) for part in ("weight", "bias", "running_mean", "running_var")}
        names[f"{name}.num_batches_tracked"] = ()
    return names | {"fc.weight": (classes, d_in), "fc.bias": (classes,)}


def drawn(depth, seed=1, **more):
    """Random tensors that keep activations near 1."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in shapes(depth, **more).items():
        value = torch.randn(shape, generator=generator)
        if name.endswith("tracked"):
            value = torch.tensor(7)
        elif name.endswith("var"):
            value = 0.5 + value.abs()
        elif len(shape) > 1:
            value = value / (value[0].numel() ** 0.5)
        elif name.endswith("weight"):
            value = 1 + 0.2 * value
        state[name] = value
    return state


def reference(state, pixels):
    """torchvision's `ResNet.forward` (resnet.py, version 0.20) on its state_dict: (vector, logits)."""

    def norm(x, name):
        mean, var, weight, bias = (state[f"{name}.{p}"] for p in ("running_mean", "running_var", "weight", "bias"))
        return batch_norm(x, mean, var, weight, bias, training=False, eps=1e-5)

    def conv(x, name, stride=1):
        weight = state[f"{name}.weight"]
        return conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    x = max_pool2d(relu(norm(conv(pixels, "conv1", 2), "bn1")), kernel_size=3, stride=2, padding=1)
    for stage in range(1, 5):
        block = 0
        while (at := f"layer{stage}.{block}") + ".conv1.weight" in state:
            stride = 2 if stage > 1 and block == 0 else 1
            if f"{at}.conv3.weight" in state:
                out = relu(norm(conv(x, f"{at}.conv1"), f"{at}.bn1"))
                out = relu(norm(conv(out, f"{at}.conv2", stride), f"{at}.bn2"))
                out = norm(conv(out, f"{at}.conv3"), f"{at}.bn3")
            else:
                out = relu(norm(conv(x, f"{at}.conv1", stride), f"{at}.bn1"))
                out = norm(conv(out, f"{at}.conv2"), f"{at}.bn2")
            if f"{at}.downsample.0.weight" in state:
                x = norm(conv(x, f"{at}.downsample.0", stride), f"{at}.downsample.1")
            x, block = relu(out + x), block + 1
    vector = adaptive_avg_pool2d(x, 1).flatten(1)
    return vector, linear(vector, state["fc.weight"], state["fc.bias"]) if "fc.weight" in state else None


def timm(folder, state, **fields):
    """A folder as timm writes it."""
    folder.mkdir()
    save_file(state, folder / "model.safetensors")
    config = {"architecture": "resnet18", "num_classes": 5, "pretrained_cfg": fields}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("depth", BLOCKS)
def test_outputs_are_those_of_torchvision(tmp_path, depth):
    state = drawn(depth)
    path = tmp_path / f"resnet{depth}.safetensors"
    save_file(state, path)
    imported = import_checkpoint(path, tmp_path / "run")
    run = heed.load(tmp_path / "run")
    assert imported.unused == () and run.config.model.model_extra["depth"] == depth and len(run.task.labels) == 5
    pixels = torch.randn(2, 3, 64, 80, generator=torch.Generator().manual_seed(2))
    vector, logits = reference(state, pixels)
    with torch.no_grad():
        torch.testing.assert_close(run.model.body(pixels), vector, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(run.model(pixels), logits, rtol=1e-5, atol=1e-5)


def test_pictures_are_read_as_torchvision_reads_them(tmp_path):
    save_file(drawn(18), tmp_path / "resnet18.safetensors")
    run = heed.import_model(tmp_path / "resnet18.safetensors", tmp_path / "run", quiet=True)
    sizing, numbers = run.task.form.sizing, run.task.form.normalisation
    assert (sizing.shape, sizing.crop, sizing.shorter, sizing.resample) == ((224, 224, 3), "centre", 256, "bilinear")
    assert numbers.mean == (0.485, 0.456, 0.406) and numbers.deviation == (0.229, 0.224, 0.225)


def test_a_folder_of_timm_says_how_pictures_are_read(tmp_path, capsys):
    fields = {"input_size": [3, 96, 96], "interpolation": "bicubic", "crop_pct": 0.75, "mean": [0.5] * 3}
    run = heed.import_model(timm(tmp_path / "timm", drawn(18), **fields), tmp_path / "run")
    sizing = run.task.form.sizing
    assert (sizing.shape, sizing.shorter, sizing.resample) == ((96, 96, 3), 128, "bicubic")
    assert "all tensors were used" in (out := capsys.readouterr().out) and "default of ViT" not in out
    assert "mean 0.5 0.5 0.5, deviation 0.229 0.224 0.225" in out


def test_a_file_of_torch_is_read_without_executing_it(tmp_path):
    state = drawn(18)
    torch.save(state, tmp_path / "resnet18.pth")
    run = heed.import_model(tmp_path / "resnet18.pth", tmp_path / "run", quiet=True)
    torch.testing.assert_close(run.model.state_dict()["output.weight"], state["fc.weight"], rtol=0, atol=0)
    torch.save({"model": torch.nn.Linear(1, 1)}, tmp_path / "evil.pth")
    with pytest.raises(RunError, match=r"nothing (in it )?was executed"):
        heed.import_model(tmp_path / "evil.pth", tmp_path / "evil", quiet=True)


def test_own_pictures_start_from_it_with_and_without_classes(tmp_path):
    for label, value in (("dark", 40), ("light", 200)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for n in range(8):
            pixels = np.full((40, 50, 3), value + n, dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{n}.png")
    body = {name: one for name, one in drawn(18).items() if not name.startswith("fc.")}
    for name, state in (("whole", drawn(18)), ("body", body)):
        save_file(state, tmp_path / f"{name}.safetensors")
        heed.import_model(tmp_path / f"{name}.safetensors", tmp_path / name, quiet=True)
        settings = {"data.size": 64, "training.threads": 1, "evaluation.bootstrap": 5}
        run = heed.train(
            "images", train=tmp_path / "photos", valid=4, steps=2, parent=tmp_path / name, out=tmp_path / f"{name}-2",
            settings=settings, quiet=True,
        )  # fmt: skip
        assert len(run.report["parent"]["whole"]) >= 100 and run.report["parent"]["new"] == [
            "output.weight",
            "output.bias",
        ]
        assert run.predict(tmp_path / "photos" / "dark" / "0.png").label in ("dark", "light")


def test_other_networks_are_refused_by_name(tmp_path):
    state = drawn(18)
    save_file({**state, "layer1.0.se.fc1.weight": torch.zeros(2, 8, 1, 1)}, tmp_path / "se.safetensors")
    refused(ConfigError, tmp_path / "se.safetensors", "tensor 'layer1.0.se.fc1.weight' is in no ResNet")
    fewer = {name: one for name, one in state.items() if not name.startswith("layer4.1")}
    save_file(fewer, tmp_path / "short.safetensors")
    refused(ConfigError, tmp_path / "short.safetensors", "stages of (2, 2, 2, 1) blocks", "18, 34, 50")
    lacking = {name: one for name, one in state.items() if name != "layer2.0.bn1.running_var"}
    save_file(lacking, tmp_path / "less.safetensors")
    refused(RunError, tmp_path / "less.safetensors", "lacks tensor 'layer2.0.bn1.running_var'")
    wide = {**state, "layer1.0.conv1.weight": torch.zeros(16, 8, 3, 3)}
    save_file(wide, tmp_path / "wide.safetensors")
    refused(RunError, tmp_path / "wide.safetensors", "(16, 8, 3, 3)", "(8, 8, 3, 3)")
    refused(ConfigError, timm(tmp_path / "odd", state, input_size="224"), 'input_size is "224"')
    refused(ConfigError, timm(tmp_path / "other", state, interpolation="random"), "interpolation is 'random'")
    run = heed.import_model(timm(tmp_path / "good", state), tmp_path / "good-run", quiet=True)
    with pytest.raises(ConfigError, match="model 'resnet' cannot be exported to huggingface: heed only reads"):
        heed.export(run, "huggingface")
