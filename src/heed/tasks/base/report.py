"""Printed reports (numbers with intervals, tables by label, baselines) and the overviews of `heed check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.data.tokens.special import UNKNOWN
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import counted as counted
from heed.evaluation.significance import ends, shown
from heed.visible import escaped


def counted_are(count: int, unit: str) -> str:
    """A count as the subject of a sentence: "1 pair is", "1,200 pairs are"."""
    return f"{counted(count, unit)} {'is' if count == 1 else 'are'}"


def first_of(count: int, total: int, unit: str) -> str:
    """As "the first 2 of 5 turns are", or "the first of 5 turns is"."""
    return f"the first of {total:,} {unit}s is" if count == 1 else f"the first {count:,} of {total:,} {unit}s are"


def span(bucket: Mapping[str, Any]) -> str:
    """The lengths of a bucket: "7", "13-15"."""
    first, last = bucket["first"], bucket["last"]
    return str(first) if first == last else f"{first}-{last}"


def interval(values: dict[str, float]) -> str:
    """A share with its interval, in percent."""
    return f"{values['value']:7.2%}  [{ends(values, '.2%')}]"


def points(values: dict[str, float]) -> str:
    """A number of points with its interval."""
    return f"{values['value']:7.2f}  [{ends(values, '.2f')}]"


def with_interval(values: dict[str, float]) -> str:
    """A number with its interval, in its own unit."""
    return f"{values['value']:.4g} [{ends(values, '.4g')}]"


_POINTS = ("bleu", "chrf", "ter", "rouge1", "rouge2", "rougeL")
"""Scores of 0 to 100."""
_NUMBERS = ("perplexity", "word_perplexity", "bits_per_character", "bits_per_byte", "loss", "mae", "rmse", "r2")
"""Scores in units of their own; all others are shares."""


def shown_score(name: str, value: Any) -> str:
    """A value of a report: a score with its interval, a score without one, a count, or a text."""
    if isinstance(value, Mapping):
        form = points if name in _POINTS else with_interval if name in _NUMBERS else interval
        return form(value)  # type: ignore[arg-type]
    if isinstance(value, float):
        return f"{value:.4f}" if name in _NUMBERS else f"{value:7.2%}"
    return f"{value:7,}" if isinstance(value, int) else str(value)


def score_lines(report: Mapping[str, Any], labels: Mapping[str, str], width: int = 20) -> list[str]:
    """A line for each of these values that a report has; `labels` are their names for readers."""
    return [f"  {label:<{width}} {shown_score(name, report[name])}" for name, label in labels.items() if name in report]


_NOTES = {
    "cut": "text is|are longer than data.max_length; the rest was not read",
    "unknown_tokens": "token is|are unknown to the tokenizer: the text they replace is not scored, so bits and "
    "perplexity are not those of the raw text",
    "changed_documents": "document is|are normalised or lower-cased before reading: bits are those of the changed "
    "text, per character and byte of the raw text",
    "history_cut": "response is|are to a history whose first turns were not read",
    "cut_off": "output was|were cut off at generation.max_length",
}
"""Sentences on counts of a report: unit, verb in singular and plural, and the rest."""


def note_lines(report: Mapping[str, Any], *names: str) -> list[str]:
    """A sentence for each of these counts of a report that is not 0."""
    notes = ((report[name], *_NOTES[name].split(" ", 2)) for name in names if report.get(name))
    return [f"  {counted(n, unit)} {verb.split('|')[n != 1]} {note}" for n, unit, verb, note in notes]


_SIGNED = {"rouge2": "ROUGE", "bleu": "BLEU", "chrf": "chrF", "ter": "TER"}


def signature_lines(report: Mapping[str, Any]) -> list[str]:
    """The signatures of the scores of texts, and a remark on case."""
    signatures = {name: report[key]["signature"] for key, name in _SIGNED.items() if key in report}
    lines = [f"  {name}: {signature}" for name, signature in signatures.items()]
    if any("case:lc" in signatures.get(name, "") for name in ("BLEU", "chrF")):
        lines.append("  BLEU and chrF ignore case, because the run writes lower case only")
    return lines


_LABEL_SCORES = {"accuracy": "accuracy", "top_5": "top-5 accuracy", "macro_f1": "macro F1", "micro_f1": "micro F1"}
_LABEL_SCORES |= {"calibration_error": "calibration error"}


def label_body(report: dict[str, Any]) -> list[str]:
    """The scores of labels; micro F1 only if it differs from accuracy, as it does not with one label each."""
    same = report["micro_f1"] == report["accuracy"]
    lines = score_lines(
        report, {name: label for name, label in _LABEL_SCORES.items() if not same or name != "micro_f1"}
    )
    return [*lines, *per_name(report, "label"), *confusion_lines(report), *note_lines(report, "cut")]


def per_name(report: Mapping[str, Any], kind: str) -> list[str]:
    """Precision, recall and F1 of each label, tag or type of entities."""
    shown = {escaped(name): values for name, values in report[f"per_{kind}"].items()}
    width = min(24, max(map(len, [kind, *shown])))
    lines = [f"  {kind:<{width}} {'precision':>10} {'recall':>10} {'F1':>10} {'support':>9}"]
    for name, values in shown.items():
        numbers = " ".join(f"{values[key]:10.2%}" for key in ("precision", "recall", "f1"))
        lines.append(f"  {name[:width]:<{width}} {numbers} {values['support']:>9,}")
    return lines


_SHOWN = 12
"""Most labels of a confusion matrix that is printed; larger ones are in the report only."""
_WIDE = 16
"""Longest label in that matrix; of longer ones the beginning is printed."""


def confusion_lines(report: Mapping[str, Any]) -> list[str]:
    """Counts by true and predicted label, if a report has them."""
    if "confusion" not in report:
        return []
    labels, matrix = [escaped(label) for label in report["confusion"]["labels"]], report["confusion"]["matrix"]
    if len(labels) > _SHOWN:
        return [f"  confusion matrix of {len(labels)} labels: see --json"]
    labels = [label if len(label) <= _WIDE else f"{label[: _WIDE - 3]}..." for label in labels]
    width = max(7, *map(len, labels)) + 1
    lines = ["  confusion (rows true, columns predicted)", "  " + " " * width]
    lines[1] += "".join(f"{label:>{width}}" for label in labels)
    for label, row in zip(labels, matrix, strict=True):
        lines.append(f"  {label:>{width}}" + "".join(f"{count:>{width},}" for count in row))
    return lines


def length_lines(title: str, buckets: Iterable[Mapping[str, Any]], name: str, count: str, width: int = 8) -> list[str]:
    """A score of examples in ranges of length; `count` is the field with the number of a range's examples."""
    lines = [f"  {title}:"]
    for bucket in buckets:
        value, form = bucket[name], {"perplexity": "7.2f", "loss": ".4f"}.get(name, "")
        shown = shown_score(name, value) if isinstance(value, Mapping) else f"{value:{form}}"
        lines.append(f"    {span(bucket):>{width}}  {shown}  ({bucket[count]:,})")
    return lines


