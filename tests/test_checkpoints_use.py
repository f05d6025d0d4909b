"""Imported runs in use: without the network, from the Hub's cache, predicted, scored, trained on and exported again."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import heed
import marian
from checkpoints import randomise, word_pieces, write_word_pieces
from example_data import section
from heed.cli import main
from heed.data.examples import Pair
from heed.errors import ConfigError, HeedError, RunError
from heed.folder import unsealed
from heed.tasks import check_config, task_class
from heed.tasks.base import sizing

transformers = pytest.importorskip("transformers")
CLOSE = dict(rtol=1e-5, atol=1e-5)
LABELS = ("bad", "fair", "good")
ROWS = [("the film was very good", "good"), ("bad film!", "bad"), ("it was not bad", "fair"), ("one two", "fair")] * 3
TEXTS = ["The man went to the store, and bought MILK.", "it's a very bad film!", "caf\u00e9 xyzzy", "one\ntwo"]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Small BERTs with heads, as `transformers` saves them."""
    folder = tmp_path_factory.mktemp("checkpoints")
    tokens = word_pieces(120)
    made = {}
    for name, labels in (
        ("SequenceClassification", LABELS),
        ("TokenClassification", ("O", "B-PER", "I-PER")),
        ("PreTraining", ()),
    ):
        named = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
        config = transformers.BertConfig(
            vocab_size=len(tokens), hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=24,
            max_position_embeddings=40, pad_token_id=tokens.index("[PAD]"), **(named if labels else {}),
        )  # fmt: skip
        made[name] = folder / name
        randomise(getattr(transformers, f"BertFor{name}")(config)).save_pretrained(made[name])
        write_word_pieces(made[name], tokens)
    return made


@pytest.fixture
def classifier(checkpoints, tmp_path):
    return heed.import_model(checkpoints["SequenceClassification"], tmp_path / "classifier", quiet=True)


def theirs(folder, texts):
    """What transformers makes of texts."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**tokenizer(texts, padding=True, return_tensors="pt")).logits


def test_a_field_of_the_model_cannot_be_set_in_an_import(checkpoints, tmp_path):
    said = r"model\.d_model is determined by the checkpoint; an import takes only fields of data"
    with pytest.raises(ConfigError, match=said):
        heed.import_model(checkpoints["SequenceClassification"], tmp_path / "run", settings={"model.d_model": 8})


def test_words_have_the_tags_of_their_first_piece(checkpoints, tmp_path):
    run = heed.import_model(checkpoints["TokenClassification"], tmp_path / "run", quiet=True)
    words = ["The", "men", "bought", "xyzzy", ",", "milking"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoints["TokenClassification"])
    model = transformers.AutoModelForTokenClassification.from_pretrained(checkpoints["TokenClassification"]).eval()
    batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        (probabilities,) = model(**batch).logits.softmax(-1)
    of_words = batch.word_ids(0)
    (prediction,) = run.predict([words])
    for n, tag in enumerate(prediction.tags):
        first = of_words.index(n)
        assert tag == ("O", "B-PER", "I-PER")[int(probabilities[first].argmax())]
        torch.testing.assert_close(torch.tensor(prediction.probabilities[n]), probabilities[first].max(), **CLOSE)


ALONE = """
import socket, sys
for name in ("transformers", "huggingface_hub", "sentencepiece"):
    sys.modules[name] = None
def blocked(*args, **kwargs):
    raise AssertionError("the network was asked for")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = blocked
import heed
run = heed.import_model(sys.argv[1], sys.argv[2])
print(run.predict("the film was good").label)
print(heed.export(run, "huggingface", out=sys.argv[3]))
"""


def test_neither_network_nor_transformers_is_needed(checkpoints, tmp_path):
    places = [str(checkpoints["SequenceClassification"]), str(tmp_path / "run"), str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", ALONE, *places], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "found folder" in done.stdout and "BertForSequenceClassification" in done.stdout
    assert (tmp_path / "out" / "tokenizer.json").is_file()


# --- names


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the Hub, and no network."""

    def blocked(*args, **kwargs):
        raise OSError("no network in tests")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(socket.socket, "connect", blocked)
    monkeypatch.setattr(socket, "getaddrinfo", blocked)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def test_a_name_is_found_in_the_cache(checkpoints, cache, capsys):
    folder = cache / "models--some-one--tiny.bert"
    shutil.copytree(checkpoints["PreTraining"], folder / "snapshots" / "abc123")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc123")
    run = heed.import_model("some-one/tiny.bert")
    assert "found some-one/tiny.bert in the cache of the Hugging Face Hub" in capsys.readouterr().out
    assert run.folder.name == "tiny.bert-bert-1" and run.config.data.imported == "some-one/tiny.bert"
    assert "was imported from some-one/tiny.bert and has no data" in run.config.data.not_kept


