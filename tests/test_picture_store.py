"""The form of pictures, and those of a split: the same numbers with any memory and number of threads; batches."""

import threading
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from heed.config.sections import AugmentSection
from heed.data.pictures.decode import Pixels
from heed.data.pictures.sizing import Augment, Normalisation, PictureForm, PictureStore, Sizing, settled_size
from heed.errors import DataError, RunError

SIZES = [(20, 30), (30, 20), (16, 16), (40, 17)]


@pytest.fixture
def photos(tmp_path):
    """Forty JPEG files of four sizes, some grey."""
    rng = np.random.default_rng(0)
    for i in range(40):
        height, width = SIZES[i % 4]
        shape = (height, width) if i % 5 == 0 else (height, width, 3)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(tmp_path / f"{i}.jpg")
    return [str(tmp_path / f"{i}.jpg") for i in range(40)]


class Counting(Pixels):
    """Counts what is decoded."""

    decoded = 0

    def decode(self, place):
        self.decoded += 1
        return super().decode(place)


def stored(places, megabytes=10, workers=0, sizing=None):
    return PictureStore(Counting(workers=workers), places, sizing or Sizing(16, 16, 3), megabytes)


@pytest.mark.parametrize("megabytes", [0, 10])
def test_pictures_are_the_same_with_any_number_of_workers(photos, megabytes):
    augment = Augment(AugmentSection(flip=True, crop=2), seed=3)
    form = PictureForm(Sizing(16, 16, 3), stored(photos).normalisation())
    batches = []
    for workers in (0, 1, 4):
        store = stored(photos, megabytes, workers)
        assert store.is_kept == (megabytes > 0)
        order = torch.randperm(40, generator=torch.Generator().manual_seed(1)).tolist()
        batches.append(
            [
                form.tensor(store.take(part, partial(augment.pictures, epoch=epoch)))
                for epoch in (0, 1)
                for part in (order[:25], order[25:])
            ]
        )
    for others in batches[1:]:
        for one, other in zip(batches[0], others, strict=True):
            assert torch.equal(one, other)
    assert not torch.equal(batches[0][0], batches[0][2])  # another pass


def test_large_batches_are_changed_by_several_threads(photos):
    names = []

    def change(pictures, indices):
        names.append(threading.current_thread().name)
        return pictures + np.uint8(1)

    few, many = (stored(photos, 10, workers, Sizing(128, 128, 3)) for workers in (0, 4))
    for store in (few, many):
        assert len(store.take(range(40))) == 40  # decoded now
    assert np.array_equal(many.take(range(40), change), few.take(range(40)) + np.uint8(1))
    assert len(names) == 8 and all(name.startswith("pictures") for name in names)


def test_a_kept_picture_is_decoded_once_and_another_each_time(photos):
    kept, read = stored(photos), stored(photos, megabytes=0)
    for store in (kept, read):
        for _ in range(3):
            store.take([1, 2, 3])
        store.take([3, 4])
    assert kept._pixels.decoded == 4 and read._pixels.decoded == 11
    assert np.array_equal(kept.take([4, 1, 4]), read.take([4, 1, 4]))


def test_what_is_kept_cannot_be_changed_from_outside(photos):
    store = stored(photos)
    first = store.take([5])
    wanted = first.copy()
    first[:] = 0
    assert np.array_equal(store.take([5]), wanted)


def test_a_set_is_kept_where_it_fits_into_the_memory_allowed():
    pixels = Pixels(workers=0)
    pixels.sources["memory:train"] = np.zeros((1_000, 10, 10), dtype=np.uint8)
    places = [f"memory:train#{i}" for i in range(1_000)]
    assert PictureStore(pixels, places, Sizing(50, 20, 1), 1).is_kept  # 1,000,000 bytes
    assert not PictureStore(pixels, places, Sizing(51, 20, 1), 1).is_kept


