"""Pages of looks in a browser: their size, keys, contrast and numbers, and that they fetch nothing.

Needs playwright and Chromium; skipped where one is missing, unless HEED_BROWSER=required (as in .ci/run).
"""

import os
import re
import shutil
from dataclasses import replace

import pytest
import torch

from heed.lessons import run_lesson
from heed.show.beams import ShownBeams
from heed.show.draw_html import LARGEST
from heed.show.shown import ShownLook
from heed.watch.looks import Comparison, DecoderFrame, EncoderFrame, Look
from heed.watch.maps import Axis, Map, Part, difference_of
from test_draw import look_to_html
from test_ensembles import MADE

CHROMIUM = shutil.which("chromium")
LENGTH, LAYERS, HEADS = 512, 12, 12
COUNT_NODES = (
    "(() => { let n = 0; const w = document.createTreeWalker(document); while (w.nextNode()) n++; return n; })()"
)


def without_browser(reason):
    if os.environ.get("HEED_BROWSER") == "required":
        pytest.fail(f"HEED_BROWSER=required, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        without_browser("playwright is not installed")
    if CHROMIUM is None:
        without_browser("there is no chromium (apt-get install chromium)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page in a file; on leaving, nothing was requested and nothing complained."""
    pages, heard = [], []

    def open_page(html, *, width=1100, scheme="light", script=True):
        (tmp_path / "look.html").write_text(html, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, java_script_enabled=script
        )
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url) if request.url.startswith("http") else None)
        page.goto((tmp_path / "look.html").as_uri())
        if script and page.query_selector(".overview"):
            page.wait_for_selector(".overview td button", state="attached")
        pages.append(context)
        return page

    yield open_page
    for context in pages:
        context.close()
    assert heard == []


def axis(length, name="text"):
    return Axis(name, "token", tuple(f"{name}{i}" for i in range(length)))


def heads(length, layers, heads, masked=True):
    """Maps of every head, half of the layers causal."""
    random = torch.Generator().manual_seed(0)
    maps, on, causal = [], axis(length), torch.ones(length, length).tril().bool()
    for layer in range(layers):
        for head in range(heads):
            scores = torch.randn(length, length, generator=random) * (1 + head / 4)
            mask = causal if layer % 2 and masked else None
            scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
            maps.append(Map("encoder", layer, head, on, on, scores.softmax(-1), None, mask, "How to read it."))
    return maps


def look(maps):
    return Look("a model", "a text", "", tuple(maps), (), ())


@pytest.fixture(scope="module")
def large():
    maps = heads(LENGTH, LAYERS, HEADS)
    return maps, look_to_html(look(maps))


@pytest.fixture(scope="module")
def small():
    maps = heads(7, 2, 6)
    return maps, look_to_html(look(maps))


def show(page, index):
    page.click(f'td[data-map="{index}"] button')
    page.wait_for_selector("section.map")


def status(page):
    return page.inner_text("section.map .status")


def test_144_heads_of_512_tokens_are_a_small_page(large, opened):
    maps, html = large
    assert len(html.encode()) < 5_000_000
    page = opened(html)
    page.wait_for_selector(".overview[data-drawn]", timeout=120_000)
    drawn = "(all) => all.filter((one) => one.width === 64 && one.height === 64).length"
    assert page.eval_on_selector_all("td[data-map] canvas", drawn) == LAYERS * HEADS
    show(page, 13)
    assert page.locator("section.map").count() == 1
    assert page.evaluate(COUNT_NODES) < 5000
    show(page, 14)
    assert page.locator("section.map h2").inner_text() == maps[14].title
    assert page.locator("section.map").count() == 1


def test_the_kept_weights_of_a_long_row_are_right_and_their_mass_is_said(large, opened):
    maps, html = large
    page = opened(html)
    show(page, 3)
    page.select_option(".row select", "16")
    for row in (0, 300):
        page.locator(".queries button").nth(row).click()
        weights = maps[3].weights[row]
        best, keys = weights.topk(LARGEST)
        lines = page.locator(".row tbody tr").all_inner_texts()
        shown = [line.split("\t") for line in lines[:LARGEST]]
        assert sorted(int(number) - 1 for _, number, _ in shown) == sorted(keys.tolist())
        for _, number, weight in shown:
            assert float(weight) == pytest.approx(float(weights[int(number) - 1]), abs=0.01)
        assert lines[LARGEST].startswith(f"{LENGTH - LARGEST} others")
        covered = re.search(r"the 16 largest have ([\d.]+) of the weight", status(page))
        assert float(covered[1]) == pytest.approx(float(best.sum()), abs=0.03)


