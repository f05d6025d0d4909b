"""ViT: checkpoints of `vit`, and of `deit` with a distillation token.

| here | in the checkpoint | |
|---|---|---|
| class_vector | embeddings.cls_token | a vector; theirs has two axes of length 1 before it |
| positions.table.weight | embeddings.position_embeddings | one row for the class token, then the patches row by row |
| embedding | embeddings.patch_embeddings.projection | theirs is a convolution whose stride is its width |
| blocks.0.attention.w_query | encoder.layer.0.attention.attention.query | the names in files; see `_PARTS` |
| around_attention.norm, around_feed_forward.norm | layernorm_before, layernorm_after | |
| norm | layernorm | after the last block |
| - | pooler.dense | a layer with tanh that classifiers do not have: left out |

A DeiT has `embeddings.distillation_token` (distillation_vector) and two heads, whose logits are averaged: here one
layer over both tokens' states side by side, `[W_class W_distillation] / 2`. Exports have its bias in both heads, of
which the checkpoint's were two.

Without `qkv_bias` the projections of query, key and value have biases of zero here, and are written with biases.

`preprocessor_config.json` says how a checkpoint wants pictures, here a `PictureForm`:

| there | here |
|---|---|
| `size: {height, width}`, or one number | `Sizing`, crop `squash`: scaled to that size, proportions lost |
| `size: {shortest_edge}` and `crop_size` | crop `centre`, `shorter`: the shorter side scaled, the middle cut out |
| `size: {height, width}` and a smaller `crop_size` | crop `squash`, `shorter`: scaled, the middle cut out |
| `resample` | Pillow's number of the filter |
| `image_mean`, `image_std` | `Normalisation`, of pixels from 0 to 1 |
| `rescale_factor` | in the normalisation, where it is not 1/255 |

Pictures are read as grey or as red, green and blue, as the model wants them, whatever `do_convert_rgb` says, and turned
as their EXIF data says, which `transformers` leaves to the caller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from heed.data.pictures.sizing import Crop, Normalisation, PictureForm, Resample, Sizing
from heed.errors import ConfigError
from heed.exchange.huggingface.family import Family, HeadNames, Line, Vocabularies, Wanted
from heed.exchange.huggingface.files import (
    SAME,
    Entry,
    Settings,
    TensorFiles,
    Transform,
    entry,
    flattened,
    leading,
    optional_json,
    zeros,
)
from heed.models.vit import VitConfig

_PARTS = {
    "attention.w_query": ("attention.attention.query", "attention.q_proj"),
    "attention.w_key": ("attention.attention.key", "attention.k_proj"),
    "attention.w_value": ("attention.attention.value", "attention.v_proj"),
    "attention.w_out": ("attention.output.dense", "attention.o_proj"),
    "around_attention.norm": ("layernorm_before", "layernorm_before"),
    "around_feed_forward.norm": ("layernorm_after", "layernorm_after"),
    "feed_forward.inner": ("intermediate.dense", "mlp.fc1"),
    "feed_forward.outer": ("output.dense", "mlp.fc2"),
}
"""Our layers of a block; name in files; name in memory since `transformers` 5, which files may also have."""


def _layers(prefix: str) -> dict[str, Line]:
    return {
        "body.embedding": f"{prefix}embeddings.patch_embeddings.projection",
        **{
            f"body.blocks.*.{ours}": (f"{prefix}encoder.layer.*.{in_files}", SAME, f"{prefix}layers.*.{in_memory}")
            for ours, (in_files, in_memory) in _PARTS.items()
        },
        "body.norm": f"{prefix}layernorm",
    }


class Vit(Family):
    """ViT."""

    model_type = "vit"
    model = "vit"
    prefix = "vit."
    names: ClassVar = {
        "d_model": ("hidden_size", 768),
        "num_heads": ("num_attention_heads", 12),
        "num_layers": ("num_hidden_layers", 12),
        "d_ff": ("intermediate_size", 3072),
        "norm_eps": ("layer_norm_eps", 1e-12),
        "dropout": ("hidden_dropout_prob", 0.0),
        "attention_dropout": ("attention_probs_dropout_prob", 0.0),
    }
    architectures: ClassVar = {
        frozenset({"labels"}): "ViTForImageClassification",
        frozenset(): "ViTModel",
    }
    layers: ClassVar = {**_layers("vit."), "labels": "classifier"}
    constants: ClassVar = {"hidden_act": "gelu", "qkv_bias": True, "initializer_range": 0.02}
    accepts: ClassVar = {"hidden_act": "gelu"}
    expresses: ClassVar = {
        "pooling": ("class", "it classifies the state of a class token"),
        "positions": ("learned", "its positions are a learned table"),
        "stem": ("none", "it has one linear layer over patches"),
    }
    known_by: ClassVar = {"classifier.weight": "labels"}
    head_names: tuple[str, ...] = ("classifier.",)

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        body, embeddings = wanted.body, f"{self.prefix}embeddings"
        assert isinstance(body, VitConfig)
        filters = flattened((body.num_channels, body.patch_size, body.patch_size))
        absent = () if wanted.settings.flag("qkv_bias", True) else ("query", "key", "value")
        return [
            entry(f"{embeddings}.cls_token", "body.class_vector", leading(2)),
            entry(f"{embeddings}.position_embeddings", "body.positions.table.weight", leading(1)),
            entry(f"{embeddings}.patch_embeddings.projection.weight", "body.embedding.weight", filters),
            *(entry("", f"body.blocks.*.attention.w_{name}.bias", zeros((body.d_model,))) for name in absent),
        ]

    def derived(self, settings: Settings, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        side = settings.get("patch_size", 16)
        side = side[0] if isinstance(side, list) and len(side) == 2 and side[0] == side[1] else side
        if not _is_length(side):
            raise settings.wrong("patch_size", f"a whole number from 1 to {_WIDEST:,} (heed's patches are square)")
        return {"patch_size": side, "stride": None}

    def written(self, body: VitConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        return {
            "image_size": body.height if body.height == body.width else [body.height, body.width],
            "patch_size": body.patch_size,
            "num_channels": body.num_channels,
        }

    def refuse(self, body: VitConfig, heads: HeadNames) -> None:
        if body.stride not in (None, body.patch_size):
            raise self.lacks("stride", body.stride, "its patches do not overlap")

    def tokenizers(self, folder: Path, settings: Settings) -> Vocabularies:
        return {}


_SIDE_BY_SIDE = Transform(
    lambda theirs: [torch.cat([*theirs], dim=1) / 2],
    lambda ours: [(part * 2).contiguous() for part in ours[0].chunk(2, dim=1)],
)
_MEAN = Transform(lambda theirs: [(theirs[0] + theirs[1]) / 2], lambda ours: [ours[0], ours[0].clone()])


class Deit(Vit):
    """With a distillation token and the average of two heads. Touvron et al. 2021, arXiv:2012.12877."""

    model_type = "deit"
    prefix = "deit."
    architectures: ClassVar = {
        frozenset({"labels"}): "DeiTForImageClassificationWithTeacher",
        frozenset(): "DeiTModel",
    }
    layers: ClassVar = _layers("deit.")
    expresses: ClassVar = {
        **Vit.expresses,
        "pooling": ("distilled", "it classifies the states of a class and a distillation token"),
    }
    known_by: ClassVar = {"cls_classifier.weight": "labels"}
    head_names = ("cls_classifier.", "distillation_classifier.")

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        weights, biases = (" ".join(f"{head}{part}" for head in self.head_names) for part in ("weight", "bias"))
        return [
            entry("deit.embeddings.distillation_token", "body.distillation_vector", leading(2)),
            *super().further(wanted),
            entry(weights, "labels.weight", _SIDE_BY_SIDE),
            entry(biases, "labels.bias", _MEAN),
        ]

    def derived(self, settings: Settings, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        if "classifier.weight" in files:
            raise ConfigError(
                f"{settings.path}: DeiTForImageClassification has one head and a distillation token that it does not "
                "read, which heed does not support; import the checkpoint with both heads "
                "(DeiTForImageClassificationWithTeacher), or one without a distillation token (model_type vit)"
            )
        return super().derived(settings, files, heads)


PREPROCESSOR = "preprocessor_config.json"
_FILTERS: Mapping[int, Resample] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_NUMBERS = {name: number for number, name in _FILTERS.items()}
_ACCEPTED = {"do_pad": False, "crop_pct": None, "do_flip_channel_order": False}
_BRIGHTEST, _WIDEST = 1_000, 10_000
"""Largest mean or deviation of pixels, and most pixels of a side, that make sense."""
_STANDARD = 0.5
"""Mean and deviation of `ViTImageProcessor`, where the file does not say."""


def read_form(folder: Path, config: Settings) -> PictureForm:
    """How a checkpoint wants pictures; where it does not say, as `ViTImageProcessor` has them by default.

    Args:
        folder: The checkpoint.
        config: Its `config.json`: channels and size of a picture.

    Raises:
        RunError: The file is damaged.
        ConfigError: heed lacks what a field asks for, or it contradicts `config.json`; the message names it.
    """
    path = folder / PREPROCESSOR
    settings = Settings(path, optional_json(path) or {})
    settings.accept(_ACCEPTED)
    channels = config.count("num_channels", 3)
    if channels not in (1, 3):
        raise config.wrong("num_channels", "1 (grey) or 3 (red, green and blue)")
    size = config.get("image_size", 224)
    sides = size if isinstance(size, list) else [size, size]
    if len(sides) != 2 or not all(map(_is_length, sides)):
        raise config.wrong("image_size", "a number of pixels, or height and width")
    return PictureForm(_sizing(settings, sides[0], sides[1], channels), _normalisation(settings, channels))


def preprocessor_of(form: PictureForm) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of `preprocessor_config.json` for a run, and what it cannot say."""
    sizing, normalisation = form.sizing, form.normalisation
    height, width, channels = sizing.shape
    fields: dict[str, Any] = {
        "image_processor_type": "ViTImageProcessor",
        "do_convert_rgb": channels == 3,
        "do_resize": True,
        "size": {"height": height, "width": width},
        "resample": _NUMBERS[sizing.resample],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(normalisation.mean),
        "image_std": list(normalisation.deviation),
    }
    notes = []
    cut = {"do_center_crop": True, "crop_size": {"height": height, "width": width}}
    if sizing.crop == "squash" and sizing.shorter is not None:
        scaled = {"height": sizing.shorter, "width": sizing.shorter}
        fields |= {**cut, "image_processor_type": "DeiTImageProcessor", "size": scaled}
    elif sizing.crop == "centre" and (sizing.shorter is not None or height == width):
        scaled = {"shortest_edge": sizing.shorter or height}
        fields |= {**cut, "image_processor_type": "CLIPImageProcessor", "size": scaled}
        if sizing.shorter is None:
            notes.append("transformers crops pictures that are not square up to one pixel differently")
    elif sizing.crop != "squash":
        notes.append(
            f"data.crop={sizing.crop} cannot be exported for pictures of {height} x {width} pixels: {PREPROCESSOR} "
            "squashes pictures of other proportions instead (crop=squash)"
        )
    if sizing.levels is not None:
        notes.append(
            f"{PREPROCESSOR} does not scale {sizing.levels[0]:g} to {sizing.levels[1]:g} to 8 bits: do it before"
        )
    if channels == 1:
        notes.append(f'{PREPROCESSOR} does not turn colours into grey: hand it grey pictures (image.convert("L"))')
    return fields, tuple(notes)


