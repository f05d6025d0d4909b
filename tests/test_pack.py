"""A packed run is small, names nothing of the machine, and is opened safely whatever a zip file contains."""

import errno
import json
import os
import pwd
import random
import re
import shutil
import stat
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import heed
from heed import folder as folders
from heed.errors import ConfigError, HeedError, RunError
from heed.storage.files import cache_folder, checksum
from small_runs import SMALL

TEXTS = [(text, label) for label, word in (("neg", "bad"), ("pos", "good")) for text in (f"a {word} film", word) * 6]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A finished classifier on files, and a child of it; made once."""
    out = tmp_path_factory.mktemp("pack")
    (out / "secret").mkdir()
    file = out / "secret" / "reviews.tsv"
    file.write_text("".join(f"{text}\t{label}\n" for text, label in TEXTS))
    settings = {"model.name": "rnn", "model.size": "tiny", "training.threads": 1, "evaluation.bootstrap": 10}
    told = {"train": file, "valid": 4, "steps": 4, "settings": settings, "quiet": True}
    heed.train("classification", out=out / "made", **told)
    heed.train("classification", out=out / "child", parent=out / "made", **told)
    return out


@pytest.fixture
def packed(made, tmp_path, monkeypatch, own_cache):
    """The packed classifier, in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    return heed.pack(made / "made", "film.zip").path


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {one.filename: archive.read(one) for one in archive.infolist()}


