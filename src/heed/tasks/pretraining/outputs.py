"""Output of `heed predict` for a pretrained model: filled masks, ranked words, or whether a text follows another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heed.data.read.sentences import without_breaks
from heed.errors import ConfigError
from heed.tasks.base.outputs import TextOutputs, Written, one_line, units
from heed.tasks.base.predictions import short
from heed.tasks.pretraining.filling import FilledText, RankedWord, check_choices, check_masks
from heed.tasks.pretraining.following import NextSentence
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.tasks.pretraining.run import PretrainingRun

_ASKED = 5
"""Candidates shown for a text that was typed interactively."""


class PretrainingOutputs(TextOutputs):
    """One output line per input line: the filled text, then each mask's word and probability, separated by tabs.

    With --nbest the candidates of each mask, one `probability TAB word` per line; with --choice the given words,
    most probable first; with --next `follows` or `does not follow` and the probability that it follows, for each pair:
    two arguments, or two columns of a line.
    """

    run: PretrainingRun

    def __init__(self, run: PretrainingRun, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self.unit = units(run.task.tokenizer.unit)
        self._waiting: str | None = None  # the first text of a pair of arguments
        self._in_lines = False
        self._unread = 0
        choices, is_pair = options["choice"], options["next"]
        if choices:
            check_choices(choices)
        for name, given in (("choice", bool(choices)), ("nbest", options["nbest"] != 1)):
            if is_pair and given:
                raise ConfigError(f"--next reads pairs of texts and fills no mask, so --{name} does not apply")
        if choices and options["nbest"] != 1:
            raise ConfigError("--choice ranks all given words, so --nbest does not apply")

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        """Texts, or with --next an even number of arguments.

        Raises:
            ConfigError: The number of arguments is odd.
        """
        self._in_lines = where is not None
        if self.options["next"] and where is None and (len(lines) % 2 or not lines):
            raise ConfigError(
                f"--next takes pairs of texts, but got {len(lines)} in all; give the first and the second text in "
                'quotes (heed predict RUN --next "He went out." "It was cold.")'
            )

    def check(self, text: str, place: str) -> None:
        """Refuse a text without a mask; with --next a line without two columns.

        Raises:
            ConfigError: The text has no mask, or the line not two columns.
        """
        if not text.strip():
            return
        if not self.options["next"]:
            check_masks(text, self.run.task.tokenizer, place)
        elif self._in_lines and (count := len(text.split("\t"))) != 2:
            raise ConfigError(
                f"{place} has {count} column{'' if count == 1 else 's'}, expected two texts with a tab between them: "
                f"{short(text)}"
            )

    def unknown_in(self, text: str) -> Sequence[str]:
        """The pieces of a text that training never saw, masks aside."""
        tokenizer = self.run.task.tokenizer
        mask = "" if tokenizer.mask is None else tokenizer.token(tokenizer.mask)
        plain = without_breaks(text).replace("[MASK]", " ").replace(mask or "[MASK]", " ")
        return tokenizer.unknown_in(plain.replace("\t", " "))

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Write the output lines of each input; for a pair of arguments, after the second."""
        if self.options["next"]:
            yield from self._pairs(texts)
        elif self.options["choice"]:
            for text in texts:
                ranked = self.run.rank(text, self.options["choice"]) if text.strip() else []
                yield Written(self._ranked(text, ranked))
        else:
            for filled in self.run.predict(texts, most=self.options["nbest"]):
                self._unread = max(self._unread, filled.unread)
                yield Written(self._filled(filled))

    def _pairs(self, texts: list[str]) -> Iterator[Written]:
        for text in texts:
            if self._in_lines:
                pair = text.split("\t") if text.strip() else []
            elif self._waiting is None:
                self._waiting, pair = text, []
                yield Written(())
                continue
            else:
                pair, self._waiting = [self._waiting, text], None
            if not pair:
                yield Written(("",))
                continue
            (found,) = self.run.follows([(pair[0], pair[1])])
            self._unread = max(self._unread, found.unread)
            yield Written((self._followed(found),))

    def notes(self) -> list[str]:
        """A note if texts were longer than the model's positions."""
        lines = []
        if self._unread:
            part = "the part where the two meet" if self.options["next"] else "the part around the masks"
            most = self.run.task.positions
            lines.append(f"a text is longer than the {most} tokens that the model reads at once: only {part} was read")
        return lines

    def _filled(self, filled: FilledText) -> tuple[str, ...]:
        if self.options["json"]:
            masks = [[{"word": one.word, "probability": round(one.probability, 6)} for one in c] for c in filled.masks]
            return (to_json({"text": filled.given, "filled": filled.text, "masks": masks}),)
        if not filled.masks:
            return ("",)
        if self.options["nbest"] > 1:
            several = len(filled.masks) > 1
            return tuple(
                f"{f'mask {number}{chr(9)}' if several else ''}{one.probability:.4f}\t{one.word}"
                for number, candidates in enumerate(filled.masks, start=1)
                for one in candidates
            )
        best = [f"{candidates[0].word} {candidates[0].probability:.4f}" for candidates in filled.masks]
        return ("\t".join([one_line(filled.text), *best]),)

    def _ranked(self, text: str, ranked: Sequence[RankedWord]) -> tuple[str, ...]:
        if self.options["json"]:
            choices = [
                {
                    "choice": one.word,
                    "probability": round(one.probability, 6),
                    "log_prob": round(one.log_prob, 6),
                    "pieces": one.pieces,
                }
                for one in ranked
            ]
            return (to_json({"text": text, "choices": choices}),)
        if not ranked:
            return ("",)
        lines = [one_line(text)] if self._in_lines else []
        lines.append("probability  log-prob  pieces  choice")
        for one in ranked:
            cut = f"  ({' '.join(one.pieces)})" if len(one.pieces) > 1 else ""
            lines.append(f"{one.probability:11.4f}  {one.log_prob:8.3f}  {len(one.pieces):6}  {one.word}{cut}")
        return tuple(lines)

    def _followed(self, found: NextSentence) -> str:
        if self.options["json"]:
            values = {
                "first": found.first,
                "second": found.second,
                "follows": found.follows,
                "probability": round(found.probability, 6),
            }
            return to_json(values)
        return f"{found.answer}\t{found.probability:.4f}"

    def answer(self, text: str) -> str:
        """Return the output for one text that was typed interactively."""
        if self.options["next"]:
            first, tab, second = text.partition("\t")
            if not tab:
                return "type two texts with a tab between them"
            return self._followed(self.run.follows([(first, second)])[0])
        if self.options["choice"]:
            return "\n".join(self._ranked(text, self.run.rank(text, self.options["choice"])))
        return self.run.predict(text, most=max(_ASKED, self.options["nbest"])).summary()