def test_normalisation_is_that_of_all_training_pictures_or_of_an_even_sample(photos, monkeypatch):
    sizing = Sizing(16, 16, 3)
    together = np.stack([sizing.apply(one) for one in Pixels(workers=0).read(photos)]).reshape(-1, 3) / 255
    found = stored(photos, workers=2).normalisation()
    assert found.mean == pytest.approx(together.mean(0)) and found.deviation == pytest.approx(together.std(0))
    assert stored(photos, megabytes=0).normalisation() == found
    monkeypatch.setattr("heed.data.pictures.sizing._SAMPLE", 10)
    sampled = stored(photos, megabytes=0)
    every_fourth = [sizing.apply(one) for one in Pixels(workers=0).read(photos[::4])]
    assert sampled.normalisation() == Normalisation.of([np.stack(every_fourth)], 3)
    assert sampled._pixels.decoded == 10


def test_a_file_that_is_gone_is_named(photos, tmp_path):
    store = stored(photos, workers=4)
    (tmp_path / "7.jpg").unlink()
    with pytest.raises(DataError, match=r"7\.jpg' does not exist"):
        store.take(range(40))


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def marked(height: int, width: int, top: int, left: int, side: int) -> np.ndarray:
    """Black, with one white square."""
    picture = np.zeros((height, width, 1), dtype=np.uint8)
    picture[top : top + side, left : left + side] = 255
    return picture


def test_a_picture_of_the_right_shape_is_left_as_it_is():
    picture = noise(28, 28, 1)
    assert Sizing(28, 28, 1).apply(picture) is picture


@pytest.mark.parametrize("crop", ["centre", "pad", "squash"])
@pytest.mark.parametrize("size", [(50, 80), (80, 50), (7, 300), (31, 33), (1, 1)])
def test_every_crop_gives_the_shape_and_makes_no_new_colours_of_a_plain_picture(crop, size):
    picture = np.full((*size, 3), (10, 200, 90), dtype=np.uint8)
    sized = Sizing(32, 24, 3, crop).apply(picture)
    assert sized.shape == (32, 24, 3) and sized.dtype == np.uint8
    colours = {tuple(map(int, colour)) for colour in sized.reshape(-1, 3)}
    assert colours - {(0, 0, 0)} == {(10, 200, 90)}
    assert ((0, 0, 0) in colours) == (crop == "pad")


def test_a_centre_crop_is_the_middle_of_the_picture():
    picture = noise(32, 64)
    assert np.array_equal(Sizing(32, 32, 3).apply(picture), picture[:, 16:48])
    tall = noise(65, 30)
    assert np.array_equal(Sizing(15, 30, 3).apply(tall), tall[25:40])


def test_padding_keeps_the_whole_picture_between_black_borders():
    picture = noise(20, 32)
    sized = Sizing(32, 32, 3, "pad").apply(picture)
    assert np.array_equal(sized[6:26], picture)
    assert not sized[:6].any() and not sized[26:].any()


def test_a_shorter_side_is_scaled_first_and_the_middle_cut_out_as_checkpoints_want_it():
    picture = noise(60, 90)
    sized = Sizing(24, 24, 3, shorter=30, resample="bicubic").apply(picture)
    scaled = Image.fromarray(picture).resize((45, 30), Image.Resampling.BICUBIC)
    assert np.array_equal(sized, np.asarray(scaled)[3:27, 10:34])
    squashed = Sizing(24, 24, 3, "squash", "bicubic", 30).apply(picture)
    scaled = Image.fromarray(picture).resize((30, 30), Image.Resampling.BICUBIC)
    assert np.array_equal(squashed, np.asarray(scaled)[3:27, 3:27])


@pytest.mark.parametrize(
    "sizing",
    [
        Sizing(32, 32, 1),
        Sizing(48, 32, 1),
        Sizing(32, 32, 1, "pad"),
        Sizing(40, 32, 1, "squash"),
        Sizing(32, 32, 1, shorter=40),
        Sizing(32, 32, 1, shorter=24),
        Sizing(32, 32, 1, "squash", shorter=40),
    ],
)
@pytest.mark.parametrize("size", [(120, 200), (200, 120), (160, 160)])
def test_the_box_says_where_in_the_original_a_pixel_was(sizing, size):
    top, left, side = size[0] // 2 - 8, size[1] // 2 - 20, 16
    seen = sizing.apply(marked(*size, top, left, side))[..., 0] / 255
    box = sizing.placed(size)
    rows, columns = seen.sum(1) @ np.arange(sizing.height), seen.sum(0) @ np.arange(sizing.width)
    row, column = rows / seen.sum() + 0.5, columns / seen.sum() + 0.5
    found = (
        box.top + row * (box.bottom - box.top) / sizing.height,
        box.left + column * (box.right - box.left) / sizing.width,
    )
    assert found == pytest.approx((top + side / 2, left + side / 2), abs=1.0)


