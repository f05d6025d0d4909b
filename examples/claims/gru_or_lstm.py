"""Simple cells, GRUs and LSTMs with equally many parameters recall a symbol, add two digits, and count.

Recall and adding are trained on distances from 5 to 100 words together, drawn log-uniformly, and asked up to 200.
Counting (a^n b^n: after the n-th b the text ends) is trained on n from 1 to 10 and asked up to 100. The LSTM has a
forget bias of 1, its control one of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random
from typing import Any

import torch
from harness import Cell, Claim, Plot, Results, Row, Verdict, cells, main
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heed.evaluation.significance import Interval
from heed.layers.recurrent import RecurrentCell
from recall import adding, delayed_recall

DISTANCES, COUNTS = (10, 30, 100, 200), (10, 20, 50, 100)
_ASKED, _BATCH, _RATE = 200, 32, 0.005
_STEPS = {"recall": 500, "adding": 500, "counting": 500}
_WIDTHS = {"simple": 71, "GRU": 38, "LSTM": 32, "LSTM, forget bias 0": 32}  # 6,319, 6,384 and 6,400 recurrent weights
_D = 16


class _Network(nn.Module):
    """Embeddings, one recurrent layer, and scores of up to 20 answers at every word."""

    def __init__(self, name: str) -> None:
        super().__init__()
        kind = {"simple": "rnn", "GRU": "gru"}.get(name, "lstm")
        self.embedding, self.cell = nn.Embedding(20, _D), RecurrentCell(_D, _WIDTHS[name], kind)
        self.output = nn.Linear(_WIDTHS[name], 20)
        if kind == "lstm":
            nn.init.constant_(self.cell.b_ih[_WIDTHS[name] : 2 * _WIDTHS[name]], float(name == "LSTM"))
            nn.init.zeros_(self.cell.b_hh[_WIDTHS[name] : 2 * _WIDTHS[name]])

    def forward(self, words: Tensor) -> Tensor:
        x = self.embedding(words)
        hidden: Tensor = self.cell.sequence(x, self.cell.zero_state(x[:, 0]))[0]
        scores: Tensor = self.output(hidden)
        return scores


def _counting(counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Texts of n times 0 and n times 1, and after each 1 what follows: 1 or the end, 2; -100 where nothing is asked."""
    words, targets = torch.zeros(2, len(counts), 2 * max(counts), dtype=torch.long)
    targets[:] = -100
    for row, n in enumerate(counts):
        words[row, n : 2 * n], targets[row, n : 2 * n], targets[row, 2 * n - 1] = 1, 1, 2
    return words, targets


def measure(cell: Cell) -> list[Row]:
    """Train one network on one task; the share of right answers at each distance, or of texts counted to their end."""
    torch.manual_seed(cell.seed)
    torch.set_num_threads(1)
    model, task = _Network(cell["network"]), cell["task"]
    if task == "counting":
        words, targets = _counting(range(1, 11))
        cell.fit(model, lambda _: cross_entropy(model(words).flatten(0, 1), targets.flatten()), _STEPS[task], _RATE)
        with torch.no_grad():
            scored = {n: (*_counting([n]),) for n in COUNTS}
            right = {n: (model(text).argmax(-1) == asked)[asked != -100] for n, (text, asked) in scored.items()}
        return [{"n": n, "right": float(one.all())} for n, one in right.items()]
    draw, numbers = Random(cell.seed), dict[str, int]()

    def number(word: str) -> int:
        return numbers.setdefault(word, len(numbers))

    def texts(distance: int, seed: Any, count: int) -> tuple[Tensor, Tensor]:
        make = delayed_recall if task == "recall" else adding
        made = list(islice(make((distance,), seed), count))
        answers = [int(answer) if task == "adding" else number(answer) for _, answer in made]
        return torch.tensor([[number(word) for word in text.split()] for text, _ in made]), torch.tensor(answers)

    def loss(update: int) -> Tensor:
        words, answers = texts(round(5 * 20 ** draw.random()), f"{cell.seed}:{update}", _BATCH)
        return cross_entropy(model(words)[:, -1], answers)

    cell.fit(model, loss, _STEPS[task], _RATE)
    rows = []
    with torch.no_grad():
        for distance in DISTANCES:
            words, answers = texts(distance, f"{cell.seed}:asked", _ASKED)
            rows.append(
                {"distance": distance, "right": float((model(words)[:, -1].argmax(-1) == answers).float().mean())}
            )
    return rows