def test_keys_move_open_and_close(small, opened):
    maps, html = small
    page = opened(html)
    page.focus('td[data-map="0"] button')
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_selector("section.map")
    assert page.inner_text("section.map h2") == maps[7].title == "encoder attention, layer 1, head 1"
    page.keyboard.press("Escape")
    assert page.locator("section.map").count() == 0
    assert page.evaluate("document.activeElement.parentNode.dataset.map") == "7"


def test_keys_reach_every_cell_of_an_opened_map_with_the_right_numbers(small, opened):
    maps, html = small
    page = opened(html)
    show(page, 2)
    cells = page.locator("section.map [role=grid] td")
    assert cells.count() == 49
    page.focus("section.map [role=grid] td[tabindex='0']")
    for row in range(7):
        page.keyboard.press("Home")
        for column in range(7):
            said = page.evaluate("document.activeElement.getAttribute('aria-label')")
            assert said.startswith(f"text \u2068text{row}\u2069 -> text \u2068text{column}\u2069")
            assert float(said.split()[-1]) == pytest.approx(float(maps[2].weights[row, column]), abs=0.01)
            page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
    show(page, 8)  # of a causal layer
    page.locator("section.map [role=grid] td").nth(1).click()
    assert "masked" in status(page)


def test_keys_reach_every_cell_of_a_large_map(large, opened):
    page = opened(large[1])
    show(page, 20)
    page.focus("section.map .matrix canvas")
    for key in ("End", "ArrowDown", "ArrowDown", "Home", "ArrowRight"):
        page.keyboard.press(key)
    assert "text2" in status(page) and "text1" in status(page)
    page.keyboard.press("Enter")
    assert "pinned" in status(page)
    page.keyboard.press("Escape")
    assert "pinned" not in status(page) and page.locator("section.map").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("section.map").count() == 0


def test_a_part_of_a_large_map_is_enlarged_by_dragging_and_by_keys(large, opened):
    page = opened(large[1])
    show(page, 0)
    canvas = page.locator("section.map .matrix canvas")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
    page.mouse.up()
    rows = re.search(r"rows (\d+) to (\d+), columns (\d+) to (\d+)", page.inner_text(".zoom .hint"))
    top, bottom, left, right = map(int, rows.groups())
    assert 1 < top < bottom < LENGTH and 1 < left < right < LENGTH and right - left > bottom - top
    canvas.focus()
    page.keyboard.press("0")
    assert "Drag" in page.inner_text(".zoom .hint")
    for _ in range(20):
        page.keyboard.press("+")
    assert "rows" in page.inner_text(".zoom .hint")
    for _ in range(6):  # the part that is shown follows the chosen cell
        page.keyboard.press("ArrowDown")
    first, last = map(int, re.search(r"rows (\d+) to (\d+)", page.inner_text(".zoom .hint")).groups())
    chosen = int(re.search(r"text(\d+)", status(page))[1]) + 1
    assert first <= chosen <= last and last - first == 3


@pytest.mark.parametrize(("width", "columns", "fits"), [
    (380, 25, True), (640, 25, True), (1280, 25, True), (2560, 25, True), (1280, 60, True), (380, 60, False),
])  # fmt: skip
def test_a_map_is_as_wide_as_the_page_and_whole(width, columns, fits, opened):
    """Cells shrink to 8 px, with numbers while they fit; then the map scrolls. The whole page never does."""
    page = opened(ShownLook(look(heads(columns, 1, 1)), False).html(), width=width)
    box = page.evaluate(
        "(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(document.querySelector('.matrix .scroll'))"
    )
    assert (box[0] <= box[1]) == fits and page.evaluate("document.documentElement.scrollWidth") <= width
    cell = page.locator("section.map td").first
    assert cell.bounding_box()["width"] >= 8
    shown = cell.evaluate("(cell) => parseFloat(getComputedStyle(cell).fontSize)")
    assert (shown >= 11) == (cell.bounding_box()["width"] >= 28)


