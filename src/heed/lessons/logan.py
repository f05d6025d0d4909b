"""A lesson without training: four turns about a film, read turn by turn and answered by a decoder, all by hand.

One recurrent network reads the words of each turn, a second one reads the turns, and a decoder writes the answer; then
attention to the turns, and to the words in them, recovers the film named two turns ago. The arithmetic is that of
Serban et al. 2016 (arXiv:1507.04808) with simple cells; attention to turns and words is ours, in the form of `hred`.
"""

from __future__ import annotations

from typing import Any

import torch

from heed.lessons.parts import Script, Stage, Table, table_of
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
_TURNS = ("turn 1", "turn 2", "turn 3")
_STEPS = tuple(f"{t + 1} {word}" for t, word in enumerate(ANSWER))
_stage = Script("logan")


def stages() -> tuple[Stage, ...]:
    """All stages."""
    weights = chosen_weights()
    reading = read_turns(TURNS, weights)
    plain, looking = write_answer(reading, weights, attends=False), write_answer(reading, weights)
    other = write_answer(read_turns([turn.replace("Logan", "Titanic") for turn in TURNS], weights), weights)
    said = enumerate((*TURNS, "Hugh Jackman , of course"))
    read = {
        name: table_of(f"{name}: h", turn.split(), TOPICS, states)
        for name, turn, states in zip(_TURNS, TURNS, reading.words, strict=True)
    }
    wish = [("wish after 'suggest'", 0.762, reading.words[0][2, 2])]
    wish.append(("wish after 'a': tanh(0.8 * 0.762)", 0.544, reading.words[0][3, 2]))
    inside = {
        name: torch.stack([weights[0], share * weights[0]])
        for name, share, weights in zip(_TURNS, looking.turns[0], looking.inside, strict=True)
    }
    shares = (
        table_of(f"{name}, whose weight is {float(share):.3f}", ("beta", "alpha beta"), turn.split(), both, heat=True)
        for share, turn, (name, both) in zip(looking.turns[0], TURNS, inside.items(), strict=True)
    )
    return (
        _stage(
            "conversation",
            embeddings=table_of("embeddings x", WORDS, TOPICS, torch.stack([embedding(word) for word in WORDS])),
            lines=[f"turn {n + 1}, speaker {'AB'[n % 2]}: {turn}" for n, turn in said],
        ),
        _stage("words", **read, U=weights["U"], checks=wish),
        _stage(
            "utterances", utterances=table_of("utterance vectors u", _TURNS, TOPICS, reading.utterances, notes=TURNS)
        ),
        _stage(
            "dialogue",
            Z=table_of("Z", TOPICS, TOPICS, weights["Z"]),
            states=table_of("dialogue states d", _TURNS, TOPICS, reading.dialogue),
            V=weights["V"],
            checks=[("film after turn 3: tanh(0.8 * 0.496)", 0.377, reading.dialogue[2, 0])],
        ),
        _stage(
            "decoder",
            O=table_of("O, on s and c", OUTPUTS, (*STATE, *(f"c {topic}" for topic in TOPICS)), weights["O"]),
            states=table_of("decoder states s", _STEPS, STATE, plain.states),
            **{name: weights[name] for name in "SED"},
            **_written(plain),
        ),
        _stage(
            "turns",
            table_of("A, row 'actor'", ("actor",), TOPICS, weights["A"][3]),
            scores=table_of("scores s' A d", _STEPS, _TURNS, looking.scores),
            weights=table_of("weights of the turns", _STEPS, _TURNS, looking.turns, heat=True),
            A=weights["A"],
            checks=[("sum of the weights at step 1", 1.0, looking.turns[0].sum())],
        ),
        _stage(
            "inside",
            *shares,
            **dict(zip(_TURNS, looking.inside, strict=True)),
            checks=[("sum over all words of all turns", 1.0, sum(float(both[1].sum()) for both in inside.values()))],
        ),
        _stage(
            "response",
            contexts=table_of("contexts c", _STEPS, TOPICS, looking.contexts),
            checks=[("probability of Hugh", 0.997, looking.probabilities[0, 0])],
            **_written(looking),
        ),
        _stage("other-film", turns=other.turns, **_written(other)),
        _stage("distance", values=_distances(weights), filler=_FILLER, most=max(_BETWEEN)),
    )


def _written(answer: Answer) -> dict[str, Any]:
    """The answer as a sentence, and the probabilities of its words."""
    said = " ".join(word for word in answer.words if word != "<end>").replace(" ,", ",")
    rows = (f"{t + 1} {word}" for t, word in enumerate(answer.words))
    table = table_of("probabilities of the words", rows, OUTPUTS, answer.probabilities, heat=True)
    return {"probabilities": table, "written": said, "leonardo": float(answer.probabilities[0, 1])}


def _distances(weights: Weights) -> Table:
    """What is left of the film after more and more turns, and of the probability of the right name."""
    rows = []
    for count in _BETWEEN:
        reading = read_turns((*TURNS[:2], *[_FILLER] * count, TURNS[2]), weights)
        both = [write_answer(reading, weights, attends=attends) for attends in (False, True)]
        rows.append([float(reading.dialogue[-1, 1]), *(float(one.probabilities[0, 0]) for one in both)])
    names, columns = (f"{count} turns between" for count in _BETWEEN), ("which, in d", "without", "with")
    return table_of("probability of Hugh at step 1", names, columns, rows)
