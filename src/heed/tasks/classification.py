"""Classification: texts, or pairs of texts, with one label, several, or a number; and looks at them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from markupsafe import Markup
from pydantic import Field, model_validator
from torch import Tensor

from heed.config.data import Only, Sources, TextSource, generated, section
from heed.config.sections import EvaluationConfig, TextConfig
from heed.data.corpus import characters_of, sample_of
from heed.data.examples import Text
from heed.data.findings import Findings
from heed.data.kinds.texts import Input, inputs_in, pair_fields
from heed.data.tables import Field as NamedField
from heed.data.text_files import Numbered
from heed.errors import ConfigError
from heed.models.cnn import CNN
from heed.models.mlp import MLP
from heed.tasks.base.comparison import LabelExaminer, shadings_html
from heed.tasks.base.labels import LabelPrediction, answer_of_labels
from heed.tasks.base.looking import (
    READ_AS,
    UNSEEN,
    InputSpans,
    Network,
    Words,
    networks,
    networks_of_parts,
    watched,
)
from heed.tasks.base.predictions import TextOutputs, question_of
from heed.tasks.contracts import Batch
from heed.tasks.heads.number import LabelsOrNumber, mean_number
from heed.tasks.heads.pooled import (
    ALONE,
    MAX_FITTED,
    NAME,
    NETWORK,
    Classifier,
    TextLabels,
    TextNumber,
    TfidfClassifier,
)
from heed.tasks.inputs.texts import BETWEEN, TEXTS, Cut
from heed.tasks.inputs.texts import Texts as TextInput
from heed.tasks.look import AT_ONCE, contrast, explain, look_at_texts, look_of, names_of_special, without
from heed.tasks.work import Baselines, Looks, Task, Work
from heed.watch.attribution import LEFT_OUT
from heed.watch.edits import Edit
from heed.watch.effects import Answer
from heed.watch.looks import ROLLOUT, Choice, EncoderFrame, Look, Shading, darkest_share
from heed.watch.maps import Axis, Map, Part, WeightSource
from heed.watch.trace import Trace, edit


class Texts(TextSource):
    """Texts with labels: CSV, TSV, JSON lines, a folder per class, or lines `label text` (`heed.data.kinds.texts`)."""

    labelled: ClassVar = True

    format: Literal["auto", "csv", "tsv", "jsonl", "lines", "folders"] = "auto"
    """Format of the files: auto goes by the file extension; lines are `label text`, or `__label__a __label__b text`."""
    columns: Any = section("text", "second", label=(int | str | Annotated[list[str], Field(min_length=2)] | None, None))
    """Columns of the text and the label in a file.

    - text: Column of the text: a number from 0 or a name; "text" by default. Two columns, such as [premise,
      hypothesis], are those of a pair of texts; the second is stored as `second`.
    - second: Column of the second text, if an example is a pair of texts.
    - label: Column of the label: a number from 0 or a name; "label" by default. Several columns of 0 and 1, such as
      [toxic, obscene], are a label each, with the column's name, and a text has those whose value is 1 or true.
    """
    several_labels: bool = False
    """A text may have several labels, or none."""
    target: Literal["auto", "classes", "number"] = "classes"
    """What the label is: one of several classes, or a number (regression: squared error of the standardised value).
    Auto is a number if the labels are more than 20 different numbers, or numbers with fractions."""
    label_separator: str = Field(",", min_length=1)
    """Separator between several labels in one cell."""
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    """How much a text of each class counts in the loss: balanced is inverse to the class's share, or a weight per
    class (1 where none is given)."""
    sentences: Annotated[tuple[int, int], Only("planted")] = (5, 20)
    """Fewest and most sentences of a document."""

    @model_validator(mode="before")
    @classmethod
    def _several_columns(cls, values: Any) -> Any:
        """Read two columns of text as a pair, and several columns of labels as several labels."""
        if not isinstance(values, dict):
            return values
        columns: Any = values.get("columns")
        text, label = (
            columns.get(name) if isinstance(columns, dict) else getattr(columns, name, None)
            for name in ("text", "label")
        )
        if isinstance(text, list | tuple):
            if len(text) != 2 or columns.get("second") is not None:
                raise ValueError(
                    f"data.columns.text is {list(text)!r}, expected one column, or the two columns of a pair such as "
                    "[premise, hypothesis]; with two columns, remove data.columns.second"
                )
            values = {**values, "columns": {**columns, "text": text[0], "second": text[1]}}
        if isinstance(label, list | tuple):
            if values.get("several_labels") is False:
                raise ValueError(f"data.several_labels is false, but data.columns.label is {list(label)!r}; remove one")
            values = {**values, "several_labels": True}
        return values

    @model_validator(mode="after")
    def _pairs_have_columns(self) -> Self:
        if self.columns.second is not None and self.format in ("lines", "folders"):
            raise ValueError(
                f"data.columns.second is {self.columns.second!r}, but data.format {self.format} has no columns; give "
                "pairs of texts as CSV, TSV or JSON lines"
            )
        return self


class ClassificationEvaluation(EvaluationConfig):
    """Settings of the evaluation."""

    select_by: Literal["auto", "accuracy", "macro_f1", "micro_f1", "loss"] = "auto"
    """Validation score that chooses the best checkpoint: auto is accuracy, micro_f1 for several labels, or loss if the
    label is a number."""


class ClassificationConfig(TextConfig):
    """The configuration of a classification run."""

    task: Literal["classification"] = "classification"
    """What is learned."""
    data: Annotated[Texts, Sources(Texts, hub=True, planted=generated(2_000, 200, 500))]
    """Where the examples come from."""
    evaluation: ClassificationEvaluation = ClassificationEvaluation()
    """How it is scored."""


MAX_WORDS = 200
"""Largest number of words for which contributions are measured (one forward pass for each word)."""
_MAX_NGRAMS = 12
"""Largest number of n-grams listed."""
_READ_BY_NETWORK = f"; read as the unknown token by the network, not by the n-grams, marked {UNSEEN}"
"""End of the note on words never seen in training where n-grams stand beside the network."""


def collated(work: Any, texts: Sequence[Cut], device: torch.device) -> Batch:
    """Texts as a batch."""
    batch: Batch = work.input.collate(texts, [*range(len(texts))], None)
    return batch.to(device)


def answer_of(work: Any, model: Classifier, encoded: Cut, words: Words, typed: InputSpans) -> Answer:
    """The labels of a text; a word that is left out is no part of its n-grams either."""
    first, ids = int(model.has_cls), work.input.tokens_of(encoded)
    device = next(model.parameters()).device

    def scores(rows: Tensor) -> Tensor:
        texts = []
        for row in rows.tolist():
            read, ngrams = typed.text, encoded.ngrams
            for n in reversed([n for n, token in enumerate(row) if token == LEFT_OUT]):
                start, stop = typed.spans[first + n]
                read = f"{read[:start]} {read[stop:]}"
            if read != typed.text:
                (shorter,) = work.input.encode_texts([read.split(BETWEEN) if work.input.pairs else read])
                ngrams = shorter.ngrams
            texts.append(replace(without(encoded, row), ngrams=ngrams))
        return model(**collated(work, texts, device).inputs)  # type: ignore[no-any-return]

    positions = [range(word.start - first, word.stop - first) for word in words.tokens]
    return answer_of_labels(work.head, model, torch.tensor(ids, device=device), scores, words=positions)


def contributions_of(work: Any, answer: Answer, axis: Axis, label: str) -> Shading | None:
    """Drop in the probability of a label without each word, of the words on `axis`; None for a single word, or many."""
    if not 1 < len(axis) <= MAX_WORDS:
        return None
    output = work.head.labels.index(label) if work.head.several else 0
    falls = (answer.whole - answer.without)[:, output] * (-1 if work.head.several and not answer.chosen[output] else 1)
    title = f"Contribution of each {axis.kind}: drop in the probability of '{label}' when the {axis.kind} is left out"
    return Shading(title, axis, tuple(falls.tolist()), float(falls.abs().max()), signed=True)


def states_of_words(model: Classifier, seen: Trace, words: Words, num_tokens: int) -> list[dict[str, Tensor]]:
    """The named states of each word in a network that reads the whole text at once; an empty list for other models.

    For `mlp`: W_i x_i, the word's part of the sums inside tanh, `(d_hidden,)`. For `cnn`: for each width, the largest
    value of each filter over the n-grams that start in the word, `(num_filters,)`; words in which no n-gram starts
    have none.
    """
    if isinstance(model.body, MLP):
        (terms,) = seen.tensors("shares")
        return [{"W_i x_i": terms[0, word.start : word.stop].sum(0)} for word in words.tokens]
    if isinstance(model.body, CNN):
        grams = list(zip(model.body.windows, seen.tensors("ngrams"), strict=True))
        return [
            {
                f"{width}-grams": largest[0, word.start : word.stop].amax(0)
                for width, largest in grams
                if word.start < max(1, num_tokens - width + 1)
            }
            for word in words.tokens
        ]
    return []


def toward(work: Any, weight: Tensor, label: str) -> Tensor:
    """From the weights of each output, `(num_outputs, units)`, those of each unit in the score of a label, `(units,)`.

    With softmax only differences count, so the score is the label's score minus the mean score of all labels.
    """
    number = work.head.labels.index(label)
    if not work.head.sigmoid:
        return weight[number] - weight.mean(0)
    if work.head.several:
        return weight[number]
    return weight[0] if number == 1 else -weight[0]


def ngrams_of_filters(
    work: Any, model: Classifier, seen: Trace, words: Words, num_tokens: int, label: str
) -> Shading | None:
    """The n-grams at which a CNN's filters are largest, with the filters' summed contributions; None without filters.

    `seen` is a trace of a pass over the text alone; the contributions are to the score of `label`.
    """
    body = model.body
    if not isinstance(body, CNN):
        return None
    weight = toward(work, model.output.weight.detach(), label)
    parts: dict[range, float] = defaultdict(float)
    filters: Counter[range] = Counter()
    add = weight.split([bank.out_channels for bank in body.filters])
    for width, largest, of_filters in zip(body.windows, seen.tensors("ngrams"), add, strict=True):
        values, places = largest[0].max(0)  # (num_filters,): the value that pooling keeps, and its first place
        for value, place in zip((values * of_filters).tolist(), places.tolist(), strict=True):
            ngram = range(place, min(place + width, num_tokens))
            parts[ngram] += value
            filters[ngram] += 1
    title = "The {count} n-grams with the largest contributions to the {score}, through the filters that are "
    ordered = sorted(parts, key=lambda ngram: (ngram.start, ngram.stop))
    remarks = {n: f"maximum of {count} filter{'s' * (count != 1)}" for n, count in filters.items()}
    return _listed(work, title + "largest on them", ((_text(words, n), parts[n], remarks[n]) for n in ordered), label)


def ngrams_fitted(work: Any, model: Classifier, text: Text, label: str) -> Shading | None:
    """The n-grams that add most to a label's score in the n-gram classifier; None without n-grams.

    An n-gram that occurs several times counts once.
    """
    linear = work.input.linear
    if linear is None or model.ngram_scale is None or not (parts := linear.parts(work.input.words_of(text))):
        return None
    scale = float(model.ngram_scale.detach())
    values = toward(work, scale * torch.from_numpy(np.stack([*parts.values()], axis=1)), label).tolist()
    added = [(name, value, "") for name, value in zip(parts, values, strict=True)]
    return _listed(work, "N-gram classifier: the {count} largest contributions to the {score}", added, label)


def shares_of_parts(work: Any, model: Classifier, encoded: Cut, label: str) -> list[str]:
    """The score of a label, and what n-grams and network add to it, as a note; none without n-grams."""
    if not encoded.ngrams or model.ngram_scale is None:
        return []
    linear = float(model.ngram_scale.detach()) * torch.tensor(encoded.ngrams)
    batch = collated(work, [encoded], next(model.parameters()).device)
    network = model(**batch.inputs)[0].float().cpu() - linear
    parts = toward(work, torch.stack([linear, network], dim=1), label).tolist()
    return [f"{_score_of(work, label)}: n-grams {parts[0]:+.4f}, network {parts[1]:+.4f}, together {sum(parts):+.4f}"]


def _score_of(work: Any, label: str) -> str:
    return f"score of '{label}' ({'before the sigmoid' if work.head.sigmoid else 'minus the mean score of all labels'})"


def _listed(work: Any, title: str, parts: Iterable[tuple[str, float, str]], label: str) -> Shading:
    """The n-grams with the largest contributions, each given as (n-gram, contribution, remark).

    In `title`, "count" is replaced, and "score" by the score of what.
    """
    best = sorted(parts, key=lambda part: -abs(part[1]))[:_MAX_NGRAMS]
    axis = Axis("text", "n-gram", tuple(name for name, _, _ in best))
    sums = tuple(value for _, value, _ in best)
    remarks = tuple(remark for _, _, remark in best)
    largest = max(map(abs, sums), default=1.0)
    title = title.format(count=len(best), score=_score_of(work, label))
    return Shading(title, axis, sums, largest, others=remarks if any(remarks) else (), signed=True, listed=True)


def _text(words: Words, tokens: range) -> str:
    """The words that contain some tokens."""
    inside = [
        name for name, word in zip(words.axis.labels, words.tokens, strict=True)
        if word.start < tokens.stop and word.stop > tokens.start
    ]  # fmt: skip
    return ("" if words.axis.kind == "character" else " ").join(inside)


def look_at_text(
    work: Any,
    model: Classifier,
    text: Input,
    *,
    edits: Sequence[Edit] = (),
    choice: Choice | None = None,
    contributions: bool = True,
    pieces: bool = False,
    **options: Any,
) -> Look:
    """Look at the label that a model gives to a text; the options are those of `heed.tasks.base.looking.look`.

    With `contributions`, the contribution of each word is measured by leaving it out, one more forward pass for each.

    Raises:
        ConfigError: The model does not have this attention, or has no gates, or reads no tokens by themselves.
    """
    example, choice = work.input.example_of(text), choice or Choice()
    (encoded,) = work.input.encode([example])
    with edit(model, *edits):
        with watched(model) as seen:
            batch = collated(work, [encoded], next(model.parameters()).device)
            logits = model(**batch.inputs)
        (probabilities,) = work.head.decode(model, logits, batch)
    prediction = work.head.predict(probabilities)
    start, end = work.input.tokenizer.special[2:]
    ids = [*([start] if model.has_cls else []), *work.input.tokens_of(encoded), *([end] if model.framed else [])]
    typed = work.input.typed_as(example, encoded, int(model.has_cls))
    about = work.input.tokenizer, ids, "text", names_of_special(work), typed
    words = Words.of(*about)
    if pieces and work.input.hierarchical:
        raise ConfigError(f"--pieces does not apply: looks of model {work.config.model.name} show words and sentences")
    drawn = Words.of(*about, pieces=True) if pieces else words
    notes = [prediction.summary()]
    if encoded.cut:
        notes.append(f"only the first {encoded.length} tokens are read (data.max_length); {encoded.cut} more are not")
    label = (*prediction.labels, prediction.ranked[0][0])[0]
    notes += shares_of_parts(work, model, encoded, label)
    further = [ngrams_of_filters(work, model, seen, words, len(ids), label), ngrams_fitted(work, model, example, label)]
    itself = [n for n, word in enumerate(words.tokens) if not {start, end} & {*(ids[word.start : word.stop] or [end])}]
    read = words.only(itself)  # without [CLS] and separators
    answer = answer_of(work, model, encoded, read, typed)
    if contributions and not edits:
        further.append(contributions_of(work, answer, read.axis, label))
        if len(words.axis) > MAX_WORDS:
            notes.append(f"contributions of words are measured only for texts of up to {MAX_WORDS} words")
    lengths = [*map(len, encoded.sentences)]
    sentences = sentences_of(drawn, lengths)
    look = look_of(
        work,
        seen,
        drawn,
        len(ids),
        example.text,
        prediction.label,
        notes,
        unknown=[token for part in work.input.split(example) for token in work.input.tokenizer.unknown_in(part)],
        read_as=READ_AS if model.ngram_scale is None else _READ_BY_NETWORK,
        parts=_parts_read(seen, lengths, drawn, sentences) if work.input.hierarchical else None,
        edits=edits,
        choice=choice,
        **options,
    )
    if work.input.hierarchical:
        shadings: Sequence[Shading | None] = level_shadings(seen, choice, lengths, drawn, sentences.axis)
    else:
        classified = model.pooling is not None and model.pooling.kind in ("last", "first", "cls")
        shadings = [_shading_of_map(m, model.has_cls and classified) for m in look.maps if m.is_distribution]
    states = states_of_words(model, seen, drawn, len(ids))
    frames = [EncoderFrame(i, *of, {}) for i, of in enumerate(zip(drawn.axis.labels, states, strict=False))]
    return replace(
        look,
        names=("text", "label"),
        second=example.second or "",
        answer=answer,
        maps=tuple(m for m in look.maps if m.mechanism != "pooling" or len(m.query) > 1),
        encoder=tuple(frames) or look.encoder,
        shadings=tuple(shading for shading in (*shadings, *further) if shading is not None),
        no_steps="" if frames or look.encoder else AT_ONCE,
    )


def _parts_read(seen: Trace, lengths: Sequence[int], words: Words, sentences: Words) -> list[tuple[Network, Words]]:
    """The recurrent networks over the words of each sentence, and over the sentences."""
    of_sentences = networks(seen, len(lengths), within="body.sentences.")
    return [
        *((net, words) for net in networks_of_parts(seen, lengths, "body.words.")),
        *((replace(net, kind=f"sentence {net.kind}"), sentences) for net in of_sentences),
    ]


def _shading_of_map(attention: Map, has_cls: bool) -> Shading | None:
    """The weights of the text's vector: those of the pooling attention, or the attention of [CLS]."""
    if attention.mechanism == "pooling":
        several = f", mean of {len(attention.query)} learned vectors" if len(attention.query) > 1 else ""
        title = f"Pooling attention: the share of each {attention.key.kind} in the text's vector{several}"
        source = (
            (attention.mechanism, attention.weight_source)
            if attention.weight_source is not None and not several
            else None
        )
        return of_shares(title, attention.key, attention.weights.mean(0), source=source)
    if not has_cls:
        return None
    # The state of [CLS] is classified; its attention to itself is left out.
    which = "mean of the heads" if attention.head is None else f"head {attention.head}"
    title = f"Attention of {attention.key.labels[0]} in {attention.mechanism} layer {attention.layer}, {which}"
    title = f"{attention.key.labels[0]} in {attention.title}" if attention.mechanism == ROLLOUT else title
    return of_shares(title, replace(attention.key, labels=attention.key.labels[1:]), attention.weights[0, 1:])


