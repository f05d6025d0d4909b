"""A lesson without training: four turns about a film, read turn by turn and answered by a decoder, all by hand.

One recurrent network reads the words of each turn, a second one reads the turns, and a decoder writes the answer; then
attention to the turns, and to the words in them, recovers the film named two turns ago. The arithmetic is that of
Serban et al. 2016 (arXiv:1507.04808) with simple cells; attention to turns and words is ours, in the form of `hred`.
"""

from __future__ import annotations

import torch

from heed.lessons.parts import Check, Stage, Table, double
from heed.lessons.turns import (
    OUTPUTS,
    STATE,
    TOPICS,
    WORDS,
    Answer,
    Reading,
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


def logan_stages() -> tuple[Stage, ...]:
    """All stages."""
    weights = chosen_weights()
    reading = read_turns(TURNS, weights)
    plain, looking = write_answer(reading, weights, attends=False), write_answer(reading, weights)
    return (
        _conversation(),
        _word_states(reading, weights),
        _utterances(reading),
        _dialogue(reading, weights),
        _decoder(plain, weights),
        _turns(looking, weights),
        _inside(looking),
        _response(looking),
        _other_film(weights),
        _distance(weights),
        _cost(),
    )


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"turn {n + 1}" for n in range(count))


def _steps() -> tuple[str, ...]:
    return tuple(f"{t + 1} {word}" for t, word in enumerate(ANSWER))


def _conversation() -> Stage:
    words = (*WORDS,)
    values = torch.stack([embedding(word) for word in words])
    said = (*TURNS, "Hugh Jackman , of course")
    return Stage(
        "conversation",
        "four turns, and the embeddings of their words",
        (
            "The fourth turn answers the third, but the third does not say which film is meant: the second does.",
            "Each word has four numbers: a film is named; which film (1 for Logan, -1 for Titanic, which is tried "
            "later); a suggestion is wanted; an actor is asked for. Words that are not in the table have four zeros.",
        ),
        "",
        {"embeddings": values},
        (Table("embeddings x", words, TOPICS, values),),
        lines=tuple(f"turn {n + 1}, speaker {'AB'[n % 2]}: {turn}" for n, turn in enumerate(said)),
    )


def _word_states(reading: Reading, weights: Weights) -> Stage:
    tables = [
        Table(f"turn {n + 1}: h", tuple(turn.split()), TOPICS, states)
        for n, (turn, states) in enumerate(zip(TURNS, reading.words, strict=True))
    ]
    return Stage(
        "words",
        "the first recurrent network reads the words of one turn",
        (
            "It starts from zeros in every turn, so turns do not depend on one another and can be read in parallel.",
            "U is 0.8 on the diagonal and 0 elsewhere: four fifths of each number stay, the word's own are added, and "
            "tanh keeps the sum between -1 and 1. After 'suggest' the wish is tanh(1) = 0.762, after 'a' tanh(0.61).",
        ),
        "h_nj = tanh(U h_n,j-1 + x_nj)",
        {f"turn {n + 1}": states for n, states in enumerate(reading.words)} | {"U": weights.u},
        tuple(tables),
        checks=(
            Check("wish after 'suggest'", 0.762, float(reading.words[0][2, 2])),
            Check("wish after 'a': tanh(0.8 * 0.762)", 0.544, float(reading.words[0][3, 2])),
        ),
    )


def _utterances(reading: Reading) -> Stage:
    return Stage(
        "utterances",
        "one vector for each turn",
        (
            "The last state of a turn stands for the whole turn. The second network reads only these vectors.",
            "It still has the topics of the turn, weakened by the words after them, but not the words themselves.",
        ),
        "u_n = the last h_nj of turn n",
        {"utterances": reading.utterances},
        (Table("utterance vectors u", _numbered(3), TOPICS, reading.utterances, notes=TURNS),),
    )


