"""Check that an exported model has the same outputs as the run; otherwise the export is refused.

Both decode 16 sentences of the validation set (random tokens, if the run's data is gone). For float32, every token of
the run's outputs must have the same log-probability, to 0.001 nats. Greedy outputs must be the same tokens unless two
are equally probable. Outputs of a beam of 5, where both search exhaustively and remove forbidden tokens before
probabilities are normalised, must be the same tokens or be among the run's five (one in 16 may differ, if rounding
decides what stays in the beam). For int8, differences are counted and printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heed.data.batch.pairs import TokenPair, collate_pairs
from heed.data.tokens.tokenizer import END, SPECIAL_TOKENS, START
from heed.errors import HeedError, RunError
from heed.exchange.ctranslate2_writer import CTranslate2Writer
from heed.exchange.exportable import Exportable
from heed.generation import Hypothesis, SearchOptions, generate, without_gradient
from heed.models.transformer import Transformer

_SENTENCES = 16
_BEAM = 5
_CLOSE = 1e-3
"""Difference of log-probabilities in nats that float32 rounding may cause, over all the tokens of an output."""


@dataclass(frozen=True)
class SelfCheck:
    """Numbers of outputs that differ, in greedy decoding and with a beam of 5.

    `log_prob` is the largest difference in log-probability of a token of the run's greedy outputs, in nats.
    """

    sentences: int
    taken_from: str
    greedy: int
    beam: int
    log_prob: float

    def __str__(self) -> str:
        return (
            f"{self.sentences} {self.taken_from}: {_differ(self.greedy)} greedily, {_differ(self.beam)} with beam "
            f"{_BEAM}; log-probabilities of tokens differ by at most {self.log_prob:.2g}"
        )


def _differ(count: int) -> str:
    return f"{count or 'no'} output{'s differ' if count != 1 else ' differs'}"


def self_check(task: Exportable, model: Transformer, writer: CTranslate2Writer, exact: bool) -> SelfCheck:
    """Decode validation sentences (or random tokens) with both, greedily and with a beam, and compare.

    With `exact`, outputs must be the same, except where two tokens are equally probable.

    Raises:
        RunError: The outputs differ; the message shows a sentence and both outputs.
    """
    taken_from, sources = _sources(task, writer.num_positions)
    model.eval()
    given = task.config.generation
    limit = min(given.max_length or 200, writer.longest_output)
    greedy = SearchOptions(
        END, limit, given.min_length, length_penalty=given.length_penalty, forbidden=task.never_written(model)
    )
    beam = replace(greedy, beam_size=_BEAM)
    ours, theirs = _best(_write(model, sources, greedy)), _best(writer.write(sources, greedy))
    log_prob = _largest_difference(ours, writer, sources)
    if exact:
        if log_prob > _CLOSE:
            off = f"log-probabilities of the exported model are off by up to {log_prob:.2g}"
            raise RunError(f"{off}; the export was discarded")
        _greedy_must_agree(task, model, sources, ours, theirs)
        searched = _best(writer.write(sources, beam, patience=limit))
        beam_of_all = replace(beam, num_best=_BEAM)
        _beam_must_agree(task, model, sources, _write(model, sources, beam_of_all), searched, beam_of_all)
    beam_differs = _differences(_best(_write(model, sources, beam)), _best(writer.write(sources, beam)))
    return SelfCheck(len(sources), taken_from, _differences(ours, theirs), beam_differs, log_prob)


def _sources(task: Exportable, longest: int) -> tuple[str, list[list[int]]]:
    try:
        pairs = task.splits.examples["valid"]
        texts = [pair.source for pair in pairs[: 4 * _SENTENCES] if pair.source.strip()]
        encoded = [task.framed(ids) for ids in task.source_tokenizer.encode_all(texts) if ids]
        sources = [ids for ids in encoded if len(ids) <= longest]
    except (HeedError, OSError):  # the run was moved away from its data
        sources = []
    if sources:
        return "validation sentences", sources[:_SENTENCES]
    generator = torch.Generator().manual_seed(1)
    first, last = len(SPECIAL_TOKENS), task.source_tokenizer.vocab_size
    lengths = torch.randint(1, 1 + min(20, longest), (_SENTENCES,), generator=generator).tolist()
    drawn = [torch.randint(first, last, (length,), generator=generator).tolist() for length in lengths]
    framed = [task.framed(ids) for ids in drawn]
    return "sentences of random tokens (the run's data cannot be read)", framed


def _write(model: Transformer, sources: list[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
    batch = collate_pairs([TokenPair(source, []) for source in sources], list(range(len(sources))))
    with without_gradient():
        memory = model.encode(batch.source, batch.source_mask)
    return generate(model, memory, torch.full((len(sources), 1), START), options).hypotheses


def _best(groups: list[list[Hypothesis]]) -> list[Hypothesis]:
    return [group[0] for group in groups]


def _ids(hypothesis: Hypothesis) -> list[int]:
    return [*hypothesis.tokens, *([END] if hypothesis.finished else [])]


def _differences(ours: list[Hypothesis], theirs: list[Hypothesis]) -> int:
    return sum(_ids(a) != _ids(b) for a, b in zip(ours, theirs, strict=True))


def _largest_difference(ours: list[Hypothesis], writer: CTranslate2Writer, sources: list[list[int]]) -> float:
    given = writer.log_probs(sources, [list(hypothesis.tokens) for hypothesis in ours])
    pairs = zip((h.log_probs for h in ours), given, strict=True)
    return max(abs(a - b) for mine, theirs in pairs for a, b in zip(mine, theirs, strict=False))


def _greedy_must_agree(
    task: Exportable, model: Transformer, sources: list[list[int]], ours: list[Hypothesis], theirs: list[Hypothesis]
) -> None:
    """Raise a RunError unless outputs are the same, or first differ where two tokens are equally probable."""
    for source, own, other in zip(sources, ours, theirs, strict=True):
        a, b = _ids(own), _ids(other)
        if a != b:
            first = next(n for n, (mine, its) in enumerate(zip(a, b, strict=False)) if mine != its)
            log_probs = _log_probs(model, source, a[: first + 1])[-1]
            if abs(float(log_probs[a[first]] - log_probs[b[first]])) > _CLOSE:
                raise _disagree(task, "greedily", source, own, other)


def _beam_must_agree(
    task: Exportable,
    model: Transformer,
    sources: list[list[int]],
    ours: list[list[Hypothesis]],
    theirs: list[Hypothesis],
    options: SearchOptions,
) -> None:
    """Raise a RunError unless each exported output is among the run's best, or scores no lower than the run's best.

    CTranslate2 keeps fewer of the hypotheses that end, so its best may be the run's second. Rounding at the edge of a
    beam may change one search in many.
    """

    def agrees(source: list[int], own: list[Hypothesis], other: Hypothesis) -> bool:
        if _ids(other) in map(_ids, own):
            return True
        score, best = (_renormalised(model, source, _ids(h), options) for h in (other, own[0]))
        return score >= best - _CLOSE

    triples = zip(sources, ours, theirs, strict=True)
    others = [(source, own[0], other) for source, own, other in triples if not agrees(source, own, other)]
    if len(others) > len(sources) // _SENTENCES:
        raise _disagree(task, f"with beam {_BEAM}", *others[0])


def _disagree(task: Exportable, how: str, source: list[int], own: Hypothesis, other: Hypothesis) -> RunError:
    decode = task.target_tokenizer.decode
    return RunError(
        f"the exported model has a different output {how} for {task.source_tokenizer.decode(source)!r}: "
        f"{decode(other.tokens)!r} instead of {decode(own.tokens)!r}; the export was discarded"
    )


@torch.no_grad()
def _log_probs(model: Transformer, source: list[int], written: list[int], forbidden: Sequence[int] = ()) -> Tensor:
    """Log-probabilities of all tokens at each position of an output, `(tokens, vocab_size)`."""
    batch = collate_pairs([TokenPair(source, written[:-1])], [0])
    logits = model.logits(model(batch.source, batch.source_mask, batch.target)[0])
    logits[:, list(forbidden)] = -torch.inf
    return torch.log_softmax(logits, dim=-1)


def _renormalised(model: Transformer, source: list[int], written: list[int], options: SearchOptions) -> float:
    """The score of CTranslate2's search: forbidden tokens are left out before the softmax."""
    log_probs = _log_probs(model, source, written, options.forbidden)
    total = log_probs.gather(1, torch.tensor(written).unsqueeze(1)).sum()
    return total.item() / float(len(written) ** options.length_penalty)
