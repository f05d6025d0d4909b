"""Looks at a conversation: the turns, and the words in them, that each word of a response attends to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from typing import Any

import torch
from torch import Tensor

from heed.data.batch import TokenTurn, pad_histories
from heed.data.examples import Conversation
from heed.errors import ConfigError, DataError
from heed.models.base import DecoderBody
from heed.tasks.base.attributing import Explained
from heed.tasks.base.looking import (
    InputSpans,
    Network,
    Units,
    Words,
    encoder_frames,
    gate_maps,
    networks,
    networks_of_parts,
    notes_on,
)
from heed.tasks.base.report import counted, first_of
from heed.tasks.base.writing import (
    Reread,
    Side,
    WrittenText,
    answer_of_output,
    boundaries,
    explain_output,
    hidden_of_pair,
    side_of,
    views_of_sides,
)
from heed.tasks.inputs.turns import History, Read
from heed.watch.attribution import LEFT_OUT
from heed.watch.edits import Edit
from heed.watch.effects import Answer
from heed.watch.looks import Choice, EncoderFrame, Look, Shading, View, darkest_share
from heed.watch.maps import Axis, Part
from heed.watch.trace import Maps, Trace, edit


def turn_frames(
    words: Sequence[Network], dialogue: Sequence[Network], tokens: Words, turns: Axis
) -> tuple[EncoderFrame, ...]:
    """A frame for each turn: the state at each of its tokens, the vector of the turn, the dialogue state after it.

    `words` are the networks over `tokens`, those of all turns, each turn a part of the axis; `dialogue` those over the
    turns.
    """
    read, frames = [net for net in words if net.layer == max(net.layer for net in words)], []
    for n, part in enumerate(tokens.axis.parts):
        labels, place = tokens.axis.labels[part.start : part.stop], range(part.start, part.stop)
        states = torch.cat([net.hidden[part.start : part.stop] for net in read], dim=-1)
        held = {f"{i + 1} {label}": states[i] for i, label in enumerate(labels)}
        held |= {"turn": torch.cat([net.hidden[net.last(place)] for net in read], dim=-1)}
        held |= {f"dialogue{net.label}": net.hidden[n] for net in dialogue}
        gates = {f"{name}{net.label}": float(gate[n]) for net in dialogue for name, gate in net.means.items()}
        text = ("" if tokens.axis.kind == "character" else " ").join(labels)
        frames.append(EncoderFrame(n, f"{turns.labels[n]}: {text}", held, gates))
    return tuple(frames)


_NAMES = ("conversation", "response")
_AXES = {
    "words": ("response", "conversation"),
    "turns": ("response", "turns"),
    "cross": ("response", "conversation"),
    "encoder": ("conversation", "conversation"),
    "decoder": ("response", "response read"),
}
_CAPTIONS = {
    "words": "Row t: the {kind}s of the conversation that the model looked at to write {kind} t of the response.",
    "turns": "Row t: the turns that the model looked at to write {kind} t of the response.",
    "cross": "Row t: the {kind}s of the conversation that the model looked at to write {kind} t of the response.",
    "encoder": "Row i: where {kind} i of the conversation looked.",
    "decoder": "Row t: where the pass that wrote {kind} t of the response looked, among the tokens read until then.",
}
_INSIDE = " A {kind}'s weight is its share of the weight of its turn."
_LOOKED = "Attention of the response, averaged over its {kind}s: the share of each "
_HINT = {
    True: "The model reads the conversation turn by turn, each from its first word on",
    False: "The model reads the conversation as one text, token by token",
}


def look_at(
    work: Any,
    model: DecoderBody,
    conversation: Conversation,
    *,
    speaker: str | None = None,
    target: str | WrittenText | None = None,
    beam_size: int | None = None,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    gates: bool = False,
    units: Units | None = None,
) -> Look:
    """Look at the response of a model to a conversation, or at a given `target`.

    The finished response is read again in one traced pass, which equals the steps that wrote it. `edits` also apply
    while it is written; by default the last layer of every mechanism is shown, the mean of its heads. `speaker` is the
    one who responds, by default the next one.

    Raises:
        ConfigError: The speaker does not exist, or the model lacks the mechanism, layer or head.
    """
    choice, tokenizer = choice or Choice(), work.input.tokenizer
    (asked,) = histories_of(work.input, [conversation], speaker)
    responds, history = work.input.who_responds(conversation, speaker), asked.turns
    with edit(model, *edits):
        written = target or work.head.respond(work, model, [asked], beam_size=beam_size)[0][0]
        seen = Reread.of(work.input, model, asked, written)
    read = work.input.reading.read(history)
    special = {**boundaries(tokenizer), **{tag: tokenizer.token(tag) for tag in tokenizer.tags.values()}}
    sides = {**_sides(work, conversation, read, special), **seen.sides("response", tokenizer, special)}
    choice.check(seen.mechanisms)
    (encoder, encoder_words), (decoder, decoder_words) = (
        _views(trace, choice, sides) for trace in (seen.reading, seen.writing)
    )
    views = [*encoder_words, *decoder_words]
    tokens, words = sides["conversation"]
    if work.input.reads_turns:
        turns = sides["turns"][0]
        nets = networks_of_parts(seen.reading, [len(turn.ids) for turn in read.turns], "words.")
        over = [
            replace(net, kind="turns", label=net.label.removeprefix("forward"))
            for net in networks(seen.reading, len(turns.axis), within="turns.")
        ]
        frames, dialogue = turn_frames(nets, over, tokens, turns.axis), [(net, turns) for net in over]
    else:
        nets, dialogue = networks(seen.reading, len(tokens.axis)), []
        frames = tuple(  # each token with the turn that contains it
            replace(one, token=f"{one.token}  ({tokens.axis.part_at(one.index)})")
            for one in encoder_frames(nets, tokens, seen.layer_states, encoder)
        )
    read_nets = [(replace(net, kind=f"encoder {net.kind}"), words) for net in nets]
    drawn = [*read_nets, *dialogue, *seen.networks(sides["response"][1])]
    ended = not isinstance(written, str) and written.finished
    greedy = target is None and (beam_size or work.config.generation.beam_size) == 1
    return Look(
        title or work.title,
        conversation.source,
        f"{responds}: {seen.text}" if responds else seen.text,
        (*(view.map for view in views), *gate_maps(drawn, work.config.model.name, gates, units)),
        frames,
        seen.frames(decoder, sides["response"][0].axis, tokenizer),
        tuple(_notes(work, conversation, history, read, seen.score, edits, choice.hidden([*encoder, *decoder]))),
        seen.summary(model),
        shadings=tuple(_shadings(views, conversation, read)),
        names=_NAMES,
        output=None if isinstance(written, str) else written,
        answer=_answer(work, model, seen, asked, read.turns, ended, greedy),
        hint=f"{_HINT[work.input.reads_turns]}; then it writes the response, one token a step.",
    )


def _tokens_of(work: Any, read: Sequence[TokenTurn]) -> tuple[list[int], list[range]]:
    """The tokens of turns, after those of their speakers if the model reads one text, and the places of each turn's."""
    speakers, tokens, places = work.input.speakers, list[int](), []
    for turn in read:
        tokens += [] if work.input.reads_turns else [speakers.tags[turn.speaker]]
        places.append(range(len(tokens), len(tokens) + len(turn.ids)))
        tokens += turn.ids
    return tokens, places


