"""Short stories of one person and one place, for pretraining.

    python examples/data/stories.py stories
    heed train pretraining stories/train.txt --valid stories/valid.txt data.format=lines

writes and reads a story on each line.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count as endless
from itertools import islice
from random import Random

from arguments import DAYS, arguments, sizes_of
from heed.data.embedded import Split, split_of
from heed.data.kinds.documents import Document

_CHARACTERS = {
    "he": ("The man", "The boy", "My uncle", "Tom", "Ahmed", "Kofi", "Lars", "Diego", "Her brother", "The old baker"),
    "she": ("The woman", "The girl", "My aunt", "Anna", "Maria", "Yuki", "Priya", "Olga", "His sister", "The teacher"),
}
_POSSESSIVE = {"he": "his", "she": "her"}
_TIMES_OF_DAY = ("in the morning", "at noon", "in the afternoon", "in the evening")
_PLACES = """
store: milk bread cheese butter coffee
{He} bought {thing} and a paper bag. | {He} asked the clerk for {thing}. | {He} put {thing} in the basket.
The {thing} was cheap that day. | Then {he} paid the cashier and left. | The queue at the checkout was long.
lake: trout perch pike salmon
{He} caught a {thing} with {his} rod. | {He} saw a {thing} under the boat. | {He} fed the {thing} with worms.
The water was cold and clear. | The {thing} swam away from the hook. | {He} rowed {his} boat to the shore.
library: novel atlas dictionary biography
{He} borrowed a {thing} for two weeks. | {He} read a {thing} at a quiet desk. | {He} looked for a {thing}.
The {thing} stood on the highest shelf. | The librarian stamped the {thing}. | Everyone there whispered.
kitchen: soup cake stew omelette
{He} cooked a {thing} for {his} family. | {He} burned the {thing} a little. | {He} salted the {thing} twice.
The {thing} smelled of garlic and herbs. | The oven was still hot. | {He} washed the pan and the spoons.
station: train tram express bus
{He} waited for the {thing} on the platform. | {He} missed the {thing} by a minute.
The {thing} was late again. | {He} showed {his} ticket to the conductor. | {His} suitcase was heavy.
garden: roses tulips carrots beans
{He} planted {thing} along the fence. | {He} watered the {thing} with a can. | {He} picked some {thing}.
The {thing} needed more sun. | Snails had eaten half of the {thing}. | The soil was dry and {he} dug deep.
stadium: match final race game
{He} watched the {thing} from the last row. | {He} cheered during the whole {thing}.
The {thing} ended with a late goal. | The referee blew {his} whistle. | The fans sang until the {thing} was over.
hospital: doctor nurse surgeon dentist
{He} told the {thing} about {his} pain. | {He} waited two hours for the {thing}.
The {thing} gave {him} some pills. | The {thing} examined {his} knee. | The patients in the ward were asleep.
"""
"""Each place with its things; what a person does there, and what else may be said."""
_OBJECT = {"he": "him", "she": "her"}
_COMMON = ("The", "My", "Her", "His")
"""First words of people without names."""


def draw_stories(split: Split, count: int, seed: int) -> list[Document]:
    """The first `count` stories of a split: a person goes somewhere and does what people do there.

        The man went to the store. He bought a gallon of milk. The milk was cheap. Then he paid the cashier and left.

    The four to seven sentences of a story share its person (a name or a noun, and "he" or "she") and its place with
    typical things, so that a masked word can be predicted from the words around it, and a next sentence from the one
    before. Everything is drawn uniformly.

    Source: the sentences of the notes and of Devlin et al. 2019 (arXiv:1810.04805), section 3.1 ("the man went to the
    store", "he bought a gallon of milk"); the rest is ours.
    """
    rng = Random(f"{seed}:{split}")
    drawn = (_draw_story(rng) for _ in endless())
    return list(islice((story for story in drawn if split_of(story.text) == split), count))


def _draw_story(rng: Random) -> Document:
    he = rng.choice([*_CHARACTERS])
    lines = _PLACES.strip().split("\n")
    who, at = rng.choice(_CHARACTERS[he]), 3 * rng.choice(range(len(lines) // 3))
    (place, things), deeds, others = lines[at].split(": "), lines[at + 1].split(" | "), lines[at + 2].split(" | ")
    named = {
        "thing": rng.choice(things.split()),
        **{"he": he, "his": _POSSESSIVE[he], "him": _OBJECT[he]},
        **{"He": he.capitalize(), "His": _POSSESSIVE[he].capitalize()},
    }
    later = who[0].lower() + who[1:] if who.split()[0] in _COMMON else who
    opening = rng.choice(
        (
            f"{who} went to the {place}.",
            f"{who} went to the {place} on {rng.choice(DAYS)}.",
            f"{rng.choice(_TIMES_OF_DAY).capitalize()} {later} went to the {place}.",
        )
    )
    first = rng.sample(deeds, rng.randint(1, 2))
    then = rng.sample(others, rng.randint(1, len(others)))
    end = [f"{who} went home {rng.choice(_TIMES_OF_DAY)}."] if rng.random() < 0.5 else []
    lines = [opening, *(line.format(**named) for line in (*first, *then)), *end]
    return Document(" ".join(lines), f"stories:{place}")


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, 4_000, 200, 500).parse_args(given)
    for split, count in sizes_of(options).items():
        lines = "".join(f"{story.text}\n" for story in draw_stories(split, count, options.seed))
        (options.folder / f"{split}.txt").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
