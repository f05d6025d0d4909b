"""The pictures of a split: the same numbers with any memory and any number of threads; batches of them."""

import threading

import numpy as np
import pytest
import torch
from PIL import Image

from heed.config.pictures import AugmentSection
from heed.data.batch.pictures import collate_pictures, updates_together
from heed.data.pictures.augmentation import Augment
from heed.data.pictures.sizing import Normalisation, Sizing
from heed.data.pictures.source import Arrays, Pixels
from heed.data.pictures.store import PictureForm, PictureStore
from heed.errors import DataError

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

    def decode(self, place, channels=None):
        self.decoded += 1
        return super().decode(place, channels)


def stored(places, megabytes=10, workers=0, sizing=None):
    return PictureStore(Counting(workers=workers), places, sizing or Sizing(16, 16, 3), megabytes)


@pytest.mark.parametrize("megabytes", [0, 10])
def test_pictures_are_the_same_with_any_number_of_workers(photos, megabytes):
    augment = Augment(AugmentSection(flip=True, crop=2, randaugment=2, erase=0.5, cutmix=1.0, mixup=0.4), seed=3)
    form = PictureForm(Sizing(16, 16, 3), stored(photos).normalisation())
    targets = torch.arange(40) % 3
    batches = []
    for workers in (0, 1, 4):
        store = stored(photos, megabytes, workers)
        assert store.is_kept == (megabytes > 0)
        order = torch.randperm(40, generator=torch.Generator().manual_seed(1)).tolist()
        batches.append(
            [
                batch
                for epoch in (0, 1)
                for batch in collate_pictures(
                    store, targets, [order[:25], order[25:]], form, augment, num_labels=3, epoch=epoch
                )
            ]
        )
    for others in batches[1:]:
        for one, other in zip(batches[0], others, strict=True):
            assert torch.equal(one.pixels, other.pixels) and torch.equal(one.targets, other.targets)
    assert not torch.equal(batches[0][0].pixels, batches[0][2].pixels)  # another pass


def test_large_batches_are_changed_by_several_threads(photos):
    names = []

    def change(pictures, indices):
        names.append(threading.current_thread().name)
        return pictures + np.uint8(1)

    few, many = (stored(photos, 10, workers, Sizing(128, 128, 3)) for workers in (0, 4))
    for store in (few, many):
        assert len(store.take(range(40))) == 40  # decoded now
    assert np.array_equal(many.take(range(40), change), few.take(range(40)) + np.uint8(1))
    assert len(names) == 4 and all(name.startswith("pictures") for name in names)


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
    pixels.add("memory:train", Arrays(np.zeros((1_000, 10, 10), dtype=np.uint8)))
    places = [f"memory:train#{i}" for i in range(1_000)]
    assert PictureStore(pixels, places, Sizing(50, 20, 1), 1).is_kept  # 1,000,000 bytes
    assert not PictureStore(pixels, places, Sizing(51, 20, 1), 1).is_kept


def test_normalisation_is_that_of_all_training_pictures_or_of_an_even_sample(photos, monkeypatch):
    sizing = Sizing(16, 16, 3)
    together = np.stack([sizing.apply(one) for one in Pixels(workers=0).read(photos, 3)]).reshape(-1, 3) / 255
    found = stored(photos, workers=2).normalisation()
    assert found.mean == pytest.approx(together.mean(0)) and found.deviation == pytest.approx(together.std(0))
    assert stored(photos, megabytes=0).normalisation() == found
    monkeypatch.setattr("heed.data.pictures.store._SAMPLE", 10)
    sampled = stored(photos, megabytes=0)
    every_fourth = [sizing.apply(one) for one in Pixels(workers=0).read(photos[::4], 3)]
    assert sampled.normalisation() == Normalisation.of([np.stack(every_fourth)], 3)
    assert sampled._pixels.decoded == 10


def test_a_file_that_is_gone_is_named(photos, tmp_path):
    store = stored(photos, workers=4)
    (tmp_path / "7.jpg").unlink()
    with pytest.raises(DataError, match=r"7\.jpg' does not exist"):
        store.take(range(40))


def test_a_batch_has_normalised_pictures_and_their_labels(photos):
    store = stored(photos, sizing=Sizing(16, 16, 1))
    form = PictureForm(store.sizing, store.normalisation())
    (batch,) = collate_pictures(store, torch.arange(40), [[7, 0, 39]], form)
    assert batch.indices == [7, 0, 39] and batch.targets.tolist() == [7, 0, 39] and batch.num_targets == 3
    assert torch.equal(batch.pixels, form.tensor(store.take([7, 0, 39])))
    assert batch.pixels.shape == (3, 1, 16, 16)


def test_batches_made_together_are_those_made_one_by_one(photos):
    store = stored(photos)
    augment = Augment(AugmentSection(flip=True, crop=2, randaugment=1, erase=0.5, mixup=0.4), seed=3)
    form = PictureForm(store.sizing, store.normalisation())
    chosen = [[7, 0, 39], [3], [1, 2, 4, 5, 6], [8]]
    given = form, augment
    together = collate_pictures(store, torch.arange(40), chosen, *given, num_labels=40, epoch=5)
    for indices, one in zip(chosen, together, strict=True):
        (alone,) = collate_pictures(store, torch.arange(40), [indices], *given, num_labels=40, epoch=5)
        assert one.indices == indices
        assert torch.equal(one.pixels, alone.pixels) and torch.equal(one.targets, alone.targets)


def test_small_pictures_are_made_for_several_updates_at_once():
    assert updates_together(64, (8, 8, 1)) == 16
    assert updates_together(128, (28, 28, 1)) == 1
    assert updates_together(32, (28, 28, 1)) == 5
    assert updates_together(128, (224, 224, 3)) == 1
