"""Parts of the `heed check` overview of any task: lengths, unknown tokens, samples as the model sees them, warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from heed.data.tokens.special import UNKNOWN
from heed.data.tokens.tokenizer import SPECIAL_TOKENS, TextTokenizer
from heed.tasks.base.report import counted
from heed.visible import escaped

_FEW_TOKENS = 20
_FEW_CHARACTERS = 5
_MOST_OF_THE_TEXT = 0.5
_MANY_UNKNOWN = 0.2
_SHOWN_TOKENS = 30


@dataclass
class SideCounts:
    """Counts of each token and each length on one side of a split."""

    split: str  # its name
    side: str  # its name: "source", "target", "text"
    lengths: Counter[int] = field(default_factory=Counter)  # length -> number of examples
    tokens: Counter[int] = field(default_factory=Counter)  # token -> number of occurrences

    @classmethod
    def of(cls, split: str, side: str, examples: Iterable[Sequence[int]]) -> SideCounts:
        """Count the tokens of examples."""
        counts = cls(split, side)
        for ids in examples:
            counts.lengths[len(ids)] += 1
            counts.tokens.update(ids)
        return counts

    @property
    def unknown(self) -> float:
        """Share of unknown tokens."""
        return self.tokens[UNKNOWN] / max(1, self.tokens.total())

    def length_at(self, share: float) -> int:
        """The length that this share of the examples does not exceed."""
        wanted, seen = min(self.lengths.total() - 1, int(share * self.lengths.total())), 0
        for length, count in sorted(self.lengths.items()):
            seen += count
            if seen > wanted:
                return length
        return 0


def length_table(rows: Iterable[SideCounts]) -> str:
    """A table of token counts, with columns as wide as their longest number."""
    lines = [["", "", "tokens", "median", "95 %", "longest", "unknown"]]
    for row in rows:
        counts = row.tokens.total(), row.length_at(0.5), row.length_at(0.95), row.length_at(1)
        lines.append([row.split, row.side, *(f"{count:,}" for count in counts), f"{row.unknown:.2%}"])
    widths = [max(least, *(len(line[n]) + 2 for line in lines)) for n, least in enumerate((20, 8, 12, 8, 8, 9, 10))]
    return "\n".join(
        f"{split:{widths[0]}}{side:{widths[1]}}" + "".join(map(str.rjust, cells, widths[2:]))
        for split, side, *cells in lines
    )


def vocabulary_warnings(rows: Iterable[SideCounts], tokenizers: dict[str, TextTokenizer]) -> list[str]:
    """Warnings of an almost empty vocabulary, and of data that does not fit the vocabulary."""
    lines = []
    for side, tokenizer in tokenizers.items():
        size = tokenizer.vocab_size - len(SPECIAL_TOKENS) - len(tokenizer.tags)
        least = _FEW_CHARACTERS if tokenizer.unit == "character" else _FEW_TOKENS
        if size < least:
            some = " ".join(shown(tokenizer.piece(len(SPECIAL_TOKENS) + i)) for i in range(size))
            found = f"almost empty: {counted(size, 'token')} ({some})" if size else "empty"
            lines.append(f"warning: the {side} vocabulary is {found}")
    for row in rows:
        tokenizer = tokenizers[row.side]
        token, count = next(iter(row.tokens.most_common(1)), (UNKNOWN, 0))
        share = count / max(1, row.tokens.total())
        if token != UNKNOWN and share > _MOST_OF_THE_TEXT:
            lines.append(
                f"warning: {share:.0%} of the {row.side} tokens of {row.split} are {shown(tokenizer.piece(token))}"
            )
        if row.unknown > _MANY_UNKNOWN:
            hint = (
                "a lower tokenizer.min_count, or tokenizer.kind unigram or char, leaves fewer unknown"
                if row.split == "train"
                else "check that it is in the language and script of the training set (tokenizer.kind unigram or char "
                "leaves fewest unknown)"
            )
            lines.append(f"warning: {row.unknown:.0%} of the {row.side} tokens of {row.split} are unknown; {hint}")
    return lines


def token_lines(kind: str, tokenizer: TextTokenizer, rows: Sequence[SideCounts]) -> list[str]:
    """The kind and size of the tokenizer of one side, its token counts and warnings."""
    tokenizers = dict.fromkeys([row.side for row in rows], tokenizer)
    title = f"\ntokenizer {kind}: {tokenizer.vocab_size:,} tokens\n"
    return [title, length_table(rows), *vocabulary_warnings(rows, tokenizers)]


def sample_lines(origin: str, labels: str, sides: Iterable[tuple[str, str, TextTokenizer, list[int]]]) -> str:
    """One example for people: its text and, below it, the tokens that the model reads.

    Each of `sides` is a name, a text, its tokenizer and its tokens.
    """
    lines = [f"  {escaped(origin)}", *([f"    {escaped(labels)}"] if labels else [])]
    for name, text, tokenizer, ids in sides:
        start = f"    {name:8}" if name else "    "
        lines += [f"{start}{shown(text[:120])}{' ...' if len(text) > 120 else ''}"]
        lines += [f"{' ' * len(start)}{tokens_text(tokenizer, ids)}"]
    return "\n".join(lines)


def tokens_text(tokenizer: TextTokenizer, ids: list[int]) -> str:
    """The first tokens of an example, as they are in the vocabulary."""
    text = " ".join(shown(tokenizer.piece(i)) for i in ids[:_SHOWN_TOKENS])
    return text + (" ..." if len(ids) > _SHOWN_TOKENS else "")


def shown(text: str) -> str:
    """A text with invisible characters escaped: a control character could change how the rest is displayed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
