"""Tagging: a tag for each word of a text, entities in BIO or any other tags."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor, nn

from heed.data.examples import Sentence
from heed.data.findings import Findings
from heed.data.kinds.contents import content_of
from heed.data.kinds.tagged import ColumnFile, by_sentence, entities
from heed.data.tables import Head as Beginning
from heed.errors import ConfigError
from heed.evaluation.labels import mark_entities
from heed.tasks.base.attributing import Explained, chosen, placed, table_of
from heed.tasks.base.comparison import Examiner, shadings_html
from heed.tasks.base.looking import Words, watched
from heed.tasks.base.predictions import FileOutputs, TextOutputs, in_line
from heed.tasks.heads.tags import CrfHead, Tagger, TagPrediction, Tags
from heed.tasks.inputs.words import SENTENCES, TokenWords
from heed.tasks.inputs.words import Words as WordsInput
from heed.tasks.look import AT_ONCE, look_of
from heed.tasks.work import Baselines, Looks, Task
from heed.visible import visible
from heed.watch.attribution import LEFT_OUT, Scored
from heed.watch.edits import Edit
from heed.watch.effects import Answer
from heed.watch.looks import Look, Shading, TagSpan
from heed.watch.maps import Axis
from heed.watch.trace import edit


def baselines(run: Any) -> Baselines:
    """The most frequent tag of each word in the training set."""
    known = run.training_examples()
    return {} if known is None else {"most frequent tag of each word": frequent_tags(known)}


def frequent_tags(train: Iterable[Sentence]) -> Any:
    """A function that tags sentences: with the most frequent tag of each word in training, alphabetically the first.

    Words never seen have the most frequent tag of all. Words are compared case-sensitively.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    overall = Counter[str]()
    for sentence in train:
        overall.update(sentence.tags)
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            counts[word][tag] += 1
    other, *best = (min(tags, key=lambda tag: (-tags[tag], tag)) for tags in (overall, *counts.values()))
    by_word = dict(zip(counts, best, strict=True))

    def tagged(examples: Sequence[Sentence]) -> list[TagPrediction]:
        tags = (tuple(by_word.get(word, other) for word in example.words) for example in examples)
        return [TagPrediction("", e.words, (), mine, (), (), False) for e, mine in zip(examples, tags, strict=True)]

    return tagged


class TaggingOutputs(TextOutputs):
    """The entities of a text on one line, separated by tabs: `start-end label probability words`.

    Plain tags are written as `word/tag`.
    """

    unit = "words"  # whatever the tokens

    def expect(self, lines: Sequence[str], where: str | None) -> None:
        head = Beginning(Path("input"), tuple(lines[:1_000]), False)
        if head.filled and len(head.objects) == len(head.filled):
            raise ConfigError(f"{where or 'the input'}: each line is a JSON object; expected one text a line")
        content = content_of(head)
        if content is not None and content.kind == "tagged" and content.sure:
            raise ConfigError(
                f"{where or 'the input'}: {content.why}; expected one text per line (column files need --columns)"
            )

    def answer(self, text: str) -> str:
        return super().answer(text) or "(no entity)"


class ColumnOutputs(FileOutputs):
    """The lines of a column file, with the predicted tags in the tag column."""

    def write_file(self, path: Path) -> Iterable[str]:
        return tag_columns(self.run, path)


def tag_columns(run: Any, path: Path) -> list[str]:
    """The lines of a column file, with the predicted tags in the tag column.

    If the tag column is missing (words without tags), the tags are added as the last column. Lines without a word
    (blank lines, comments, -DOCSTART-) are unchanged.

    Raises:
        DataError: The file cannot be read, or lacks the columns.
    """
    file = ColumnFile(path, Findings.of(run.config.data, strict=True))
    file.choose_columns(run.config.data.columns, tagged=False)
    label, rows = int(file.columns.get("label", file.width)), list(by_sentence(file))
    tagged = run.predict([[row.text("word") for row in sentence] for sentence in rows])
    tags = (in_line(tag) for prediction in tagged for tag in prediction.tags)
    written = {
        row.number: file.written([*row.cells[:label], tag, *row.cells[label + 1 :]])
        for row, tag in zip(chain.from_iterable(rows), tags, strict=True)
    }
    return [written.get(number, line) for number, line in enumerate(file.lines, start=1)]


def outputs(run: Any, options: Mapping[str, Any]) -> TaggingOutputs | ColumnOutputs:
    """The writer of predictions."""
    return ColumnOutputs(run, options) if options["columns"] else TaggingOutputs(run, options)


