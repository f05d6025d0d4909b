"""Embedded texts: documents of which one word decides, and sentences from the tables `teddy.yaml` and `meals.yaml`.

All are endless and drawn by a seed, which does not decide their split: the first texts of a split are the same each
time, and a smaller sample is the beginning of a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import count as endless
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any

import yaml

from heed.data.embedded import Split, check_range, split_of
from heed.data.examples import Sentence, Text
from heed.data.kinds.documents import Document
from heed.errors import DataError, suggest


def _table(name: str) -> dict[str, Any]:
    table: dict[str, Any] = yaml.safe_load((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8"))
    return table


# Classification: one word decides.

DECIDING = {
    "sports": ("goal", "referee", "tournament", "striker", "league"),
    "politics": ("election", "parliament", "minister", "senate", "ballot"),
    "cooking": ("oven", "recipe", "flour", "saucepan", "garlic"),
}
"""The deciding words of each label."""

OTHER = "other"
"""The label of documents without such a word."""

_FILLER = (
    *"the this that they we people some day time way place thing word part year week house street morning".split(),
    *"was is had came went saw found told made took left began seemed stood heard".split(),
    *"often never again there here then still quite very almost early late long small large new old other".split(),
    *"and but with for of in on at by from about after before".split(),
)
_WORDS = (4, 14)


@dataclass(frozen=True)
class Planted:
    """A document with its label, the deciding sentence (from 0, or None) and the deciding word (or "")."""

    text: Text
    sentence: int | None
    word: str


def draw_documents(split: Split, count: int, sentences: tuple[int, int], seed: int) -> list[Planted]:
    """Documents with `sentences` (fewest, most), one of which decides: a word in it gives the label.

    A quarter of the documents have no such word and the label "other"; otherwise one label could be predicted from
    finding no word of the others. All else is drawn uniformly. A model's attention can be compared with the word.

    Source: the idea of planted evidence, as in E21 of the lecture notes' claims; the sentences are ours.

    Raises:
        DataError: `sentences` is not a range.
    """
    check_range("sentences", sentences, minimum=1)
    rng = Random(f"{seed}:{split}")
    drawn = (_draw_document(rng, sentences) for _ in endless())
    return list(islice((document for document in drawn if split_of(document.text.text) == split), count))


def _draw_document(rng: Random, sentences: tuple[int, int]) -> Planted:
    label = rng.choice([*DECIDING, OTHER])
    lines = [rng.choices(_FILLER, k=rng.randint(*_WORDS)) for _ in range(rng.randint(*sentences))]
    place, word = None, ""
    if label != OTHER:
        place, word = rng.randrange(len(lines)), rng.choice(DECIDING[label])
        lines[place].insert(rng.randrange(len(lines[place]) + 1), word)
    text = " ".join(" ".join(line).capitalize() + "." for line in lines)
    return Planted(Text(text, (label,), origin=f"planted:{label}"), place, word)


# Tagging: the next word decides.

TEDDY = "Teddy"
_TEDDY = _table("teddy")


def draw_sentences(split: Split, count: int, seed: int, mirrored: bool = False) -> list[Sentence]:
    """Sentences in which only the next word tells if Teddy is a person: "He said Teddy ..." bear or Roosevelt.

    They come in pairs that are equal up to and including the word Teddy, and their beginning decides the split. A
    network that reads from left to right and has to tag Teddy before it sees the next word is right in exactly half of
    them, however large it is.

    With `mirrored`, sentences are reversed, so that the word before Teddy decides.
    """
    rng = Random(f"{seed}:{split}")
    sentences: list[Sentence] = []
    while len(sentences) < count:
        beginning = " ".join(part for name in ("when", "who", "says", "that") if (part := rng.choice(_TEDDY[name])))
        if split_of(beginning) == split:
            sentences += pair_of(beginning, rng)
    return [_from_its_end(sentence) for sentence in sentences[:count]] if mirrored else sentences[:count]


def pair_of(beginning: str, rng: Random) -> tuple[Sentence, Sentence]:
    """Two sentences that begin alike: in the first Teddy is a person, in the second not."""
    beginning_words = [*beginning.split(), TEDDY]
    person = [*beginning_words, rng.choice(_TEDDY["surnames"]), *rng.choice(_TEDDY["of_people"]).split()]
    thing = [*beginning_words, rng.choice(_TEDDY["bears"]), *rng.choice(_TEDDY["of_bears"]).split()]
    tags = ["O"] * len(person)
    tags[len(beginning_words) - 1 : len(beginning_words) + 1] = ["B-person", "I-person"]
    return (
        Sentence(tuple(person), tuple(tags), "teddy:person"),
        Sentence(tuple(thing), ("O",) * len(thing), "teddy:thing"),
    )


def _from_its_end(sentence: Sentence) -> Sentence:
    tags = list(sentence.tags)
    if "B-person" in tags:
        first = tags.index("B-person")
        tags[first : first + 2] = ["I-person", "B-person"]
    return Sentence(sentence.words[::-1], tuple(tags[::-1]), sentence.origin)


# Language modelling: sentences whose probabilities are known, to test ranking with.
#
#     Anna loves eating pizza with my friend        prompt: Anna loves eating pizza with        choice: my friend
#
# A sentence is a person, a verb of liking, an activity, "with", and one of the three choices of the activity, which
# have probabilities 0.7, 0.2 and 0.1 whatever the person and verb. Choices have one to four words. Sentences are held
# out by their prompt: no prompt of the validation and test sets is in the training set of any seed.

_MEALS = _table("meals")
PROBABILITIES: tuple[float, ...] = tuple(_MEALS["probabilities"])
"""Probabilities of the choices of an activity, in their order."""


@cache
def _activities() -> dict[str, str]:
    """Every prompt and its activity."""
    people = [*((who, "") for who in _MEALS["several"]), *((who, "s") for who in _MEALS["one"])]
    return {
        f"{who} {like}{ending} {activity} with": activity
        for (who, ending), like, activity in product(people, _MEALS["likes"], _MEALS["choices"])
    }


@cache
def prompts(split: Split) -> tuple[str, ...]:
    """All prompts of a split, the same for every seed."""
    return tuple(prompt for prompt in _activities() if split_of(prompt) == split)


def distribution(prompt: str) -> dict[str, float]:
    """The choices that may follow a prompt, and their probabilities, the largest first.

    Raises:
        DataError: The grammar has no such prompt.
    """
    activities = _activities()
    if prompt not in activities:
        raise DataError(f"the grammar of meals has no prompt '{prompt}'{suggest(prompt, activities)}")
    return dict(zip(_MEALS["choices"][activities[prompt]], PROBABILITIES, strict=True))


def draw_meals(split: Split, count: int, seed: int) -> list[Document]:
    """Draw the first `count` sentences of a split: a uniformly drawn prompt, and a choice drawn by its probability."""
    rng, all_prompts = Random(f"{seed}:{split}"), prompts(split)
    drawn = []
    for _ in range(count):
        prompt = rng.choice(all_prompts)
        choice = rng.choices(list(distribution(prompt)), PROBABILITIES)[0]
        drawn.append(Document(f"{prompt} {choice}", f"meals:{_activities()[prompt]}"))
    return drawn
