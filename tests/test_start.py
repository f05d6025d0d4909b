"""Commands import what they need before they work, and nothing else."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import heed
from heed.cli import main

SETTINGS = {
    "task": "translation",
    "data": {"name": "copy", "length": [2, 4], "train": 60, "valid": 10, "test": 10},
    "model": {"name": "bahdanau", "d_embedding": 8, "d_hidden": 8, "d_attention": 8},
    "training": {"steps": 1, "batch_tokens": 100, "threads": 1, "device": "cpu"},
    "generation": {"max_length": 5},
    "evaluation": {"bootstrap": 5},
}
NEVER = {"scipy", "sklearn", "sacrebleu", "seqeval", "pandas", "matplotlib", "tensorboard", "datasets", "ctranslate2"}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "copy.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, config):
    return heed.train(config, out=tmp_path_factory.mktemp("runs") / "run", quiet=True)


def modules_after(*words, code=0):
    """The modules that there are after a command in a fresh interpreter."""
    script = (
        "import sys\nfrom heed.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code or 0\n"
        "else: code = 0\n"
        "print('MODULES', code, *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True, timeout=120, check=True
    )
    mark, ended, *modules = done.stdout.splitlines()[-1].split()
    assert (mark, ended) == ("MODULES", str(code)), done.stderr
    return set(modules)


def test_a_look_at_a_run_whose_task_has_none_is_refused_without_torch(tmp_path):
    (tmp_path / "config.yaml").write_text("task: table\n")
    modules = modules_after("look", tmp_path, "5.1 3.5 1.4 0.2", code=2)
    assert "torch" not in modules
    assert len([name for name in modules if name.startswith("heed.")]) < 50


def other_models(modules, *used):
    return {name for name in modules if name.startswith("heed.models.") and name.split(".")[2] not in ("base", *used)}


@pytest.mark.parametrize("words", [["predict", "1 2"], ["look", "1 2"]], ids=lambda words: words[0])
def test_a_trained_model_is_used_without_what_scores_it_and_without_other_models(run, words):
    command, text = words
    modules = modules_after(command, run.folder, text)
    assert not modules & (NEVER | {"rich"})
    assert not other_models(modules, "bahdanau")
    assert "torch" in modules  # what is looked for can be found


def test_training_that_is_refused_has_imported_nothing_that_scores(tmp_path):
    modules = modules_after("train", "translation", tmp_path / "none.tsv", code=2)
    assert not modules & NEVER
    assert not other_models(modules, "bahdanau")


def test_models_imports_the_models_that_it_describes():
    assert not modules_after("models") & (NEVER | {"rich", "babel", "tokenizers"})
    modules = modules_after("models", "gpt")
    assert "heed.models.gpt" in modules and not other_models(modules, "gpt")


# --- one of something


def test_one_update_and_one_thread_are_singular(config, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["train", str(config), "--dry-run"])
    out = capsys.readouterr().out
    assert ", 1 thread\npredicted: 1 update (" in out
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["train", str(config)])
    err = capsys.readouterr().err
    assert "1 update done" in err and "all 1 " not in err


# --- what pyproject.toml asks for is what the code imports, so that an install is neither short nor long of a package


ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OF_USERS = ("hub", "hf", "export", "pandas")  # extras that the package itself can use
NOT_LISTED = {"jaxtyping", "pydantic-core"}  # shapes.py works without the first; pydantic requires the second itself


def normal(requirement):
    return re.match(r"[\w.-]+", requirement).group().lower().replace("_", "-")


CORE = {normal(one) for one in PROJECT["dependencies"]}
OF_OTHERS = {"protobuf"}  # sentencepiece needs it for the format of its files
EXTRA = {normal(one): extra for extra in OF_USERS for one in PROJECT["optional-dependencies"][extra]}


def imported():
    """Packages, by their names in an index, that some file of heed imports at any place."""
    places = metadata.packages_distributions()
    found = set()
    for path in Path(heed.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            else:
                names = {node.module} if isinstance(node, ast.ImportFrom) else set()
            for module in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"heed"}:
                assert module in places, f"{path} imports {module}, which is not installed here"
                found.add(normal(places[module][0]))
    return found


def test_the_dependencies_are_what_the_code_imports():
    assert imported() - NOT_LISTED == CORE | set(EXTRA) - OF_OTHERS
    assert not CORE & set(EXTRA)


@pytest.mark.parametrize("extra", sorted({*OF_USERS, "tensorboard"}))
def test_an_extra_is_named_where_its_package_is_missing(extra):
    named = [p for p in Path(heed.__file__).parent.rglob("*.py") if f"'.[{extra}]'" in p.read_text()]
    assert named


def test_every_dependency_has_a_version_that_is_tested():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(line) for line in lines if line and not line.startswith("#")}
    extras = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    wanted = {normal(one) for one in [*PROJECT["dependencies"], *extras]} - {"heed-attention"}
    assert wanted <= pinned, f"constraints.txt lacks {sorted(wanted - pinned)}"
