"""Embedded texts, made from templates: documents, sentences, notes, stories, meals and conversations.

All are endless and drawn by a seed, which does not decide their split: the first texts of a split are the same each
time, and a smaller sample is the beginning of a larger one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count as endless
from itertools import islice, product
from random import Random
from typing import Any

from heed.data.embedded.generated import DAYS, PairSource, Split, check_range, check_split, distinct, split_of
from heed.data.examples import Conversation, Pair, Sentence, Text
from heed.data.kinds.documents import Document
from heed.errors import DataError, suggest

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
    check_range("sentences", sentences, least=1)
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
_WHEN = ("", "Yesterday", "Once", "Last week", "In the evening", "At school", "On the radio", "After dinner")
_WHO = (
    *("He", "She", "They", "The teacher", "My sister", "His aunt", "Our neighbour", "The reporter", "A student"),
    *("The old man", "Her friend", "The author"),
)
_SAYS = ("said", "thought", "wrote", "knew", "heard", "believed", "told us", "remembered", "read", "claimed")
_THAT = ("", "that", "the other day that", "in a letter that", "with a smile that")
_SURNAMES = ("Roosevelt", "Riley", "Atlas", "Sheringham", "Kollek", "Stadler", "Tamgho", "Dunn")
_OF_PEOPLE = (
    *("was a President", "is a singer", "was born in May", "won the race", "lived in this street", "is tall"),
    *("wrote two books", "was very brave", "came to dinner"),
)
_BEARS = ("bear", "bears", "boy", "coats")
_OF_BEARS = (
    *("is soft", "was on the bed", "is brown", "was very cheap", "fell on the floor", "was a present", "is old"),
    *("lay in this street", "came with a ribbon"),
)


def draw_sentences(split: Split, count: int, seed: int, mirrored: bool = False) -> list[Sentence]:
    """Sentences in which only the next word tells if Teddy is a person: "He said Teddy ..." bear or Roosevelt.

    They come in pairs that are equal up to and including the word Teddy, and their beginning decides the split. A
    network that reads from left to right and has to tag Teddy before it sees the next word is right in exactly half of
    them, however large it is. Source: the example of the lecture notes (docs/systems.md, A6); the grammar is ours.

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
    person = [*said, rng.choice(_SURNAMES), *rng.choice(_OF_PEOPLE).split()]
    thing = [*said, rng.choice(_BEARS), *rng.choice(_OF_BEARS).split()]
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


