"""The server: its answers equal those of Python; who may ask, and how much; the line before the models; how it ends."""

import asyncio
import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient
from torch import nn

import heed
from commands import call
from heed.errors import ConfigError
from heed.serve.app import WAITING, Server, Worker
from heed.serve.requests import LookAt, flags_of
from heed.serve.served import open_runs
from heed.tasks import task_names
from small_runs import SMALL

TOKEN = "a-token-of-twenty-letters"
HOST = "127.0.0.1:8000"
ANSWERED = f"GET /v1/health HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


@pytest.fixture(scope="module")
def folders(small_run):
    """A trained run of every task."""
    return [small_run(name) for name in task_names()]


@pytest.fixture(scope="module")
def client(folders):
    server = Server(open_runs([str(one) for one in folders]))
    with TestClient(server.app([HOST], TOKEN), base_url=f"http://{HOST}") as made:
        made.headers["Authorization"] = f"Bearer {TOKEN}"
        yield made


@pytest.fixture(scope="module")
def inputs(data):
    """An input of every task, as a request has it."""
    picture = base64.b64encode((data / "photos" / "a" / "0.png").read_bytes()).decode()
    texts = dict.fromkeys(task_names(), "one two three")
    other = {"images": picture, "table": {"width": 0.1, "length": 0.2}, "dialogue": ["one two", "three"],
             "series": {"sold": [0.1, 0.2, 0.3, 0.4, 0.5], "made": [0.5, 0.4, 0.3, 0.2, 0.1]},
             "pretraining": "one [MASK] two"}  # fmt: skip
    for name in task_names():  # pairs of texts
        first = SMALL[name].predict[0].split("\t")
        texts |= {name: {"text": first[0], "second": first[1]}} if len(first) > 1 else {}
    return texts | other


def post(client, path, body, **headers):
    return client.post(path, json=body, headers=headers)


every_task = pytest.mark.parametrize("name", task_names())


def number_of(name):
    return task_names().index(name)


def as_python(run, name, given):
    """The input as Python's methods take it."""
    if isinstance(given, dict) and {*given} == {"text", "second"}:
        return given["text"], given["second"]
    if name == "images":
        from heed.data.pictures import decode

        return decode.decode(base64.b64decode(given))
    return given


# Answers ---------------------------------------------------------------------------------------------------------


@every_task
def test_predictions_equal_those_of_python(name, client, folders, inputs):
    run, asked = heed.load(folders[number_of(name)]), inputs[name]
    body = {"run": number_of(name), "input": asked}
    answer = post(client, "/v1/predict", body)
    assert answer.status_code == 200, answer.text
    output = answer.json()["output"]
    if name == "dialogue":
        found = run.predict(json.dumps({"turns": asked}))
        assert output["response"] == found.text
    elif name == "series":
        assert output == run.predict(asked).tolist()
    else:
        found = json.loads(json.dumps(run.predict(as_python(run, name, asked)).as_json()))
        if name == "pretraining":  # Python's default is five candidates
            found["masks"] = [one[:1] for one in found["masks"]]
        assert {**output, **found} == output
    several = post(client, "/v1/predict", {"run": number_of(name), "inputs": [asked, asked]})
    rounded = [json.loads(one, parse_float=lambda text: round(float(text), 4)) for one in (several.text, answer.text)]
    assert rounded[0] == {"outputs": [rounded[1]["output"]] * 2}
    assert post(client, "/v1/predict", {"run": number_of(name), "inputs": []}).json() == {"outputs": []}


@pytest.mark.parametrize("name", [name for name in task_names() if name != "table"])
def test_looks_and_their_files_equal_those_of_python(name, client, folders, inputs):
    run, asked = heed.load(folders[number_of(name)]), inputs[name]
    steps = {} if name == "images" else {"steps": True}
    body = {"run": number_of(name), "input": asked, **steps}
    look = run.look(as_python(run, name, asked), **steps)
    for form in ("html", "svg", "png", "json"):
        saved = post(client, "/api/save", {"look": body, "format": form})
        drawn = getattr(look, form)()
        assert saved.status_code == 200, saved.text
        assert saved.content == (drawn if isinstance(drawn, bytes) else drawn.encode())


