"""Checkpoints as people have them: each is imported as it was trained, or refused with what to do."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from checkpoints import changed, refused, with_field
from commands import call
from heed.errors import RunError
from heed.runs.checkpoints import import_checkpoint
from pages import blocks, page
from test_checkpoints_bert import bert, roberta
from test_checkpoints_gpt2 import gpt2
from test_checkpoints_use import theirs as logits_of

transformers = pytest.importorskip("transformers")
CLASSIFIER = "ForSequenceClassification"
PAGE = page("docs/huggingface.md")
TEXTS = ["the man went to the store", "it was good"]


@pytest.fixture
def folder(tmp_path):
    """A classifier of two labels."""
    bert(tmp_path / "theirs", 1, CLASSIFIER)
    return tmp_path / "theirs"


@pytest.fixture
def pickled(folder):
    """Moves the tensors to pytorch_model.bin, as `change` makes them."""

    def write(change):
        tensors = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        torch.save(change(tensors, folder), folder / "pytorch_model.bin")
        return folder

    return write


def model_of(folder):
    return transformers.BertForSequenceClassification.from_pretrained(folder)


def assert_scores(run, logits):
    """The run's probabilities of the labels are those of the logits."""
    ours = [[one.probabilities[label] for label in run.head.labels] for one in run.predict(TEXTS)]
    torch.testing.assert_close(torch.tensor(ours), logits.softmax(-1), rtol=1e-5, atol=1e-5)


# --- names of tensors


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda name: f"module.{name}",
        lambda name: f"_orig_mod.module.{name}",
        lambda name: name.replace("bert.", "bert.module._orig_mod."),
    ],
)
def test_names_from_wrappers_of_the_model_are_read(folder, wrapped):
    expected = logits_of(folder, TEXTS)
    changed(folder, lambda tensors: {wrapped(name): one for name, one in tensors.items()})
    imported = import_checkpoint(folder, folder.parent / "run")
    assert imported.unused == ()
    assert_scores(imported.run, expected)


def test_two_tensors_of_one_name_are_refused(folder):
    changed(folder, lambda tensors: {**tensors, "module.classifier.bias": torch.zeros(2)})
    refused(RunError, folder, "'module.classifier.bias'", "are two tensors for 'classifier.bias'; remove one")


def test_messages_name_the_tensors_that_the_file_has(folder):
    whole = load_file(folder / "model.safetensors")
    changed(folder, lambda tensors: {f"net.{name}": one for name, one in tensors.items()})
    refused(RunError, folder, "lacks tensors 'bert.embeddings", "it has tensors 'net.bert.embeddings.LayerNorm.bias'")
    name = "module.bert.embeddings.LayerNorm.bias"
    changed(folder, lambda _: {f"module.{key}": one for key, one in whole.items()} | {name: torch.zeros(5)})
    refused(RunError, folder, f"tensor '{name}' has shape (5,)")
    changed(folder, lambda _: {f"module.{key}": one for key, one in whole.items()} | {"module.more": torch.zeros(5)})
    assert import_checkpoint(folder, folder.parent / "run").unused == ("module.more",)


# --- parts of a model


def test_an_adapter_is_refused_also_beside_a_whole_model(folder):
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base"}))
    said = f"{folder} is an adapter of org/base, no whole model: merge them with merge_and_unload()"
    refused(RunError, folder, said, "remove adapter_config.json")


def test_the_output_folder_of_a_trainer_is_named_with_the_folder_to_import(folder, capsys):
    out = folder.parent / "out"
    for step in (1000, 500):
        shutil.copytree(folder, out / f"checkpoint-{step}")
    (out / "checkpoint-1000-old").mkdir()
    refused(RunError, out, "has checkpoint-500, checkpoint-1000; import the newest, or the best by its trainer_state")
    code, _, err = call(capsys, "import", str(out))
    words = err.split("heed import ")[1].split()
    assert code == 2 and words == [str(out / "checkpoint-1000")]
    assert call(capsys, "import", *words, "--out", str(folder.parent / "run"))[0] == 0


def test_a_model_beside_checkpoints_of_its_training_is_imported(folder):
    shutil.copytree(folder, folder / "checkpoint-500")
    assert import_checkpoint(folder, folder.parent / "run").unused == ()


# --- how much of a prompt was read


