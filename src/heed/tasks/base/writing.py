"""Models that write: written texts and their scores, lines of `heed predict`, comparisons, looks, a baseline.

A look reads a written text again in one traced pass, which equals the steps that wrote it. A side of a look is a text
token by token and word by word: its axes of maps.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor, nn
from torch.nn import Module

from heed.attention import Rows
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.evaluation.measures import Measure, share
from heed.evaluation.text_scores import ROUGE, rouge_measures, text_measure
from heed.generation import Hypothesis, SamplingOptions
from heed.layers.transformer import DecoderBlock
from heed.models.base import DecoderBody, Memory
from heed.show.draw_html import map_to_html
from heed.tasks.base.attributing import Explained, padded, placed, table_of, token_named
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.looking import InputSpans, Network, Shown, Words, networks, view_of_words, views_of, watched
from heed.tasks.base.predictions import Prediction, TextOutputs, Written, one_line, short
from heed.tasks.base.report import best_baseline, counted, worse_than
from heed.visible import visible
from heed.watch.attribution import Scored
from heed.watch.effects import PROBABLE, Answer
from heed.watch.looks import ROLLOUT, Choice, DecoderFrame, Look, View
from heed.watch.maps import Axis
from heed.watch.trace import Maps, Trace

S = TypeVar("S")
"""The source of one output."""
TOGETHER = 8_000
"""Most tokens that are read together to write outputs."""
VALIDATED = 500
"""Most validation examples for which a text is written; all are judged."""


@dataclass(frozen=True, repr=False)
class WrittenText(Prediction):
    """One output."""

    text: str
    score: float  # ranks the candidates: log-probability / length ** length_penalty
    log_prob: float  # of the whole output, in nats
    tokens: tuple[str, ...]  # tokens written after a forced prefix, as text; "</s>" last if the model ended the output
    token_probs: tuple[float, ...]  # of each of `tokens`
    finished: bool  # the model ended the output; False if the largest length cut it off
    ids: tuple[int, ...]  # numbers of all tokens, including a forced prefix, without the end token
    alignment: list[tuple[int, int]] | None = None  # links (source word, written word), if they were asked for
    replaced: dict[int, str] = field(default_factory=dict)  # source words for unknown tokens, by their place in `ids`

    @classmethod
    def of(cls, tokenizer: TextTokenizer, hypothesis: Hypothesis, forced: Sequence[int] = ()) -> WrittenText:
        """A hypothesis as a prediction, after the `forced` tokens."""
        ids = (*forced, *hypothesis.tokens)
        tokens = [tokenizer.piece(t) for t in hypothesis.tokens]
        if hypothesis.finished:
            tokens.append(tokenizer.token(tokenizer.special.end))
        probs = tuple(math.exp(p) for p in hypothesis.log_probs)
        text, score, log_prob = tokenizer.decode(ids), hypothesis.score, hypothesis.log_prob
        return cls(text, score, log_prob, tuple(tokens), probs, hypothesis.finished, ids)

    def __repr__(self) -> str:
        return f"<{short(self.text)}{'' if self.finished else ', cut off'}>"

    def rows(self) -> list[dict[str, Any]]:
        return [{"text": self.text, "score": self.score, "log_prob": self.log_prob, "finished": self.finished}]

    def values(self) -> dict[str, Any]:
        names = ("text", "score", "log_prob", "tokens", "token_probs", "finished")
        values = {name: getattr(self, name) for name in names}
        return values if self.alignment is None else {**values, "alignment": self.alignment}

    def lines(self, text: str, options: Mapping[str, Any]) -> tuple[str, ...]:
        score = [f"{self.score:.4f}"] if options["nbest"] > 1 else []
        links = [] if self.alignment is None else [" ".join(f"{i}-{j}" for i, j in self.alignment)]
        return ("\t".join([*score, one_line(self.text), *links]),)

    def summary(self) -> str:
        return f"{self.text}    (log-probability {self.log_prob:.3f})"


class ToWrite(NamedTuple, Generic[S]):
    """The outputs that a validation writes."""

    sources: list[S]
    references: list[str]
    longest: int  # most tokens of an output


def or_usual(usual: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of writing; those that are None or missing are taken from the `generation` section."""
    names = [name for name in ("min_length", "length_penalty", "no_repeat_ngram") if name in type(usual).model_fields]
    return {**options, **{name: getattr(usual, name) for name in names if options.get(name) is None}}


def bleu_of(config: Any) -> str:
    """Sacrebleu's tokenizer for BLEU; runs older than the setting are scored with 13a."""
    chosen: str = config.evaluation.bleu_tokenize
    return "13a" if chosen == "auto" else chosen