def _dialogue(reading: Reading, weights: Weights) -> Stage:
    return Stage(
        "dialogue",
        "the second recurrent network reads the turns",
        (
            "It reads one vector per turn, so the film is one step away from the question, not nine words.",
            "V is 0.8 on the diagonal. Z passes u on and subtracts the film from the wish: a suggestion fulfils it.",
        ),
        "d_n = tanh(V d_n-1 + Z u_n),  d_0 = 0",
        {"states": reading.dialogue, "V": weights.v, "Z": weights.z},
        (
            Table("Z", TOPICS, TOPICS, weights.z),
            Table("dialogue states d", _numbered(3), TOPICS, reading.dialogue),
        ),
        lines=("After turn 3 the state shows that an actor is asked for; the film has faded from 1 to 0.377.",),
        checks=(Check("film after turn 3: tanh(0.8 * 0.496)", 0.377, float(reading.dialogue[2, 0])),),
    )


def _written(answer: Answer) -> str:
    said = " ".join(word for word in answer.words if word != "<end>").replace(" ,", ",")
    return f"Output, the most probable word at each step: {said}."


def _probabilities(answer: Answer) -> Table:
    rows = tuple(f"{t + 1} {word}" for t, word in enumerate(answer.words))
    return Table("probabilities of the words", rows, OUTPUTS, answer.probabilities, heat=True)


def _decoder(plain: Answer, weights: Weights) -> Stage:
    return Stage(
        "decoder",
        "the decoder writes from the last dialogue state alone",
        (
            "Its state has seven numbers: the four topics, and three signs that encode the last word written, from "
            "which the next word follows. It starts from d_3, which is also added at every step (not so in the paper).",
            "D copies the dialogue state, S keeps 0.4 of the topics, E doubles the signs. A row of O has 4 times the "
            "signs of the previous word, and for names +2 or -2 on 'which'. There is no attention yet: c is zero.",
        ),
        "s_0 = tanh(D d_N),  s_t = tanh(S s_t-1 + E y_t-1 + D d_N),  p_t = softmax(O [s_t; 0])",
        {"states": plain.states, "probabilities": plain.probabilities}
        | {"S": weights.s, "E": weights.e, "D": weights.d, "O": weights.o},
        (
            Table("O, on s and c", OUTPUTS, (*STATE, *(f"c {topic}" for topic in TOPICS)), weights.o),
            Table("decoder states s", _steps(), STATE, plain.states),
            _probabilities(plain),
        ),
        lines=(
            _written(plain),
            f"Leonardo still has {float(plain.probabilities[0, 1]):.3f}: the film has faded in the dialogue state.",
        ),
    )


def _turns(looking: Answer, weights: Weights) -> Stage:
    return Stage(
        "turns",
        "attention to the turns",
        (
            "Before each word the state of the decoder is compared with every dialogue state, however old.",
            "A has one row that is not zero, for the topic 'actor': 12 for a film, -6 for a question about an actor. "
            "Asked for an actor, the decoder looks for a turn that names a film and is not itself the question.",
        ),
        "alpha_tn = softmax_n(s_t' A d_n)",
        {"scores": looking.scores, "weights": looking.turns, "A": weights.a},
        (
            Table("A, row 'actor'", ("actor",), TOPICS, weights.a[3:4]),
            Table("scores s' A d", _steps(), _numbered(3), looking.scores),
            Table("weights of the turns", _steps(), _numbered(3), looking.turns, heat=True),
        ),
        checks=(Check("sum of the weights at step 1", 1.0, float(looking.turns[0].sum())),),
    )


def _inside(looking: Answer) -> Stage:
    tables = []
    for n, (turn, weights) in enumerate(zip(TURNS, looking.inside, strict=True)):
        share = looking.turns[0, n]
        both = torch.stack([weights[0], share * weights[0]])
        title = f"turn {n + 1}, whose weight is {float(share):.3f}"
        tables.append(Table(title, ("beta", "alpha beta"), tuple(turn.split()), both, heat=True))
    total = sum(
        float(share * weights[0].sum()) for share, weights in zip(looking.turns[0], looking.inside, strict=True)
    )
    return Stage(
        "inside",
        "attention to the words inside each turn, before the first word is written",
        (
            "The same comparison with the states of the words: beta sums to 1 within each turn, even in a turn with "
            "almost no weight.",
            "A word's weight times the weight of its turn is its share of the whole conversation.",
        ),
        "beta_tnj = softmax_j(s_t' A h_nj),  weight of a word in the conversation: alpha_tn beta_tnj",
        {f"turn {n + 1}": weights for n, weights in enumerate(looking.inside)},
        tuple(tables),
        lines=(
            "In turn 1 no state has a film or an actor in it, so all words have the same weight. In turn 3 the two "
            "words before 'who' have the most: from 'who' on, the states contain the question, which A penalises.",
            "The '?' of turn 2 has some weight because its state still contains the film.",
        ),
        checks=(Check("sum over all words of all turns", 1.0, total),),
    )