def written(path, files, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def refused(path):
    with pytest.raises(RunError) as raised:
        heed.load(path)
    assert not list(cache_folder().glob("entries/*/run")), "half unpacked"
    assert str(path) in str(raised.value) and str(cache_folder()) not in str(raised.value)
    return str(raised.value)


def test_the_command_prints_how_to_use_the_file_and_that_works(made, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = call("pack", made / "made")
    assert code == 0 and out.endswith("to use it: heed predict made.zip TEXT\n") and Path("made.zip").is_file()
    assert call("predict", "made.zip", "a good film") == call("predict", made / "made", "a good film")
    assert call("check", "made.zip")[1].startswith("run folder made.zip: all files are intact")
    card = contents("made.zip")["made/README.md"].decode()
    assert card.startswith("To use this model: `heed predict made.zip TEXT` (heed ")
    assert "\nheed evaluate made.zip FILE\n" in card and str(made) not in card and "trained by heed" in card


def test_a_packed_run_is_a_little_larger_than_its_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"model.name": "rnn", "model.d_hidden": 400, "training.threads": 1}
    run = heed.train("classification", train=TEXTS, valid=4, steps=2, out="big", settings=settings, quiet=True)
    weights, folder = (
        (run.folder / folders.WEIGHTS).stat().st_size,
        sum(p.stat().st_size for p in Path("big").rglob("*")),
    )
    size = heed.pack(run, "big.zip").size
    assert weights > 4_000_000 and folder > 6 * weights
    assert weights < size < weights + 40_000 and size == os.path.getsize("big.zip")


def test_no_path_of_the_machine_is_packed(made, packed):
    for path in (packed, heed.pack(made / "child", "child.zip").path):
        for name, content in contents(path).items():
            for trace in (made, made.parent, Path.home()):
                assert str(trace).encode() not in content, name
            assert not {"checkpoints", ".config.yaml", ".lock"} & {*name.split("/")}
    config, report = (contents("child.zip")[f"child/{name}"].decode() for name in ("config.yaml", "report.json"))
    assert "- reviews.tsv\n" in config and "from: made\n" in config
    assert json.loads(report)["parent"]["run"] == "made"
    assert [*json.loads(contents(packed)["made/data.json"])["files"]] == ["reviews.tsv"]


def test_other_paths_of_the_home_folder_are_reduced_too(made, tmp_path):
    run = shutil.copytree(made / "made", tmp_path / "run")
    report = {**folders.read_report(run), "note": f"from {Path.home()}/a/b/c.txt, and /usr/share/d.txt"}
    with folders.unsealed(run, folders.REPORT, final=True):
        folders.write_report(run, report)
    heed.pack(run, tmp_path / "run.zip")
    assert heed.load(tmp_path / "run.zip").report["note"] == "from c.txt, and /usr/share/d.txt"


def words_of(text):
    """Letters and digits with a space between words, so that quotes, brackets and columns make no difference."""
    return " ".join(["", *re.findall(r"[^\W_]+", text.lower()), ""])


@pytest.mark.parametrize("name", SMALL)
def test_no_example_of_the_data_is_packed(name, data, tmp_path):
    small = SMALL[name]
    settings = {**small.settings, "data.test": str(data / small.train)}
    replace(small, settings=settings).trained(data, tmp_path / "run")
    texts = [
        line for file in ("lines.txt", "table.csv", "series.csv") for line in (data / file).read_text().split("\n")
    ]
    outputs = folders.read_report(tmp_path / "run")["scores"]["test"].get("common", [])  # perhaps learned by heart
    texts += [*(" ".join(one["text"].split()[:3]) for one in outputs), *(f"{n}.png" for n in range(12))]
    examples = {words_of(text) for text in texts[1:] if len(text.split()) > 2 or re.search("[0-9]", text)}
    assert len(examples) > 70
    packed = contents(heed.pack(tmp_path / "run", tmp_path / "run.zip").path)
    assert packed.keys() >= {"run/report.json", "run/README.md", "run/metrics.jsonl"}
    for file, content in packed.items():
        found = words_of(content.decode(errors="replace"))
        assert not [text for text in examples if text in found], file


def test_a_long_name_of_letters_of_several_bytes_is_cut_to_what_file_systems_take(made, tmp_path):
    run = shutil.copytree(made / "made", tmp_path / ("\u00fc" * 120))
    heed.pack(run, tmp_path / "run.zip")
    assert {name.partition("/")[0] for name in contents(tmp_path / "run.zip")} == {"\u00fc" * 100}
    assert heed.load(tmp_path / "run.zip").folder.name == "\u00fc" * 100


def test_a_user_without_a_home_folder_packs_too(made, tmp_path, monkeypatch):
    def unknown(*_):
        raise KeyError("this user has no entry")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert heed.pack(made / "made", tmp_path / "run.zip").path.is_file()


def test_the_same_run_gives_the_same_bytes(made, packed):
    Path("again").mkdir()
    assert heed.pack(made / "made", "again/film.zip").path.read_bytes() == packed.read_bytes()


def test_a_packed_run_can_be_packed_again_under_another_name(packed):
    card = contents(heed.pack(heed.load(packed), "other.zip").path)["made/README.md"].decode()
    assert card.startswith("To use this model: `heed predict other.zip TEXT`") and "film.zip" not in card


def test_a_packed_run_is_unpacked_once(packed, monkeypatch):
    first = heed.load(packed)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    assert heed.load(shutil.copy(packed, "copy.zip")).folder == first.folder
    assert first.folder.is_relative_to(cache_folder())


def test_a_damaged_copy_in_the_cache_is_unpacked_again(packed):
    weights = heed.load(packed).folder / folders.WEIGHTS
    before = checksum(weights)
    weights.write_bytes(b"0" * weights.stat().st_size)
    heed.load(packed)
    assert checksum(weights) == before


def test_two_at_once_open_the_same_file(packed):
    found = []
    threads = [threading.Thread(target=lambda: found.append(folders.find(packed))) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 4 and len({*found}) == 1 and folders.state_of(found[0]) is folders.State.FINISHED


def test_training_starts_from_a_packed_run(made, packed, tmp_path):
    settings = {"training.threads": 1, "evaluation.bootstrap": 10, "model.name": "rnn", "tokenizer.from": "film.zip"}
    told = {"train": TEXTS, "valid": 4, "steps": 1, "settings": settings, "quiet": True}
    run = heed.train("classification", parent="film.zip", out="next", **told)
    assert run.config.model.from_ == run.config.tokenizer.from_ == str(tmp_path / "film.zip")
    assert run.report["parent"]["run"] == str(tmp_path / "film.zip") and not run.report["parent"]["new"]
    assert run.tokenizer.tokens == heed.load(made / "made").tokenizer.tokens


def test_data_is_found_by_its_name_or_asked_for(made, packed, call):
    code, _, err = call("evaluate", packed)
    assert code == 2 and "no file 'reviews.tsv' in this folder: a packed run does not contain its data" in err
    shutil.copy(made / "secret" / "reviews.tsv", "reviews.tsv")
    assert call("evaluate", packed) == call("evaluate", made / "made")
    with open("reviews.tsv", "a") as file:
        file.write("bad\tneg\n")
    assert "data.train: 'reviews.tsv' has changed since the run began" in call("evaluate", packed)[2]


def test_a_packed_run_is_not_resumed(packed, call):
    assert call("train", packed, "--resume")[2] == (
        "heed: 'film.zip' is a packed run, which has no checkpoints to resume; start a new run from it: "
        "heed train TASK FILE... --from film.zip\n"
    )


def test_a_checkpoint_of_a_packed_run_is_not_written_into_the_cache(packed, call):
    code, _, err = call("export", packed, "--to", "huggingface")
    assert code == 2 and err == "heed: a packed run has no folder to keep the checkpoint in; name one with --out\n"


def test_a_cache_that_cannot_be_written_is_named(packed, call, monkeypatch):
    monkeypatch.setenv("HEED_CACHE", str(packed))
    assert call("predict", packed, "a good film")[2] == (
        f"heed: cannot write to the cache folder {packed}: Not a directory; set HEED_CACHE to a folder with room\n"
    )


def test_what_cannot_be_packed_is_refused_with_what_to_do(made, packed, call, tmp_path):
    assert (
        "'film.zip' already exists and is never overwritten; give another --out"
        in call("pack", made / "made", "--out", packed)[2]
    )
    run = shutil.copytree(made / "made", tmp_path / "run")
    (run / folders.WEIGHTS).write_bytes(b"damaged")
    assert "model.safetensors is altered" in call("pack", run)[2]
    (run / "checksums.json").unlink()
    assert f"training has not finished; resume it with: heed train {run} --resume" in call("pack", run)[2]
    with pytest.raises(ConfigError, match="an ensemble cannot be packed"):
        heed.pack(heed.ensemble([made / "made", packed]))
    assert not (tmp_path / "run.zip").exists()


def test_files_of_another_kind_are_refused(packed):
    Path("text.zip").write_text("no zip file")
    assert refused("text.zip") == (
        "'text.zip' is neither a run folder nor a packed run: it is not a zip file, or was cut off"
    )
    Path("cut.zip").write_bytes(packed.read_bytes()[:-9])
    assert "or was cut off" in refused("cut.zip")
    files = contents(packed)
    assert "format.json" in refused(written("photos.zip", {"photos/a.png": b"", "photos/b.png": b""}))
    assert "it contains 'a/b/c.png'; pack a run with: heed pack RUN" in refused(written("deep.zip", {"a/b/c.png": b""}))
    assert "2 folders" in refused(written("two.zip", {**files, "other/config.yaml": b""}))
    newer = {**files, "made/format.json": b'{"format": 3}'}
    assert refused(written("newer.zip", newer)) == (
        "'newer.zip' has format 3, and this version of heed reads format 2: train the run again, or use the version "
        "that wrote it"
    )


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "made/../evil", "made/.lock", "..\\evil", "made/a\\b", "c:evil/x", "made/a b", "x"]
)
def test_no_file_is_written_elsewhere(name, packed, tmp_path):
    assert "is not a run packed by heed" in refused(written("evil.zip", {**contents(packed), name: b"evil"}))
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.suffix != ".lock"}
    assert found == {"film.zip", "evil.zip", "cache", "cache/entries"} and not Path("/tmp/evil").exists()