_LEARNED = Axis("learned", "vector", ("learned vector",))
"""The row of an attention that has one learned query."""


def level_shadings(seen: Trace, choice: Choice, lengths: Sequence[int], words: Words, titles: Axis) -> list[Shading]:
    """The weight of each sentence in the text, and of each word in its sentence and so in the text.

    `lengths` are the numbers of tokens of the sentences, `titles` their axis.
    """
    maps = {name: seen.maps(name, layer) for name, layer in choice.layers(seen.mechanisms())}
    weights = {name: level.weights[:, 0, 0] for name, level in maps.items()}
    sources = {name: replace(level.weight_sources[0], head=0) for name, level in maps.items()}
    shadings = []
    if "words" in weights:
        rows = zip(weights["words"], lengths, strict=True)
        within = words.sum(torch.cat([row[:length] for row, length in rows]).unsqueeze(0))[0]
        ends = list(accumulate(lengths, initial=0))
        inside = [max(n for n, end in enumerate(ends[:-1]) if end <= word.start) for word in words.tokens]
        title, weights_of_sentences = "Weight of each word in the sum over its sentence", within.new_ones(len(lengths))
        if "sentences" in weights:
            title += ", times the weight of the sentence in the sum over the text"
            weights_of_sentences = weights["sentences"][0]
        placed = zip(words.tokens, inside, strict=True)
        key = [range(word.start - ends[n], min(word.stop, ends[n + 1]) - ends[n]) for word, n in placed]
        within_sentences = list(zip(inside, weights_of_sentences[inside].tolist(), strict=True))
        source, axis = replace(sources["words"], key=key, within=within_sentences), words.axis
        if both := "sentences" in weights:
            starts = [*(bisect_left(inside, n) for n in range(len(lengths))), len(inside)]
            parts = (Part(f"sentence {n}", *of) for n, of in enumerate(pairwise(starts), start=1))
            axis = replace(axis, parts=tuple(parts))
        shaded = of_shares(title, axis, within * weights_of_sentences[inside], source=("words", source))
        shadings.append(replace(shaded, nested=both))
    if "sentences" in weights:
        title, pooling = "Weight of each sentence in the sum over the text", ("sentences", sources["sentences"])
        shadings.append(of_shares(title, titles, weights["sentences"][0], listed=True, source=pooling))
    return shadings


