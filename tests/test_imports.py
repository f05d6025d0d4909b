"""Imports point one way and only where needed, models are one file each, and nothing read can execute."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import heed
from heed.registry import list_models
from heed.tasks import task_names
from resuming import translation

ROOT = Path(heed.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}

# The layers from bottom to top; a part imports what lies below it, and nothing beside it.
LAYERS = [
    {"errors", "shapes", "visible"},
    {"kernels", "memory", "storage"},
    {"attention"},
    {"layers"},
    {"models"},
    {"config"},
    {"registry", "threads"},
    {"data"},
    {"evaluation"},
    {"generation", "training", "watch"},
    {"show"},
    {"folder"},
    {"exchange"},
    {"tasks.base"},
    {"tasks"},
    {"runs"},
    {"comparison", "lessons", "serve", "sklearn"},
    {"heed"},  # the package itself: the public names
    {"cli"},
    {"__main__"},
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def part_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "heed" if parts == ("__init__",) else part_named(parts)


def part_named(words) -> str:
    """The part that a dotted name below `heed` belongs to; finder and table of tasks stand beside what tasks share."""
    if words[0] == "tasks":
        path = ROOT / "tasks" / (words[1] if words[1:] else "base")
        is_module = path.with_suffix(".py").exists() or path.is_dir()
        return "tasks" if is_module and path.name not in ("base", "specs") else "tasks.base"
    is_module = (ROOT / f"{words[0]}.py").exists() or (ROOT / words[0]).is_dir()
    return words[0] if is_module else "heed"


def modules_imported(tree: ast.AST):
    """Every module or name of heed that a file imports, wherever in the file, as dotted names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they point"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_imported(tree: ast.AST) -> set[str]:
    parts = set()
    for name in modules_imported(tree):
        if name == "heed":
            parts.add("heed")
        elif name.startswith("heed."):
            parts.add(part_named(name.split(".")[1:]))
    return parts


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_imports_point_down():
    assert {part_of(path) for path in FILES} == set(LEVEL), "give each part of heed a place in LAYERS"
    wrong = [
        f"{name_of(path)} imports {other}, not below {part}"
        for path in FILES
        for part in [part_of(path)]
        for other in parts_imported(TREES[path]) - {part}
        if LEVEL[other] >= LEVEL[part]
    ]
    assert not wrong, "\n".join(wrong)


def module_of(path: Path) -> str:
    return ".".join(("heed", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def files_imported() -> dict[str, set[str]]:
    """The modules that each module imports, also for types only and inside functions."""
    modules = {module_of(path): path for path in FILES}
    return {
        module: {name if name in modules else name.rpartition(".")[0] for name in modules_imported(TREES[path])}
        & modules.keys() - {module}
        for module, path in modules.items()
    }


def test_no_files_import_each_other_in_a_circle():
    TopologicalSorter(files_imported()).prepare()


def folder_of(module: str) -> str:
    """The folder of a module; a task that is one file stands for a folder."""
    parent, _, name = module.rpartition(".")
    return module if parent == "heed.tasks" and name in task_names() else parent


def test_no_folders_import_each_other_in_a_circle():
    packages = {module_of(path) for path in FILES if path.name == "__init__.py"}
    folders: dict[str, set[str]] = {}
    for module, imported in files_imported().items():
        if module not in packages:
            own, others = folder_of(module), {folder_of(name) for name in imported - packages}
            folders.setdefault(own, set()).update(others - {own, "heed"})
    TopologicalSorter({name: folders[name] for name in folders if name != "heed"}).prepare()


# --- what stands in a module

MODULES = [path for path in FILES if path.name != "__init__.py"]


def statements(tree: ast.AST) -> list[ast.stmt]:
    """The statements of a module but its docstring, imports and `__all__`."""
    return [
        node
        for node in tree.body
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and "__all__" not in assigned(node)
    ]


def assigned(node: ast.stmt) -> set[str]:
    """The names that an assignment binds."""
    targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_a_module_defines_something_and_only_packages_export():
    assert not [name_of(path) for path in MODULES if not statements(TREES[path])], "imports only"
    assert not [name_of(path) for path in MODULES for node in TREES[path].body if "__all__" in assigned(node)]


# --- models


def test_a_model_file_stands_alone():
    files = sorted((ROOT / "models").glob("*.py"))
    others = {f"heed.models.{other.stem}" for other in files} - {"heed.models.base"}
    for path in files:
        for name in modules_imported(TREES[path]):
            assert not any(name == other or name.startswith(f"{other}.") for other in others), (path, name)


def test_every_model_file_defines_one_body_per_interface():
    names = {path.stem for path in (ROOT / "models").glob("*.py")} - {"__init__", "base"}
    bodies = list_models()
    assert {name for name, _ in bodies} == names
    assert len({(name, body.interface) for name, body in bodies}) == len({body for _, body in bodies}) == len(bodies)
    for name, body in bodies:
        assert body.__module__ == f"heed.models.{name}"
        classes = [n.name for n in TREES[ROOT / "models" / f"{name}.py"].body if isinstance(n, ast.ClassDef)]
        assert body.__name__ in classes and body.config_class.__name__ in classes


def test_modules_are_named_by_a_string_in_three_places_only():
    naming = {
        name_of(path)
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Attribute) and node.attr == "import_module"
    }
    assert naming == {"__init__.py", "registry.py", "tasks/__init__.py"}


# --- nothing executes

UNSAFE_MODULES = {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "marshal", "shelve", "subprocess"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE_ATTRIBUTES = {
    *("torch.load", "torch.save", "os.system", "os.popen"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all"),
}


def is_weights_only(node: ast.AST) -> bool:
    """Whether this is a call of torch's loader that makes tensors and nothing else."""
    given = {key.arg: key.value for key in node.keywords} if isinstance(node, ast.Call) else {}
    only = given.get("weights_only")
    return isinstance(only, ast.Constant) and only.value is True


MAY_START = {"cli/dev.py": {"subprocess"}, "comparison/jobs.py": {"subprocess", "subprocess.PIPE"}}
"""Starts the tests of a checkout, for contributors."""


def unsafe(tree: ast.AST) -> set[str]:
    safe = {id(node.func) for node in ast.walk(tree) if is_weights_only(node)}
    found = {name for name in modules_imported(tree) if name.split(".")[0] in UNSAFE_MODULES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS:
            found.add(node.func.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and id(node) not in safe:
            found |= {f"{node.value.id}.{node.attr}"} & UNSAFE_ATTRIBUTES
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & UNSAFE_ATTRIBUTES
    return found


def test_nothing_that_is_read_can_execute():
    found = {name_of(path): found for path in FILES if (found := unsafe(TREES[path]))}
    assert found == MAY_START


def test_the_check_sees_what_executes():
    for text in (
        *("import pickle", "from pickle import loads", "torch.load('x')", "from torch import load"),
        *("torch.load('x', weights_only=False)", "torch.load('x', weights_only=maybe)", "load = torch.load"),
        *("eval('1')", "exec('1')", "yaml.load(text)"),
    ):
        assert unsafe(ast.parse(text)), text
    assert not unsafe(ast.parse("torch.load('x', weights_only=True)"))
    assert not unsafe(ast.parse("model.eval(); yaml.safe_load(text); re.compile(text)"))


# --- Commands import what they need before they work, and nothing else


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


REPOSITORY = Path(__file__).parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
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
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(line) for line in lines if line and not line.startswith("#")}
    extras = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    wanted = {normal(one) for one in [*PROJECT["dependencies"], *extras]} - {"heed-attention"}
    assert wanted <= pinned, f"constraints.txt lacks {sorted(wanted - pinned)}"
