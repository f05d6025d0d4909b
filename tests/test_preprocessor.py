"""`preprocessor_config.json`: pictures become the tensors that the image processors of `transformers` make of them."""

import json

import numpy as np
import pytest
import torch

from heed.data.pictures.sizing import Normalisation, PictureForm, Sizing
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.vit import Vit, preprocessor_of, read_form

transformers = pytest.importorskip("transformers")
SHAPES = ((32, 32), (40, 61), (61, 40), (90, 33), (20, 90))
MEAN, DEVIATION = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)


def pictures(channels=3):
    random = np.random.default_rng(1)
    return [random.integers(0, 256, (height, width, channels), dtype=np.uint8) for height, width in SHAPES]


def wrote(folder, fields, height=32, width=32, channels=3):
    """A folder with such a file; what heed reads of it."""
    (folder / "preprocessor_config.json").write_text(json.dumps(fields))
    (folder / "config.json").write_text(json.dumps({"model_type": "vit"}))
    config = Vit.read(folder / "config.json", {"image_size": [height, width], "num_channels": channels})
    return read_form(folder, config)


def theirs(folder, picture):
    from PIL import Image

    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    return processor(Image.fromarray(picture.squeeze()), return_tensors="pt").pixel_values


def assert_same(folder, form, given):
    for picture in given:
        torch.testing.assert_close(form.tensor([picture]), theirs(folder, picture), rtol=1e-5, atol=1e-5)


FILES = {
    "vit": {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}},
    "one number": {"feature_extractor_type": "ViTFeatureExtractor", "size": 32, "resample": 2, "image_std": [0.5] * 3},
    "deit": {
        "image_processor_type": "DeiTImageProcessor", "size": {"height": 40, "width": 40}, "do_center_crop": True,
        "crop_size": {"height": 32, "width": 32}, "resample": 3, "image_mean": MEAN, "image_std": DEVIATION,
    },
    "deit, numbers": {
        "image_processor_type": "DeiTImageProcessor", "size": 40, "do_center_crop": True, "crop_size": 32,
        "resample": 3, "image_mean": MEAN, "image_std": DEVIATION,
    },
    "clip": {
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 37}, "do_center_crop": True,
        "crop_size": {"height": 32, "width": 32}, "resample": 3, "image_mean": MEAN, "image_std": DEVIATION,
    },
    "another scale": {
        "image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}, "rescale_factor": 1 / 127.5,
        "image_mean": [1.0] * 3, "image_std": [0.5] * 3,
    },
    "not normalised": {
        "image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}, "do_normalize": False,
    },
    "neither": {
        "image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}, "do_normalize": False,
        "do_rescale": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_pictures_become_the_tensors_that_their_processor_makes(tmp_path, name):
    form = wrote(tmp_path, FILES[name])
    if name == "neither":  # numbers up to 255
        for picture in pictures():
            torch.testing.assert_close(form.tensor([picture]), theirs(tmp_path, picture).float(), rtol=1e-5, atol=1e-3)
        return
    assert_same(tmp_path, form, pictures())


def test_without_the_file_pictures_are_read_as_their_processor_reads_them_by_default(tmp_path):
    form = wrote(tmp_path, {})
    (tmp_path / "preprocessor_config.json").unlink()
    assert read_form(tmp_path, Vit.read(tmp_path / "config.json", {"image_size": 32})) == form
    processor = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32})
    made = processor(pictures()[1], return_tensors="pt").pixel_values
    torch.testing.assert_close(form.tensor(pictures()[1:2]), made, rtol=1e-5, atol=1e-5)


FORMS = [
    Sizing(32, 32, 3, "squash"),
    Sizing(32, 24, 3, "squash", "bicubic"),
    Sizing(32, 32, 3, "squash", "bicubic", 40),
    Sizing(32, 32, 3, "centre", "lanczos", 40),
    Sizing(32, 24, 3, "centre", "bilinear", 36),
    Sizing(32, 32, 1, "squash", "nearest"),
    Sizing(32, 32, 1, "centre", "bilinear", 32),
]


