"""Generated texts whose answer is far from the words that it depends on."""

from itertools import islice

import pytest

from heed.data.embedded import recall
from heed.errors import DataError


def test_texts_to_remember():
    for text, symbol in islice(recall.delayed_recall((1, 5), 1), 50):
        words = text.split()
        assert (words[0], words[-1]) == (symbol, "?") and len(words) - 1 in (1, 5)
    for text, total in islice(recall.adding((2, 9), 1), 50):
        marked = [int(word[1:]) for word in text.split() if word.startswith("x")]
        assert len(marked) == 2 and sum(marked) == int(total)
    for text, answer in islice(recall.look_ups(3, 2, 1), 50):
        things, asked = (part.split() for part in text.split(" ? "))
        colour, shape = things[things.index(asked[1]) + 1], things[things.index(asked[3]) + 2]
        assert answer == f"{colour}-{shape}" and asked[1] != asked[3]
    for text, answer in islice(recall.two_clauses((0, 4), 1), 50):
        assert answer == f"{text.split()[0]}-{text.split()[-1]}"
    for text in islice(recall.counted((3,), 1), 2):
        assert text == "a a a b b b"
    first = list(islice(recall.delayed_recall((4,), 1), 5))
    assert first == list(islice(recall.delayed_recall((4,), 1), 5)) != list(islice(recall.delayed_recall((4,), 2), 5))
    with pytest.raises(DataError, match="lag is"):
        next(recall.delayed_recall((0,), 1))
    with pytest.raises(DataError, match="9 things"):
        next(recall.look_ups(9, 2, 1))