# Summarisation: notes and their subjects.

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
    """Short office notes and their subjects, drawn by a seed; the origin of each is its kind, such as "notes:moved".

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


# Pretraining: stories.

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


# Dialogue: bookings.

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


# Language modelling: sentences whose probabilities are known, to test ranking with.
#
#     Anna loves eating pizza with my friend        prompt: Anna loves eating pizza with        choice: my friend
#
# A sentence is a person, a verb of liking, an activity, "with", and one of the three choices of the activity, which
# have probabilities 0.7, 0.2 and 0.1 whatever the person and verb. Choices have one to four words. Sentences are held
# out by their prompt: no prompt of the validation and test sets is in the training set of any seed.
#
# Source: the notes' two prompts ("I love eating pizza with ____", "I love playing with ____": chilli flakes / my friend
# / sand, docs/systems.md, C7); the probabilities are not theirs, and the rest of the grammar is ours.

PROBABILITIES = (0.7, 0.2, 0.1)
"""Probabilities of the choices of an activity, in the order below."""
_SEVERAL = ("I", "We", "You", "They", "My parents", "The twins", "Our neighbours", "Both of them", "Most children")
_ONE = (
    *("Anna", "Tom", "Maria", "Ahmed", "Yuki", "Kofi", "Priya", "Lars", "Chen", "Fatima", "Diego", "Olga", "Bola"),
    *("My brother", "Her uncle", "The baker", "Our teacher", "His aunt", "The new girl", "Grandmother", "The driver"),
)
_LIKES = ("love", "like", "enjoy", "prefer")
_CHOICES: dict[str, tuple[str, str, str]] = {
    "eating pizza": ("chilli flakes", "my friend", "sand"),
    "eating soup": ("a wooden spoon", "bread", "my little sister"),
    "eating rice": ("chopsticks", "a lot of butter", "black beans"),
    "eating pancakes": ("maple syrup", "jam", "a cup of tea"),
    "eating salad": ("a pinch of salt", "olive oil", "nuts"),
    "eating noodles": ("two long chopsticks", "peanuts", "my old aunt"),
    "eating dinner": ("the whole big family", "candles", "loud music"),
    "eating apples": ("cheese", "a small knife", "peanut butter"),
    "eating curry": ("flat bread", "a glass of milk", "rice"),
    "eating fish": ("a slice of lemon", "chips", "green peas"),
    "drinking tea": ("milk", "two sugar cubes", "the lady next door"),
    "drinking coffee": ("my best friend", "cream", "a piece of cake"),
    "drinking juice": ("ice", "a paper straw", "the boys from school"),
    "drinking cocoa": ("whipped cream", "cinnamon", "a bit of chilli"),
    "playing": ("my friend", "sand", "chilli flakes"),
    "playing chess": ("my grandfather", "a ticking clock", "strangers"),
    "playing cards": ("friends", "a very old deck", "the night nurse"),
    "playing tennis": ("a new racket", "Sam", "the girl next door"),
    "playing football": ("boys", "my tall cousin", "a ball of rags"),
    "playing music": ("an electric guitar", "drums", "a band of friends"),
    "playing darts": ("the two old sailors", "colleagues", "my left hand"),
    "playing outside": ("the dog", "a kite", "kids"),
    "cooking": ("fresh herbs", "garlic", "a lot of noise"),
    "cooking lunch": ("the radio on", "leftovers", "a friend from work"),
    "cooking pasta": ("basil", "tomato sauce", "far too much salt"),
    "cooking breakfast": ("eggs", "my husband", "both eyes still closed"),
    "walking": ("my dog", "music", "a heavy old rucksack"),
    "walking home": ("a colleague", "an umbrella", "groceries"),
    "travelling": ("one small suitcase", "children", "a map"),
    "travelling abroad": ("a friend who cooks", "a guide", "little money"),
    "watching films": ("popcorn", "subtitles", "the lights turned off"),
    "watching football": ("my noisy uncle", "beer", "a bag of crisps"),
    "reading novels": ("a cat", "a cup of coffee", "glasses"),
    "reading recipes": ("a pencil", "hunger", "a large empty plate"),
    "baking bread": ("a warm oven", "yeast", "flour on both hands"),
    "gardening": ("gloves", "my quiet wife", "a tin watering can"),
}
"""Activity -> its choices, the most probable first."""


@cache
def _activities() -> dict[str, str]:
    """Every prompt and its activity."""
    people = [*((who, "") for who in _SEVERAL), *((who, "s") for who in _ONE)]
    return {
        f"{who} {like}{ending} {activity} with": activity
        for (who, ending), like, activity in product(people, _LIKES, _CHOICES)
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
    known = _activities()
    if prompt not in known:
        raise DataError(f"the grammar of meals has no prompt '{prompt}'{suggest(prompt, known)}")
    return dict(zip(_CHOICES[known[prompt]], PROBABILITIES, strict=True))


def draw_meals(split: Split, count: int, seed: int) -> list[Document]:
    """Draw the first `count` sentences of a split: a uniformly drawn prompt, and a choice drawn by its probability."""
    rng, known = Random(f"{seed}:{split}"), prompts(split)
    drawn = []
    for _ in range(count):
        prompt = rng.choice(known)
        choice = rng.choices(list(distribution(prompt)), PROBABILITIES)[0]
        drawn.append(Document(f"{prompt} {choice}", f"meals:{_activities()[prompt]}"))
    return drawn
