"""`preprocessor_config.json`: how a checkpoint wants pictures, as a `PictureForm`, and the other way round.

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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heed.data.pictures.sizing import Normalisation, Resample, Sizing
from heed.data.pictures.store import PictureForm
from heed.exchange.huggingface.config_file import Settings, read_json

PREPROCESSOR = "preprocessor_config.json"
_FILTERS: Mapping[int, Resample] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_NUMBERS = {name: number for number, name in _FILTERS.items()}
_ACCEPTED = {"do_pad": (False,), "crop_pct": (None,), "do_flip_channel_order": (False,)}
_STANDARD = {"image_mean": 0.5, "image_std": 0.5}
"""Of `ViTImageProcessor`, where the file does not say."""


def has_preprocessor(folder: Path) -> bool:
    """Whether a checkpoint says how it wants pictures."""
    return (folder / PREPROCESSOR).exists()


def read_form(folder: Path, config: Settings) -> PictureForm:
    """How a checkpoint wants pictures; where it does not say, as `ViTImageProcessor` has them by default.

    Args:
        folder: The checkpoint.
        config: Its `config.json`: channels and size of a picture.

    Raises:
        RunError: The file is damaged.
        ConfigError: heed lacks what a field asks for, or it contradicts `config.json`; the message names it.
    """
    values = read_json(folder / PREPROCESSOR) if has_preprocessor(folder) else {}
    settings = Settings(folder / PREPROCESSOR, values)
    settings.accept(_ACCEPTED)
    channels = config.count("num_channels", 3)
    if channels not in (1, 3):
        raise config.wrong("num_channels", "1 (grey) or 3 (red, green and blue)")
    height, width = _image_size(config)
    sizing = _sizing(settings, height, width, channels)
    return PictureForm(sizing, _normalisation(settings, channels))


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
    if channels == 1:
        notes.append(f'{PREPROCESSOR} does not turn colours into grey: hand it grey pictures (image.convert("L"))')
    return fields, tuple(notes)


def _image_size(config: Settings) -> tuple[int, int]:
    """Height and width of the model's pictures, by config.json."""
    value = config.get("image_size", 224)
    sides = value if isinstance(value, list) else [value, value]
    if len(sides) != 2 or not all(_is_length(side) for side in sides):
        raise config.wrong("image_size", "a number of pixels, or height and width")
    return sides[0], sides[1]


def _sizing(settings: Settings, height: int, width: int, channels: int) -> Sizing:
    number = settings.get("resample", 2)
    if number not in _FILTERS:
        known = ", ".join(f"{one} ({name})" for one, name in _FILTERS.items())
        raise settings.wrong("resample", f"one of Pillow's filters {known}")
    resample = _FILTERS[number]
    cuts = settings.flag("do_center_crop", False)
    field = "crop_size" if cuts else "size"
    if not settings.flag("do_resize", True) and not cuts:  # then pictures must have the model's size
        return Sizing(height, width, channels, "squash", resample)
    final = _sides(settings, field, height, width)
    if final != (height, width):
        raise settings.wrong(field, f"{_shown(height, width)}, which is image_size in config.json")
    if not cuts:
        return Sizing(height, width, channels, "squash", resample)
    if not settings.flag("do_resize", True):
        raise settings.wrong("do_resize", "true, with do_center_crop")
    if (shortest := _shortest(settings)) is not None:
        if shortest < max(height, width):
            raise settings.wrong("size", f"at least the {max(height, width)} pixels of crop_size")
        return Sizing(height, width, channels, "centre", resample, shortest)
    scaled = _sides(settings, "size", height, width)
    if scaled == final:
        return Sizing(height, width, channels, "squash", resample)
    if scaled[0] != scaled[1] or min(scaled) < max(final):
        raise settings.wrong("size", f"equal height and width, at least the {max(final)} pixels of crop_size")
    return Sizing(height, width, channels, "squash", resample, scaled[0])


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
    if set(sides) != {"height", "width"} or not all(_is_length(side) for side in sides.values()):
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
    return Normalisation(tuple(one / unit for one in mean), tuple(one / unit for one in deviation))


def _per_channel(settings: Settings, name: str, channels: int) -> tuple[float, ...]:
    value = settings.get(name, _STANDARD[name])
    values = value if isinstance(value, list) else [value] * channels
    good = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    if not good or len(values) != channels or (name == "image_std" and min(values) <= 0):
        many = "1 number" if channels == 1 else f"{channels} numbers"
        raise settings.wrong(name, f"{many}, as num_channels in config.json is {channels}")
    return tuple(float(one) for one in values)


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _shown(height: int, width: int) -> str:
    return json.dumps({"height": height, "width": width})