def error_lines(report: Mapping[str, Any], count: int) -> list[str]:
    """The first errors of a report, for people; each text is on one line, with invisible characters escaped."""
    title, lines = "no errors", []
    for error in report["errors"][:count]:
        e: dict[str, Any] = {name: escaped(value) if isinstance(value, str) else value for name, value in error.items()}
        true, predicted = e["true"], e["predicted"]
        if "count" in e:
            title, line = "most frequent errors:", f"  {e['count']:>6,}  {true} predicted as {predicted}"
        elif "kind" in e:
            title = "errors (true entity in [ ], predicted in { }):"
            line = f"  {e['origin']}  {e['kind']}: {' as '.join(filter(None, (true, predicted)))}\n    {e['context']}"
        elif "probability" in e:
            title = "errors, most confident first:"
            line = f"  {e['origin']}  is {true or '(none)'}, predicted {predicted or '(none)'} ({e['probability']:.3f})"
            line += f"\n    {e['text']}" if "text" in e else ""
        else:
            title = "largest errors first:"
            line = f"  {e['origin']}  is {true:.7g}, predicted {predicted:.7g} ({predicted - true:+.4g})"
            line += f"\n    {e['text']}" if "text" in e else ""
        lines.append(line)
    return [title, *lines]


def baseline_scores(run: Any, report: Mapping[str, Any], examples: Sequence[Any]) -> dict[str, Any]:
    """Measures of each baseline of a run with their intervals, and the baselines that are better than the model.

    Args:
        run: The run.
        report: The scores of the model on the examples: numbers, or a report with intervals.
        examples: The examples.

    Returns:
        Nothing without baselines, else
        "baselines": for each baseline and measure, value, low and high (if there is an interval), label, is_share.
        "better_baselines", if there are any: for each baseline that is better than the model by the first, most
        important measure of both, that measure.
    """
    baselines, better = {}, {}
    for name, outcomes in run.baselines(examples).items():
        scores = shown(outcomes.measures, run.config.evaluation.bootstrap)
        baselines[name] = {
            m.name: {**scores[m.name], "label": m.label, "is_share": m.is_share} for m in outcomes.measures
        }
        first = next((m for m in outcomes.measures if m.name in report), None)
        if first is not None:
            value, other = _value(report[first.name]), scores[first.name]["value"]
            if value < other if first.higher_is_better else value > other:
                better[name] = [first.name]
    return {} if not baselines else {"baselines": baselines, **({"better_baselines": better} if better else {})}


