"""A lesson with training: a sentence that begins well and ends badly. Does a recurrent network forget the beginning?

Small networks learn from generated reviews twice: first from reviews of one opinion only, then also from reviews of two
halves, which are neutral if the halves disagree. Between the halves are few or many filler words that say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from heed.lessons.parts import WORD_MODEL, Script, Stage, Table, double, sentences_of, train_small

TITLE = "The first half of the movie was great, but then it was a bit of a mess."
_MESS = TITLE
_FUN = "The movie was fun, brisk and imaginative."
_TURNED = "The first half of the movie was a bit of a mess, but then it was great."
_SHOWN = (_MESS, _TURNED, _FUN)
_LABELS = ("negative", "neutral", "positive")
_LONGEST = 4  # most clauses of filler between the halves in training
_DISTANCES = (0, 2, 4, 32)  # clauses of filler in the test
_LEAST, _MOST = 4, 7  # words of a clause of filler
_MOSTLY = 0.9  # share of correct answers from which a network counts as having learned the task
_STEPS = {"short": 150, "halves": 600}
_SETTINGS = (
    f"{WORD_MODEL} tokenizer.lowercase=true model.d_embedding=32 model.d_hidden=32 training.batch_tokens=1500 "
    "training.learning_rate=0.005 training.warmup=20"
)
_FORWARD = "model.name=rnn model.bidirectional=false"
_NETWORKS = {  # all read from left to right; the first is that of the notes
    "simple recurrent, last state": f"{_FORWARD} model.cell=rnn model.pooling=last",
    "GRU, last state": f"{_FORWARD} model.cell=gru model.pooling=last",
    "simple recurrent, attention": f"{_FORWARD} model.cell=rnn model.pooling=attention",
    "bag of words": "model.name=bag",
}
_stage = Script("mess")


def stages() -> tuple[Stage, ...]:
    """Train every network on both kinds of data and query it; takes half a minute."""
    data = sentences_of("mess")
    runs = {
        kind: [train_small("classification", n, f"{_SETTINGS} {own}", **data[kind]) for own in _NETWORKS.values()]
        for kind, n in _STEPS.items()
    }
    said = {kind: torch.stack([_probabilities(run, _SHOWN) for run in runs[kind]]) for kind in runs}
    right = {kind: torch.stack([_by_distance(run) for run in runs[kind]]) for kind in runs}
    words = _MESS.split()
    prefixes = [" ".join(words[: i + 1]) for i in range(len(words))]
    read = torch.cat([_probabilities(runs[kind][0], prefixes) for kind in runs], dim=1)
    columns = tuple(f"{kind}: {label[:3]}." for kind in _STEPS for label in _LABELS)
    table = Table("probability of each label", tuple(words), columns, read, heat=True)
    return (
        _stage("sentences", lines=(f"{_MESS}   neutral", f"{_TURNED}   neutral", f"{_FUN}   positive")),
        *(_answers(kind, said[kind], right[kind]) for kind in _STEPS),
        _stage("words", {"short": read[:, :3], "halves": read[:, 3:]}, table),
        _result(said, right),
    )


def _probabilities(run: Any, texts: Sequence[str]) -> Tensor:
    """The probability of each label for each text, `(texts, labels)`."""
    order = [run.head.labels.index(label) for label in _LABELS]
    return run.probabilities(list(texts))[:, order].double()  # type: ignore[no-any-return]


def _by_distance(run: Any) -> Tensor:
    """The share of held-out reviews of two halves that are labelled correctly, by number of clauses between them."""
    shares = []
    for distance in _DISTANCES:
        texts, labels = zip(*sentences_of("mess")[str(distance)]["test"], strict=True)
        found = [one.label for one in run.predict(list(texts))]
        shares.append(sum(a == b for a, b in zip(found, labels, strict=True)) / len(labels))
    return double(shares)


def _answers(kind: str, said: Tensor, right: Tensor) -> Stage:
    rows, columns = tuple(_NETWORKS), tuple(f"{label[:3]}." for label in _LABELS)
    tables = [
        Table(text, rows, columns, said[:, i], heat=True, notes=tuple(map(_label, said[:, i])))
        for i, text in enumerate(_SHOWN)
    ]
    caption = "share of held-out reviews of two halves labelled correctly, by clauses of filler between the halves"
    tables.append(Table(caption, rows, tuple(f"{distance} clauses" for distance in _DISTANCES), right, heat=True))
    numbers = {"probability": said, "accuracy": right}
    return _stage(kind, numbers, *tables, least=_LEAST, most=_MOST, longest=_LONGEST, farthest=_DISTANCES[-1])


def _label(probabilities: Tensor) -> str:
    return _LABELS[int(probabilities.argmax())]


def _result(said: dict[str, Tensor], right: dict[str, Tensor]) -> Stage:
    """The notes' claim, judged by the numbers."""
    first, turned = ({kind: _label(said[kind][0, i]) for kind in said} for i in range(2))
    last, _, attention, bag = right["halves"]
    neutral = [name for i, name in enumerate(_NETWORKS) if _label(said["halves"][i, 0]) == "neutral"]
    turns = first["short"] == "negative" and turned["short"] == "positive"
    keeps = "Here the claim does not hold: the network keeps one bit, good or bad, once training shows that it matters."
    remembers = first["halves"] == "neutral" and float(last[-1]) > _MOSTLY
    values: dict[str, Any] = {
        **{"short": first["short"], "short_sure": said["short"][0, 0].max(), "turned": turned["short"]},
        "turns": "the last words decide. Here the claim holds." if turns else "the last words alone do not decide.",
        **{"halves": first["halves"], "halves_sure": said["halves"][0, 0].max(), "far": float(last[-1])},
        **{"remembers": keeps if remembers else "Here it forgets.", "farthest": _DISTANCES[-1]},
        **{"count": len(neutral), "networks": len(_NETWORKS), "neutral": "; ".join(neutral) or "none"},
        "helps": "does not help" if float(attention.mean()) < float(last.mean()) else "does no harm",
        **{"attention": attention.mean(), "last": last.mean(), "near_bag": bag[0], "far_bag": bag[-1]},
        "bag": ", but in a mean over many words it is small." if float(bag[-1]) < float(bag[0]) else ".",
    }
    return _stage("result", {"far": double(values["far"])}, **values)
