r"""Short office notes and their subjects, for summarisation.

    python examples/data/notes.py notes
    heed train summarisation notes/train.jsonl --valid notes/valid.jsonl --test notes/test.jsonl \
        tokenizer.kind=word evaluation.select_by=exact_match

writes and reads JSON lines with a document and its summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from arguments import DAYS, arguments, sizes_of, write_json_lines
from heed.data.embedded import PairSource, check_split, distinct, split_of
from heed.data.examples import Pair

_TOPICS = (
    *("budget", "sales", "safety", "hiring", "planning", "design", "travel", "research", "website", "contract"),
    *("training", "marketing", "energy", "quality", "garden", "archive"),
)
_EVENTS = ("meeting", "workshop", "call", "lunch", "review", "lecture", "visit", "party")
_PAPERS = ("report", "invoice", "schedule", "contract", "map", "list", "form", "photos", "minutes", "figures", "letter")
_MACHINES = ("printer", "lift", "projector", "heating", "door", "coffee machine", "telephone", "lamp", "scanner")
_FLOORS = ("first", "second", "third", "fourth", "fifth", "top")
_OFFICES = ("Lisbon", "Leeds", "Lyon", "Oslo", "Turin", "Graz", "Ghent", "Porto", "Bergen", "Cork", "Basel", "Malmo")
_GREETINGS = ("Hello", "Dear", "Hi", "Good morning")
_CLOSINGS = ("Best wishes", "Many thanks", "Regards", "Yours", "See you soon")
_SYLLABLES = (
    "ba be bo da de di fa fe ga go ha he ka ki ko la le li lo ma me mi mo na ne ni no pa pe ra re ri ro sa se si ta "
    "te ti to va ve vi za zo"
).split()
_ENDINGS = ("n", "r", "s", "l", "nd", "rt", "lm", "")


def _name(rng: Random) -> str:
    return ("".join(rng.choice(_SYLLABLES) for _ in range(3)) + rng.choice(_ENDINGS)).capitalize()


_NOTE_FIELDS: dict[str, tuple[str, ...]] = {"topic": _TOPICS, "event": _EVENTS, "paper": _PAPERS, "thing": _MACHINES}
_NOTE_FIELDS |= {"floor": _FLOORS, "place": _OFFICES, "day": DAYS}
_NOTES = """
moved: topic event other: {topic} {event} moved to {day}
  The {topic} {event} planned for {other} will take place on {day} instead.
  We have to move the {topic} {event} from {other} to {day}.
  Please note that we hold the {topic} {event} on {day} and not on {other}.
cancelled: topic event day: No {topic} {event} on {day}
  Unfortunately we have to call off the {topic} {event} on {day}.
  There will be no {topic} {event} on {day} after all.
needed: topic paper day: {topic} {paper} needed by {day}
  Could you send me the {topic} {paper} by {day}?
  I need the {topic} {paper} on my desk by {day}.
  Please let me have the {topic} {paper} before {day} is over.
joins: name place day: {name} from {place} joins us
  From {day} on we will be joined by {name} from our office in {place}.
  Please welcome {name} from {place}, who starts here on {day}.
broken: thing floor day: {thing} on the {floor} floor out of order
  Since {day} the {thing} on the {floor} floor no longer works.
  Do not use the {thing} on the {floor} floor, which broke on {day}.
award: name topic: {topic} prize for {name}
  You may have heard that {name} won this year's {topic} prize.
  The {topic} prize goes to {name} this year.
"""
"""Each kind of note: its fields, in the order in which they are drawn, and its subject; wordings of its sentence."""


def _draw_note(kind: str, rng: Random) -> tuple[str, str]:
    """The sentence that matters, and the subject, of a kind of note given by its lines."""
    head, *wordings = kind.split("\n  ")
    _, fields, form = head.split(": ")
    values: dict[str, str] = {}
    for field in fields.split():
        if field == "other":  # two different days
            values["day"], values["other"] = rng.sample(DAYS, 2)
        else:
            values[field] = _name(rng) if field == "name" else rng.choice(_NOTE_FIELDS[field])
    said, subject = rng.choice(wordings).format(**values), form.format(**values)
    return said, subject[:1].upper() + subject[1:]


def _distraction(rng: Random) -> str:
    name, place, day = _name(rng), rng.choice(_OFFICES), rng.choice(DAYS)
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
    r"""Short office notes and their subjects, drawn by a seed; the origin of each is its kind, such as "notes:moved".

    A note has a greeting, a few sentences with irrelevant days, places and people, the sentence that decides the
    subject, and a name at the end. Names are made of syllables, so that most names of test notes do not occur in
    training: a model with a vocabulary of words can write them only by copying.
    """

    def __init__(self, sentences: tuple[int, int] = (2, 5), seed: int = 1) -> None:
        """Notes with fewest and most `sentences` between greeting and name, including the one that matters."""
        self._sentences, self._seed = sentences, seed

    def stream(self, split: Any) -> Iterator[Pair]:
        check_split(split)
        rng, kinds = Random(f"{self._seed}:{split}"), re.split(r"\n(?! )", _NOTES.strip())

        def draw(kind: str) -> Pair:
            while True:
                matters, subject = _draw_note(kind, rng)
                if split_of(matters) == split:
                    break
            around = [_distraction(rng) for _ in range(rng.randint(*self._sentences) - 1)]
            around.insert(rng.randint(0, len(around)), matters)
            note = f"{rng.choice(_GREETINGS)} {_name(rng)}, {' '.join(around)} {rng.choice(_CLOSINGS)}, {_name(rng)}"
            return Pair(note, subject, origin=f"notes:{kind.partition(':')[0]}")

        return distinct(lambda: rng.choice(kinds), draw)


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, 10_000, 300, 500).parse_args(given)
    for split, count in sizes_of(options).items():
        pairs = NoteSource(seed=options.seed).sample(split, count)
        rows = ({"document": pair.source, "summary": pair.target} for pair in pairs)
        write_json_lines(options.folder / f"{split}.jsonl", rows)


if __name__ == "__main__":
    main()