def _without(row: list[int], places: Sequence[range], read: Sequence[TokenTurn]) -> list[TokenTurn]:
    """The turns without the tokens that are left out in a row; turns without tokens are left out whole."""
    kept = [[token for token in row[place.start : place.stop] if token != LEFT_OUT] for place in places]
    return [TokenTurn(ids, turn.speaker) for ids, turn in zip(kept, read, strict=True) if ids]


def _answer(
    work: Any,
    model: DecoderBody,
    seen: Reread,
    asked: History,
    read: Sequence[TokenTurn],
    ended: bool,
    greedy: bool,
) -> Answer:
    """The response under other weights."""
    (tokens, _), unknown = _tokens_of(work, read), work.input.tokenizer.special.unknown
    source = History([turn for turn in read if turn.ids] or [TokenTurn([unknown], read[-1].speaker)], asked.speaker)
    return answer_of_output(work.input, model, seen, ended, tokens, source, greedy)


def explain(
    work: Any,
    model: DecoderBody,
    conversation: Conversation,
    target: str | None = None,
    rather_than: str | None = None,
    speaker: str | None = None,
    output: str | WrittenText | None = None,
) -> Explained:
    """The log-probability of the response, or of one token of it, as `explain_output` has it, by words of the turns.

    Raises:
        ConfigError: The speaker does not exist, or the response has no such token or position.
    """
    (asked,) = histories_of(work.input, [conversation], speaker)
    written = output or work.head.respond(work, model, [asked])[0][0]
    read, tokenizer = work.input.reading.read(asked.turns), work.input.tokenizer
    tags = {tag: tokenizer.token(tag) for tag in tokenizer.tags.values()}
    _, words = _sides(work, conversation, read, {**boundaries(tokenizer), **tags})["conversation"]
    device = next(model.parameters()).device

    def of_turns(model: Any, rows: Tensor, before: Tensor) -> Tensor:
        kept = [_without(row, places, read.turns) for row in rows.tolist()]
        conversations = [range(*ends) for ends in pairwise(accumulate(map(len, kept), initial=0))]
        histories = [tensor.to(device) for tensor in pad_histories([*chain.from_iterable(kept)], conversations)]
        every, counts = torch.arange(len(rows)), torch.tensor([*map(len, conversations)])
        found: Tensor = model(*histories, before, every.to(device), counts.to(device))
        return found

    (ids, places), held = _tokens_of(work, read.turns), None
    if not work.input.reads_turns:
        held = torch.isin(torch.tensor(ids), torch.tensor([*tags])).to(device)  # the tags of the speakers are no words
        words = words.only([n for n, word in enumerate(words.tokens) if not held[word.start]])
    hidden = of_turns if work.input.reads_turns else hidden_of_pair
    unknown, first = tokenizer.special.unknown, work.input.reading.start(asked.speaker)
    return explain_output(work.input, model, ids, words, unknown, first, written, target, rather_than, hidden, held)


