"""Runs of tasks whose models write: lines of `heed predict`, parts of reports and comparisons, looks, a baseline.

A look reads a written text again in one traced pass, which equals the steps that wrote it. A side of a look is a text
token by token and word by word: its axes of maps.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor, nn

from heed.attention import Rows
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.generation import SamplingOptions
from heed.models.base import DecoderBody, Memory
from heed.show.draw_html import map_to_html
from heed.tasks.base.attributing import Explained, padded, placed, table_of, token_named
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.looking import InputSpans, Network, Shown, Words, networks, view_of_words, views_of, watched
from heed.tasks.base.predictions import TextOutputs, Written
from heed.tasks.base.report import best_baseline, counted, worse_than
from heed.tasks.base.writing import WrittenText, bleu_of
from heed.visible import visible
from heed.watch.attribution import Scored
from heed.watch.effects import PROBABLE, Answer
from heed.watch.looks import ROLLOUT, Choice, DecoderFrame, Look, View
from heed.watch.maps import Axis
from heed.watch.trace import Maps, Trace

MOST = 200_000
"""Most training pairs that are searched: the first ones."""
Side = tuple[Words, Words]
"""The tokens of a text, and its words."""


class WritingOutputs(TextOutputs):
    """A line for each candidate: its text, after its score if there are several."""

    def __init__(self, run: Any, options: Mapping[str, Any]) -> None:
        super().__init__(run, options)
        nbest, beam = options["nbest"], options["beam"]
        if beam is not None and nbest > beam:
            raise ConfigError(f"--nbest {nbest} needs a --beam of at least {nbest}, not {beam}")
        self.search = {"beam_size": beam, "max_length": options["length"], "sampling": sampling_of(options)}
        self.num_cut_off = 0

    @abstractmethod
    def candidates(self, texts: list[str], num_best: int) -> list[list[WrittenText]]:
        """The `num_best` best outputs for each text, best first."""

    def write(self, texts: list[str]) -> Iterator[Written]:
        for text, found in zip(texts, self.candidates(texts, self.options["nbest"]), strict=True):
            self.num_cut_off += sum(not one.finished for one in found)
            lines = tuple(line for one in found for line in self.lines(text, one)) or ("",)
            yield Written(lines, unread=max((one.unread for one in found), default=0))

    def answer(self, text: str) -> str:
        best = self.candidates([text], 1)[0][0]
        self.num_cut_off += not best.finished
        return best.summary() + self.not_read(best)

    @property
    def warning(self) -> str:
        scores = scores_beside_baselines(self.run.report)
        name = best_baseline(scores)
        if name is None or name not in scores.get("better_baselines", {}):
            return ""
        return f"the model is worse than a baseline, {name} ({worse_than(scores, name)})"

    def notes(self) -> list[str]:
        if not self.num_cut_off:
            return []
        length = self.options["length"] or self.run.task.config.generation.max_length or 0
        what = "1 output was" if self.num_cut_off == 1 else f"{self.num_cut_off:,} outputs were"
        return [f"{what} cut after {counted(length, 'token')}; --length N allows more"]


SAMPLING = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 1}
"""Options of sampling, and their values where they are not given."""


def sampling_of(options: Mapping[str, Any]) -> SamplingOptions | None:
    """The sampling options, or None; a ConfigError if one was given without --sample."""
    if options["sample"]:
        if options["beam"] is not None:
            raise ConfigError(f"--beam {options['beam']} searches and --sample draws; give only one")
        return SamplingOptions(*(options[name] for name in SAMPLING))
    for name, default in SAMPLING.items():
        if (value := options[name]) != default:
            raise ConfigError(f"--{name.replace('_', '-')} {value} applies only to sampled outputs; add --sample")
    return None


class WritingExaminer(Examiner):
    """Runs that write by beam search; scores per token are compared only if all runs have the same tokens."""

    has_beam = True
    per_token_scores = "scores per token"
    written = "target"
    bleu_tokenize: str
    """sacrebleu's tokenizer for BLEU of all runs."""
    literal: bool
    """True if the runs normalise the references differently, so that outputs are compared with them as they are."""

    @property
    def targets(self) -> str:
        return f"{self.written} tokens"

    @property
    def known(self) -> tuple[bool, bool, str]:
        return self.per_token, self.literal, self.bleu_tokenize

    def _references(self) -> tuple[list[str], list[str]]:
        references = [self.truth_of(one) for one in self.examples]
        first, *others = ([*run.task.tokenizers().values()][-1] for run in self.runs)
        self.per_token = not any(first.first_difference(other) for other in others)
        plain = [*map(first.normalize, references)]
        self.literal = any([*map(other.normalize, references)] != plain for other in others)
        known = list(dict.fromkeys(bleu_of(run.config) for run in self.runs))
        self.bleu_tokenize = next((one for one in known if one != "13a"), "13a")
        what = f"{self.per_token_scores} are left out, and tokens per second differ in unit."
        return references, [
            *(
                [f"The runs tokenize differently for BLEU ({', '.join(known)}): it is of {self.bleu_tokenize}."]
                * (len(known) > 1)
            ),
            *(["The runs normalise text differently: every difference of case and accents counts."] * self.literal),
            *([] if self.per_token else [f"The runs use different tokens: {what}"]),
        ]