@pytest.mark.parametrize("option", [{"steps": True}, {"overview": True}, {"sort": "entropy"}])
def test_what_looks_at_pictures_lack_is_refused(option, client, inputs):
    look = {"run": number_of("images"), "input": inputs["images"], **option}
    answer = post(client, "/api/save", {"look": look, "format": "html"})
    assert answer.status_code == 400 and next(iter(option)) in answer.json()["error"]


def test_every_option_of_the_commands_is_taken_and_checked(client, inputs):
    listed = client.get("/v1/runs").json()["runs"]
    assert [one["task"] for one in listed] == task_names()
    for number, one in enumerate(listed):
        for command in ("predict", "look"):
            assert [f["name"] for f in one["options"][command]] == [
                flag.name.replace("-", "_") for flag in flags_of(one["task"], command)
            ]
        wrong = post(client, "/v1/predict", {"run": number, "input": inputs[one["task"]], "options": {"colour": 1}})
        assert wrong.status_code == 400 and "options.colour" in wrong.json()["error"]
    body = {"run": number_of("translation"), "input": "one", "options": {"nbest": 2, "beam": 3}}
    assert len(post(client, "/v1/predict", body).json()["output"]) == 2
    for options, message in [
        ({"nbest": 0}, "options.nbest is 0: input should be greater than or equal to 1"),
        ({"nbest": "2"}, 'options.nbest is "2": input should be a valid integer'),
        ({"engine": "x"}, "options.engine: extra inputs are not permitted"),
        ({"temperature": 0.5}, "temperature"),
    ]:
        answer = post(client, "/v1/predict", {"run": number_of("translation"), "input": "one", "options": options})
        assert answer.status_code == 400 and message in answer.json()["error"]


def test_a_look_beside_another_run_of_the_server_names_it_by_its_number(small_run, tmp_path):
    other = shutil.copytree(small_run("translation", seed=2), tmp_path / "second")
    first, second = open_runs([str(small_run("translation")), str(other)])
    asked = LookAt(input="one two", options={"beside": ["run-1"]})
    look = first.look(asked)
    same = heed.load(first.path).look("one two", beside=heed.load(second.path))
    assert look.html() == same.html() and first.look(asked) is look
    (second.path / "checksums.json").unlink()  # now it counts as unfinished, with other weights
    (second.path / "model.safetensors").unlink()
    assert first.look(asked) is not look
    for wrong in ("run-2", str(second.path), "../second"):
        with pytest.raises(ConfigError, match="unknown --beside"):
            first.look(LookAt(input="one two", options={"beside": [wrong]}))


def test_a_number_opens_and_its_edit_sets_the_weight(client):
    look = {"run": number_of("translation"), "input": "one two"}
    opened = post(
        client, "/api/number", {"look": look, "map": "cross attention, layer 0, head 0", "row": 0, "column": 1}
    ).json()
    names = {}
    exec("\n".join(opened["numpy"]) if isinstance(opened["numpy"], list) else opened["numpy"], names)
    assert names["weight"] == pytest.approx(opened["weight"], abs=1e-5)
    look["edits"] = [{**opened["edit"], "weight": 0.625}]
    assert post(
        client, "/api/number", {"look": look, "map": "cross attention, layer 0, head 0", "row": 0, "column": 1}
    ).json()["weight"] == pytest.approx(0.625)
    wrong = post(
        client, "/api/number", {"look": look, "map": "cross attention, layer 0, head 0", "row": 99, "column": 1}
    )
    assert wrong.status_code == 400 and "no row 99" in wrong.json()["error"]


def test_an_output_is_streamed_as_it_is_written(client, folders):
    body = {"run": number_of("language_modelling"), "input": "one two", "options": {"length": 5}}
    pieces = [json.loads(line)["piece"] for line in post(client, "/api/write", body).text.splitlines()]
    assert len(pieces) > 1
    run = heed.load(folders[number_of("language_modelling")])
    assert "".join(pieces).strip() == run.predict("one two", length=5).text.strip()
    (refused,) = post(
        client, "/api/write", {**body, "options": {"temperature": -1.0, "sample": True}}
    ).text.splitlines()
    assert "temperature" in json.loads(refused)["error"]


def test_curves_are_those_of_python(client, folders):
    assert post(client, "/api/curves", {"run": 0}).text == heed.load(folders[0]).curves().html()


