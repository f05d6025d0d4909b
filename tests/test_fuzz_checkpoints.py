"""Damage to any file of a Hugging Face checkpoint: `heed import` refuses it in one line, or makes a run that answers.

`make fuzz` makes 500 changes to each folder (`HEED_FUZZ`); here each gets a few, by a fixed seed.
"""

import json
import os
import shutil

import jaxtyping
import pytest
import torch
from hypothesis import given, seed, settings
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoTokenizer

import marian
from fuzzing import FEW, SEED, answer, damages
from test_checkpoints_bert import bert, distilbert, roberta, xlm_roberta
from test_checkpoints_gpt2 import gpt2
from test_checkpoints_vit import vit
from tokenizer_folders import spm_saved

MUTATIONS = int(os.environ.get("HEED_FUZZ", "4"))


def whole_tokenizer(folder):
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def pairs(folder):
    folder.mkdir()
    marian.write_model(folder, marian.write_tokenizers(folder, marian.train_pieces(folder)))


def pieces(folder):
    xlm_roberta(folder, 1, "ForTokenClassification")
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    spm_saved(folder.with_name("saved"), size - 2)
    for path in folder.with_name("saved").iterdir():
        shutil.copy(path, folder)


def as_pickle(folder):
    distilbert(folder, 1, "ForSequenceClassification")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


FOLDERS = {
    "bert": lambda folder: (bert(folder, 1, "ForMaskedLM"), whole_tokenizer(folder)),
    "distilbert": as_pickle,
    "roberta": lambda folder: roberta(folder, 1, "ForSequenceClassification"),
    "xlm-roberta": pieces,
    "gpt2": lambda folder: (gpt2(folder, 1, "LMHeadModel"), whole_tokenizer(folder)),
    "marian": pairs,
    "vit": lambda folder: vit(folder, 1),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_damage_to_a_checkpoint_is_refused_in_one_line_or_does_no_harm(name, tmp_path, monkeypatch):
    whole, folder, run = (tmp_path / one for one in ("whole", "theirs", "run"))
    FOLDERS[name](whole)
    Image.new("RGB", (9, 9)).save(picture := tmp_path / "picture.png")
    jaxtyping.config.update("jaxtyping_disable", True)  # what users see
    problems = []

    @seed(SEED)
    @settings(FEW, max_examples=MUTATIONS)
    @given(damages(whole))
    def damage_and_import(damage):
        for one in (folder, run):
            shutil.rmtree(one, ignore_errors=True)
        shutil.copytree(whole, folder)
        damage.do(folder / damage.file)
        found = answer(["import", str(folder), "--out", str(run)], monkeypatch)
        if found.code == 0 and not found.wrong:
            found = answer(["predict", str(run), str(picture) if name == "vit" else "the man"], monkeypatch)
        if found.wrong:
            problems.append(f"{damage}: {found.wrong}")

    damage_and_import()
    jaxtyping.config.update("jaxtyping_disable", False)
    assert not problems, f"{len(problems)} of {MUTATIONS}:\n\n" + "\n\n".join(problems[:40])
