"""How varied outputs are: distinct n-grams and the commonest outputs, against counts by hand."""

import pytest

from heed.evaluation.rouge import commonest_outputs, commonest_share, distinct
from heed.evaluation.significance import intervals

OUTPUTS = ["I do not know.", "I do.", "i do not know", "Yes"]


def test_distinct_n_is_the_number_of_different_n_grams_over_all():
    # words: i do not know / i do / i do not know / yes
    assert distinct(OUTPUTS, 1).score() == pytest.approx(5 / 11)
    assert distinct(OUTPUTS, 2).score() == pytest.approx(3 / 7)  # i do, do not, not know
    assert distinct(["Yes", "No"], 2).score() == 0
    assert distinct([], 1).score() == 0
    assert distinct(["я не знаю", "我不知道"], 1).score() == 1
    (found,) = intervals([distinct(OUTPUTS, 1)], 200)
    assert found.low < found.value < found.high


def test_the_share_of_the_ten_commonest_outputs():
    outputs = [*"aaab", *map(str, range(20))]
    assert commonest_outputs(outputs)[0] == ("a", 3) and len(commonest_outputs(outputs)) == 10
    assert commonest_share(outputs).score() == pytest.approx((3 + 1 + 8) / 24)
    assert commonest_share(["same"] * 5).score() == 1