def map_html(look: Look, mechanisms: Sequence[str], otherwise: str, numbers: Iterator[int]) -> Markup:
    """The last map of a look that is of one of these mechanisms, as HTML; a hint if there is none."""
    found = [one for one in look.maps if one.mechanism in mechanisms]
    return map_to_html(found[-1], next(numbers)) if found else Markup('<p class="hint">{}</p>').format(otherwise)


def boundaries(tokenizer: TextTokenizer) -> dict[int, str]:
    """Names of tokens that are not text."""
    return {tokenizer.special.start: "start", tokenizer.special.end: "end"}


def side_of(
    tokenizer: TextTokenizer, ids: Sequence[int], name: str, special: Mapping[int, str], typed: InputSpans | None
) -> Side:
    """A text as tokens and as words, with the given name of both axes."""
    tokens, words = (Words.of(tokenizer, ids, name, special, typed, pieces=pieces) for pieces in (True, False))
    return tokens, words


def views_of_sides(
    seen: Trace,
    choice: Choice,
    sides: Mapping[str, Side],
    axes: Mapping[str, tuple[str, str]],
    shown: Callable[[Maps], tuple[Maps, str]],
) -> tuple[list[View], list[View]]:
    """Views of each attention that is shown, token by token and word by word.

    `axes` gives, for each mechanism, the names of the `sides` that it looks from and at; `shown` returns the maps of
    one attention to draw, and their caption.
    """

    def on_axes(maps: Maps) -> tuple[Maps, Shown]:
        (query, _), (key, _) = (sides[name] for name in axes[maps.mechanism])
        drawn, caption = shown(maps)
        return drawn, (query.axis, key.axis, caption)

    tokens = views_of(seen, choice, on_axes)
    of = {ROLLOUT: "encoder"}
    words = [[sides[name][1] for name in axes[of.get(view.map.mechanism, view.map.mechanism)]] for view in tokens]
    return tokens, [view_of_words(view, *both) for view, both in zip(tokens, words, strict=True)]


