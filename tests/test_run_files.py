"""Files of a run folder that are not what they should be: one error of one line, never a wait."""

import json
import os
import re
import shutil
import socket

import pytest

from heed.errors import RunError
from heed.storage import files
from heed.storage.files import MissingFileError, read_bytes, read_list, read_object, read_text, read_yaml

NINE_LINES_OF_ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


def refused(read, path, *problems):
    with pytest.raises(RunError) as error:
        read(path)
    message = str(error.value)
    assert str(path) in message and "\n" not in message
    for problem in problems:
        assert problem in message
    return message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "the content is []: input should be an object"),
        ('"a"', 'the content is "a": input should be an object'),
        ("", "invalid JSON: EOF"),
        ('{"a": ', "invalid JSON"),
        ('{"a": ' * 100_000, "invalid JSON: recursion limit"),
        ('{"a": "\\ud83d"}', "invalid JSON: unexpected end of hex escape"),
        ('{"a": ' + "9" * 5000 + "}", "invalid JSON: number out of range"),
    ],
)
def test_json_of_another_type(tmp_path, text, problem):
    path = tmp_path / "report.json"
    path.write_text(text)
    assert "restore the file from a copy" in refused(read_object, path, f"{path} is damaged: ", problem)


def test_a_list_of_other_values(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text('["a", 5]')
    refused(lambda p: read_list(p, str), path, "1 is 5: input should be a valid string")
    path.write_text("{}")
    refused(read_list, path, "the content is {}: input should be a valid array")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (NINE_LINES_OF_ALIASES, "its aliases expand to too many values"),
        ("a: &a [*a]", "nested more than 64 levels deep"),
        ("[" * 5000, "nested too deep"),
        ("a: 2001-99-99", "it is not YAML"),
        ('a: "\\UFFFFFFFF"', "it is not YAML"),
        ("a: !!python/object/apply:os.system [ls]", "it is not YAML: line 1"),
        ("a: [1\nb: }", "it is not YAML: line 2"),
    ],
)
def test_yaml_that_is_none(tmp_path, text, problem):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    refused(read_yaml, path, problem)


def test_bytes_that_are_no_text_and_a_file_that_is_too_large(tmp_path):
    path = tmp_path / "labels.json"
    path.write_bytes(b'["caf\xe9"]')
    refused(read_list, path, "byte 6 is not UTF-8")
    with path.open("wb") as file:
        file.truncate(1 << 40)  # without a byte on the disk
    refused(read_list, path, f"it has more than {files.LIMIT:,} bytes")


def test_what_is_no_regular_file_is_never_waited_for(tmp_path):
    with pytest.raises(MissingFileError, match=r"gone\.json is missing"):
        read_text(tmp_path / "gone.json")
    os.mkfifo(tmp_path / "pipe.json")
    refused(read_text, tmp_path / "pipe.json", "is a named pipe, expected a file")
    (tmp_path / "folder.json").mkdir()
    refused(read_text, tmp_path / "folder.json", "is a folder, expected a file")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket.json"))
        refused(read_text, tmp_path / "socket.json", "is a socket, expected a file")


def test_links_lead_nowhere_else(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secret.json").write_text('{"key": 1}')
    (run / "report.json").symlink_to(tmp_path / "secret.json")
    refused(read_object, run / "report.json", "is a link to", "outside of its folder")
    with pytest.raises(RunError, match=r"^\S+report\.json is a link to "):
        read_object(run / "report.json")
    assert read_object(run / "report.json", links=True) == {"key": 1}
    (run / "own.json").write_text(json.dumps({"key": 2}))
    (run / "labels.json").symlink_to("own.json")
    assert read_object(run / "labels.json") == {"key": 2}
    (run / "circle.json").symlink_to("circle.json")
    refused(read_text, run / "circle.json", "cannot read")
    (run / "zero.json").symlink_to("/dev/zero")
    refused(read_bytes, run / "zero.json", "outside of its folder")
    (tmp_path / "other").symlink_to(run)
    assert read_object(tmp_path / "other" / "labels.json") == {"key": 2}  # the run folder itself may be a link


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "RUN", "one"],
        ["evaluate", "RUN"],
        ["look", "RUN", "one"],
        ["look", "RUN"],
        ["heads", "RUN"],
        ["align", "RUN", "my.en", "my.yo"],
        ["compare", "RUN", "OTHER"],
        ["pack", "RUN", "--out", "run.zip"],
        ["export", "RUN", "--to", "ctranslate2"],
        ["serve", "RUN"],
        ["check", "RUN"],
        ["train", "RUN", "--resume"],
        ["train", "translation", "data.name=dates", "--from", "RUN"],
        ["train", "translation", "data.name=dates", "tokenizer.from=RUN"],
    ],
    ids=" ".join,
)
def test_every_command_refuses_a_run_of_another_format_in_one_sentence(made_run, call, tmp_path, words):
    """Also where its settings have a field that this version does not know."""
    run = shutil.copytree(made_run("translation") / "finished", tmp_path / "old")
    (run / "format.json").write_text('{"format": 1}')
    (run / "config.yaml").write_text((run / "config.yaml").read_text() + "gone: 1\n")
    names = {"RUN": str(run), "OTHER": str(made_run("translation") / "finished")}
    code, out, err = call(*(re.sub("RUN|OTHER", lambda m: names[m[0]], word) for word in words))
    assert code == 2 and out == ""
    assert err.splitlines()[-1].endswith(
        f"'{run}' has format 1, and this version of heed reads format 2: train the run again, or use the version that "
        "wrote it"
    )
    assert len(err.splitlines()) == 1
