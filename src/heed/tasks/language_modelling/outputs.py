"""The output of `heed predict` for a language model: continuations, ranked choices, scores of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heed.errors import ConfigError
from heed.tasks.base.predictions import TextOutputs, Written, one_line
from heed.tasks.base.report import counted_are
from heed.tasks.base.writing import SAMPLING, sampling_of
from heed.tasks.heads.continuing import Continuation, context_of, join, rank
from heed.tasks.heads.token_scores import score_each, usual_stride
from heed.visible import to_json

_WRITING: dict[str, Any] = {"beam": None, "sample": False, **SAMPLING}
_WRITING |= {"repetition_penalty": 1.0, "stop": (), "length": None, "nbest": 1}
"""Options of writing, and their values where they are not given."""


class LanguageModelOutputs(TextOutputs):
    """Continuations, one per line; with --choice the ranked choices of each prompt; with --score a line for each token.

    The output for a single prompt given as an argument keeps its line breaks; with several prompts each output is one
    line, with spaces for line breaks (--json keeps them).
    """

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self._choices: tuple[str, ...] = options["choice"]
        if blank := [n for n, choice in enumerate(self._choices, start=1) if not choice.strip()]:
            raise ConfigError(f"--choice {blank[0]} is blank: {self._choices[blank[0] - 1]!r}")
        self._single = False
        self._num_unread = 0
        self._unread = (0, 0)  # tokens of the longest prompt that was not fully read, and how many of them were read
        self._blank_ends = False  # whether a prompt ends with a space, which the tokenizer attaches to the next word
        self._windowed = 0  # texts that were scored in windows
        option = next((name.replace("_", "-") for name, usual in _WRITING.items() if options[name] != usual), None)
        if options["score"] and self._choices:
            raise ConfigError("--score reads whole texts and --choice ranks continuations; give only one")
        if options["score"] and option:
            raise ConfigError(f"--score writes nothing, so --{option} does not apply to it")
        if self._choices and option:
            raise ConfigError(f"--choice ranks given continuations and writes none, so --{option} does not apply")
        if options["end"] and not self._choices:
            raise ConfigError("--end applies only to ranked choices; add --choice")
        self._writing: dict[str, Any] = {}
        if not (options["score"] or self._choices):
            self._writing = {
                "num_best": options["nbest"],
                "beam_size": options["beam"],
                "length": options["length"],
                "sampling": sampling_of(options),
                "repetition_penalty": options["repetition_penalty"],
                "stop": tuple(text.replace(r"\n", "\n").replace(r"\t", "\t") for text in options["stop"]),
            }
            run.head.options_of(run, **self._writing)  # refuses invalid options before any text is read

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        """Refuse an input without lines."""
        if not lines:
            what = "text to score" if self.options["score"] else "prompt"
            raise ConfigError(f"there is no {what}{f' in {where}' if where else ''}; give one, or a file with --input")
        self._single = where is None and len(lines) == 1

    def unknown_in(self, text: str) -> Sequence[str]:
        tokenizer = self.run.tokenizer
        found: list[str] = tokenizer.unknown_in(text)
        for choice in self._choices:
            whole = join(text, choice)  # a word may be another token without the space before it
            encoded = tokenizer.encode(whole)
            places = [
                span
                for token, span in zip(encoded.ids, encoded.spans, strict=True)
                if token == tokenizer.special.unknown
            ]
            found += [whole[start:stop].strip() for start, stop in places if stop > len(text)]
        return found

    def write(self, texts: list[str]) -> Iterator[Written]:
        input, model = self.run.input, self.run.model
        if self.options["score"]:
            self._see(texts)
            for scored in score_each(input, model, texts):
                yield Written((to_json(scored.as_json()),) if self.options["json"] else scored.lines())
        elif self._choices:
            self._see([join(text, choice) for text in texts for choice in self._choices])
            end, pairs = self.options["end"], [(text, self._choices) for text in texts]
            for text, ranked in zip(texts, rank(input, model, pairs, end), strict=True):
                if self.options["json"]:
                    choices = [one.as_json() for one in ranked]
                    yield Written((to_json({"prompt": text, "end_token": end, "choices": choices}),))
                else:
                    head = "probability  log-prob  per token  per byte  tokens  choice"
                    above = [head] if self._single else [one_line(text), head]
                    yield Written((*above, *(one.line() for one in ranked)))
        else:
            for candidates in self.run.candidates(texts, **self._writing):
                self._count(candidates[0])
                yield Written(tuple(map(self._line, candidates)))

    def _see(self, texts: list[str]) -> None:
        if (context := context_of(self.run.input, self.run.model)) is not None:
            self._windowed += sum(len(ids) > context for ids in self.run.input.tokenizer.encode_all(texts))

    def _count(self, continuation: Continuation) -> None:
        if continuation.prompt.endswith(" ") and self.run.input.tokenizer.unit in ("token", "word"):
            self._blank_ends = True
        if continuation.unread:
            length = len(self.run.input.tokenizer.encode(continuation.prompt).ids)
            self._num_unread += 1
            self._unread = max(self._unread, (length, length - continuation.unread))

    def notes(self) -> list[str]:
        context, lines = context_of(self.run.input, self.run.model), []
        if self._choices:
            end = "the end token after it is counted" if self.options["end"] else "end tokens are not counted"
            lines.append(f"ranked by the total log-probability of each choice, in nats; {end}")
        if self._windowed:
            least = self.run.input.context - usual_stride(self.run.input)
            lines.append(
                f"{counted_are(self._windowed, 'text')} longer than the context of {context} tokens: later tokens are "
                f"predicted from the {least} to {context} tokens before them"
            )
        if self._blank_ends:
            lines.append("a prompt ends with a space, which is part of the next word's token; remove the space")
        if self._num_unread:
            length, read = self._unread
            room = f"the context of {context}" if read == context else f"what a beam can read, {read}"
            said = f"the prompt of {length:,} tokens is longer than {room}:"
            if self._num_unread > 1:
                said = f"{self._num_unread} prompts are longer than {room} tokens: of the longest, with {length:,},"
            lines.append(f"{said} only the last {read} were read")
        return lines

    def _line(self, continuation: Continuation) -> str:
        if self.options["json"]:
            return to_json({"prompt": continuation.prompt, **continuation.as_json()})
        if self.options["nbest"] > 1:
            return f"{continuation.score:.4f}\t{one_line(continuation.text)}"
        return continuation.text if self._single else one_line(continuation.text)

    @property
    def streams(self) -> bool:
        plain = self._writing and not self.options["json"]
        return bool(plain) and self.run.head.options_of(self.run, **self._writing).streams

    def pieces(self, text: str) -> Iterator[str]:
        self._single = True
        yield from self.grow(text) if self.streams else [self.answer(text)]

    def grow(self, text: str) -> Iterator[str]:
        continuation = yield from self.run.write(text, **self._writing)
        self._count(continuation)

    def answer(self, text: str) -> str:
        self._single = True
        return "\n".join(line for written in self.write([text]) for line in written.lines)