@dataclass(frozen=True)
class Reread:
    """An output that was read again."""

    ids: list[int]  # its tokens, without the end token
    first: int  # the token before them
    text: str
    score: str  # where it is from, and its probability, for people
    memory: Memory  # of the source
    reading: Trace  # of the source
    writing: Trace  # of the output; another one, since one network may do both
    typed: str | Mapping[int, str]  # its text if a user gave it, else the words that replace unknown tokens
    logits: Tensor  # scores of each of its tokens and of the end token, `(tokens + 1, vocab_size)`
    prefix: int = 0  # number of its first tokens that are not of its text

    @classmethod
    def of(cls, task: Any, model: DecoderBody, source: Any, output: str | WrittenText) -> Reread:
        """Read a source, and again an output for it: a given text, or one that the model wrote; `task` is the input."""
        typed: str | Mapping[int, str]
        if isinstance(output, str):
            ids, text = [*task.target_prefix, *task.target_tokenizer.encode(output).ids], output
            score, typed = "given, not generated by the model", output
        else:
            ids, text, typed = list(output.ids), output.text, output.replaced
            score = "generated by the model" + ("" if output.finished else ", cut off at the maximum length")
        device, first = next(model.parameters()).device, task.first_token(source)
        with watched(model) as reading:
            memory = task.memory(model, [source], device)
        with watched(model) as writing:
            tokens = torch.tensor([[first, *ids]], device=device)
            hidden = model.step(tokens, model.start(memory, Rows.repeat(1, device=device)))[0]
            logits = model.logits(hidden)[0].float()
        labels = torch.tensor([*ids, task.target_tokenizer.special.end], device=device)
        log_prob = float(torch.log_softmax(logits, -1).gather(1, labels.unsqueeze(1)).sum())
        score += f"; probability {math.exp(log_prob):.3g}, log-probability {log_prob:.4g}"
        return cls(ids, first, text, score, memory, reading, writing, typed, logits, len(task.target_prefix))

    @property
    def mechanisms(self) -> list[tuple[str, int]]:
        """The attention that was recorded."""
        return [*self.reading.mechanisms(), *self.writing.mechanisms()]

    @property
    def layer_states(self) -> dict[str, Tensor]:
        """The states of each layer at the tokens of the source."""
        return {f"layer {i}": states[0] for i, states in enumerate(self.reading.tensors("states"))}

    def networks(self, written: Words) -> list[tuple[Network, Words]]:
        """The decoder's recurrent networks, at the step that wrote each word."""
        nets = networks(self.writing, len(self.ids) + 1)
        return [(replace(net, kind="decoder"), written) for net in nets]

    def summary(self, model: Any) -> Tensor | None:
        """The vector that stands for the whole source, of a model that does not attend to it."""
        summary = self.memory.summary
        return None if summary is None or getattr(model, "aligns", True) else summary[0]

    def sides(self, name: str, tokenizer: TextTokenizer, special: Mapping[int, str]) -> dict[str, Side]:
        """The output as it is written, and "`name` read" as it is read."""
        found, end = {}, tokenizer.special.end
        for side, ids, before in ((name, [*self.ids, end], 0), (f"{name} read", [self.first, *self.ids], 1)):
            if isinstance(self.typed, str):
                typed = InputSpans.of(tokenizer, self.typed, before=before + self.prefix)
            else:
                typed = InputSpans.of_words(self.typed, len(ids), before)
            found[side] = side_of(tokenizer, ids, side, special, typed)
        return found

    def frames(self, views: Sequence[View], target: Axis, tokenizer: TextTokenizer) -> tuple[DecoderFrame, ...]:
        """A frame for each token: the last state, the weights of each attention, the most probable tokens."""
        states = [gates["hidden"][0] for gates in self.writing.gates().values()]
        states += [block[0] for block in self.writing.tensors("states")]
        top, names = torch.softmax(self.logits, -1).topk(3, dim=-1), boundaries(tokenizer)
        return tuple(
            DecoderFrame(
                index=t,
                so_far=target.labels[:t],
                token=token,
                state=states[-1][t] if states else self.logits[t],
                glances=tuple(view.glance(t) for view in views),
                top=tuple((names.get(i) or tokenizer.label(i), p) for i, p in zip(ids, values, strict=True)),
            )
            for t, (token, ids, values) in enumerate(
                zip(target.labels, top.indices.tolist(), top.values.tolist(), strict=True)
            )
        )


def hidden_of_pair(model: Any, rows: Tensor, before: Tensor) -> Tensor:
    """The states that predict an output, from tokens of its source, of which some may be left out."""
    hidden: Tensor = model(*padded(rows), before)
    return hidden


def explain_output(
    task: Any,
    model: DecoderBody,
    read: list[int],
    source: Words,
    unknown: int,
    first: int,
    written: str | WrittenText,
    target: str | None,
    rather_than: str | None,
    hidden: Callable[[Any, Tensor, Tensor], Tensor] = hidden_of_pair,
    held: Tensor | None = None,
) -> Explained:
    """The log-probability of an output, or of one token of it after those before, given the source's tokens `read`.

    Args:
        task: The input, which has the tokenizer of the output.
        model: The model.
        read: The tokens of the source.
        source: Its words.
        unknown: The unknown token of the source.
        first: The token before the output.
        written: The output: a given text, or one that the model wrote.
        target: The token of it, with its position if that is meant; None for the whole output.
        rather_than: Another token.
        hidden: The states that predict the output `(N, length)`, from the model, tokens in place of the source's, of
            which some may be left out, and the output as it is read.
        held: True for tokens of the source that stay as they are.

    Raises:
        ConfigError: The output has no such token or position.
    """
    tokenizer, device = task.target_tokenizer, next(model.parameters()).device
    end = tokenizer.special.end
    if isinstance(written, str):
        ids = [*task.target_prefix, *tokenizer.encode(written).ids, end]
    else:
        ids = [*written.ids, *([end] if written.finished else [])]
    labels = [boundaries(tokenizer).get(one) or tokenizer.label(one) for one in ids]
    place, number, other = None, None, None
    name = "the log-probability of the output"
    if target is not None:
        token, place = placed(target, labels)
        if place is None and token not in labels:
            raise ConfigError(f"the output has no token {token!r}: {' '.join(labels)}; or give TOKEN:POSITION")
        place = labels.index(token) if place is None else place
        if place >= len(ids):
            raise ConfigError(f"no position {place}: the output has {len(ids)} tokens, counted from 0")
        number = ids[place] if token == labels[place] else token_named(tokenizer, token)
        name = f"the log-probability of '{token}' at position {place} of the output"
    if rather_than is not None:
        if place is None:
            raise ConfigError("--rather-than needs a token of the output: give --for TOKEN or --for TOKEN:POSITION")
        other = token_named(tokenizer, rather_than)
        name += f" minus that of '{rather_than}'"
    before = torch.tensor([[first, *ids[:-1]]], device=device)
    labels_at = torch.tensor(ids, device=device)

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        assert isinstance(model, DecoderBody)
        states = hidden(model, rows, before.expand(len(rows), -1))
        logits = model.logits(states if place is None else states[:, place : place + 1]).float()
        log_probs = torch.log_softmax(logits, -1)
        if place is None:
            return log_probs.gather(2, labels_at.expand(len(rows), -1).unsqueeze(2)).sum((1, 2))
        first = log_probs[:, 0, number]
        return first if other is None else first - log_probs[:, 0, other]

    scored = Scored(model, table_of(model), torch.tensor(read, device=device), score, unknown, held)
    return Explained(scored, source, name, (f"output: {written if isinstance(written, str) else written.text}",))