@pytest.mark.parametrize("sizing", FORMS, ids=str)
def test_what_is_written_makes_the_same_tensors_and_is_read_again(tmp_path, sizing):
    channels = sizing.channels
    form = PictureForm(sizing, Normalisation(MEAN[:channels], DEVIATION[:channels]))
    fields, notes = preprocessor_of(form)
    assert wrote(tmp_path, fields, sizing.height, sizing.width, channels) == form
    assert_same(tmp_path, form, pictures(channels))
    assert bool(notes) == (channels == 1)


@pytest.mark.parametrize(
    ("sizing", "said"),
    [
        (Sizing(32, 32, 3, "pad"), "data.crop=pad cannot be exported"),
        (Sizing(32, 24, 3, "centre"), "data.crop=centre cannot be exported for pictures of 32 x 24 pixels"),
        (Sizing(32, 32, 3, "centre"), "up to one pixel differently"),
        (Sizing(32, 32, 1, "squash"), 'image.convert("L")'),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_said_and_pictures_of_its_shape_are_the_same(tmp_path, sizing, said):
    channels = sizing.channels
    form = PictureForm(sizing, Normalisation(MEAN[:channels], DEVIATION[:channels]))
    fields, notes = preprocessor_of(form)
    assert said in " ".join(notes)
    wrote(tmp_path, fields, sizing.height, sizing.width, channels)
    random = np.random.default_rng(2)
    same = random.integers(0, 256, (2 * sizing.height, 2 * sizing.width, channels), dtype=np.uint8)
    assert_same(tmp_path, form, [same])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"size": {"height": 48, "width": 48}}, 'size is {"height": 48, "width": 48}, expected {"height": 32'),
        ({"size": {"longest_edge": 32}}, 'size.longest_edge.[key] is "longest_edge": input should be'),
        ({"size": "32"}, 'size is "32": input should be'),
        ({"do_center_crop": True, "crop_size": 16, "size": 32}, "crop_size is 16, expected"),
        ({"do_center_crop": True, "size": {"height": 40, "width": 50}}, "equal height and width"),
        ({"do_center_crop": True, "size": {"shortest_edge": 16}}, "at least the 32 pixels of crop_size"),
        ({"do_center_crop": True, "do_resize": False}, "do_resize is false"),
        ({"resample": 5}, "resample is 5: input should be 0, 1, 2 or 3"),
        ({"resample": [2]}, "resample is [2]: input should be 0, 1, 2 or 3"),
        ({"image_mean": [0.5]}, "image_mean is [0.5]: input should be 3 numbers, as num_channels in config.json is 3"),
        ({"image_std": [0.5, 0, 0.5]}, "image_std.1 is 0: input should be"),
        ({"rescale_factor": 0}, "rescale_factor is 0: input should be greater than 0"),
        ({"do_pad": True}, "do_pad is true: input should be false"),
        ({"crop_pct": 0.9}, "crop_pct is 0.9: input should be null"),
        ({"do_normalize": "yes"}, 'do_normalize is "yes": input should be a valid boolean'),
    ],
)
def test_what_heed_lacks_is_refused_by_file_and_field(tmp_path, fields, said):
    with pytest.raises(ConfigError) as caught:
        wrote(tmp_path, fields)
    assert "preprocessor_config.json: " in str(caught.value) and said in str(caught.value)


def test_a_damaged_file_and_other_channels_are_named(tmp_path):
    wrote(tmp_path, {})
    (tmp_path / "preprocessor_config.json").write_text("{")
    config = Vit.read(tmp_path / "config.json", {"image_size": 32})
    with pytest.raises(RunError, match=r"preprocessor_config\.json is damaged"):
        read_form(tmp_path, config)
    with pytest.raises(ConfigError, match="num_channels is 4: input should be 1 or 3"):
        wrote(tmp_path, {}, channels=4)