def _response(looking: Answer) -> Stage:
    return Stage(
        "response",
        "the decoder writes with attention",
        (
            "The context is the sum of the states of all words, each times its weight: the topics of those words.",
            "The decoder states are the same as without attention; the context is concatenated with them. In O, names "
            "have +3 or -3 on the context's 'which'.",
        ),
        "c_t = sum_n alpha_tn sum_j beta_tnj h_nj,  p_t = softmax(O [s_t; c_t])",
        {"contexts": looking.contexts, "probabilities": looking.probabilities},
        (Table("contexts c", _steps(), TOPICS, looking.contexts), _probabilities(looking)),
        lines=(_written(looking),),
        checks=(Check("probability of Hugh", 0.997, float(looking.probabilities[0, 0])),),
    )


def _other_film(weights: Weights) -> Stage:
    turns = [turn.replace("Logan", "Titanic") for turn in TURNS]
    answer = write_answer(read_turns(turns, weights), weights)
    return Stage(
        "other-film",
        "the same question after another film",
        (
            "One word of turn 2 is changed to Titanic; turn 3, the question, is the same.",
            "From the question alone nobody can tell which name is right.",
        ),
        "",
        {"probabilities": answer.probabilities, "turns": answer.turns},
        (_probabilities(answer),),
        lines=(_written(answer),),
    )


def _distance(weights: Weights) -> Stage:
    rows = []
    for count in _BETWEEN:
        reading = read_turns((*TURNS[:2], *[_FILLER] * count, TURNS[2]), weights)
        both = [write_answer(reading, weights, attends=attends) for attends in (False, True)]
        rows.append([float(reading.dialogue[-1, 1]), *(float(one.probabilities[0, 0]) for one in both)])
    values = double(rows)
    return Stage(
        "distance",
        "more turns in between",
        (
            f"'{_FILLER}' is said up to {max(_BETWEEN)} times between the film and the question.",
            "In the dialogue state the film fades: each turn multiplies it by 0.8 and applies tanh. Without attention "
            "the decoder ends up guessing. With attention it reads the words of turn 2 directly at any distance and "
            "loses only the weight on the turns in between.",
        ),
        "",
        {"values": values},
        (
            Table(
                "probability of Hugh at step 1",
                tuple(f"{count} turns between" for count in _BETWEEN),
                ("which, in d", "without", "with"),
                values,
            ),
        ),
    )


def _cost() -> Stage:
    own = [len(turn.split()) for turn in TURNS]
    rows = [[len(own), sum(own), sum(sum(own[: n + 1]) for n in range(len(own)))]]
    rows += [[turns, 8 * turns, 8 * turns * (turns + 1) // 2] for turns in (5, 10, 20)]
    values = double(rows)
    names = ("this conversation", *(f"{row[0]} turns of 8 words" for row in rows[1:]))
    return Stage(
        "cost",
        "every turn is a training example, and no turn is read twice",
        (
            "In training each turn is the answer to those before it: a conversation of N + 1 turns is N examples.",
            "The states of a turn do not depend on later turns, so the hierarchical model reads each turn once for all "
            "answers. A model that reads the joined history reads turn 1 again for every answer.",
        ),
        "sum_n J_n words read, against sum_n (N - n + 1) J_n",
        {"counts": values},
        (Table("words read in training", names, ("turns read", "turn by turn", "joined"), values),),
        lines=("Trained on conversations of your own: heed train dialogue FILE.jsonl --model hred.",),
        checks=(Check("7 + 15 + 23 words of joined history", 45, float(values[0, 2])),),
    )
