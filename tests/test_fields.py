"""Every field of a configuration does something: changing it changes its cheapest observable.

A case names the settings that both sides share, two values of the field, and what is looked at. The last test compares
the table with the classes: a new field needs a case.
"""

import itertools
import json
import time
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any
from unittest import mock

import pytest
import torch
import yaml

import bookings
import notes
import stories
from contract import batch_of, loss_of, write_lines
from heed.config import RunConfig, TrainingConfig
from heed.config.sections import SearchConfig
from heed.data.tokens import END, UNKNOWN
from heed.errors import HeedError
from heed.runs.train import train_config
from heed.tasks import check_config, config_class, task_class, task_names
from heed.tasks.base.writing import output_measures
from heed.tasks.work import Task, Work
from heed.training.progress import Quiet

# --- small runs of every task


WORDS = ["red", "old", "big", "Cat", "dog", "man"]
OTHERS = ["rojo", "viejo", "grande", "gato", "perro", "hombre"]


def given(text):
    """Settings as on the command line."""
    return {name: yaml.safe_load(value) for name, _, value in (word.partition("=") for word in text.split())}


SHARED = given(
    "training.steps=2 training.threads=1 training.device=cpu training.precision=float32 training.warmup=0 "
    "training.schedule=constant training.learning_rate=0.02 training.batch_tokens=120 training.validate_every=1000 "
    "evaluation.bootstrap=10"
)
SMALL = {"model.d_embedding": 8, "model.d_hidden": 8}
COPY = SMALL | given(
    "task=translation data.name=copy data.length=[2,5] data.train=60 data.valid=6 data.test=6 model.name=bahdanau "
    "model.size=tiny model.d_attention=8"
)
PAIRS = SMALL | given(
    "task=translation data.train=pairs.tsv data.valid=4 data.max_length=50 model.name=bahdanau model.size=tiny "
    "model.d_attention=8 training.guided_attention=0.0"
)
BLOCKS = COPY | {"model.name": "transformer", "model.d_model": 8, "model.num_heads": 2, "model.d_ff": 8}
BLOCKS = {name: value for name, value in BLOCKS.items() if name not in {*SMALL, "model.d_attention"}}
TEXTS = SMALL | given(
    "task=classification data.train=texts.tsv data.valid=texts.tsv tokenizer.kind=word tokenizer.min_count=1 "
    "model.name=rnn model.d_pooling=6"
)
TAGS = SMALL | given(
    "task=tagging data.train=tags.conll data.valid=tags.conll data.test=tags.conll tokenizer.kind=word "
    "tokenizer.min_count=1 model.name=rnn"
)
ROWS = {"task": "table", "data.train": "rows.csv", "data.valid": "rows.csv", "model.d_hidden": 4}
SERIES = {"task": "series", "data.train": "series.csv", "data.window": 4, "model.d_hidden": 4}

BOOK = given(
    "task=language_modelling data.train=book.txt data.context=8 model.name=attention_lm model.d_model=8 "
    "model.num_heads=2 training.batch_tokens=32"
)


STORIES = given(
    "task=pretraining data.train=stories/train.txt data.valid=stories/valid.txt data.test=stories/test.txt "
    "data.format=lines data.max_length=64 model.size=tiny model.d_model=8 model.num_heads=2 model.d_ff=8 "
    "training.batch_tokens=200"
)

NOTES = SMALL | given(
    "task=summarisation data.train=notes/train.jsonl data.valid=notes/valid.jsonl data.test=notes/test.jsonl "
    "tokenizer.kind=word model.name=bahdanau model.size=tiny model.d_attention=8"
)

TALKS = SMALL | given(
    "task=dialogue data.train=bookings/train.jsonl data.valid=bookings/valid.jsonl data.test=bookings/test.jsonl "
    "data.respond=host tokenizer.kind=word model.name=hred model.size=tiny training.batch_tokens=400"
)

