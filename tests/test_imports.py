"""Imports point one way, models are one file each, and nothing that is read can execute."""

import ast
from pathlib import Path

import pytest

import heed
from heed.registry import list_models

ROOT = Path(heed.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# What each part may import, besides itself. A new part needs a line here, and with it a thought about its place.
MAY_IMPORT = {
    "errors": set(),
    "shapes": set(),
    "moving": set(),
    "disk": {"errors"},
    "config": {"errors"},
    "config_tasks": {"config", "errors"},
    "kernels": {"shapes"},
    "attention": {"kernels", "errors", "shapes"},
    "layers": {"attention", "kernels", "errors", "shapes"},
    "models": {"attention", "kernels", "layers", "errors", "shapes"},
    "registry": {"models", "config", "errors"},
    "data": {"config", "config_tasks", "disk", "errors", "moving"},
    "evaluation": {"data", "errors"},
    "generation": {"models", "attention", "kernels", "errors"},
    "training": {"attention", "config", "disk", "errors", "kernels", "layers", "moving"},
    "tasks": {
        *("attention", "layers", "config", "config_tasks", "data", "evaluation", "folder", "generation", "models"),
        *("registry", "training", "disk", "errors", "moving"),
    },
    "observe": {"attention", "layers", "models", "data", "evaluation", "tasks", "errors"},
    "folder": {"config", "disk", "evaluation", "errors"},
    "engines": {
        *("attention", "layers", "models", "data", "disk", "folder", "generation", "tasks", "errors"),
    },
    "uses": {"config", "engines", "generation", "data", "evaluation", "models", "observe", "tasks", "errors"},
    "resume": {"config", "config_tasks", "disk", "folder", "tasks", "training", "errors"},
    "damage": {"config", "disk", "folder", "training", "errors"},
    "run": {
        *("config", "config_tasks", "disk", "engines", "folder", "kernels", "resume", "tasks", "training", "uses"),
        "errors",
    },
    "ensembles": {"data", "generation", "run", "tasks", "uses", "errors"},
    "forecast": {"config", "run", "training", "errors"},
    "lessons": {
        *("attention", "config", "data", "evaluation", "layers", "models", "observe", "run", "tasks"),
        "errors",
    },
    "comparison": {
        *("config", "config_tasks", "data", "evaluation", "folder", "observe", "run", "tasks", "training", "uses"),
        "errors",
    },
    "heed": {
        "attention",
        "comparison",
        "damage",
        "ensembles",
        "errors",
        "lessons",
        "observe",
        "run",
    },  # the package itself: the public names
    "cli": {
        *("heed", "attention", "comparison", "config", "config_tasks", "data", "evaluation", "folder", "observe"),
        *("registry", "run", "tasks", "forecast", "generation", "lessons", "training", "uses", "damage", "errors"),
    },
    "__main__": {"cli"},
}


def part_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "heed" if first == "__init__" else first


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
            second = name.split(".")[1]
            is_module = (ROOT / f"{second}.py").exists() or (ROOT / second).is_dir()
            parts.add(second if is_module else "heed")
    return parts


def parse(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_one_way(path):
    part = part_of(path)
    assert part in MAY_IMPORT, f"'{part}' has no place yet among the parts of heed; give it one in MAY_IMPORT"
    wrong = parts_imported(parse(path)) - MAY_IMPORT[part] - {part}
    assert not wrong, f"{name_of(path)} imports {sorted(wrong)}, which {part} may not"


def test_the_order_has_no_circle():
    placed: set[str] = set()
    waiting = dict(MAY_IMPORT)
    while waiting:
        ready = [part for part, needs in waiting.items() if needs <= placed]
        assert ready, f"a circle among {sorted(waiting)}"
        placed.update(ready)
        waiting = {part: needs for part, needs in waiting.items() if part not in ready}


def test_nothing_below_sees_the_observer_or_the_commands():
    for part, needs in MAY_IMPORT.items():
        if part not in ("heed", "uses", "run", "cli", "comparison", "lessons"):
            assert "observe" not in needs, part
        if part != "__main__":
            assert "cli" not in needs, part


def test_the_allowed_imports_are_used():
    used: dict[str, set[str]] = {}
    for path in FILES:
        used.setdefault(part_of(path), set()).update(parts_imported(parse(path)))
    for part in ("attention", "layers", "models", "tasks", "run", "cli"):
        assert used[part] - {part}, f"the check sees no imports of {part}"


def test_the_check_sees_every_form_of_import():
    text = """
import heed
import heed.cli.app
from heed import folder, train
from heed.models.base import Body
def late():
    from heed.observe.trace import trace
"""
    assert parts_imported(ast.parse(text)) == {"heed", "cli", "folder", "models", "observe"}


# --- models


@pytest.mark.parametrize("path", sorted((ROOT / "models").glob("*.py")), ids=lambda path: path.stem)
def test_a_model_file_stands_alone(path):
    others = {f"heed.models.{other.stem}" for other in (ROOT / "models").glob("*.py")} - {"heed.models.base"}
    for name in modules_imported(parse(path)):
        assert not any(name == other or name.startswith(f"{other}.") for other in others), name


def test_every_model_file_defines_one_body_per_interface():
    names = {path.stem for path in (ROOT / "models").glob("*.py")} - {"__init__", "base"}
    bodies = list_models()
    assert {name for name, _ in bodies} == names
    assert len({(name, body.interface) for name, body in bodies}) == len({body for _, body in bodies}) == len(bodies)
    for name, body in bodies:
        assert body.__module__ == f"heed.models.{name}"
        classes = [n.name for n in parse(ROOT / "models" / f"{name}.py").body if isinstance(n, ast.ClassDef)]
        assert body.__name__ in classes and body.config_class.__name__ in classes


def test_modules_are_named_by_a_string_in_two_places_only():
    naming = {
        name_of(path)
        for path in FILES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and node.attr == "import_module"
    }
    assert naming == {"__init__.py", "registry.py"}


# --- nothing executes

UNSAFE_MODULES = {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "marshal", "shelve", "subprocess"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE_ATTRIBUTES = {
    *("torch.load", "torch.save", "os.system", "os.popen"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.load_all"),
}


def unsafe(tree: ast.AST) -> set[str]:
    found = {name for name in modules_imported(tree) if name.split(".")[0] in UNSAFE_MODULES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS:
            found.add(node.func.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {f"{node.value.id}.{node.attr}"} & UNSAFE_ATTRIBUTES
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & UNSAFE_ATTRIBUTES
    return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_that_is_read_can_execute(path):
    assert not unsafe(parse(path))


@pytest.mark.parametrize(
    "text",
    [
        *("import pickle", "from pickle import loads", "torch.load('x')", "from torch import load"),
        *("eval('1')", "exec('1')", "yaml.load(text)"),
    ],
)
def test_the_check_sees_what_executes(text):
    assert unsafe(ast.parse(text))
    assert not unsafe(ast.parse("model.eval(); yaml.safe_load(text); re.compile(text)"))
