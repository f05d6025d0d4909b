"""A lesson without training: four turns about a film, read turn by turn and answered by a decoder, all by hand.

One recurrent network reads the words of each turn, a second one reads the turns, and a decoder writes the answer; then
attention to the turns, and to the words in them, recovers the film named two turns ago.

    h_nj     = tanh(U h_n,j-1 + x_nj)                       state after word j of turn n; u_n is the last of its turn
    d_n      = tanh(V d_n-1 + Z u_n)                        dialogue state after turn n
    s_0      = tanh(D d_N)                                  decoder state before the first word
    s_t      = tanh(S s_t-1 + E y_t-1 + D d_N)              decoder state, y_t-1 the previous word
    alpha_tn = softmax_n(s_t' A d_n)                        weight of turn n
    beta_tnj = softmax_j(s_t' A h_nj)                       weight of word j within turn n
    c_t      = sum_n alpha_tn sum_j beta_tnj h_nj           context
    p_t      = softmax(O [s_t; c_t])                        probabilities of the next word

Source: Serban et al. 2016 (arXiv:1507.04808), sections 3 and 4, for encoder and decoder.
Differs from the paper: simple cells; d_N also enters every step; attention, which the paper does not have. It is the
model `hred` with the fields `cell: rnn, bidirectional: false, word_attention: true, turn_attention: true`, in which the
two scores share A and the weights of the turns' own context are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heed.lessons.parts import Script, Stage, double

STEPS = 6
"""Words that can be written, including the end token."""
OUTPUTS = ("Hugh", "Leonardo", "Jackman", "DiCaprio", ",", "of", "course", "<end>")
_START = "<start>"
_EMBEDDINGS: dict[str, dict[str, float]] = {  # by topic: the numbers of words; all others are zeros
    "film": {"Logan": 1.0, "Titanic": 1.0},
    "which": {"Logan": 1.0, "Titanic": -1.0},
    "wish": {"suggest": 1.0, "good": 0.5, "movie": 1.0},
    "actor": {"who": 0.5, "lead": 0.5, "actor": 1.0},
}
WORDS = ("suggest", "good", "movie", "Logan", "Titanic", "who", "lead", "actor")
"""Words that are read whose embeddings are not zeros."""
TOPICS = tuple(_EMBEDDINGS)
"""Names of the four numbers of an embedding, a word state, a dialogue state and a context."""
STATE = (*TOPICS, "place 1", "place 2", "place 3")
"""Names of the seven numbers of a decoder state."""
_SIGNS = {_START: "---", "Hugh": "+--", "Leonardo": "+--", "Jackman": "-+-", "DiCaprio": "-+-"}
_SIGNS |= {",": "--+", "of": "++-", "course": "+-+"}
"""Embeddings of the words that are written: three signs that encode the place in the answer."""
_AFTER = dict(zip(OUTPUTS, (_START, _START, "Hugh", "Hugh", "Jackman", ",", "of", "course"), strict=True))
"""The previous word of each word of the answer."""


Weights = dict[str, Tensor]
"""Matrices by their letters above, applied to column vectors: a new state is a matrix times an old state."""


class Answer(NamedTuple):
    """All results of the decoder, one row for each word that it wrote."""

    words: tuple[str, ...]
    states: Tensor  # (t, 7)
    probabilities: Tensor  # (t, 8)
    scores: Tensor  # (t, turns)
    turns: Tensor  # (t, turns), weights of the turns
    inside: tuple[Tensor, ...]  # of each turn (t, words), weights of its words, which sum to 1
    contexts: Tensor  # (t, 4)


class Reading(NamedTuple):
    """States of the two encoders."""

    words: tuple[Tensor, ...]  # of each turn (words, 4)
    utterances: Tensor  # (turns, 4)
    dialogue: Tensor  # (turns, 4)


def chosen_weights() -> Weights:
    """The chosen numbers.

    U, V and Z are `(4, 4)`, S `(7, 7)`, E `(7, 3)`, D and A `(7, 4)`, O, on state and context, `(8, 11)`.
    """
    eye, e, a, o = (torch.zeros(size, dtype=torch.float64) for size in ((7, 7), (7, 3), (7, 4), (8, 11)))
    eye[:4, :4] = torch.eye(4)  # the topics
    z, e[4:] = eye[:4, :4].clone(), 2 * torch.eye(3)
    z[2, 0] = -1.0  # a film that is named fulfils the wish for one
    a[3] = torch.tensor([12.0, 0.0, 0.0, -6.0])  # asked for an actor: look for a film, and not for the question itself
    for row, word in enumerate(OUTPUTS):
        o[row, 4:7] = 4 * written(_AFTER[word])
        if _AFTER[word] in (_START, "Hugh"):
            sign = 1.0 if word in ("Hugh", "Jackman") else -1.0
            o[row, 1], o[row, 8] = 2 * sign, 3 * sign
    decay = 0.8 * eye[:4, :4]
    return {"U": decay, "V": decay, "Z": z, "S": 0.4 * eye, "E": e, "D": eye[:, :4], "A": a, "O": o}


def read_turns(turns: Sequence[str], weights: Weights) -> Reading:
    """Both encoders, word by word and turn by turn."""
    words = [_states(weights["U"], [embedding(word) for word in turn.split()]) for turn in turns]
    utterances = torch.stack([states[-1] for states in words])
    return Reading(tuple(words), utterances, _states(weights["V"], [weights["Z"] @ u_n for u_n in utterances]))


def _states(matrix: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """The states of a recurrent network, from zeros on: tanh(matrix state + input)."""
    states = [torch.zeros(4, dtype=torch.float64)]
    for input in inputs:
        states.append(torch.tanh(matrix @ states[-1] + input))
    return torch.stack(states[1:])


def embedding(word: str) -> Tensor:
    """The embedding `(4,)` of a word that is read."""
    return double([numbers.get(word, 0.0) for numbers in _EMBEDDINGS.values()])


def written(word: str) -> Tensor:
    """The embedding `(3,)` of a word that is written."""
    return double([float(f"{sign}1") for sign in _SIGNS[word]])


def write_answer(reading: Reading, weights: Weights, *, attends: bool = True) -> Answer:
    """Write the six most probable words one by one, with attention to turns and words, or with a context of zeros."""
    last = reading.dialogue[-1]
    state, word = torch.tanh(weights["D"] @ last), _START
    words, rows = [], []
    for _ in range(STEPS):
        state = torch.tanh(weights["S"] @ state + weights["E"] @ written(word) + weights["D"] @ last)
        query = state @ weights["A"]
        scores = reading.dialogue @ query
        turns = torch.softmax(scores, 0)
        inside = [torch.softmax(states @ query, 0) for states in reading.words]
        parts = [share * (w @ states) for share, w, states in zip(turns, inside, reading.words, strict=True)]
        context = torch.stack(parts).sum(0) if attends else torch.zeros(4, dtype=torch.float64)
        probabilities = torch.softmax(weights["O"] @ torch.cat([state, context]), 0)
        word = OUTPUTS[int(probabilities.argmax())]
        words.append(word)
        rows.append((state, probabilities, scores, turns, context, *inside))
    states, probs, turn_scores, turn_weights, contexts, *insides = map(torch.stack, zip(*rows, strict=True))
    return Answer(tuple(words), states, probs, turn_scores, turn_weights, tuple(insides), contexts)


# The lesson ----------------------------------------------------------------------------------------------------------


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
    lines = [f"turn {n + 1}, speaker {'AB'[n % 2]}: {turn}" for n, turn in speakers]
    wish = [("wish after 'suggest'", 0.762, reading.words[0][2, 2])]
    wish.append(("wish after 'a': tanh(0.8 * 0.762)", 0.544, reading.words[0][3, 2]))
    film = [("film after turn 3: tanh(0.8 * 0.496)", 0.377, reading.dialogue[2, 0])]
    sums = [("sum of the weights at step 1", 1.0, looking.turns[0].sum())]
    hugh = [("probability of Hugh", 0.997, looking.probabilities[0, 0])]
    turn_weights = {f"share {n}": share for n, share in enumerate(looking.turns[0], start=1)}
    products = [torch.stack([w[0], share * w[0]]) for share, w in zip(looking.turns[0], looking.inside, strict=True)]
    whole = [("sum over all words of all turns", 1.0, sum(float(both[1].sum()) for both in products))]
    both = {f"both {n}": product for n, product in enumerate(products, start=1)}
    attends = {"weights": looking.turns, "actor": weights["A"][3], "A": weights["A"]}
    return (
        _stage("conversation", embeddings=torch.stack([embedding(word) for word in WORDS]), lines=lines),
        _stage("words", **dict(zip(_READ, reading.words, strict=True)), U=weights["U"], checks=wish),
        _stage("utterances", utterances=reading.utterances, utterances_notes=TURNS),
        _stage("dialogue", states=reading.dialogue, V=weights["V"], Z=weights["Z"], checks=film),
        _stage("decoder", states=plain.states, **{name: weights[name] for name in "SEDO"}, **_written(plain)),
        _stage("turns", scores=looking.scores, checks=sums, **attends),
        _stage("inside", **dict(zip(_READ, looking.inside, strict=True)), **both, **turn_weights, checks=whole),
        _stage("response", contexts=looking.contexts, checks=hugh, **_written(looking)),
        _stage("other-film", turns=other.turns, **_written(other)),
        _distances(weights),
    )


def _written(answer: Answer) -> dict[str, Any]:
    """The answer as a sentence, and the probabilities of its words."""
    sentence = " ".join(word for word in answer.words if word != "<end>").replace(" ,", ",")
    rows, leonardo = [f"{t + 1} {word}" for t, word in enumerate(answer.words)], float(answer.probabilities[0, 1])
    return {"probabilities": answer.probabilities, "rows": rows, "written": sentence, "leonardo": leonardo}


def _distances(weights: Weights) -> Stage:
    """The state's number for film after more and more turns, and the probability of the right name."""
    rows = []
    for count in _BETWEEN:
        reading = read_turns((*TURNS[:2], *[_FILLER] * count, TURNS[2]), weights)
        both = [write_answer(reading, weights, attends=attends) for attends in (False, True)]
        rows.append([float(reading.dialogue[-1, 1]), *(float(answer.probabilities[0, 0]) for answer in both)])
    names = [f"{count} turns between" for count in _BETWEEN]
    return _stage("distance", values=double(rows), counts=names, filler=_FILLER, most=max(_BETWEEN))