def _value(score: Any) -> float:
    return float(score["value"] if isinstance(score, Mapping) else score)


def best_baseline(report: Mapping[str, Any]) -> str | None:
    """The baseline with the highest first score that the report has of the model too; None without one."""
    baselines = report.get("baselines", {})
    first = next((key for values in baselines.values() for key in values if key in report), None)
    return None if first is None else max(baselines, key=lambda name: float(baselines[name][first]["value"]))


def baseline_lines(report: Mapping[str, Any]) -> list[str]:
    """A line for each baseline of a report, followed by a second one if the baseline is better than the model."""
    lines = []
    better = report.get("better_baselines", {})
    for name, values in report.get("baselines", {}).items():
        scores = (f"{s['label']} {s['value']:{_form(s)}} [{ends(s, _form(s))}]" for s in values.values())
        lines.append(f"  baseline ({name}): {', '.join(scores)}")
        if name in better:
            lines.append(f"    the model is worse than this baseline: {worse_than(report, name)}")
    return lines


def worse_than(report: Mapping[str, Any], name: str) -> str:
    """The score of the model and that of a better baseline."""
    (key,) = report["better_baselines"][name]
    of_baseline = report["baselines"][name][key]
    value, other = (f"{_value(score):{_form(of_baseline)}}" for score in (report[key], of_baseline))
    return f"{of_baseline['label']} {value}, baseline {other}"


def _form(score: Mapping[str, Any]) -> str:
    return ".2%" if score["is_share"] else ".4g"


_FEW_TOKENS = 20
_FEW_CHARACTERS = 5
_DOMINANT_SHARE = 0.5
_MANY_UNKNOWN = 0.2
_SHOWN_TOKENS = 30


@dataclass
class SideCounts:
    """Tokens on one side of a split."""

    split: str  # its name
    side: str  # its name: "source", "target", "text"
    lengths: NDArray[Any]  # `(examples,)`
    tokens: NDArray[np.int64]  # `(vocab_size,)`, occurrences of each token
    unknown_token: int = UNKNOWN

    @property
    def total(self) -> int:
        """Number of tokens."""
        return int(self.tokens.sum())

    @property
    def unknown(self) -> int:
        """Number of unknown tokens."""
        return int(self.tokens[self.unknown_token])

    @property
    def share(self) -> float:
        """Share of unknown tokens."""
        return self.unknown / max(1, self.total)

    def length_at(self, share: float) -> int:
        """The length that this share of the examples does not exceed."""
        count = len(self.lengths)
        return int(np.sort(self.lengths)[min(count - 1, int(share * count))]) if count else 0


def length_table(rows: Iterable[SideCounts]) -> str:
    """A table of token counts, with columns as wide as their longest number."""
    lines = [["", "", "tokens", "median", "95 %", "longest", "unknown"]]
    for row in rows:
        counts = row.total, row.length_at(0.5), row.length_at(0.95), row.length_at(1)
        lines.append([row.split, row.side, *(f"{count:,}" for count in counts), f"{row.share:.2%}"])
    widths = [max(width, *(len(line[n]) + 2 for line in lines)) for n, width in enumerate((20, 8, 12, 8, 8, 9, 10))]
    return "\n".join(
        f"{split:{widths[0]}}{side:{widths[1]}}" + "".join(map(str.rjust, cells, widths[2:]))
        for split, side, *cells in lines
    )


