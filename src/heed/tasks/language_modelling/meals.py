"""Embedded data `meals`: short sentences of a grammar whose probabilities are known, to test ranking with.

    Anna loves eating pizza with my friend        prompt: Anna loves eating pizza with        choice: my friend

A sentence is a person, a verb of liking, an activity, "with", and one of the three choices of the activity, which
have probabilities 0.7, 0.2 and 0.1 whatever the person and verb. Choices have one to four words. Sentences are
held out by their prompt: no prompt of the validation and test sets is in the training set of any seed.

Source: the notes' two prompts ("I love eating pizza with ____", "I love playing with ____": chilli flakes / my friend /
sand, docs/systems.md, C7); the probabilities are not theirs, and the rest of the grammar is ours.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from random import Random
from typing import TYPE_CHECKING

from heed.data.embedded.generated import SPLITS, Split, split_of
from heed.data.kinds.documents import Document
from heed.data.splits.splits import Splits, drawn_splits
from heed.errors import DataError, suggest

if TYPE_CHECKING:
    from heed.tasks.language_modelling.config import MealsData

PROBABILITIES = (0.7, 0.2, 0.1)
"""Probabilities of the choices of an activity, in the order below."""
_PEOPLE = ("I", "We", "You", "They", "My parents", "The twins", "Our neighbours", "Both of them", "Most children")
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
    people = [*((who, "") for who in _PEOPLE), *((who, "s") for who in _ONE)]
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


def draw_documents(split: Split, count: int, seed: int) -> list[Document]:
    """Draw the first `count` sentences of a split: a uniformly drawn prompt, and a choice drawn by its probability."""
    rng, known = Random(f"{seed}:{split}"), prompts(split)
    drawn = []
    for _ in range(count):
        prompt = rng.choice(known)
        choice = rng.choices(list(distribution(prompt)), PROBABILITIES)[0]
        drawn.append(Document(f"{prompt} {choice}", f"meals:{_activities()[prompt]}"))
    return drawn


def open_meals(data: MealsData) -> Splits[Document]:
    """The sentences of every split."""
    counts = {"train": data.train, "valid": data.valid, "test": data.test}
    drawn: dict[str, list[Document]] = {split: draw_documents(split, counts[split], data.seed) for split in SPLITS}
    return drawn_splits(drawn, data.name, "documents")
