"""Drawings say what the map says: every number, on the right axes, in files that any reader accepts."""

import base64
import io
import json
import math
import re
import xml.etree.ElementTree as ElementTree
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

from heed.show.draw_html import map_to_html, shading_to_html
from heed.show.draw_svg import MASKED_PIXEL as MASKED
from heed.show.draw_svg import map_scene, shading_scene
from heed.show.overview import FEW
from heed.show.scene import to_svg
from heed.show.shown import ShownLook, map_to_text, shading_to_text
from heed.visible import clean, visible
from heed.watch import palette
from heed.watch.looks import AttentionStep, DecoderFrame, EncoderFrame, Look, Shading, TagSpan
from heed.watch.maps import PEAK, Axis, Map, Part, best_spans, key_units, links, peaks

SVG = "{http://www.w3.org/2000/svg}"
NASTY = ("<b>", "&amp;", "\"'", "\x00\x1b[31m", "\n", " ", "", "\ud800", "\ufffe", "\u202e", "\u0645", "\U0001f600")


def map_to_svg(map, cell=30):
    return to_svg(map_scene(map, cell))


def shading_to_svg(shading):
    return to_svg(shading_scene(shading))


def look_to_json(look):
    return ShownLook(look).json()


def look_to_html(look, **view):
    return ShownLook(look, **view).html()


def look_to_text(look, *, width=100, **view):
    return ShownLook(look, **view).text(width)


VOID = {"meta", "input", "link", "br", "img"}


def make_map(query, key, *, kind="character", seed=0, mask=None, weights=None):
    scores = torch.randn(len(query), len(key), generator=torch.Generator().manual_seed(seed)) * 3
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1) if weights is None else torch.tensor(weights)
    axes = Axis("target", kind, tuple(query)), Axis("source", kind, tuple(key))
    return Map("cross", 0, None, *axes, weights, scores, mask, "How to read it.")


def make_step(map, i):
    mask = None if map.mask is None else map.mask[i]
    return AttentionStep(map.title, map.mechanism, map.key, map.weights[i], map.scores[i], mask, torch.arange(4.0))


def make_look(map, *, frames=True):
    encoder = tuple(
        EncoderFrame(i, token, {"forward": torch.linspace(-1, 1, 5)}, {"forward update": 0.25})
        for i, token in enumerate(map.key.labels)
    )
    decoder = tuple(
        DecoderFrame(
            i, map.query.labels[:i], token, torch.full((3,), 0.5), (make_step(map, i),),
            ((token, 0.9), ("x", 0.08), ("y", 0.01)),
        )
        for i, token in enumerate(map.query.labels)
    )  # fmt: skip
    texts = "".join(map.key.labels), "".join(map.query.labels)
    return Look("a model", *texts, (map,), encoder if frames else (), decoder if frames else (), ("a note",))


DATE = make_map("1998-05", "s\u00e1bado, 9 de mayo de 1998")
CAUSAL = make_map("abc", "abc", mask=torch.ones(3, 3).tril().bool())