def of_shares(
    title: str, axis: Axis, distribution: Tensor, listed: bool = False, source: tuple[str, WeightSource] | None = None
) -> Shading:
    """A shading of weights that sum to one; `source` is the mechanism whose weights they are, and their source."""
    weights, row = tuple(distribution.tolist()), None
    if source is not None:
        row = Map(source[0], 0, None, _LEARNED, axis, torch.tensor([weights]), caption=title, weight_source=source[1])
    return Shading(title, axis, weights, darkest_share(weights), listed=listed, row=row)


def sentences_of(words: Words, lengths: Sequence[int]) -> Words:
    """The sentences of a text, each labelled with the words that begin in it."""
    each = list(zip(words.axis.labels, words.tokens, strict=True))
    ends = pairwise(accumulate(lengths, initial=0))
    between = "" if words.axis.kind == "character" else " "
    labels = tuple(between.join(word for word, at in each if start <= at.start < stop) for start, stop in ends)
    return Words.counted(Axis("text", "sentence", labels), [1] * len(lengths))


LONGEST = 2
"""Length of the longest n-grams by default: single words and pairs."""
_RATE = 0.001
"""Learning rate of the body with n-grams: at 0.003 it has memorised small sets after two passes."""
_MANY_LABELS = 20
"""From so many labels on the rate is the usual 0.003: with 77, 56.2 % right in place of 53.7 (docs/benchmarks.md)."""
_OFTEN = 400
"""Largest number of batches in a pass for validations twice a pass: a twelfth of the budget would be several passes."""


