"""What pyproject.toml asks for is what the code imports, so that an install is neither short nor long of a package."""

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import heed

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
