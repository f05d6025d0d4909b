"""What `validate` returns, for each task, equals numbers worked out by hand.

The logits come from a model that is known (it copies its source), or from one example at a time through the model
itself; losses and scores are computed here once more, by NumPy, sacrebleu, seqeval and scikit-learn.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import sacrebleu
import torch
from seqeval.metrics import f1_score as entity_f1
from sklearn.metrics import f1_score
from torch import nn
from torch.nn.functional import one_hot

from contract import batch_of, config_of, loss_of, task_and_model, write_lines
from heed.config import TrainingConfig
from heed.data.tokens import END
from heed.evaluation.significance import score_line
from heed.models.base import Memory, PairDecoder
from heed.tasks import task_class
from heed.tasks.base.report import label_body
from heed.training.checkpoint import Progress
from heed.training.plan import Budget
from heed.training.progress import progress_line

# --- translation


@dataclass
class Place:
    """The sources being copied, and how much of them is written."""

    source: torch.Tensor
    written: int

    def select(self, rows):
        return Place(self.source[rows], self.written)


class Copier(PairDecoder):
    """Whatever was written so far, the next token is the source's at this place, with a logit of 2 against 0."""

    def __init__(self, vocab_size):
        super().__init__(None)
        self.output = nn.Linear(vocab_size, vocab_size, bias=False)
        nn.init.eye_(self.output.weight)

    def encode(self, source, source_mask):
        return Memory((), source.masked_fill(~source_mask, END))

    def start(self, memory, rows):
        return Place(memory.summary[rows.source_of], 0)

    def step(self, tokens, state, lengths=None):
        places = range(state.written, state.written + tokens.shape[1])
        ends = torch.full_like(state.source[:, 0], END)
        following = [state.source[:, i] if i < state.source.shape[1] else ends for i in places]
        hidden = 2.0 * one_hot(torch.stack(following, 1), self.output.in_features).float()
        return hidden, Place(state.source, state.written + tokens.shape[1])


PAIRS = [
    ("the Cat", "The cat"),  # equal once both are lower case
    ("a b c d e f g h i j", "a b c d e f g h i j"),  # long
    ("the cat sees a dog", "the cat sees b dog"),
    ("the cat", "the cat sees"),
    ("dog sees", "b"),
]


def test_translation(tmp_path):
    train = write_lines(tmp_path / "train.tsv", *("\t".join(pair) for pair in PAIRS * 2))
    valid = write_lines(tmp_path / "valid.tsv", *("\t".join(pair) for pair in PAIRS))
    tokenizer = {"kind": "word", "min_count": 1, "shared": True, "lowercase": True}
    config = config_of("translation", {"train": train, "valid": valid}, tokenizer=tokenizer)
    task, _ = task_and_model(config)
    size = task.input.target_tokenizer.vocab_size
    assert size == 4 + len({word for pair in PAIRS for text in pair for word in text.lower().split()})
    # Right tokens, each with its end token: 3 of 3, 11 of 11, 5 of 6, 3 of 4 (the end too early, and again), 0 of 2.
    right, tokens = 3 + 11 + 5 + 3 + 0, 3 + 11 + 6 + 4 + 2
    total = math.log(math.exp(2) + size - 1)
    outputs = [source.lower() for source, _ in PAIRS]
    references = [target.lower() for _, target in PAIRS]
    bleu = sacrebleu.corpus_bleu(outputs, [references]).score
    chrf = sacrebleu.corpus_chrf(outputs, [references]).score
    assert abs(bleu - chrf) > 1
    expected = {
        "loss": (right * (total - 2) + (tokens - right) * total) / tokens,
        "token_accuracy": right / tokens,
        "exact_match": 2 / 5,
        "bleu": bleu,
        "chrf": chrf,
    }
    assert task.validate(Copier(size)) == pytest.approx(expected)


# --- labels


LABELLED = [
    "a\tred one",
    "b\tred two three",
    "c\tone",
    "a\tblue two",
    "b\tblue three red one two",
    "c\tthree three",
    "a\ttwo two red",
    "b\tone blue",
]


def logits_one_by_one(task, model, texts):
    """The outputs of a classifier for each text by itself, in float64."""
    ids = [torch.tensor([task.input.tokenizer.encode(text).ids]) for text in texts]
    with torch.no_grad():
        return np.concatenate([model(row, torch.ones_like(row, dtype=torch.bool)).double().numpy() for row in ids])