def is_default(config: Any) -> bool:
    """True if neither a model nor a number of updates is set; False for embedded data, meant for plain models."""
    section = config.model
    named = "name" in section.model_fields_set or section.from_ is not None
    return not named and config.training.steps is None and not config.data.is_embedded


def longest(work: Work) -> int:
    """Length of the longest n-grams beside a network that nobody chose, unless there is much text."""
    few = is_default(work.config) and characters_of(work.splits.examples["train"]) <= MAX_FITTED
    return LONGEST if few else 0


def defaults(settled: Any, work: Any) -> Any:
    """The configuration with learning rate and validations adapted to n-grams that are there by default."""
    if not is_default(work.config) or not settled.model.settings.get("ngrams"):
        return settled
    batches = int(work.input.counted(work.encoded("train").lengths).sum()) / settled.training.batch_tokens
    if len(work.head.labels) < _MANY_LABELS:
        settled = settled.settle_open("beside n-grams", {"training.learning_rate": _RATE})
    if batches > _OFTEN:
        return settled
    return settled.settle_open("twice in a pass", {"training.validate_every": max(1, math.ceil(batches / 2))})


def baselines(run: Any) -> Baselines:
    """The run's n-grams and its network, each alone; TF-IDF and a linear SVM, fitted to its training set once."""
    functions: dict[str, Any] = {}
    if len(run.members) == 1 and run.input.linear is not None:
        functions = {ALONE: partial(_alone, run, True), NETWORK: partial(_alone, run, False)}
    if isinstance(run.head, TextNumber):
        return mean_number(run)
    if (train := run.training_examples()) is not None:
        train = sample_of(train, MAX_FITTED)

        @cache
        def machine() -> TfidfClassifier:
            return TfidfClassifier([text.source for text in train], [text.labels for text in train], run.head.several)

        functions[NAME] = lambda examples: machine().predict([text.source for text in examples])
    return functions