def decide(results: Results) -> Verdict:
    """The rule, with the forget bias of 1; simple cells and the bias of 0 are drawn, not judged."""
    lstm, gru = {"network": "LSTM"}, {"network": "GRU"}

    def ahead(task: str, at: str, places: Sequence[int]) -> tuple[Interval | None, Interval]:
        """LSTM minus GRU at the longest place that either solves, None if there is none, and at the shortest."""

        def solved(one: int) -> bool:
            return max(results.mean("right", task=task, **{at: one}, **name).low for name in (lstm, gru)) > 0.9

        found = {one: results.difference("right", lstm, gru, task=task, **{at: one}) for one in places}
        return next((found[one] for one in reversed(places) if solved(one)), None), found[places[0]]

    pairs = [ahead(task, "distance", DISTANCES) for task in ("recall", "adding")]
    counted, what = ahead("counting", "n", COUNTS)[0], "right answers at the longest distance solved, LSTM minus GRU"
    if all(far and far.low > 0.1 and near.high < 0 for far, near in pairs):
        return Verdict("holds", pairs[0][0] or pairs[0][1], f"{what}, recall")
    if counted and counted.low > 0.1:
        return Verdict("holds only", counted, f"{what}, counting", "when counting beyond the trained length")
    return Verdict("does not hold here", pairs[0][0] or pairs[0][1], f"{what}, recall")


CLAIM = Claim(
    name="gru-or-lstm",
    sentence="A GRU is for short dependencies, an LSTM for long ones.",
    varied=(
        "cell (simple, GRU, LSTM) with equal parameters, task (delayed recall, adding), distance 10 to 200, trained "
        "on 5 to 100; a^n b^n to 10 times the trained n. Shortened: 32 LSTM units, 500 updates, after which no cell "
        "solves adding"
    ),
    measured="share of right answers at each distance",
    rule=(
        "Holds if at the longest distance that either solves (above 0.9), LSTM minus GRU is above 0.1 in both recall "
        "and adding, and GRU minus LSTM is above 0 at the shortest. Holds only when counting beyond the trained "
        "length if it does so for a^n b^n alone. Otherwise does not hold here."
    ),
    literature=(
        "Chung et al. 2014 (arXiv:1412.3555): comparable; Jozefowicz et al. 2015: the forget bias matters; Weiss et "
        "al. 2018 (arXiv:1805.04908): LSTMs count"
    ),
    controls="LSTM with forget bias 0 and 1; the simple cell",
    finding=(
        "Neither is the one for long distances. The GRU learned to recall and to add at least as well as the LSTM at "
        "every distance. Some LSTMs counted beyond the trained length, as has been reported, but not all. What "
        "matters is a forget gate that begins open: without it the LSTM recalls little."
    ),
    grid=cells(task=tuple(_STEPS), network=tuple(_WIDTHS)),
    measure=measure,
    decide=decide,
    plots=(
        Plot("right", "recall: share of right symbols", "distance", "network", (0.125, "chance"), {"task": "recall"}),
        Plot("right", "adding: share of right sums", "distance", "network", (0.1, "chance"), {"task": "adding"}),
        Plot("right", "a^n b^n (n to 10 trained): counted right", "n", "network", None, {"task": "counting"}),
    ),
)

if __name__ == "__main__":
    main(CLAIM)
