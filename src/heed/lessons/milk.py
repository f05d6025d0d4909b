"""A lesson on BERT's training: two sentences tokenized and framed, words masked, embeddings added, the loss by hand.

Two pairs of Devlin et al. 2019, section 3.1 and appendix A.1: after "the man went to the store" comes a sentence that
follows it, or one from elsewhere. Nothing is trained: the weights of a network of width 4 are drawn from a seed, so
that every number of the loss can be shown and compared with the library's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor
from torch.nn.functional import cross_entropy

from heed.config.data import Documents
from heed.data.batch import frame
from heed.data.tokens.tokenizer import END, START, TextTokenizer
from heed.layers.embeddings import MaskedWords
from heed.lessons.parts import Script, Stage, double, table_of
from heed.models.bert import Bert, BertConfig
from heed.tasks.pretraining.rows import Masking, mask_rows

TITLE = "[CLS] the man went to the store [SEP] he bought a gallon of milk [SEP]"
SOURCE = "An example from the lecture notes; the weights are drawn from a seed, and every number is computed from them."
_FIRST, _FOLLOWS, _ELSEWHERE = "The man went to the store", "He bought a gallon of milk", "Penguins are flightless"
_VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the man went to store he bought a gall ##on of milk penguins are flight ##less"
).split()
_SPECIAL, _WIDTH, _PASSES = 5, 4, 10_000
_SEED = 50  # of masks and weights; the first three passes show all three treatments of a chosen word
_MASK = _VOCABULARY.index("[MASK]")
_MASKING = Masking(Documents.model_construct(), _MASK, np.arange(_SPECIAL, len(_VOCABULARY)))  # type: ignore[call-arg]
_stage = Script("milk")


def stages() -> tuple[Stage, ...]:
    """Tokenize, mask, embed and score two sentences."""
    library = Tokenizer(models.WordPiece({token: i for i, token in enumerate(_VOCABULARY)}, unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer = TextTokenizer(library)
    follows, elsewhere = (
        torch.tensor([frame(tokenizer.encode(_FIRST).ids, tokenizer.encode(second).ids)])
        for second in (_FOLLOWS, _ELSEWHERE)
    )
    read, chosen = map(torch.from_numpy, _masked(follows.numpy(), 0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        body = Bert(BertConfig(vocab_size=len(_VOCABULARY), d_model=_WIDTH, num_heads=1, num_layers=1, d_ff=8)).double()
        head = MaskedWords(body.inputs.embedding).double()
        order = torch.nn.Linear(_WIDTH, 2).double()
        for parameter in [*body.parameters(), *head.parameters(), *order.parameters()]:
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter)
    body.eval(), head.eval()
    with torch.no_grad():
        logits = head(body(read, torch.ones_like(chosen))[chosen])  # (masked, vocabulary)
        masks = [torch.ones_like(tokens, dtype=torch.bool) for tokens in (follows, elsewhere)]
        states = [body.last(body(*both), both[1])[0] for both in zip((follows, elsewhere), masks, strict=True)]
        ids = follows[0].tolist()
        return (
            _cut(ids),
            _masks(ids),
            _embedded(body, read, ids, int(chosen[0].nonzero()[0])),
            _loss(logits, follows[chosen], chosen[0].nonzero()[:, 0].tolist()),
            _next(order(torch.stack(states))),
        )


def _cut(ids: list[int]) -> Stage:
    segments = [int(n > ids.index(END)) for n in range(len(ids))]
    places = enumerate(zip(ids, segments, strict=True))
    lines = (f"position {n}: {_VOCABULARY[i]}, id {i}, segment {segment}" for n, (i, segment) in places)
    return _stage("cut", ids=torch.tensor(ids), segments=torch.tensor(segments), lines=lines)


def _masked(rows: Any, epoch: int) -> tuple[Any, Any]:
    """The masked tokens of framed rows in a pass, and which of them are to be predicted."""
    candidates = (rows != START) & (rows != END)
    return mask_rows(rows, candidates, candidates, _MASKING, (_SEED, epoch), np.arange(len(rows)))


def _masks(ids: list[int]) -> Stage:
    shown = []
    for epoch in range(3):
        read, chosen = (part[0] for part in _masked(np.array([ids]), epoch))
        words = [f"<{_VOCABULARY[i]}>" if c else _VOCABULARY[i] for i, c in zip(read, chosen, strict=True)]
        fates = ", ".join(_fate(_VOCABULARY[ids[n]], _VOCABULARY[read[n]]) for n in np.flatnonzero(chosen))
        shown.append(f"pass {epoch + 1}: {' '.join(words)}  ({fates})")
    many = np.tile(np.array(ids), (_PASSES, 1))
    read, chosen = _masked(many, 0)
    mask, same = read == _MASK, read == many
    kinds, drawn = (mask, ~mask & ~same, same), int(chosen.sum())
    shares = double([[float((chosen & kind).sum()) / drawn for kind in kinds]])
    counts = {"words": len(ids) - 3, "chosen": int(chosen[0].sum()), "drawn": drawn, "passes": _PASSES}
    return _stage("masks", shares=shares, lines=shown, **counts)


def _fate(word: str, read: str) -> str:
    if read == "[MASK]":
        return f"{word} is hidden"
    return f"{word} is unchanged" if read == word else f"{word} is read as {read}"


def _embedded(body: Bert, tokens: Tensor, ids: list[int], place: int) -> Stage:
    """The three vectors of each position, their sum, and the normalised input of the blocks."""
    assert body.segments is not None
    words = body.inputs.embedding(tokens)[0]
    segments = body.segments(body.segments_of(tokens))[0]
    positions = body.positions(torch.arange(len(ids)).unsqueeze(0))[0]
    total = words + segments + positions
    read = (total - total.mean(-1, keepdim=True)) / total.std(-1, correction=0, keepdim=True)
    numbers = {"words": words, "segments": segments, "positions": positions, "sum": total, "read": read}
    rows, columns = ("word", "segment", "position", "summed", "normalised"), [f"{n + 1}" for n in range(_WIDTH)]
    shown = {0: "[CLS]", place: f"{_VOCABULARY[ids[place]]}, read as {_VOCABULARY[int(tokens[0, place])]}"}
    stacked = torch.stack([*numbers.values()])
    tables = (table_of(f"{name} (position {n})", rows, columns, stacked[:, n]) for n, name in shown.items())
    return _stage("embeddings", *tables, checks=_equal("read", read, body.embedding_norm(total), place), **numbers)


def _equal(name: str, by_hand: Tensor, by_library: Tensor, *place: int) -> list[tuple[str, float, float]]:
    pairs = zip(by_library[place].flatten().tolist(), by_hand[place].flatten().tolist(), strict=True)
    return [(f"library {name}[{n}]", theirs, ours) for n, (theirs, ours) in enumerate(pairs)]


def _loss(logits: Tensor, wanted: Tensor, places: list[int]) -> Stage:
    exponents = logits.exp()
    probabilities = exponents / exponents.sum(-1, keepdim=True)
    losses = -probabilities[torch.arange(len(wanted)), wanted].log()
    tables, columns = [], ("score", "exp(score)", "probability")
    for row, (word, place) in enumerate(zip(wanted.tolist(), places, strict=True)):
        shown = [word, *[i for i in probabilities[row].argsort(descending=True).tolist() if i != word][:4]]
        values = torch.stack([one[row, shown] for one in (logits, exponents, probabilities)], dim=1)
        notes = (f"loss -ln {float(probabilities[row, word]):.3f} = {float(losses[row]):.3f}", *[""] * 4)
        title, words = f"position {place}: the word is {_VOCABULARY[word]}", (_VOCABULARY[i] for i in shown)
        tables.append(table_of(title, words, columns, values, notes=notes))
    mean, sums = losses.mean(), ", ".join(f"{float(value):.3f}" for value in exponents.sum(-1))
    numbers = {"logits": logits, "probabilities": probabilities, "losses": losses, "loss": mean}
    size = {"size": len(_VOCABULARY), "uniform": np.log(len(_VOCABULARY)), "sums": sums}
    return _stage("loss", *tables, checks=_equal("loss", mean, cross_entropy(logits, wanted)), **numbers, **size)


def _next(scores: Tensor) -> Stage:
    right = torch.tensor([0, 1])
    probabilities = scores.exp() / scores.exp().sum(-1, keepdim=True)
    losses = -probabilities[torch.arange(2), right].log()
    values = torch.cat([scores, probabilities[:, :1], losses.unsqueeze(1)], dim=1)
    numbers = {"scores": scores, "probabilities": probabilities, "losses": losses, "values": values}
    equal = _equal("loss", losses.mean(), cross_entropy(scores, right))
    return _stage("next", checks=equal, first=_FIRST.lower(), **numbers)
