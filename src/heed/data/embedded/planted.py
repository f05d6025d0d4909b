"""Documents of many sentences, one of which decides: a word in it gives the label, all others are uninformative.

A quarter of the documents have no such word and the label "other"; otherwise one label could be predicted from finding
no word of the others. All else is drawn uniformly. A model's attention can be compared with the deciding word.

Source: the idea of planted evidence, as in E21 of the lecture notes' claims; the sentences are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count as endless
from itertools import islice
from random import Random

from heed.data.embedded.generated import Split, check_range, split_of
from heed.data.examples import Text

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
_LENGTHS = (4, 14)


@dataclass(frozen=True)
class Planted:
    """A document with its label, the deciding sentence (from 0, or None) and the deciding word (or "")."""

    text: Text
    sentence: int | None
    word: str


def draw_documents(split: Split, count: int, sentences: tuple[int, int], seed: int) -> list[Planted]:
    """The first `count` documents of a split, with `sentences` (fewest, most).

    Raises:
        DataError: `sentences` is not a range.
    """
    check_range("sentences", sentences, least=1)
    rng = Random(f"{seed}:{split}")
    drawn = (_draw(rng, sentences) for _ in endless())
    return list(islice((document for document in drawn if split_of(document.text.text) == split), count))


def _draw(rng: Random, sentences: tuple[int, int]) -> Planted:
    label = rng.choice([*DECIDING, OTHER])
    lines = [rng.choices(_FILLER, k=rng.randint(*_LENGTHS)) for _ in range(rng.randint(*sentences))]
    place, word = None, ""
    if label != OTHER:
        place, word = rng.randrange(len(lines)), rng.choice(DECIDING[label])
        lines[place].insert(rng.randrange(len(lines[place]) + 1), word)
    text = " ".join(" ".join(line).capitalize() + "." for line in lines)
    return Planted(Text(text, (label,), origin=f"planted:{label}"), place, word)
