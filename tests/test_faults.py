"""Whatever operation on the disk fails while a command writes: the old output or the new one, and one line."""

import shutil
from pathlib import Path

import pytest

import faults
import heed
from heed.cli import main
from heed.config import read_config
from heed.errors import DiskError
from heed.runs import train as training
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.tasks.run import Run
from heed.training.cost import Cost
from heed.training.loop import Trainer
from heed.training.progress import Quiet
from resuming import train, translation

pytestmark = pytest.mark.usefixtures("as_installed")  # hundreds of runs: checks of shapes take a third of their time
SMALL = {"batch_tokens": 150, "threads": 1, "device": "cpu", "precision": "float32", "steps": 2}
OLD = "the old output\n"


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    model = {"name": "transformer", "d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8}
    data = {"length": [2, 4], "train": 40, "valid": 4, "test": 6}
    out = tmp_path_factory.mktemp("runs") / "translator"
    train(out, translation(model, data, steps=2))
    return out


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint as other libraries write them."""
    folder = tmp_path_factory.mktemp("checkpoint")
    (folder / "texts.tsv").write_text("text\tlabel\n" + "a good film\tyes\na bad film\tno\n" * 8)
    config = {
        "task": "classification",
        "data": {"train": str(folder / "texts.tsv"), "valid": 4},
        "model": {"name": "bert", "pooling": "last", "d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8},
        "training": SMALL,
        "evaluation": {"bootstrap": 10},
    }
    train_config(check_config(config, "the test"), folder / "run", Quiet())
    heed.export(folder / "run", "huggingface", out=folder / "checkpoint")
    return folder / "checkpoint"


def command(*words):
    """Run a command as the terminal does; SystemExit only where it fails."""
    try:
        main(list(map(str, words)))
    except SystemExit as done:
        if done.code:
            raise


class Outcome:
    """Sees what a command that writes files left behind, against what it writes where nothing fails."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys, self.whole = folder, capsys, None

    def contents(self):
        """The files by name; the folder's own ones where names in it are those of files."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in paths}

    def one_line(self, error):
        """What is said is one line, with the exit status of the disk."""
        said = self.capsys.readouterr().err.strip().splitlines()
        if error is None or isinstance(error, faults.Crash):
            return
        if isinstance(error, SystemExit):
            assert error.code == 3 and said[-1].startswith("heed: ")
            assert any(words in said[-1] for words in ("could not be written", "cannot write", "cannot remove"))
        else:
            assert isinstance(error, DiskError) and "\n" not in str(error)

    def old_or_new(self, error, stuck):
        self.one_line(error)
        if isinstance(error, faults.Crash):
            return
        left = self.contents()
        parts = {name: left.pop(name) for name in [*left] if name.endswith(".part")}
        assert left.keys() == self.whole.keys()
        for name, content in left.items():
            assert content in (OLD.encode(), self.whole[name])
            assert error is not None or content == self.whole[name]
        for name, content in parts.items():
            assert error is not None
            if not stuck:
                assert content.endswith(b"\n") and self.whole[name.removesuffix(".part")].startswith(content)


def old_files(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(OLD)


def test_files_of_commands_are_the_old_ones_or_the_new_ones(tmp_path, monkeypatch, capsys, translator):
    (tmp_path / "in.txt").write_text("a b c\nb c\nc a b\n")
    (tmp_path / "in").mkdir()
    for name in "xy":
        (tmp_path / "in" / name).write_text("a b\nb a\n")
    folder, run = tmp_path / "out", heed.load(translator)
    cases = {
        "predict": (["predict", translator, "--input", tmp_path / "in.txt", "--out", folder / "out.txt"], ["out.txt"]),
        "predict folder": (["predict", translator, "--input", tmp_path / "in", "--out", folder], ["x", "y"]),
        "look": (["look", translator, "a b c", "--out", folder / "look.html"], ["look.html"]),
    }
    for kind, (words, names) in cases.items():
        outcome = Outcome(folder, capsys)
        folder.mkdir(exist_ok=True)
        command(*words)
        outcome.whole = outcome.contents()
        assert sorted(outcome.whole) == names
        for function in ("heed.load", "heed.cli.predict.open_together"):  # only what is written counts here
            monkeypatch.setattr(function, lambda *_, **__: run)
        done = faults.fail_each(
            monkeypatch, folder, lambda names=names: old_files(folder, *names), lambda words=words: command(*words),
            outcome.old_or_new, ways=["once"] if kind == "predict folder" else faults.WAYS, each=kind == "predict",
        )  # fmt: skip
        assert {"open", "write", "replace"} <= set(done) and "fsync" in done[: done.index("replace")]
        shutil.rmtree(folder)


def test_the_files_of_a_comparison_are_the_old_ones_or_the_new_ones(tmp_path, monkeypatch, capsys, translator):
    shutil.copytree(translator, tmp_path / "other")
    outcome = Outcome(tmp_path / "out", capsys)
    compared = heed.compare([str(translator), str(tmp_path / "other")], resamples=10)
    written = compared.save(tmp_path / "whole", sentences=0)
    outcome.whole = {path.name: path.read_bytes() for path in written}
    done = faults.fail_each(
        monkeypatch, tmp_path / "out", lambda: old_files(tmp_path / "out", *outcome.whole),
        lambda: compared.save(tmp_path / "out", sentences=0), outcome.old_or_new, each=False,
    )  # fmt: skip
    assert done.count("replace") == 4 and done.index("replace") > max(i for i, n in enumerate(done) if n == "write")


def test_an_export_is_the_old_one_or_the_new_one(tmp_path, monkeypatch, capsys, checkpoint):
    run = heed.import_model(checkpoint, tmp_path / "run", quiet=True)
    where = tmp_path / "run" / "export" / "huggingface"
    heed.export(run, "huggingface")
    whole = {path.name: path.read_bytes() for path in where.iterdir()}
    outcome = Outcome(tmp_path / "run", capsys)

    def old():
        where.mkdir()
        (where / "old").write_text(OLD)

    def check(error, stuck):
        outcome.one_line(error)
        left = {path.name: path.read_bytes() for path in where.iterdir()} if where.exists() else {}
        if stuck or isinstance(error, faults.Crash):  # it may have been moved away and not moved back
            assert left in (whole, {"old": OLD.encode()}) or (where.parent / ".huggingface.old" / "old").exists()
            return
        assert left == whole or (error is not None and left == {"old": OLD.encode()})
        hidden = {path.name for path in where.parent.glob(".*")}
        assert error is not None or hidden <= {".huggingface.old"}  # what failed was to remove it

    faults.fail_each(monkeypatch, where.parent, old, lambda: heed.export(run, "huggingface"), check, each=False)


def test_an_import_leaves_a_whole_run_or_nothing(tmp_path, monkeypatch, capsys, checkpoint):
    folder = tmp_path / "runs"
    outcome = Outcome(folder, capsys)

    def check(error, stuck):
        outcome.one_line(error)
        runs = [path for path in folder.iterdir() if not path.name.startswith(".")]
        if error is None:
            assert heed.check_run(folder / "run").whole and heed.load(folder / "run")
            left = {path.name for path in folder.glob(".*") if path.suffix != ".part"}  # of a crash, for a day
            assert left <= {".run.old"}  # empty; it goes with the next write
        for path in runs:
            assert not any(path.iterdir()) or heed.check_run(path).whole

    def act():
        if not (folder / "run" / "model.safetensors").exists():  # it may have been whole when the machine stopped
            command("import", checkpoint, "--out", folder / "run")

    done = faults.fail_each(monkeypatch, folder, lambda: None, act, check, each=False)
    assert {"open", "write", "safetensors", "replace"} <= set(done)


def test_the_last_save_of_a_training_and_its_seal_lose_nothing(tmp_path, monkeypatch, capsys, translator):
    """What precedes `_finish` is made once, as are its scores; a failure within it is followed by a resume."""
    before, out = tmp_path / "before", tmp_path / "runs" / "run"
    scores = heed.load(translator).report["scores"]["test"]
    monkeypatch.setattr(Run, "evaluate", lambda *_: scores)
    monkeypatch.setattr(Trainer, "predict_cost", lambda *_: Cost(0, 0.0, 0.0, 0, 1, 1))
    config = read_config(translator / "config.yaml")

    class Stop(BaseException):
        pass

    def stop(*_):
        raise Stop

    with monkeypatch.context() as patched, pytest.raises(Stop):
        patched.setattr(training, "_finish", stop)
        train_config(check_config(config, "the test"), before, Quiet())
    finished = (translator / "model.safetensors").read_bytes()
    outcome = Outcome(tmp_path / "runs", capsys)

    def resume():
        train_config(check_config(config, "the test"), out, Quiet(), resume=True)

    def check(error, stuck):
        outcome.one_line(error)
        if error is None:
            assert (out / "model.safetensors").read_bytes() == finished and heed.check_run(out).whole
            assert "scores" in heed.load(out).report and not list(out.glob(".*.part"))
        elif not stuck and not isinstance(error, faults.Crash):
            assert not list(out.glob(".*.part"))

    faults.fail_each(monkeypatch, tmp_path / "runs", lambda: shutil.copytree(before, out), resume, check, each=False)


def test_the_harness_notices_what_is_not_written_whole(tmp_path, monkeypatch, capsys):
    """It would be worth nothing if it did not."""
    folder, outcome = tmp_path / "out", Outcome(tmp_path / "out", capsys)
    outcome.whole = {"out.txt": b"new\n" * 3}

    def careless():
        try:
            (folder / "out.txt").write_text("new\n" * 3)
        except OSError as error:
            raise DiskError(f"cannot write: {error}") from None

    with pytest.raises(AssertionError) as found:
        faults.fail_each(monkeypatch, folder, lambda: old_files(folder, "out.txt"), careless, outcome.old_or_new)
    assert found.value.__notes__[0].startswith("operation 2 of ['open', 'write'")
    assert Path(folder / "out.txt").read_bytes().startswith(b"new\nne")