@pytest.mark.parametrize("begins", [False, True])
def test_the_tokens_that_were_read_are_counted_without_the_start_token(tmp_path, capsys, begins):
    gpt2(tmp_path / "theirs", 1, "LMHeadModel")
    with_field(tmp_path / "theirs", file="tokenizer_config.json", add_bos_token=begins)
    run = import_checkpoint(tmp_path / "theirs", tmp_path / "run").run
    context, word = run.input.context, "a"
    predict = ("predict", str(tmp_path / "run"), "--length", "2")
    count = len(run.tokenizer.encode(word * 200).ids)
    (cut,) = run.candidates([word * 200], length=2)[0]
    assert count > context and cut.unread == count - context
    _, _, err = call(capsys, *predict, word * 200)
    assert f"the prompt of {count} tokens is longer than the context of {context}: only the last {context} were" in err
    fits = next(text for n in range(1, 200) if len(run.tokenizer.encode(text := word * n).ids) == context)
    assert run.candidates([fits], length=2)[0][0].unread == 0
    assert "were read" not in call(capsys, *predict, fits)[2]
    _, _, err = call(capsys, *predict, fits, "--beam", "2")
    assert f"is longer than what a beam can read, {context - 1}: only the last {context - 1} were read" in err


# --- files


@pytest.mark.parametrize("name", ["state_dict", "model_state_dict", "model"])
def test_tensors_among_those_of_a_training_are_read(pickled, name):
    def change(tensors, _):
        return {"epoch": 3, "optimizer": {"state": {}}, name: {f"module.{key}": one for key, one in tensors.items()}}

    folder = pickled(change)
    assert import_checkpoint(folder, folder.parent / "run").unused == ()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda _, folder: model_of(folder.parent / "copy"), "BertForSequenceClassification"),
        (lambda tensors, _: {"state_dict": tensors, "loss": np.float64(3)}, "multiarray.scalar"),
    ],
    ids=["model", "scores"],
)
def test_a_pickle_of_more_than_tensors_is_not_executed_and_its_conversion_works(folder, pickled, change, what):
    shutil.copytree(folder, folder.parent / "copy")
    pickled(change)
    refused(RunError, folder, what, "nothing in it was executed", "docs/huggingface.md converts")
    (recipe,) = (block for block in blocks(PAGE, "python") if block.startswith("import torch\n"))
    exec(recipe.replace("pytorch_model.bin", str(folder / "pytorch_model.bin")), {})
    assert_scores(import_checkpoint(folder, folder.parent / "run").run, logits_of(folder.parent / "copy", TEXTS))


def test_a_dictionary_without_tensors_is_refused(pickled):
    refused(RunError, pickled(lambda tensors, _: {"net": tensors}), "reads a dictionary's state_dict or model_state_")


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_in_shards_is_read(folder, kind):
    model_of(folder).to(kind).save_pretrained(folder.parent / "half", max_shard_size="4KB")
    shutil.copy(folder / "vocab.txt", folder.parent / "half")
    assert len([*(folder.parent / "half").glob("model-*-of-*.safetensors")]) > 1
    imported = import_checkpoint(folder.parent / "half", folder.parent / "run")
    assert imported.unused == ()
    rounded = load_file(folder / "model.safetensors")["classifier.weight"].to(kind).float()
    assert torch.equal(imported.run.model.state_dict()["output.weight"], rounded)


@pytest.mark.parametrize(
    ("make", "gone"), [(bert, ["vocab.txt"]), (roberta, ["merges.txt"]), (roberta, ["vocab.json", "merges.txt"])]
)
def test_a_folder_without_a_tokenizer_says_how_to_get_it(tmp_path, make, gone):
    folder = tmp_path / "theirs"
    make(folder, 1, CLASSIFIER)
    shutil.copytree(folder, tmp_path / "base")
    for name in gone:
        (folder / name).unlink()
    with pytest.raises(RunError, match="has no tokenizer") as caught:
        import_checkpoint(folder, tmp_path / "run")
    line = str(caught.value).partition("trained from: ")[2]
    assert line == f"AutoTokenizer.from_pretrained(FOLDER).save_pretrained('{folder}')"
    exec(f"from transformers import AutoTokenizer; FOLDER = {str(tmp_path / 'base')!r}; {line}")
    assert import_checkpoint(folder, tmp_path / "run").unused == ()


@pytest.mark.parametrize(("make", "slow"), [(bert, {"vocab.txt"}), (roberta, {"vocab.json", "merges.txt"})])
def test_the_files_of_slow_tokenizers_are_read(tmp_path, make, slow):
    make(tmp_path / "theirs", 1, CLASSIFIER)
    (tmp_path / "theirs/tokenizer_config.json").unlink()
    assert slow <= {path.name for path in (tmp_path / "theirs").iterdir()}
    run = import_checkpoint(tmp_path / "theirs", tmp_path / "run").run
    library = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    for text in TEXTS:
        assert run.tokenizer.encode(text).ids == library.encode(text, add_special_tokens=False)