def _alone(run: Any, linear: bool, examples: Sequence[Any]) -> list[LabelPrediction]:
    """The labels by the n-grams alone, or by the network alone."""
    work = run.task
    logits = work.input.linear.logits(map(work.input.words_of, examples))
    if not linear:
        encoded = work.input.encode(examples)
        both = torch.stack(work.scored(run.model, encoded, lambda b: [*work.head.states(run.model, b).float().cpu()]))
        logits = both - run.model.ngram_scale.detach().cpu() * logits
    predictions = [work.head.predict(row) for row in work.head.probabilities(logits)]
    return [replace(prediction, probabilities={}) for prediction in predictions]


def look(work: Any, model: Any, text: Input, *, contributions: bool = True, **options: Any) -> Look:
    """A look at the label, or the number, of a text; with `contributions`, what each word adds to a label."""
    if isinstance(work.head, TextNumber):
        return look_at_texts(work, model, text, **options)
    return look_at_text(work, model, text, contributions=contributions, **options)


class ClassificationOutputs(TextOutputs):
    """Labels of texts, which may be in a file in the format of the training files."""

    def inputs(self, path: Path, findings: Findings) -> tuple[Iterable[Numbered], str] | None:
        data, columns = self.run.config.data, self.run.config.data.columns
        fields = pair_fields(columns.text, columns.second) if self.pairs else [NamedField("text", columns.text)]
        trained = () if data.is_embedded else data.train
        return inputs_in(path, fields, findings, self.run.head.labels, trained)


class ClassificationExaminer(LabelExaminer):
    """Texts, drawn without the contributions of words, which take a pass for each word."""

    def count_tokens(self, run: Any, outputs: Sequence[LabelPrediction]) -> int:
        return sum(text.length for text in run.input.encode(self.examples))

    def drawing(self, run: Any, index: int, *others: Any) -> Markup:
        return shadings_html(run.look(question_of(run.input, self.examples[index]), contributions=False).look)


TASK = Task(
    "classification",
    input=TextInput(TEXTS),
    head=LabelsOrNumber("texts", labels=TextLabels(longest=longest), number=TextNumber()),
    config=ClassificationConfig,
    looks=Looks(look, explain, contrast),
    baselines=baselines,
    defaults=defaults,
    outputs=ClassificationOutputs,
    examiner=lambda: ClassificationExaminer,
    enough_updates=300,
)