def classifier(folder, lines, labels=(), **data):
    """A classifier of large random weights, the texts of its validation set and their labels."""
    extra = [f"{label}\tone two" for label in labels]
    files = {
        "train": write_lines(folder / "train.tsv", "label\ttext", *lines, *extra, *lines),
        "valid": write_lines(folder / "valid.tsv", "label\ttext", *lines),
    }
    fields = {"name": "rnn", "d_embedding": 8, "d_hidden": 8, "d_pooling": 8, **data.pop("model", {})}
    tokenizer = {"kind": "word", "min_count": 1}
    config = config_of("classification", {**files, **data}, model=fields, tokenizer=tokenizer)
    task, model = task_and_model(config)
    with torch.no_grad():
        model.output.weight.mul_(30)
    labels, texts = zip(*(line.split("\t") for line in lines), strict=True)
    return task, model, texts, labels


def test_classification(tmp_path):
    # "d" is in the training set only: nobody says it here, and macro F1 is over the labels that occur
    task, model, texts, labels = classifier(tmp_path, LABELLED, ["d"])
    with torch.no_grad():
        model.output.bias[3] = -1e4
    logits = logits_one_by_one(task, model, texts)
    assert list(task.head.labels) == ["a", "b", "c", "d"]
    true, said = ["abcd".index(label) for label in labels], logits.argmax(1)
    chosen = logits[range(len(true)), true]
    macro = f1_score(true, said, average="macro", zero_division=0)
    expected = {
        "loss": np.mean(np.log(np.exp(logits).sum(1)) - chosen),
        "accuracy": np.mean(said == true),
        "macro_f1": macro,
        "micro_f1": np.mean(said == true),
    }
    assert 0 < expected["accuracy"] < 1 and abs(macro - expected["accuracy"]) > 0.01
    assert task.validate(model) == pytest.approx(expected, rel=1e-4)


def test_classification_of_two_labels_by_one_output(tmp_path):
    lines = [line for line in LABELLED if line[0] in "ab"]
    task, model, texts, labels = classifier(tmp_path, lines, model={"head": "sigmoid"})
    logits = logits_one_by_one(task, model, texts)
    assert logits.shape[1] == 1
    second = 1 / (1 + np.exp(-logits[:, 0]))
    true = np.array([label == "b" for label in labels])
    said = second > 0.5
    macro = f1_score(true, said, average="macro", zero_division=0)
    expected = {
        "loss": -np.log(np.where(true, second, 1 - second)).mean(),
        "accuracy": np.mean(said == true),
        "macro_f1": macro,
        "micro_f1": np.mean(said == true),
    }
    assert 0 < expected["accuracy"] < 1
    assert task.validate(model) == pytest.approx(expected, rel=1e-4)


def test_classification_with_several_labels(tmp_path):
    several = ["a,b", "b", "", "a", "a,c", "c", "b,c", "a,b,c"]
    lines = [f"{given}\t{line.split(chr(9))[1]}" for given, line in zip(several, LABELLED, strict=True) if given]
    task, model, texts, labels = classifier(tmp_path, lines, several_labels=True)
    logits = logits_one_by_one(task, model, texts)
    assert list(task.head.labels) == ["a", "b", "c"]
    true = np.array([[name in given.split(",") for name in "abc"] for given in labels])
    said = logits > 0
    whole, single = np.mean((said == true).all(1)), np.mean(said == true)
    assert abs(whole - single) > 0.1  # all labels of a text, and not each of them
    expected = {
        "loss": np.mean(np.log1p(np.exp(np.where(true, -logits, logits))).sum(1)),
        "accuracy": whole,
        "macro_f1": f1_score(true, said, average="macro", zero_division=0),
        "micro_f1": f1_score(true, said, average="micro", zero_division=0),
    }
    assert task.validate(model) == pytest.approx(expected, rel=1e-4)


# --- tags


SENTENCES = [
    ["Ann B-per", "Lee I-per", "met O", "Bob B-per"],
    ["we O", "saw O", "Rome B-loc", "and O", "old O", "Oslo B-loc", "then O"],
    ["Bob B-per"],
    ["New B-loc", "York I-loc", "saw O", "Ann B-per"],
]


