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

from heed.data.batch.framed import frame
from heed.data.tokens.tokenizer import END, START, TextTokenizer
from heed.layers.masked_words import MaskedWords
from heed.lessons.parts import Check, Stage, Table, double
from heed.models.bert import Bert, BertConfig
from heed.tasks.pretraining.masking import Masking, mask_rows

TITLE = "[CLS] the man went to the store [SEP] he bought a gallon of milk [SEP]"
SOURCE = "An example from the lecture notes; the weights are drawn from a seed, and every number is computed from them."
_FIRST, _FOLLOWS, _ELSEWHERE = "The man went to the store", "He bought a gallon of milk", "Penguins are flightless"
_VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the man went to store he bought a gall ##on of milk penguins are flight ##less"
).split()
_SPECIAL = 5
_SEED = 50
"""Seed of masks and weights; with this seed the first three passes show all three treatments of a chosen word."""
_WIDTH = 4
_PASSES = 10_000
_SUMMED = "summed"


def milk_stages() -> tuple[Stage, ...]:
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
            _cut(tokenizer),
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


def _cut(tokenizer: TextTokenizer) -> Stage:
    ids = frame(tokenizer.encode(_FIRST).ids, tokenizer.encode(_FOLLOWS).ids)
    first = ids.index(END)
    segments = [int(n > first) for n in range(len(ids))]
    return Stage(
        "cut",
        "two sentences become one row of pieces",
        (
            "The text is lowercased and split into the longest pieces in the vocabulary: 'gallon' is not in it, 'gall' "
            "and '##on' are. The ## marks a piece that continues a word.",
            "[CLS] comes first, and its last state stands for the whole row. A [SEP] ends each sentence. The segment "
            "distinguishes the sentences, the position gives the order.",
        ),
        "[CLS] s1 [SEP] s2 [SEP]",
        {"ids": torch.tensor(ids), "segments": torch.tensor(segments)},
        lines=tuple(
            f"position {n}: {tokenizer.token(i)}, id {i}, segment {segment}"
            for n, (i, segment) in enumerate(zip(ids, segments, strict=True))
        ),
    )


def _masking() -> Masking:
    others = np.arange(_SPECIAL, len(_VOCABULARY))
    return Masking(0.15, 0.8, 0.1, False, _VOCABULARY.index("[MASK]"), others)


def _masked(rows: Any, epoch: int) -> tuple[Any, Any]:
    """The masked tokens of framed rows in a pass, and which of them are to be predicted."""
    candidates = (rows != START) & (rows != END)
    return mask_rows(rows, candidates, candidates, _masking(), (_SEED, epoch), np.arange(len(rows)))


def _masks(ids: Sequence[int], labels: Sequence[str]) -> Stage:
    shown = []
    for epoch in range(3):
        read, chosen = (part[0] for part in _masked(np.array([ids]), epoch))
        words = [f"<{_VOCABULARY[i]}>" if c else _VOCABULARY[i] for i, c in zip(read, chosen, strict=True)]
        fates = ", ".join(_fate(labels[n], _VOCABULARY[read[n]]) for n in np.flatnonzero(chosen).tolist())
        shown.append(f"pass {epoch + 1}: {' '.join(words)}  ({fates})")
    many = np.tile(np.array(ids), (_PASSES, 1))
    read, chosen = _masked(many, 0)
    mask, same = read == _VOCABULARY.index("[MASK]"), read == many
    kinds = [(chosen & mask).sum(), (chosen & ~mask & ~same).sum(), (chosen & same).sum()]
    shares = double([[float(kind) / float(chosen.sum()) for kind in kinds]])
    table = Table(
        f"of {int(chosen.sum()):,} chosen words in {_PASSES:,} rows like this one",
        ("share",),
        ("[MASK]", "another word", "unchanged"),
        shares,
        heat=True,
    )
    return Stage(
        "masks",
        "some words are hidden, different ones in each pass",
        (
            f"15 % of the {len(ids) - 3} words and pieces are to be predicted: {int(chosen[0].sum())} in this row. Of "
            "these, 80 % are read as [MASK], 10 % as a random word, 10 % unchanged; [CLS] and [SEP] are never "
            "chosen.",
            "Texts in later use contain no [MASK]. Because any word may be wrong or have to be predicted, the network "
            "keeps a useful state for every word. A random word may be the right one; it then counts as unchanged.",
        ),
        "",
        {"shares": shares},
        (table,),
        lines=tuple(shown),
    )


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
    rows = ("word", "segment", "position", _SUMMED, "normalised")
    stacked = torch.stack([words, segments, positions, total, read])
    columns = tuple(f"{n + 1}" for n in range(_WIDTH))
    seen = _VOCABULARY[int(tokens[0, place])]
    tables = tuple(
        Table(f"{name} (position {n})", rows, columns, stacked[:, n])
        for n, name in ((0, "[CLS]"), (place, f"{labels[place]}, read as {seen}"))
    )
    return Stage(
        "embeddings",
        "three vectors are added",
        (
            "The vectors of a word, of its segment and of its position are rows of three learned tables. Their sum is "
            "normalised to mean 0 and standard deviation 1.",
            "A hidden word enters as the vector of [MASK]; only its position and its neighbours tell what it was.",
        ),
        "x = norm(E[word] + S[segment] + P[position])",
        {"words": words, "segments": segments, "positions": positions, "sum": total, "read": read},
        tables,
        checks=_equal("read", read[place], body.embedding_norm(total)[place]),
    )