def test_a_run_without_weights_yet_says_so(small_run, tmp_path):
    out = shutil.copytree(small_run("classification"), tmp_path / "begun")
    for name in ("model.safetensors", "report.json", "checksums.json", "README.md"):
        (out / name).unlink()
    best = sorted((out / "checkpoints").iterdir())
    away = [one.rename(tmp_path / one.name) for one in best]
    (runs,) = open_runs([str(out)])
    with TestClient(Server([runs]).app([HOST], TOKEN), base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        (listed,) = client.get("/v1/runs").json()["runs"]
        assert listed["training"] and "has no weights yet" in listed["error"]
        for one in away:
            one.rename(out / "checkpoints" / one.name)
        (listed,) = client.get("/v1/runs").json()["runs"]
        assert "error" not in listed and "not finished" in listed["note"] + " not finished"
        assert client.post("/v1/predict", json={"input": "one two"}).is_success


# Who may ask, and how much ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": "127.0.0.1:8000.evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:8001"}, 403),
        ({"Origin": f"http://{HOST}"}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": f"Bearer {TOKEN}\u00e9".encode("latin-1")}, 401),
    ],
)
def test_only_this_page_with_the_token_may_ask(headers, status, client):
    for path in ("/v1/runs", "/api/save", "/nowhere", "/v1/runs/"):
        answer = client.get(path, headers=headers)
        expected = {"/api/save": 405, "/nowhere": 404, "/v1/runs/": 404}.get(path, 200) if status == 200 else status
        assert answer.status_code == expected and (answer.is_success or "error" in answer.json())
    assert "set-cookie" not in answer.headers and "access-control-allow-origin" not in answer.headers


def test_the_page_runs_its_own_script_alone_and_asks_only_this_server(client):
    answer = client.get("/", headers={"Authorization": ""})
    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 200 and "connect-src 'self'" in policy and "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[\w+/=]+';", policy) and "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff" and TOKEN not in answer.text
    assert not [name for name in task_names() if f">{name}<" in answer.text]  # runs are listed for who has the token
    assert answer.text.count("<script") == 1 and not re.search(r"\son\w+=", answer.text)
    assert client.get("/v1/health", headers={"Authorization": ""}).json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the content: invalid JSON: EOF"),
        (b"[1]", "the content is [1]"),
        (b'{"input": NaN}', "input is NaN: input should be"),
        (b"[" * 60_000, "the content: invalid JSON: recursion"),
        (b'"\xff"', "the content: invalid JSON: invalid unicode"),
        (
            b'{"run": ' + b"9" * 4_000 + b', "input": "x"}',
            "run is a huge number, expected",
        ),
        (b'{"run": 99, "input": "x"}', "run is 99, expected a number of a run, from 0 to 9"),
        (b'{"run": -1, "input": "x"}', "run is -1"),
        (b'{"run": 5}', "give either input, for one, or inputs, a list"),
        (b'{"run": 0, "input": "x", "inputs": []}', "give either input"),
        (b'{"run": 0, "input": "x", "inputs": null}', "inputs is null: input should be"),
        (b'{"run": 0, "input": null}', "input is null: input should be"),
        (b'{"run": 0, "input": " "}', 'input is " ": the text is blank'),
        (b'{"run": 0, "inputs": ["a", 1]}', "inputs.1 is 1: input should be a valid string"),
        (b'{"run": 0, "input": "\\ud800"}', "the content: invalid JSON"),
    ],
)
def test_a_malformed_body_is_told_with_its_field(content, message, client):
    answer = client.post("/v1/predict", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and message in answer.json()["error"], answer.text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("images", "../../etc/passwd", 'input is "../../etc/passwd": only base64 data'),
        ("images", "/etc/passwd/", 'input is "/etc/passwd/": is not a picture'),
        ("images", "test:3", 'input is "test:3": only base64 data'),
        ("images", base64.b64encode(b"no picture").decode(), "is not a picture"),
        (
            "series",
            "/etc/passwd",
            'input is "/etc/passwd": input should be a valid dictionary (expected: an object with a list of',
        ),
        ("table", {"width": "1"}, 'input.width is "1": input should be a valid number'),
        ("table", {"width": 1}, "no column 'length'"),
        ("dialogue", [], "input is []: list should have at least 1 item"),
        ("dialogue", ["one", ""], 'input.1 is "": the text is blank'),
        ("classification", None, "input is null: input should be a valid string (expected: a text)"),
        ("classification", "x" * 2001, "string should have at most 2000 characters"),
    ],
)
def test_no_input_names_a_file_or_is_of_another_kind(name, value, message, client):
    asked = {"run": number_of(name), "input": value}
    bodies = {"/v1/predict": asked} | ({} if name == "table" else {"/api/save": {"look": asked, "format": "html"}})
    for path, body in bodies.items():
        answer = post(client, path, body)
        assert answer.status_code == 400 and message in answer.json()["error"], answer.text