def histories_of(input: Any, conversations: Sequence[Conversation], speaker: str | None) -> list[History]:
    """Conversations as a model reads them, each with the speaker who responds.

    Raises:
        ConfigError: The speaker does not exist, or a conversation has no turn.
    """
    if speaker is not None:
        input.speakers.check(speaker, "speaker")
    for n, one in enumerate(conversations):
        if not one.turns:
            raise ConfigError(f"conversation {n} has no turn to respond to")
    numbers = [input.speakers.number(input.who_responds(one, speaker)) for one in conversations]
    encoded = input.encode(conversations).conversations
    return [History(turns, number) for turns, number in zip(encoded, numbers, strict=True)]


def readable(work: Any, text: Any) -> Conversation:
    """The conversation to look at.

    Raises:
        DataError: The text is not a conversation, or the conversation has no turn.
    """
    conversation: Conversation = work.input.conversation(text)
    if not conversation.turns:
        raise DataError("the conversation has no turns; give at least one to look at the response to it")
    return conversation


def _turn_name(conversation: Conversation, turn: int) -> str:
    """The name of a turn: its number from 1, and its speaker."""
    return f"{turn + 1} {conversation.speaker(turn)}" if conversation.speaker(turn) else f"turn {turn + 1}"


def _sides(work: Any, conversation: Conversation, read: Read, special: Mapping[int, str]) -> dict[str, Side]:
    """The conversation and its turns."""
    tokenizer = work.input.tokenizer
    turns = []
    for n, turn in enumerate(read.turns, start=read.first):
        tag = [] if work.input.reads_turns else [work.input.speakers.tags[turn.speaker]]
        typed = InputSpans.of(tokenizer, conversation.turns[n], before=len(tag))
        turns.append(side_of(tokenizer, [*tag, *turn.ids], "conversation", special, typed))
    names = [_turn_name(conversation, n) for n in range(read.first, len(conversation.turns))]
    whole = Words.counted(Axis("turns", "turn", tuple(names)), [1] * len(names))
    tokens, words = (_concatenated(side, names) for side in zip(*turns, strict=True))
    return {"turns": (whole, whole), "conversation": (tokens, words)}


