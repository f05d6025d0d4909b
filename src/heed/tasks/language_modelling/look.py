"""Looks of language models: causal maps of prompt and output, a frame for every token, surprisal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from heed.data.tokens.tokenizer import SPECIAL_TOKENS
from heed.errors import ConfigError
from heed.models.base import LanguageModel
from heed.tasks.base.attributing import Explained, padded, table_of, token_named
from heed.tasks.base.looking import (
    InputSpans,
    Network,
    Shown,
    Units,
    Words,
    gate_maps,
    networks,
    notes_on,
    token_labels,
    view_of_words,
    views_of,
    watched,
)
from heed.tasks.heads.continuing import LENGTH, Continuation, WritingOptions, context_of, continue_all
from heed.tasks.inputs.stream import Stream
from heed.tasks.work import Work
from heed.visible import visible
from heed.watch.attribution import LEFT_OUT, Scored
from heed.watch.edits import Edit
from heed.watch.effects import PROBABLE, Answer
from heed.watch.looks import Choice, DecoderFrame, EncoderFrame, Glance, Look, Shading, View
from heed.watch.maps import Axis, Part
from heed.watch.trace import Maps, Trace, edit

_TOP = 5
_MARK = "\u2581"
_SPECIAL = {SPECIAL_TOKENS[3]: "end", SPECIAL_TOKENS[2]: "start"}
"""Names of the boundary tokens of tokenizers trained here; imported tokenizers have other names."""
WRITTEN = "+"
"""Marks tokens that the model wrote."""


@dataclass(frozen=True)
class LookedAt:
    """The tokens of a look."""

    ids: list[int]  # in reading order, with the stream's first token at the beginning
    labels: tuple[str, ...]  # one for each token
    first_written: int  # index of the first token that the model wrote; the number of tokens if it wrote none
    ended: bool  # True if the model then wrote an end token

    @property
    def axis(self) -> Axis:
        """The axis of all tokens."""
        return _told_apart("token", self.labels, self.first_written)


def _told_apart(kind: str, labels: Sequence[str], first: int) -> Axis:
    """An axis of which the positions from `first` on were written: a part of it, with `WRITTEN` before each label."""
    ends = (("prompt", 0, first), ("output", first, len(labels)))
    parts = tuple(Part(*one) for one in ends) if 0 < first < len(labels) else ()
    return Axis("text", kind, tuple(WRITTEN * (n >= first) + label for n, label in enumerate(labels)), parts)


def label_of(input: Stream, token: int) -> str:
    """The text of a token, including a space before it; boundary tokens by name."""
    if token in input.tokenizer.special and (name := _SPECIAL.get(input.tokenizer.token(token))):
        return name
    return input.tokenizer.piece(token).replace(_MARK, " ")


def words_of(input: Stream, text: LookedAt) -> Words:
    """The words of a text, boundary tokens by name; a word of the prompt that the model continued is split in two."""
    groups = []
    for one in input.tokenizer.words(text.ids):
        if one.start < text.first_written < one.stop:
            groups += [range(one.start, text.first_written), range(text.first_written, one.stop)]
        else:
            groups.append(one)
    labels = []
    for group in groups:
        alone = len(group) == 1 and text.ids[group.start] in input.tokenizer.special
        label = text.labels[group.start] if alone else input.tokenizer.word_label(text.ids[group.start : group.stop])
        labels.append(label)
    first = sum(group.start < text.first_written for group in groups)
    return Words(_told_apart("character" if input.tokenizer.unit == "character" else "word", labels, first), groups)


def _frames(
    input: Stream,
    text: LookedAt,
    states: dict[str, Tensor],
    nets: Sequence[Network],
    views: Sequence[View],
    logits: Tensor,
    count: int,
    first: int,
) -> tuple[tuple[EncoderFrame, ...], tuple[DecoderFrame, ...]]:
    """A frame for each of the first `count` tokens, and one for each token from index `first` on and a written end.

    `states` are those of each layer, `(tokens, d)`, `logits` `(tokens, vocab_size)`.
    """

    def at(place: int) -> dict[str, Any]:
        """What is alike after reading token `place`: attention, the most probable next tokens, gates."""
        best = torch.softmax(logits[place], -1).topk(min(_TOP, logits.shape[-1]))
        top = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return {
            "glances": _glances(views, place, len(text.ids)),
            "top": tuple((label_of(input, token), probability) for token, probability in top),
            "gates": {f"{net.label} {gate}": float(mean[place]) for net in nets for gate, mean in net.means.items()},
        }

    reading = (
        EncoderFrame(place, text.labels[place], {name: state[place] for name, state in states.items()}, **at(place))
        for place in range(count)
    )
    written = [*text.labels[first:], *[label_of(input, input.tokenizer.special.end)] * text.ended]
    last = [*states.values(), logits][max(0, len(states) - 1)]
    writing = (
        DecoderFrame(index, text.labels[: place + 1], token, last[place], **at(place))
        for index, (place, token) in enumerate(enumerate(written, start=first - 1))  # place: read last
    )
    return tuple(reading), tuple(writing)


def _glances(views: Sequence[View], place: int, count: int) -> tuple[Glance, ...]:
    """Attention weights after reading token `place` of `count`, without the tokens after it."""
    glances = []
    for view in views:
        row = place - (count - len(view.map.query))
        if row >= 0:
            one, end = view.glance(row), min(place + 1, len(view.map.key))
            if one.mask is not None:
                end = min(end, int(one.mask.nonzero().max()) + 1)
            glances.append(
                replace(
                    one,
                    key=one.key.cut(0, end),
                    weights=one.weights[:end],
                    scores=None if one.scores is None else one.scores[:end],
                    mask=None if one.mask is None or bool(one.mask[:end].all()) else one.mask[:end],
                )
            )
    return tuple(glances)


_READ = (
    "Row t: where the pass that read token t and predicted token t + 1 looked, among the tokens read until then. "
    "Weights before dropout."
)
_EARLIER = (
    "Row t: where the pass that read token t and predicted token t + 1 looked, among the tokens before t; the first "
    "has none and no row. Weights before dropout."
)
_BACK = (
    "Row t: where the model looked after the pass that read token t; the result is used when token t + 1 is read, so "
    "it first counts in the prediction of token t + 2. Weights before dropout."
)


def look_at(
    work: Work,
    model: LanguageModel,
    text: str,
    *,
    given: bool = False,
    length: int | None = None,
    beam_size: int | None = None,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    whole_words: bool = False,
    target: str | Continuation | None = None,
    units: Units | None = None,
) -> Look:
    """Look at how a model reads and continues a prompt or, with `given`, at how it reads a text.

    Prompt and output are read again in one traced pass, which equals the steps that wrote the output; every chosen
    layer and head has one causal map of all tokens. `edits` also apply while the output is written.

    `length` and `beam_size` are those of the output, by default 20 and the configuration's; with `whole_words`, maps
    and surprisal are of words instead of tokens; `target` is a given output. Other arguments
    are those of `heed.tasks.base.looking.look`.

    Raises:
        ConfigError: The model has no such mechanism, layer or head; a length is asked for with `given`, or words of a
            model that reads characters.
    """
    if given and (length is not None or beam_size is not None):
        raise ConfigError("--given writes nothing, so --length and --beam do not apply")
    input = cast(Stream, work.input)
    if whole_words and input.tokenizer.unit == "character":
        raise ConfigError("--words does not apply: the tokens of this model are characters, not parts of words")
    choice = choice or Choice()
    written, ended, cut, best = [], False, [], None
    if isinstance(target, str):
        written, cut = input.tokenizer.encode(target).ids, ["given, not generated by the model"]
    elif not given:
        generation = input.config.generation
        options = WritingOptions(
            length=LENGTH if length is None else length,
            beam_size=generation.beam_size if beam_size is None else beam_size,
            length_penalty=generation.length_penalty,
        )
        with edit(model, *edits):
            best = target or continue_all(input, model, [text], options)[0][0]
        written, ended = list(best.ids), best.finished
        most = f"{options.length} token{'s' * (options.length != 1)}"
        cut = ["generated by the model" + ("" if ended else f", cut off after {most}")]
    shown = _text(input, text, written, ended)
    context, count = context_of(input, model), len(shown.ids)
    if context is not None and count > context:
        left = count - context
        first = max(0, shown.first_written - left)
        shown = replace(shown, ids=shown.ids[left:], labels=shown.labels[left:], first_written=first)
        cut.append(f"longer than the context: only the last {context} tokens are shown, read in one pass")
    with watched(model, edits) as seen:
        tokens = torch.tensor([shown.ids], device=next(model.parameters()).device)
        logits = model.logits(model(tokens))[0].float()  # (T, vocab_size)
    choice.check(seen.mechanisms())
    views = _views(seen, choice, shown.axis)
    nets = networks(seen, len(shown.ids))
    end = input.tokenizer.special.end
    bits = _surprisal(logits, shown, end)
    total = sum(bits) if given else sum(bits[max(0, shown.first_written - 1) :])
    part = " of the tokens shown" if context is not None and count > context else ""
    said = f"{'text' if given else 'output'}: log-probability {-total * math.log(2):.4g}{part}"
    shown_words = words_of(input, shown) if whole_words else Words.counted(shown.axis, [1] * len(shown.ids))
    drawn = views
    if whole_words:  # a view of which every token has a row and a column is merged into words
        whole = (len(shown.ids),) * 2
        both = shown_words, shown_words
        drawn = [view_of_words(one, *both) if one.map.weights.shape == whole else one for one in views]
    first = 1 if given else min(max(1, shown.first_written), len(shown.ids))
    states = {f"layer {i}": block[0] for i, block in enumerate(seen.tensors("states"))}
    held = {name: state for net in nets for name, state in net.states.items()}
    reading, writing = _frames(input, shown, held | states, nets, views, logits, 0 if given else first, first)
    greedy = isinstance(best, Continuation) and target is None and (beam_size or input.config.generation.beam_size) == 1
    marked = [f"{WRITTEN} marks tokens that the model generated"] if written and views else []
    return Look(
        title or work.title,
        text,
        input.tokenizer.decode(written),
        (
            *(view.map for view in drawn),
            *gate_maps(((net, shown_words) for net in nets), input.config.model.name, bool(nets), units),
        ),
        reading,
        writing,
        (
            "; ".join([said, *([", ".join(cut)] if cut else [])]),
            *marked,
            *notes_on(input.tokenizer.unknown_in(text), edits, choice.hidden(views)),
        ),
        shadings=_shadings(shown, bits, shown_words, () if whole_words else _chances(logits, shown, end)),
        output=best,
        answer=answer_of(input, model, shown, given, greedy),
        names=("text", "") if given else ("prompt", "written"),
        parts=(("prompt", "reads"), ("text", "next is") if given else ("output", "writes")),
    )


def _text(input: Stream, text: str, written: list[int], ended: bool) -> LookedAt:
    own = input.tokenizer.encode(text).ids
    prompt = input.prompt_tokens(own, min_tokens=1 if written else 2)
    ids = [*prompt, *written]
    typed = InputSpans.of(input.tokenizer, text, before=len(prompt) - len(own))
    groups = [range(n, n + 1) for n in range(len(ids))]
    labels = token_labels(input.tokenizer, ids, groups, {}, typed, lambda token: label_of(input, token[0]))
    return LookedAt(ids, labels, len(ids) - len(written), ended)


def _views(seen: Trace, choice: Choice, axis: Axis) -> list[View]:
    """Views of each attention that is shown.

    Where tokens attend to earlier tokens only, the first has no row and the last no column.
    """

    def shown(maps: Maps) -> tuple[Maps, Shown]:
        _, _, num_queries, num_keys = maps.weights.shape
        whole = num_queries == len(axis)
        caption = _EARLIER if not whole else _BACK if maps.mechanism == "self" else _READ
        return maps, (axis.cut(len(axis) - num_queries, len(axis)), axis.cut(0, num_keys), caption)

    return views_of(seen, choice, shown)


def _surprisal(logits: Tensor, text: LookedAt, end: int) -> list[float]:
    """Surprisal in bits of each token but the first, and of the end token if the model wrote it."""
    labels = torch.tensor([*text.ids[1:], *([end] if text.ended else [])], device=logits.device)
    log_probs = torch.log_softmax(logits[: len(labels)].double(), -1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return (-log_probs / math.log(2)).tolist()


def _chances(logits: Tensor, text: LookedAt, end: int) -> list[str]:
    """Rank and probability of each token but the first."""
    labels = torch.tensor(text.ids[1:], device=logits.device).unsqueeze(1)
    before = logits[: len(labels)]
    ranks = ((before > before.gather(1, labels)).sum(1) + 1).tolist()
    bits = _surprisal(logits, text, end)
    return [f"rank {rank}, probability {2.0**-b:.3g}" for rank, b in zip(ranks, bits, strict=False)]


def _shadings(text: LookedAt, bits: Sequence[float], units: Words, chances: Sequence[str] = ()) -> tuple[Shading, ...]:
    """Surprisal of the given and the written text, on one scale: of tokens, or the sum over the tokens of each word.

    The first token has no surprisal, so it is left out, as is a word of that token only.
    """
    parts = [bits[max(0, one.start - 1) : one.stop - 1] for one in units.tokens]
    sums, found = list(map(sum, parts)), []
    for name, written in (("given", False), ("generated", True)):
        own = [
            n
            for n, (one, part) in enumerate(zip(units.tokens, parts, strict=True))
            if part and (one.start >= text.first_written) == written
        ]
        if own:
            labels = tuple(units.axis.labels[n].removeprefix(WRITTEN * written) for n in own)
            axis = Axis("text", units.axis.kind, labels)
            values, others = tuple(sums[n] for n in own), tuple(chances[n - 1] for n in own if chances)
            found.append(Shading(f"Surprisal of the {name} text in bits", axis, values, max(sums), others=others))
    return tuple(found)


def explain(
    work: Work,
    model: LanguageModel,
    text: str,
    target: str | int | None = None,
    rather_than: str | int | None = None,
) -> Explained:
    """The log-probability of the next token, by default the most probable one, minus that of another if one is given.

    Tokens are given as text or as their number. The text is cut to the last tokens that the model reads in one pass.

    Raises:
        ConfigError: A target is not one token.
    """
    input = cast(Stream, work.input)
    tokens, axis, left = _last(input, model, text)

    def log_probs(model: nn.Module, rows: Tensor) -> Tensor:
        assert isinstance(model, LanguageModel)
        return torch.log_softmax(_logits_after(model, rows, range(rows.shape[1] - 1, rows.shape[1]))[:, 0].float(), -1)

    with torch.no_grad():
        best = int(log_probs(model.eval(), tokens.unsqueeze(0)).argmax())
    numbers = [token_named(input.tokenizer, one) if isinstance(one, str) else one for one in (target, rather_than)]
    number, other = best if numbers[0] is None else numbers[0], numbers[1]

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        found = log_probs(model, rows)
        return found[:, number] if other is None else found[:, number] - found[:, other]

    name = f"the log-probability of '{label_of(input, number)}' as the next token"
    name += "" if other is None else f" minus that of '{label_of(input, other)}'"
    scored = Scored(model, table_of(model), tokens, score, input.tokenizer.special.unknown)
    notes = [f"only the last {len(tokens)} tokens are read in one pass"] if left else []
    return Explained(scored, Words.counted(axis, [1] * len(tokens)), name, tuple(notes))


def _last(input: Stream, model: LanguageModel, text: str) -> tuple[Tensor, Axis, int]:
    """The last tokens of a text, those that the model reads in one pass, their axis, and how many are before them."""
    shown, context = _text(input, text, [], False), context_of(input, model)
    left = max(0, len(shown.ids) - (context or len(shown.ids)))
    tokens = torch.tensor(shown.ids[left:], device=next(model.parameters()).device)
    return tokens, Axis("text", "token", shown.labels[left:]), left


def _logits_after(model: LanguageModel, rows: Tensor, places: range) -> Tensor:
    """Logits after each of some places of rows, `(rows, places, vocab_size)`; tokens may be left out."""
    last = ((rows != LEFT_OUT).cumsum(1) - 1).clamp_min(0)[:, places.start : places.stop]
    hidden = model(padded(rows)[0])
    return model.logits(hidden.gather(1, last.unsqueeze(2).expand(-1, -1, hidden.shape[2])))


def answer_of(input: Stream, model: LanguageModel, text: LookedAt, given: bool, greedy: bool) -> Answer:
    """What a model wrote, each token after those before it; of a given text, each of its tokens but the first."""
    ids, special = text.ids, input.tokenizer.special
    first = 1 if given else max(1, text.first_written)
    labels = [*ids[first:], *([special.end] if text.ended else [])]
    tokens = torch.tensor(ids, device=next(model.parameters()).device)

    def logits(rows: Tensor, mechanism: str) -> Tensor:
        return _logits_after(model, rows, range(first - 1, first - 1 + len(labels)))

    def named(output: int, number: int) -> str:
        return f'token {output + 1 + given} "{visible(label_of(input, number))}"'

    return Answer(model, tokens, logits, named, labels, compared="output" if greedy else PROBABLE)


def contrast(work: Work, model: LanguageModel, text: str, other: str) -> dict[str, Any]:
    """The score that tells two texts apart: of the most probable next tokens, the other's minus the text's."""
    own, there = (int(lens_reads(work, model, one)[0]()[0, -1].argmax()) for one in (text, other))
    return {"target": there, "rather_than": own if own != there else None}


def lens_reads(work: Work, model: LanguageModel, text: str) -> tuple[Callable[[], Tensor], Axis, Callable[[int], str]]:
    """A pass over the last tokens of a text that the model reads at once; see `heed.tasks.base.attributing.lens`."""
    input = cast(Stream, work.input)
    tokens, axis, _ = _last(input, model, text)

    def read() -> Tensor:
        with torch.no_grad():
            return model.logits(model(tokens.unsqueeze(0)))

    return read, axis, lambda token: label_of(input, token)