def test_edits_are_data_and_never_files(client, tmp_path):
    (tmp_path / "edits.json").write_text('{"edit": "uniform"}', encoding="utf-8")
    look = {"run": number_of("translation"), "input": "one", "edits": [str(tmp_path / "edits.json")]}
    answer = post(client, "/api/save", {"look": look, "format": "html"})
    assert answer.status_code == 400 and answer.json()["error"].startswith("look.edits.0 is ")


def test_a_long_body_is_refused_before_it_is_read(folders):
    server = Server(open_runs([str(folders[number_of("classification")])]))
    with TestClient(server.app([HOST], TOKEN), base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        sent = []

        def endless():
            for _ in range(10**6):
                sent.append(1)
                yield b"x" * 1000

        assert (
            client.post("/v1/predict", content=endless(), headers={"Content-Type": "application/json"}).status_code
            == 413
        )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
FIELDS = "run input inputs options look map row column format edits steps layer head mechanism overview sort".split()
VALUES = JSON | st.sampled_from(
    [0, 1, 5, "one two", "all", "mean", "html", {"nbest": 2}, {"edit": "uniform"}, ["one", "two"]]
)


@settings(
    max_examples=int(os.environ.get("HEED_FUZZ", "60")) * 20 if "HEED_FUZZ" in os.environ else 150,
    deadline=None,
    derandomize="HEED_FUZZ" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(
    path=st.sampled_from(["/v1/predict", "/api/number", "/api/save", "/api/write", "/api/curves"]),
    body=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6) | JSON,
    run=st.integers(0, 9),
)
def test_no_request_breaks_the_server(path, body, run, client, capfd):
    if isinstance(body, dict):
        body.setdefault("run", run)
    answer = client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400), answer.text
    assert answer.status_code == 200 or set(answer.json()) == {"error"}
    assert capfd.readouterr().err == ""


def test_runs_are_named_by_their_folders_unless_two_are_called_alike(folders):
    one, other = folders[0], folders[1]
    assert [run.name for run in open_runs([str(one), f"{other}/"])] == [one.name, other.name]
    assert [run.name for run in open_runs([str(one), str(one)])] == [str(one)] * 2


# The line before the models --------------------------------------------------------------------------------------


def together(*awaited):
    async def run():
        worker = Worker()
        async with worker:
            return await asyncio.gather(*(one(worker) for one in awaited), return_exceptions=True)

    return asyncio.run(run())


def test_more_requests_than_the_line_holds_are_refused():
    release = threading.Event()

    async def later(worker):
        await asyncio.sleep(0.2)  # only then, so that no call ends before the last is made
        release.set()

    found = together(*(lambda worker: worker.call(lambda: release.wait(5)) for _ in range(WAITING + 3)), later)
    assert sum(isinstance(one, HTTPException) for one in found) in (2, 3)
    assert all(one is True or one is None or isinstance(one, HTTPException) for one in found)


def test_what_nobody_waits_for_is_stopped_at_the_next_module():
    seen, layer = [], nn.Identity()

    def long():
        for _ in range(5_000):
            layer(torch.ones(1))
            seen.append(1)
            time.sleep(0.001)

    async def give_up(worker):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(worker.call(long), 0.1)
        return await worker.call(lambda: "next")

    assert together(give_up) == ["next"] and 0 < len(seen) < 5_000


