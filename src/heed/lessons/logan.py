"""A lesson without training: four turns about a film, read turn by turn and answered by a decoder, all by hand.

One recurrent network reads the words of each turn, a second one reads the turns, and a decoder writes the answer; then
attention to the turns, and to the words in them, recovers the film named two turns ago. The arithmetic is that of
Serban et al. 2016 (arXiv:1507.04808) with simple cells; attention to turns and words is ours, in the form of `hred`.
"""

from __future__ import annotations

import torch

from heed.lessons.parts import Script, Stage, Table, double
from heed.lessons.turns import (
    OUTPUTS,
    STATE,
    TOPICS,
    WORDS,
    Answer,
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
    words, film = torch.stack([embedding(word) for word in WORDS]), reading.dialogue[2, 0]
    said = [
        f"turn {n + 1}, speaker {'AB'[n % 2]}: {turn}" for n, turn in enumerate((*TURNS, "Hugh Jackman , of course"))
    ]
    read = {f"turn {n + 1}": states for n, states in enumerate(reading.words)}
    tables = (
        Table(f"{name}: h", tuple(turn.split()), TOPICS, states)
        for turn, (name, states) in zip(TURNS, read.items(), strict=True)
    )
    wish = [("wish after 'suggest'", 0.762, reading.words[0][2, 2])]
    wish.append(("wish after 'a': tanh(0.8 * 0.762)", 0.544, reading.words[0][3, 2]))
    of_decoder = {"states": plain.states, "probabilities": plain.probabilities, **{n: weights[n] for n in "SEDO"}}
    of_turns = {"scores": looking.scores, "weights": looking.turns, "A": weights["A"]}
    scores = Table("scores s' A d", _STEPS, _TURNS, looking.scores)
    ends = Table("utterance vectors u", _TURNS, TOPICS, reading.utterances, notes=TURNS)
    z, states = Table("Z", TOPICS, TOPICS, weights["Z"]), Table("dialogue states d", _TURNS, TOPICS, reading.dialogue)
    o = Table("O, on s and c", OUTPUTS, (*STATE, *(f"c {topic}" for topic in TOPICS)), weights["O"])
    shares = Table("weights of the turns", _STEPS, _TURNS, looking.turns, heat=True)
    return (
        _stage("conversation", {"embeddings": words}, Table("embeddings x", (*WORDS,), TOPICS, words), lines=said),
        _stage("words", {**read, "U": weights["U"]}, *tables, checks=wish),
        _stage("utterances", {"utterances": reading.utterances}, ends),
        _stage("dialogue", {"states": reading.dialogue, "V": weights["V"], "Z": weights["Z"]}, z, states,
               checks=[("film after turn 3: tanh(0.8 * 0.496)", 0.377, film)]),
        _stage("decoder", of_decoder, o, Table("decoder states s", _STEPS, STATE, plain.states), _probabilities(plain),
               written=_written(plain), leonardo=plain.probabilities[0, 1]),
        _stage("turns", of_turns, Table("A, row 'actor'", ("actor",), TOPICS, weights["A"][3:4]), scores, shares,
               checks=[("sum of the weights at step 1", 1.0, looking.turns[0].sum())]),
        _inside(looking),
        _stage("response", {"contexts": looking.contexts, "probabilities": looking.probabilities},
               Table("contexts c", _STEPS, TOPICS, looking.contexts), _probabilities(looking),
               checks=[("probability of Hugh", 0.997, looking.probabilities[0, 0])], written=_written(looking)),
        _stage("other-film", {"probabilities": other.probabilities, "turns": other.turns}, _probabilities(other),
               written=_written(other)),
        _distance(),
        _cost(),
    )  # fmt: skip


def _written(answer: Answer) -> str:
    said = " ".join(word for word in answer.words if word != "<end>").replace(" ,", ",")
    return f"Output, the most probable word at each step: {said}."


def _probabilities(answer: Answer) -> Table:
    rows = tuple(f"{t + 1} {word}" for t, word in enumerate(answer.words))
    return Table("probabilities of the words", rows, OUTPUTS, answer.probabilities, heat=True)


def _inside(looking: Answer) -> Stage:
    tables, total = [], 0.0
    for name, turn, share, weights in zip(_TURNS, TURNS, looking.turns[0], looking.inside, strict=True):
        both = torch.stack([weights[0], share * weights[0]])
        total += float(both[1].sum())
        title = f"{name}, whose weight is {float(share):.3f}"
        tables.append(Table(title, ("beta", "alpha beta"), tuple(turn.split()), both, heat=True))
    checks = [("sum over all words of all turns", 1.0, total)]
    return _stage("inside", dict(zip(_TURNS, looking.inside, strict=True)), *tables, checks=checks)


def _distance() -> Stage:
    rows, weights = [], chosen_weights()
    for count in _BETWEEN:
        reading = read_turns((*TURNS[:2], *[_FILLER] * count, TURNS[2]), weights)
        both = [write_answer(reading, weights, attends=attends) for attends in (False, True)]
        rows.append([float(reading.dialogue[-1, 1]), *(float(one.probabilities[0, 0]) for one in both)])
    names, values = tuple(f"{count} turns between" for count in _BETWEEN), double(rows)
    table = Table("probability of Hugh at step 1", names, ("which, in d", "without", "with"), values)
    return _stage("distance", {"values": values}, table, filler=_FILLER, most=max(_BETWEEN))


def _cost() -> Stage:
    own = [len(turn.split()) for turn in TURNS]
    rows = [[len(own), sum(own), sum(sum(own[: n + 1]) for n in range(len(own)))]]
    rows += [[turns, 8 * turns, 8 * turns * (turns + 1) // 2] for turns in (5, 10, 20)]
    names, values = ("this conversation", *(f"{row[0]} turns of 8 words" for row in rows[1:])), double(rows)
    table = Table("words read in training", names, ("turns read", "turn by turn", "joined"), values)
    return _stage("cost", {"counts": values}, table, checks=[("7 + 15 + 23 words of joined history", 45, values[0, 2])])
