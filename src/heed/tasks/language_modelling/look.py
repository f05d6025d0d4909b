"""Looks of language models: causal maps of prompt and output, a frame for every token, surprisal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from heed.data.tokens.tokenizer import END
from heed.errors import ConfigError
from heed.models.base import LanguageModel
from heed.observe.choice import Choice, View
from heed.observe.edits import Edit
from heed.observe.frames import Look
from heed.observe.maps import Axis
from heed.observe.shading import Shading
from heed.observe.trace import Maps, Trace, edit
from heed.tasks.base.looking import Typed, Words, networks, notes_on, token_labels, watched
from heed.tasks.base.views import Shown, view_of_words, views_of
from heed.tasks.language_modelling.continuation import WritingOptions
from heed.tasks.language_modelling.look_frames import (
    WRITTEN,
    LookedAt,
    label_of,
    reading_frames,
    words_of,
    writing_frames,
)
from heed.tasks.language_modelling.task import LanguageModelling
from heed.tasks.language_modelling.writing import context_of, continue_all

LENGTH = 20
"""Tokens that a look writes by default."""
_READ = "Row t: where the model looked when it had read token t, before the next token. Weights before dropout."
_EARLIER = (
    "Row t: where the model looked when it read token t, among the tokens before it; the first has none and no row. "
    "Weights before dropout."
)


def look_at(
    task: LanguageModelling,
    model: LanguageModel,
    text: str,
    *,
    given: bool = False,
    length: int | None = None,
    beam_size: int | None = None,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    words: bool = False,
) -> Look:
    """Look at how a model reads and continues a prompt or, with `given`, at how it reads a text.

    Prompt and output are read again in one traced pass, which equals the steps that wrote the output; every chosen
    layer and head has one causal map of all tokens. `edits` also apply while the output is written.

    Args:
        task: Turns text into tokens.
        model: The model.
        text: The prompt, or the text.
        given: Write nothing.
        length: Largest number of tokens to write; 20 by default.
        beam_size: Width of the beam; the configuration's by default.
        edits: Changes of attention weights.
        title: The title.
        choice: Which attention is shown: by default every mechanism's last layer, the mean of its heads.
        words: Show maps and surprisal of whole words instead of tokens.

    Raises:
        ConfigError: The model has no such mechanism, layer or head; or a length is asked for with `given`.
    """
    if given and (length is not None or beam_size is not None):
        raise ConfigError("--given writes nothing, so --length and --beam do not apply")
    choice = choice or Choice()
    with edit(model, *edits):
        return _look(task, model, text, given, length, beam_size, edits, title, choice, words)


def _look(
    task: LanguageModelling,
    model: LanguageModel,
    text: str,
    given: bool,
    length: int | None,
    beam_size: int | None,
    edits: Sequence[Edit],
    title: str,
    choice: Choice,
    joined: bool,
) -> Look:
    """Look at a model whose attention is already edited."""
    written, ended, cut = [], False, []
    if not given:
        generation = task.config.generation
        options = WritingOptions(
            length=LENGTH if length is None else length,
            beam_size=generation.beam_size if beam_size is None else beam_size,
            length_penalty=generation.length_penalty,
        )
        best = continue_all(task, model, [text], options)[0][0]
        written, ended = list(best.ids), best.finished
        most = f"{options.length} token{'s' * (options.length != 1)}"
        cut = ["written by the model" + ("" if ended else f", cut off after {most}")]
    shown = _text(task, text, written, ended)
    context, count = context_of(task, model), len(shown.ids)
    if context is not None and len(shown.ids) > context:
        left = len(shown.ids) - context
        shown = replace(
            shown, ids=shown.ids[left:], labels=shown.labels[left:], first_written=max(0, shown.first_written - left)
        )
        cut.append(f"longer than the context: only the last {context} tokens are shown, read in one pass")
    with watched(model) as seen:
        tokens = torch.tensor([shown.ids], device=next(model.parameters()).device)
        logits = model.logits(model(tokens))[0].float()  # (T, vocab_size)
    choice.check(seen.mechanisms())
    views = _views(seen, choice, shown.axis)
    nets = networks(seen, len(shown.ids))
    bits = _surprisal(logits, shown)
    total = sum(bits) if given else sum(bits[max(0, shown.first_written - 1) :])
    part = " of the tokens shown" if context is not None and count > context else ""
    said = f"{'text' if given else 'output'}: log-probability {-total * math.log(2):.4g}{part}"
    words = words_of(task, shown) if joined else Words.counted(shown.axis, [1] * len(shown.ids))
    drawn = [_of_words(view, words) for view in views] if joined else views
    first = 1 if given else min(max(1, shown.first_written), len(shown.ids))
    return Look(
        title or f"{task.config.model.name} on {task.config.data.name}",
        text,
        task.tokenizer.decode(written),
        (*(view.map for view in drawn), *(net.traces(words) for net in nets)),
        reading_frames(task, seen, nets, views, shown, logits, 0 if given else first),
        writing_frames(task, seen, nets, views, shown, logits, first),
        (f"{said}; {', '.join(cut)}" if cut else said, *_notes(task, text, edits, choice, views, written)),
        shadings=_shadings(shown, bits, logits, words if joined else None),
        names=("text", "") if given else ("prompt", "written"),
        parts=(("prompt", "reads"), ("text", "next is") if given else ("output", "writes")),
    )


def _text(task: LanguageModelling, text: str, written: list[int], ended: bool) -> LookedAt:
    own = task.tokenizer.encode(text).ids
    prompt = task.begun(own, least=1 if written else 2)
    ids = [*prompt, *written]
    typed = Typed.of(task.tokenizer, text, before=len(prompt) - len(own))
    groups = [range(n, n + 1) for n in range(len(ids))]
    labels = token_labels(task.tokenizer, ids, groups, {}, typed, lambda token: label_of(task, token[0]))
    return LookedAt(ids, labels, len(ids) - len(written), ended)


def _notes(
    task: LanguageModelling,
    text: str,
    edits: Sequence[Edit],
    choice: Choice,
    views: Sequence[View],
    written: Sequence[int],
) -> list[str]:
    marked = [f"{WRITTEN} marks tokens that the model wrote"] if written and views else []
    return [*marked, *notes_on(task.tokenizer.unknown_in(text), edits, choice.hidden(views))]


def _views(seen: Trace, choice: Choice, axis: Axis) -> list[View]:
    """Views of each attention that is shown.

    Where tokens attend to earlier tokens only, the first has no row and the last no column.
    """

    def shown(maps: Maps) -> tuple[Maps, Shown]:
        _, _, num_queries, num_keys = maps.weights.shape
        query = replace(axis, labels=axis.labels[len(axis) - num_queries :])
        key = replace(axis, labels=axis.labels[:num_keys])
        return maps, (query, key, _READ if num_queries == len(axis) else _EARLIER)

    return views_of(seen, choice, shown)


def _surprisal(logits: Tensor, text: LookedAt) -> list[float]:
    """Surprisal in bits of each token but the first, and of the end token if the model wrote it."""
    labels = torch.tensor([*text.ids[1:], *([END] if text.ended else [])], device=logits.device)
    log_probs = torch.log_softmax(logits[: len(labels)].double(), -1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return (-log_probs / math.log(2)).tolist()


def _of_words(view: View, words: Words) -> View:
    """Merge a view of tokens into words, if every token has a row and a column."""
    count = words.tokens[-1].stop
    return view_of_words(view, words, words) if view.map.weights.shape == (count, count) else view


def _shadings(text: LookedAt, bits: Sequence[float], logits: Tensor, words: Words | None = None) -> tuple[Shading, ...]:
    """Surprisal of the given and the written text, on one scale; that of a word is the sum over its tokens."""
    count = len(text.ids)
    own = bits[: count - 1]
    if words is not None:
        return _shadings_of_words(text, own, words)
    labels = torch.tensor(text.ids[1:], device=logits.device).unsqueeze(1)
    before = logits[: count - 1]
    ranks = ((before > before.gather(1, labels)).sum(1) + 1).tolist()
    shadings, given = [], max(1, text.first_written)  # where the context leaves out the prompt, all of it was written
    for name, part in (
        ("given text", slice(1, given)),
        ("what the model wrote", slice(given, None)),
    ):
        inside = slice(part.start - 1, None if part.stop is None else part.stop - 1)
        if values := own[inside]:
            axis = Axis("text", "token", text.labels[part])
            others = tuple(
                f"rank {rank}, probability {2.0**-b:.3g}" for rank, b in zip(ranks[inside], values, strict=True)
            )
            title = f"Surprisal of the {name} in bits" if name == "given text" else f"Surprisal of {name} in bits"
            shadings.append(Shading(title, axis, tuple(values), max(own), others=others))
    return tuple(shadings)


def _shadings_of_words(text: LookedAt, bits: Sequence[float], words: Words) -> tuple[Shading, ...]:
    """As `_shadings`; the first token has no surprisal, so a word of that token only is left out."""
    parts = [bits[max(0, one.start - 1) : one.stop - 1] for one in words.tokens]
    sums, found = list(map(sum, parts)), []
    for name, written in (("the given text", False), ("what the model wrote", True)):
        own = [
            n
            for n, (one, part) in enumerate(zip(words.tokens, parts, strict=True))
            if part and (one.start >= text.first_written) == written
        ]
        if own:
            labels = tuple(words.axis.labels[n].removeprefix(WRITTEN * written) for n in own)
            axis = Axis("text", words.axis.kind, labels)
            values = tuple(sums[n] for n in own)
            found.append(Shading(f"Surprisal of {name} in bits", axis, values, max(sums)))
    return tuple(found)
