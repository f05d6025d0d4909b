"""A text and its tags under the microscope: the tag of each word, how sure it is, where the model looked."""

from __future__ import annotations

from collections.abc import Sequence

from heed.data.tokens.words import join_words, split_words
from heed.observe.choice import Choice
from heed.observe.edits import Edit
from heed.observe.frames import Look
from heed.observe.maps import Axis, Map
from heed.observe.shading import Shading
from heed.observe.trace import edit
from heed.tasks.base.looking import Words, encoder_frames, networks, notes_on, shown_weights, watched
from heed.tasks.tagging.model import Tagger
from heed.tasks.tagging.task import Tagging


def look_at_tags(
    task: Tagging,
    model: Tagger,
    text: str,
    *,
    edits: Sequence[Edit] = (),
    title: str = "",
    choice: Choice | None = None,
    words: Sequence[str] | None = None,
) -> Look:
    """Look at the tags that a model gives to the words of a raw text, or of one that is given as `words`.

    `edits` change attention weights; `choice` says which attention is shown: by default every mechanism's last layer,
    the mean of its heads.
    """
    text, spans = (text, split_words(text)) if words is None else join_words(words)
    words = tuple(text[start:end] for start, end in spans)
    encoded = task.encode_words([words])
    with watched(model, edits) as seen:
        task.hidden(model, task.collate_encoded(encoded, [0]).to(next(model.parameters()).device))
    with edit(model, *edits):
        (tagged,) = task.tag(model, encoded)
    prediction = task.prediction(text, spans, *tagged)
    read = Words.counted(Axis("text", "word", words), map(len, encoded[0].words))
    length = sum(map(len, encoded[0].words))
    choice = choice or Choice()
    choice.check(seen.mechanisms())
    maps = []
    for mechanism, layer, head, weights in shown_weights(seen, choice, length + model.delay):
        weights = weights[:length, :length]  # without what was read after the text
        if weights.shape == (length, length):
            caption = "Row i: where word i looked. Weights before dropout."
            maps.append(Map(mechanism, layer, head, read.axis, read.axis, read.square(weights), caption=caption))
    others = tuple(
        "else " + ", ".join(f"{tag} {probability:.3f}" for tag, probability in best) for best in prediction.others
    )
    title_of_tags = "Each word's tag and its probability"
    shading = Shading(title_of_tags, read.axis, prediction.probabilities, 1.0, prediction.tags, others)
    notes = [f"entity: {part}" for part in prediction.summary().split("\t") if part] if not task.plain else []
    nets = networks(seen, length, model.delay)
    return Look(
        title or f"{task.config.model.name} on {task.config.data.name}",
        text,
        " ".join(prediction.tags),
        (*maps, *(net.traces(read) for net in nets)),
        encoder_frames(nets, read) if nets else (),
        (),
        (*notes, *notes_on(task.unknown_in(words), edits)),
        shadings=(shading,),
        names=("text", "tags"),
    )
