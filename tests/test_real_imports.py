"""Checkpoints as people have them: each is imported as it was trained, or refused with what to do."""

import json
import re
import shlex
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from checkpoints import changed, refused, with_field
from commands import call
from heed.errors import ConfigError, RunError
from heed.runs.checkpoints import import_checkpoint
from test_checkpoints_bert import FAMILIES, bert, roberta
from test_checkpoints_gpt2 import gpt2
from test_checkpoints_use import theirs as logits_of

transformers = pytest.importorskip("transformers")
CLASSIFIER = "ForSequenceClassification"
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
    ("wrapped", "said"),
    [
        (lambda name: f"module.{name}", "module."),
        (lambda name: f"_orig_mod.{name}", "_orig_mod."),
        (lambda name: f"module._orig_mod.{name}", "module., _orig_mod."),
        (lambda name: f"_orig_mod.module.{name}", "_orig_mod., module."),
        (lambda name: name.replace("bert.", "bert.module._orig_mod."), "module., _orig_mod."),
    ],
)
def test_names_from_wrappers_of_the_model_are_read_and_said(folder, wrapped, said):
    expected = logits_of(folder, TEXTS)
    changed(folder, lambda tensors: {wrapped(name): one for name, one in tensors.items()})
    imported = import_checkpoint(folder, folder.parent / "run")
    line = f"left out of the names of tensors: {said} (of DataParallel or torch.compile)"
    assert line in str(imported).splitlines() and imported.unused == ()
    assert_scores(imported.run, expected)


def test_a_name_without_a_wrapper_says_nothing(folder):
    assert "left out" not in str(import_checkpoint(folder, folder.parent / "run"))


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


def adapter(folder, **fields):
    """The folder of a LoRA adapter of a classifier of three labels."""
    folder.mkdir()
    fields = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "task_type": "SEQ_CLS", **fields}
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    return folder


@pytest.mark.parametrize(
    ("fields", "head", "kind", "labels"),
    [
        ({}, "classifier", "AutoModelForSequenceClassification", 3),
        ({}, "classifier.out_proj", "AutoModelForSequenceClassification", 3),
        ({"task_type": "TOKEN_CLS"}, "classifier", "AutoModelForTokenClassification", 3),
        ({"task_type": "CAUSAL_LM"}, None, "AutoModelForCausalLM", 0),
        ({"task_type": None, "auto_mapping": {"base_model_class": "BertForMaskedLM"}}, None, "BertForMaskedLM", 0),
        ({"task_type": ["x"], "auto_mapping": 5}, None, "AutoModel", 0),
    ],
)
def test_an_adapter_is_named_with_the_lines_that_merge_it(tmp_path, fields, head, kind, labels):
    folder = adapter(tmp_path / "lo ra", **fields)
    tensors = {"base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight": torch.zeros(2, 4)}
    tensors |= {f"base_model.model.{head}.weight": torch.zeros(3, 4)} if head else {}
    save_file(tensors, folder / "adapter_model.safetensors")
    refused(
        RunError,
        folder,
        f"{folder} is a LORA adapter of org/base, not a whole model; merge them: "
        f"python -c 'from peft import PeftModel; from transformers import {kind}, AutoTokenizer; "
        f'base = {kind}.from_pretrained("org/base"{f", num_labels={labels}" if labels else ""}); '
        f'model = PeftModel.from_pretrained(base, "{folder}").merge_and_unload(); '
        'model.save_pretrained("lo ra-merged"); '
        """AutoTokenizer.from_pretrained("org/base").save_pretrained("lo ra-merged")' && heed import 'lo ra-merged'""",
    )


def test_an_adapter_beside_a_whole_model_is_not_dropped(folder):
    """The tokenizer is the adapter's, since it may have tokens of its own."""
    fields = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "task_type": "SEQ_CLS"}
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    refused(RunError, folder, "remove adapter_config.json", f'AutoTokenizer.from_pretrained("{folder}")')