def test_a_name_that_is_nowhere_says_where_it_was_looked_for(cache, monkeypatch):
    def unreachable(name):  # the library itself tries for some seconds where there is no network
        raise ConnectionError("no route to the host")

    monkeypatch.setattr("huggingface_hub.list_repo_files", unreachable)
    with pytest.raises(RunError, match="no folder 'no/such', it is not in the cache") as caught:
        heed.import_model("no/such")
    assert str(cache) in str(caught.value) and "could not be downloaded" in str(caught.value)
    with pytest.raises(RunError, match=r"no folder '\./no/such/place'"):
        heed.import_model("./no/such/place")
    Path("file").write_text("x")
    with pytest.raises(RunError, match="file is a file; a checkpoint is a folder"):
        heed.import_model("file")


def test_downloading_without_the_library_names_the_extra(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"pip install -e '.\[hf\]'"):
        heed.import_model("no/such")


# --- an imported run is a run


def command(words):
    """The exit status of a command."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code or 0


def test_commands_work_on_an_imported_run(checkpoints, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("some.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS))
    assert command(["import", str(checkpoints["SequenceClassification"]), "--out", "run"]) == 0
    out = capsys.readouterr().out
    assert "all tensors were used, and none is missing" in out and "next: heed look run TEXT" in out
    assert command(["predict", "run", "it was good"]) == 0
    assert capsys.readouterr().out.split()[0] in LABELS
    assert command(["evaluate", "run", "some.tsv"]) == 0
    assert "some.tsv: 12 texts" in capsys.readouterr().out
    assert command(["look", "run", "it was good", "--layer", "0", "--head", "1"]) == 0
    assert "encoder attention, layer 0" in capsys.readouterr().out
    assert command(["check", "run"]) == 0
    assert "huggingface.json" in capsys.readouterr().out
    assert command(["evaluate", "run"]) == 2
    assert "was imported from SequenceClassification and has no data; to score it" in capsys.readouterr().err
    assert command(["look", "run"]) == 2
    assert "it has no training curves; give a text" in capsys.readouterr().err
    assert command(["import", str(checkpoints["SequenceClassification"]), "--out", "run"]) == 2
    assert "'run' already exists, and runs are never overwritten" in capsys.readouterr().err


def test_imported_runs_are_compared_on_a_file(checkpoints, classifier, tmp_path, capsys):
    heed.import_model(checkpoints["SequenceClassification"], tmp_path / "same", quiet=True)
    file = tmp_path / "some.tsv"
    file.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS))
    runs = [str(classifier.folder), str(tmp_path / "same")]
    assert command(["compare", *runs, "--test", str(file), "--resamples", "10"]) == 0
    assert "some.tsv" in capsys.readouterr().out
    made = heed.compare(runs, test=file, resamples=10)
    assert made.outcomes[0][0].outputs == made.outcomes[1][0].outputs and len(made.examples) == len(ROWS)
    assert command(["compare", *runs]) == 2
    assert "and the other runs were imported and have no data; give a test" in capsys.readouterr().err


def test_a_child_keeps_the_files_while_the_tokens_are_the_same(checkpoints, tmp_path):
    parent = heed.import_model(checkpoints["PreTraining"], tmp_path / "parent", quiet=True)
    settings = {"tokenizer.from": str(parent.folder), "training.threads": 1, "training.learning_rate": 0.01}
    run = heed.train(
        "classification", train=ROWS, valid=ROWS, test=ROWS, parent=parent.folder, steps=3, out=tmp_path / "child",
        settings=settings, quiet=True,
    )  # fmt: skip
    assert run.config.model.name == "bert" and run.tokenizer.tokens == parent.tokenizer.tokens
    written = heed.export(run, "huggingface", out=tmp_path / "out")
    assert written.numbered_as == "PreTraining"
    assert (tmp_path / "out/vocab.txt").read_text() == (checkpoints["PreTraining"] / "vocab.txt").read_text()
    logits = theirs(tmp_path / "out", TEXTS)
    for prediction, row in zip(run.predict(TEXTS), logits.softmax(-1), strict=True):
        own = torch.tensor([prediction.probabilities[label] for label in LABELS])
        torch.testing.assert_close(own, row, **CLOSE)


# --- runs that were trained here


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda record: record.update(format=1), "is damaged: format is 1: input should be 3"),
        (
            lambda record: record["vocabularies"]["tokens"]["files"].pop("state"),
            "is damaged: it lacks the state of a tokenizer",
        ),
    ],
    ids=["format", "state"],
)
def test_a_record_that_cannot_be_read_is_refused_by_exports_only(checkpoints, tmp_path, spoil, said):
    parent = heed.import_model(checkpoints["PreTraining"], tmp_path / "parent", quiet=True)
    path = parent.folder / "huggingface.json"
    record = json.loads(path.read_text())
    spoil(record)
    with unsealed(parent.folder, final=True):
        path.write_text(json.dumps(record))
    settings = {"tokenizer.from": str(parent.folder), "training.threads": 1}
    run = heed.train(
        "classification", train=ROWS, valid=ROWS, test=ROWS, parent=parent.folder, steps=1, out=tmp_path / "child",
        settings=settings, quiet=True,
    )  # fmt: skip
    assert json.loads((run.folder / "huggingface.json").read_text()) == record
    way_out = ".*; or import the checkpoint again: heed import PreTraining --out FOLDER"
    with pytest.raises(RunError, match=rf"child/huggingface\.json {said}{way_out}"):
        heed.export(run, "huggingface", out=tmp_path / "out")


def train(out, **settings):
    base = {
        "tokenizer.kind": "wordpiece", "tokenizer.vocab_size": 90, "tokenizer.lowercase": True, "model.d_model": 16,
        "model.num_heads": 2, "model.num_layers": 1, "model.d_ff": 16, "training.threads": 1,
    }  # fmt: skip
    given = {**base, "model.name": "bert", **settings}
    given = {name: value for name, value in given.items() if value is not None}
    return heed.train("classification", train=ROWS, valid=ROWS, test=ROWS, steps=2, out=out, settings=given, quiet=True)


def test_a_classifier_trained_here_is_read_by_transformers(tmp_path):
    run = train(tmp_path / "run", **{"model.pooling": "last"})
    written = heed.export(tmp_path / "run", "huggingface", out=tmp_path / "out")
    assert written.architecture == "BertForSequenceClassification" and not written.numbered_as
    assert "tokens in this run's order" in str(written)
    logits = theirs(tmp_path / "out", TEXTS)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "out")
    assert [config.id2label[i] for i in range(3)] == list(LABELS)
    for prediction, row in zip(run.predict(TEXTS), logits.softmax(-1), strict=True):
        own = torch.tensor([prediction.probabilities[label] for label in LABELS])
        torch.testing.assert_close(own, row, **CLOSE)


@pytest.mark.parametrize(("pooling", "architecture"), [("mean", "BertForMaskedLM"), ("last", "BertForPreTraining")])
def test_a_model_pretrained_here_is_read_by_transformers(tmp_path, pooling, architecture):
    settings = {
        **{"model.d_model": 16, "model.num_heads": 2, "model.d_ff": 32, "model.pooling": pooling},
        **{"data.format": "lines", "training.threads": 1, "training.device": "cpu"},
    }
    files = section("stories", 40, 8, 8)
    run = heed.train("pretraining", **files, steps=3, size="tiny", settings=settings, out=tmp_path / "run", quiet=True)
    written = heed.export(run, "huggingface", out=tmp_path / "out")
    assert written.architecture == architecture
    # What their class has no place for is left out, and said.
    assert any("head for pairs is left out" in note for note in written.notes) is (pooling == "mean")
    text, second = "the man went to the store .", "he bought milk ."
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = getattr(transformers, architecture).from_pretrained(tmp_path / "out").eval()
    given = tokenizer(text, second, return_tensors="pt")
    with torch.no_grad():
        theirs = model(**given)
        hidden = run.model(given["input_ids"], given["attention_mask"].bool())
        words = run.model.words(hidden)
    scores = theirs.logits if pooling == "mean" else theirs.prediction_logits
    torch.testing.assert_close(scores, words, atol=1e-5, rtol=1e-4)
    if pooling == "last":
        follows = theirs.seq_relationship_logits.softmax(-1)[0, 0].item()
        assert run.follows([(text, second)])[0].probability == pytest.approx(follows, abs=1e-5)
    again = heed.import_model(tmp_path / "out", out=tmp_path / "again")
    assert str(again.predict("he bought [MASK] .")) == str(run.predict("he bought [MASK] ."))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.pooling": "mean"}, "model.pooling is mean: Hugging Face checkpoints of this task support only last"),
        ({"model.pooling": "last", "model.pooler": "none"}, "bert cannot express model.pooler=none"),
        ({"model.pooling": "last", "model.num_segments": 0}, "bert cannot express model.num_segments=0"),
        ({"model.pooling": "last", "model.ngrams": 1}, "model.ngrams is 1"),
        (
            {"model.name": "encoder", "tokenizer.kind": "word", "tokenizer.vocab_size": None, "model.pooling": "last"},
            "model 'encoder' cannot be exported to huggingface; these can: bert",
        ),
    ],
)
def test_what_no_family_expresses_is_refused_by_field(tmp_path, settings, message):
    run = train(tmp_path / "run", **settings)
    with pytest.raises(ConfigError, match=message):
        heed.export(run, "huggingface", out=tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "run/export").exists()


def test_exports_refuse_what_does_not_belong_together(classifier, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    for call, message in (
        (lambda: heed.export(classifier, "huggingface", out=tmp_path / "full"), "is never overwritten"),
        (lambda: heed.export(classifier, "huggingface", "int8"), "checkpoints are written in float32"),
        (lambda: heed.export(classifier, "hugging"), "cannot export to 'hugging'; did you mean 'huggingface'"),
        (lambda: heed.export(classifier, "ctranslate2", out=tmp_path / "x"), "--out applies only to --to huggingface"),
    ):
        with pytest.raises(HeedError, match=message):
            call()


def test_an_export_that_is_not_the_run_is_not_kept(classifier, tmp_path, monkeypatch):
    from heed.runs import checkpoints as exported

    def spoiled(table, ours):
        tensors = whole(table, ours)
        return {**tensors, "classifier.bias": tensors["classifier.bias"] + 1}

    whole = exported.store
    monkeypatch.setattr(exported, "store", spoiled)
    with pytest.raises(RunError, match=r"tensor 'output\.bias' differs; the export was discarded"):
        heed.export(classifier, "huggingface", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_export_lies_in_the_run_by_default(classifier):
    heed.export(classifier, "huggingface")
    assert heed.check_run(classifier.folder).whole
    values = json.loads((classifier.folder / "export/huggingface/config.json").read_text())
    assert values["id2label"] == {str(i): label for i, label in enumerate(LABELS)}


# --- translators are fine-tuned


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A small Marian, imported."""
    pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("marian")
    (folder / "files").mkdir()
    marian.write_model(
        folder / "files", marian.write_tokenizers(folder / "files", marian.train_pieces(folder / "files"))
    )
    return heed.import_model(folder / "files", folder / "run", quiet=True)


