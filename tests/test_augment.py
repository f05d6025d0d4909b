"""Random changes of pictures: what each does, and that what is drawn depends on the seed, the pass and the picture
only."""

import numpy as np
from scipy import stats

from heed.config.sections import AugmentSection
from heed.data.pictures import sizing as ops
from heed.data.pictures.sizing import Augment


def pictures(batch: int, height: int = 32, width: int = 32, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(30, 240, (batch, height, width, channels)).astype(np.uint8)


# --- operations


def test_a_crop_is_cut_out_of_the_picture_with_a_black_border():
    batch = pictures(25, 6, 9, 3)
    tops, lefts = (part.reshape(-1) for part in np.meshgrid(np.arange(5), np.arange(5), indexing="ij"))
    wide = np.pad(batch, ((0, 0), (2, 2), (2, 2), (0, 0)))
    wanted = [wide[i, top : top + 6, left : left + 9] for i, (top, left) in enumerate(zip(tops, lefts, strict=True))]
    assert np.array_equal(ops.crop(batch, 2, tops, lefts), np.stack(wanted))
    large = ops.crop(batch[:1], 20, np.array([0]), np.array([40]))
    assert not large.any()  # a border wider than the picture may be all that is cut


def test_a_flip_mirrors_left_and_right_of_the_chosen():
    batch = pictures(3, 4, 5, 1)
    flipped = ops.flip(batch, np.array([True, False, True]))
    assert np.array_equal(flipped[0], batch[0][:, ::-1]) and np.array_equal(flipped[1], batch[1])
    assert np.array_equal(flipped[2], batch[2][:, ::-1])


# --- what is drawn

ALL = AugmentSection(flip=True, crop=4)


def test_draws_are_uniform_and_independent_of_one_another():
    cases = ((1, 0, "a"), (1, 0, "b"), (1, 1, "a"), (2, 0, "a"))
    numbers = [ops.uniform(seed, epoch, range(50_000), use) for seed, epoch, use in cases]
    numbers.append(np.roll(numbers[0], 1))
    for one in numbers:
        assert stats.kstest(one, "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(numbers) - np.eye(5)).max() < 0.02
    counted = np.bincount((ops.uniform(1, 0, range(50_000), "c") * 14).astype(int), minlength=14)
    assert stats.chisquare(counted).pvalue > 1e-3


def test_a_change_depends_on_seed_pass_and_picture_and_not_on_its_batch():
    batch, indices = pictures(12), [40, 3, 7, 100, 8, 9, 1, 2, 77, 5, 6, 0]
    augment = Augment(ALL, seed=4)
    together = augment.pictures(batch, indices, epoch=2)
    for place, index in enumerate(indices):
        assert np.array_equal(augment.pictures(batch[place : place + 1], [index], epoch=2)[0], together[place])
    assert np.array_equal(Augment(ALL, seed=4).pictures(batch[::-1], indices[::-1], epoch=2), together[::-1])
    assert not np.array_equal(augment.pictures(batch, indices, epoch=3), together)
    assert not np.array_equal(Augment(ALL, seed=5).pictures(batch, indices, epoch=2), together)


def test_nothing_is_changed_where_nothing_is_asked_for():
    batch = pictures(3)
    augment = Augment(AugmentSection(), seed=1)
    assert augment.pictures(batch, [0, 1, 2], 0) is batch
    assert augment.pictures(batch[:0], [], 0).shape == (0, 32, 32, 3)
