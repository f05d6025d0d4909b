"""What `heed check` says of any task's data: lengths, unknown tokens, samples as the model sees them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heed.data.tokenizer import UNKNOWN, TextTokenizer

__all__ = ["length_table", "tokens_text"]


def length_table(rows: Iterable[tuple[str, str, Sequence[list[int]]]]) -> str:
    """A table of token counts: rows of (split, side, the tokens of each example)."""
    lines = [f"{'':20}{'':8}{'tokens':>12}{'median':>8}{'95 %':>8}{'longest':>9}{'unknown':>10}"]
    lines += [f"{split:20}{side:8}{_lengths(tokens)}" for split, side, tokens in rows]
    return "\n".join(lines)


def _lengths(sides: Sequence[list[int]]) -> str:
    lengths = sorted(map(len, sides))
    total, unknown = sum(lengths), sum(ids.count(UNKNOWN) for ids in sides)
    at = lambda share: lengths[min(len(lengths) - 1, int(share * len(lengths)))]  # noqa: E731
    return f"{total:>12,}{at(0.5):>8}{at(0.95):>8}{lengths[-1]:>9}{unknown / max(1, total):>10.2%}"


def tokens_text(tokenizer: TextTokenizer, ids: list[int], most: int = 30) -> str:
    """The first tokens of an example, as the vocabulary has them."""
    shown = " ".join(tokenizer.token(i) for i in ids[:most])
    return shown + (" ..." if len(ids) > most else "")
