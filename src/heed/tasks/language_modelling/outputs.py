"""Output of `heed predict` for a language model: continuations, ranked choices, or the scores of every token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heed.data.tokens.tokenizer import UNKNOWN
from heed.errors import ConfigError
from heed.generation import SamplingOptions
from heed.tasks.base.outputs import TextOutputs, Written, one_line, units
from heed.tasks.language_modelling.questions import (
    Question,
    choices_of,
    has_choices,
    is_object,
    question_of,
    texts_of,
)
from heed.tasks.language_modelling.ranking import join, rank
from heed.tasks.language_modelling.scored import score_each, usual_stride
from heed.tasks.language_modelling.writing import context_of
from heed.tasks.language_modelling.written import ranked_as_json, ranked_lines, scored_as_json, scored_lines
from heed.visible import to_json

if TYPE_CHECKING:
    from heed.tasks.language_modelling.continuation import Continuation
    from heed.tasks.language_modelling.using import ContinuesText

_SAMPLING = {"temperature": 1.0, "top-k": None, "top-p": None, "seed": 1}
_WRITING = {
    "beam": None,
    "sample": False,
    **_SAMPLING,
    "repetition-penalty": 1.0,
    "stop": (),
    "length": None,
    "nbest": 1,
}
"""Options of writing, and their values where they are not given."""
_ESCAPES = {r"\n": "\n", r"\t": "\t"}


class LanguageModelOutputs(TextOutputs):
    """Continuations, one per line; with --choice the ranked choices of each prompt; with --score a line for each token.

    The output for a single prompt given as an argument keeps its line breaks; with several prompts each output is one
    line, with spaces for line breaks (--json keeps them).
    """

    run: ContinuesText

    def __init__(self, run: ContinuesText, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        self.unit = units(run.task.tokenizer.unit)
        self._choices = choices_of(options["choice"], options["choices"])
        self._in_json = False  # whether the inputs are lines of JSON
        self._chooses = False  # whether the JSON lines have choices
        self._single = False
        self._num_unread = 0
        self._unread = (0, 0)  # tokens of the longest prompt that was not fully read, and how many of them were read
        self._blank_ends = False  # whether a prompt ends with a space, which the tokenizer attaches to the next word
        self._windowed = 0  # texts that were scored in windows
        self._check()
        self._writing: dict[str, Any] = {}
        if not (options["score"] or self._choices):
            self._writing = {
                "num_best": options["nbest"],
                "beam_size": options["beam"],
                "length": options["length"],
                "sampling": self._sampling(),
                "repetition_penalty": options["repetition_penalty"],
                "stop": tuple(_unescaped(text) for text in options["stop"]),
            }
            run.writing(**self._writing)  # refuses invalid options before any text is read

    def _check(self) -> None:
        """Refuse options that do not apply."""
        options, given = self.options, [name for name in _WRITING if self._given(name)]
        if options["score"]:
            if self._choices:
                raise ConfigError("--score reads whole texts and --choice ranks continuations; give only one")
            if given:
                raise ConfigError(f"--score writes nothing, so --{given[0]} does not apply to it")
        if self._choices and given:
            raise ConfigError(f"--choice ranks given continuations and writes none, so --{given[0]} does not apply")
        if not options["sample"]:
            for name in _SAMPLING:
                if self._given(name):
                    value = options[name.replace("-", "_")]
                    raise ConfigError(f"--{name} {value} applies only to sampled outputs; add --sample")
        elif options["beam"] is not None:
            raise ConfigError(f"--beam {options['beam']} searches and --sample draws; give only one")

    def _given(self, name: str) -> bool:
        return bool(self.options[name.replace("-", "_")] != _WRITING[name])

    def _sampling(self) -> SamplingOptions | None:
        if not self.options["sample"]:
            return None
        return SamplingOptions(*(self.options[name.replace("-", "_")] for name in _SAMPLING))

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        """Decide by the first line whether all are JSON lines, and whether they have choices.

        Raises:
            ConfigError: There is no input, or options do not apply to it.
        """
        if not lines:
            what = "text to score" if self.options["score"] else "prompt"
            raise ConfigError(f"there is no {what}{f' in {where}' if where else ''}; give one, or a file with --input")
        self._single = where is None and len(lines) == 1
        self._in_json = where is not None and is_object(lines[0])
        self._chooses = self._in_json and has_choices(lines[0])
        if self._ranks and self._writing and (given := [name for name in _WRITING if self._given(name)]):
            raise ConfigError(f"{where} has choices to rank, so --{given[0]} does not apply")
        if self.options["end"] and not self._ranks:
            raise ConfigError("--end applies only to ranked choices; add --choice or --choices")

    def check(self, text: str, place: str) -> None:
        """Refuse a JSON line of another kind than the first line.

        Raises:
            ConfigError: The line is of another kind, or not valid.
        """
        self._question(text, place)

    @property
    def _ranks(self) -> bool:
        return bool(self._choices) or self._chooses

    def _question(self, line: str, place: str = "the line") -> Question:
        if not self._in_json:
            return Question(line, self._choices or None)
        field = "text" if self.options["score"] else "prompt"
        found = question_of(line, place, field, bool(self._choices), self._chooses)
        return found if found.choices is not None else Question(found.prompt, self._choices or None)

    def unknown_in(self, text: str) -> Sequence[str]:
        """The pieces of a prompt, and of its choices after the prompt, that the tokenizer lacks."""
        prompt, *choices = texts_of(text) if self._in_json else [text]
        tokenizer = self.run.task.tokenizer
        found = tokenizer.unknown_in(prompt)
        for choice in (*choices, *self._choices):
            whole = join(prompt, choice)  # a word may be another token without the space before it
            encoded = tokenizer.encode(whole)
            places = [span for token, span in zip(encoded.ids, encoded.spans, strict=True) if token == UNKNOWN]
            found += [whole[start:stop].strip() for start, stop in places if stop > len(prompt)]
        return found

    def write(self, texts: list[str]) -> Iterator[Written]:
        """Write the output lines of each input."""
        questions = [self._question(text) for text in texts]
        prompts = [question.prompt for question in questions]
        task, model = self.run.task, self.run.model
        if self.options["score"]:
            self._see(prompts)
            for scored in score_each(task, model, prompts):
                yield Written(scored_as_json(scored) if self.options["json"] else scored_lines(scored))
        elif self._ranks:
            pairs = [(question.prompt, question.choices or ()) for question in questions]
            self._see([join(prompt, choice) for prompt, choices in pairs for choice in choices])
            for prompt, ranked in zip(prompts, rank(task, model, pairs, self.options["end"]), strict=True):
                if self.options["json"]:
                    yield Written(ranked_as_json(prompt, ranked, self.options["end"]))
                else:
                    yield Written(ranked_lines(None if self._single else prompt, ranked))
        else:
            for candidates in self.run.candidates(prompts, **self._writing):
                yield Written(tuple(self._line(candidate) for candidate in candidates))
                self._count(candidates[0])

    def _see(self, texts: list[str]) -> None:
        context = context_of(self.run.task, self.run.model)
        if context is not None:
            self._windowed += sum(len(ids) > context for ids in self.run.task.tokenizer.encode_all(texts))

    def _count(self, continuation: Continuation) -> None:
        if continuation.prompt.endswith(" ") and self.run.task.tokenizer.unit in ("token", "word"):
            self._blank_ends = True
        if continuation.unread:
            length = len(self.run.task.tokenizer.encode(continuation.prompt).ids)
            self._num_unread += 1
            self._unread = max(self._unread, (length, 1 + length - continuation.unread))

    def notes(self) -> list[str]:
        """Notes for the user: whether end tokens count in a ranking; inputs longer than the context."""
        context, lines = context_of(self.run.task, self.run.model), []
        if self._ranks:
            end = "the end token after it is counted" if self.options["end"] else "end tokens are not counted"
            lines.append(f"ranked by the total log-probability of each choice, in nats; {end}")
        if self._windowed:
            texts = "1 text is" if self._windowed == 1 else f"{self._windowed} texts are"
            least = self.run.task.context - usual_stride(self.run.task)
            lines.append(
                f"{texts} longer than the context of {context} tokens: later tokens are predicted from the "
                f"{least} to {context} tokens before them"
            )
        if self._blank_ends:
            lines.append("a prompt ends with a space, which is part of the next word's token; remove the space")
        if self._num_unread:
            length, read = self._unread
            if self._num_unread == 1:
                said = (
                    f"the prompt of {length:,} tokens is longer than the context of {context}: only the last {read} "
                    "were"
                )
            else:
                said = (
                    f"{self._num_unread} prompts are longer than the context of {context} tokens: of the longest, "
                    f"with {length:,}, only the last {read} were"
                )
            lines.append(f"{said} read")
        return lines

    def _line(self, continuation: Continuation) -> str:
        if self.options["json"]:
            values = {
                "prompt": continuation.prompt,
                "text": continuation.text,
                "score": round(continuation.score, 6),
                "log_prob": round(continuation.log_prob, 6),
                "tokens": continuation.tokens,
                "log_probs": [round(p, 6) for p in continuation.log_probs],
                "finished": continuation.finished,
                "stopped_by": continuation.stopped_by,
                "unread": continuation.unread,
            }
            return to_json(values)
        if self.options["nbest"] > 1:
            return f"{continuation.score:.4f}\t{one_line(continuation.text)}"
        return continuation.text if self._single else one_line(continuation.text)

    @property
    def streams(self) -> bool:
        """True if the output can be shown while it is written."""
        plain = self._writing and not self._ranks and not self.options["json"]
        return bool(plain) and self.run.writing(**self._writing).streams

    def pieces(self, text: str) -> Iterator[str]:
        """Yield a continuation piece by piece; other answers as a whole."""
        self._single = True
        if not self.streams:
            yield self.answer(text)
            return
        yield from self.grow(text)

    def grow(self, text: str) -> Iterator[str]:
        """Yield the continuation of an input piece by piece."""
        continuation = yield from self.run.write(self._question(text).prompt, **self._writing)
        self._count(continuation)

    def answer(self, text: str) -> str:
        """Return the output of one input."""
        self._single = True
        return "\n".join(line for written in self.write([text]) for line in written.lines)


def _unescaped(text: str) -> str:
    r"""Turn `\n` and `\t` of a typed stop text into line break and tab."""
    for written, meant in _ESCAPES.items():
        text = text.replace(written, meant)
    return text
