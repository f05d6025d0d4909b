"""The look at a text and its label: attention, contribution of each word, states and gates of networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from heed.data.batch.texts import TokenText
from heed.data.read.sentences import split_sentences, without_breaks
from heed.data.read.two_texts import parted
from heed.data.tokens.tokenizer import END, START
from heed.errors import ConfigError
from heed.observe.choice import Choice, View
from heed.observe.edits import Edit
from heed.observe.frames import EncoderFrame, Look
from heed.observe.maps import Axis, Map
from heed.observe.shading import Shading
from heed.observe.trace import Trace, edit
from heed.tasks.base.looking import Network, Typed, Words, encoder_frames, networks, notes_on, watched
from heed.tasks.base.views import views_of_text
from heed.tasks.classification.contributions import CLS, MOST_WORDS, SEP, without_each_word
from heed.tasks.classification.evidence import evidence, states_of_words
from heed.tasks.classification.levels import level_networks, level_shadings
from heed.tasks.classification.model import Classifier
from heed.tasks.classification.ngrams import ngram_shading
from heed.tasks.classification.task import Classification
from heed.tasks.classification.texts import split_texts

NO_STEPS = "no steps: this model reads the whole text at once"
"""Shown instead of steps for a model without steps."""


def look_at_text(
    task: Classification,
    model: Classifier,
    text: str,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    gates: bool = False,
    contributions: bool = True,
    pieces: bool = False,
) -> Look:
    """Look at the label that a model gives to a text.

    Args:
        task: The task, which turns the text into tokens.
        model: The model to look at.
        text: The text.
        edits: Changes of attention weights.
        title: The title.
        choice: Which attention to show: by default every mechanism's last layer, the mean of its heads.
        gates: Draw the gates of recurrent networks over the text.
        contributions: Measure the contribution of each word by leaving it out (one more forward pass for each word).
        pieces: Show tokens instead of whole words in maps and steps.

    Raises:
        ConfigError: The model does not have this attention, or has no gates.
    """
    text = text.strip()
    (encoded,) = task.encode_texts([text])
    with edit(model, *edits):
        with watched(model) as seen:
            batch = task.collate_encoded([encoded], [0]).to(next(model.parameters()).device)
            model(batch.tokens, batch.mask)
        (probabilities,) = task.classify(model, [encoded])
    prediction = task.prediction(probabilities)
    ids = [*([START] if model.has_cls else []), *task.tokens_of(encoded), *([END] if model.framed else [])]
    about = task.tokenizer, ids, "text", _special(task, model), _typed(task, text, model, encoded)
    words = Words.of(*about)
    drawn = Words.of(*about, pieces=True) if pieces and not task.hierarchical else words
    choice = choice or Choice()
    choice.check(seen.mechanisms())
    notes = [prediction.summary()]
    if encoded.cut:
        notes.append(f"only the first {encoded.length} tokens are read (data.max_length); {encoded.cut} more are not")
    maps, shadings, nets, frames = _seen(task, model, seen, choice, encoded, drawn)
    best = max(prediction.probabilities, key=lambda label: prediction.probabilities[label])
    label = prediction.labels[0] if prediction.labels else best
    shadings += evidence(task, model, seen, words, len(ids), label)
    if (beside := ngram_shading(task, model, encoded, words, label)) is not None:
        shadings.append(beside)
    if contributions and not edits:
        added = without_each_word(task, model, encoded, words, label)
        shadings += [added] if added is not None else []
        if len(words.axis) > MOST_WORDS:
            notes.append(f"contributions of words are measured only for texts of up to {MOST_WORDS} words")
    if gates and not nets:
        raise ConfigError(f"no gates to draw: model {task.config.model.name} has no recurrent network")
    unknown = [one for part in split_texts(text, task.config.data) for one in task.tokenizer.unknown_in(part)]
    return Look(
        title or task.title,
        text,
        prediction.label,
        (*maps, *(net.traces(over) for net, over in nets if gates)),
        frames,
        (),
        (*notes, *notes_on(unknown, edits)),
        shadings=tuple(shadings),
        names=("text", "label"),
        no_steps="" if frames else NO_STEPS,
    )


def _special(task: Classification, model: Classifier) -> dict[int, str]:
    """Names of the start and end tokens."""
    if model.framed:
        return {START: task.tokenizer.token(START), END: task.tokenizer.token(END)}
    return {START: CLS, END: SEP}


def _typed(task: Classification, text: str, model: Classifier, encoded: TokenText) -> Typed:
    """The span of the text that each token covers."""
    parts = list(parted(text)) if task.pairs else [text]
    if not task.hierarchical:
        parts = [without_breaks(part) for part in parts]
    places, start = [(0, 0)] * model.has_cls, 0
    for number, part in enumerate(parts):
        own: list[tuple[int, int]] = []
        for a, b in (
            split_sentences(part, task.config.data.sentence_separator) if task.hierarchical else [(0, len(part))]
        ):
            own += [(start + a + c, start + a + d) for c, d in task.tokenizer.encode(part[a:b]).spans]
        if task.pairs and number == 0:  # either text of a pair may have been cut
            ids = task.tokens_of(encoded)
            own = [*own[: ids.index(END)], *[(0, 0)] * ids.count(END)]
        places += own
        start += len(part) + 1
    return Typed(" ".join(parts), places)


def _seen(
    task: Classification, model: Classifier, seen: Trace, choice: Choice, encoded: TokenText, words: Words
) -> tuple[list[Map], list[Shading], list[tuple[Network, Words]], tuple[EncoderFrame, ...]]:
    """Maps, shadings, recurrent networks with the words or sentences they read, and a frame for each word."""
    if task.hierarchical:
        lengths = list(map(len, encoded.sentences))
        sentences = _sentences(words, lengths)
        of_words, of_sentences = level_networks(seen, lengths)
        shadings = level_shadings(seen, choice, lengths, words, sentences.axis)
        nets = [*((net, words) for net in of_words), *((net, sentences) for net in of_sentences)]
        return [], shadings, nets, encoder_frames(of_words, words)
    num_tokens = words.tokens[-1].stop if words.tokens else 0
    views = views_of_text(seen, choice, words, num_tokens)
    own = networks(seen, num_tokens)
    states = {f"layer {i}": block[0] for i, block in enumerate(seen.tensors("states"))}
    classified = model.pooling is not None and model.pooling.kind in ("last", "first", "cls")
    shadings = [s for view in views if (s := _shading(view, model.has_cls and classified)) is not None]
    maps = [view.map for view in views if view.map.mechanism != "pooling" or len(view.map.query) > 1]
    frames = encoder_frames(own, words, states, views)
    if held := states_of_words(model, seen, words, num_tokens):
        frames = tuple(EncoderFrame(i, *of, {}) for i, of in enumerate(zip(words.axis.labels, held, strict=True)))
    return maps, shadings, [(net, words) for net in own], frames


def _shading(view: View, has_cls: bool) -> Shading | None:
    """The weights of the text's vector: those of the pooling attention, or the attention of [CLS]."""
    one = view.map
    if one.mechanism == "pooling":
        several = f", mean of {len(one.query)} learned vectors" if len(one.query) > 1 else ""
        title = f"Pooling attention: the share of each {one.key.kind} in the text's vector{several}"
        return _of_shares(title, one.key, one.weights.mean(0))
    if not has_cls:
        return None
    # The state of [CLS] is classified; its attention to itself is left out.
    which = "mean of the heads" if one.head is None else f"head {one.head}"
    title = f"Attention of {one.key.labels[0]} in {one.mechanism} layer {one.layer}, {which}"
    return _of_shares(title, replace(one.key, labels=one.key.labels[1:]), one.weights[0, 1:])


def _of_shares(title: str, axis: Axis, shares: Tensor) -> Shading:
    return Shading(title, axis, tuple(shares.tolist()), float(shares.max()) if len(shares) else 1.0)


def _sentences(words: Words, lengths: Sequence[int]) -> Words:
    """The sentences of a text, each labelled with its words."""
    labels, start = [], 0
    for length in lengths:
        inside = [
            name for name, word in zip(words.axis.labels, words.tokens, strict=True)
            if start <= word.start < start + length
        ]  # fmt: skip
        labels.append(("" if words.axis.kind == "character" else " ").join(inside))
        start += length
    return Words.counted(Axis("text", "sentence", tuple(labels)), [1] * len(lengths))