def test_too_slow_a_look_ends_with_a_message(folders, monkeypatch):
    (one,) = open_runs([str(folders[number_of("classification")])])

    def slow(*_):
        while True:
            one.run().model(torch.zeros(1, 2, dtype=torch.long), None)

    monkeypatch.setattr(one, "look", slow)
    monkeypatch.setattr(one.run().model, "forward", lambda *_: time.sleep(0.01))
    with TestClient(Server([one], seconds=0.3).app([HOST], TOKEN), base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        answer = client.post("/api/save", json={"look": {"input": "one"}, "format": "html"})
        assert answer.status_code == 504 and "no answer within 0.3 s" in answer.json()["error"]
        monkeypatch.undo()
        assert client.post("/v1/predict", json={"input": "one"}).is_success


def test_an_error_that_is_no_exception_ends_neither_the_answers_nor_the_server(folders, monkeypatch, capfd):
    class Panic(BaseException):
        """As Rust's, in a library."""

    def panics(*_):
        raise Panic("of a library")

    (one,) = open_runs([str(folders[number_of("classification")])])
    with TestClient(Server([one]).app([HOST], TOKEN), base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        monkeypatch.setattr(one, "predict", panics)
        answer = client.post("/v1/predict", json={"input": "one"})
        assert answer.status_code == 500 and answer.json() == {"error": "an error in heed; the server's output has it"}
        monkeypatch.undo()
        assert client.post("/v1/predict", json={"input": "one"}).is_success
    assert "Panic('of a library')" in capfd.readouterr().err


@contextlib.contextmanager
def listening_to(folder):
    """The address of a server with a run, and its guard."""
    guard = Server(open_runs([str(folder)])).app([HOST], TOKEN)
    config = uvicorn.Config(guard, http="h11", log_level="critical")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        serving = uvicorn.Server(config)
        thread = threading.Thread(target=serving.run, args=([listening],))
        thread.start()
        try:
            yield listening.getsockname(), guard
        finally:
            serving.should_exit = True
            thread.join()


def test_a_request_with_two_lengths_is_refused_and_what_it_hides_is_not_read(folders):
    hidden = ANSWERED.decode()
    sent = (
        f"POST /v1/predict HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    with listening_to(folders[0]) as (address, _), socket.create_connection(address, timeout=5) as client:
        client.sendall(f"{sent}\r\n\r\n{hidden}".encode())
        got = b""
        with contextlib.suppress(ConnectionError):
            while part := client.recv(10_000):
                got += part
    assert got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.1") == 1
    assert b"Content-Length and Transfer-Encoding exclude each other" in got


# The process -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def process(*words):
    started = subprocess.Popen(
        [sys.executable, "-m", "heed", "serve", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started, re.search(r"http://127\.0\.0\.1:(\d+)/(?:#(\S+))?", started.stdout.readline())
    finally:
        started.kill()
        started.communicate()


@contextlib.contextmanager
def asked(port, token, path, body=None):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)) as connection:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("GET" if body is None else "POST", path, body and json.dumps(body), headers)
        with connection.getresponse() as answer:
            yield answer


def test_ctrl_c_ends_it_at_once_also_with_an_open_stream_and_a_half_sent_request(folders):
    body = {"input": "one", "options": {"length": 100_000}}
    with process(folders[number_of("language_modelling")]) as (started, link):
        with socket.create_connection(("127.0.0.1", int(link[1]))) as half:
            half.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: 127")
            with asked(link[1], link[2], "/api/write", body) as gone:  # a client that goes away in the middle
                assert gone.readline().startswith(b'{"piece"')
            with asked(link[1], link[2], "/api/write", body) as stream:
                assert stream.readline().startswith(b'{"piece"')
                begun = time.monotonic()
                started.send_signal(signal.SIGINT)
                assert started.wait(timeout=20) == 0 and time.monotonic() - begun < 5
        assert started.stderr.read() == ""


def test_it_ends_when_nobody_asks_and_takes_a_token_from_a_file(folders, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    with process(folders[0], "--minutes", "0.02", "--token-file", tmp_path / "token") as (started, link):
        with asked(link[1], TOKEN, "/v1/runs") as answer:
            assert link[2] is None and answer.status == 200
        assert started.wait(timeout=20) == 0


def test_other_machines_need_a_token_file(capsys, tmp_path):
    code, _, err = call(capsys, "serve", "--host", "0.0.0.0")
    assert code == 2 and "--host 0.0.0.0 lets other machines ask: give --token-file FILE" in err
    (tmp_path / "short").write_text("abc", encoding="utf-8")
    code, _, err = call(capsys, "serve", "--token-file", tmp_path / "short")
    assert code == 2 and "must have one token of at least 20 letters" in err
