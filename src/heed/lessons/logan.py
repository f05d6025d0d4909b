"""A lesson without training: four turns about a film, read turn by turn and answered by a decoder, all by hand.

One recurrent network reads the words of each turn, a second one reads the turns, and a decoder writes the answer; then
attention to the turns, and to the words in them, recovers the film named two turns ago. The arithmetic is that of
Serban et al. 2016 (arXiv:1507.04808) with simple cells; attention to turns and words is ours, in the form of `hred`.
"""

from __future__ import annotations

from typing import Any

import torch

from heed.lessons.parts import Script, Stage, double
from heed.lessons.turns import (
    OUTPUTS,
    STATE,
    TOPICS,
    WORDS,
    Answer,
    Weights,
    chosen_weights,
    embedding,
    read_turns,
    write_answer,
)

TITLE = "Can you suggest a good movie? Yes, sure. How about Logan? Okay, who is the lead actor?"
SOURCE = "The four turns are from the lecture notes; the numbers are ours, chosen to be readable; nothing is trained."
TURNS = ("Can you suggest a good movie ?", "Yes , sure . How about Logan ?", "Okay , who is the lead actor ?")
ANSWER = ("Hugh", "Jackman", ",", "of", "course", "<end>")
_FILLER = "That sounds fine ."
_BETWEEN = (0, 1, 2, 4, 8)
_STEPS = [f"{t + 1} {word}" for t, word in enumerate(ANSWER)]
_READ = {f"turn {n}": turn.split() for n, turn in enumerate(TURNS, start=1)}
_stage = Script("logan", steps=_STEPS, outputs=OUTPUTS, topics=TOPICS, state=STATE, words=WORDS, **_READ)


def stages() -> tuple[Stage, ...]:
    """All stages."""
    weights = chosen_weights()
    reading = read_turns(TURNS, weights)
    plain, looking = write_answer(reading, weights, attends=False), write_answer(reading, weights)
    other = write_answer(read_turns([turn.replace("Logan", "Titanic") for turn in TURNS], weights), weights)
    speakers = enumerate((*TURNS, "Hugh Jackman , of course"))
    said = [f"turn {n + 1}, speaker {'AB'[n % 2]}: {turn}" for n, turn in speakers]
    wish = [("wish after 'suggest'", 0.762, reading.words[0][2, 2])]
    wish.append(("wish after 'a': tanh(0.8 * 0.762)", 0.544, reading.words[0][3, 2]))
    film = [("film after turn 3: tanh(0.8 * 0.496)", 0.377, reading.dialogue[2, 0])]
    sums = [("sum of the weights at step 1", 1.0, looking.turns[0].sum())]
    hugh = [("probability of Hugh", 0.997, looking.probabilities[0, 0])]
    shares = {f"share {n}": share for n, share in enumerate(looking.turns[0], start=1)}
    products = [torch.stack([w[0], share * w[0]]) for share, w in zip(looking.turns[0], looking.inside, strict=True)]
    whole = [("sum over all words of all turns", 1.0, sum(float(both[1].sum()) for both in products))]
    both = {f"both {n}": one for n, one in enumerate(products, start=1)}
    attends = {"weights": looking.turns, "actor": weights["A"][3], "A": weights["A"]}
    return (
        _stage("conversation", embeddings=torch.stack([embedding(word) for word in WORDS]), lines=said),
        _stage("words", **dict(zip(_READ, reading.words, strict=True)), U=weights["U"], checks=wish),
        _stage("utterances", utterances=reading.utterances, utterances_notes=TURNS),
        _stage("dialogue", states=reading.dialogue, V=weights["V"], Z=weights["Z"], checks=film),
        _stage("decoder", states=plain.states, **{name: weights[name] for name in "SEDO"}, **_written(plain)),
        _stage("turns", scores=looking.scores, checks=sums, **attends),
        _stage("inside", **dict(zip(_READ, looking.inside, strict=True)), **both, **shares, checks=whole),
        _stage("response", contexts=looking.contexts, checks=hugh, **_written(looking)),
        _stage("other-film", turns=other.turns, **_written(other)),
        _distances(weights),
    )


def _written(answer: Answer) -> dict[str, Any]:
    """The answer as a sentence, and the probabilities of its words."""
    said = " ".join(word for word in answer.words if word != "<end>").replace(" ,", ",")
    rows, leonardo = [f"{t + 1} {word}" for t, word in enumerate(answer.words)], float(answer.probabilities[0, 1])
    return {"probabilities": answer.probabilities, "rows": rows, "written": said, "leonardo": leonardo}


def _distances(weights: Weights) -> Stage:
    """What is left of the film after more and more turns, and of the probability of the right name."""
    rows = []
    for count in _BETWEEN:
        reading = read_turns((*TURNS[:2], *[_FILLER] * count, TURNS[2]), weights)
        both = [write_answer(reading, weights, attends=attends) for attends in (False, True)]
        rows.append([float(reading.dialogue[-1, 1]), *(float(one.probabilities[0, 0]) for one in both)])
    names = [f"{count} turns between" for count in _BETWEEN]
    return _stage("distance", values=double(rows), counts=names, filler=_FILLER, most=max(_BETWEEN))