def answer_of_output(
    task: Any,
    model: DecoderBody,
    seen: Reread,
    ended: bool,
    tokens: Sequence[int],
    source: Any,
    greedy: bool,
) -> Answer:
    """An output, each of its tokens after those before it.

    Args:
        task: The input.
        model: The model.
        seen: The output, read again.
        ended: Whether the end token belongs to it.
        tokens: The tokens of the source.
        source: The source, as the input reads it.
        greedy: Whether the output was written greedily, so that equal most probable tokens are an equal output.
    """
    device, names = next(model.parameters()).device, boundaries(task.target_tokenizer)
    labels = [*seen.ids, *([task.target_tokenizer.special.end] if ended else [])]
    before = torch.tensor([seen.first, *seen.ids], device=device)
    written = {name for name, _ in seen.writing.mechanisms()}

    def logits(rows: Tensor, mechanism: str) -> Tensor:
        count, once = len(rows), mechanism in written  # a source that is read alike is read once
        memory = task.memory(model, [source] * (1 if once else count), device)
        copies = Rows.repeat(1, count, device=device) if once else Rows.repeat(count, device=device)
        hidden = model.step(before.expand(count, -1), model.start(memory, copies))[0]
        return model.logits(hidden)[:, : len(labels)]

    def named(output: int, number: int) -> str:
        label = names.get(number) or task.target_tokenizer.label(number)
        return f'token {output + 1} "{visible(label)}"'

    compared, read = "output" if greedy else PROBABLE, torch.tensor(tokens, device=device)
    return Answer(model, read, logits, named, labels, compared=compared)


def scores_beside_baselines(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scores of the first set of a run's report that has baselines; empty if none has."""
    every: Mapping[str, Mapping[str, Any]] = report.get("scores", {})
    return next((one for one in every.values() if "baselines" in one), {})


SEARCH: dict[str, Any] = dict.fromkeys(("beam_size", "length_penalty", "min_length", "max_length", "sampling"))
SEARCH |= {"num_best": 1}
"""Keywords of `predict` of a run that writes, with their defaults; None stands for the configuration's."""


class NearestSentence:
    """The translation of the training sentence that shares the most words with a sentence.

    Similarity is the Jaccard index |A and B| / |A or B| of the sets of lower-cased words; of ties, the first is taken.

    Source: Jaccard 1912, New Phytologist 11 (2); Manning, Raghavan & Schuetze 2008, Introduction to Information
    Retrieval, 3.3.4.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Keep the source words and the targets of the first 200,000 pairs."""
        holders, sizes, self._targets = defaultdict[str, list[int]](list), list[int](), list[str]()
        for number, (source, target) in enumerate(islice(pairs, MOST)):
            words = _words(source)
            for word in words:
                holders[word].append(number)
            sizes.append(len(words))
            self._targets.append(target)
        self._sizes = np.array(sizes)
        self._holders = {word: np.array(numbers, np.int32) for word, numbers in holders.items()}

    def __len__(self) -> int:
        return len(self._targets)

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """The looked-up translation of each sentence; "" without training pairs."""
        return [self._targets[self._nearest(_words(text))] if self._targets else "" for text in sentences]

    def _nearest(self, words: Set[str]) -> int:
        shared = np.zeros(len(self._targets))
        for word in words & self._holders.keys():
            shared[self._holders[word]] += 1
        return int((shared / np.maximum(1, len(words) + self._sizes - shared)).argmax())


def _words(text: str) -> Set[str]:
    return set(re.findall(r"\w+", text.lower()))
