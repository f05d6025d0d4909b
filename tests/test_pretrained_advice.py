"""With few examples, a command that starts from a checkpoint is printed, and it runs to the end."""

import json
import re
import shlex
import shutil

import numpy as np
import pytest
from PIL import Image

import heed
import marian
from checkpoints import randomise, word_pieces, write_word_pieces

transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")
from test_checkpoints_bart import checkpoint  # noqa: E402

STEPS = ["training.steps=2", "training.threads=1", "evaluation.bootstrap=5", "data.valid=4"]
ENGLISH = ["It was a good film and the man in it is very good.", "This is the worst of all the films that I saw."] * 8
GERMAN = ["Das war ein guter Film, und der Mann darin ist gut.", "Das ist der schlechteste aller Filme."] * 8
BERT = dict(
    hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16, max_position_embeddings=64
)


def bert(folder):
    tokens = word_pieces(120)
    config = transformers.BertConfig(vocab_size=len(tokens), pad_token_id=tokens.index("[PAD]"), **BERT)
    randomise(transformers.BertForPreTraining(config)).save_pretrained(folder)
    write_word_pieces(folder, tokens)


def translator(folder):
    marian.write_model(folder, marian.write_tokenizers(folder, marian.train_pieces(folder)))


def bart(folder):
    folder.rmdir()
    checkpoint(folder, "bart", max_position_embeddings=200)


def vit(folder):
    config = transformers.ViTConfig(
        hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16, image_size=16, patch_size=8,
        id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1},
    )  # fmt: skip
    randomise(transformers.ViTForImageClassification(config)).save_pretrained(folder)


def texts(path, left, right):
    path.write_text("".join(f"{a}\t{b}\n" for a, b in zip(left, right, strict=True)), encoding="utf-8")


def photos(folder):
    for label, value in (("dark", 40), ("light", 200)):
        (folder / label).mkdir(parents=True)
        for n in range(10):
            Image.fromarray(np.full((20, 20, 3), value + n, dtype=np.uint8)).save(folder / label / f"{n}.png")