def test_the_value_of_a_cell_stands_beside_the_pointer(opened):
    page = opened(ShownLook(look(heads(5, 1, 1)), False).html())
    cell = page.locator("section.map td").nth(2)
    cell.hover()
    box, place = page.locator(".tip").bounding_box(), cell.bounding_box()
    assert cell.inner_text() == f"{float(page.inner_text('.tip').split()[-1]):.2f}"
    assert abs(box["x"] - place["x"]) < 60 and abs(box["y"] - place["y"]) < 60
    page.mouse.move(0, 0)
    assert not page.locator(".tip").is_visible()


def test_lines_isolate_a_token(small, opened):
    maps, html = small
    page = opened(html)
    show(page, 2)
    lines = page.locator("section.map .lines canvas")
    threshold = float(page.inner_text(".lines output"))

    def said():
        return lines.get_attribute("aria-label").split(";")[0].replace("line ", "lines ")

    weights = maps[2].weights
    assert said() == f"{int((weights >= threshold).sum())} lines"
    box = lines.bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + box["height"] * 0.5)
    assert said() == f"{int((weights[3] >= threshold).sum())} lines from text \u2068text3\u2069"
    page.mouse.move(box["x"] + box["width"] - 10, box["y"] + box["height"] - 12)
    assert said() == f"{int((weights[:, 6] >= threshold).sum())} lines to text \u2068text6\u2069"
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(5, 5)
    assert "to text" in said() and "pinned" in status(page)
    lines.focus()
    page.keyboard.press("Escape")
    assert said() == f"{int((weights >= threshold).sum())} lines"
    page.fill(".lines input", "0.9")
    assert said() == f"{int((weights >= 0.9).sum())} lines"


def test_an_overview_is_ordered_by_entropy(small, opened):
    maps, _ = small
    page = opened(look_to_html(look(maps), sort="entropy"))

    def measured(name):
        return page.eval_on_selector_all("td", f"all => all.map((one) => Number(one.dataset.{name}))")

    assert measured("entropy") == sorted(measured("entropy"))
    page.select_option(".overview select", "")
    assert measured("map") == list(range(12))


@pytest.mark.parametrize(("width", "abreast"), [(1000, False), (1280, True), (2560, True)])
def test_an_opened_map_stands_beside_the_overview_where_the_page_is_wide(width, abreast, small, opened):
    page = opened(look_to_html(look(small[0])), width=width)
    show(page, 3)
    thumbnails, map = (page.locator(name).first.bounding_box() for name in ("table.heads", ".overview > section.map"))
    assert (map["x"] >= thumbnails["x"] + thumbnails["width"]) == abreast
    assert (map["y"] < thumbnails["y"]) == abreast and map["width"] > 0.4 * width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not abreast or page.eval_on_selector(".overview .scroll", "one => one.scrollWidth <= one.clientWidth")
    page.keyboard.press("Escape")
    assert page.locator("section.map").count() == 0
    closed = page.locator("table.heads").first.bounding_box()
    assert closed["width"] >= thumbnails["width"]


CONTRAST = """() => {
  const parse = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
  const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = (color) => color.slice(0, 3).map((c) => linear(c / 255))
    .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = parse(getComputedStyle(one).backgroundColor);
      if (color.length && (color.length < 4 || color[3] > 0)) return color;
    }
    return [255, 255, 255];
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, style = getComputedStyle(element);
    const text = walk.currentNode.data.trim(), seen = element.checkVisibility({ visibilityProperty: true });
    if (!text || !seen || element.closest("script, style, option")) continue;
    const drawing = element.closest("svg"), inside = drawing && getComputedStyle(drawing.querySelector(".ground")).fill;
    if (drawing && element.style.fill) continue; // on a coloured box, whose ink is chosen for it
    const colors = drawing ? [parse(style.fill), parse(inside)] : [parse(style.color), ground(element)];
    const pair = colors.map(light).sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) bad.push(`${element.tagName}.${element.className} "${text.slice(0, 20)}" ${ratio.toFixed(2)}`);
  }
  return bad;
}"""