PICTURES = given(
    "task=images data.name=digits data.train=40 data.valid=10 data.test=10 model.name=cnn model.num_filters=[4] "
    "model.convolutions=1 training.batch_size=16 training.batch_tokens=2000"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fields")
    pairs = [(a, b) for a in range(6) for b in range(6) if a != b]
    texts = [f"{WORDS[a]} {WORDS[b]}\t{OTHERS[b]} {OTHERS[a]}" for a, b in pairs]
    write_lines(folder / "pairs.tsv", *texts, "\ufb01ne cafe\u0301\tbien caf\u00e9", "Once upon\tEra una")
    labelled = [f"{'abc'[a % 3]}\t{WORDS[a]} {WORDS[b]} {WORDS[(a + b) % 6]}" for a, b in pairs]
    write_lines(folder / "texts.tsv", "label\ttext", *labelled)
    two = [line for line in labelled if line[0] != "c"]
    write_lines(folder / "two.tsv", "label\ttext", *two)
    tags = [f"{WORDS[a]} B-x\n{WORDS[b]} {'I-x' if b % 2 else 'O'}\n" for a, b in pairs]
    write_lines(folder / "tags.conll", *tags)
    write_lines(folder / "rows.csv", "x,y,label", *(f"{a},{a * b},{'abc'[a % 3]}" for a, b in pairs))
    write_lines(folder / "series.csv", "x", *(str(n % 5) for n in range(40)))
    write_lines(folder / "book.txt", *(f"{WORDS[a]} {WORDS[b]} sees \ufb01ve." for a, b in pairs))
    write_lines(folder / "more.txt", f"unheard {' '.join(['0.5'] * 8)}")
    for script, count in ((stories, 30), (notes, 40), (bookings, 30)):
        script.main([str(folder / script.__name__), f"--train={count}", "--valid=4", "--test=4"])
    write_lines(folder / "vectors.txt", *(f"{word} {' '.join(['0.5'] * 8)}" for word in WORDS))
    return folder


@dataclass
class Seen:
    """What a run of training showed.

    Attributes:
        run: The finished run.
        events: The lines of metrics.jsonl.
        steps: The checkpoints that were there after any update or at the end.
        rows: Examples of each batch that a loss was computed of in training.
        calls: How often a module was called.
        deterministic: Whether torch was asked for kernels that repeat their sums.
    """

    run: Any = None
    events: list[dict[str, Any]] = field(default_factory=list)
    steps: set[str] = field(default_factory=set)
    rows: list[int] = field(default_factory=list)
    calls: int = 0
    deterministic: bool = False

    def of(self, event, *keys):
        return [tuple(line[key] for key in keys) for line in self.events if line["event"] == event]


class Recorder(Quiet):
    """Looks at the checkpoints after every update."""

    def __init__(self, seen, folder):
        self._seen, self._folder = seen, folder

    def update(self, message):
        self._seen.steps |= {path.name for path in self._folder.glob("step-*")}


def configured(settings, folder):
    values: dict[str, Any] = {}
    for name, value in (SHARED | settings).items():
        if isinstance(value, str) and (folder / value).is_file():
            value = str(folder / value)
        *sections, key = name.split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = value
    return check_config(values, "the test")


_numbers = itertools.count()


def trained(settings, folder, scores=None, ticks=None):
    """Train, and keep what can be seen of it; with scripted validation scores, or by a clock that ticks when read."""
    config, seen = configured(settings, folder), Seen()
    kind, out = task_class(config.task), folder / f"run-{next(_numbers)}"
    kind = Work if isinstance(kind, Task) else kind
    whole_loss, script = kind.loss, itertools.cycle(scores or [])

    def loss(task, model, batch, label_smoothing):
        if model.training:
            seen.rows.append(len(batch.indices))
        return whole_loss(task, model, batch, label_smoothing)

    def count(*_):
        seen.calls += 1

    hook = torch.nn.modules.module.register_module_forward_hook(count)
    clock = itertools.count()
    patches = [mock.patch.object(kind, "loss", loss)]
    if scores:
        patches.append(mock.patch.object(kind, "validate", lambda task, model: next(script)))
    if ticks:
        patches.append(mock.patch.object(time, "perf_counter", lambda: ticks * next(clock)))
    threads = torch.get_num_threads()
    for patch in patches:
        patch.start()
    try:
        seen.run, _ = train_config(config, out, Recorder(seen, out / "checkpoints"))
    finally:
        for patch in reversed(patches):
            patch.stop()
        hook.remove()
        torch.set_num_threads(threads)
        seen.deterministic = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
    Recorder(seen, out / "checkpoints").update("")
    seen.events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return seen


def prepared(settings, folder):
    """The task and a new model, in evaluation mode."""
    config = configured(settings, folder)
    task = task_class(config.task).prepare(config)
    torch.manual_seed(task.config.training.seed)
    model = task.build_model()
    task.start(model)
    return task, model.eval()


# --- what is looked at


def updates(seen):
    """Loss, learning rate and gradient of every update."""
    return seen.of("update", "loss", "learning_rate", "gradient_norm")


def weights(seen):
    """The weights at the end."""
    return [tensor.tolist() for tensor in seen.run.model.state_dict().values()]


def outputs(seen):
    """What is written for some sources, its score, and in how many tokens."""
    predictions = seen.run.predict(["1 2 3 4", "5 5", "90210", "3 1"])
    return [(p.text, round(p.score, 6), len(p.tokens)) for p in predictions]


def continued(seen):
    """How prompts are continued, and in how many tokens."""
    return [(p.text, round(p.score, 6), len(p.tokens)) for p in seen.run.predict(["red", "big Cat", ""])]


def responded(seen):
    """How turns are responded to, and in how many tokens."""
    found = seen.run.predict([["Hello, I need a room."], ["Hi,", "Of course. For which day?", "On Monday."]])
    return [(p.text, round(p.score, 6), len(p.tokens)) for p in found]


def preferring(token, see):
    """What is seen of a model that writes this token wherever it may."""

    def of(seen):
        with torch.no_grad():
            seen.run.model.output.bias[token] = 99.0
        return see(seen)

    return of


soon_ended, soon_responded = preferring(END, continued), preferring(END, responded)
with_unknown = preferring(UNKNOWN, lambda seen: seen.run.predict("Zoe zebra", max_length=2).text)
ids_written = preferring(UNKNOWN, lambda seen: seen.run.predict("1 2 3", max_length=2).ids)


def tokens(made):
    """The vocabulary's size and the tokens of the first training examples."""
    task, _ = made
    batch = batch_of(task, [0, 1, 2, 20])
    return (
        task.input.source_tokenizer.vocab_size,
        task.input.target_tokenizer.vocab_size,
        batch.inputs["source"].tolist(),
    )


def read(made):
    """How two texts are read and written."""
    task, _ = made
    both = task.input.source_tokenizer, task.input.target_tokenizer
    return [tokenizer.normalize("\ufb01ne Cafe\u0301") for tokenizer in both]


def cleaned(made):
    """How a text with accents, a control character and Chinese is read."""
    task, _ = made
    return task.input.source_tokenizer.normalize("Cafe\u0301 a\x00b \u6211\u7231")


def kept_text(made):
    """How a text is read, and the vocabulary."""
    task, _ = made
    return task.input.tokenizer.normalize("\ufb01ne Cafe\u0301"), task.input.tokenizer.tokens


def loss(made):
    """The loss of one batch, and the shapes of the model's parameters."""
    task, model = made
    torch.manual_seed(0)
    shapes = [tuple(p.shape) for p in model.parameters()]
    return round(loss_of(task, model, batch_of(task, [0, 1, 2, 3])), 4), shapes


def trainable(made):
    return [p.requires_grad for p in made[1].parameters()]


def ngram_rows(made):
    return made[0].input.linear.fit.characters, made[0].input.linear.idf.shape


def refused(made):
    """Stands for: the second value is an error, which names the field."""
    raise NotImplementedError


def scored_by(made):
    """The notes of a text's scores."""
    return [one.note for one in output_measures(["a b"], ["a b"], ("bleu",), None, made[0].head.bleu_tokenize)]


def kept(seen):
    """The update whose weights were kept."""
    return seen.run.report["training"]["kept"]


def threads(seen):
    """Processor threads, by the report."""
    return seen.run.report["training"]["threads"]


def scores(seen):
    """The report's scores of the test set."""
    return seen.run.report["scores"]["test"]


def number_of_updates(seen):
    """How many updates there were."""
    return len(seen.of("update"))


def targets(seen):
    """Target tokens of every update."""
    return seen.of("update", "tokens")


def last_rows(seen):
    """Examples that went through the model last."""
    return seen.rows[-1]


def validated(seen):
    """After which updates there was a validation, and whether an average of weights was scored."""
    return seen.of("validation", "step"), seen.of("average", "step")


# --- the table


def scripted(better, worse):
    """Two validations: the first is better by one score, the second by another; loss means less is better."""
    names = {"loss", "exact_match", "token_accuracy", "chrf", "bleu", "accuracy", "entity_f1", "macro_f1", "micro_f1"}
    names |= {"next_accuracy", "rougeL"}
    first, second = ({name: 0.5 for name in names} for _ in range(2))
    for name, scores, other in ((better, first, second), (worse, second, first)):
        scores[name], other[name] = (0.1, 0.9) if name == "loss" else (0.9, 0.1)
    return partial(trained, scores=[first, second])


TWO = {"training.validate_every": 1}  # two updates, and a validation after each
FOUR = {"training.steps": 4}
STEPWISE = FOUR | {"training.validate_every": 1}
CHAR, BPE = {"tokenizer.kind": "char"}, {"tokenizer.kind": "bpe", "tokenizer.vocab_size": 40}
WORD = {"tokenizer.kind": "word", "tokenizer.min_count": 1}
PIECES = PAIRS | {"tokenizer.kind": "wordpiece", "tokenizer.vocab_size": 60}
DESCENT = {"training.optimizer": "sgd"}
STEADY = partial(trained, scores=[{"loss": 1.0, "token_accuracy": 0.5, "exact_match": 0.5}])
TICKING = partial(trained, ticks=0.05)
NGRAMS = {"model.ngrams": 2}
HOPS = {"model.pooling_score": "self_attentive"}
TWO_LABELS = {"data.train": "two.tsv", "data.valid": "two.tsv"}
ENDLESS = {"training.steps": None}
LONGER, EARLY = {"generation.length_penalty": 3.0}, "generation.early_stopping"
BEAM, SHORT = {"generation.beam_size": 4}, {"generation.length_penalty": 0.0}
BOTH, SELECT = (False, True), "evaluation.select_by"
CNN = {"model.characters": "cnn"}


def another_run(**settings):
    return lambda folder: str(trained(PAIRS | {"training.steps": 1} | settings, folder).run.folder)


def taken(name, value):
    """The `tokenizer` section that takes the tokenizer of a run on pairs of words and digits, and one field more."""

    def section(folder):
        (folder / "digits.txt").write_text("12 34 56 12 34 56 " * 9)
        parent = MADE.setdefault("digits", trained(BOOK | {"data.train": "digits.txt", **BYTES}, folder))
        return {"from": str(parent.run.folder), "extend": True, name: value}

    return section


EXTENDED = taken("extend", False), taken("extend", True)
MORE = TEXTS | {"model.word_vectors": "more.txt"}
PRETRAINED = scripted("loss", "next_accuracy")
LONG = {"generation.beam_size": 3, "generation.max_length": 6}
BYTES = {"tokenizer.kind": "bpe", "tokenizer.vocab_size": 20}

# class that defines the field: template, field, two values of it, what is seen, and how it is made
CASES = {
    "TrainingConfig.minutes": (COPY | ENDLESS, "training.minutes", (0.02, 0.05), number_of_updates, TICKING),
    "TrainingConfig.steps": (COPY, "training.steps", (2, 3), number_of_updates),
    "TrainingConfig.epochs": (COPY | ENDLESS, "training.epochs", (1, 2), number_of_updates),
    "TrainingConfig.train_size": (COPY, "training.train_size", (20, 40), updates),
    "TrainingConfig.seed": (COPY, "training.seed", (1, 2), updates),
    "TrainingConfig.threads": (COPY, "training.threads", (1, 2), threads),
    "TrainingConfig.device": (COPY, "training.device", ("cpu", "cuda:99"), refused),
    "TrainingConfig.deterministic": (COPY, "training.deterministic", (False, True), attrgetter("deterministic")),
    "TrainingConfig.precision": (COPY, "training.precision", ("float32", "bf16"), updates),
    "TrainingConfig.batch_tokens": (COPY, "training.batch_tokens", (60, 120), targets),
    "TrainingConfig.accumulate": (COPY, "training.accumulate", (1, 2), targets),
    "TrainingConfig.micro_batches": (COPY, "training.micro_batches", (1, 3), last_rows),
    "TrainingConfig.optimizer": (COPY, "training.optimizer", ("adamw", "sgd"), weights),
    "TrainingConfig.learning_rate": (COPY, "training.learning_rate", (0.02, 0.03), weights),
    "TrainingConfig.betas": (COPY, "training.betas", ((0.9, 0.98), (0.8, 0.98)), weights),
    "TrainingConfig.weight_decay": (COPY, "training.weight_decay", (0.0, 0.5), weights),
    "TrainingConfig.schedule": (COPY, "training.schedule", ("constant", "cosine"), weights),
    "TrainingConfig.warmup": (COPY, "training.warmup", (0, 3), weights),
    "TrainingConfig.layer_decay": (BLOCKS, "training.layer_decay", (None, 0.5), weights),
    "TrainingConfig.freeze": (COPY, "training.freeze", ([], ["source_embedding"]), weights),
    "TrainingConfig.unfreeze_every": (BLOCKS, "training.unfreeze_every", (None, 1), weights),
    "TrainingConfig.clip": (COPY | DESCENT, "training.clip", (None, 0.001), weights),
    "TrainingConfig.label_smoothing": (COPY, "training.label_smoothing", (0.0, 0.3), updates),
    "TrainingConfig.validate_every": (COPY | FOUR, "training.validate_every", (2, 3), validated),
    "TrainingConfig.activation_checkpointing": (BLOCKS, "training.activation_checkpointing", BOTH, attrgetter("calls")),
    "TrainingConfig.save_minutes": (COPY | FOUR, "training.save_minutes", (9.0, 1e-4), attrgetter("steps"), TICKING),
    "TrainingConfig.snapshots": (COPY | FOUR, "training.snapshots", ([], [0.25]), attrgetter("steps")),
    "TrainingConfig.patience": (COPY | STEPWISE, "training.patience", ("auto", 1), number_of_updates, STEADY),
    "TrainingConfig.average": (COPY | TWO, "training.average", (1, 2), validated),
    "ImagesTraining.batch_size": (PICTURES, "training.batch_size", (16, 8), targets),
    "AugmentSection.flip": (PICTURES, "augment.flip", (False, True), updates),
    "AugmentSection.crop": (PICTURES, "augment.crop", (0, 1), updates),
    "TranslationTraining.guided_attention": (PAIRS | WORD, "training.guided_attention", (0.0, 2.0), updates),
    "TranslationTraining.alignment": (PAIRS | WORD, "training.alignment", ({}, {"automatic": True}), updates),
    "TokenizerConfig.from_": (PAIRS, "tokenizer.from", (None, another_run(**CHAR)), tokens, prepared),
    "TokenizerConfig.kind": (PAIRS, "tokenizer.kind", ("word", "char"), tokens, prepared),
    "TokenizerConfig.vocab_size": (PAIRS | BPE, "tokenizer.vocab_size", (40, 50), tokens, prepared),
    "TokenizerConfig.min_count": (PAIRS | WORD, "tokenizer.min_count", (1, 2), tokens, prepared),
    "TokenizerConfig.shared": (PAIRS | WORD, "tokenizer.shared", (False, True), tokens, prepared),
    "TokenizerConfig.lowercase": (PAIRS | WORD, "tokenizer.lowercase", (True, "source"), read, prepared),
    "TokenizerConfig.normalization": (PAIRS | WORD, "tokenizer.normalization", ("nfc", "nfkc"), read, prepared),
    "TokenizerConfig.strip_accents": (PIECES, "tokenizer.strip_accents", BOTH, cleaned, prepared),
    "TokenizerConfig.clean_text": (PIECES, "tokenizer.clean_text", BOTH, cleaned, prepared),
    "TokenizerConfig.chinese_characters": (PIECES, "tokenizer.chinese_characters", BOTH, cleaned, prepared),
    "TextTokenizerConfig.extend": (TEXTS, "tokenizer", EXTENDED, kept_text, prepared),
    "DocumentTokenizer.normalization": (BOOK, "tokenizer.normalization", ("none", "nfkc"), kept_text, prepared),
    "DocumentTokenizer.extend": (BOOK, "tokenizer", EXTENDED, kept_text, prepared),
    "GenerationConfig.beam_size": (COPY, "generation.beam_size", (1, 4), outputs),
    "GenerationConfig.length_penalty": (COPY | BEAM, "generation.length_penalty", (1.0, 0.5), outputs),
    "GenerationConfig.no_repeat_ngram": (COPY, "generation.no_repeat_ngram", (0, 1), outputs),
    "GenerationConfig.min_length": (COPY | BEAM | SHORT, "generation.min_length", (0, 9), outputs),
    "GenerationConfig.max_length": (COPY, "generation.max_length", (5, 3), outputs),
    "TranslationGeneration.unknown": (COPY, "generation.unknown", BOTH, ids_written),
    "TranslationGeneration.renormalize": (COPY, "generation.renormalize", BOTH, outputs),
    "TranslationGeneration.early_stopping": (COPY | BEAM | LONGER, EARLY, ("never", "full"), outputs),
    "GenerationConfig.replace_unknown": (PAIRS | WORD, "generation.replace_unknown", BOTH, with_unknown),
    "ContinuationConfig.beam_size": (BOOK | LONG, "generation.beam_size", (1, 3), continued),
    "ContinuationConfig.length_penalty": (BOOK | LONG, "generation.length_penalty", (1.0, 0.5), continued),
    "ContinuationConfig.min_length": (BOOK, "generation.min_length", (0, 4), soon_ended),
    "ContinuationConfig.max_length": (BOOK, "generation.max_length", (5, 3), continued),
    "ContinuationConfig.first_token": (BOOK, "generation.first_token", (True, False), continued),
    "ResponseConfig.beam_size": (TALKS | {"generation.max_length": 6}, "generation.beam_size", (1, 3), responded),
    "ResponseConfig.length_penalty": (TALKS | LONG, "generation.length_penalty", (1.0, 0.5), responded),
    "ResponseConfig.min_length": (TALKS, "generation.min_length", (0, 4), soon_responded),
    "ResponseConfig.max_length": (TALKS | {"generation.min_length": 2}, "generation.max_length", (5, 2), responded),
    "DialogueModel.name": (TALKS, "model.name", ("hred", "bahdanau"), loss, prepared),
    "DialogueEvaluation.select_by": (
        TALKS | TWO,
        SELECT,
        ("auto", "exact_match"),
        kept,
        scripted("loss", "exact_match"),
    ),
    "WritingEvaluation.bleu_tokenize": (PAIRS, "evaluation.bleu_tokenize", ("auto", "char"), scored_by, prepared),
    "EvaluationConfig.bootstrap": (COPY, "evaluation.bootstrap", (10, 50), scores),
    "TranslationEvaluation.select_by": (COPY | TWO, SELECT, ("auto", "loss"), kept, scripted("exact_match", "loss")),
    "ClassificationEvaluation.select_by": (TEXTS | TWO, SELECT, ("auto", "loss"), kept, scripted("accuracy", "loss")),
    "TaggingEvaluation.select_by": (TAGS | TWO, SELECT, ("auto", "loss"), kept, scripted("entity_f1", "loss")),
    "ImagesEvaluation.select_by": (PICTURES | TWO, SELECT, ("auto", "loss"), kept, scripted("accuracy", "loss")),
    "TableEvaluation.select_by": (ROWS | TWO, SELECT, ("auto", "macro_f1"), kept, scripted("accuracy", "macro_f1")),
    "SeriesEvaluation.select_by": (SERIES, SELECT, ("auto", "accuracy"), refused, prepared),
    "LanguageModelEvaluation.select_by": (BOOK, SELECT, ("auto", "accuracy"), refused, prepared),
    "PretrainingEvaluation.select_by": (STORIES | TWO, SELECT, ("auto", "next_accuracy"), kept, PRETRAINED),
    "LanguageModelEvaluation.stride": (BOOK | {"data.test": "book.txt"}, "evaluation.stride", (None, 2), scores),
    "TaggingEvaluation.words": (TAGS, "evaluation.words", ((), ("Cat",)), scores),
    "ModelSection.name": (PAIRS, "model.name", ("bahdanau", "luong"), loss, prepared),
    "ModelSection.size": (COPY, "model.size", ("tiny", "small"), loss, prepared),
    "ModelSection.from_": (PAIRS, "model.from", (None, another_run()), loss, prepared),
    "TranslationModel.like": (PAIRS, "model.like", (None, "mean"), refused, prepared),
    "TranslationModel.take": (PAIRS, "model.take", ("auto", "encoder"), refused, prepared),
    "TextModelSection.name": (TEXTS, "model.name", ("rnn", "lstmn"), loss, prepared),
    "PretrainingModel.name": (STORIES, "model.name", ("bert", "encoder"), refused, prepared),
    "PretrainingTokenizer.lowercase": (STORIES, "tokenizer.lowercase", (True, False), kept_text, prepared),
    "PretrainingHead.masked_words": (STORIES, "model.masked_words", (True, False), loss, prepared),
    "PretrainingHead.next_sentence": (STORIES, "model.next_sentence", (True, False), loss, prepared),
    "PretrainingHead.pooling": (STORIES, "model.pooling", ("mean", "last"), loss, prepared),
    "PretrainingHead.first_embeddings": (STORIES, "model.first_embeddings", ("neighbours", "drawn"), loss, prepared),
    "PretrainingHead.tied_output": (STORIES, "model.tied_output", (True, False), loss, prepared),
    "LanguageModelSection.name": (BOOK, "model.name", ("attention_lm", "gpt"), loss, prepared),
    "ImagesModelSection.name": (PICTURES, "model.name", ("cnn", "rnn"), refused, prepared),
    "ImagesHead.head": (PICTURES, "model.head", ("softmax", "sigmoid"), refused, prepared),
    "TableModelSection.name": (ROWS, "model.name", ("mlp", "rnn"), refused, prepared),
    "SeriesModelSection.name": (SERIES, "model.name", ("rnn", "mlp"), refused, prepared),
    "TextModelSection.vector_words": (MORE, "model.vector_words", BOTH, kept_text, prepared),
    "TextModelSection.word_vectors": (TEXTS, "model.word_vectors", (None, "vectors.txt"), loss, prepared),
    "TextModelSection.train_embeddings": (TEXTS, "model.train_embeddings", (True, False), trainable, prepared),
    "PooledOptions.pooling": (TEXTS, "model.pooling", ("mean", "max"), loss, prepared),
    "PooledOptions.pooling_score": (TEXTS, "model.pooling_score", ("additive", "dot"), loss, prepared),
    "PooledOptions.d_pooling": (TEXTS, "model.d_pooling", (6, 5), loss, prepared),
    "PooledOptions.pooling_hops": (TEXTS | HOPS, "model.pooling_hops", (2, 3), loss, prepared),
    "PooledOptions.output_bias": (TEXTS, "model.output_bias", (True, False), loss, prepared),
    "ClassificationHead.ngrams": (TEXTS, "model.ngrams", (0, 2), loss, prepared),
    "ClassificationHead.ngram_characters": (TEXTS | NGRAMS, "model.ngram_characters", (0, 4), ngram_rows, prepared),
    "ClassificationHead.head": (TEXTS | TWO_LABELS, "model.head", ("auto", "sigmoid"), loss, prepared),
    "TaggingHead.head": (TAGS, "model.head", ("softmax", "crf"), loss, prepared),
    "TaggingHead.characters": (TAGS, "model.characters", ("none", "cnn"), loss, prepared),
    "TaggingHead.word_dropout": (TAGS, "model.word_dropout", (0.0, 0.5), updates),
    "TaggingHead.d_character": (TAGS | CNN, "model.d_character", (5, 6), loss, prepared),
    "TaggingHead.num_filters": (TAGS | CNN, "model.num_filters", (5, 6), loss, prepared),
    "TaggingHead.word": (TAGS | CHAR, "model.word", ("mean", "first"), loss, prepared),
    "TaggingHead.delay": (TAGS, "model.delay", (0, 1), loss, prepared),
    "SummaryTokenizer.shared": (NOTES, "tokenizer.shared", (True, False), tokens, prepared),
    "SummaryTokenizer.min_count": (NOTES, "tokenizer.min_count", (1, 3), tokens, prepared),
    "SummarisationHead.pointer": (NOTES, "model.pointer", (False, True), loss, prepared),
    "SummaryEvaluation.select_by": (NOTES | TWO, SELECT, ("auto", "loss"), kept, scripted("rougeL", "loss")),
    "SeriesHead.season": (SERIES, "model.season", (None, 2), loss, prepared),
    "SeriesHead.difference": (SERIES, "model.difference", (True, False), loss, prepared),
    "SeriesHead.bidirectional": (SERIES, "model.bidirectional", (False, True), refused, prepared),
}
ELSEWHERE = {
    "TrainingConfig.float32": "changes products on a GPU alone: tests/test_training_steps.py",
    "TrainingConfig.compile": "needs a C++ compiler and a minute: tests/test_training_steps.py",
    "TrainingConfig.log": "needs an optional package: tests/test_curves.py",
}
"""Fields without a case, and why."""


MADE: dict[str, Any] = {}
"""What was made of some settings; many cases begin with the same ones."""


@pytest.mark.parametrize("name", CASES)
def test_changing_a_field_changes_what_is_seen(name, folder, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # a deterministic run sets it, for good
    template, field_name, values, see, *how = CASES[name]
    (make,) = how or [trained]

    def made(value):
        settings = template | {field_name: value(folder) if callable(value) else value}
        key = f"{make} {sorted(settings.items(), key=repr)}"
        if key not in MADE:
            MADE[key] = make(settings, folder)
        return MADE[key]

    first = made(values[0])
    if see is refused:
        with pytest.raises(HeedError, match=rf"{field_name}|'{values[1]}'"):
            made(values[1])
    else:
        assert see(first) != see(made(values[1]))


def fields_of(section):
    """Every field of a section under the class that defines it as the section has it; of training, under the first."""
    for name in section.model_fields:
        homes = [base for base in section.__mro__ if name in vars(base).get("__annotations__", ())]
        home = homes[-1 if issubclass(section, TrainingConfig) else 0]
        if home is SearchConfig:  # each kind of output has its own case
            home = section.__mro__[section.__mro__.index(SearchConfig) - 1]
        yield f"{home.__name__}.{name}"


def test_every_field_has_a_case():
    expected = set()
    for task in task_names():
        config = config_class(task)
        assert issubclass(config, RunConfig)
        for section in ("training", "tokenizer", "generation", "evaluation", "model", "augment"):
            if section in config.model_fields:
                expected |= set(fields_of(config.model_fields[section].annotation))
        expected |= {*fields_of(task_class(task).head_class)}
    assert set(CASES) | set(ELSEWHERE) == expected
