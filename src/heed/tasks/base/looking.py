"""Looks of all tasks: a traced pass, tokens joined to words, gates, notes, maps with captions, and compared networks.

A look is compared (`beside`) with the untrained network, the weights at an earlier update, or another run.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from heed import folder as folders
from heed.data.examples import is_blank
from heed.data.kinds.texts import pair_of
from heed.data.tables import described
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, RunError, nearest
from heed.layers.ragged import length_groups
from heed.show.overview import check_sort
from heed.show.shown import ShownLook
from heed.tasks import capability
from heed.tasks.base.predictions import some_pieces
from heed.threads import prediction_threads, threads_for
from heed.training.checkpoint import check_fingerprint, stored_steps
from heed.training.weights import load_weights
from heed.visible import visible
from heed.watch.edits import Edit, EditLike, edits_of
from heed.watch.interventions import with_effects
from heed.watch.looks import ROLLOUT, WITHOUT_EDITS, Choice, EncoderFrame, Look, View, compare_looks
from heed.watch.maps import Axis, Map, Part, axis_name, cut, merge_subwords, repetition
from heed.watch.records import TAPE, GateRecord
from heed.watch.trace import Maps, Trace, rollout, trace

_GATES = ("reset", "update", "input", "forget", "output")
_CELL = re.compile(r"(?:.*\.)?(?:(?P<kind>forward|backward)_cells\.(?P<layer>\d+)|cell)$")
"""Names of recurrent cells; a single cell reads forward."""
_GATE_CAPTION = "Mean over the units of each gate; state: mean size of the state's units."


@prediction_threads()
def look(
    run: Any,
    text: Any,
    *,
    steps: bool = False,
    edits: Sequence[EditLike] = (),
    mechanism: str | None = None,
    layer: int | Literal["all"] | None = None,
    head: int | Literal["mean", "all"] | None = None,
    overview: bool = False,
    sort: str | None = None,
    attribution: str | None = None,
    beside: Any = None,
    words: bool = False,
    **options: Any,
) -> ShownLook:
    """Show attention and recurrent states of the model on one text; a notebook displays the result.

    Args:
        run: A run that reads texts, or series.
        text: The text; if the run reads pairs, a tuple of two texts.
        steps: Show every step.
        edits: Changes to the attention weights (`heed.watch.edits`), also as data or JSON; the look without them is
            named in a note.
        mechanism: Only this attention ("cross", "encoder", ...); all by default. "rollout": that of an encoder from its
            first layer up to `layer`, rolled out (`heed.watch.trace.rollout`).
        layer: Number of a layer from 0, from the end if negative, or "all"; by default the last, of an overview all.
        head: Number of a head from 0, the "mean" of all, or "all" one by one; by default the mean, of an overview all.
        overview: Draw the maps as thumbnails.
        sort: Order the overview by a measure: "entropy", smallest first, or "untrained", largest distance from the map
            of the untrained network first.
        attribution: Also show what each word adds to the answer's score, by this method; see `attribute`.
        beside: Also the maps of another network for the same text and output, and the differences: "untrained" (the
            same architecture as the run's seed draws it), "step-N" (the weights kept at update N) or another run. Of
            several, in a list, the maps stand in a row, without differences.
        words: For a language model: maps show whole words, not tokens.
        options: For a translation or a response, `target`, a given output instead of the model's own, and `beam_size`;
            for a response, `speaker`, the one who responds; for labels and tags, `gates`: also draw the means of the
            gates of recurrent networks; `units`: also draw single units of their gates and states, the N of largest
            variance or those with these numbers; `pieces`: maps show the tokens that the model reads, not whole words.

    Raises:
        ConfigError: The text is blank, an edit does not fit the model, or the model lacks that attention.
    """
    capability(run, "look")
    check_sort(sort)
    others = several_of(beside) or (["untrained"] if sort == "untrained" else [])
    check_beside(several_of(beside), edits, sort)
    overview = overview or sort is not None
    if others and isinstance(_chosen(options.get("units") or (0,)), int):
        raise ConfigError("--beside needs units by their numbers (--units 3,17): each network has its own largest")
    layer = ("all" if overview else -1) if layer is None else layer
    head = ("all" if overview else "mean") if head is None else head
    rolled = mechanism == ROLLOUT
    options["choice"] = Choice(None if rolled else mechanism, layer, head, rolled)
    changes = edits_of(edits)
    if words and not run.looks.whole_words:
        raise ConfigError("--words is for language models, whose maps show tokens; other maps show words already")
    whole = {"whole_words": words} if run.looks.whole_words else {}
    see = partial(run.looks.at, run.task, run.model, run.readable(text), title=run.title, **whole, **options)
    drawn: Look = see(edits=changes)
    if changes:
        drawn = _with_unedited(drawn, see, run.head.writes)
    if not overview:
        drawn = with_effects(drawn, changes)
    for other in others:
        drawn = look_beside(run, drawn, other, text, {**whole, **options}, differences=len(others) == 1)
    if attribution is not None:
        same = {"output": options.get("target"), "speaker": options.get("speaker"), "pair": options.get("pair")}
        chosen = {name: value for name, value in same.items() if value is not None}
        attributed = run.attribute(text, method=attribution, edits=edits, **chosen)
        notes = [note for note in attributed.notes if note not in drawn.notes]
        drawn = replace(drawn, shadings=(*drawn.shadings, attributed.shading), notes=(*drawn.notes, *notes))
    repeated = [str(repeats) for map in drawn.maps if map.is_distribution and (repeats := repetition(map.query))]
    drawn = replace(drawn, notes=(*drawn.notes, *(f"the {repeats}" for repeats in dict.fromkeys(repeated))))
    if overview and not drawn.maps:
        raise ConfigError("there is no overview: this look has no attention maps")
    return ShownLook(drawn, steps, overview, sort)


def _with_unedited(look: Look, see: Callable[..., Look], writes: bool) -> Look:
    """An edited look with its differences from the look without the edits, which is named in a note.

    Of a model that writes, maps are compared for the same output.
    """
    plain = same = see(edits=())
    if writes and plain.target != look.target:
        same = see(edits=(), **{"target": look.output or look.target})
    before = "; ".join(part for part in (plain.target, *plain.notes[:1]) if part)
    noted = replace(look, notes=(*look.notes, f"without the edits: {before}"), unedited=plain.target)
    return compare_looks(noted, same, WITHOUT_EDITS)


def text_line(run: Any, read: Any) -> str:
    """The input of a look as text: that of a pair in one line, of a conversation a line for each turn."""
    if isinstance(read, tuple):
        return " ".join(read)
    return read if isinstance(read, str) else str(read.source)


def readable(text: Any, pairs: bool) -> Any:
    """A text, or a pair of texts, to look at.

    Raises:
        ConfigError: It is not one, or it is blank.
    """
    if pairs:
        text = pair_of(text, "the input")
    elif not isinstance(text, str):
        raise ConfigError(f"text is {described(text)}, expected one text")
    if is_blank("".join(text)):
        raise ConfigError("the text is blank")
    return text


_WATCHED = 32
"""Rough number of tokens in a look, for the choice of threads."""


@contextmanager
def watched(model: nn.Module, edits: Sequence[Edit] = (), **only: Any) -> Iterator[Trace]:
    """Trace a model in evaluation mode, without gradients; `only` selects one mechanism or layer (see `trace`)."""
    model.eval()
    in_float32 = torch.autocast("cuda", enabled=False)  # within scores in bf16, too
    with torch.no_grad(), in_float32, threads_for(model, _WATCHED):
        with trace(model, edits=edits, **only) as seen:
            yield seen


@dataclass(frozen=True)
class InputSpans:
    """A text as it was typed, and the span of each token in it."""

    text: str
    spans: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, tokenizer: TextTokenizer, text: str, before: int = 0) -> InputSpans:
        """The spans of a text's tokens, after `before` tokens that are not part of it."""
        return cls(text, [*[(0, 0)] * before, *tokenizer.encode(text).spans])

    @classmethod
    def of_words(cls, words: Mapping[int, str], tokens: int, before: int = 0) -> InputSpans:
        """The spans of words at some positions of `tokens` tokens; the others have no text."""
        ends = [*accumulate((len(words.get(n, "")) for n in range(-before, tokens - before)), initial=0)]
        return cls("".join(words[n] for n in sorted(words)), [*pairwise(ends)])

    def marked(self, tokens: range) -> str:
        """The typed text of some tokens, marked as never seen in training; "" if it is not known."""
        spans = [self.spans[n] for n in tokens if n < len(self.spans)]
        if not spans:
            return ""
        typed = self.text[min(start for start, _ in spans) : max(end for _, end in spans)]
        return typed and UNSEEN + (typed.strip() or typed)


UNSEEN = "?"
"""Mark before text that was never seen in training, which the model reads as the unknown token."""


def token_labels(
    tokenizer: TextTokenizer,
    ids: Sequence[int],
    groups: Iterable[range],
    special: Mapping[int, str],
    typed: InputSpans | None = None,
    text_of: Callable[[Sequence[int]], str] | None = None,
) -> tuple[str, ...]:
    """Labels of groups of tokens: `special` tokens by name, unknown ones as they were typed, if that is known."""
    labels = []
    for group in groups:
        inside = ids[group.start : group.stop]
        label = special.get(inside[0]) if inside else None
        if label is None and tokenizer.special.unknown in inside and typed is not None:
            label = typed.marked(group) or None
        labels.append(label or (text_of or tokenizer.word_label)(inside))
    return tuple(labels)


@dataclass(frozen=True)
class Words:
    """A text word by word."""

    axis: Axis  # the labels that a reader sees
    tokens: Sequence[range]  # the tokens of each word

    @classmethod
    def of(
        cls,
        tokenizer: TextTokenizer,
        ids: Sequence[int],
        name: str,
        special: Mapping[int, str],
        typed: InputSpans | None = None,
        pieces: bool = False,
    ) -> Words:
        """Words made of tokens, or every token by itself for characters and `pieces`; labelled by `token_labels`."""
        if pieces and tokenizer.unit != "character":
            each = [range(n, n + 1) for n in range(len(ids))]
            labels = token_labels(tokenizer, ids, each, special, typed, lambda token: tokenizer.label(token[0]))
            return cls(Axis(name, "token", labels), each)
        tokens = tokenizer.words(list(ids))
        labels = token_labels(tokenizer, ids, tokens, special, typed)
        return cls(Axis(name, "character" if tokenizer.unit == "character" else "word", labels), tokens)

    @classmethod
    def counted(cls, axis: Axis, counts: Iterable[int]) -> Words:
        """Words with these numbers of tokens."""
        return cls(axis, [range(*ends) for ends in pairwise(accumulate(counts, initial=0))])

    def only(self, places: Sequence[int]) -> Words:
        """These words, in order."""
        whole, labels = self.axis, tuple(self.axis.labels[n] for n in places)
        ends = [(part.label, bisect_left(places, part.start), bisect_left(places, part.stop)) for part in whole.parts]
        axis = Axis(whole.name, whole.kind, labels, tuple(Part(*span) for span in ends))
        return Words(axis, [self.tokens[n] for n in places])

    def sum(self, rows: Tensor) -> Tensor:
        """`(rows, tokens)` to `(rows, words)`, for shares of a whole."""
        return self._joined(rows, torch.sum)

    def mean(self, rows: Tensor) -> Tensor:
        """`(rows, tokens)` to `(rows, words)`, for values that are not shares."""
        return self._joined(rows, torch.mean)

    def _joined(self, rows: Tensor, join: Any) -> Tensor:
        if not self.tokens:
            return rows[:, :0]
        return torch.stack([join(rows[:, word.start : word.stop], dim=1) for word in self.tokens], dim=1)


@dataclass(frozen=True)
class Network:
    """States and gates of one layer of a recurrent network over a text."""

    kind: str  # "forward", "backward", "decoder", ...
    layer: int  # from 0
    label: str  # its name for readers
    gates: dict[str, Tensor]  # `(tokens, d_hidden)` each, in the order of the text, as a trace has them
    tape: Tensor | None = None  # `(tokens, tokens)`, an LSTMN's weights of the tokens before each

    @property
    def hidden(self) -> Tensor:
        """Its states, `(tokens, d_hidden)`."""
        return self.gates["hidden"]

    @property
    def states(self) -> dict[str, Tensor]:
        """Its states by name; of an LSTMN, also what it read from its tape."""
        return {name: gate for name, gate in self.gates.items() if name in TAPE} | {self.label: self.hidden}

    @cached_property
    def means(self) -> dict[str, Tensor]:
        """The mean of each gate over the units, `(tokens,)`."""
        return {gate: self.gates[gate].mean(-1) for gate in _GATES if gate in self.gates}

    def last(self, word: range) -> int:
        """The token of a word that it reads last."""
        return word.start if self.kind.endswith("backward") else word.stop - 1

    def traces(self, words: Words) -> Map:
        """The mean of each gate over the units, and the mean size of the states, over the words."""
        rows = {**self.means, "state": self.hidden.abs().mean(-1)}
        matrix = words.mean(torch.stack(list(rows.values())))
        gates = Axis("gates", "gate", tuple(rows))
        return Map(self.kind, self.layer, None, gates, words.axis, matrix, caption=_GATE_CAPTION, unit="value")

    def units(self, words: Words, chosen: int | tuple[int, ...]) -> list[Map]:
        """A map of units and words for each gate and state: as many units as `chosen`, or those with these numbers.

        Raises:
            ConfigError: There is no such unit.
        """
        where, size, maps = f"{self.kind} network, layer {self.layer}", self.hidden.shape[-1], list[Map]()
        if not isinstance(chosen, int) and max(chosen) >= size:
            raise ConfigError(f"no unit {max(chosen)}: the {where} has {size} units, counted from 0")
        for name, gate in self.gates.items():
            values = gate[[self.last(word) for word in words.tokens]].T  # (d_hidden, words)
            if not isinstance(chosen, int):
                order, order_name = list(chosen), "those asked for"
            else:
                spread = values.double().var(1, correction=0)
                order = spread.argsort(descending=True, stable=True)[:chosen].tolist()
                order_name = f"the {len(order)} of {size} with the largest variance over the columns, largest first"
            caption = f"A row is one unit, by its number: {order_name}."
            if any(len(word) > 1 for word in words.tokens):
                caption += f" A {words.axis.kind} of several tokens has the value at the one read last."
            title = f"{where}: {name}{' gate' * (name in _GATES)} over the {axis_name(words.axis)}"
            drawn, units = values[order], Axis("units", "unit", tuple(map(str, order)))
            parts = self.kind, self.layer, None, units, words.axis, drawn, None, None, caption
            signed, vmax = name not in _GATES, 1.0 if name in _GATES else max(1.0, *drawn.abs().flatten().tolist())
            maps.append(Map(*parts, name=title, unit="value", signed=signed, vmax=vmax))
        return maps

    def origin(self, words: Words, tape: Tensor) -> Map:
        """Where an LSTMN's cells came from: the cells of earlier tokens, or the token's own input.

        With c_t = f c~_t + i c^_t and c~_t = sum_j s_tj c_j, the share of token j in row t is the sum of |f s_tj c_j|
        over the units, and that of token t the sum of |i c^_t|, divided by the sum over all tokens.
        """
        earlier = (self.gates["forget"] @ self.gates["cell"].abs().T) * tape
        sizes = earlier + torch.diag((self.gates["input"] * self.gates["candidate"]).abs().sum(1))
        fractions = words.mean(words.sum(sizes / sizes.sum(1, keepdim=True)).T).T
        mask = torch.ones_like(fractions, dtype=torch.bool).tril()
        parts = "tape", self.layer, None, words.axis, words.axis, fractions, None, mask, _ORIGIN
        return Map(*parts, name=_ORIGINS, unit="value")


_ORIGINS = "tape: where the cell of each token came from"
_ORIGIN = (
    "Row t: the shares of the cells of earlier tokens, and of token t's own input (the diagonal), in the cell of token "
    "t, by the absolute size of what each adds to it, summed over the units."
)
Units = int | str | Sequence[int]
"""How many units to show, or the numbers of units; as text "16", or with commas: "3,17", one "3,"."""


def gate_maps(nets: Iterable[tuple[Network, Words]], model: str, gates: bool, units: Units | None) -> tuple[Map, ...]:
    """Maps of the gates of networks over the words that they read: means with `gates`, single units with `units`.

    Raises:
        ConfigError: The model has no recurrent network, or no such unit.
    """
    nets, chosen, maps = list(nets), None if units is None else _chosen(units), list[Map]()
    if (gates or chosen) and not nets:
        raise ConfigError(f"no gates to draw: model {model} has no recurrent network")
    for net, words in nets:
        maps += [net.traces(words)] if gates else []
        maps += net.units(words, chosen) if chosen else []
        maps += [net.origin(words, net.tape)] if net.tape is not None and (gates or chosen) else []
    return tuple(maps)


def _chosen(units: Units) -> int | tuple[int, ...]:
    if isinstance(units, str):
        listed = [part.strip() for part in units.removesuffix(",").split(",")]
        numbers = [int(part) if part.isdecimal() else -1 for part in listed]
        selection = numbers[0] if "," not in units else tuple(numbers)
    else:
        selection = units if isinstance(units, int) else tuple(units)
    each = [selection - 1] if isinstance(selection, int) else selection
    if isinstance(units, bool) or not each or not all(isinstance(number, int) and number >= 0 for number in each):
        raise ConfigError(f"units is {units!r}; give how many to show (16), or their numbers from 0 (3,17; one: 3,)")
    return selection


def networks(seen: Trace, num_tokens: int, num_further: int = 0, within: str = "") -> list[Network]:
    """The recurrent networks over the tokens of one text, without the `num_further` tokens read after them.

    `within` is the beginning of their names in the model.
    """
    gates_of = {
        name: {gate: values[0, :num_tokens] for gate, values in gates.items()}
        for name, gates in seen.gates().items()
        if name.startswith(within) and gates["hidden"].shape[:2] == (1, num_tokens + num_further)
    }
    nets = _named(gates_of)
    if not any(TAPE[-1] in net.gates for net in nets):
        return nets
    # Of a single token there are none.
    read = [seen.maps(*place).weights[0, 0] for place in seen.mechanisms() if place[0] == "self"]
    tapes = [pad(weights, (0, 1, 1, 0))[:num_tokens, :num_tokens] for weights in read]
    return [replace(net, tape=tapes[0] if tapes else net.hidden.new_zeros(1, 1)) for net in nets]


def networks_of_parts(seen: Trace, lengths: Sequence[int], within: str) -> list[Network]:
    """The recurrent networks over parts of a text (sentences, turns) of these lengths, one part after the other.

    The model reads the parts in groups of similar length. `within` as for `networks`.
    """
    calls: dict[str, list[GateRecord]] = {}
    for record in seen.gate_records:
        if record.name.startswith(within):
            calls.setdefault(record.name, []).append(record)
    groups, gates_of = length_groups(list(lengths)), {}
    for name, records in calls.items():
        rows: dict[int, dict[str, Tensor]] = {}
        for numbers, record in zip(groups, records, strict=True):
            gates = record.gates()
            rows |= {n: {gate: values[row, : lengths[n]] for gate, values in gates.items()}
                     for row, n in enumerate(numbers)}  # fmt: skip
        gates_of[name] = {gate: torch.cat([rows[n][gate] for n in range(len(lengths))]) for gate in rows[0]}
    return _named(gates_of)


def _named(gates_of: Mapping[str, dict[str, Tensor]]) -> list[Network]:
    """Networks from the gates of each cell; their labels name the layer if there are several."""
    cells = [(cell, gates) for name, gates in gates_of.items() if (cell := _CELL.match(name)) is not None]
    nets = [Network(cell["kind"] or "forward", int(cell["layer"] or 0), "", gates) for cell, gates in cells]
    several = any(net.layer for net in nets)
    return [replace(net, label=net.kind + f" layer {net.layer}" * several) for net in nets]


def encoder_frames(
    nets: Sequence[Network], words: Words, blocks: Mapping[str, Tensor] | None = None, views: Sequence[View] = ()
) -> tuple[EncoderFrame, ...]:
    """A frame for every word; empty if nothing was computed word by word.

    Args:
        nets: Networks; shown are the state after the word's last token (backward: its first) and each gate's mean.
        words: The words.
        blocks: Further states by name, `(tokens, d)`; the state of the word's last token is shown.
        views: Attention with a row for each word; other views are left out.
    """
    rows = [view for view in views if view.map.query.labels == words.axis.labels and view.map.mechanism != ROLLOUT]
    if not (nets or blocks or rows):
        return ()
    frames = []
    for i, (label, tokens) in enumerate(zip(words.axis.labels, words.tokens, strict=True)):
        states = {name: state[net.last(tokens)] for net in nets for name, state in net.states.items()}
        states |= {name: block[tokens.stop - 1] for name, block in (blocks or {}).items()}
        means = {f"{n.label} {gate}": float(mean[tokens.start : tokens.stop].mean())
                 for n in nets for gate, mean in n.means.items()}  # fmt: skip
        frames.append(EncoderFrame(i, label, states, means, tuple(view.step(i) for view in rows)))
    return tuple(frames)


READ_AS = f"; read as the unknown token, marked {UNSEEN}"
"""End of the note on words never seen in training, if they are marked."""


def notes_on(
    unknown: Sequence[str],
    edits: Sequence[Edit],
    hidden: str = "",
    read_as: str = READ_AS,
    replaced: Iterable[str] = (),
) -> list[str]:
    """Notes on any look: words never seen in training, those that replace unknown ones, what is not shown, edits."""
    words = " ".join(map(visible, some_pieces(replaced)))
    return [
        *([f"never seen in training: {' '.join(map(visible, some_pieces(unknown)))}{read_as}"] if unknown else []),
        *([f"unknown words of the output, replaced by source words and marked {UNSEEN}: {words}"] if words else []),
        *([hidden] if hidden else []),
        *(["edited: " + "; ".join(map(str, edits))] if edits else []),
    ]


Shown = tuple[Axis, Axis, str]
"""The axes of a map, queries first, and its caption."""


def views_of(seen: Trace, choice: Choice, shown: Callable[[Maps], tuple[Maps, Shown] | None]) -> list[View]:
    """Views of the chosen attentions, each on its own axes.

    Args:
        seen: A trace of a pass over a batch, whose first entry is shown.
        choice: The mechanism, layers and heads to show.
        shown: Returns the maps of one attention to draw, `(1, heads, query, key)`, with their axes, which may be
            shorter; None if they are not drawn.
    """
    views = []
    for mechanism, layer in choice.layers(seen.mechanisms()):
        drawn_maps = shown(seen.maps(mechanism, layer, entries=[0]))
        if drawn_maps is None:
            continue
        maps, (query, key, caption) = drawn_maps
        if choice.rollout:
            views.append(_rolled_out(seen, layer, query, key))
            continue
        num_heads = maps.weights.shape[1]
        for head in choice.heads(num_heads):
            more = f" Mean of {num_heads} heads." if head is None else ""
            context = maps.context[0] if head is None else maps.context[0, head : head + 1]  # (heads, Q, d_value)
            drawn = maps.map(query, key, head=head, caption=caption + more)
            views.append(View(drawn, context.transpose(0, 1).flatten(1)[: len(query)], num_heads))
    return views


def _rolled_out(seen: Trace, layer: int, query: Axis, key: Axis) -> View:
    """The encoder's attention from its first layer up to `layer`; it has no context."""
    weights = rollout(seen, "encoder", layer, entries=[0])[0, : len(query), : len(key)]
    name = f"attention rollout, layer{'s 0 to' if layer else ''} {layer}"
    drawn = Map(ROLLOUT, layer, None, query, key, weights, caption=_ROLLED.format(kind=query.kind), name=name)
    return View(drawn, weights.new_empty(len(query), 0), 1)


_ROLLED = (
    "Row i: the share of each {kind} in the state of {kind} i after these layers: the product of (A + I) / 2, A the "
    "mean of a layer's heads and I the residual connection (Abnar and Zuidema 2020)."
)


def view_of_words(view: View, query: Words, key: Words) -> View:
    """A view of subword tokens as a view of words; scores are kept if every word is one token."""
    drawn = view.map
    if len(query.axis) == len(drawn.query) and len(key.axis) == len(drawn.key):
        return replace(view, map=replace(drawn, query=query.axis, key=key.axis))
    merged = merge_subwords(drawn, query.axis, query.tokens, key.axis, key.tokens)
    return View(merged, query.mean(view.context.T).T, view.num_heads)


def views_of_text(seen: Trace, choice: Choice, words: Words, num_tokens: int) -> list[View]:
    """Views of the attention over one text's own words: self-attention, pooling.

    Args:
        seen: A trace of a pass over only this text; further tokens after it are not shown.
        choice: The mechanism, layers and heads to show.
        words: The words of the text.
        num_tokens: Number of tokens read, including further ones.
    """
    length = words.tokens[-1].stop if words.tokens else 0
    tokens = Words.counted(Axis(words.axis.name, words.axis.kind, ("",) * length), [1] * length)
    kind = words.axis.kind

    def shown(maps: Maps) -> tuple[Maps, Shown] | None:
        _, _, num_queries, num_keys = maps.weights.shape
        if num_queries == num_keys == num_tokens - 1:
            return _with_first(maps), (tokens.axis, tokens.axis, _EARLIER.format(kind=kind))
        if num_keys != num_tokens:
            return None
        if maps.mechanism == "pooling":
            learned = Axis("learned", "vector", tuple(str(i + 1) for i in range(num_queries)))
            return maps, (learned, tokens.axis, _POOLING.format(kind=kind))
        if num_queries != num_tokens:
            return None
        backwards = not bool(maps.mask.triu(1).any())  # no query attends to a later key
        caption = _BACK if maps.mechanism == "self" and backwards else _ROW
        return maps, (tokens.axis, tokens.axis, caption.format(kind=kind))

    def as_words(view: View) -> View:
        if view.map.mechanism == "pooling":
            each = Words.counted(view.map.query, [1] * len(view.map.query))
            return view_of_words(view, each, words)
        return view_of_words(view, words, words)

    return [as_words(view) for view in views_of(seen, choice, shown)]


_ROW = "Row i: where {kind} i looked. Weights before dropout."
_POOLING = "Row i: the share of each {kind} in the sum weighted by learned vector i. Weights before dropout."
_BACK = (
    "Row t: where the network looked after reading {kind} t, back to the first one. The result is used when reading "
    "{kind} t + 1; that of the last row is not used. Weights before dropout."
)
_EARLIER = (
    "Row t: where the network looked when it read {kind} t, among those before it. The first has none before it, so "
    "its row is empty. Weights before dropout."
)


def _with_first(maps: Maps) -> Maps:
    """Add an empty row for the first token, which attends to none, and an empty column for the last token."""

    def grown(x: torch.Tensor, value: float) -> torch.Tensor:
        return pad(x.float(), (0, 1, 1, 0), value=value)

    return replace(
        maps,
        weights=grown(maps.weights, 0.0),
        scores=grown(maps.scores, -torch.inf),
        mask=grown(maps.mask, 0.0) > 0,
        context=pad(maps.context, (0, 0, 1, 0)),
        weight_sources=tuple(replace(source, before=1) for source in maps.weight_sources),
    )


UNTRAINED = "untrained"
_UNTRAINED = (UNTRAINED, "twin")
_LONGEST = 80
"""Characters of the other network's own output that are shown."""
_STEP = re.compile(r"step-([0-9]{1,18})")


class Other(NamedTuple):
    """Another network that reads what a run reads."""

    name: str  # in titles
    phrase: str  # in sentences
    run: Any


def names_no_run(name: str) -> bool:
    """True for the words that need no other run: "untrained" (or "twin"), "step-N"."""
    return name in _UNTRAINED or _STEP.fullmatch(name) is not None


def several_of(others: Any) -> list[Any]:
    """The networks that a look is compared with, given as None, one or several, as a list."""
    return [] if others is None else list(others) if isinstance(others, list | tuple) else [others]


def check_beside(others: Sequence[Any], edits: Any = (), sort: str | None = None) -> None:
    """Refuse (ConfigError) options that contradict one another: the other networks, edits, an order."""
    if sort == UNTRAINED and any(other not in _UNTRAINED for other in others):
        raise ConfigError(f"--sort {UNTRAINED} compares with the untrained network: leave out --beside, or --sort")
    names = [str(getattr(other, "folder", other)) for other in others]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"--beside {repeated[0]} is given twice: leave out one")
    if edits and (others or sort == UNTRAINED):
        option = "--beside" if others else f"--sort {UNTRAINED}"
        raise ConfigError(f"{option} and --edit each show a difference: leave out one")


