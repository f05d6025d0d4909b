"""Nothing is answered from, or kept under the name of, what has been replaced since."""

import os
import shutil

import pytest
from starlette.testclient import TestClient

import heed
from heed import folder as folders
from heed.errors import RunError
from heed.runs import pack as packing
from heed.serve.app import Server
from heed.serve.served import open_runs
from heed.storage import archive, disk
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
        assert answer(client)["outputs"] == heed_json(made / "other")
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


# --- two at once, and names that somebody else has taken


def both(monkeypatch, module, name, first, second):
    """Run `second` while `first` is about to write, and return how each ended."""
    original, ends = getattr(module, name), []

    def ended(act):
        try:
            act()
            return ""
        except RunError as error:
            return str(error)

    def between(*given, **named):
        if not ends:
            ends.append("begun")
            ends[0] = ended(second)
        return original(*given, **named)

    monkeypatch.setattr(module, name, between)
    return [ended(first), *ends]


def test_of_two_packs_to_one_file_only_the_first_to_end_succeeds(made, tmp_path, monkeypatch, own_cache):
    out = tmp_path / "run.zip"
    packs = (lambda name=name: heed.pack(made / name, out) for name in ("right", "wrong"))
    assert both(monkeypatch, packing, "write_archive", *packs) == [
        f"'{out}' already exists and is never overwritten; give another --out",
        "",
    ]
    assert heed.load(out).predict("a good film") == heed.load(made / "wrong").predict("a good film")
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ""] == ["run.zip"]


def test_of_two_new_folders_of_one_name_only_the_first_to_end_is_kept(made, tmp_path, monkeypatch):
    out, config = tmp_path / "run", heed.load(made / "right").config

    def create(content):
        with folders.create_whole(out, config, 10) as (_, part):
            disk.flush(part)  # where the other is run
            (part / "content").write_text(content)

    assert both(monkeypatch, disk, "flush", lambda: create("first"), lambda: create("second")) == [
        f"'{out}' already exists and is never overwritten; give another --out",
        "",
    ]
    assert (out / "content").read_text() == "second" and heed.check_run(out).whole
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_that_was_only_begun_is_replaced(made, tmp_path):
    out, config = tmp_path / "run", heed.load(made / "right").config
    (out / "checkpoints").mkdir(parents=True)
    (out / "format.json").write_bytes((made / "right" / "format.json").read_bytes())
    (out / ".format.json.0123.part").write_text("")
    with folders.create_whole(out, config, 10) as (_, part):
        (part / "content").write_text("new")
    assert sorted(path.name for path in out.iterdir()) == ["checkpoints", "checksums.json", "content", "format.json"]


@pytest.mark.parametrize("name", [".run.zip.part", ".run.zip.old"])
def test_nothing_is_written_through_a_link_under_a_temporary_name(made, tmp_path, own_cache, name):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / name).symlink_to(tmp_path / "precious")
    heed.pack(made / "right", tmp_path / "run.zip")
    assert (tmp_path / "precious").read_text() == "kept" and (tmp_path / name).is_symlink()
    (tmp_path / ".look.html.part").symlink_to(tmp_path / "precious")
    disk.write_whole(tmp_path / "look.html", lambda part: part.write_text("new"))
    assert (tmp_path / "precious").read_text() == "kept" and (tmp_path / "look.html").read_text() == "new"


@pytest.mark.parametrize("ending", ["part", "old", "gone"])
@pytest.mark.parametrize("left", ["a file", "a link"])
def test_what_was_left_under_a_temporary_name_blocks_no_folder(tmp_path, ending, left):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("kept")
    planted = tmp_path / f".export.{ending}"
    planted.symlink_to(tmp_path / "precious") if left == "a link" else planted.write_text("")
    for content in ("one", "two"):
        with disk.write_folder(tmp_path / "export") as part:
            (part / "content").write_text(content)
    assert (tmp_path / "export" / "content").read_text() == "two"
    disk.remove_folder(tmp_path / "export")
    assert not (tmp_path / "export").exists() and (tmp_path / "precious" / "file").read_text() == "kept"