def test_the_size_follows_the_pictures_where_none_is_named():
    assert settled_size([(28, 28)] * 5) == (28, 28)
    assert settled_size([(100, 200)] * 5) == (100, 200)
    assert settled_size([(600, 800)] * 5) == (224, 224)
    assert settled_size([(100, 75), (90, 130), (95, 400)]) == (80, 80)
    assert settled_size([(5, 8), (9, 7)]) == (32, 32)
    with pytest.raises(DataError, match=r"no pictures.*set data\.size"):
        settled_size([])


def test_training_pictures_have_mean_0_and_deviation_1_in_each_channel():
    pictures = np.stack([noise(8, 6, 3, seed) // np.array([1, 2, 5], dtype=np.uint8) for seed in range(20)])
    normalisation = Normalisation.of([pictures[:7], pictures[7:]], 3)
    pixels = normalisation.tensor(pictures)
    assert pixels.shape == (20, 3, 8, 6) and pixels.dtype == torch.float32 and pixels.is_contiguous()
    assert pixels.mean((0, 2, 3)).tolist() == pytest.approx([0, 0, 0], abs=1e-5)
    assert pixels.std((0, 2, 3), correction=0).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    shares = pictures.reshape(-1, 3) / 255
    assert normalisation.mean == pytest.approx(shares.mean(0)) and normalisation.deviation == pytest.approx(
        shares.std(0)
    )


def test_a_channel_of_one_value_is_not_blown_up():
    plain = np.full((4, 5, 5, 1), 77, dtype=np.uint8)
    normalisation = Normalisation.of([plain], 1)
    assert normalisation.deviation == (1.0,)
    assert not normalisation.tensor(plain).abs().gt(1e-6).any()


def test_a_form_is_stored_and_read_again(tmp_path):
    form = PictureForm(
        Sizing(24, 32, 3, "pad", "bicubic"), Normalisation((0.1, 1 / 3, 0.123456789012), (0.2, 0.25, 1.0))
    )
    form.save(tmp_path)
    assert PictureForm.load(tmp_path) == form
    shorter = PictureForm(Sizing(24, 24, 1, shorter=28), Normalisation((0.5,), (0.5,)))
    shorter.save(tmp_path)
    assert PictureForm.load(tmp_path) == shorter


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"height": 3}', "channels"])
def test_a_damaged_form_is_named(tmp_path, damage):
    form = PictureForm(Sizing(24, 32, 1), Normalisation((0.1,), (0.2,)))
    form.save(tmp_path)
    text = (tmp_path / "pictures.json").read_text().replace('"channels": 1', '"channels": 3')
    (tmp_path / "pictures.json").write_text(text if damage == "channels" else damage)
    with pytest.raises(RunError, match=r"pictures\.json is damaged: .*; restore"):
        PictureForm.load(tmp_path)


def test_a_tensor_of_pictures_of_any_size_is_that_of_the_sized_ones():
    form = PictureForm(Sizing(16, 16, 1), Normalisation((0.5,), (0.25,)))
    pictures = [noise(30, 20), noise(16, 16, 1), noise(9, 50)]
    together = form.tensor(pictures)
    assert together.shape == (3, 1, 16, 16)
    assert torch.equal(form.tensor(form.sizing.apply_all(pictures)), together)
    assert torch.equal(form.tensor(pictures[1:2])[0], together[1])
    assert form.tensor([]).shape == (0, 1, 16, 16)
    value = pictures[1][3, 5, 0] / 255
    assert together[1, 0, 3, 5].item() == pytest.approx((value - 0.5) / 0.25, abs=1e-6)