def check_one_task(runs: Sequence[Any], what: str) -> None:
    """Refuse runs of different tasks.

    Raises:
        ConfigError: The message says that only runs of one task can do `what`.
    """
    first = runs[0]
    for run in runs[1:]:
        if run.config.task != first.config.task:
            raise ConfigError(
                f"'{first.folder}' is a run of {first.config.task} and '{run.folder}' one of {run.config.task}; only "
                f"runs of one task {what}"
            )


def other_of(run: Any, reference: Any) -> Other:
    """The network that a look at a run is compared with.

    Args:
        run: The run.
        reference: "untrained": the same architecture as the run's seed draws it; "step-N": the weights kept at update
            N; or another run of the task.

    Raises:
        ConfigError: There is no such word, or the other run is of another task or an ensemble.
        RunError: The weights of that update are not there.
    """
    if isinstance(getattr(reference, "model", None), nn.Module):
        capability(reference, "look")
        check_one_task([run, reference], "can be looked at beside each other")
        same = reference.folder.name == run.folder.name
        name = str(reference.folder) if same else reference.folder.name
        return Other(name, reference.title, reference)
    step = _STEP.fullmatch(reference) if isinstance(reference, str) else None
    if step is None and reference not in _UNTRAINED:
        raise ConfigError(
            f"unknown --beside '{reference}'; give {UNTRAINED}, step-N or another run (in Python heed.load(...))"
            f"{nearest(str(reference), _UNTRAINED)}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.config.training.seed)
        model = run.task.build_model().to(next(run.model.parameters()).device)
    name, phrase = UNTRAINED, f"an untrained network of seed {run.config.training.seed}"
    if step is not None:
        name, phrase = reference, f"the weights of update {int(step[1]):,}"
        load_step(run.folder, int(step[1]), model)
    return Other(name, phrase, type(run)(run.folder, run.config, run.task, model, {}))


def look_beside(
    run: Any, look: Look, reference: Any, text: Any, options: Mapping[str, Any], differences: bool = True
) -> Look:
    """A look with the maps of another network for the same text and output, and with the `differences`.

    Raises:
        ConfigError: The look shows no attention map, or the other network lacks the chosen attention.
    """
    name, phrase, other = other_of(run, reference)
    see = partial(other.looks.at, other.task, other.model, other.readable(text), title=other.title, **options)
    try:
        own_look = same_look = see()
        if look.output is not None and other.head.writes:
            same_look = see(target=look.output if _tokens(run) == _tokens(other) else look.output.text)
    except ConfigError as error:
        raise ConfigError(f"--beside {name}: {error}") from None
    compared = compare_looks(look, same_look, name, name == UNTRAINED, differences)
    if len(compared.beside) == len(look.beside):
        without = "this look" if not compared.maps else name
        raise ConfigError(f"--beside compares attention maps, and {without} has none")
    output = "" if options.get("target") else f", with its own output: {cut(own_look.target, _LONGEST)}"
    note = "; ".join([f"beside it: {phrase}{output}", *own_look.notes[:1]])
    return replace(compared, notes=(*look.notes, note, *compared.notes[len(look.notes) :]))


def _tokens(run: Any) -> list[Any]:
    return [tokenizer.tokens for tokenizer in run.task.tokenizers().values()]


def load_step(folder: Path, step: int, model: nn.Module, force: bool = False) -> None:
    """Read the weights of one update into the model of a run.

    Raises:
        RunError: They are not in the run's folder, of another run, or damaged.
    """
    steps = stored_steps(folder / "checkpoints")
    if step not in steps:
        available = f"there are {', '.join(f'step-{number}' for number in steps)}" if steps else "there are none"
        raise RunError(
            f"'{folder}' has no weights of step-{step}; {available} (training.snapshots=[0.1,0.5] keeps those at these "
            "shares of the updates; packed runs have none)"
        )
    path = folder / "checkpoints" / f"step-{step}"
    check_fingerprint(path, folders.fingerprint(folder))
    folders.verify(path, [folders.WEIGHTS], force)
    load_weights(model, path / folders.WEIGHTS)