def settled(parent, **training):
    """The work of a run that starts from a translator."""
    both = zip(marian.ENGLISH, marian.GERMAN, strict=True)
    pairs = [Pair(f"{a} {n}", f"{b} {n}") for n, (a, b) in enumerate(both)]
    model = {"from": str(parent.folder)}
    values = {"task": "translation", "data": {"memory": {}, "valid": 8}, "model": model, "training": training}
    return task_class("translation").prepare(check_config(values, "the test"), {"train": pairs[8:], "valid": pairs[:8]})


def test_a_translator_is_fine_tuned_with_its_tokenizers_at_a_small_rate(translator, tmp_path):
    work = settled(translator, minutes=1.0)
    assert work.config.training.learning_rate == 5e-4 and work.config.training.patience == 3
    assert [t.tokens for t in work.tokenizers().values()] == [t.tokens for t in translator.task.tokenizers().values()]
    assert work.config.model.settings["dropout"] == translator.config.model.settings["dropout"]
    assert work.config.training.freeze == []
    assert work.config.reasons["tokenizer.from_"] == work.config.reasons["training.learning_rate"] == "fine-tuning"
    model = work.build_model()
    taken = work.parent.copy_into(model, work)
    assert not taken.new and not taken.left
    for name, tensor in translator.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name