def _sizing(settings: Settings, height: int, width: int, channels: int) -> Sizing:
    number = settings.get("resample", 2)
    if not isinstance(number, int) or number not in _FILTERS:
        known = ", ".join(f"{number} ({name})" for number, name in _FILTERS.items())
        raise settings.wrong("resample", f"one of Pillow's filters {known}")
    resizes, cuts = settings.flag("do_resize", True), settings.flag("do_center_crop", False)
    field, shorter = "crop_size" if cuts else "size", None
    crop: Crop = "squash"
    # Without either, pictures must have the model's size.
    if (resizes or cuts) and _sides(settings, field, height, width) != (height, width):
        wanted = json.dumps({"height": height, "width": width})
        raise settings.wrong(field, f"{wanted}, which is image_size in config.json")
    if cuts and not resizes:
        raise settings.wrong("do_resize", "true, with do_center_crop")
    if cuts and (shorter := _shortest(settings)) is not None:
        crop = "centre"
        if shorter < max(height, width):
            raise settings.wrong("size", f"at least the {max(height, width)} pixels of crop_size")
    elif cuts and (scaled := _sides(settings, "size", height, width)) != (height, width):
        shorter = scaled[0]
        if shorter != scaled[1] or shorter < max(height, width):
            raise settings.wrong(
                "size", f"equal height and width, at least the {max(height, width)} pixels of crop_size"
            )
    return Sizing(height, width, channels, crop, _FILTERS[number], shorter)


