"""Nothing is answered from, or kept under the name of, what has been replaced since."""

import os
import shutil

import pytest
from starlette.testclient import TestClient

import heed
from heed.errors import RunError
from heed.serve.app import Server
from heed.serve.served import open_runs
from heed.storage import archive
from heed.storage.cache import content_of

TOKEN, HOST = "a-token-of-twenty-letters", "127.0.0.1:8000"
ROWS = [(text, label) for label, word in (("neg", "bad"), ("pos", "good")) for text in (f"a {word} film", word) * 6]
SETTINGS = {
    "model.name": "rnn",
    "model.size": "tiny",
    "training.threads": 1,
    "training.learning_rate": 0.01,
    "evaluation.bootstrap": 5,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two classifiers that say the opposite of each other, and a language model."""
    out = tmp_path_factory.mktemp("made")
    told = {"valid": 4, "steps": 30, "settings": SETTINGS, "quiet": True}
    heed.train("classification", train=ROWS, out=out / "right", **told)
    swapped = [(text, "pos" if label == "neg" else "neg") for text, label in ROWS]
    heed.train("classification", train=swapped, out=out / "wrong", **told)
    heed.train("language_modelling", train=[t for t, _ in ROWS], out=out / "other", **told)
    return out


def client_of(run):
    made = TestClient(Server(open_runs([str(run)])).app([HOST], TOKEN), base_url=f"http://{HOST}")
    made.headers["Authorization"] = f"Bearer {TOKEN}"
    return made


def answer(client):
    return client.post("/v1/predict", json={"inputs": ["a good film"]}).json()


def replaced(target, source):
    """Put a copy in the place of a folder or file in one step, as `mv` does."""
    if source.is_dir():
        shutil.copytree(source, target.with_name("new"))
        os.replace(target, target.with_name("old"))
    else:
        shutil.copy(source, target.with_name("new"))
    os.replace(target.with_name("new"), target)


def test_the_server_answers_from_the_run_that_is_in_the_folder_now(made, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(made / "right", run)
    with client_of(run) as client:
        assert "pos" in str(answer(client)["outputs"][0])
        replaced(run, made / "wrong")
        assert answer(client)["outputs"] == heed_json(made / "wrong")
        shutil.rmtree(run)
        assert f"no run folder '{run}'" in str(answer(client))
        shutil.copytree(made / "other", run)
        assert "was replaced by a run of language_modelling, and the server was started with" in str(answer(client))
        shutil.rmtree(run)
        shutil.copytree(made / "right", run)
        assert answer(client)["outputs"] == heed_json(made / "right")


def heed_json(run):
    with client_of(run) as client:
        return answer(client)["outputs"]


def test_the_server_answers_from_the_zip_file_that_is_there_now(made, tmp_path, own_cache):
    right, wrong = (heed.pack(made / name, tmp_path / f"{name}.zip").path for name in ("right", "wrong"))
    shutil.copy(right, tmp_path / "run.zip")
    with client_of(tmp_path / "run.zip") as client:
        assert answer(client)["outputs"] == heed_json(right)
        replaced(tmp_path / "run.zip", wrong)
        assert answer(client)["outputs"] == heed_json(wrong) != heed_json(right)


@pytest.mark.parametrize("place", ["is_zipfile", "_blocks"])
def test_a_zip_file_replaced_while_it_is_unpacked_never_answers_for_the_other(
    made, tmp_path, own_cache, monkeypatch, place
):
    right, wrong = (heed.pack(made / name, tmp_path / f"{name}.zip").path for name in ("right", "wrong"))
    shutil.copy(right, tmp_path / "run.zip")
    original, swaps = getattr(archive, place), []

    def swapping(*given):
        if not swaps:
            swaps.append(1)
            if place == "_blocks":  # written to in place
                (tmp_path / "run.zip").write_bytes(wrong.read_bytes())
        return original(*given)

    def hashed(path):
        found = content_of(path)
        if place == "is_zipfile":
            replaced(path, wrong)
        return found

    monkeypatch.setattr(archive, place, swapping)
    with (
        monkeypatch.context() as patched,
        pytest.raises(RunError, match=r"run\.zip' (was replaced|is damaged)"),
    ):
        patched.setattr(archive, "content_of", hashed)
        heed.load(tmp_path / "run.zip")
    assert heed.load(right).predict("a good film") == heed.load(made / "right").predict("a good film")
    assert heed.load(wrong).predict("a good film") == heed.load(made / "wrong").predict("a good film")