class Page(HTMLParser):
    """Reads a page, insisting that every element that is opened is closed in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.text = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.text.append((self.open[-1] if self.open else "", data))

    def cells(self):
        return [a for tag, a in self.elements if tag == "td" and "aria-label" in a]


# text


@pytest.mark.parametrize(("width", "color"), [(60, False), (100, True), (400, False), (400, True)])
def test_cells_stand_under_their_labels(width, color):
    text = re.sub(r"\x1b\[[0-9;]*m", "", map_to_text(DATE, width=width, color=color))
    lines = text.split("\n\n")[1].split("\n")
    assert all(len(line) <= width for line in lines)
    header, rows = lines[0], lines[1:]
    labels = [visible(label) for label in DATE.key.labels]
    assert len(rows) == len(DATE.query)
    if width == 400:
        ends = [match.end() for match in re.finditer(r"\S+", header)]
        for line, weights in zip(rows, DATE.weights.tolist(), strict=True):
            numbers = [(match.end(), match[0][-4:]) for match in re.finditer(r"\S+", line[1:])]
            assert [text for _, text in numbers] == [f"{weight:.2f}" for weight in weights]
            # Coloured cells have a blank after the number as well, so that the number is in their middle.
            assert [end + 1 for end, _ in numbers] == ends
    else:
        assert header[2:] == "".join(labels)
        assert {line[0] for line in rows} <= set(DATE.query.labels)
        assert len({line.index("   ", 2 + len(labels)) for line in rows}) == 1


def test_columns_are_as_wide_as_their_labels_where_even_ones_do_not_fit():
    keys = ["Ein", "orangefarbenen", "Hut", *"abcdefgh"]
    weights = [[k / 55 for k in range(11)]]
    of_width = {
        width: map_to_text(make_map("x", keys, kind="word", weights=weights), width=width) for width in (75, 76)
    }
    assert "Hut" not in of_width[75]  # labels are written downwards
    header, row = of_width[76].split("\n\n")[1].split("\n")
    ends = [match.end() for match in re.finditer(r"\S+", header)]
    cells = [(match.end(), match[0][-4:]) for match in re.finditer(r"\S+", row)][1:]
    assert cells == [(end, f"{k / 55:.2f}") for k, end in enumerate(ends)] and len(row) == 76


def test_plain_text_has_no_escape_codes_and_coloured_text_resets_each():
    assert "\x1b" not in look_to_text(make_look(make_map(NASTY, NASTY)), steps=True)
    colored = map_to_text(DATE, color=True)
    assert colored.count("\x1b[0m") == colored.count("\x1b[48;2;")


def test_shades_follow_the_weights():
    map = make_map("a", "bcdefghijkl", weights=[[0.0, 0.04, 0.06, 0.24, 0.26, 0.49, 0.51, 0.74, 0.76, 1.0, 0.0]])
    row = map_to_text(map, width=40).split("\n\n")[1].split("\n")[1]
    assert row[2:13] == "··░░▒▒▓▓██·"


def test_a_compact_row_ends_with_its_best_span():
    weights = [[0.0] * len(DATE.key) for _ in DATE.query.labels]
    for row in weights:
        row[3], row[-4], row[-3] = 0.4, 0.35, 0.25
    row = map_to_text(make_map(DATE.query.labels, DATE.key.labels, weights=weights)).split("\n\n")[1].split("\n")[1]
    # 0.35 + 0.25 on the digits outweigh the single best letter.
    assert row.endswith("0.60 1998")


@pytest.mark.parametrize(("words", "said"), [
    ("a b " + "c d " * 20 + "end", "rows 7 to 42, where the target repeats 'c d' 20 times from word 3 on"),
    ("x " * 125, "rows 3 to 125, where the target repeats 'x' 125 times from word 1 on"),
    ("a b c d " + "e " * 12, "rows 7 to 16, where the target repeats 'e' 12 times from word 5 on"),
    ("a b c d " + "e " * 11, ""),
    ("a b c d e f g h i j k l m", ""),
])  # fmt: skip
@pytest.mark.parametrize("keys", ["pqrs", [f"key{i}" for i in range(40)]])
def test_rows_of_an_output_that_repeats_itself_are_left_out_of_the_text(words, said, keys):
    map = make_map(words.split(), keys, kind="word")
    text = map_to_text(map, width=70)
    assert (f"left out: {said}" in text) if said else ("left out" not in text)
    if said:
        assert len(text.splitlines()) < 40


def test_long_rows_are_shaded_by_their_largest_weight():
    weights = [[1 / 80] * 80, [0.1] * 2 + [0.05] * 2 + [0.7 / 76] * 76]
    text = map_to_text(make_map("ab", "x" * 80, weights=weights), width=120)
    rows = [line[2:82] for line in text.split("\n") if line[:2] in ("a ", "b ")]
    assert rows == ["█" * 80, "██▓▓" + "░" * 76] and "share of the row's largest" in text
    short = map_to_text(make_map("a", "x" * 20, weights=[[0.05] * 20]), width=40)
    assert "weight: " in short
    svg = map_to_svg(make_map("ab", "x" * 80, weights=weights), cell=12)
    assert "each row by its own largest weight" in svg and svg.count(palette.shade(1.0)) >= 82
    page = map_to_html(make_map("ab", "x" * 80, weights=weights), 0)  # read without its script
    assert 'data-end="1">largest of the row</span>' in page and "Colour: each row by its own largest weight; " in page


def test_wide_maps_are_wrapped_in_blocks():
    key = [str(i % 10) for i in range(100)]
    lines = map_to_text(make_map("ab", key), width=60).split("\n\n")
    blocks = [block.split("\n") for block in lines[1:-1]]
    assert len(blocks) == 3
    assert "".join(block[0][2:] for block in blocks) == "".join(key)
    assert all(len(line) <= 60 for block in blocks for line in block)


@pytest.mark.parametrize("labels", ["\u0645\u0627\u064a\u0648", "5\u6708", "e\u0301", "\u0661\u0662", "\U0001f600x"])
def test_labels_that_cannot_line_up_become_a_list(labels):
    weights = [[0.75] + [0.25 / (len(labels) - 1)] * (len(labels) - 1)] * 2
    map = make_map("12", labels, weights=weights)
    text = map_to_text(map)
    assert "share" in text and "->" in text
    assert "█" not in text and "▓" not in text
    (link,) = links(map)
    line = next(line for line in text.split("\n") if "12" in line)
    assert line.startswith(f" {link.span.share:.2f} ")
    assert labels[link.span.start : link.span.stop] in line


@pytest.mark.parametrize("width", [40, 400])
def test_masked_differs_from_zero(width):
    mask = torch.tensor([[True, True, False] * 4])
    weights = [[0.25, 0.0, 0.0] * 4]
    masked, zero = (
        map_to_text(make_map("a", "abcdefghijkl", mask=m, weights=weights), width=width) for m in (mask, None)
    )
    row, other = (text.split("\n\n")[1].split("\n")[1] for text in (masked, zero))
    assert row.count("/") == (4 if width == 40 else 16)
    assert "/" not in other
    assert "masked" in masked and "masked" not in zero


def test_steps_show_every_number_of_a_frame():
    text = look_to_text(make_look(DATE), steps=True)
    assert text.count("encoder step") == len(DATE.key)
    last = text.split("\n\n")[-1]
    for tensor in (DATE.scores[-1], DATE.weights[-1]):
        assert all(f"{value:.3f}" in last for value in tensor.tolist())
    assert "so far     1998-0" in last and "writes 5" in last and "5 0.900" in last


def test_a_frame_shows_what_is_masked_as_masked():
    look = make_look(CAUSAL)
    first, *_, last = look_to_text(look, steps=True).split("decoder step")[1:]
    assert first.count("/") == 4 and "/" not in last  # scores and weights of the two keys to come
    page = look_to_html(look, steps=True)
    assert Page(page) and page.count('<td class="m" title="masked">') == 2 * 3  # of three rows, above the diagonal


def test_maps_without_rows_or_columns_are_said_to_be_empty():
    empty = Map("cross", 0, None, Axis("target", "word", ()), Axis("source", "word", ("a",)), torch.zeros(0, 1))
    assert "empty" in map_to_text(empty)
    ElementTree.fromstring(map_to_svg(empty))
    Page(look_to_html(Look("t", "a", "", (empty,), (), ()), steps=True))


def test_a_row_without_a_peak_names_no_word():
    even, sharp = [0.1] * 10, [0.0] * 3 + [0.3] + [0.1] * 6 + [0.1]
    two = [0.3, 0.3] + [0.05] * 8
    most = [0.51] + [0.49 / 9] * 9
    map = make_map("abcd", "0123456789", kind="word", weights=[even, sharp[:10], two, most])
    rows = map_to_text(map, width=40).split("\n\n")[1].split("\n")[1:]
    tails = [row[12:].strip() for row in rows]
    assert tails == ["", "0.30 3", "", "0.51 0"]  # twice an even share, and 1.5 times the next; or over a half
    assert PEAK in map_to_text(map, width=40)
    causal = make_map(
        "abc", "abc", kind="word", mask=CAUSAL.mask, weights=[[1.0, 0, 0], [0.5, 0.5, 0], [0.3, 0.4, 0.3]]
    )
    assert [span and span.start for span in peaks(causal)] == [0, None, None]


# shadings

PEOPLE = Shading(
    "Entities", Axis("text", "word", ("Ann", "Lee", "left", "<Rome>")), (0.9, 0.8, 0.99, 0.6), 1.0,
    ("B-PER", "I-PER", "O", "B-LOC"), ("else O 0.100",) * 4, (TagSpan(0, 2, "PER", 1), TagSpan(3, 4, "LOC", 9)),
)  # fmt: skip


def test_tags_are_spans_in_the_colour_of_their_type_with_certainty_beside_them():
    page = shading_to_html(PEOPLE)
    Page(page)
    assert '<span class="found c1" title="0.900, 0.800"><bdi>Ann Lee</bdi> <small>PER</small></span>' in page
    assert (
        '<span class="found c1" title="0.600"><bdi>&lt;Rome&gt;</bdi> <small>LOC</small></span>' in page
    )  # the ninth is the first again
    assert "<bdi>left</bdi>" in page and "ruby" not in page
    for words in ("B-PER</td>", "0.900", "else O 0.100", "probability</bdi></th>", "width:80.0%"):
        assert words in page
    style = look_to_html(Look("t", "", "", (), (), (), shadings=(PEOPLE,)))
    for scheme, colors in zip(
        re.findall(r":root\{(--w0.*?)\}", style), (palette.TAGS_LIGHT, palette.TAGS_DARK), strict=True
    ):
        assert f"--c1:{colors[1]};--ct1:{palette.ink(colors[1])};" in scheme
    lines = shading_to_text(PEOPLE, 80, color=False)
    assert lines[2] == "0.900  B-PER  Ann     else O 0.100"
    assert "\x1b[48;2;" in "".join(shading_to_text(PEOPLE, 80, color=True))
    root = ElementTree.fromstring(shading_to_svg(PEOPLE))
    fills = [rect.get("fill") for rect in root.iter(f"{SVG}rect") if rect.get("rx")]
    assert fills == [palette.TAGS_LIGHT[1]] * 2 + ["#ffffff", palette.TAGS_LIGHT[1]]
    assert "B-PER 0.90" in [text.text for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("listed", [False, True])
def test_numbers_below_zero_have_another_colour(listed):
    axis = Axis("text", "word", ("good", "not", "the"))
    shading = Shading("What", axis, (0.5, -0.25, 0.0), 0.5, signed=True, listed=listed)
    page = shading_to_html(shading)
    assert [name in page for name in ("a10", "b5", "a0")] == [True] * 3 and "shaded from -0.5 to 0.5" in page
    text = "\n".join(shading_to_text(shading, 80, color=False))
    assert ("-0.250  not" if listed else "█good -▓not  the") in text
    painted = "\n".join(shading_to_text(shading, 80, color=True))
    assert "\x1b[48;2;" in painted and palette.signed_shade(-0.5, dark=True) != palette.signed_shade(0.5, dark=True)
    fills = [rect.get("fill") for rect in ElementTree.fromstring(shading_to_svg(shading)).iter(f"{SVG}rect")]
    assert palette.signed_shade(-0.5) in fills
    assert json.loads(look_to_json(Look("t", "", "", (), (), (), shadings=(shading,))))["shadings"][0]["signed"] is True


# axes with parts


TALK = Axis("talk", "word", tuple("How are you ? Fine .".split()), (Part("1 Ann", 0, 4), Part("2 Bo", 4, 6)))


def talk_map(axis=TALK, queries=3):
    weights = torch.full((queries, len(axis)), 0.1 / (len(axis) - 1))
    weights[:, 4] = 0.9
    query = Axis("response", "word", tuple("abcdefg"[:queries]))
    return Map("words", 0, None, query, axis, weights, weights.log(), None, "")


def test_the_name_of_a_part_stands_over_its_columns():
    head, labels = map_to_text(talk_map(), width=100).splitlines()[3:5]
    assert head.split() == ["|1", "Ann", "|2", "Bo"]
    columns = [labels.index(word) + len(word) for word in ("How", "Fine")]  # a column ends with its label
    assert [head.index("|1"), head.index("|2")] == [end - 5 for end in columns]
    head, *labels = map_to_text(talk_map(), width=30).splitlines()[3:8]
    assert head == "  |1 …|" and "".join(line[2] for line in labels).endswith("How")
    assert "".join(line[6] for line in labels).endswith("Fine")


# spans


def test_character_keys_are_joined_to_fields():
    axis = Axis("source", "character", (*"9 de mayo", "<eos>"))
    assert ["".join(axis.labels[a:b]) for a, b in key_units(axis)] == ["9", " ", "de", " ", "mayo", "<eos>"]
    assert key_units(Axis("source", "word", ("a", "b"))) == [(0, 1), (1, 2)]


def test_a_row_that_looks_at_nothing_has_no_span():
    map = make_map("ab", "cd", weights=[[0.0, 0.0], [0.0, 1.0]])
    assert best_spans(map)[0] is None
    assert [link.span is None for link in links(map)] == [True, False]


# svg


@pytest.mark.parametrize(("map", "cell"), [(DATE, 12), (CAUSAL, 30), (make_map(NASTY, NASTY, kind="word"), 30)])
def test_svg_holds_each_weight_once(map, cell):
    root = ElementTree.fromstring(map_to_svg(map, cell=cell))
    cells = [element for element in root.iter(f"{SVG}rect") if element.get("class") == "cell"]
    assert len(cells) == map.weights.numel()
    masked = [False] * len(cells) if map.mask is None else (~map.mask).flatten().tolist()
    said = [
        "masked" if hidden else f"{w:.3f}" for hidden, w in zip(masked, map.weights.flatten().tolist(), strict=True)
    ]
    assert [element.find(f"{SVG}title").text.split()[-1] for element in cells] == said
    assert [element.get("fill").startswith("url") for element in cells] == masked
    numbers = [element.text for element in root.iter(f"{SVG}text") if element.get("class") == "number"]
    weights = map.weights.flatten().tolist()
    shown = [f"{weight:.2f}" for weight, hidden in zip(weights, masked, strict=True) if not hidden]
    assert numbers == (shown if cell >= 28 else [])


def test_svg_cells_get_darker_with_weight():
    values = [i / 50 for i in range(51)]
    light = [palette.contrast(palette.shade(value), "#ffffff") for value in values]
    dark = [palette.contrast(palette.shade(value, palette.DARK), "#000000") for value in values]
    assert light == sorted(light) and len(set(light)) == len(light)
    assert dark == sorted(dark)


def test_text_over_any_colour_can_be_read():
    ramps = (palette.LIGHT, palette.DARK, palette.UP_LIGHT, palette.UP_DARK, palette.DOWN_LIGHT, palette.DOWN_DARK)
    shades = [palette.shade(i / 100, ramp) for ramp in ramps for i in range(101)]
    for background in (*shades, *palette.TAGS_LIGHT, *palette.TAGS_DARK):
        assert palette.contrast(background, palette.ink(background)) >= 4.5
    # The quiet ink of numbers near zero: of figures, and of the page in both schemes.
    style = look_to_html(Look("t", "", "", (), (), ()))
    quiet = re.findall(r"--quiet: (#[0-9a-f]{6})", style)
    for color, ramp in zip(quiet, (palette.LIGHT, palette.DARK), strict=True):
        assert all(palette.contrast(color, palette.shade(weight, ramp)) >= 4.5 for weight in (0.0, 0.025))


def test_a_map_of_few_rows_and_many_columns_fits_a_page():
    svg = map_to_svg(make_map("abc", "x" * 100))
    root = ElementTree.fromstring(svg)
    assert float(root.get("width")) < 1300 and svg.count('class="cell"') == 300 and svg.count(">x</text>") == 100
    assert float(ElementTree.fromstring(map_to_svg(make_map("abc", "x" * 60))).get("width")) > 1800  # with numbers


def test_a_long_title_is_not_cut():
    one = make_map("a", "b")
    map = Map("encoder backward network, over all of the source words", 0, None, one.query, one.key, one.weights)
    width = float(ElementTree.fromstring(map_to_svg(map)).get("width"))
    assert width > 32 + 8.4 * len(map.title) > 420  # DejaVu Sans Bold of 14 px, measured: 8.3 a character


def test_a_large_map_is_drawn_as_pixels():
    n = 512
    mask = torch.ones(n, n).tril().bool()
    map = make_map([f"q{i}" for i in range(n)], [f"k{i}" for i in range(n)], kind="token", mask=mask)
    text = map_to_svg(map)
    assert len(text) < 1_000_000 and text == map_to_svg(map)
    root = ElementTree.fromstring(text)
    image, _scale = root.iter(f"{SVG}image")
    file = io.BytesIO(base64.b64decode(image.get("href").split(",")[1]))
    pixels = np.asarray(Image.open(file).convert("RGB"))
    assert pixels.shape == (n, n, 3) and image.get("width") == image.get("height") == "1024"
    for i, j in ((0, 0), (3, 2), (100, 7), (511, 511), (0, 1), (255, 256)):
        expected = palette.shade(round(float(map.weights[i, j]) * 250) / 250) if mask[i, j] else MASKED[0]
        assert f"#{bytes(pixels[i, j]).hex()}" == expected, (i, j)
    shown = {text.text for text in root.iter(f"{SVG}text")}
    assert {"q0", "k0", "masked"} <= shown and "q1" not in shown
    assert "JSON form." in " ".join(filter(None, shown))


# html


@pytest.mark.parametrize("map", [DATE, CAUSAL, make_map(NASTY, NASTY, kind="word")])
def test_html_table_holds_each_weight(map):
    page = Page(look_to_html(make_look(map), steps=True))
    cells = page.cells()
    masked = [False] * len(cells) if map.mask is None else (~map.mask).flatten().tolist()
    said = [
        "masked" if hidden else f"{w:.3f}" for hidden, w in zip(masked, map.weights.flatten().tolist(), strict=True)
    ]
    assert [cell["aria-label"].split()[-1] for cell in cells] == said
    assert cells[1]["aria-label"].startswith(
        f"target {visible(map.query.labels[0])} -> source {visible(map.key.labels[1])}"
    )
    assert [cell["tabindex"] for cell in cells].count("0") == 1
    (data,) = page_data(page)
    expected = [
        -32768 if hidden else round(w * 1000) for hidden, w in zip(masked, map.weights.flatten().tolist(), strict=True)
    ]
    assert [weight for row in data["maps"][0]["weights"] for weight in row] == expected


def test_html_refers_to_nothing_outside():
    look = make_look(DATE)
    text = look_to_html(look, steps=True)
    assert not re.search(r"https?:|//\w+\.\w|@import|url\(", text.replace('xmlns="http://www.w3.org/2000/svg"', ""))
    page = Page(text)
    assert not [a for _, a in page.elements if {"src", "href"} & set(a)]
    without = look_to_html(Look("t", "", "", (), (), ()))
    assert len(without.encode()) < 150_000


def unpacked(data, map):
    """The weights that the page's script makes of one map of its data, NaN for masked ones."""
    height, width = (len(data["axes"][map[axis]]["labels"]) for axis in ("query", "key"))
    found = np.frombuffer(zlib.decompress(base64.b64decode(map["weights"])), np.uint8).astype(float)
    weights = (found / 255).reshape(height, width) ** 2
    if map["mask"] is not None:
        bits = np.frombuffer(zlib.decompress(base64.b64decode(data["masks"][map["mask"]])), np.uint8)
        weights[np.unpackbits(bits)[: height * width].reshape(height, width) == 0] = np.nan
    return weights


