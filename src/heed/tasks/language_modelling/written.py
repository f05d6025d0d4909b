"""Output lines of `heed predict` for ranked choices and scored texts."""

from __future__ import annotations

from collections.abc import Sequence

from heed.tasks.base.outputs import one_line
from heed.tasks.language_modelling.ranking import RankedChoice
from heed.tasks.language_modelling.scored import ScoredText
from heed.visible import to_json, visible

_MARK = "\u2581"


def ranked_lines(prompt: str | None, ranked: Sequence[RankedChoice]) -> tuple[str, ...]:
    """A table of choices, below their prompt if it is given."""
    lines = [] if prompt is None else [one_line(prompt)]
    lines.append("probability  log-prob  per token  per byte  tokens  choice")
    for one in ranked:
        numbers = f"{one.probability:11.4f}  {one.log_prob:8.3f}  {one.per_token:9.3f}  {one.per_byte:8.3f}"
        lines.append(f"{numbers}  {len(one.tokens):6}  {one_line(one.choice)}")
    return tuple(lines)


def ranked_as_json(prompt: str, ranked: Sequence[RankedChoice], end: bool) -> tuple[str]:
    """The choices as one JSON object; `end` is True if end tokens count."""
    values = {
        "prompt": prompt,
        "end_token": end,
        "choices": [
            {
                "choice": one.choice,
                "log_prob": round(one.log_prob, 6),
                "per_token": round(one.per_token, 6),
                "per_byte": round(one.per_byte, 6),
                "probability": round(one.probability, 6),
                "tokens": one.tokens,
                "log_probs": [round(p, 6) for p in one.log_probs],
            }
            for one in ranked
        ],
    }
    return (to_json(values),)


def scored_lines(scored: ScoredText) -> tuple[str, ...]:
    """A line for each token, and a line for the text."""
    lines = ["    nats    bits    rank  token"]
    for token, p, bits, place in zip(scored.tokens, scored.log_probs, scored.bits, scored.ranks, strict=True):
        lines.append(f"{p:8.3f}{bits:8.3f}{place:8}  {visible(token.replace(_MARK, ' '))}")
    count, total = len(scored.tokens), scored.log_prob
    said = f"log-probability {total:.4f} nats of {count} tokens"
    if count:
        said += f"; {scored.bits_per_byte:.4f} bits per byte ({scored.num_bytes} bytes)"
    if scored.end_log_prob is not None:
        said += f"; an end token after it, not counted: {scored.end_log_prob:.4f}"
    return (*lines, said)


def scored_as_json(scored: ScoredText) -> tuple[str]:
    """The text and its tokens as one JSON object."""
    values = {
        "text": scored.text,
        "log_prob": round(scored.log_prob, 6),
        "bits_per_byte": round(scored.bits_per_byte, 6) if scored.text else None,
        "tokens": scored.tokens,
        "spans": scored.spans,
        "log_probs": [round(p, 6) for p in scored.log_probs],
        "ranks": scored.ranks,
        "end_log_prob": None if scored.end_log_prob is None else round(scored.end_log_prob, 6),
    }
    return (to_json(values),)