def cached_bytes(model: Module, positions: int) -> int:
    """Bytes of keys and values that a Transformer decoder needs for `positions`; 0 for other decoders.

    Keys and values of the output are held twice while their buffers grow; those of the source are held twice, as
    prepared by the model and as read by the search.
    """
    widths = [block.attention.w_query.out_features for block in model.modules() if isinstance(block, DecoderBlock)]
    return 2 * 2 * 4 * sum(widths) * positions


def output_measures(
    texts: Sequence[str],
    references: Sequence[str],
    names: Sequence[str],
    tokenizer: TextTokenizer | None,
    bleu_tokenize: str,
) -> list[Measure]:
    """Scores of written texts: those in `names` ("chrf", "bleu", "ter", `ROUGE`), then exact match.

    References are as in the user's files. If the `tokenizer` that writes lower-cases, BLEU and chrF ignore case, as
    their signatures say; an exact match may differ in what it normalises. Without it, all differences count.
    """
    normalize, ignore_case = (str, False) if tokenizer is None else (tokenizer.normalize, tokenizer.lowercases)
    same = [float(normalize(text) == normalize(reference)) for text, reference in zip(texts, references, strict=True)]
    of_texts = rouge_measures(texts, references, [name for name in names if name in ROUGE])
    of_texts += [
        text_measure(name, texts, references, ignore_case, bleu_tokenize) for name in names if name not in ROUGE
    ]
    return [*of_texts, share("exact_match", "exact match", same)]


MAX_PAIRS = 200_000
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
        for text, outputs in zip(texts, self.candidates(texts, self.options["nbest"]), strict=True):
            self.num_cut_off += sum(not output.finished for output in outputs)
            lines = tuple(line for output in outputs for line in self.lines(text, output)) or ("",)
            yield Written(lines, unread=max((output.unread for output in outputs), default=0))

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
    def shared_facts(self) -> tuple[bool, bool, str]:
        return self.per_token, self.literal, self.bleu_tokenize

    def _references(self) -> tuple[list[str], list[str]]:
        references = [self.truth_of(example) for example in self.examples]
        first, *others = ([*run.task.tokenizers().values()][-1] for run in self.runs)
        self.per_token = not any(first.first_difference(other) for other in others)
        plain = [*map(first.normalize, references)]
        self.literal = any([*map(other.normalize, references)] != plain for other in others)
        names = list(dict.fromkeys(bleu_of(run.config) for run in self.runs))
        self.bleu_tokenize = next((name for name in names if name != "13a"), "13a")
        what = f"{self.per_token_scores} are left out, and tokens per second differ in unit."
        return references, [
            *(
                [f"The runs tokenize differently for BLEU ({', '.join(names)}): it is of {self.bleu_tokenize}."]
                * (len(names) > 1)
            ),
            *(["The runs normalise text differently: every difference of case and accents counts."] * self.literal),
            *([] if self.per_token else [f"The runs use different tokens: {what}"]),
        ]


def map_html(look: Look, mechanisms: Sequence[str], otherwise: str, numbers: Iterator[int]) -> Markup:
    """The last map of a look that is of one of these mechanisms, as HTML; a hint if there is none."""
    maps = [drawn for drawn in look.maps if drawn.mechanism in mechanisms]
    return map_to_html(maps[-1], next(numbers)) if maps else Markup('<p class="hint">{}</p>').format(otherwise)


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
        """The vector that summarises the source, for a model that does not attend to it."""
        summary = self.memory.summary
        return None if summary is None or getattr(model, "aligns", True) else summary[0]

    def sides(self, name: str, tokenizer: TextTokenizer, special: Mapping[int, str]) -> dict[str, Side]:
        """The output as it is written, and "`name` read" as it is read."""
        sides, end = {}, tokenizer.special.end
        for side, ids, before in ((name, [*self.ids, end], 0), (f"{name} read", [self.first, *self.ids], 1)):
            if isinstance(self.typed, str):
                typed = InputSpans.of(tokenizer, self.typed, before=before + self.prefix)
            else:
                typed = InputSpans.of_words(self.typed, len(ids), before)
            sides[side] = side_of(tokenizer, ids, side, special, typed)
        return sides

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
    fixed: Tensor | None = None,
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
        fixed: True for tokens of the source that stay as they are.

    Raises:
        ConfigError: The output has no such token or position.
    """
    tokenizer, device = task.target_tokenizer, next(model.parameters()).device
    end = tokenizer.special.end
    if isinstance(written, str):
        ids = [*task.target_prefix, *tokenizer.encode(written).ids, end]
    else:
        ids = [*written.ids, *([end] if written.finished else [])]
    labels = [boundaries(tokenizer).get(token) or tokenizer.label(token) for token in ids]
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

    scored = Scored(model, table_of(model), torch.tensor(read, device=device), score, unknown, fixed)
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
    return next((scores for scores in every.values() if "baselines" in scores), {})


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
        for number, (source, target) in enumerate(islice(pairs, MAX_PAIRS)):
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
