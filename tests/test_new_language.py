"""A translator of several languages, fine-tuned on one that it lacks, whole and trimmed to the files."""

import pytest
import torch
from torch.testing import assert_close

import heed
import marian
from heed.errors import ConfigError
from heed.tasks.base import sizing
from test_checkpoints_bart import LANGUAGES, checkpoint

HINDI = [
    "\u092f\u0939 \u090f\u0915 \u0915\u093f\u0924\u093e\u092c \u0939\u0948",
    "\u0935\u0939 \u0918\u0930 \u0917\u092f\u093e",
    "\u092e\u0941\u091d\u0947 \u092a\u093e\u0928\u0940 \u0926\u094b",
    "\u092f\u0939 \u0918\u0930 \u092c\u0921\u093c\u093e \u0939\u0948",
]
PAIRS = [(f"{english} {n}", f"{HINDI[n % 4]} {n}") for n, english in enumerate(marian.ENGLISH)]


@pytest.fixture(scope="module", params=["nllb", "m2m"])
def parent(request, tmp_path_factory):
    files = tmp_path_factory.mktemp(request.param) / "files"
    checkpoint(files, request.param)
    return request.param, heed.import_model(files, files.parent / "run", quiet=True)


def train(parent, out, like, family, language=None, steps=1):
    first = LANGUAGES[family][0]
    settings = {"data.source_language": first, "data.target_language": language or "hin_Deva", "model.like": like}
    settings |= {"training.threads": 1, "training.learning_rate": 1e-30}
    settings = {name: value for name, value in settings.items() if value is not None}
    return heed.train(
        "translation", train=PAIRS[8:], valid=PAIRS[:4], parent=parent.folder, steps=steps, out=out, settings=settings,
        quiet=True,
    )  # fmt: skip


def rows(run, side="target"):
    tokens = run.task.tokenizers()[side].tokens
    return dict(zip(tokens, run.model.state_dict()[f"{side}_embedding.weight"], strict=True))


@pytest.mark.parametrize("like", ["third", "mean"])
def test_a_new_language_starts_from_those_that_are_there(parent, tmp_path, like):
    family, run = parent
    names = [name if family == "nllb" else f"__{name}__" for name in LANGUAGES[family]]
    child = train(run, tmp_path / "child", LANGUAGES[family][2] if like == "third" else like, family)
    before, after = rows(run), rows(child)
    for token in before.keys() & after.keys():
        assert_close(after[token], before[token])
    new = after["hin_Deva"]
    tags = torch.stack([before[token] for token in run.task.tokenizers()["target"].tags])
    assert_close(new, before[names[2]] if like == "third" else tags.mean(0))
    mean = torch.stack([*before.values()]).mean(0)
    assert_close(after["\u092f"], mean, rtol=1e-4, atol=1e-4)  # a character that no token has
    tokenizer = child.task.tokenizers()["target"]
    assert tokenizer.unknown_in(HINDI[0]) == [] and tokenizer.decode(tokenizer.encode(HINDI[0]).ids) == HINDI[0]
    assert len(tokenizer.encode(HINDI[0]).ids) < len(HINDI[0])  # pieces of it were learned
    assert tokenizer.encode("hin_Deva").ids != [tokenizer.tags["hin_Deva"]]
    for text in marian.ENGLISH[:4]:
        cut = [[t.token(i) for i in t.encode(text).ids] for t in (tokenizer, run.task.tokenizers()["target"])]
        assert cut[0] == cut[1]
    assert [*child.predict("The dog.").ids][:1] == [tokenizer.tags["hin_Deva"]]
    with torch.no_grad():  # an old direction gives what it gave
        old = {"source_language": LANGUAGES[family][0], "target_language": LANGUAGES[family][1]}
        scores = [r.predict(marian.ENGLISH[0], max_length=4, **old).tokens[:1] for r in (run, child)]
    assert scores[0] == scores[1]


def test_a_child_is_exported_and_read_again(parent, tmp_path):
    family, run = parent
    child = train(run, tmp_path / "child", "mean", family)
    if family == "m2m":  # whose languages are a list in the library's code
        with pytest.raises(ConfigError, match="has the languages of M2M-100 or WMT21, not others"):
            heed.export(child, "huggingface", out=tmp_path / "out")
        return
    heed.export(child, "huggingface", out=tmp_path / "out")
    again = heed.import_model(tmp_path / "out", tmp_path / "again", quiet=True)
    assert again.task.tokenizers()["target"].tokens[-1].strip("_") == "hin_Deva"
    assert again.predict("The dog.", target_language="hin_Deva").ids == child.predict("The dog.").ids


def test_a_trimmed_translator_learns_a_new_language(parent, tmp_path):
    family, run = parent
    text = tmp_path / "my.en"
    text.write_text("\n".join(marian.ENGLISH[:2]))
    small = heed.import_model(run.folder.parent / "files", tmp_path / "small", trim=[text], quiet=True)
    assert small.task.tokenizers()["source"].vocab_size < run.task.tokenizers()["source"].vocab_size
    assert small.task.tokenizers()["source"].tags.keys() == run.task.tokenizers()["source"].tags.keys()
    child = train(small, tmp_path / "child", "mean", family)
    assert child.task.tokenizers()["target"].unknown_in(HINDI[1]) == []


@pytest.mark.parametrize("like", ["mean", None])
def test_embeddings_are_frozen_only_without_new_tokens(parent, tmp_path, monkeypatch, like):
    family, run = parent
    monkeypatch.setattr(sizing, "free_memory", lambda: 1)
    child = train(run, tmp_path / "child", like, family, language=None if like else LANGUAGES[family][1])
    assert child.config.training.freeze == (["encoder"] if like else ["embeddings", "encoder"])


def test_languages_are_not_made_by_mistake(parent, tmp_path):
    family, run = parent
    first, second, _ = LANGUAGES[family]
    with pytest.raises(ConfigError, match=r"has no language 'hin_Deva'.*training adds one with --like"):
        train(run, tmp_path / "a", None, family)
    with pytest.raises(ConfigError, match=rf"it has all of {first}, {second}; remove the field"):
        train(run, tmp_path / "b", "mean", family, language=second)
    with pytest.raises(ConfigError, match=r"model\.like: the model has no language 'xyz'; it has "):
        train(run, tmp_path / "c", "xyz", family)