@pytest.mark.parametrize(
    ("state", "place", "said"),
    [
        (None, "checkpoint-1000", "the newest: heed import {}/checkpoint-1000"),
        ({"best_model_checkpoint": None}, "checkpoint-1000", "the newest: heed import {}/checkpoint-1000"),
        (
            {"best_model_checkpoint": "old/checkpoint-7"},
            "checkpoint-1000",
            "the newest: heed import {}/checkpoint-1000",
        ),
        ({"best_model_checkpoint": "out/checkpoint-500"}, "checkpoint-1000", "the best by trainer_state.json: heed "),
        ({"best_model_checkpoint": "/a/b/checkpoint-500"}, ".", "the best by trainer_state.json: heed "),
    ],
)
def test_the_output_folder_of_a_trainer_is_named_with_the_folder_to_import(folder, capsys, state, place, said):
    out = folder.parent / "out"
    for step in (1000, 500):
        shutil.copytree(folder, out / f"checkpoint-{step}")
    (out / "checkpoint-1000-old").mkdir()
    if state is not None:
        (out / place / "trainer_state.json").write_text(json.dumps(state))
    refused(RunError, out, "has checkpoint-500, checkpoint-1000; import ", said.format(out))
    code, _, err = call(capsys, "import", str(out))
    words = err.split("heed import ")[1].split()
    assert code == 2 and words == [str(out / ("checkpoint-500" if "best" in said else "checkpoint-1000"))]
    assert call(capsys, "import", *words, "--out", str(folder.parent / "run"))[0] == 0


def test_a_model_beside_checkpoints_of_its_training_is_imported(folder):
    shutil.copytree(folder, folder / "checkpoint-500")
    assert import_checkpoint(folder, folder.parent / "run").unused == ()


# --- heads without a class


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("kind", [CLASSIFIER, "ForTokenClassification", "ForQuestionAnswering"])
def test_a_head_without_a_class_is_not_dropped(tmp_path, family, kind):
    folder = tmp_path / "theirs"
    model = FAMILIES[family](folder, 1, kind)
    with_field(folder, architectures=None)
    name, body = type(model).__name__, type(model).__name__.replace(kind, "Model")
    heads = [name for name in load_file(folder / "model.safetensors") if not name.startswith(family)]
    with pytest.raises(ConfigError) as caught:
        import_checkpoint(folder, tmp_path / "run")
    said = str(caught.value)
    assert str(folder / "config.json") in said and all(f"'{name}'" in said for name in heads)
    classes = re.findall(r'\["(\w+)"\]', said)
    assert classes[-1] == body and (name in classes) == (kind != "ForQuestionAnswering")
    for number, written in enumerate({body, name} & {*classes}):
        with_field(folder, architectures=[written])
        imported = import_checkpoint(folder, tmp_path / str(number))
        assert imported.architecture == written and bool(imported.unused) == (written == body)


def test_a_head_of_gpt2_without_a_class(tmp_path):
    gpt2(tmp_path / "theirs", 1, "ForQuestionAnswering")
    with_field(tmp_path / "theirs", architectures=None)
    refused(ConfigError, tmp_path / "theirs", "tensors 'qa_outputs.bias', 'qa_outputs.weight' are of; write into it")


@pytest.mark.parametrize("kind", ["ForMaskedLM", "ForPreTraining", "Model"])
def test_a_class_that_the_tensors_tell_need_not_be_named(tmp_path, kind):
    bert(tmp_path / "theirs", 1, kind)
    with_field(tmp_path / "theirs", architectures=None)
    assert import_checkpoint(tmp_path / "theirs", tmp_path / "run").architecture == f"Bert{kind}"


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
    with pytest.raises(RunError) as caught:
        import_checkpoint(folder, folder.parent / "run")
    said, _, command = str(caught.value).partition("or, if its author may run code here: python -c ")
    assert what in said and "nothing was executed; use a checkpoint with model.safetensors" in said
    exec(*shlex.split(command), {})
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
    line = str(caught.value).partition("makes it: ")[2]
    assert line == f"AutoTokenizer.from_pretrained(BASE).save_pretrained('{folder}')"
    exec(f"from transformers import AutoTokenizer; BASE = {str(tmp_path / 'base')!r}; {line}")
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
