"""ResNets as torchvision and timm name their tensors, in a folder of timm or in one file without settings.

`conv1` and `bn1` are our `stem`, `layerN.B.convU` is unit U - 1 of block B of stage N - 1, `downsample` the shortcut,
`fc` the task's output layer. Depth and widths follow from the tensors. `transformers` names them differently, which is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from heed.errors import ConfigError
from heed.exchange.huggingface.family import Family, Vocabularies, Wanted
from heed.exchange.huggingface.files import CONFIG, Entry, Settings, TensorFiles, entry, layer, read_json, zeros
from heed.models.base import ModelConfig
from heed.models.resnet import IMAGENET, ResNetConfig

_NAMES = re.compile(
    r"(conv1|bn1|fc|layer[1-4]\.\d+\.(conv[1-3]|bn[1-3]|downsample\.[01]))\.(weight|bias|running_(mean|var))"
)
PLAIN = (".safetensors", ".pth", ".pt")
_FILTERS = {"bilinear": 2, "bicubic": 3, "lanczos": 1}
_MEAN, _DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
"""Of ImageNet's pictures."""


def plain_settings(path: Path) -> Settings | None:
    """The fields that `transformers` would have for a file of tensors or a folder of timm; None for other folders.

    `image_processor` is as in `preprocessor_config.json`; where timm does not say, torchvision's.
    """
    values = {} if path.is_file() else read_json(path / CONFIG)
    if "model_type" in values or not (path.is_file() or str(values.get("architecture")).startswith("resnet")):
        return None
    own, files = values.get("pretrained_cfg"), TensorFiles(path)
    timm = Settings(path if path.is_file() else path / CONFIG, own if isinstance(own, dict) else {})
    shape = timm.get("input_size", [3, 224, 224])
    if not isinstance(shape, list) or len(shape) != 3 or not all(type(one) is int and one > 0 for one in shape):
        raise timm.wrong("input_size", "channels, height and width, as [3, 224, 224]")
    if not (share := timm.number("crop_pct", 0.875)) >= 0.1:
        raise timm.wrong("crop_pct", "a number from 0.1 to 1")
    processor = {
        "size": {"shortest_edge": int(shape[2] / share)},
        "do_center_crop": True,
        "crop_size": {"height": shape[2], "width": shape[2]},
        "resample": timm.one_of("interpolation", _FILTERS, "bilinear"),
        "image_mean": timm.get("mean", _MEAN),
        "image_std": timm.get("std", _DEVIATION),
    }
    labels = {"num_labels": files.shape("fc.weight")[0]} if "fc.weight" in files else {}
    fields = {"model_type": "resnet", "image_size": shape[2], "image_processor": processor, **labels}
    return Settings(timm.path, fields)


class ResNetFamily(Family):
    """ResNet-18, 34, 50, 101 and 152; they are read, not written."""

    model_type = "resnet"
    model = "resnet"
    names: ClassVar = {}
    prefix = ""
    architectures: ClassVar = {frozenset({"labels"}): "ResNetForImageClassification", frozenset(): "ResNetModel"}
    ignored = (r"num_batches_tracked$",)

    def guess(self, files: TensorFiles) -> str:
        return self.architectures[frozenset({"labels"} if "fc.weight" in files else ())]

    def tokenizers(self, folder: Path, settings: Settings) -> Vocabularies:
        return {}

    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        if odd := next((name for name in files.names if not _NAMES.fullmatch(name)), None):
            hint = "give other models as folders"
            raise ConfigError(f"{settings.path}: tensor '{odd}' is in no ResNet of torchvision or timm; {hint}")
        blocks = tuple(len({n.split(".")[1] for n in files.names if n.startswith(f"layer{i}.")}) for i in range(1, 5))
        layers = (3 if "layer1.0.conv3.weight" in files else 2) * sum(blocks) + 2
        if IMAGENET.get(layers) != blocks or "conv1.weight" not in files:
            raise ConfigError(
                f"{settings.path}: stages of {blocks} blocks are of no ResNet that heed has: {[*IMAGENET]}"
            )
        width = files.shape("conv1.weight")[0]
        return {"form": "imagenet", "depth": layers, "num_filters": width, "stem": "large", "shortcut": "projection"}

    def table(self, wanted: Wanted) -> Sequence[Entry]:
        body = wanted.body
        assert isinstance(body, ResNetConfig)
        table = _unit("conv1", "bn1", "body.stem")
        for i, count in enumerate(body.blocks):
            for b in range(count):
                theirs, ours = f"layer{i + 1}.{b}", f"body.stages.{i}.{b}"
                for u in range(3 if body.bottleneck else 2):
                    table += _unit(f"{theirs}.conv{u + 1}", f"{theirs}.bn{u + 1}", f"{ours}.units.{u}")
            if i or body.bottleneck:
                theirs = f"layer{i + 1}.0.downsample"
                table += _unit(f"{theirs}.0", f"{theirs}.1", f"body.stages.{i}.0.shortcut")
        return [*table, *(layer("fc", "labels") if "labels" in wanted.heads else [])]

    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        raise ConfigError("model 'resnet' cannot be exported to huggingface: heed only reads its checkpoints")


def _unit(convolution: str, norm: str, ours: str) -> list[Entry]:
    """A convolution without bias and its batch normalisation; the count of batches plays no part."""
    parts = [entry(f"{norm}.{part}", f"{ours}.norm.{part}") for part in ("running_mean", "running_var")]
    count = entry((), f"{ours}.norm.num_batches_tracked", zeros(()))
    return [entry(f"{convolution}.weight", f"{ours}.convolution.weight"), *layer(norm, f"{ours}.norm"), *parts, count]
