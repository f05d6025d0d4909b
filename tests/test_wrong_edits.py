"""The list of `make mutants` is current: each text to be edited occurs exactly once, each file of tests exists."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_wrong_edit_can_be_made(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from wrong_edits import EDITS

    source = "\0".join(path.read_text("utf-8") for path in (ROOT / "src" / "heed").rglob("*.py"))
    assert [edit.old for edit in EDITS if source.count(edit.old) != 1] == []
    assert [edit.what for edit in EDITS if edit.new == edit.old] == []
    named = {test.partition("::")[0] for edit in EDITS for test in edit.tests}
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