def _concatenated(turns: Sequence[Words], names: Sequence[str]) -> Words:
    """Concatenate turns, each a part of the axis."""
    labels: list[str] = []
    tokens: list[range] = []
    parts, start = [], 0
    for name, one in zip(names, turns, strict=True):
        parts.append(Part(name, len(labels), len(labels) + len(one.axis)))
        labels += one.axis.labels
        tokens += [range(start + word.start, start + word.stop) for word in one.tokens]
        start = tokens[-1].stop if tokens else 0
    axis = turns[0].axis
    return Words(Axis(axis.name, axis.kind, tuple(labels), tuple(parts)), tokens)


def _views(seen: Trace, choice: Choice, sides: Mapping[str, Side]) -> tuple[list[View], list[View]]:
    """Views of each attention that is shown, token by token and word by word."""
    both, kind = {name for name, _ in seen.mechanisms()} >= {"words", "turns"}, sides["response"][1].axis.kind

    def shown(maps: Maps) -> tuple[Maps, str]:
        caption = _CAPTIONS[maps.mechanism] + (_INSIDE if both and maps.mechanism == "words" else "")
        if maps.mechanism == "turns":  # the weights are appended to each context
            maps = replace(maps, context=maps.context[..., : maps.context.shape[-1] - maps.weights.shape[-1]])
        return maps, f"{caption.format(kind=kind)} Weights before dropout."

    tokens, words = views_of_sides(seen, choice, sides, _AXES, shown)
    if both:  # a product of two softmaxes has no scores of its own
        tokens, words = (
            [replace(one, map=replace(one.map, scores=None)) if one.map.mechanism == "words" else one for one in views]
            for views in (tokens, words)
        )
    return tokens, words


def _shadings(views: Sequence[View], conversation: Conversation, read: Read) -> list[Shading]:
    """The words of each turn, or only the turns if these are attended to, shaded by the response's mean weight."""
    shadings = []
    looked = [view.map for view in views if view.map.mechanism in ("words", "cross")]
    turns = [view.map for view in views if view.map.mechanism == "turns"]
    for one in looked or turns:
        shares, axis = one.weights.double().mean(0), one.key
        if not looked:
            said = zip(axis.labels, conversation.turns[read.first :], strict=True)
            axis = replace(axis, labels=tuple(f"{label}: {text}" for label, text in said))
        which = "" if len(looked or turns) == 1 else f" ({one.title})"
        of_each = f"{axis.kind} and, at the start of the line, of each turn" if looked else "turn"
        title = f"{_LOOKED.format(kind=one.query.kind)}{of_each}{which}"
        weights = tuple(shares.tolist())
        shadings.append(Shading(title, axis, weights, darkest_share(weights), listed=not looked, nested=bool(looked)))
    return shadings


def _notes(
    work: Any,
    conversation: Conversation,
    history: Sequence[TokenTurn],
    read: Read,
    score: str,
    edits: Sequence[Edit],
    hidden: str,
) -> list[str]:
    """The score, the parts of the conversation that were not read, and the notes on any look."""
    data = work.config.data
    notes = [f"response: {score}"]
    if read.first:
        limits = [] if data.history is None else [f"data.history {data.history}"]
        limits += [] if work.input.reads_turns else [f"data.max_length {data.max_length}"]
        notes.append(f"{first_of(read.first, len(history), 'turn')} not read ({', '.join(limits)})")
    long = sum(len(turn.ids) > data.max_turn for turn in history[read.first :])
    if long:
        notes.append(f"{counted(long, 'turn')} read only up to token {data.max_turn} (data.max_turn)")
    unknown = [one for turn in conversation.turns[read.first :] for one in work.input.tokenizer.unknown_in(turn)]
    return [*notes, *notes_on(unknown, edits, hidden)]
