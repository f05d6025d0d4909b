"""Generated pictures whose label is a relation between far corners."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from heed.config.pictures import ShapePictures
from heed.data.embedded.pictures import ARROWS, FIGURES, Arrangement, arrangements, draw_shapes
from heed.data.pictures.source import Pixels
from heed.data.splits.pictures import open_pictures
from heed.errors import DataError

SIZES = {"train": 400, "valid": 50, "test": 100}


def figure_at(picture, row, column):
    """The name of the arrow or figure at a place, found by comparing pixels."""
    bright = picture[row : row + 5, column : column + 5] > 127
    marks = tuple("".join("#" if pixel else "." for pixel in line) for line in bright)
    return {marks: name for name, marks in (FIGURES | ARROWS).items()}[marks]


def test_the_label_is_the_figure_that_the_arrow_points_at():
    for one in islice(arrangements("train", 1, (32, 24), 12, colours=False), 200):
        arrow, right, down, across = (figure_at(one.drawn(32, 24), *corner) for corner in one.corners)
        assert one.label == {"right": right, "down": down, "across": across}[arrow]
        assert len({right, down, across}) == 3
        (top, left), (_, x), (y, _), (bottom, end) = one.corners
        assert all(abs(apart - 12) <= 2 for apart in (bottom - top, end - left, x - left, y - top))
        assert (one.drawn(32, 24) > 127).sum() == sum(  # nothing else is bright
            sum(line.count("#") for line in (FIGURES | ARROWS)[name]) for name in (arrow, right, down, across)
        )


def test_no_part_that_touches_one_figure_tells_the_label():
    """Each window in which a label's pictures differ from another's touches two figures."""
    one = next(arrangements("train", 2, (32, 32), 16, colours=False))
    drawn = {arrow: Arrangement(arrow, one.kinds, one.corners).drawn(32, 32) for arrow in ARROWS}
    (row, column), *_ = one.corners
    for picture in drawn.values():
        outside = picture.copy()
        outside[row : row + 5, column : column + 5] = drawn["right"][row : row + 5, column : column + 5]
        assert np.array_equal(outside, drawn["right"])  # but for the arrow the three labels' pictures are the same
    counts = Counter(
        (arrangement.arrow, place, kind, arrangement.label == kind)
        for arrangement in islice(arrangements("train", 1, (32, 32), 16, colours=False), 6_000)
        for place, kind in zip(ARROWS, arrangement.kinds, strict=True)
    )
    for place in ARROWS:  # a figure, wherever it stands, is the right one a third of the time
        for kind in FIGURES:
            right = sum(counts[arrow, place, kind, True] for arrow in ARROWS)
            wrong = sum(counts[arrow, place, kind, False] for arrow in ARROWS)
            assert right / (right + wrong) == pytest.approx(1 / 3, abs=0.04)


def test_all_labels_and_arrows_are_as_frequent():
    drawn = list(islice(arrangements("test", 1, (32, 32), 16, colours=False), 1_000))
    labels, arrows = Counter(one.label for one in drawn), Counter(one.arrow for one in drawn)
    assert set(labels) == set(FIGURES) and max(labels.values()) < 1.3 * min(labels.values())
    assert set(arrows) == set(ARROWS) and max(arrows.values()) < 1.3 * min(arrows.values())


def test_no_arrangement_of_the_training_pictures_is_in_another_split_under_any_seed():
    shown = {
        (seed, split): {repr(one) for one in islice(arrangements(split, seed, (14, 14), 7, False), 300)}
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
    shown = islice(arrangements("valid", 1, (32, 32), 16, False), 50)
    for arrangement, example in zip(shown, drawn["valid"], strict=True):
        number = int(example.place.split("#")[1])
        assert np.array_equal(pixels[number], arrangement.drawn(32, 32))
        assert example.label == arrangement.label


def test_noise_has_the_deviation_asked_for_and_figures_may_have_colours():
    _, plain = draw_shapes(SIZES, 1, noise=0.0)
    _, noisy = draw_shapes(SIZES, 1, noise=0.1)
    assert np.std(noisy.astype(float) - plain) == pytest.approx(25.5, rel=0.05)
    _, coloured = draw_shapes(SIZES, 1, colours=True, noise=0.0)
    assert coloured.shape == (550, 32, 32, 3)
    assert len({tuple(colour) for colour in coloured.reshape(-1, 3)}) == 7  # six, and the background


def test_figures_that_overlap_or_do_not_fit_are_refused():
    with pytest.raises(DataError, match=r"data\.distance is 28 in pictures of 32 x 32 pixels, expected 7 to 25"):
        draw_shapes(SIZES, 1, distance=28)
    with pytest.raises(DataError, match=r"data\.distance is 4 in pictures of 32 x 32 pixels, expected 7 to 25"):
        draw_shapes(SIZES, 1, distance=4)
    with pytest.raises(DataError, match=r"in pictures of 8 x 8 pixels, which is too small .* use data\.size=14"):
        draw_shapes(SIZES, 1, size=(8, 8))


def test_the_section_of_shapes_opens_what_it_says():
    data = ShapePictures(train=60, valid=10, test=20, size=(20, 24), distance=13, colours=True, noise=0.05)
    pixels = Pixels.of(data)
    splits = open_pictures(data, pixels)
    assert {name: len(part) for name, part in splits.examples.items()} == {"train": 60, "valid": 10, "test": 20}
    drawn, arrays = draw_shapes(
        {"train": 60, "valid": 10, "test": 20}, 1, size=(20, 24), distance=13, colours=True, noise=0.05
    )
    read = pixels.read([one.place for one in splits.examples["test"]])
    assert np.array_equal(np.stack(read), arrays[70:]) and list(splits.examples["test"]) == drawn["test"]
    open_pictures(ShapePictures(train=5, valid=1, test=1), few := Pixels())
    assert few.read(["shapes#0"])[0].shape == (32, 32, 1)
