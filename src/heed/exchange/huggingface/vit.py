"""ViT: checkpoints of `vit`, and of `deit` with a distillation token.

| ours | in the checkpoint | |
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

`preprocessor_config.json` describes the preprocessing of pictures, our `PictureForm`:

| theirs | ours |
|---|---|
| `size: {height, width}`, or one number | `Sizing`, crop `squash`: scaled to that size, proportions lost |
| `size: {shortest_edge}` and `crop_size` | crop `centre`, `shorter`: the shorter side scaled, the middle cut out |
| `size: {height, width}` and a smaller `crop_size` | crop `squash`, `shorter`: scaled, the middle cut out |
| `resample` | Pillow's number of the filter |
| `image_mean`, `image_std` | `Normalisation`, of pixels from 0 to 1 |
| `rescale_factor` | in the normalisation, where it is not 1/255 |

Pictures are read as grey or RGB according to the model's channels, whatever `do_convert_rgb` is, and rotated according
to their EXIF data, which `transformers` leaves to the caller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import AliasChoices, BeforeValidator, Field, ValidationInfo, field_validator

from heed.data.pictures.sizing import Crop, Normalisation, PictureForm, Resample, Sizing
from heed.exchange.huggingface.family import Family, HeadNames, Layout, Line, Vocabularies
from heed.exchange.huggingface.files import (
    SAME,
    Count,
    Depth,
    Entry,
    Fields,
    Share,
    TensorFiles,
    Transform,
    entry,
    flattened,
    leading,
    optional_json,
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


Side = Annotated[int, Field(ge=1, le=10_000)]
"""Pixels of a side."""


def _height_and_width(value: Any) -> Any:
    return [value, value] if type(value) is int else value


_LAYERS: dict[str, Line] = {
    "body.embedding": "embeddings.patch_embeddings.projection",
    **{
        f"body.blocks.*.{ours}": (f"encoder.layer.*.{in_files}", SAME, f"layers.*.{in_memory}")
        for ours, (in_files, in_memory) in _PARTS.items()
    },
    "body.norm": "layernorm",
}


class Vit(Family):
    """ViT."""

    model_type: ClassVar = "vit"
    model: ClassVar = "vit"
    config_class: ClassVar = VitConfig
    prefix: ClassVar = "vit."
    architectures: ClassVar = {frozenset({"labels"}): "ViTForImageClassification", frozenset(): "ViTModel"}
    layers: ClassVar = {**_LAYERS, "labels": "classifier"}
    expresses: ClassVar = {
        "pooling": ("class", "it classifies the state of a class token"),
        "positions": ("learned", "its positions are a learned table"),
        "stem": ("none", "it has one linear layer over patches"),
    }
    head_names: ClassVar[tuple[str, ...]] = ("classifier.",)

    d_model: Count = Field(768, alias="hidden_size")
    num_heads: Count = Field(12, alias="num_attention_heads")
    num_layers: Depth = Field(12, alias="num_hidden_layers")
    d_ff: Count = Field(3072, alias="intermediate_size")
    norm_eps: Share = Field(1e-12, alias="layer_norm_eps")
    dropout: Share = Field(0.0, alias="hidden_dropout_prob")
    attention_dropout: Share = Field(0.0, alias="attention_probs_dropout_prob")
    patch_size: Side = 16
    num_channels: Literal[1, 3] = 3
    image_size: Annotated[list[Side], Field(min_length=2, max_length=2), BeforeValidator(_height_and_width)] = Field(
        [224, 224]
    )
    qkv_bias: Literal[True] = True
    hidden_act: Literal["gelu"] = "gelu"

    @field_validator("patch_size", mode="before")
    @classmethod
    def _square(cls, value: Any) -> Any:
        return value[0] if isinstance(value, list) and len(value) == 2 and value[0] == value[1] else value

    def further(self, layout: Layout) -> Sequence[Entry]:
        body, embeddings = layout.body, f"{self.prefix}embeddings"
        filters = flattened((body.num_channels, body.patch_size, body.patch_size))
        return [
            entry(f"{embeddings}.cls_token", "body.class_vector", leading(2)),
            entry(f"{embeddings}.position_embeddings", "body.positions.table.weight", leading(1)),
            entry(f"{embeddings}.patch_embeddings.projection.weight", "body.embedding.weight", filters),
        ]

    def derived(self, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        return {"stride": None}

    @classmethod
    def written(cls, body: VitConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        return {"image_size": body.height if body.height == body.width else [body.height, body.width]}

    @classmethod
    def refuse(cls, body: VitConfig, heads: HeadNames) -> None:
        if body.stride not in (None, body.patch_size):
            raise cls.lacks("stride", body.stride, "its patches do not overlap")

    def tokenizers(self, folder: Path) -> Vocabularies:
        return {}


_SIDE_BY_SIDE = Transform(
    lambda theirs: [torch.cat([*theirs], dim=1) / 2],
    lambda ours: [(part * 2).contiguous() for part in ours[0].chunk(2, dim=1)],
)
_MEAN = Transform(lambda theirs: [(theirs[0] + theirs[1]) / 2], lambda ours: [ours[0], ours[0].clone()])


class Deit(Vit):
    """With a distillation token and the average of two heads. Touvron et al. 2021, arXiv:2012.12877."""

    model_type: ClassVar = "deit"
    prefix: ClassVar = "deit."
    architectures: ClassVar = {
        frozenset({"labels"}): "DeiTForImageClassificationWithTeacher",
        frozenset(): "DeiTModel",
    }
    refused: ClassVar = {
        "DeiTForImageClassification": "DeiTForImageClassificationWithTeacher: with one head and a distillation token "
        "that it does not read, a checkpoint is not supported; import one with both heads, or one of model_type vit"
    }
    layers: ClassVar = _LAYERS
    expresses: ClassVar = {
        **Vit.expresses,
        "pooling": ("distilled", "it classifies the states of a class and a distillation token"),
    }
    head_names: ClassVar = ("cls_classifier.", "distillation_classifier.")

    def further(self, layout: Layout) -> Sequence[Entry]:
        weights, biases = (" ".join(f"{head}{part}" for head in self.head_names) for part in ("weight", "bias"))
        return [
            entry("deit.embeddings.distillation_token", "body.distillation_vector", leading(2)),
            *super().further(layout),
            entry(weights, "labels.weight", _SIDE_BY_SIDE),
            entry(biases, "labels.bias", _MEAN),
        ]


PREPROCESSOR = "preprocessor_config.json"
_FILTERS: Mapping[int, Resample] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_NUMBERS = {name: number for number, name in _FILTERS.items()}
_Pixel = Annotated[float, Field(ge=0, le=1_000)]


class Preprocessor(Fields):
    """The fields of `preprocessor_config.json`, by default as `ViTImageProcessor` has them."""

    kind: str = Field("", validation_alias=AliasChoices("image_processor_type", "feature_extractor_type"))
    do_resize: bool = True
    size: dict[Literal["height", "width", "shortest_edge"], Side] | None = None
    resample: Literal[0, 1, 2, 3] = 2
    do_center_crop: bool = False
    crop_size: dict[Literal["height", "width"], Side] | None = None
    do_rescale: bool = True
    rescale_factor: float = Field(1 / 255, gt=0, le=1)
    do_normalize: bool = True
    image_mean: list[_Pixel] = Field(0.5, validate_default=True)
    image_std: list[Annotated[_Pixel, Field(ge=1e-6)]] = Field(0.5, validate_default=True)
    do_pad: Literal[False] = False
    crop_pct: None = None
    do_flip_channel_order: Literal[False] = False

    @field_validator("size", "crop_size", mode="before")
    @classmethod
    def _named_sides(cls, value: Any, info: ValidationInfo) -> Any:
        # One number means both sides for ViT and DeiT, and the shorter one for CLIP.
        if type(value) is not int:
            return value
        is_shorter = info.field_name == "size" and info.data["kind"].startswith("CLIP")
        return {"shortest_edge": value} if is_shorter else {"height": value, "width": value}

    @field_validator("image_mean", "image_std", mode="before")
    @classmethod
    def _of_each_channel(cls, value: Any, info: ValidationInfo) -> Any:
        channels = info.context["channels"]  # type: ignore[index]
        if isinstance(value, list) and len(value) != channels:
            raise ValueError(f"input should be {channels} numbers, as num_channels in config.json is {channels}")
        return value if isinstance(value, list) else [value] * channels

    def sizing(self, height: int, width: int, channels: int) -> Sizing:
        """How pictures get the model's size.

        Raises:
            ConfigError: The fields contradict each other, or that size.
        """
        model_size = {"height": height, "width": width}
        size, crop_size = self.size or model_size, self.crop_size or model_size
        if self.do_center_crop and not self.do_resize:
            raise self.wrong("do_resize", "true, with do_center_crop")
        # Without either, pictures must have the model's size.
        if self.do_resize and (crop_size if self.do_center_crop else size) != model_size:
            field = "crop_size" if self.do_center_crop else "size"
            raise self.wrong(field, f"{json.dumps(model_size)}, which is image_size in config.json")
        crop: Crop = "centre" if self.do_center_crop and "shortest_edge" in size else "squash"
        shorter = None
        if self.do_center_crop and size != model_size:
            shorter, longest_side = min(size.values()), max(height, width)
            if max(size.values()) != shorter or shorter < longest_side:
                raise self.wrong("size", f"equal height and width, at least the {longest_side} pixels of crop_size")
        return Sizing(height, width, channels, crop, _FILTERS[self.resample], shorter)

    def normalisation(self) -> Normalisation:
        """From pixels of 0 to 1: theirs are pixels times `rescale_factor`."""
        factor = 255 * self.rescale_factor if self.do_rescale else 255.0
        unit = 1.0 if abs(factor - 1) < 1e-6 else factor  # 1/255 is written with few digits in some files
        mean, deviation = self.image_mean, self.image_std
        if not self.do_normalize:
            mean, deviation = [0.0] * len(mean), [1.0] * len(mean)
        return Normalisation(tuple(value / unit for value in mean), tuple(value / unit for value in deviation))


def read_form(folder: Path, config: Any) -> PictureForm:
    """The preprocessing of a checkpoint's pictures; missing fields have the defaults of `ViTImageProcessor`.

    Args:
        folder: The checkpoint.
        config: Its `Vit` or `Deit`: channels and size of a picture.

    Raises:
        RunError: The file is damaged.
        ConfigError: heed lacks what a field asks for, or it contradicts `config.json`; the message names it.
    """
    path, (height, width) = folder / PREPROCESSOR, config.image_size
    fields = Preprocessor.read(path, optional_json(path) or {}, channels=config.num_channels)
    return PictureForm(fields.sizing(height, width, config.num_channels), fields.normalisation())


def preprocessor_of(form: PictureForm) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of `preprocessor_config.json` for a run, and what it cannot say."""
    sizing, normalisation = form.sizing, form.normalisation
    height, width, channels = sizing.shape
    shape, notes = {"height": height, "width": width}, []
    kind, size = "ViTImageProcessor", shape
    if sizing.crop == "squash" and sizing.shorter is not None:
        kind, size = "DeiTImageProcessor", {"height": sizing.shorter, "width": sizing.shorter}
    elif sizing.crop == "centre" and (sizing.shorter is not None or height == width):
        kind, size = "CLIPImageProcessor", {"shortest_edge": sizing.shorter or height}
        if sizing.shorter is None:
            notes.append("transformers crops pictures that are not square up to one pixel differently")
    elif sizing.crop != "squash":
        notes.append(
            f"data.crop={sizing.crop} cannot be exported for pictures of {height} x {width} pixels: {PREPROCESSOR} "
            "squashes pictures of other proportions instead (crop=squash)"
        )
    fields: dict[str, Any] = {
        "image_processor_type": kind,
        "do_convert_rgb": channels == 3,
        "do_resize": True,
        "size": size,
        "resample": _NUMBERS[sizing.resample],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(normalisation.mean),
        "image_std": list(normalisation.deviation),
        **({} if size == shape and kind.startswith("ViT") else {"do_center_crop": True, "crop_size": shape}),
    }
    if sizing.levels is not None:
        notes.append(
            f"{PREPROCESSOR} does not scale {sizing.levels[0]:g} to {sizing.levels[1]:g} to 8 bits: do it before"
        )
    if channels == 1:
        notes.append(f'{PREPROCESSOR} does not turn colours into grey: hand it grey pictures (image.convert("L"))')
    return fields, tuple(notes)