def tagger(folder, sentences, **model):
    text = "\n\n".join("\n".join(sentence) for sentence in sentences)
    files = {"train": write_lines(folder / "train.conll", text), "valid": write_lines(folder / "valid.conll", text)}
    fields = {"name": "rnn", "d_embedding": 8, "d_hidden": 8, "characters": "none", **model}
    tokenizer = {"kind": "word", "min_count": 1}
    task, model = task_and_model(config_of("tagging", files, model=fields, tokenizer=tokenizer))
    with torch.no_grad():
        model.head.output.weight.mul_(15)
    logits = []
    for sentence in sentences:
        words = [line.split()[0] for line in sentence]
        ids = torch.tensor([[i for (i,) in task.input.tokenizer.encode_words([words])[0]]])
        mask = torch.ones_like(ids, dtype=torch.bool)
        with torch.no_grad():
            logits.append(model.head.output(model(ids, mask, None, mask, None))[0].double().numpy())
    return task, model, logits, [[line.split()[1] for line in sentence] for sentence in sentences]


@pytest.mark.parametrize("kind", ["entities", "plain"])
def test_tagging(tmp_path, kind):
    sentences = SENTENCES
    if kind == "plain":
        sentences = [[line.replace("B-", "").replace("I-", "") for line in sentence] for sentence in SENTENCES]
    task, model, logits, true = tagger(tmp_path, sentences)
    said = [[task.head.labels[i] for i in rows.argmax(1)] for rows in logits]
    losses = [
        np.log(np.exp(row).sum()) - row[task.head.labels.index(tag)]
        for rows, tags in zip(logits, true, strict=True)
        for row, tag in zip(rows, tags, strict=True)
    ]
    right = [a == b for rows, tags in zip(said, true, strict=True) for a, b in zip(rows, tags, strict=True)]
    expected = {"loss": np.mean(losses), "accuracy": np.mean(right)}
    assert len(losses) == 16 and 0 < expected["accuracy"] < 1  # per word, and not for each of the four sentences
    if kind == "entities":
        expected["entity_f1"] = entity_f1(true, said, zero_division=0)
    assert task.validate(model) == pytest.approx(expected, rel=1e-4)


# --- numbers


def test_table(tmp_path):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(3, 5, (24, 2)), rng.choice(list("abc"), 24)
    lines = [f"{x},{y},{label}" for (x, y), label in zip(rows.tolist(), labels, strict=True)]
    data = {"train": write_lines(tmp_path / "train.csv", "x,y,label", *lines, "0,0,d")}
    data["valid"] = write_lines(tmp_path / "valid.csv", "x,y,label", *lines[:10])
    task, model = task_and_model(config_of("table", data, model={"d_hidden": 6}))
    with torch.no_grad():
        model.output.weight.mul_(10)
        model.output.bias[3] = -1e4  # "d" is in the training set only
    seen = np.concatenate([rows, [[0, 0]]])
    standard = torch.tensor((rows[:10] - seen.mean(0)) / seen.std(0), dtype=torch.float32)
    with torch.no_grad():
        logits = np.concatenate([model(row).double().numpy() for row in standard.split(1)])
    true = ["abcd".index(label) for label in labels[:10]]
    said = logits.argmax(1)
    expected = {
        "loss": np.mean(np.log(np.exp(logits).sum(1)) - logits[range(10), true]),
        "accuracy": np.mean(said == true),
        "macro_f1": f1_score(true, said, average="macro", zero_division=0),
        "micro_f1": np.mean(said == true),
    }
    assert 0 < expected["accuracy"] < 1
    assert task.validate(model) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("difference", [True, False])
def test_series(tmp_path, difference):
    rng = np.random.default_rng(1)
    rows = rng.normal(0, [1, 20], (30, 2)).cumsum(0)
    data = {
        "train": write_lines(tmp_path / "a.csv", "x,y", *(f"{x},{y}" for x, y in rows.tolist())),
        "valid": 5,
        "test": 3,
        "window": 4,
    }
    task, model = task_and_model(config_of("series", data, model={"d_hidden": 6, "difference": difference}))
    with torch.no_grad():
        model.output.weight.mul_(5)
    train = rows[:22]  # the last 3 are the test set, the 5 before them the validation set
    standard = torch.tensor((rows - train.mean(0)) / train.std(0), dtype=torch.float32)
    rows = standard[18:22]  # the window before the validation set; each row that is forecast is read for the next
    with torch.no_grad():
        for _ in range(5):
            rows = torch.cat([rows, model(rows.unsqueeze(0))[0, -1:]])
    error = ((rows[4:] - standard[22:27]).double().numpy() ** 2).mean()
    assert error > 1e-3
    assert task.validate(model) == pytest.approx({"loss": error}, rel=1e-4)


# --- the loss of a training batch under label smoothing: (1 - e) of the truth, and e spread evenly

E = 0.2


