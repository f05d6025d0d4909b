"""The ledger of sizes: no room grows without a reason, and each number falls with its room.

`python tools/size.py` prints the sizes. A number in the table may fall at any time. Who raises it says for what in a
comment beside it.
"""

import importlib
import importlib.util
import inspect
import pkgutil
import textwrap
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("size", Path(__file__).parent.parent / "tools" / "size.py")
size = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(size)

# Lines of code and files of each room.
ROOMS = {
    "src/heed/__init__.py": (34, 1),
    "src/heed/__main__.py": (2, 1),
    "src/heed/attention": (750, 8),  # float32 under a CPU's autocast
    "src/heed/cli": (1_505, 12),  # attribute, patch, lens and beams as commands; PDF, dpi and panels of figures
    "src/heed/comparison": (1_350, 8),  # predicting speed, which was elsewhere
    "src/heed/config": (664, 5),  # settling in one order, with reasons; kinds of targets
    "src/heed/data": (5_894, 33),  # kinds of examples as values, numbers for texts
    "src/heed/errors.py": (54, 1),  # counts with their unit, which were elsewhere
    "src/heed/evaluation": (514, 6),  # intervals over seeds and examples, Holm
    "src/heed/exchange": (2_331, 13),  # BART, M2M-100 and NLLB; vocabularies trimmed to texts, or with a new language
    "src/heed/folder.py": (234, 1),  # seals only what was written; an only begun folder is cleared for an import
    "src/heed/generation": (547, 4),  # exports that write the same
    "src/heed/kernels": (724, 6),  # functions of bound layers for the steps of a search, the loss
    "src/heed/layers": (1_258, 10),
    "src/heed/lessons": (1_609, 17),
    "src/heed/memory.py": (80, 1),
    "src/heed/models": (1_926, 21),  # tokens of languages, tables of positions for each side (BART)
    "src/heed/registry.py": (62, 1),
    "src/heed/runs": (1_401, 9),  # trimming an import; the demo's and the advice's part of cli
    "src/heed/serve": (841, 7),  # numbers of tables, the second text of a pair
    "src/heed/shapes.py": (11, 1),
    "src/heed/show": (3_704, 18),  # from observe: maps as wide as the page, PDF, figures of chosen panels
    "src/heed/sklearn.py": (162, 1),
    "src/heed/storage": (789, 6),  # earlier versions that are there
    "src/heed/tasks": (2_859, 12),  # contracts, Work, Run, and the six tasks of one module; other languages of a run
    "src/heed/tasks/base": (2_526, 14),  # freezing with new tokens
    "src/heed/tasks/dialogue": (571, 2),
    "src/heed/tasks/heads": (1_887, 9),  # what tasks answer, which was in their folders
    "src/heed/tasks/images": (776, 4),  # a number for each picture; the nearest picture, which had a file
    "src/heed/tasks/inputs": (3_105, 14),  # languages of texts
    "src/heed/tasks/language_modelling": (679, 2),  # its head, which was in heads
    "src/heed/tasks/pretraining": (1_063, 4),  # its rows and head, read by no other task
    "src/heed/threads.py": (84, 1),
    "src/heed/training": (1_868, 13),  # states that go on, which were elsewhere; precision by timing
    "src/heed/visible.py": (117, 1),
    "src/heed/watch": (2_312, 13),  # from observe: data frames of looks, the effect of weights on a number
    "examples": (4_196, 82),  # the scripts that draw packaged dates and sentences, which were in the package
    "tools": (779, 7),  # what predict and look enter
    "tests": (39_877, 183),  # checkpoints of BART, M2M-100 and NLLB, trimming, new languages
}
WORDS_OF_DOCS = 34_998  # bf16 on a CPU, a large translator


# Of the parts of tasks: the names of a run, the methods of inputs and heads with those that they share (wanted: 40, 16
# and 26), and the largest number of classes of heed that one stands on (wanted: 4).
NAMES = {"Run": 40, "Input": 25, "Head": 26}
LONGEST_LADDER = 4


def complaint(name, number, limit, what):
    """What is wrong with the size of a room, or None."""
    if number > limit:
        return f"{name} has {number:,} {what}, {number - limit:,} more than tests/test_size.py allows ({limit:,})"
    if number < 0.98 * limit:
        return f"{name} has only {number:,} {what}: put this number into tests/test_size.py in place of {limit:,}"
    return None


def test_no_room_grows_and_no_number_stays_above_its_room():
    sizes = size.rooms()
    assert sizes.keys() == ROOMS.keys(), "tests/test_size.py lists each room of the project"
    found = [
        complaint(name, number, limit, what)
        for name, limits in ROOMS.items()
        for number, limit, what in zip(sizes[name], limits, ("lines of code", "files"), strict=True)
    ]
    found.append(complaint("docs", size.words_of_docs(), WORDS_OF_DOCS, "words"))
    assert not any(found), "\n".join(filter(None, found))


def test_lines_of_code_are_those_with_more_than_blanks_comments_docstrings_and_imports():
    text = '''
    """A docstring
    of two lines."""

    from a import (
        b,
    )
    import c


    class D:
        """Docstring."""

        field: int = 1  # counted
        """Docstring of the field."""

        # a comment
        def f(self):
            """Docstring."""
            import e
            text = """a text

            of three lines counts whole"""
            return [
                text,
            ]
    '''
    assert size.lines_of_code(textwrap.dedent(text)) == 1 + 1 + 1 + 3 + 3


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1_000, None),
        (985, None),
        (1_001, "attention has 1,001 lines of code, 1 more than tests/test_size.py allows (1,000)"),
        (979, "attention has only 979 lines of code: put this number into tests/test_size.py in place of 1,000"),
    ],
)
def test_a_number_above_its_room_is_lowered_and_a_room_above_its_number_shrinks(number, expected):
    assert complaint("attention", number, 1_000, "lines of code") == expected


def test_parts_of_tasks_have_no_more_names_and_stand_on_no_more_classes():
    import heed.runs
    import heed.tasks
    from heed.tasks.contracts import Head, Input
    from heed.tasks.run import Run

    def methods(kind):
        every = inspect.getmembers(kind, lambda value: inspect.isfunction(value) or isinstance(value, property))
        return [name for name, _ in every if not name.startswith("__")]

    counts = {kind.__name__: len(methods(kind)) for kind in (Input, Head)}
    counts["Run"] = len([name for name in vars(Run) if not name.startswith("__")])
    assert counts == NAMES, "these numbers only fall: put the smaller ones into tests/test_size.py"
    packages = [(package.__path__, f"{package.__name__}.") for package in (heed.tasks, heed.runs)]
    modules = [importlib.import_module(one.name) for place in packages for one in pkgutil.walk_packages(*place)]
    kinds = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    ours = [kind for kind in kinds if kind.__module__.startswith(("heed.tasks.", "heed.runs."))]
    ladders = {kind: [one for one in kind.__mro__ if one.__module__.startswith("heed.")] for kind in ours}
    assert max(map(len, ladders.values())) == LONGEST_LADDER