@pytest.fixture
def files(tmp_path):
    """Few examples of each task."""
    labels = ["good", "bad"] * 8
    texts(tmp_path / "my reviews.tsv", ENGLISH, labels)
    texts(tmp_path / "kritiken.tsv", GERMAN, labels)
    texts(tmp_path / "mails.tsv", ["text", *ENGLISH], ["summary", *ENGLISH[::-1]])
    talks = ({"turns": [a, b, f"{a} {n}"]} for n, (a, b) in enumerate(zip(ENGLISH, ENGLISH[::-1], strict=True)))
    (tmp_path / "talks.jsonl").write_text("".join(f"{json.dumps(talk)}\n" for talk in talks))
    (tmp_path / "two.tsv").write_text(
        "first\tsecond\tlabel\n" + "".join(f"{a}\t{b}\t{c}\n" for a, b, c in zip(ENGLISH, GERMAN, labels, strict=True))
    )
    lines = ("\n".join(f"{word}\t{'B-X' if word == 'man' else 'O'}" for word in text.split()) for text in ENGLISH)
    (tmp_path / "tags.conll").write_text("\n\n".join(lines) + "\n")
    photos(tmp_path / "photos")
    for name, lines in (("my.en", ENGLISH), ("my.de", GERMAN)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    texts(tmp_path / "deu_eng.tsv", ENGLISH, GERMAN)
    return tmp_path


def advised(out):
    """The printed command, and the name of the checkpoint in it; "" and "" if there is none."""
    found = re.search(r"to start from a pretrained one, with more minutes:\n  (heed import (\S+) --out .*)", out)
    return found.groups() if found else ("", "")


@pytest.mark.parametrize(
    ("words", "name", "make"),
    [
        (["classification", "my reviews.tsv"], "google-bert/bert-base-uncased", bert),
        (["classification", "kritiken.tsv"], "google-bert/bert-base-multilingual-cased", bert),
        (["classification", "two.tsv", "data.columns.text=[first,second]"], "google-bert/bert-base-uncased", bert),
        (["tagging", "tags.conll"], "google-bert/bert-base-cased", bert),
        (["images", "photos"], "google/vit-base-patch16-224", vit),
        (["translation", "my.en", "my.de"], "Helsinki-NLP/opus-mt-en-de", translator),
        (["translation", "my.de", "my.en"], "Helsinki-NLP/opus-mt-de-en", translator),
        (["translation", "deu_eng.tsv"], "Helsinki-NLP/opus-mt-en-de", translator),
        (["summarisation", "mails.tsv"], "facebook/bart-base", bart),
        (["dialogue", "talks.jsonl"], "facebook/bart-base", bart),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_the_printed_command_runs_to_the_end(call, files, words, name, make):
    code, out, err = call("check", *words, *STEPS)
    assert code == 0, err
    command, named = advised(out)
    assert named == name
    (files / "checkpoint").mkdir()
    make(files / "checkpoint")
    first, second = (shlex.split(part) for part in command.split(" && "))
    assert second[: 2 + len(words)] == ["heed", "train", *words]
    assert call(*(word if word != name else "checkpoint" for word in first[1:]))[0] == 0
    code, _, err = call(*second[1:], "--out", "child")
    assert code == 0, err
    run = heed.load(files / "child")
    parent = name.rpartition("/")[2]
    assert run.config.model.from_ == str(files / parent) and run.report["training"]["updates"] == 2
    assert len(run.report["parent"]["whole"]) >= 10
    if make is bart:
        known = heed.load(files / parent).task.tokenizers()["source"].tokens
        assert next(iter(run.task.tokenizers().values())).tokens[: len(known)] == known
        assert run.config.training.learning_rate == 5e-4
    elif make is not vit:
        assert run.tokenizer.tokens == heed.load(files / parent).tokenizer.tokens


def test_train_prints_it_before_the_run_folder_and_import_is_left_out_if_it_is_there(call, files):
    code, _, err = call("train", "classification", "my reviews.tsv", *STEPS, "--seed", "3")
    assert code == 0
    command, _ = advised(err)
    assert "heed train classification 'my reviews.tsv'" in command and "training.seed=3" in command
    assert err.index(command) < err.index("run folder ")
    (files / "bert-base-uncased").mkdir()
    out = call("check", "classification", "my reviews.tsv")[1]
    assert "more minutes:\n  heed train classification 'my reviews.tsv' --from bert-base-uncased\n" in out


def test_a_run_below_its_baseline_ends_with_it(call, files):
    code, out, _ = call("train", "dialogue", "talks.jsonl", *STEPS)
    assert code == 0 and "the model is worse than this baseline" in out
    assert advised(out)[0].endswith("heed train dialogue talks.jsonl " + " ".join(STEPS) + " --from bart-base")


@pytest.mark.parametrize(
    "words",
    [
        ["classification", "my reviews.tsv", "model.name=rnn"],
        ["classification", "my reviews.tsv", "model.size=tiny"],
        ["classification", "my reviews.tsv", "tokenizer.kind=char"],
        ["translation", "pairs.tsv"],
        ["translation", "deu_fra.tsv"],
        ["translation", "paraphrases_deu.tsv"],
        ["translation", "data.name=reverse"],
    ],
)
def test_nothing_is_proposed_if_the_user_chose_a_model_or_no_checkpoint_is_known(call, files, words):
    shutil.copy(files / "deu_eng.tsv", files / "pairs.tsv")  # its name tells no language
    shutil.copy(files / "deu_eng.tsv", files / "deu_fra.tsv")
    texts(files / "paraphrases_deu.tsv", ENGLISH, ENGLISH[::-1])
    code, out, err = call("check", *words)
    assert code == 0 and advised(out) == ("", ""), err


def test_nothing_is_proposed_for_many_examples(call, files):
    texts(files / "many.tsv", [f"{text} {n}" for n, text in enumerate(ENGLISH * 700)], ["good", "bad"] * 5_600)
    code, out, _ = call("check", "classification", "many.tsv")
    assert code == 0 and "are few for a model" not in out