def smoothed(log_probs, true):
    """Summed cross-entropy of rows of log-probabilities against smoothed truth."""
    plain, even = -log_probs[range(len(true)), true].sum(), -log_probs.mean(1).sum()
    assert abs(plain - even) > 0.05 * plain
    return float((1 - E) * plain + E * even)


def test_smoothing_of_translation(tmp_path):
    train = write_lines(tmp_path / "train.tsv", *("\t".join(pair) for pair in PAIRS))
    tokenizer = {"kind": "word", "min_count": 1, "shared": True, "lowercase": True}
    data = {"train": train, "valid": train}
    training = {"guided_attention": 0.0}  # few pairs are guided by default
    task, _ = task_and_model(config_of("translation", data, tokenizer=tokenizer, training=training))
    model = Copier(task.input.target_tokenizer.vocab_size)
    batch = batch_of(task, [0, 2, 3])
    hidden = model(**batch.inputs, **batch.forced)
    log_probs = torch.log_softmax(model.output(hidden).double(), -1)[batch.targets["target_mask"]].detach()
    assert loss_of(task, model, batch, E) == pytest.approx(
        smoothed(log_probs, batch.targets["labels"][batch.targets["target_mask"]])
    )


def test_smoothing_of_classification(tmp_path):
    task, model, texts, labels = classifier(tmp_path, LABELLED)
    log_probs = torch.log_softmax(torch.from_numpy(logits_one_by_one(task, model, texts)), -1)
    expected = smoothed(log_probs, ["abc".index(label) for label in labels])
    assert loss_of(task, model, batch_of(task, list(range(len(texts)))), E) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("several", [False, True], ids=["one of two", "several"])
def test_smoothing_of_decisions(tmp_path, several):
    lines = [line for line in LABELLED if line[0] in "ab"]
    data = {"several_labels": True} if several else {"model": {"head": "sigmoid"}}
    task, model, texts, labels = classifier(tmp_path, lines, **data)
    logits = logits_one_by_one(task, model, texts)
    true = np.array([[label == name for name in ("ab" if several else "b")] for label in labels])
    target = (1 - E) * true + E / 2
    expected = (np.log1p(np.exp(logits)) - target * logits).sum()  # -t log p - (1 - t) log (1 - p)
    assert loss_of(task, model, batch_of(task, list(range(len(texts)))), E) == pytest.approx(expected, rel=1e-4)


def test_smoothing_of_tagging(tmp_path):
    task, model, logits, true = tagger(tmp_path, SENTENCES)
    log_probs = torch.log_softmax(torch.from_numpy(np.concatenate(logits)), -1)
    expected = smoothed(log_probs, [task.head.labels.index(tag) for tags in true for tag in tags])
    assert loss_of(task, model, batch_of(task, [0, 1, 2, 3]), E) == pytest.approx(expected, rel=1e-4)


# --- what is said of it


def test_speed_is_in_what_a_task_predicts_and_padding_is_said_where_there_is_any():
    budget = Budget(TrainingConfig(steps=4), None)
    p = Progress(step=2, total_steps=4, tokens=3_000, training_seconds=2.0)
    assert progress_line(p, budget, 0.5, 0.0, "rows") == "update 2/4  loss 0.5000  1,500 rows/s  2 s left"
    p.padding = 0.2
    assert "1,500 tokens/s  padding 10%  " in progress_line(p, budget, 0.5, 0.1, "tokens")
    said = {
        name: task_class(name).head.targets for name in ("classification", "series", "table", "tagging", "translation")
    }
    assert [*said.values()] == ["texts", "numbers", "rows", "words", "tokens"]


def test_micro_f1_is_said_where_it_is_not_the_accuracy():
    assert score_line({"loss": 0.5, "accuracy": 0.75, "micro_f1": 0.75}) == "loss 0.5000, accuracy 0.7500"
    assert "micro_f1 0.8000" in score_line({"loss": 0.5, "accuracy": 0.75, "micro_f1": 0.8})
    labels = {"a": dict.fromkeys(("precision", "recall", "f1"), 0.5) | {"support": 4}}
    one = {"value": 0.5, "low": 0.4, "high": 0.6}
    report = {"accuracy": one, "macro_f1": one, "micro_f1": one, "calibration_error": 0.1, "per_label": labels}
    assert not any("micro" in line for line in label_body(report))
    several = label_body({**report, "micro_f1": {**one, "value": 0.55}})
    assert any(line.split()[:3] == ["micro", "F1", "55.00%"] for line in several)