def test_a_link_is_never_made(packed):
    files = contents(packed)
    link = zipfile.ZipInfo("made/labels.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(written("link.zip", {n: c for n, c in files.items() if n != link.filename}), "a") as archive:
        archive.writestr(link, "/etc/passwd")
    assert "link.zip/labels.json is altered" in refused("link.zip")


def test_a_file_that_would_fill_the_disk_is_refused_before_it_is_unpacked(packed):
    bomb = {**contents(packed), "made/metrics.jsonl": b"0" * 2**27}
    written("bomb.zip", bomb, compression=zipfile.ZIP_DEFLATED)
    said = refused("bomb.zip")
    assert os.path.getsize("bomb.zip") < 2**20 and "it would unpack to 134," in said and "more than the" in said


def test_other_compressions_passwords_and_repeated_names_are_refused(packed):
    files = contents(packed)
    assert "another method than deflate" in refused(written("lzma.zip", files, compression=zipfile.ZIP_LZMA))
    locked = bytearray(packed.read_bytes())
    locked[locked.rindex(b"PK\x01\x02") + 8] |= 1
    Path("locked.zip").write_bytes(locked)
    assert "is encrypted" in refused("locked.zip")
    with (
        pytest.warns(UserWarning, match="Duplicate"),
        zipfile.ZipFile(shutil.copy(packed, "twice.zip"), "a") as archive,
    ):
        archive.writestr("made/config.yaml", b"")
    assert "names a file twice" in refused("twice.zip")
    assert "names a file twice" in refused(written("case.zip", {**files, "made/CONFIG.yaml": b""}))


def test_damage_is_named(packed):
    files = contents(packed)
    assert "'bad.zip' is damaged: Bad CRC-32" in refused(flipped(packed, "bad.zip", files["made/model.safetensors"]))
    for name in sorted(files.keys() - {"made/metrics.jsonl"}):
        less = {one: content for one, content in files.items() if one != name}
        assert name.removeprefix("made/") in refused(written("less.zip", less))
        if name not in ("made/format.json", "made/checksums.json"):
            assert "get the file again" in refused(written("other.zip", {**files, name: files[name] + b" "}))


def test_a_zip_file_that_cannot_be_read_is_not_called_damaged(packed, monkeypatch):
    def fails(self, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(zipfile.ZipFile, "open", fails)
    assert refused(packed.resolve()) == f"cannot read '{packed.resolve()}': Permission denied"
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(TypeError, match="not callable"):  # an error of the program is not the file's
        heed.load(packed)


def flipped(path, name, inside):
    content = path.read_bytes()
    place = content.index(inside) + len(inside) // 2
    Path(name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    return name


def test_random_damage_is_refused_or_harmless(packed):
    rng, content = random.Random(1), packed.read_bytes()
    good = heed.load(packed)
    directory = content.index(b"PK\x01\x02")
    for number in range(100):
        data = bytearray(content)
        first = rng.choice([0, directory])
        for _ in range(rng.choice([1, 1, 4])):
            data[rng.randrange(first, len(data))] = rng.randrange(256)
        Path(f"{number}.zip").write_bytes(data)
        try:
            opened = heed.load(f"{number}.zip")
        except HeedError as error:
            assert f"{number}.zip" in str(error), error
        else:
            for name, tensor in opened.model.state_dict().items():
                torch.testing.assert_close(tensor, good.model.state_dict()[name], rtol=0, atol=0)
