r"""Conversations in which a guest books something and asks later what was said before, for dialogue.

    python examples/data/bookings.py bookings
    heed train dialogue bookings/train.jsonl --valid bookings/valid.jsonl --test bookings/test.jsonl \
        data.respond=host tokenizer.kind=word evaluation.select_by=exact_match

The turns of the host follow from the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from arguments import DAYS, arguments, sizes_of, write_json_lines
from heed.data.embedded import Split, check_split, split_of
from heed.data.examples import Conversation

SPEAKERS = ("guest", "host")
_THINGS = ("a table", "a room", "a boat")
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine")
_TIMES = (
    *("noon", "one", "half past one", "two", "six", "half past six", "seven", "half past seven", "eight"),
    *("half past eight", "nine"),
)
_GUESTS = (
    *("Anna", "Tom", "Maria", "Ahmed", "Yuki", "Kofi", "Priya", "Lars", "Chen", "Fatima", "Diego", "Olga", "Bola"),
    *("Sam", "Ines", "Jan", "Lucia", "Omar", "Rosa", "Wei"),
)
_HELLOS = ("Hello,", "Good evening,", "Good morning,", "Hi,")
_WISHES = ("I would like to book", "can I book", "I need", "I want to reserve")
_PARTS = ("people", "day", "time", "name")
_ASKED = dict(zip(_PARTS, ("For how many people?", "For which day?", "At what time?", "In whose name?"), strict=True))
_AGAIN = {
    "people": ("For how many people was it?", "How many of us did I say?"),
    "day": ("Which day was it again?", "What day did we say?"),
    "time": ("At what time was it again?", "When do we have to be there?"),
    "name": ("In whose name was it?", "Which name did you write down?"),
}
_VALUES = {"people": _NUMBERS, "day": DAYS, "time": _TIMES, "name": _GUESTS}


@dataclass(frozen=True)
class _Booking:
    thing: str
    people: str
    day: str
    time: str
    name: str

    def said(self, part: str) -> str:
        """A part with its preposition."""
        before = {"people": "for", "day": "on", "time": "at", "name": "in the name of"}
        return f"{before[part]} {getattr(self, part)}"

    @property
    def whole(self) -> str:
        """The whole booking, as the host repeats it."""
        parts = " ".join(self.said(part) for part in ("people", "day", "time"))
        return f"{self.thing.capitalize()} {parts}, {self.said('name')}. Is that right?"


def draw_bookings(split: Split, count: int, seed: int = 1) -> list[Conversation]:
    """The first conversations of a split, the same each time; a smaller sample is the beginning of a larger one.

    Raises:
        DataError: There is no such split.
    """
    check_split(split)
    rng = Random(f"bookings:{seed}:{split}")
    return [_draw_booking(rng, split, number) for number in range(count)]


def _draw_booking(rng: Random, split: Split, number: int) -> Conversation:
    while True:
        booking = _Booking(rng.choice(_THINGS), *(rng.choice(_VALUES[part]) for part in _PARTS))
        if split_of(booking.whole) == split:
            turns = _talk(rng, booking)
            speakers = tuple(SPEAKERS[n % 2] for n in range(len(turns)))
            return Conversation(tuple(turns), speakers, f"bookings:{split}:{number + 1}")


def _talk(rng: Random, booking: _Booking) -> list[str]:
    """The turns, alternating between guest and host. A guest who corrects a part gave it wrongly before."""
    wrong = rng.choice(_PARTS) if rng.random() < 0.3 else ""
    said = booking
    if wrong:
        others = [value for value in _VALUES[wrong] if value != getattr(booking, wrong)]
        said = replace(booking, **{wrong: rng.choice(others)})
    at_once = [part for part in _PARTS[:3] if rng.random() < 0.35]
    opening = [rng.choice(_HELLOS), rng.choice(_WISHES), booking.thing, *map(said.said, at_once)]
    wish = " ".join(opening)
    turns = [wish + ("?" if "can I" in wish else ".")]
    for number, part in enumerate(part for part in _PARTS if part not in at_once):
        turns.append(_ASKED[part] if number else f"Of course. {_ASKED[part]}")
        turns.append(_given(rng, said, part))
    turns.append(said.whole)
    if wrong:
        turns += [f"No, sorry, {booking.said(wrong)}.", booking.whole]
    turns += [rng.choice(("Yes, thank you.", "Yes.", "That is right.")), f"Done. See you on {booking.day}."]
    for part in rng.sample(_PARTS, rng.choice((0, 1, 1, 2))):
        answer = booking.said(part)
        turns += [rng.choice(_AGAIN[part]), f"{answer[0].upper()}{answer[1:]}."]
    return turns


def _given(rng: Random, booking: _Booking, part: str) -> str:
    """The guest's answer to a question about a part of the booking."""
    answer = getattr(booking, part) if part == "name" else booking.said(part)
    forms = (f"{answer}.", f"{answer}, please.") if part != "name" else (f"{answer}.", f"My name is {answer}.")
    form = rng.choice(forms)
    return form[0].upper() + form[1:]


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, 4_000, 200, 500).parse_args(given)
    for split, count in sizes_of(options).items():
        rows = (
            {"turns": [{"speaker": who, "text": said} for who, said in zip(one.speakers, one.turns, strict=True)]}
            for one in draw_bookings(split, count, options.seed)
        )
        write_json_lines(options.folder / f"{split}.jsonl", rows)


if __name__ == "__main__":
    main()