def _shortest(settings: Settings) -> int | None:
    """Pixels of the shorter side after scaling; None where both sides are given."""
    value = settings.get("size", None)
    if isinstance(value, dict) and set(value) == {"shortest_edge"} and _is_length(value["shortest_edge"]):
        return int(value["shortest_edge"])
    kind = str(settings.get("image_processor_type", settings.get("feature_extractor_type", "")))
    # One number means both sides for ViT and DeiT, and the shorter one for CLIP.
    return value if _is_length(value) and kind.startswith("CLIP") else None


def _sides(settings: Settings, name: str, height: int, width: int) -> tuple[int, int]:
    """Height and width of a field; those of the model where it is missing."""
    value = settings.get(name, {"height": height, "width": width})
    sides = value if isinstance(value, dict) else {"height": value, "width": value}
    if set(sides) != {"height", "width"} or not all(map(_is_length, sides.values())):
        raise settings.wrong(name, f'{{"height": {height}, "width": {width}}}')
    return sides["height"], sides["width"]


def _normalisation(settings: Settings, channels: int) -> Normalisation:
    """From pixels of 0 to 1: theirs are pixels times `rescale_factor`."""
    factor = settings.number("rescale_factor", 1 / 255) if settings.flag("do_rescale", True) else 1.0
    if not factor:
        raise settings.wrong("rescale_factor", "a number above 0, as 0.00392156862745098 (1/255)")
    if settings.flag("do_normalize", True):
        mean, deviation = (_per_channel(settings, name, channels) for name in ("image_mean", "image_std"))
    else:
        mean, deviation = (0.0,) * channels, (1.0,) * channels
    unit = 1.0 if abs(255 * factor - 1) < 1e-6 else 255 * factor  # 1/255 is written with few digits in some files
    return Normalisation(tuple(value / unit for value in mean), tuple(value / unit for value in deviation))


def _per_channel(settings: Settings, name: str, channels: int) -> tuple[float, ...]:
    value, least = settings.get(name, _STANDARD), 1e-6 if name == "image_std" else 0
    values = value if isinstance(value, list) else [value] * channels
    good = all(type(number) in (int, float) and least <= number <= _BRIGHTEST for number in values)
    if not good or len(values) != channels:
        many = "1 number" if channels == 1 else f"{channels} numbers"
        bounds = f"each from {least:g} to {_BRIGHTEST}"
        raise settings.wrong(name, f"{many}, as num_channels in config.json is {channels}, {bounds}")
    return tuple(map(float, values))


def _is_length(value: Any) -> bool:
    return type(value) is int and 0 < value <= _WIDEST
