"""Sentences in which only the next word tells if Teddy is a person: "He said Teddy ..." bear or Roosevelt.

Sentences come in pairs that are equal up to and including the word Teddy. A network that reads from left to right and
has to tag Teddy before it sees the next word is right in exactly half of them, however large it is.

Source: the example of the lecture notes (docs/systems.md, A6); the grammar is ours.
"""

from __future__ import annotations

from random import Random

from heed.data.embedded.generated import Split, split_of
from heed.data.examples import Sentence

TEDDY = "Teddy"
_WHEN = ("", "Yesterday", "Once", "Last week", "In the evening", "At school", "On the radio", "After dinner")
_WHO = (
    *("He", "She", "They", "The teacher", "My sister", "His aunt", "Our neighbour", "The reporter", "A student"),
    *("The old man", "Her friend", "The author"),
)
_SAYS = ("said", "thought", "wrote", "knew", "heard", "believed", "told us", "remembered", "read", "claimed")
_THAT = ("", "that", "the other day that", "in a letter that", "with a smile that")
_SURNAMES = ("Roosevelt", "Riley", "Atlas", "Sheringham", "Kollek", "Stadler", "Tamgho", "Dunn")
_PERSON = (
    *("was a President", "is a singer", "was born in May", "won the race", "lived in this street", "is tall"),
    *("wrote two books", "was very brave", "came to dinner"),
)
_THINGS = ("bear", "bears", "boy", "coats")
_THING = (
    *("is soft", "was on the bed", "is brown", "was very cheap", "fell on the floor", "was a present", "is old"),
    *("lay in this street", "came with a ribbon"),
)


def draw_sentences(split: Split, count: int, seed: int, mirrored: bool = False) -> list[Sentence]:
    """The first `count` sentences of a split (by their beginnings), in pairs.

    With `mirrored`, sentences are reversed, so that the word before Teddy decides.
    """
    rng = Random(f"{seed}:{split}")
    made: list[Sentence] = []
    while len(made) < count:
        beginning = " ".join(part for part in (rng.choice(_WHEN), *_who_says(rng)) if part)
        if split_of(beginning) == split:
            made += pair_of(beginning, rng)
    return [_from_its_end(sentence) for sentence in made[:count]] if mirrored else made[:count]


def pair_of(beginning: str, rng: Random) -> tuple[Sentence, Sentence]:
    """Two sentences that begin alike: in the first Teddy is a person, in the second not."""
    said = [*beginning.split(), TEDDY]
    person = [*said, rng.choice(_SURNAMES), *rng.choice(_PERSON).split()]
    thing = [*said, rng.choice(_THINGS), *rng.choice(_THING).split()]
    tags = ["O"] * len(person)
    tags[len(said) - 1 : len(said) + 1] = ["B-person", "I-person"]
    return (
        Sentence(tuple(person), tuple(tags), "teddy:person"),
        Sentence(tuple(thing), ("O",) * len(thing), "teddy:thing"),
    )


def _who_says(rng: Random) -> tuple[str, str, str]:
    return rng.choice(_WHO), rng.choice(_SAYS), rng.choice(_THAT)


def _from_its_end(sentence: Sentence) -> Sentence:
    tags = list(sentence.tags)
    if "B-person" in tags:
        first = tags.index("B-person")
        tags[first : first + 2] = ["I-person", "B-person"]
    return Sentence(sentence.words[::-1], tuple(tags[::-1]), sentence.origin)