def vocabulary_warnings(rows: Iterable[SideCounts], tokenizers: Mapping[str, TextTokenizer]) -> list[str]:
    """Warnings of an almost empty vocabulary, and of data that does not fit the vocabulary."""
    lines = []
    for side, tokenizer in tokenizers.items():
        special = {*tokenizer.special, *tokenizer.tags.values()}
        ids = [i for i in range(tokenizer.vocab_size) if i not in special]
        minimum = _FEW_CHARACTERS if tokenizer.unit == "character" else _FEW_TOKENS
        if len(ids) < minimum:
            pieces = " ".join(printable(tokenizer.piece(i)) for i in ids)
            size = f"almost empty: {counted(len(ids), 'token')} ({pieces})" if ids else "empty"
            lines.append(f"warning: the {side} vocabulary is {size}")
    for row in rows:
        tokenizer = tokenizers[row.side]
        token = int(row.tokens.argmax())
        share = row.tokens[token] / max(1, row.total)
        if token != row.unknown_token and share > _DOMINANT_SHARE:
            lines.append(
                f"warning: {share:.0%} of the {row.side} tokens of {row.split} are {printable(tokenizer.piece(token))}"
            )
        lines += _unknown_line(row.share, row.side, row.split)
    return lines


def _unknown_line(share: float, side: str, split: str) -> list[str]:
    """A warning if many tokens are unknown."""
    hint = (
        "a lower tokenizer.min_count, or tokenizer.kind unigram or char, leaves fewer unknown"
        if split == "train"
        else "check that it is in the language and script of the training set (tokenizer.kind unigram or char leaves "
        "fewest unknown)"
    )
    many = share > _MANY_UNKNOWN
    return [f"warning: {share:.0%} of the {side} tokens of {split} are unknown; {hint}"] if many else []


def unknown_lines(counts: Mapping[str, int]) -> list[str]:
    """The warnings before a training of many unknown tokens, from the counts of the training set in a report."""
    sides = {name.removesuffix("unknown").rstrip("_") or "text": name for name in counts if name.endswith("unknown")}
    fractions = {side: counts[name] / max(1, counts[name.replace("unknown", "tokens")]) for side, name in sides.items()}
    return [line for side, share in fractions.items() for line in _unknown_line(share, side, "train")]


def token_lines(section: Any, tokenizers: Mapping[str, TextTokenizer], rows: Sequence[SideCounts]) -> list[str]:
    """The kind and sizes of the tokenizers, one or one for each side, their token counts and warnings."""
    sizes = [f"{t.vocab_size:,} {f'{side} ' * (len(tokenizers) > 1)}tokens" for side, t in tokenizers.items()]
    title = f"\ntokenizer {section.kind}: {', '.join(sizes)}{' (shared)' * section.shared}\n"
    named = tokenizers if len(tokenizers) > 1 else dict.fromkeys([row.side for row in rows], *tokenizers.values())
    return [title, length_table(rows), *vocabulary_warnings(rows, named)]


def sample_lines(origin: str, labels: str, sides: Iterable[tuple[str, str, TextTokenizer, list[int]]]) -> str:
    """One example for people: its text and, below it, the tokens that the model reads.

    Each of `sides` is a name, a text, its tokenizer and its tokens.
    """
    lines = [f"  {escaped(origin)}", *([f"    {escaped(labels)}"] if labels else [])]
    for name, text, tokenizer, ids in sides:
        start = f"    {name:8}" if name else "    "
        lines += [f"{start}{printable(text[:120])}{' ...' if len(text) > 120 else ''}"]
        lines += [f"{' ' * len(start)}{tokens_text(tokenizer, ids)}"]
    return "\n".join(lines)


def tokens_text(tokenizer: TextTokenizer, ids: list[int]) -> str:
    """The first tokens of an example, as they are in the vocabulary."""
    text = " ".join(printable(tokenizer.piece(i)) for i in ids[:_SHOWN_TOKENS])
    return text + (" ..." if len(ids) > _SHOWN_TOKENS else "")


def printable(text: str) -> str:
    """A text with invisible characters escaped: a control character could change how the rest is displayed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
