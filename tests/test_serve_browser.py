"""The page of `heed serve` in Chromium: every family is asked, looked into, edited and saved; keys, width, contrast."""

import json
import shutil
import socket
import threading
from dataclasses import replace

import pytest
import uvicorn

import heed
from heed.serve.app import Server
from heed.serve.served import open_runs
from small_runs import SMALL
from test_browser import CONTRAST, browser  # noqa: F401

TOKEN = "a-token-of-twenty-letters"
TINY = {"d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 8}
MODELS = {
    "bahdanau": ("translation", {"d_embedding": 4, "d_hidden": 4, "d_attention": 4}),
    "seq2seq": ("translation", {"d_embedding": 4, "d_hidden": 4}),
    "transformer": ("translation", TINY),
    "rnn": ("classification", {"d_embedding": 4, "d_hidden": 4}),
    "self_rnn": ("classification", {"d_embedding": 4, "d_hidden": 4, "d_attention": 4}),
    "encoder": ("classification", TINY),
    "tags": ("tagging", None),
    "gpt": ("language_modelling", None),
    "lstmn": ("language_modelling", {"d_embedding": 4, "d_hidden": 4, "d_attention": 4}),
    "bert": ("pretraining", None),
    "talk": ("dialogue", None),
    "mails": ("summarisation", None),
    "photos": ("images", None),
    "numbers": ("table", None),
    "sales": ("series", None),
}
"""Run -> its task, and the settings of its model where it is not that of the small runs."""
TYPED = {
    "talk": "one two\nthree",
    "numbers": json.dumps({"width": 0.1, "length": 0.2}),
    "sales": json.dumps({"sold": [0.1, 0.2, 0.3, 0.4, 0.5], "made": [0.5, 0.4, 0.3, 0.2, 0.1]}),
    "bert": "one [MASK] two",
}


@pytest.fixture(scope="module")
def folders(data, small_run, tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    for name, (task, model) in MODELS.items():
        if model is None:
            shutil.copytree(small_run(task), home / name)
            continue
        settings = {key: value for key, value in SMALL[task].settings.items() if not key.startswith("model.")}
        settings |= {f"model.{key}": value for key, value in model.items()}
        replace(SMALL[task], model=name, settings=settings).trained(data, home / name)
    return {name: home / name for name in MODELS}


@pytest.fixture(scope="module")
def address(folders):
    """The address of a server with all runs."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        guard = Server(open_runs([str(one) for one in folders.values()])).app([host], TOKEN)
        serving = uvicorn.Server(uvicorn.Config(guard, log_level="critical", timeout_graceful_shutdown=0, ws="none"))
        thread = threading.Thread(target=serving.run, args=([listening],))
        thread.start()
        yield f"http://{host}/#{TOKEN}"
        serving.should_exit = True
        thread.join()


@pytest.fixture
def opened(browser, address):  # noqa: F811
    """Opens the page; on leaving, only this server was asked and nothing complained."""
    contexts, heard = [], []

    def open_page(*, width=1100, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        own = address.partition("#")[0]
        page.on(
            "request",
            lambda one: None if one.url.startswith((own, "blob:", "data:", "file:")) else heard.append(one.url),
        )
        page.goto(address)
        page.wait_for_selector("#inputs textarea")
        return page

    yield open_page
    for context in contexts:
        context.close()
    refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"  # said by the browser
    assert [one for one in heard if one != refused] == []


def test_the_page_asks_for_the_token_that_the_address_lacks(browser, address):  # noqa: F811
    page = browser.new_page()
    page.goto(address.partition("#")[0])
    for typed in (f"{TOKEN}x", TOKEN):
        page.wait_for_selector("#unlock input", state="visible")
        assert page.locator("#menu option").count() == 0
        page.fill("#unlock input", typed)
        page.keyboard.press("Enter")
    page.wait_for_selector("#inputs textarea")
    page.wait_for_selector("#unlock", state="hidden")
    assert page.locator("#menu option").all_inner_texts() == list(MODELS)
    page.close()


def ask(page, name, data, options=()):
    """Choose a run, type or choose its input, and wait for the answer."""
    page.select_option("#menu select", str(list(MODELS).index(name)))
    if name == "photos":
        page.set_input_files("#inputs input", data / "photos" / "a" / "0.png")
        page.wait_for_selector("#inputs img[src]")
    else:
        page.fill("#inputs textarea", TYPED.get(name, "one two three"))
    for option in options:
        page.eval_on_selector(f"#options [data-for=look] [name={option}]", "one => { one.checked = true; }")
    page.click("#go")
    settled(page)


def settled(page):
    page.wait_for_selector("#stop", state="hidden")
    page.wait_for_selector("#answer:visible")
    assert page.inner_text("#state") == ""


def pin(page, row, column, section="section.map >> nth=0"):
    page.locator(section).locator("[role=grid] tbody tr").nth(row).locator("td").nth(column).click()
    page.wait_for_selector(".cell")


@pytest.mark.parametrize("name", list(MODELS))
def test_every_family_answers_and_shows_what_its_export_shows(name, opened, folders, data, tmp_path):
    page = opened()
    ask(page, name, data, [] if name in ("photos", "numbers") else ["steps"])
    assert page.inner_text("#answer .scroll").strip()
    if name == "numbers":
        assert page.locator("#shown > *").count() == 0
        return
    assert page.locator("#shown > section").count() > 0
    for form in ("html", "svg", "png", "json"):
        with page.expect_download() as saved:
            page.click(f"#save button[value={form}]")
        saved.value.save_as(tmp_path / f"look.{form}")
    exported = opened()
    exported.goto((tmp_path / "look.html").as_uri())
    inside = "ROOT td, ROOT h2, ROOT .value, ROOT svg text, ROOT figcaption"
    texts = f"() => [...document.querySelectorAll('{inside}')].map((one) => one.textContent)"
    live, file = (one.evaluate(texts.replace("ROOT", root)) for one, root in ((page, "#shown"), (exported, "main")))
    assert live == file and live
    assert (tmp_path / "look.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "look.json").read_text("utf-8"))["format"].startswith("heed-")


@pytest.mark.parametrize("name", ["bahdanau", "transformer", "encoder", "gpt", "talk", "mails"])
def test_a_weight_is_opened_set_and_set_back(name, opened, folders, data):
    page = opened()
    ask(page, name, data)
    before = page.inner_text("section.map [role=grid] >> nth=0")
    pin(page, 1, 1)
    code = page.inner_text(".cell pre")
    names = {}
    exec(code, names)
    assert names["weight"] == pytest.approx(float(page.inner_text(".cell strong").split()[-1]), abs=1e-5)
    page.eval_on_selector(".cell input", "one => { one.value = 0.75; one.dispatchEvent(new Event('input')); }")
    moved = "() => document.querySelector('section.map [role=grid] tbody').rows[1].cells[2].textContent === '0.75'"
    page.wait_for_function(moved)  # while the slider moves
    page.click(".cell .set")
    page.wait_for_selector("#edits li")
    settled(page)
    row = page.locator("section.map [role=grid] >> nth=0").locator("tbody tr").nth(1)
    assert row.locator("td").nth(1).inner_text() == "0.75"
    assert page.inner_text("#answer h2") == "Output, without the edits"
    (edit,) = (json.loads(one) for one in page.locator("#edits li").all_inner_texts())
    look = heed.load(folders[name]).look("one two three" if name != "talk" else ["one two", "three"], edits=[edit])
    titles = page.locator("#shown section.map h2").all_inner_texts()
    assert titles == [one.title for one in look.look.drawn]
    page.click("#undo")
    page.wait_for_selector("#edits", state="hidden")
    settled(page)
    assert page.inner_text("section.map [role=grid] >> nth=0") == before


def test_the_keyboard_alone_asks_opens_a_number_and_edits(opened):
    page = opened()
    page.keyboard.type("one two")
    page.keyboard.press("Enter")
    settled(page)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('[role=grid]') !== null"):
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector(".cell")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('.cell') !== null"):
            break
    assert page.evaluate("document.activeElement.type") == "range"
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#edits li")
    settled(page)
    assert json.loads(page.inner_text("#edits li"))["weight"] == 1


def test_overview_attribution_and_curves_are_on_the_page(opened, data):
    page = opened()
    ask(page, "encoder", data, ["overview"])
    page.wait_for_selector(".overview[data-drawn]")
    page.click('td[data-map="3"] button')
    page.wait_for_selector("section.map")
    pin(page, 0, 1)
    assert "layer 1, head 1" in page.inner_text(".cell h3")
    page.click("#options summary")
    page.select_option("#options [name=attribution]", "loo")
    page.click("#go")
    settled(page)
    assert page.locator("#shown section.shading").count() >= 1
    page.click("#curves summary")
    page.wait_for_selector("#curves svg")


def test_an_error_names_the_field_and_the_page_goes_on(opened, data):
    page = opened()
    page.fill("#inputs textarea", "one")
    page.click("#options summary")
    page.fill("#options [name=layer]", "7")
    assert (
        page.inner_text("#options fieldset:nth-of-type(2) .hint")
        == "Layer from 0, negative from the end (default -1), or all."
    )
    page.click("#go")
    page.wait_for_selector("#state.failed")
    assert "no layer 7" in page.inner_text("#state")
    page.fill("#options [name=layer]", "")
    page.click("#go")
    settled(page)


def test_two_tabs_ask_at_once(opened, data):
    first, second = opened(), opened()
    for page, name in ((first, "transformer"), (second, "gpt")):
        page.select_option("#menu select", str(list(MODELS).index(name)))
        page.fill("#inputs textarea", "one two three")
    first.click("#go")
    second.click("#go")
    settled(first)
    settled(second)
    assert "transformer" in first.inner_text("h1") and "gpt" in second.inner_text("h1")
    assert first.locator("section.map").count() and second.locator("section.map").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_the_page_can_be_read_in_both_schemes_and_on_phones(scheme, width, opened, data):
    page = opened(width=width, scheme=scheme)
    ask(page, "transformer", data, ["steps"])
    pin(page, 1, 0)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.wait_for_selector("#curves svg")
    page.eval_on_selector(".cell input", "one => { one.value = 0.5; one.dispatchEvent(new Event('input')); }")
    page.click(".cell .set")
    page.wait_for_selector("#edits li")
    settled(page)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
