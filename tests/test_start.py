"""Commands import what they need before they work, and nothing else."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import heed
from resuming import translation

NEVER = {*"PIL scipy sklearn sacrebleu seqeval pandas matplotlib tensorboard datasets ctranslate2".split()}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "copy.yaml"
    path.write_text(yaml.safe_dump(translation(steps=1).model_dump(mode="json", by_alias=True)))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, config):
    return heed.train(config, out=tmp_path_factory.mktemp("runs") / "run", quiet=True)


COMMANDS = """
import json, sys
from heed.cli import main
for words in json.loads(sys.argv[1]):
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    print("MODULES", code or 0, *sys.modules)
"""


def modules_after(*commands):
    """Exit codes and modules after each of some commands, one after the other in a fresh interpreter."""
    given = json.dumps([[*map(str, words)] for words in commands])
    done = subprocess.run([sys.executable, "-c", COMMANDS, given], capture_output=True, text=True, timeout=120)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("MODULES ")]
    assert len(lines) == len(commands), done.stderr
    return [(int(code), set(modules)) for code, *modules in lines]


def other_models(modules, *used):
    return {name for name in modules if name.startswith("heed.models.") and name.split(".")[2] not in ("base", *used)}


def test_commands_import_neither_torch_nor_models_nor_scores_before_they_need_them(config, run, tmp_path):
    helped, listed = modules_after(["--help"], ["models", "gpt"])
    predicted, looked, refused, trained = modules_after(
        *(["predict", run.folder, "1 2"], ["look", run.folder, "1 2"]),
        *(["train", "translation", tmp_path / "none.tsv"], ["train", config, "--out", tmp_path / "run"]),
    )
    assert [code for code, _ in (helped, listed, predicted, looked, refused, trained)] == [0, 0, 0, 0, 2, 0]
    assert not (helped[1] | listed[1]) & {"torch", "heed.lessons"}
    assert not looked[1] & NEVER and not other_models(looked[1], "bahdanau")
    assert "torch" in predicted[1]  # what is looked for can be found
    assert not refused[1] & NEVER and not other_models(refused[1], "bahdanau")
    assert "torch._dynamo" not in trained[1]


# --- what pyproject.toml asks for is what the code imports, so that an install is neither short nor long of a package


ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OF_USERS = ("hub", "hf", "export", "pdf", "serve")  # extras that the package itself can use
NOT_LISTED = {"jaxtyping", "pydantic-core"}  # shapes.py works without the first; pydantic requires the second itself


def normal(requirement):
    return re.match(r"[\w.-]+", requirement).group().lower().replace("_", "-")


CORE = {normal(one) for one in PROJECT["dependencies"]}
OF_OTHERS = {"protobuf"}  # sentencepiece needs it for the format of its files
EXTRA = {normal(one): extra for extra in OF_USERS for one in PROJECT["optional-dependencies"][extra]}


def imported():
    """Packages, by their names in an index, that some file of heed imports at any place."""
    places = {"cairosvg": ["cairosvg"], **metadata.packages_distributions()}  # the first needs a library
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


def test_every_dependency_has_a_version_that_is_tested():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(line) for line in lines if line and not line.startswith("#")}
    extras = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    wanted = {normal(one) for one in [*PROJECT["dependencies"], *extras]} - {"heed-attention"}
    assert wanted <= pinned, f"constraints.txt lacks {sorted(wanted - pinned)}"
