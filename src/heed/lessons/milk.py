"""A lesson on BERT's training: two sentences tokenized and framed, words masked, embeddings added, the loss by hand.

Two pairs of Devlin et al. 2019, section 3.1 and appendix A.1: after "the man went to the store" comes a sentence that
follows it, or one from elsewhere. Nothing is trained: the weights of a network of width 4 are drawn from a seed, so
that every number of the loss can be shown and compared with the library's.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from heed.lessons.parts import Script, Stage, Table, double
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
    tokenizer = _tokenizer()
    ids = frame(tokenizer.encode(_FIRST).ids, tokenizer.encode(_FOLLOWS).ids)
    labels = [tokenizer.token(i) for i in ids]
    read, chosen = _masked(np.array([ids]), 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        body = Bert(BertConfig(vocab_size=len(_VOCABULARY), d_model=_WIDTH, num_heads=1, num_layers=1, d_ff=8)).double()
        head = MaskedWords(body.inputs.embedding).double()
        order = torch.nn.Linear(_WIDTH, 2).double()
        for parameter in [*body.parameters(), *head.parameters(), *order.parameters()]:
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter)
    parts = body.eval(), head.eval(), order
    masked = torch.from_numpy(read)
    with torch.no_grad():
        return (
            _cut(ids, labels),
            _masks(ids, labels),
            _embedded(body, masked, labels, chosen[0]),
            _loss(parts, torch.tensor([ids]), masked, torch.from_numpy(chosen)),
            _next(parts, tokenizer),
        )


def _tokenizer() -> TextTokenizer:
    library = Tokenizer(models.WordPiece({token: i for i, token in enumerate(_VOCABULARY)}, unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return TextTokenizer(library)


def _cut(ids: Sequence[int], labels: Sequence[str]) -> Stage:
    segments = [int(n > ids.index(END)) for n in range(len(ids))]
    places = enumerate(zip(labels, ids, segments, strict=True))
    lines = (f"position {n}: {label}, id {i}, segment {segment}" for n, (label, i, segment) in places)
    return _stage("cut", {"ids": torch.tensor(ids), "segments": torch.tensor(segments)}, lines=lines)


def _masked(rows: Any, epoch: int) -> tuple[Any, Any]:
    """The masked tokens of framed rows in a pass, and which of them are to be predicted."""
    candidates = (rows != START) & (rows != END)
    return mask_rows(rows, candidates, candidates, _MASKING, (_SEED, epoch), np.arange(len(rows)))


def _masks(ids: Sequence[int], labels: Sequence[str]) -> Stage:
    shown = []
    for epoch in range(3):
        read, chosen = (part[0] for part in _masked(np.array([ids]), epoch))
        words = [f"<{_VOCABULARY[i]}>" if c else _VOCABULARY[i] for i, c in zip(read, chosen, strict=True)]
        fates = ", ".join(_fate(labels[n], _VOCABULARY[read[n]]) for n in np.flatnonzero(chosen).tolist())
        shown.append(f"pass {epoch + 1}: {' '.join(words)}  ({fates})")
    many = np.tile(np.array(ids), (_PASSES, 1))
    read, chosen = _masked(many, 0)
    mask, same = read == _MASK, read == many
    kinds = [(chosen & mask).sum(), (chosen & ~mask & ~same).sum(), (chosen & same).sum()]
    shares = double([[float(kind) / float(chosen.sum()) for kind in kinds]])
    caption = f"of {int(chosen.sum()):,} chosen words in {_PASSES:,} rows like this one"
    table = Table(caption, ("share",), ("[MASK]", "another word", "unchanged"), shares, heat=True)
    return _stage("masks", {"shares": shares}, table, lines=shown, words=len(ids) - 3, chosen=int(chosen[0].sum()))


def _fate(word: str, read: str) -> str:
    if read == "[MASK]":
        return f"{word} is hidden"
    return f"{word} is unchanged" if read == word else f"{word} is read as {read}"


def _embedded(body: Bert, tokens: Tensor, labels: Sequence[str], chosen: Any) -> Stage:
    """The three vectors of each position, their sum, and the normalised input of the blocks."""
    assert body.segments is not None
    words = body.inputs.embedding(tokens)[0]
    segments = body.segments(body.segments_of(tokens))[0]
    positions = body.positions(torch.arange(len(labels)).unsqueeze(0))[0]
    total = words + segments + positions
    read = (total - total.mean(-1, keepdim=True)) / total.std(-1, correction=0, keepdim=True)
    place = int(np.flatnonzero(chosen)[0])
    rows, columns = ("word", "segment", "position", "summed", "normalised"), tuple(f"{n + 1}" for n in range(_WIDTH))
    stacked = torch.stack([words, segments, positions, total, read])
    shown = {0: "[CLS]", place: f"{labels[place]}, read as {_VOCABULARY[int(tokens[0, place])]}"}
    tables = (Table(f"{name} (position {n})", rows, columns, stacked[:, n]) for n, name in shown.items())
    numbers = {"words": words, "segments": segments, "positions": positions, "sum": total, "read": read}
    return _stage("embeddings", numbers, *tables, checks=_equal("read", read[place], body.embedding_norm(total)[place]))


def _equal(name: str, by_hand: Tensor, by_library: Tensor) -> list[tuple[str, float, float]]:
    pairs = zip(by_library.flatten().tolist(), by_hand.flatten().tolist(), strict=True)
    return [(f"library {name}[{n}]", theirs, ours) for n, (theirs, ours) in enumerate(pairs)]


def _loss(parts: tuple[Bert, MaskedWords, Any], true: Tensor, read: Tensor, chosen: Tensor) -> Stage:
    body, head, _ = parts
    hidden = body(read, torch.ones_like(chosen))
    logits = head(hidden[chosen])  # (masked, vocabulary)
    exponents = logits.exp()
    probabilities = exponents / exponents.sum(-1, keepdim=True)
    wanted = true[chosen]
    of_wanted = probabilities[torch.arange(len(wanted)), wanted]
    losses, tables, columns = -of_wanted.log(), [], ("score", "exp(score)", "probability")
    for row, (word, place) in enumerate(zip(wanted.tolist(), chosen[0].nonzero()[:, 0].tolist(), strict=True)):
        best = [i for i in probabilities[row].argsort(descending=True).tolist() if i != word][:4]
        values = torch.stack([one[row, [word, *best]] for one in (logits, exponents, probabilities)], dim=1)
        notes = (f"loss -ln {float(of_wanted[row]):.3f} = {float(losses[row]):.3f}", *[""] * len(best))
        title, words = f"position {place}: the word is {_VOCABULARY[word]}", [_VOCABULARY[i] for i in (word, *best)]
        tables.append(Table(title, tuple(words), columns, values, notes=notes))
    mean, sums = losses.mean(), ", ".join(f"{float(value):.3f}" for value in exponents.sum(-1))
    size = {"size": len(_VOCABULARY), "uniform": np.log(len(_VOCABULARY))}
    numbers = {"logits": logits, "probabilities": probabilities, "losses": losses, "loss": mean}
    checks = _equal("loss", mean, cross_entropy(logits, wanted))
    return _stage("loss", numbers, *tables, checks=checks, sums=sums, loss=mean, **size)


def _next(parts: tuple[Bert, MaskedWords, Any], tokenizer: TextTokenizer) -> Stage:
    (body, _, order), seconds, logits = parts, (_FOLLOWS, _ELSEWHERE), []
    for second in seconds:
        tokens = torch.tensor([frame(tokenizer.encode(_FIRST).ids, tokenizer.encode(second).ids)])
        mask = torch.ones_like(tokens, dtype=torch.bool)
        logits.append(order(body.last(body(tokens, mask), mask))[0])
    scores, right = torch.stack(logits), torch.tensor([0, 1])
    probabilities = scores.exp() / scores.exp().sum(-1, keepdim=True)
    losses = -probabilities[torch.arange(2), right].log()
    rows, columns = tuple(f"... {one.lower()}" for one in seconds), ("score: follows", "score: does not", "p(follows)")
    values = torch.cat([scores, probabilities[:, :1], losses.unsqueeze(1)], dim=1)
    table = Table(f"{_FIRST.lower()} [SEP] ...", rows, (*columns, "loss"), values)
    numbers = {"scores": scores, "probabilities": probabilities, "losses": losses}
    return _stage("next", numbers, table, checks=_equal("loss", losses.mean(), cross_entropy(scores, right)))
