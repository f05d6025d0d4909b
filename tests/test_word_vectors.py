"""Given word vectors: every format, every mistake, what they cover, and runs that begin with them."""

import gzip
import json
import lzma
import random

import numpy as np
import pytest
import torch

import heed
from contract import config_of
from heed.data.tokens import UNKNOWN
from heed.data.word_vectors import read_word_vectors, vector_width
from heed.errors import ConfigError, DataError
from heed.models.base import TokenEncoder
from heed.registry import list_models
from heed.tasks import check_config, task_class
from heed.tasks.base.vocabulary import embedding_of

GLOVE = "the 1 2 3\nfilm 4 5 6\nGreat 7 8 9\ngreat -1 -2 -3\n. . 0.5 0.25 0.125\n"
FILLER = "the of film it was we".split()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", GLOVE),
        ("word2vec.txt", "5 3\n" + GLOVE),
        ("fasttext.vec", "5 3\n" + GLOVE.replace("\n", " \n")),
        ("tabs.tsv", GLOVE.replace("the 1 2 3", "the\t1\t2\t3")),
        ("windows.txt", GLOVE.replace("\n", "\r\n")),
        ("packed.txt.gz", GLOVE),
        ("packed.vec.xz", "5 3\n" + GLOVE),
    ],
)
def test_every_format_gives_the_same_vectors(tmp_path, name, content):
    path = tmp_path / name
    data = content.encode()
    path.write_bytes({"gz": gzip.compress, "xz": lzma.compress}.get(name.split(".")[-1], bytes)(data))
    assert vector_width(path) == 3
    found = read_word_vectors(path, ["", "film", "great", "GREAT", "absent", "The", ". .", "film"], 3)
    assert found.read == 5
    assert found.places.tolist() == [1, 2, 3, 5, 6, 7]
    assert found.exact.tolist() == [True, True, False, False, True, True]
    expected = [[4, 5, 6], [-1, -2, -3], [-1, -2, -3], [1, 2, 3], [0.5, 0.25, 0.125], [4, 5, 6]]
    np.testing.assert_array_equal(found.vectors, np.array(expected, dtype=np.float32))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_word_itself_counts_before_its_lower_case_and_the_first_of_equal_ones(tmp_path, order):
    lines = ["Rome 1 1\n", "rome 2 2\n", "Rome 3 3\n"]
    (tmp_path / "v.txt").write_text("".join(lines[i] for i in order))
    found = read_word_vectors(tmp_path / "v.txt", ["Rome", "ROME"], 2)
    first = next(i for i in order if i != 1) + 1
    assert found.vectors.tolist() == [[first, first], [2, 2]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("the 1 2\nfilm 1\n", r"v.txt' line 2 has 1 number after its word \('film 1'\), expected 2 numbers"),
        ("the 1 2\nfilm 1 2 3\n", r"v.txt' line 2 has 3 numbers after its word .*expected 2 numbers"),
        ("2 2\nthe 1 2\nfilm 1 x\n", r"v.txt' line 3: 'x' is not a number"),
        ("the 1 2\nfilm 1 nan\n", r"v.txt' line 2 contains a number that is not finite"),
        ("the\n", r"v.txt' line 1 has 0 numbers after its word .*expected numbers"),
        ("2 2\n", r"v.txt' contains no vectors"),
        ("", r"v.txt' is empty"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path, content, message):
    (tmp_path / "v.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        read_word_vectors(tmp_path / "v.txt", ["the", "film"], vector_width(tmp_path / "v.txt"))


# --- runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    rng = random.Random(1)
    words = ["Great", "awful"]
    for name, count in (("train", 60), ("valid", 12)):
        texts = []
        for n in range(count):
            word = rng.choice(words)
            texts.append((word, " ".join([*rng.choices(FILLER, k=4), *["rare"] * (n == 3), word])))
        (folder / f"{name}.txt").write_text("".join(f"{label} {text}\n" for label, text in texts))
        rows = [[(word, "B-x" if word[0] in "Ga" else "O") for word in text.split()] for _, text in texts]
        (folder / f"{name}.conll").write_text("\n".join("".join(f"{w} {t}\n" for w, t in row) for row in rows))
    numbers = np.random.default_rng(2).normal(0, 0.4, (6, 8)).round(3)
    names = ["the", "film", "great", "awful", "was", "unseen"]
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(names, numbers, strict=True)]
    (folder / "vectors.txt").write_text("".join(lines))
    return folder


def prepared(folder, task="classification", tokenizer=None, **model):
    ending = "txt" if task == "classification" else "conll"
    data = {name: str(folder / f"{name}.{ending}") for name in ("train", "valid")}
    model = {"word_vectors": str(folder / "vectors.txt"), "size": "tiny", **model}
    return task_class(task).prepare(config_of(task, data, model=model, tokenizer=tokenizer or {}))


TEXT_MODELS = [(name, body) for name, body in list_models() if body.interface == "encoder"]


@pytest.mark.parametrize(
    ("task", "name"),
    [
        *(("classification", name) for name, _ in TEXT_MODELS),
        *(("tagging", name) for name, body in TEXT_MODELS if issubclass(body, TokenEncoder)),
    ],
)
def test_every_model_begins_with_the_vectors(folder, task, name):
    widths = {"d_model": 8, "num_heads": 2} if name in ("encoder", "bert", "gpt") else {}
    task = prepared(folder, task, name=name, **widths)
    model = task.build_model()
    coverage = task.start(model)["word_vectors"]
    weight = embedding_of(model.body).weight.detach()
    assert weight.shape[1] == 8  # the vectors', unless told otherwise
    lines = dict(line.split(" ", 1) for line in (folder / "vectors.txt").read_text().splitlines())
    for word in ("film", "Great"):
        (ids,) = task.input.tokenizer.encode_words([[word]])
        given = torch.tensor([float(x) for x in lines[word.lower()].split()])
        torch.testing.assert_close(weight[ids[0][0]] * model.body.embedding_scale, given)
    assert (coverage.words, coverage.exact, coverage.lowered) == (8, 4, 1)
    others = weight[[i for i in range(4, len(weight)) if task.input.tokenizer.label(i) in ("of", "it", "we")]]
    assert 0.3 < float(others.std() / weight[2:].std()) < 3


def test_what_is_covered_is_counted_in_words_and_in_running_text(folder):
    task = prepared(folder)
    text = (folder / "train.txt").read_text().split("\n")
    tokens = [word for line in text for word in line.split()[1:]]
    coverage = task.start(task.build_model())["word_vectors"]
    assert coverage.tokens == len(tokens)
    assert coverage.tokens_exact == sum(word in ("the", "film", "awful", "was") for word in tokens)
    assert coverage.tokens_lowered == tokens.count("Great")
    assert set(coverage.missing) == {"of", "it", "we"} and "rare" not in coverage.missing  # outside the vocabulary
    shown = task.overview()
    assert "vectors.txt: 5 of 8 words, 62.5% (12.5% lower-cased); of the training text" in shown


def test_vectors_that_do_not_fit_are_refused(folder):
    with pytest.raises(ConfigError, match=r"vectors.txt' have 8 numbers, but model.d_embedding is 5; set .*=8"):
        task = prepared(folder, d_embedding=5)
        task.start(task.build_model())
    with pytest.raises(ConfigError, match=r"vectors.txt' have 8 numbers, but model.d_model is 64; set model.d_model=8"):
        task = prepared(folder, name="encoder")
        task.start(task.build_model())
    with pytest.raises(ConfigError, match=r"model.word_vectors needs tokenizer.kind=word, but tokenizer.kind is bpe"):
        prepared(folder, tokenizer={"kind": "bpe", "vocab_size": 50})
    with pytest.raises(DataError, match=r"no file .nowhere\.txt"):
        prepared(folder, word_vectors="nowhere.txt")


def test_a_run_keeps_its_vectors_and_needs_the_file_no_more(folder, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_bytes((folder / "vectors.txt").read_bytes())
    settings = {"model.word_vectors": str(vectors), "model.train_embeddings": False, "model.size": "tiny"}
    settings |= {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 10}
    given = {"train": folder / "train.txt", "valid": folder / "valid.txt", "out": tmp_path / "run", "quiet": True}
    run = heed.train("classification", **given, steps=2, settings=settings)
    first = embedding_of(run.model.body).weight
    drawn = prepared(folder)
    model = drawn.build_model()
    drawn.start(model)
    film = drawn.tokenizers()["tokens"].encode("film").ids[0]
    assert torch.equal(first[film], embedding_of(model.body).weight[film])  # two updates left it as given
    report = json.loads((tmp_path / "run" / "report.json").read_text())["word_vectors"]
    assert report["exact"] == 4 and report["path"] == str(vectors)
    vectors.unlink()
    (tmp_path / "run" / "model.safetensors").unlink()
    from heed.runs.train import train_config
    from heed.training.progress import Quiet

    config = check_config({**run.config.model_dump(mode="json", by_alias=True)}, "test")
    longer = config.model_copy(update={"training": config.training.model_copy(update={"steps": 4})})
    again, result = train_config(longer, tmp_path / "run", Quiet(), resume=True)
    assert result.progress.step == 4 and again.report["word_vectors"] == report
    assert torch.equal(embedding_of(heed.load(tmp_path / "run").model.body).weight, first)


def test_all_words_of_the_file_may_belong_to_the_vocabulary(tmp_path):
    """Else a word that training never saw has no vector, though the file has one."""
    rows = ["label\ttext", *(f"{'pn'[i % 2]}\t{('good', 'bad')[i % 2]} film" for i in range(40))]
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n")
    (tmp_path / "vectors.txt").write_text("good 1 2 3\nsplendid 4 5 6\nfilm 7 8 9\n")
    settings = {"model.word_vectors": str(tmp_path / "vectors.txt"), "model.train_embeddings": False}
    for more in (False, True):
        run = heed.train(
            "classification", train=tmp_path / "train.tsv", valid=8, model="bag", steps=1, quiet=True,
            out=tmp_path / str(more), settings=settings | {"model.vector_words": more, "tokenizer.min_count": 1},
        )  # fmt: skip
        (place,) = heed.load(run.folder).tokenizer.encode_all(["splendid"])[0]
        assert (place != UNKNOWN) == more
    assert embedding_of(run.model.body).weight[place].tolist() == pytest.approx([4, 5, 6])
    with pytest.raises(ConfigError, match=r"model.vector_words is true, but model.word_vectors names no file"):
        heed.train("classification", train=tmp_path / "train.tsv", steps=1, settings={"model.vector_words": True})