def everything():
    """A look with every part of a page: overview, gates, a table with parts, steps."""
    maps = heads(7, 2, 6)
    talk = Axis("talk", "word", tuple("abcdefg"), (Part("one", 0, 3), Part("two", 3, 7)))
    gates = Map("forward", 0, None, Axis("gates", "gate", ("input", "state")), talk, torch.rand(2, 7), unit="value")
    state = {"forward": torch.linspace(-1, 1, 5)}
    encoder = (EncoderFrame(0, "a", state, {"forward update": 0.25}),)
    decoder = (DecoderFrame(0, (), "b", torch.full((3,), 0.5), (), (("b", 0.9), ("c", 0.1))),)
    return Look("a model", "a text", "b", (*maps, gates), encoder, decoder, ("a note",))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_text_can_be_read_in_both_schemes_and_on_phones(scheme, width, opened):
    page = opened(look_to_html(everything(), steps=True), width=width, scheme=scheme)
    show(page, 1)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.click("section.map .queries button >> nth=2")
    assert page.evaluate(CONTRAST) == []
    page.add_style_tag(content=":root { --quiet: #777 }")
    assert page.evaluate(CONTRAST) != []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_the_table_of_a_beam_search_can_be_read_and_reached_by_keyboard(scheme, width, opened):
    page = opened(ShownBeams(MADE, every=True).html(), width=width, scheme=scheme)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Candidates"
    assert page.locator("tbody tr").count() == len(MADE.nodes)


@pytest.mark.parametrize(("width", "rows"), [(380, 4), (1500, 1)])
def test_panels_of_a_picture_stand_abreast_where_there_is_room(width, rows, opened, data, untrained):
    run = untrained("images", "vit")
    page = opened(run.look(data / "photos" / "a" / "0.png").html(), width=width)
    tops = {panel.bounding_box()["y"] for panel in page.locator(".panels svg").all()}
    assert len(tops) == rows and page.evaluate("document.documentElement.scrollWidth") <= width


def test_patches_of_a_picture_are_chosen_over_it(opened, data, untrained):
    run = untrained("images", "vit")
    look = run.look(data / "photos" / "a" / "0.png")
    page, (rows, columns) = opened(look.html()), look.look.every.grid
    patches = page.locator("section.map .sheet button")
    patches.first.wait_for()
    assert patches.count() == rows * columns and page.evaluate("document.activeElement") is not None
    patches.nth(1).hover()
    weights = look.look.every.maps[0].weights[look.look.every.leading + 1]
    said = re.search(r"^patch .?0,1.? -> patch .* ([\d.]+), its largest", status(page))
    assert float(said[1]) == pytest.approx(float(weights.max()), abs=0.0015)  # the page holds roots in 8 bits
    patches.first.focus()
    page.keyboard.press("ArrowDown")
    assert status(page).startswith("patch \u20681,0\u2069")
    assert page.evaluate(CONTRAST) == []


def test_large_pages_fit_phones(large, opened):
    page = opened(large[1], width=360)
    show(page, 14)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("td[data-map] canvas").first.bounding_box()["width"] <= 64


def test_maps_with_parts_open_as_the_table_that_the_page_has_without_an_overview(opened):
    talk = Axis("talk", "word", tuple("abcdef"), (Part("one", 0, 2), Part("two", 2, 6)))
    mask = torch.ones(3, 6).bool()
    mask[:, 5] = False
    weights = torch.rand(3, 6).masked_fill(~mask, 0)
    map = Map("words", 0, 0, axis(3, "response"), talk, weights / weights.sum(-1, keepdim=True), None, mask)
    cells = "[...row.cells].map((cell) => [cell.textContent, cell.className.split(' ')[0]])"
    table = f"(one) => [...one.rows].map((row) => {cells})"
    plain = opened(look_to_html(look([map])))
    plain.wait_for_selector(".map .lines canvas[aria-label]")
    within = opened(look_to_html(look([map]), overview=True))
    show(within, 0)
    near, far = (page.eval_on_selector("section.map [role=grid]", table) for page in (plain, within))
    assert [[text for text, _ in row] for row in near[:2]] == [[text for text, _ in row] for row in far[:2]]
    for row, other in zip(near[2:], far[2:], strict=True):
        assert row[0] == other[0] and row[-1] == other[-1] == ["", "m"]
        for (text, _), (of_overview, _) in zip(row[1:-1], other[1:-1], strict=True):
            assert float(text) == pytest.approx(float(of_overview), abs=0.011)


