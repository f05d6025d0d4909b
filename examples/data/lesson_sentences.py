"""The sentences that three lessons of heed learn from: `cat`, `mess` and `order`.

    python examples/data/lesson_sentences.py sentences.tsv

A line has the lesson, a kind of its examples, their split, and the fields of an example, separated by tabs. heed comes
with these lines as `heed/lessons/sentences.tsv.bz2`. The words are in `lesson_sentences.yaml`.

| lesson | kinds | fields |
|---|---|---|
| cat | | sentence, the noun that sat |
| mess | `short`, `halves`; `32`: held-out halves with so many clauses between them | review, label |
| order | `one`, `two`: orders of the words that are sentences | words in another order, sentence |
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path
from random import Random
from typing import Any

import yaml

from heed.data.embedded import SPLITS, Split, split_of

WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


# cat: the same words in two orders -----------------------------------------------------------------------------------

CAT_AND_WALL = {"cat", "wall"}
NOUNS = WORDS["cat"]
_SCENES = ("sat on", "sat behind", "lay on", "slept under", "stood next to")


def who_sat(split: Split) -> list[tuple[str, str]]:
    """The sentences of a split with the noun that sat; the lesson's two sentences are in test.

    Both orders of two nouns are in one split, so no training sentence has both nouns of a test sentence.
    """
    drawn = []
    for sitter, place in permutations(NOUNS, 2):
        nouns = {sitter, place}
        if split == ("test" if nouns == CAT_AND_WALL else split_of(" ".join(sorted(nouns)))):
            drawn += [(f"The {sitter} {scene} the {place}.", sitter) for scene in _SCENES]
    Random(split).shuffle(drawn)
    return drawn


# mess: reviews of one opinion or of two halves -----------------------------------------------------------------------

GOOD, BAD, _THINGS = (WORDS["mess"][name] for name in ("good", "bad", "things"))
_JOINTS, _FILLER = WORDS["mess"]["joints"], WORDS["mess"]["filler"]
SHOWN = (
    "The first half of the movie was great, but then it was a bit of a mess.",
    "The first half of the movie was a bit of a mess, but then it was great.",
    "The movie was fun, brisk and imaginative.",
)
LABELS = ("negative", "neutral", "positive")
_LONGEST = 4  # most clauses of filler between the halves in training
FARTHEST = 32  # clauses of filler in the test
_HELD_OUT = 150  # reviews with as many
_REVIEWS = {"train": 3_000, "valid": 60, "test": 120}


def draw_review(rng: Random, filler: int) -> tuple[str, str]:
    """A review of two halves with clauses of filler between them, and its label.

    The word that joins the halves says nothing about the label. "great" and "a bit of a mess" never occur together:
    neither the lesson's sentence nor its reverse is in the data.
    """
    while True:
        signs = (rng.choice((1, -1)), rng.choice((1, -1)))
        first, second = (rng.choice(GOOD if sign > 0 else BAD) for sign in signs)
        if first != second and {first, second} != {"great", "a bit of a mess"}:
            break
    between = "".join(f", {rng.choice(_FILLER)}" for _ in range(filler))
    thing, joint = rng.choice(_THINGS), rng.choice(_JOINTS)
    text = f"The first half of the {thing} was {first}{between}, {joint} it was {second}."
    return text, LABELS[1 + sum(signs) // 2]


def draw_short(rng: Random) -> tuple[str, str]:
    """A review with at most one opinion, and its label."""
    sign, thing = rng.choice((1, 0, -1)), rng.choice(_THINGS)
    if sign == 0:
        return f"The {thing} began at eight and {rng.choice(_FILLER)}.", LABELS[1]
    words = rng.sample(GOOD if sign > 0 else BAD, 3)
    said = rng.choice((words[0], f"{words[0]}, {words[1]} and {words[2]}"))
    begun = rng.choice((f"The {thing}", f"The first half of the {thing}", f"{rng.choice(_JOINTS).capitalize()} it"))
    return f"{begun} was {said}.", LABELS[1 + sign]


def draw_reviews(split: Split, kind: str) -> list[tuple[str, str]]:
    """The reviews of a split. Reviews of "short" have one opinion; two thirds of "halves" have two, at every distance.

    No review of `valid` or `test` is in `train`, and the lesson's sentences are in none of the splits.
    """
    rng = Random(f"{kind} {split}")
    known = {*SHOWN, *(text for text, _ in (draw_reviews("train", kind) if split != "train" else []))}
    drawn: list[tuple[str, str]] = []
    while len(drawn) < _REVIEWS[split]:
        short = kind == "short" or rng.random() < 1 / 3
        text, label = draw_short(rng) if short else draw_review(rng, rng.randint(0, _LONGEST))
        if text not in known:
            drawn.append((text, label))
    return drawn


def held_out() -> list[tuple[str, str]]:
    """Reviews of two halves with the most clauses between them."""
    rng = Random(f"held-out {FARTHEST}")
    return [draw_review(rng, FARTHEST) for _ in range(_HELD_OUT)]


# order: words in another order ---------------------------------------------------------------------------------------

_WHEN = ("now", "today", "here", "in Rome", "in Lagos", "at home", "there")
_WHAT = ("time", "day", "month", "year", "season", "hour")
_HOW = ("late", "early", "cold", "warm", "dark", "quiet", "busy")
_SUBJECTS = ("movie", "book", "play", "song", "game", "story", "show", "concert")
_VERBS = ("was", "is", "seemed")
_ADJECTIVES = ("brisk", "fun", "imaginative", "long", "clever", "loud", "strange")
ASKED = ("What time is it now?", "The movie was brisk, fun and imaginative")
_ORDERED = {"train": 1_500, "valid": 40, "test": 100}
"""Number of sentences of each kind, if the grammar has as many."""


def ordered_sentences() -> dict[str, list[str]]:
    """All sentences of the grammar, by the number of orders of their words that are sentences of the grammar."""
    one = [f"What {what} is it {when}?" for what, when in product(_WHAT, _WHEN)]
    one += [f"What is the {what} {when}?" for what, when in product(_WHAT, _WHEN)]
    one += [f"Is it {how} {when}?" for how, when in product(_HOW, _WHEN)]
    one += [f"It is {how} {when}." for how, when in product(_HOW, _WHEN)]
    said = product(_SUBJECTS[:4], _VERBS, _ADJECTIVES, _WHEN)
    one += [f"The {noun} {verb} {how} {when}." for noun, verb, how, when in said]
    two = [
        f"The {noun} {verb} {a}, {b} and {c}"
        for noun, verb in product(_SUBJECTS, _VERBS)
        for a, b, c in permutations(_ADJECTIVES, 3)
    ]
    return {"one": one, "two": two}


def draw_ordered(split: Split, kind: str) -> list[tuple[str, str]]:
    """The sentences of a split and kind, each after its words in another order.

    No sentence has the words of one in another split or of the lesson's examples.
    """
    asked = {bag_of(text) for text in ASKED}
    drawn = [text for text in ordered_sentences()[kind] if split_of(bag_of(text)) == split]
    drawn = [text for text in drawn if bag_of(text) not in asked]
    Random(f"{split}:{kind}").shuffle(drawn)
    return [(shuffle_words(text), text) for text in drawn[: _ORDERED[split]]]


def words_of(sentence: str) -> tuple[list[str], str]:
    """The words of a sentence, and the punctuation that ends it."""
    text = sentence.rstrip(".?")
    return text.split(), sentence[len(text) :]


def shuffle_words(sentence: str) -> str:
    """The words of a sentence in another order, drawn by the sentence; the punctuation that ends it stays there."""
    words, closing = words_of(sentence)
    drawn, rng = list(words), Random(f"1:{sentence}")
    while drawn == words:
        rng.shuffle(drawn)
    return " ".join(drawn) + closing


def bag_of(sentence: str) -> str:
    """The words of a sentence, regardless of order and punctuation."""
    return " ".join(sorted(word.strip(",") for word in words_of(sentence)[0]))


# The table -----------------------------------------------------------------------------------------------------------


def rows() -> Iterator[tuple[str, ...]]:
    """All rows of the table."""
    for split in SPLITS:
        yield from (("cat", "", split, *row) for row in who_sat(split))
        for kind in ("short", "halves"):
            yield from (("mess", kind, split, *row) for row in draw_reviews(split, kind))
        for kind in ordered_sentences():
            yield from (("order", kind, split, *row) for row in draw_ordered(split, kind))
    yield from (("mess", str(FARTHEST), "test", *row) for row in held_out())


def main() -> None:
    """Write the table."""
    lines = "".join("\t".join(row) + "\n" for row in rows())
    Path(sys.argv[1]).write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
