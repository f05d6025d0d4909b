"""Tagging: a tag for each word of a text, entities in BIO or any other tags."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from markupsafe import Markup
from pydantic import Field
from torch import Tensor, nn

from heed.config.data import OWN, Only, Source, Sources, generated, section
from heed.config.sections import EvaluationConfig, TextConfig
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


class Sentences(Source):
    """Sentences with tags: columns (CoNLL, CSV) or JSON (`heed.data.kinds.tagged`)."""

    labelled: ClassVar = True

    in_memory: Annotated[int, Only(OWN)] = Field(200_000, ge=0)
    """Splits with more examples than this, or that may take more than a quarter of the free memory, are kept in the
    cache folder (HEED_CACHE). Their tokens are kept there, too, and tokenizers trained on a sample of 10 MB."""
    columns: Any = section("word", "label", "sentence")
    """Columns of words, tags and sentences: by number, or by name (in a header, JSON, Python, or CoNLL-U).

    - word: Column of the word, or of the text of entities, from 0 (negative numbers count from the last, -1); by
      default the one with a usual name, FORM in CoNLL-U, else the first.
    - label: Column of the tag, or of entities; by default the one with a usual name, UPOS in CoNLL-U, else the last.
    - sentence: Column with another value for each sentence, in files without blank lines between them; by default the
      one with a usual name or the only such column.
    """
    tag_names: tuple[str, ...] = ()
    """Names of the tags where the data has their numbers: of 0, 1, 2 and so on."""
    scheme: Literal["auto", "bio", "iob1", "io", "bioes", "plain"] = "auto"
    """Tagging scheme of entities; auto detects it for each set, plain tags (such as parts of speech) mark no
    entities."""
    max_length: int = Field(500, gt=0)
    """Training sentences with more tokens than this are left out, and counted."""
    mirrored: Annotated[bool, Only("teddy")] = False
    """Reverse every sentence, so that the word before Teddy shows it."""


class TaggingEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "entity_f1", "accuracy", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is entity_f1, or accuracy for plain tags."""
    words: tuple[str, ...] = ()
    """Words whose tags are also scored separately, such as ["Teddy"]."""


class TaggingConfig(TextConfig):
    """The configuration of a tagging run."""

    task: Literal["tagging"] = "tagging"
    """What is learned."""
    data: Annotated[Sentences, Sources(Sentences, hub=True, teddy=generated(2_000, 200, 500))]
    """Where the examples come from."""
    evaluation: TaggingEvaluation = TaggingEvaluation()
    """How it is scored."""


def baselines(run: Any) -> Baselines:
    """The most frequent tag of each word in the training set."""
    examples = run.training_examples()
    return {} if examples is None else {"most frequent tag of each word": frequent_tags(examples)}


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
    def shared_facts(self) -> bool:
        return any(run.head.plain for run in self.runs)

    def drawing(self, run: Any, index: int, *others: Any) -> Markup:
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
    axis, counts = Axis("text", "word", words), [*map(len, encoded[0].words)]
    length = sum(counts)
    if (max_tokens := reads.text_positions) is not None and length > max_tokens:
        raise ConfigError(
            f"the text has {length} tokens, but model {work.config.model.name} reads {max_tokens} at a time; look at "
            "a shorter text"
        )
    start, end = tokenizer.special[2:]
    ends = {token: tokenizer.token(token) for token in ((start, end) if reads.is_framed else ())}
    if pieces:
        ids = reads.tokens_of(encoded[0])
        read = Words.of(tokenizer, [start, *ids, end] if ends else ids, "text", ends, pieces=True)
    elif ends:
        read = Words.counted(replace(axis, labels=(ends[start], *words, ends[end])), [1, *counts, 1])
    else:
        read = Words.counted(axis, counts)
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
        shadings=(_shading(work.head, prediction, axis),),
        names=("text", "tags"),
        answer=answer_of(work, model, encoded[0], words, tagged.tags),
        no_steps="" if look.encoder else AT_ONCE,
    )


def _shading(head: Tags, prediction: TagPrediction, axis: Axis) -> Shading:
    """Entities, or every word with its tag if tags are plain, coloured by type, with the probability of each tag."""
    types = sorted({tag.split("-", 1)[-1] for tag in head.labels} - {"O"})
    if prediction.plain:
        tagged = [(tag, i, i + 1) for i, tag in enumerate(prediction.tags)]
        types = sorted(head.labels)
    else:
        tagged = entities(prediction.tags)
    spans = tuple(TagSpan(start, stop, label, types.index(label)) for label, start, stop in tagged)
    others = tuple("else " + ", ".join(f"{tag} {p:.3f}" for tag, p in best) for best in prediction.others)
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
    fixed = ("held fixed: the features of each word's characters",) * has_features
    start, end = (tokenizer.token(token) for token in tokenizer.special[2:])
    later = tuple(f"+{n + 1}" for n in range(model.delay))
    around = ((start,), (end,)) if reads.is_framed else ((), later)
    return Explained(scored, read, name, fixed, around, (deleted,))


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
        logits: Tensor = model.head.output(hidden)  # type: ignore[union-attr, operator]
        return logits

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
    """The score that separates two texts: at the first word whose tags differ, the other's tag minus the text's."""
    answers = work.answers(model, work.input.encode([work.input.example_of(words) for words in (text, other)]))
    tags, others = ([work.head.labels[tag] for tag in answer.tags] for answer in answers)
    differing = [n for n, (a, b) in enumerate(zip(tags, others, strict=False)) if a != b]
    place = differing[0] if differing else 0
    return {"target": f"{others[place]}:{place}", "rather_than": tags[place] if differing else None}


TASK = Task(
    "tagging",
    input=WordsInput(SENTENCES),
    head=Tags(),
    config=TaggingConfig,
    looks=Looks(look_at_tags, explain, contrast),
    baselines=baselines,
    outputs=outputs,
    examiner=lambda: TaggingExaminer,
    enough_updates=300,
)