def page_data(page):
    """What the script is given, of each section."""
    return [
        json.loads(text) for tag, text in page.text if tag == "script" and text.startswith('{"format":"heed-maps-1"')
    ]


@pytest.mark.parametrize("kind", ["token", "character"])
def test_the_numbers_of_a_large_map_are_all_there(kind):
    torch.manual_seed(0)
    n = 9_000
    weights = torch.rand(2, n).mul(1.2).sub(0.1).clamp(0, 1)  # no shares: every number from 0 to 1000 occurs
    weights[0, 10:30], weights[1] = 0.0, 0.02
    mask = torch.ones(2, n, dtype=torch.bool)
    mask[0, 500:600] = mask[0, 700] = mask[0, -1] = False
    labels = tuple(f"k{i}" for i in range(n)) if kind == "token" else tuple("ab \n" * (n // 4))
    map = Map("decoder", 0, 0, Axis("text", kind, labels[:2]), Axis("text", kind, labels), weights, None, mask)
    (data,) = page_data(Page(look_to_html(Look("", "", "", (map,), (), ()))))
    expected = weights.double().masked_fill(~mask, math.nan).numpy()
    np.testing.assert_allclose(unpacked(data, data["maps"][0]), expected, atol=0.004)
    query, key = data["axes"]
    assert key["labels"] == [visible(label) for label in labels] and query["labels"] == key["labels"][:2]
    assert key.get("text") == (None if kind == "token" else [clean(label) for label in labels])


def test_few_maps_are_drawn_one_below_the_other_unless_an_overview_is_wanted():
    few, many = (tuple(make_map("abc", "abcd") for _ in range(count)) for count in (FEW, FEW + 1))
    assert '<section class="overview"' not in look_to_html(Look("", "", "", few, (), ()))
    for look, overview in ((Look("", "", "", few, (), ()), True), (Look("", "", "", many, (), ()), False)):
        page = Page(look_to_html(look, overview=overview))
        assert [a["class"] for tag, a in page.elements if tag == "section"] == [
            "overview",
            "map",
        ]  # that of the template
        assert [a["data-map"] for tag, a in page.elements if "data-map" in a] == [*map(str, range(len(look.maps)))]


# json


# all


def test_weights_with_gradients_and_half_precision_are_drawn():
    map = make_map("ab", "cd", weights=[[0.5, 0.5], [0.25, 0.75]])
    weights = map.weights.bfloat16().requires_grad_()
    half = Map("cross", 0, None, map.query, map.key, weights)
    assert "0.75" in map_to_text(half) and "0.750" in map_to_svg(half)
    Page(look_to_html(Look("t", "cd", "ab", (half,), (), ())))