@pytest.mark.parametrize("length", [6, 80])
def test_a_difference_of_maps_has_signed_numbers(length, opened):
    on, random = axis(length), torch.Generator().manual_seed(0)
    after, before = (torch.randn(length, length, generator=random).mul(3).softmax(-1) for _ in range(2))
    maps = [Map("encoder", 0, 0, on, on, weights) for weights in (after, before)]
    beside = Comparison(0, maps[1], difference_of(*maps))
    page = opened(look_to_html(replace(look(maps[:1]), beside=(beside,))))
    section = page.locator("section.map").nth(2)
    section.locator(".queries button").nth(4).click()
    changes = (after - before)[4]
    best = int(changes.abs().argmax())
    said = section.locator(".status").inner_text()
    assert f"text{best}" in said and "its largest" in said
    assert float(re.search(r"[+-][\d.]+", said)[0]) == pytest.approx(float(changes[best]), abs=0.01)
    assert not section.locator(".lines").is_visible() and "-1 to 1" in section.locator(".scale").inner_text()
    section.locator("details").evaluate("(one) => { one.open = true; }")
    section.locator("details select").select_option("all, in order")
    rows = section.locator("details tbody tr td:last-child").all_inner_texts()
    assert [float(one) for one in rows] == pytest.approx(changes.tolist(), abs=0.01)


def test_without_a_script_the_page_says_what_is_in_it(small, opened):
    maps, html = small
    page = opened(html, script=False)
    texts = page.locator("td[data-map]").all_inner_texts()
    assert len(texts) == 12 and texts[7].startswith("L1 H1 0.")
    assert "The maps need JavaScript" in page.inner_text(".overview")
    assert page.locator(".live:visible").count() == 0
    single = opened(look_to_html(look(maps[:1])), script=False)
    assert single.locator("section.map [role=grid] td").count() == 49


@pytest.mark.parametrize(
    ("body", "dark"),
    [
        ('data-jp-theme-light="false"', True),
        ('data-jp-theme-light="true"', False),
        ('class="vscode-dark"', True),
        ('class="vscode-high-contrast"', True),
        ('class="vscode-light"', False),
        ('class="vscode-high-contrast vscode-high-contrast-light"', False),
        ("", False),
    ],
)
def test_a_look_follows_the_theme_of_its_notebook(opened, body, dark):
    """JupyterLab and VS Code mark their theme on the body; the system of this browser is light."""
    shown = ShownLook(look(heads(5, 1, 1)), False)
    page = opened(f"<!DOCTYPE html><html><body {body}>{shown._repr_html_()}</body></html>", scheme="null")
    (frame,) = page.frames[1:]
    frame.wait_for_selector("section.map")
    ground = frame.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 22, 27)" if dark else "rgb(255, 255, 255)")
    assert page.evaluate("document.querySelector('iframe').style.height") != "640px"  # as high as the page


def slide(page, expected):
    """The slide in the window, from 0, once the page has stopped moving there, or after ten seconds."""
    for _ in range(100):
        if (at := page.evaluate("scrollY / innerHeight")) == expected:
            break
        page.wait_for_timeout(100)
    return at


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_slides_show_one_stage_and_the_keys_move(opened, scheme):
    """Each slide fills the window; the keys that scroll, and left and right, move by one slide."""
    lesson = run_lesson("lion")
    page = opened(lesson.html(slides=True), scheme=scheme)
    assert page.locator("svg").count() == len(lesson.stages) == 9
    assert page.evaluate("document.documentElement.scrollHeight / innerHeight") == 9
    keys = ("PageDown", " ", "ArrowDown", "ArrowRight", "ArrowLeft", "PageUp", "End", "Home")
    for key, number in zip(keys, (1, 2, 3, 4, 3, 2, 8, 0), strict=True):
        page.keyboard.press(key)
        assert slide(page, number) == number
    titles = page.locator("svg .title").all_text_contents()
    assert titles == [f"{i}/9  {stage.title}" for i, stage in enumerate(lesson.stages, start=1)]
    assert page.evaluate(CONTRAST) == []
    printed = page.pdf(prefer_css_page_size=True)
    assert printed.count(b"/MediaBox [0 0 1152 648]") == 9  # a page of 16:9 for each stage


def test_slides_need_no_script(opened):
    page = opened(run_lesson("animal").html(slides=True), script=False)
    page.keyboard.press("PageDown")
    assert slide(page, 1) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_lesson_on_a_narrow_page(opened, scheme):
    page = opened(run_lesson("lion").html(), width=360, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    formulas = "".join(page.locator(".formula").all_text_contents())
    assert page.locator(".formula sub").count() >= 7 and not {*"'_^"} & {*formulas}
    assert page.evaluate(CONTRAST) == []