class TaggingExaminer(Examiner):
    """Compares the tags of words."""

    @classmethod
    def truth_of(cls, example: Sentence) -> str:
        return mark_entities(example.words, example.tags)

    def _lengths(self) -> tuple[list[int], str]:
        return [len(sentence.words) for sentence in self.examples], "words"

    def count_tokens(self, run: Any, outputs: Sequence[TagPrediction]) -> int:
        return int(run.input.encode(self.examples).lengths[:, 0].sum())

    @property
    def known(self) -> bool:
        return any(run.head.plain for run in self.runs)

    def drawing(self, run: Any, index: int, *given: Any) -> Markup:
        return shadings_html(look_at_tags(run.task, run.model, self.examples[index].words))


def look_at_tags(
    work: Any,
    model: Tagger,
    text: str | Sequence[str],
    *,
    edits: Sequence[Edit] = (),
    pieces: bool = False,
    **options: Any,
) -> Look:
    """Look at the tags that a model gives to the words of a raw text, or to words.

    The options are those of `heed.tasks.base.looking.look`.

    Raises:
        ConfigError: The model does not have this attention, or has no gates, or the text is too long.
    """
    reads, tokenizer, example = work.input, work.input.tokenizer, work.input.example_of(text)
    words, encoded = example.words, reads.encode([example])
    with edit(model, *edits):
        with watched(model) as seen:
            work.head.states(model, reads.collate(encoded, [0], None).to(next(model.parameters()).device))
        (tagged,) = work.answers(model, encoded)
    prediction = work.head.predict(tagged, example)
    own, counts = Axis("text", "word", words), [*map(len, encoded[0].words)]
    length = sum(counts)
    if (most := reads.text_positions) is not None and length > most:
        raise ConfigError(
            f"the text has {length} tokens, but model {work.config.model.name} reads {most} at a time; look at "
            "a shorter text"
        )
    start, end = tokenizer.special[2:]
    ends = {token: tokenizer.token(token) for token in ((start, end) if reads.is_framed else ())}
    if pieces:
        ids = reads.tokens_of(encoded[0])
        read = Words.of(tokenizer, [start, *ids, end] if ends else ids, "text", ends, pieces=True)
    elif ends:
        read = Words.counted(replace(own, labels=(ends[start], *words, ends[end])), [1, *counts, 1])
    else:
        read = Words.counted(own, counts)
    notes = [f"entity: {part}" for part in prediction.summary().split("\t") if part] if not prediction.plain else []
    if model.delay:
        later = "each word is tagged after that many more tokens have been read"
        notes.append(f"model.delay {model.delay}: {later}")
    look = look_of(
        work,
        seen,
        read,
        length + len(ends),
        example.text,
        " ".join(prediction.tags),
        notes,
        unknown=reads.unknown_in(words),
        read_as="",
        delay=model.delay,
        edits=edits,
        **options,
    )
    return replace(
        look,
        shadings=(_shading(work.head, prediction, own),),
        names=("text", "tags"),
        answer=answer_of(work, model, encoded[0], words, tagged.tags),
        no_steps="" if look.encoder else AT_ONCE,
    )


def _shading(head: Tags, prediction: TagPrediction, axis: Axis) -> Shading:
    """The entities, or every word with its tag, coloured by type, with the probability of each tag."""
    types = sorted({tag.split("-", 1)[-1] for tag in head.labels} - {"O"})
    if prediction.plain:
        found = [(tag, i, i + 1) for i, tag in enumerate(prediction.tags)]
        types = sorted(head.labels)
    else:
        found = entities(prediction.tags)
    spans = tuple(TagSpan(start, stop, label, types.index(label)) for label, start, stop in found)
    others = tuple(
        "else " + ", ".join(f"{tag} {probability:.3f}" for tag, probability in best) for best in prediction.others
    )
    title = "Each word's tag" if prediction.plain else "Entities"
    return Shading(title, axis, prediction.probabilities, 1.0, prediction.tags, others, spans)


