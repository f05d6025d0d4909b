"""Short office notes and their subjects: one sentence of each note decides the subject, the others distract from it.

A note has a greeting, a few sentences that name days, places and people of no importance, the one that matters, and a
name below it. Names are made of syllables, so that most names of a test note were never seen in training: a model with
a vocabulary of words can write those only by copying them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from heed.data.embedded.generated import PairSource, check_split, distinct, split_of
from heed.data.examples import Pair

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOPICS = (
    *("budget", "sales", "safety", "hiring", "planning", "design", "travel", "research", "website", "contract"),
    *("training", "marketing", "energy", "quality", "garden", "archive"),
)
_EVENTS = ("meeting", "workshop", "call", "lunch", "review", "lecture", "visit", "party")
_PAPERS = ("report", "invoice", "schedule", "contract", "map", "list", "form", "photos", "minutes", "figures", "letter")
_THINGS = ("printer", "lift", "projector", "heating", "door", "coffee machine", "telephone", "lamp", "scanner")
_FLOORS = ("first", "second", "third", "fourth", "fifth", "top")
_PLACES = ("Lisbon", "Leeds", "Lyon", "Oslo", "Turin", "Graz", "Ghent", "Porto", "Bergen", "Cork", "Basel", "Malmo")
_GREETINGS = ("Hello", "Dear", "Hi", "Good morning")
_CLOSINGS = ("Best wishes", "Many thanks", "Regards", "Yours", "See you soon")
_SYLLABLES = (
    *("ba", "be", "bo", "da", "de", "di", "fa", "fe", "ga", "go", "ha", "he", "ka", "ki", "ko", "la", "le", "li"),
    *("lo", "ma", "me", "mi", "mo", "na", "ne", "ni", "no", "pa", "pe", "ra", "re", "ri", "ro", "sa", "se", "si"),
    *("ta", "te", "ti", "to", "va", "ve", "vi", "za", "zo"),
)
_ENDINGS = ("n", "r", "s", "l", "nd", "rt", "lm", "")

_Draw = Callable[[Random], tuple[str, str]]


def _name(rng: Random) -> str:
    return ("".join(rng.choice(_SYLLABLES) for _ in range(3)) + rng.choice(_ENDINGS)).capitalize()


def _moved(rng: Random) -> tuple[str, str]:
    topic, event, (day, other) = rng.choice(_TOPICS), rng.choice(_EVENTS), rng.sample(_DAYS, 2)
    said = (
        f"The {topic} {event} planned for {other} will take place on {day} instead.",
        f"We have to move the {topic} {event} from {other} to {day}.",
        f"Please note that we hold the {topic} {event} on {day} and not on {other}.",
    )
    return rng.choice(said), f"{topic.capitalize()} {event} moved to {day}"


def _cancelled(rng: Random) -> tuple[str, str]:
    topic, event, day = rng.choice(_TOPICS), rng.choice(_EVENTS), rng.choice(_DAYS)
    said = (
        f"Unfortunately we have to call off the {topic} {event} on {day}.",
        f"There will be no {topic} {event} on {day} after all.",
    )
    return rng.choice(said), f"No {topic} {event} on {day}"


def _needed(rng: Random) -> tuple[str, str]:
    topic, paper, day = rng.choice(_TOPICS), rng.choice(_PAPERS), rng.choice(_DAYS)
    said = (
        f"Could you send me the {topic} {paper} by {day}?",
        f"I need the {topic} {paper} on my desk by {day}.",
        f"Please let me have the {topic} {paper} before {day} is over.",
    )
    return rng.choice(said), f"{topic.capitalize()} {paper} needed by {day}"


def _joins(rng: Random) -> tuple[str, str]:
    name, place, day = _name(rng), rng.choice(_PLACES), rng.choice(_DAYS)
    said = (
        f"From {day} on we will be joined by {name} from our office in {place}.",
        f"Please welcome {name} from {place}, who starts here on {day}.",
    )
    return rng.choice(said), f"{name} from {place} joins us"


def _broken(rng: Random) -> tuple[str, str]:
    thing, floor, day = rng.choice(_THINGS), rng.choice(_FLOORS), rng.choice(_DAYS)
    said = (
        f"Since {day} the {thing} on the {floor} floor no longer works.",
        f"Do not use the {thing} on the {floor} floor, which broke on {day}.",
    )
    return rng.choice(said), f"{thing.capitalize()} on the {floor} floor out of order"


def _award(rng: Random) -> tuple[str, str]:
    name, topic = _name(rng), rng.choice(_TOPICS)
    said = (
        f"You may have heard that {name} won this year's {topic} prize.",
        f"The {topic} prize goes to {name} this year.",
    )
    return rng.choice(said), f"{topic.capitalize()} prize for {name}"


_KINDS: dict[str, _Draw] = {
    "moved": _moved,
    "cancelled": _cancelled,
    "needed": _needed,
    "joins": _joins,
    "broken": _broken,
    "award": _award,
}


def _distraction(rng: Random) -> str:
    name, place, day = _name(rng), rng.choice(_PLACES), rng.choice(_DAYS)
    said = (
        "I hope you are well.",
        "I hope you had a good weekend.",
        f"It has been raining in {place} since {day}.",
        f"I was in {place} on {day} and thought of you.",
        f"{name} sends greetings from {place}.",
        f"My train was late again on {day}.",
        f"{name} and I had lunch in {place} the other day.",
        f"I will be away on {day}.",
        "Thank you for your patience.",
        f"If you have questions, ask {name} on the {rng.choice(_FLOORS)} floor.",
    )
    return rng.choice(said)


class NoteSource(PairSource):
    """Notes with their subjects, drawn by a seed; the origin of each is its kind, as "notes:moved"."""

    def __init__(self, sentences: tuple[int, int] = (2, 5), seed: int = 1) -> None:
        """Notes with so many sentences between greeting and name: fewest and most, the one that matters included."""
        self._sentences, self._seed = sentences, seed

    def stream(self, split: Any) -> Iterator[Pair]:
        """The notes of a split, which the sentence that matters decides: none of a test note was in training."""
        check_split(split)
        rng = Random(f"{self._seed}:{split}")

        def choose() -> str:
            return rng.choice([*_KINDS])

        def draw(kind: str) -> Pair:
            while True:
                matters, subject = _KINDS[kind](rng)
                if split_of(matters) == split:
                    break
            around = [_distraction(rng) for _ in range(rng.randint(*self._sentences) - 1)]
            around.insert(rng.randint(0, len(around)), matters)
            note = f"{rng.choice(_GREETINGS)} {_name(rng)}, {' '.join(around)} {rng.choice(_CLOSINGS)}, {_name(rng)}"
            return Pair(note, subject, origin=f"notes:{kind}")

        return distinct(choose, draw)