def test_a_child_of_a_fine_tuned_translator_is_fine_tuned_too(translator, tmp_path):
    pairs = [*zip(marian.ENGLISH, marian.GERMAN, strict=True)]
    child = heed.train(
        "translation", train=pairs, valid=pairs[:4], parent=translator.folder, steps=1, out=tmp_path / "child",
        quiet=True,
    )  # fmt: skip
    assert settled(child, steps=1).config.training.learning_rate == 5e-4


@pytest.mark.parametrize(
    ("gibibytes", "seconds", "parts", "why"),
    [
        (2e-4, 0.0, ["embeddings"], "training all 11,576 parameters takes "),
        (1e-4, 0.0, ["embeddings", "encoder"], "training all 11,576 parameters takes "),
        (1.0, 0.25, ["embeddings"], "about 192 updates of all parts fit into the budget"),
        (1.0, 9.0, ["embeddings", "encoder"], "about 5 updates of all parts fit into the budget"),
    ],
)
def test_parts_of_a_translator_are_frozen_where_memory_or_minutes_are_short(
    translator, monkeypatch, gibibytes, seconds, parts, why
):
    monkeypatch.setattr(sizing, "free_memory", lambda: round(gibibytes * 2**30))
    monkeypatch.setattr(sizing, "seconds_of", lambda task, budget: (0.0, seconds))
    work = settled(translator, minutes=1.0)
    assert work.config.training.freeze == parts
    assert work.config.reasons["training.freeze"].startswith(why)
    assert settled(translator, minutes=1.0, freeze=["decoder"]).config.training.freeze == ["decoder"]