def _equal(name: str, by_hand: Tensor, by_library: Tensor) -> tuple[Check, ...]:
    pairs = zip(by_hand.flatten().tolist(), by_library.flatten().tolist(), strict=True)
    return tuple(Check(f"library {name}[{n}]", theirs, ours) for n, (ours, theirs) in enumerate(pairs))


def _loss(parts: tuple[Bert, MaskedWords, Any], true: Tensor, read: Tensor, chosen: Tensor) -> Stage:
    body, head, _ = parts
    hidden = body(read, torch.ones_like(chosen))
    logits = head(hidden[chosen])  # (masked, vocabulary)
    exponents = logits.exp()
    probabilities = exponents / exponents.sum(-1, keepdim=True)
    wanted = true[chosen]
    of_wanted = probabilities[torch.arange(len(wanted)), wanted]
    losses = -of_wanted.log()
    tables = []
    for row, word in enumerate(wanted.tolist()):
        best = [i for i in probabilities[row].argsort(descending=True).tolist() if i != word][:4]
        picked = [word, *best]
        tables.append(
            Table(
                f"position {int(chosen[0].nonzero()[row])}: the word is {_VOCABULARY[word]}",
                tuple(_VOCABULARY[i] for i in picked),
                ("score", "exp(score)", "probability"),
                torch.stack([one[row, picked] for one in (logits, exponents, probabilities)], dim=1),
                notes=(f"loss -ln {float(of_wanted[row]):.3f} = {float(losses[row]):.3f}", *[""] * len(best)),
            )
        )
    library = cross_entropy(logits, wanted)
    sums = ", ".join(f"{float(value):.3f}" for value in exponents.sum(-1))
    return Stage(
        "loss",
        "the loss of the hidden words",
        (
            "At the chosen positions only, the state goes through one more layer and is compared with every row of the "
            f"word table: {len(_VOCABULARY)} scores. Softmax turns them into probabilities; the loss is -ln of the "
            "right word's. Each table has the right word first, then the four most probable others.",
            "The words at all other positions are read but not predicted: they get no scores.",
        ),
        "loss = -(1/M) sum over the M chosen positions of ln softmax(E norm(gelu(W h + b)) + c)[right word]",
        {"logits": logits, "probabilities": probabilities, "losses": losses, "loss": losses.mean()},
        tuple(tables),
        lines=(
            f"sum of exp(score) over all {len(_VOCABULARY)} words: {sums}",
            f"mean loss {float(losses.mean()):.3f}; guessing uniformly costs ln {len(_VOCABULARY)} = "
            f"{float(np.log(len(_VOCABULARY))):.3f}",
        ),
        checks=_equal("loss", losses.mean(), library),
    )


def _next(parts: tuple[Bert, MaskedWords, Any], tokenizer: TextTokenizer) -> Stage:
    body, _, order = parts
    rows = [frame(tokenizer.encode(_FIRST).ids, tokenizer.encode(second).ids) for second in (_FOLLOWS, _ELSEWHERE)]
    logits = []
    for row in rows:
        tokens = torch.tensor([row])
        mask = torch.ones_like(tokens, dtype=torch.bool)
        logits.append(order(body.last(body(tokens, mask), mask))[0])
    scores = torch.stack(logits)
    exponents = scores.exp()
    probabilities = exponents / exponents.sum(-1, keepdim=True)
    right = torch.tensor([0, 1])
    losses = -probabilities[torch.arange(2), right].log()
    seconds = (_FOLLOWS, _ELSEWHERE)
    table = Table(
        f"{_FIRST.lower()} [SEP] ...",
        tuple(f"... {second.lower()}" for second in seconds),
        ("score: follows", "score: does not", "p(follows)", "loss"),
        torch.cat([scores, probabilities[:, :1], losses.unsqueeze(1)], dim=1),
    )
    return Stage(
        "next",
        "does the second sentence follow?",
        (
            "The state of [CLS] goes through a layer with tanh and another with two outputs. In training, half of the "
            "pairs follow each other in a text; in the other half the second sentence is from another text. No labels "
            "are needed.",
            "The weights here are drawn from a seed, so the answers mean nothing yet; only the arithmetic is shown. "
            "The training loss is the sum of this loss and that of the hidden words.",
        ),
        "loss = -ln softmax(V tanh(W h_[CLS] + b) + d)[right answer]",
        {"scores": scores, "probabilities": probabilities, "losses": losses},
        (table,),
        checks=_equal("loss", losses.mean(), cross_entropy(scores, right)),
    )
