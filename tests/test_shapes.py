"""Generated pictures whose label is a relation between far corners."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from heed.config.pictures import ShapePictures
from heed.data.embedded.shapes import FIGURES, Arrangement, arrangements, draw_shapes
from heed.data.pictures.source import Pixels
from heed.data.store.pictures import open_pictures
from heed.errors import DataError

SIZES = {"train": 400, "valid": 50, "test": 100}


def figures_of(picture, corners):
    """The figure at each corner, found by comparing pixels."""
    found = []
    for row, column in corners:
        bright = picture[row : row + 5, column : column + 5] > 127
        marks = tuple("".join("#" if pixel else "." for pixel in line) for line in bright)
        found.append({marks: kind for kind, marks in FIGURES.items()}[marks])
    return found


def test_the_label_says_whether_opposite_corners_show_the_same_figure():
    for one in islice(arrangements("train", 1, (32, 24), 12, 4, colours=False), 200):
        top_left, top_right, bottom_left, bottom_right = figures_of(one.drawn(32, 24), one.corners)
        assert (top_left == bottom_right and top_right == bottom_left) == (one.label == "same")
        assert sorted(Counter([top_left, top_right, bottom_left, bottom_right]).values()) == [2, 2]
        (top, left), _, _, (bottom, right) = one.corners
        assert abs(bottom - top - 12) <= 2 and abs(right - left - 12) <= 2
        assert (one.drawn(32, 24) > 127).sum() == sum(  # nothing but the four figures is bright
            sum(line.count("#") for line in FIGURES[kind]) for kind in one.kinds
        )


def test_no_window_without_two_figures_tells_the_label():
    """With both kinds exchanged, which keeps the label, every window shows the other figure at the same place."""
    for one in islice(arrangements("train", 2, (32, 32), 16, 4, colours=False), 50):
        a, b = one.kinds[0], next(kind for kind in one.kinds if kind != one.kinds[0])
        swapped = Arrangement(tuple(b if kind == a else a for kind in one.kinds), one.corners)
        assert swapped.label == one.label
        changed = np.argwhere(one.drawn(32, 32) != swapped.drawn(32, 32))
        for row, column in changed:
            assert sum(0 <= row - top < 5 and 0 <= column - left < 5 for top, left in one.corners) == 1


def test_both_labels_and_all_kinds_are_as_frequent():
    drawn = list(islice(arrangements("train", 1, (32, 32), 16, 4, colours=False), 4_000))
    assert 0.47 < sum(one.label == "same" for one in drawn) / 4_000 < 0.53
    for label in ("same", "different"):
        counts = Counter(kind for one in drawn if one.label == label for kind in one.kinds)
        assert set(counts) == set(FIGURES)
        assert max(counts.values()) < 1.15 * min(counts.values())


def test_no_arrangement_of_the_training_pictures_is_in_another_split_under_any_seed():
    shown = {
        (seed, split): {repr(one) for one in islice(arrangements(split, seed, (14, 14), 7, 2, False), 200)}
        for seed in (1, 2)
        for split in ("train", "valid", "test")
    }
    for seed in (1, 2):
        for other in (1, 2):
            assert not shown[seed, "train"] & (shown[other, "valid"] | shown[other, "test"])


def test_the_same_seed_draws_the_same_pictures_and_a_smaller_split_is_the_beginning_of_a_larger_one():
    drawn, pixels = draw_shapes(SIZES, 3, noise=0.2)
    again, same = draw_shapes({"train": 100, "valid": 50, "test": 100}, 3, noise=0.2)
    assert pixels.shape == (550, 32, 32) and pixels.dtype == np.uint8
    assert np.array_equal(pixels[:100], same[:100])
    assert [one.digest for one in drawn["test"]] == [one.digest for one in again["test"]]
    other, _ = draw_shapes(SIZES, 4, noise=0.2)
    assert [one.label for one in other["test"]] != [one.label for one in drawn["test"]]


def test_places_name_the_pixels_of_each_example():
    drawn, pixels = draw_shapes(SIZES, 1, noise=0.0)
    examples = [one for split in SIZES for one in drawn[split]]
    assert [one.place for one in examples] == [f"shapes#{i}" for i in range(550)]
    for arrangement, example in zip(
        islice(arrangements("valid", 1, (32, 32), 16, 4, False), 50), drawn["valid"], strict=True
    ):
        number = int(example.place.split("#")[1])
        assert np.array_equal(pixels[number], arrangement.drawn(32, 32))
        assert example.label == arrangement.label


def test_noise_has_the_deviation_asked_for_and_colours_say_nothing():
    _, plain = draw_shapes(SIZES, 1, noise=0.0)
    _, noisy = draw_shapes(SIZES, 1, noise=0.1)
    assert np.std(noisy.astype(float) - plain) == pytest.approx(25.5, rel=0.05)
    drawn, coloured = draw_shapes(SIZES, 1, colours=True, noise=0.0)
    assert coloured.shape == (550, 32, 32, 3)
    assert 0.4 < np.mean([one.label == "same" for one in drawn["train"]]) < 0.6


def test_figures_that_overlap_or_do_not_fit_are_refused():
    with pytest.raises(DataError, match=r"data\.distance is 28 in pictures of 32 x 32 pixels, expected 7 to 25"):
        draw_shapes(SIZES, 1, distance=28)
    with pytest.raises(DataError, match=r"data\.distance is 4 in pictures of 32 x 32 pixels, expected 7 to 25"):
        draw_shapes(SIZES, 1, distance=4)
    with pytest.raises(DataError, match=r"in pictures of 8 x 8 pixels, which is too small .* use data\.size=14"):
        draw_shapes(SIZES, 1, size=(8, 8))
    with pytest.raises(DataError, match=r"data\.kinds is 5, expected 2 to 4 \(plus, cross, square, diamond\)"):
        draw_shapes(SIZES, 1, kinds=5)


def test_the_section_of_shapes_opens_what_it_says():
    data = ShapePictures(train=60, valid=10, test=20, size=(20, 24), distance=13, kinds=2, colours=True, noise=0.05)
    pixels = Pixels.of(data)
    splits = open_pictures(data, pixels)
    assert {name: len(part) for name, part in splits.examples.items()} == {"train": 60, "valid": 10, "test": 20}
    drawn, arrays = draw_shapes(
        {"train": 60, "valid": 10, "test": 20}, 1, size=(20, 24), distance=13, kinds=2, colours=True, noise=0.05
    )
    read = pixels.read([one.place for one in splits.examples["test"]])
    assert np.array_equal(np.stack(read), arrays[70:]) and list(splits.examples["test"]) == drawn["test"]
    open_pictures(ShapePictures(train=5, valid=1, test=1), few := Pixels())
    assert few.read(["shapes#0"])[0].shape == (32, 32, 1)
