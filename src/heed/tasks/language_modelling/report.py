"""The scores of a language model as text."""

from __future__ import annotations

from typing import Any

from heed.tasks.base.report import counted_are, plain, span
from heed.tasks.language_modelling.units import FEW_DOCUMENTS

_LINES = {
    "perplexity": "perplexity per token",
    "word_perplexity": "perplexity per word",
    "bits_per_character": "bits per character",
    "bits_per_byte": "bits per byte",
    "loss": "nats per token",
}


def body(report: dict[str, Any]) -> list[str]:
    """Lines with the scores of one set."""
    lines = [f"  {label:<20} {plain(report[name])}" for name, label in _LINES.items() if name in report]
    counts = ", ".join(f"{report[name]:,} {name}" for name in ("tokens", "words", "characters", "bytes"))
    lines.append(f"  of {counts}; every token is scored once")
    over = report["intervals_over"]
    few = "" if over["what"] == "documents" else f", because there are fewer than {FEW_DOCUMENTS} documents"
    lines.append(f"  intervals over {over['count']:,} {over['what']}{few}")
    lines.append(f"  {_context(report)}")
    if report["end_tokens"]:
        ends = f"{report['end_tokens']:,} end token{'s' if report['end_tokens'] > 1 else ''}"
        lines.append(f"  {ends} not counted above: {report['end_token_loss']:.4g} nats each")
    if report["unknown_tokens"]:
        lines.append(
            f"  {counted_are(report['unknown_tokens'], 'token')} unknown to the tokenizer: the text they replace is "
            "not scored, so bits and perplexity are not those of the raw text"
        )
    if report["changed_documents"]:
        lines.append(
            f"  {counted_are(report['changed_documents'], 'document')} normalised or lower-cased before reading: bits "
            "are those of the changed text, per character and byte of the raw text"
        )
    lines.append("  nats per token by position in the context (0 is the first):")
    for part in report["by_place"]:
        lines.append(f"    {span(part):>12}  {part['loss']:.4f}  ({part['tokens']:,})")
    return lines


def _context(report: dict[str, Any]) -> str:
    """Describe how much text each token was predicted from."""
    context, stride = report["context"], report["stride"]
    if context is None:
        return "each token is predicted from all earlier text of its document"
    if stride == context:
        hint = "a smaller evaluation.stride predicts tokens from more text"
        return f"context {context}, stride {stride}: windows do not overlap; {hint}"
    return (
        f"context {context}, stride {stride}: each token is predicted from at least {context - stride} tokens before it"
    )
