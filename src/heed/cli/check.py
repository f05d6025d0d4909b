"""`heed check`: read all the data and say what is in it."""

from __future__ import annotations

from collections.abc import Sequence

from heed.cli.settings import settings_from
from heed.data.tokenizer import UNKNOWN, TextTokenizer
from heed.tasks.translation import Translation

__all__ = ["run_check"]


def run_check(words: list[str], fields: list[str]) -> None:
    """Print counts, lengths, coverage and samples as the model will see them."""
    task = Translation.prepare(settings_from(words, fields))
    print(task.splits.notes)
    tokenizer = task.config.tokenizer
    print(
        f"\ntokenizer {tokenizer.kind}: {task.source_tokenizer.vocab_size:,} source tokens, "
        f"{task.target_tokenizer.vocab_size:,} target tokens{' (shared)' if tokenizer.shared else ''}"
    )
    print(f"\n{'':20}{'':8}{'tokens':>12}{'median':>8}{'95 %':>8}{'longest':>9}{'unknown':>10}")
    for split in (*task.splits.pairs, *task.splits.extra):
        encoded = task.encoded(split)
        for side in ("source", "target"):
            print(f"{split:20}{side:8}{_lengths([getattr(pair, side) for pair in encoded])}")
    print("\nas the model sees them:")
    pairs, encoded = task.training.pairs, task.training.tokens
    for i in range(0, len(pairs), max(1, len(pairs) // 3)):
        print(f"  {pairs[i].origin}")
        print(f"    source  {_tokens(task.source_tokenizer, encoded[i].source)}")
        print(f"    target  {_tokens(task.target_tokenizer, encoded[i].target)}")


def _lengths(sides: Sequence[list[int]]) -> str:
    lengths = sorted(map(len, sides))
    total, unknown = sum(lengths), sum(ids.count(UNKNOWN) for ids in sides)
    at = lambda share: lengths[min(len(lengths) - 1, int(share * len(lengths)))]  # noqa: E731
    return f"{total:>12,}{at(0.5):>8}{at(0.95):>8}{lengths[-1]:>9}{unknown / max(1, total):>10.2%}"


def _tokens(tokenizer: TextTokenizer, ids: list[int], most: int = 30) -> str:
    shown = " ".join(tokenizer.token(i) for i in ids[:most])
    return shown + (" ..." if len(ids) > most else "")
