"""Random changes of pictures: what each does, and that what is drawn depends on the seed, the pass and the picture
only."""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

from heed.config.pictures import AugmentSection
from heed.data.pictures import augmentation as ops
from heed.data.pictures.augmentation import OPERATIONS, Augment, Draws, beta, erase, mix, randaugment

ONE_SIDED = {"identity", "autocontrast", "equalize", "posterize", "solarize"}
"""Operations without a sign."""


def pictures(batch: int, height: int = 32, width: int = 32, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Soft blobs of few grey levels and noise: histograms that equalisation and contrast have something to do with."""
    rng = np.random.default_rng(seed)
    small = rng.integers(30, 200, (batch, 5, 5, channels)).astype(np.uint8)
    big = [np.asarray(Image.fromarray(one.squeeze()).resize((width, height))) for one in small]
    noise = rng.integers(0, 40, (batch, height, width, channels))
    return (np.stack(big).reshape(batch, height, width, channels) + noise).astype(np.uint8)


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


def test_erasing_makes_one_rectangle_of_noise_within_the_published_bounds():
    batch = np.zeros((400, 40, 40, 1), dtype=np.uint8)
    erased = erase(batch, 0.5, Draws(3, 0, range(400)))
    changed = [one for one in erased if one.any()]
    assert 160 < len(changed) < 240  # 200 expected, deviation 10
    for one in changed:
        rows, columns = (np.flatnonzero(one.any(axis)) for axis in ((1, 2), (0, 2)))
        height, width = int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1
        assert 0.01 < height * width / 1600 < 0.45 and 0.25 < height / width < 4
        assert (one[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] > 0).mean() > 0.9
    values = np.concatenate([one[one > 0] for one in changed])
    assert abs(values.mean() - 128) < 1 and abs(values.std() - 73.6) < 1
    assert not erase(batch, 0.0, Draws(3, 0, range(400))).any()


def test_randaugment_has_the_usual_14_operations_and_each_of_them_changes_a_picture():
    assert len(OPERATIONS) == 14
    for channels in (1, 3):
        picture = pictures(1, channels=channels)[0]
        given = Image.fromarray(picture.squeeze())
        for name, operation in OPERATIONS.items():
            changed, other = (np.asarray(operation(given, 0.3, sign)) for sign in (1, -1))
            assert changed.dtype == np.uint8 and changed.shape == picture.squeeze().shape
            grey = name == "colour" and channels == 1  # has no colour to change
            assert np.array_equal(changed, picture.squeeze()) == (name == "identity" or grey), name
            assert np.array_equal(changed, other) == (name in ONE_SIDED or grey), name
            # At magnitude 0 only those without a magnitude do anything; solarisation inverts the value 255 alone.
            still = np.asarray(operation(given, 0.0, 1))
            assert np.array_equal(still, picture.squeeze()) == (name not in ("autocontrast", "equalize")), name


@pytest.mark.parametrize(("name", "moved"), [("translate_x", (0, 4)), ("translate_y", (4, 0))])
def test_a_translation_moves_whole_pixels_and_leaves_black(name, moved):
    picture = pictures(1, 32, 32, 1)[0].squeeze()
    changed = np.asarray(OPERATIONS[name](Image.fromarray(picture), 0.3, 1))  # 150 / 331 * 32 * 0.3 is 4.35
    down, across = moved
    assert np.array_equal(changed[: 32 - down, : 32 - across], picture[down:, across:])
    assert not changed[32 - down :].any() and not changed[:, 32 - across :].any()


def test_randaugment_draws_every_operation_for_every_picture_by_itself():
    batch = pictures(1).repeat(600, axis=0)
    changed = randaugment(batch, 1, 15, Draws(1, 0, range(600)))
    kinds = {one.tobytes() for one in changed}
    assert len(kinds) == 5 + 2 * 9  # five with one amount, nine with two signs
    shares = [sum(one.tobytes() == kind for one in changed) / 600 for kind in kinds]
    assert min(shares) > 0.01 and max(shares) < 0.12  # 1/28 or 1/14 expected
    twice = randaugment(batch, 2, 15, Draws(1, 0, range(600)))
    assert len({one.tobytes() for one in twice}) > 150
    assert np.array_equal(randaugment(batch, 0, 15, Draws(1, 0, range(600))), batch)


# --- mixing


def test_mixing_shares_are_distributed_as_beta():
    uniform = (np.arange(20_000) + 0.5) / 20_000
    for alpha in (0.1, 0.2, 0.5, 1.0, 2.0, 8.0):
        drawn = beta(alpha, uniform)
        assert np.abs(stats.beta(alpha, alpha).cdf(drawn) - uniform)[:10_000].max() < 1e-4, alpha
        assert drawn[::-1] == pytest.approx(1 - drawn) and (np.diff(drawn) >= 0).all()


def test_mixup_mixes_pictures_and_labels_in_the_same_proportion():
    pixels, targets = torch.randn(50, 3, 4, 4), torch.arange(50) % 5
    mixed, soft = mix(pixels, targets, 5, mixup=1.0, cutmix=0.0, draws=Draws(1, 0, range(50)))
    assert soft.sum(1).tolist() == pytest.approx([1.0] * 50)
    shares = []
    for i in range(50):
        own, other = int(targets[i]), int(targets[i - 1])
        share = float(soft[i, own])
        assert float(soft[i, other]) == pytest.approx(1 - share)
        assert torch.allclose(mixed[i], share * pixels[i] + (1 - share) * pixels[i - 1], atol=1e-6)
        shares.append(share)
    assert min(shares) < 0.15 and max(shares) > 0.85 and len(set(shares)) == 50


def test_cutmix_replaces_a_rectangle_and_mixes_labels_by_its_area():
    pixels = torch.arange(60.0).view(60, 1, 1, 1).expand(60, 3, 12, 10).contiguous()
    targets = torch.arange(60)
    before = pixels.clone()
    mixed, soft = mix(pixels, targets, 60, mixup=0.0, cutmix=1.0, draws=Draws(1, 0, range(60)))
    assert torch.equal(pixels, before)
    areas = []
    for i in range(60):
        other = (mixed[i] == float(targets[i - 1])).all(0)
        assert (other | (mixed[i] == i).all(0)).all()
        rows, columns = (torch.nonzero(other.any(axis)).flatten() for axis in (1, 0))
        assert int(other.sum()) == len(rows) * len(columns)  # one rectangle
        assert float(soft[i, i - 1]) == pytest.approx(int(other.sum()) / 120, abs=1e-6)
        assert float(soft[i].sum()) == pytest.approx(1.0)
        areas.append(float(other.float().mean()))
    assert min(areas) < 0.1 and max(areas) > 0.6


def test_with_both_half_of_the_pictures_are_cut_and_half_mixed():
    pixels, targets = torch.randn(400, 1, 8, 8), torch.arange(400) % 7
    mixed, soft = mix(pixels, targets, 7, mixup=1.0, cutmix=1.0, draws=Draws(5, 2, range(400)))
    own = (mixed == pixels).flatten(1).any(1)  # a cut picture keeps pixels of its own, unless all of it is cut
    assert 150 < int(own.sum()) < 230
    assert torch.allclose(soft.sum(1), torch.ones(400))


# --- what is drawn

ALL = AugmentSection(flip=True, crop=4, randaugment=2, magnitude=12, erase=0.5)


def test_draws_are_uniform_and_independent_of_one_another():
    draws = Draws(1, 0, range(50_000))
    numbers = [draws.uniform("a"), draws.uniform("b"), Draws(1, 1, range(50_000)).uniform("a")]
    numbers += [Draws(2, 0, range(50_000)).uniform("a"), np.roll(draws.uniform("a"), 1)]
    for one in numbers:
        assert stats.kstest(one, "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(numbers) - np.eye(5)).max() < 0.02
    counted = np.bincount(draws.below("c", 14), minlength=14)
    assert stats.chisquare(counted).pvalue > 1e-3
    assert not np.array_equal(draws.noise("n", 0, 999), draws.noise("n", 1, 999))
    assert len(draws.noise("n", 0, 999)) == 999


def test_a_change_depends_on_seed_pass_and_picture_and_not_on_its_batch():
    batch, indices = pictures(12), [40, 3, 7, 100, 8, 9, 1, 2, 77, 5, 6, 0]
    augment = Augment(ALL, seed=4)
    together = augment.pictures(batch, indices, epoch=2)
    for place, index in enumerate(indices):
        assert np.array_equal(augment.picture(batch[place], index, epoch=2), together[place])
    assert np.array_equal(Augment(ALL, seed=4).pictures(batch[::-1], indices[::-1], epoch=2), together[::-1])
    assert not np.array_equal(augment.pictures(batch, indices, epoch=3), together)
    assert not np.array_equal(Augment(ALL, seed=5).pictures(batch, indices, epoch=2), together)


def test_nothing_is_changed_where_nothing_is_asked_for():
    batch, pixels, targets = pictures(3), torch.randn(3, 3, 4, 4), torch.tensor([0, 1, 0])
    augment = Augment(AugmentSection(), seed=1)
    assert augment.pictures(batch, [0, 1, 2], 0) is batch
    assert augment.batch(pixels, targets, 2, [0, 1, 2], 0) == (pixels, targets)
    assert augment.pictures(batch[:0], [], 0).shape == (0, 32, 32, 3)
