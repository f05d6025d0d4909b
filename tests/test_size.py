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
    "src/heed/attention": (666, 9),
    "src/heed/cli": (1_579, 13),  # attribute, patch, lens and beams as commands; PDF, dpi and panels of figures
    "src/heed/comparison": (1_352, 8),  # predicting speed, which was elsewhere
    "src/heed/config": (655, 6),  # settling in one order, with reasons; kinds of targets
    "src/heed/data": (5_872, 39),  # kinds of examples as values, numbers for texts
    "src/heed/errors.py": (54, 1),  # counts with their unit, which were elsewhere
    "src/heed/evaluation": (512, 7),  # intervals over seeds and examples, Holm
    "src/heed/exchange": (1_965, 13),  # families and heads of checkpoints, which were in the tasks
    "src/heed/folder.py": (233, 1),  # seals only what was written; an only begun folder is cleared for an import
    "src/heed/generation": (540, 4),
    "src/heed/kernels": (686, 6),
    "src/heed/layers": (1_437, 12),
    "src/heed/lessons": (1_609, 19),
    "src/heed/memory.py": (80, 1),
    "src/heed/models": (1_907, 23),  # gpt and lstmn for series
    "src/heed/registry.py": (62, 1),
    "src/heed/runs": (1_330, 10),  # packing and advice, which were elsewhere
    "src/heed/serve": (873, 8),  # numbers of tables, the second text of a pair
    "src/heed/shapes.py": (11, 1),
    "src/heed/sklearn.py": (166, 1),
    "src/heed/show": (3_704, 21),  # from observe: maps as wide as the page, PDF, figures of chosen panels
    "src/heed/storage": (788, 6),  # earlier versions that are there
    "src/heed/tasks": (1_179, 6),  # contracts of inputs and heads, Work, Run
    "src/heed/tasks/base": (2_406, 18),
    "src/heed/tasks/classification": (364, 4),
    "src/heed/tasks/dialogue": (590, 5),
    "src/heed/tasks/heads": (2_123, 13),  # what tasks answer, which was in their folders
    "src/heed/tasks/images": (803, 7),  # a number for each picture; the nearest picture, which had a file
    "src/heed/tasks/inputs": (2_985, 14),  # what tasks read, which was in their folders
    "src/heed/tasks/language_modelling": (597, 5),
    "src/heed/tasks/pretraining": (1_089, 9),  # its rows and head, read by no other task
    "src/heed/tasks/series": (114, 3),
    "src/heed/tasks/summarisation": (108, 3),
    "src/heed/tasks/table": (92, 3),
    "src/heed/tasks/tagging": (237, 3),
    "src/heed/tasks/translation": (482, 4),
    "src/heed/threads.py": (86, 1),
    "src/heed/training": (1_844, 15),  # states that go on, which were elsewhere
    "src/heed/visible.py": (117, 1),
    "src/heed/watch": (2_332, 17),  # from observe: data frames of looks, the effect of weights on a number
    "examples": (4_196, 82),  # the scripts that draw packaged dates and sentences, which were in the package
    "tools": (779, 7),  # what predict and look enter
    "tests": (39_141, 239),  # pages at every width, rows of maps, numbers of pictures, PDF
}
WORDS_OF_DOCS = 34_606


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
