"""mkdocs hooks for `make docs`: add pages from outside docs/ and the page of the Python interface.

mkdocs calls `on_files` and `on_page_markdown` (mkdocs.yml, hooks).
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages outside docs/, and their names on the site."""
PARTS = ("heed", "heed.attention", "heed.observe.edits", "heed.sklearn")
"""Modules whose public names the page of the Python interface lists."""
METHODS = ("predict", "predictions", "look", "align", "rank", "score", "export")
"""Methods that the runs of some tasks have in forms of their own: listed with the class of each task."""
RESULTS = {
    "ShownLook": (),
    "Trace": ("mechanisms", "maps", "weights", "gates", "tensors"),
    "Comparison": (),
    "Lesson": (),
    "ShownCurves": (),
    "Predictions": (),
    "WrittenText": (),
    "LabelPrediction": (),
    "TagPrediction": (),
    "Alignments": (),
    "FilledText": (),
    "RankedChoice": (),
    "ScoredText": (),
    "Forecast": (),
    "Exported": (),
    "PackedRun": (),
    "RunState": (),
}
"""Classes of what functions and methods return, with the methods to list; all of them by default."""
FIRST = ("train", "load")
"""Names that open the page."""


def parsed(module: str) -> ast.Module:
    """Syntax tree of a module of heed, or of a package's `__init__`."""
    path = ROOT / "src" / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def home(module: str, name: str) -> str:
    """The module that defines a public name, found by following imports."""
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return home(str(node.module), name)
    return module


def defined(name: str) -> str:
    """The dotted name of the one class of heed with this name."""
    found = [
        path.relative_to(ROOT / "src").with_suffix("")
        for path in (ROOT / "src" / "heed").rglob("*.py")
        if re.search(rf"^class {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(found) == 1, (name, found)
    return ".".join((*found[0].parts, name))


def public(module: str) -> list[str]:
    """The names in `__all__`; without it, the public classes and functions that the module defines."""
    body = parsed(module).body
    for node in body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return sorted(ast.literal_eval(node.value), key=lambda name: name not in FIRST)
    return [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_"]


def api() -> str:
    """The page of the Python interface, for mkdocstrings."""
    lines = ["# Python interface", "", "Generated from the docstrings. How to use it: [Python](python.md).", ""]
    listed: set[str] = set()
    for module in PARTS:
        names = {f"{home(module, name)}.{name}": name for name in public(module)}
        lines += [f"## {module}", ""]
        lines += [_listed(path, (), f"{module}.{name}") for path, name in names.items() if path not in listed]
        listed |= set(names)
        if module == "heed":
            lines += ["## Runs of each task", "", *(_listed(name, METHODS) for name in runs())]
            lines += ["## Results", "", *(_listed(defined(name), members) for name, members in RESULTS.items())]
    return "\n".join(lines)


def runs() -> list[str]:
    """The class of the runs of each task, by tasks in alphabetical order."""
    files = sorted((ROOT / "src" / "heed" / "tasks").glob("[a-z]*/run.py"))
    modules = [f"heed.tasks.{path.parent.name}.run" for path in files if path.parent.name != "base"]
    found = []
    for module in modules:
        classes = [node for node in parsed(module).body if isinstance(node, ast.ClassDef)]
        bases = {ast.unparse(base).partition("[")[0] for node in classes for base in node.bases}
        found += [f"{module}.{node.name}" for node in classes if node.name.endswith("Run") and node.name not in bases]
    return found


def _listed(path: str, members: Sequence[str] = (), heading: str = "") -> str:
    """A name, under another heading if one is given; a class with inherited methods: all, or those in `members`."""
    options = ["inherited_members: true"] if not heading else [f"heading: {heading}", f"toc_label: {heading}"]
    options += [f"members: [{', '.join(members)}]"] if members else []
    return "\n".join([f"::: {path}", "    options:", *(f"      {option}" for option in options), ""])


def linked(text: str, folder: str) -> str:
    """Rewrite the links of a page from `folder` for the site; links to files that are not pages become plain text."""
    place = folder.removeprefix("docs").removeprefix("/") if folder.startswith("docs") else ""  # "" is the site's root

    def mended(link: re.Match[str]) -> str:
        shown, target, anchor = link.groups(default="")
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path not in OUTSIDE and not path.startswith("docs/"):
            return shown
        there = OUTSIDE.get(path) or path.removeprefix("docs/")
        return f"[{shown}]({posixpath.relpath(there, place or '.')}{anchor})"

    parts = re.split(r"(^ *```.*?^ *```)", text, flags=re.MULTILINE | re.DOTALL)  # code blocks are not changed
    parts[::2] = [re.sub(r"\[([^][]*)\]\(([^)#\s]+)(#[^)\s]*)?\)", mended, part) for part in parts[::2]]
    return "".join(parts)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/ and the page of the Python interface."""
    from mkdocs.structure.files import File

    for path, name in OUTSIDE.items():
        text = linked((ROOT / path).read_text(encoding="utf-8"), posixpath.dirname(path))
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "api.md", content=api()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links that lead out of docs/."""
    if page.file.src_uri in (*OUTSIDE.values(), "api.md"):
        return markdown
    return linked(markdown, posixpath.dirname(f"docs/{page.file.src_uri}"))