def explain(
    work: Any, model: Tagger, text: str, target: str | None = None, rather_than: str | None = None
) -> Explained:
    """The score of a tag of one word before softmax or CRF, minus that of another tag if one is given.

    By default the tag of the first entity, or of the first word. A word that is left out is read as the unknown token
    without characters or affixes, since each word has a tag; where words are replaced otherwise, these stay.

    Raises:
        ConfigError: The run has no such tag, or the text no such word.
    """
    reads, tokenizer, labels, example = work.input, work.input.tokenizer, work.head.labels, work.input.example_of(text)
    words, corpus = example.words, reads.encode([example])
    (encoded,), (tagged,) = corpus, work.answers(model, corpus)
    tags = [labels[tag] for tag in tagged.tags]
    first = next((n for n, tag in enumerate(tags) if tag != "O"), 0)
    tag, place = (tags[first], first) if target is None else placed(target, labels)
    if place is None:
        place = tags.index(tag) if tag in tags else first
    if not 0 <= place < len(words):
        raise ConfigError(f"no word {place}: the text has {len(words)} words, counted from 0")
    numbers = [chosen(name, labels, "tag") for name in (tag, rather_than) if name is not None]
    scores_of = _reading(work, model, encoded)

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        scores = scores_of(model, rows)[:, place]
        return scores[:, numbers[0]] - (scores[:, numbers[1]] if len(numbers) > 1 else 0.0)

    name = f"the score of {tag} for word {place} ('{words[place]}')"
    name += f" minus that of {rather_than}" if rather_than is not None else ""
    tokens = torch.tensor(reads.tokens_of(encoded), device=next(model.parameters()).device)
    scored = Scored(model, table_of(model), tokens, score, tokenizer.special.unseen)
    read = Words.counted(Axis("text", "word", words), [*map(len, encoded.words)])
    has_features = model.characters is not None
    unknown = f"the unknown token{' without characters' * has_features}"
    deleted = f"a word that is left out is read as {unknown}, since each word has a tag"
    held = ("held fixed: the features of each word's characters",) * has_features
    start, end = (tokenizer.token(token) for token in tokenizer.special[2:])
    later = tuple(f"+{n + 1}" for n in range(model.delay))
    around = ((start,), (end,)) if reads.is_framed else ((), later)
    return Explained(scored, read, name, held, around, (deleted,))


def _reading(work: Any, model: Tagger, encoded: TokenWords) -> Callable[[nn.Module, Tensor], Tensor]:
    """A function from the model and tokens of a sentence `(N, L)`, unknown where left out, to scores of all tags.

    The scores are those before softmax or CRF, `(N, words, tags)`. Words that are left out have no characters; those of
    all others stay as they are.
    """
    inputs = work.input.collate([encoded], [0], None).to(next(model.parameters()).device).inputs

    def scores(model: nn.Module, rows: Tensor) -> Tensor:
        count, characters, left = len(rows), inputs["characters"], rows == LEFT_OUT
        word_of = None if inputs["word_of"] is None else inputs["word_of"].expand(count, -1)
        if characters is not None:
            place = characters.place.expand(count, -1)
            of_words = left if word_of is None else torch.zeros_like(place).scatter_add(1, word_of, left.long()) > 0
            characters = replace(characters, place=place.masked_fill(of_words, 0))
        masks = inputs["mask"].expand(count, -1), word_of, inputs["word_mask"].expand(count, -1)
        hidden = model(rows.masked_fill(left, work.input.tokenizer.special.unseen), *masks, characters)
        found: Tensor = model.head.output(hidden)  # type: ignore[union-attr, operator]
        return found

    return scores


def answer_of(work: Any, model: Tagger, encoded: TokenWords, words: Sequence[str], tags: Sequence[int]) -> Answer:
    """The tags of a text with their probabilities, with a CRF the marginal ones."""
    reads, device, head = _reading(work, model, encoded), next(model.parameters()).device, model.head

    def logits(rows: Tensor, mechanism: str) -> Tensor:
        scores = reads(model, rows)
        if not isinstance(head, CrfHead):
            return scores
        everything = torch.ones(scores.shape[:2], dtype=torch.bool, device=device)
        return head.crf.marginals(scores, everything).clamp_min(torch.finfo(scores.dtype).tiny).log()

    def named(output: int, number: int) -> str:
        return f'word {output + 1} "{visible(words[output])}" {visible(work.head.labels[number])}'

    tokens = torch.tensor(work.input.tokens_of(encoded), device=device)
    compared = "choice of tags" if isinstance(head, CrfHead) else "output"  # a CRF chooses tags together
    return Answer(model, tokens, logits, named, tags, compared=compared)


def contrast(work: Any, model: Tagger, text: str, other: str) -> dict[str, Any]:
    """The score that tells two texts apart: of the first word whose tags differ, the other's minus the text's."""
    answers = work.answers(model, work.input.encode([work.input.example_of(one) for one in (text, other)]))
    own, there = ([work.head.labels[tag] for tag in answer.tags] for answer in answers)
    differing = [n for n, (a, b) in enumerate(zip(own, there, strict=False)) if a != b]
    place = differing[0] if differing else 0
    return {"target": f"{there[place]}:{place}", "rather_than": own[place] if differing else None}


TASK = Task(
    "tagging",
    input=WordsInput(SENTENCES),
    head=Tags(),
    looks=Looks(look_at_tags, explain, contrast),
    baselines=baselines,
    outputs=outputs,
    examiner=lambda: TaggingExaminer,
    enough_updates=300,
)
