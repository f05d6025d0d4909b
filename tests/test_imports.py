"""Imports point one way, models are one file each, and nothing that is read can execute."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import heed
from heed.registry import list_models
from heed.tasks import task_names

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
