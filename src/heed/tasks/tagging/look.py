"""The look at a text and its tags: each word's tag with its probability, and the model's attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heed.data.kinds.tagged import entities
from heed.data.tokens.special import join_words, split_words
from heed.errors import ConfigError
from heed.observe.edits import Edit
from heed.observe.looks import Choice, Look, Shading, TagSpan
from heed.observe.maps import Axis
from heed.observe.trace import edit
from heed.tasks.base.looking import Words, encoder_frames, networks, notes_on, views_of_text, watched
from heed.tasks.tagging.task import Tagger, Tagging, TagPrediction


def look_at_tags(
    task: Tagging,
    model: Tagger,
    text: str,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    words: Sequence[str] | None = None,
    gates: bool = False,
    pieces: bool = False,
) -> Look:
    """Look at the tags that a model gives to the words of a raw text, or to the given `words`.

    The options are those of `LooksAtText.look`.

    Raises:
        ConfigError: The model does not have this attention, or has no gates, or the text is too long.
    """
    text, spans = (text, split_words(text)) if words is None else join_words(words)
    words = tuple(text[start:end] for start, end in spans)
    encoded = task.encode_words([words])
    with edit(model, *edits):
        with watched(model) as seen:
            task.hidden(model, task.collate_encoded(encoded, [0]).to(next(model.parameters()).device))
        (tagged,) = task.tag(model, encoded)
    prediction = task.prediction(text, spans, *tagged)
    own, counts = Axis("text", "word", words), [*map(len, encoded[0].words)]
    length = sum(counts)
    if task.room is not None and length > task.room:
        raise ConfigError(
            f"the text has {length} tokens, but model {task.config.model.name} reads {task.room} at a time; look at "
            "a shorter text"
        )
    start, end = task.tokenizer.special[2:]
    ends = {token: task.tokenizer.token(token) for token in ((start, end) if task.framed else ())}
    if pieces:
        ids = task.tokens_of(encoded[0])
        read = Words.of(task.tokenizer, [start, *ids, end] if ends else ids, "text", ends, pieces=True)
    elif ends:
        read = Words.counted(replace(own, labels=(ends[start], *words, ends[end])), [1, *counts, 1])
    else:
        read = Words.counted(own, counts)
    length += len(ends)
    choice = choice or Choice()
    choice.check(seen.mechanisms())
    views = views_of_text(seen, choice, read, length + model.delay)
    nets = networks(seen, length, model.delay)
    if gates and not nets:
        raise ConfigError(f"no gates to draw: model {task.config.model.name} has no recurrent network")
    states = {f"layer {i}": block[0] for i, block in enumerate(seen.tensors("states"))}
    notes = [f"entity: {part}" for part in prediction.summary().split("\t") if part] if not task.plain else []
    if model.delay:
        later = "each word is tagged after that many more tokens have been read"
        notes.append(f"model.delay {model.delay}: {later}")
    frames = encoder_frames(nets, read, states, views)
    return Look(
        title or task.title,
        text,
        " ".join(prediction.tags),
        (*(view.map for view in views), *(net.traces(read) for net in nets if gates)),
        frames,
        (),
        (*notes, *notes_on(task.unknown_in(words), edits, read_as="")),
        shadings=(_shading(task, prediction, own),),
        names=("text", "tags"),
        no_steps="" if frames else "no steps: this model reads the whole text at once",
    )


def _shading(task: Tagging, prediction: TagPrediction, axis: Axis) -> Shading:
    """The entities, or every word with its tag, coloured by type, with the probability of each tag."""
    types = sorted({tag.split("-", 1)[-1] for tag in task.labels} - {"O"})
    if task.plain:
        found = [(tag, i, i + 1) for i, tag in enumerate(prediction.tags)]
        types = sorted(task.labels)
    else:
        found = entities(prediction.tags)
    spans = tuple(TagSpan(start, stop, label, types.index(label)) for label, start, stop in found)
    others = tuple(
        "else " + ", ".join(f"{tag} {probability:.3f}" for tag, probability in best) for best in prediction.others
    )
    title = "Each word's tag" if task.plain else "Entities"
    return Shading(title, axis, prediction.probabilities, 1.0, prediction.tags, others, spans)
