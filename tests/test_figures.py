"""Drawings as PNG and parts of pages: fonts, templates, hostile words."""

import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path as File

import numpy as np
import pytest
from PIL import Image, ImageFont

import heed
from heed.errors import ConfigError
from heed.lessons import Check, Lesson, Moment, Stage
from heed.show import image_files
from heed.show.curves import Curves, Line, Panel, curves_scene, curves_to_text, panel_scene
from heed.show.draw_html import shading_to_html
from heed.show.draw_svg import map_scene, shading_scene
from heed.show.image_files import fonts_for, to_pdf, to_png
from heed.show.overview import overview_scene
from heed.show.page import Cell, Row, draw, page
from heed.show.scene import GROUNDS, STYLE, Box, Dot, Label, Path, Scene, stacked, to_svg
from heed.show.shown import ShownCurves, ShownLook
from heed.visible import lines
from heed.watch import palette
from heed.watch.looks import Comparison, Look, vector_map
from heed.watch.maps import Axis, Map, difference_of
from test_draw import DATE, PEOPLE, Page

PACKAGE = File(heed.__file__).parent
HOSTILE = "</script><b onclick='x'>\"&\x1b[2J\u202e{{ 71*83 }}{% raw %}"


@pytest.fixture(scope="session")
def font(tmp_path_factory):
    """A font with the letters of ASCII, from Pillow; it has no accents, no Arabic and no arrows."""
    path = tmp_path_factory.mktemp("fonts") / "letters.ttf"
    path.write_bytes(ImageFont.load_default(12).path.getvalue())
    return path


@pytest.fixture
def bare(monkeypatch):
    """A machine without fonts."""
    monkeypatch.setattr(image_files, "_system_fonts", dict)


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def words(text):
    return Scene(120, 20, "", [Label(2, 14, text)])


# png


def test_a_png_shows_each_letter(bare, font):
    assert len({to_png(words(text), [font]) for text in ("Vogel", "Vogal", "")}) == 3
    assert to_png(words("Vogel"), [font]) == to_png(words("Vogel"), [font])
    assert pixels(to_png(words("Vogel"), [font])).shape == (40, 240, 3)


@pytest.mark.parametrize(
    ("text", "script", "package"),
    [
        ("\u0928\u092e", "Devanagari", "fonts-noto-core"),
        ("\u65e5\u672c", "CJK", "fonts-noto-cjk"),
        ("\ud55c", "Hangul", "fonts-noto-cjk"),
        ("\u0416", "Cyrillic", "fonts-dejavu-core"),
        ("\U0001f600", "emoji and symbols", "fonts-noto-color-emoji"),
    ],
)
def test_a_missing_letter_is_refused_with_its_script_and_what_to_install(bare, font, text, script, package):
    with pytest.raises(ConfigError, match=rf"character '{text[0]}' \({script}\).*apt install {package}.*--font FILE"):
        to_png(words(f"to {text}"), [font])


def test_without_any_font_nothing_is_drawn_silently(bare, font, tmp_path):
    with pytest.raises(ConfigError, match="no font for PNG has the character 'a'"):
        to_png(words("a"))
    assert fonts_for(" \n\u200b") == []  # nothing to draw
    with pytest.raises(ConfigError, match="no such file"):
        fonts_for("a", [tmp_path / "none.ttf"])
    (tmp_path / "text.ttf").write_text("no font")
    with pytest.raises(ConfigError, match="is not a font"):
        fonts_for("a", [tmp_path / "text.ttf"])


def test_another_font_of_the_system_has_the_letters_that_the_first_lacks(monkeypatch, font):
    real, z = image_files.drawn_by, File("z.ttf")
    monkeypatch.setattr(image_files, "_system_fonts", lambda: {"DejaVuSans.ttf": font, "z.ttf": z})
    monkeypatch.setattr(image_files, "drawn_by", lambda path, c: {"\u0416"} & set(c) if path == z else real(path, c))
    assert fonts_for("a") == [font]
    assert fonts_for("a\u0416") == [font, z]


def test_the_colours_of_a_png_are_those_of_the_svg(bare, font):
    scene = Scene(30, 20, "", [Box(5, 5, 10, 10, "#3da8e2")])
    drawn = pixels(to_png(scene, [font]))
    assert drawn[20, 20].tolist() == [0x3D, 0xA8, 0xE2] and drawn[2, 2].tolist() == [255] * 3
    both = stacked([scene, scene], gap=10)
    assert both.height == 50 and (pixels(to_png(both, [font]))[[20, 80], 20] == drawn[20, 20]).all()


def test_an_axis_covers_intervals_seeds_and_levels():
    line = Line("a", ((0.0, 5.0), (1.0, 6.0)), dots=True, spans=((1.0, 9.0), (5.5, 6.5)), others=((4.0, 17.0), ()))
    panel = Panel("score", (line,), level=(-3.0, "even"))
    scene = panel_scene(panel, Curves("", (), "size", (panel,), ticks=((0.0, "10"), (1.0, "100"))), named=False)
    ticks = [item.text for item in scene.items if isinstance(item, Label) and item.style == "end"]
    assert {"-5", "20"} <= set(ticks)
    drawn = [y for item in scene.items for y in ([item.y] if isinstance(item, Dot) else [])]
    assert len(drawn) == 4 and all(44 <= y <= 180 for y in drawn)
    whiskers = [item.points for item in scene.items if isinstance(item, Path) and item.thick == 1.6][:2]
    assert all(44 <= y <= 180 for points in whiskers for _, y in points) and whiskers[0][0][0] == whiskers[0][1][0]
    below = replace(line, spans=((-8.0, 9.0), (5.5, 6.5)))
    low = panel_scene(Panel("score", (below,)), Curves("", (), "size", ()))
    assert "-10" in [item.text for item in low.items if isinstance(item, Label)]


# pages


def drawn_pages():
    line = Line(HOSTILE, ((1.0, 1.0), (2.0, 2.0)), dots=True)
    curves = Curves(HOSTILE, (HOSTILE,), HOSTILE, (Panel(HOSTILE, (line,), (1.0, HOSTILE)),))
    yield from (ShownCurves(curves).html(), to_svg(curves_scene(curves)))
    assert lines(curves_to_text(curves)) == curves_to_text(curves)
    yield draw(
        "tabular", HOSTILE, [HOSTILE, "b"], [Row(HOSTILE, [HOSTILE, Cell(HOSTILE, kind="number", tooltip=HOSTILE)])]
    )
    yield draw("results", [(HOSTILE, ["", HOSTILE], [Row(HOSTILE, [Cell(HOSTILE, best=True)])])], [HOSTILE])
    yield shading_to_html(PEOPLE)
    article = {"names": (HOSTILE,) * 2, "source": HOSTILE, "reference": HOSTILE, "outputs": [dict.fromkeys(
        ("label", "text", "said", "drawn", "open"), HOSTILE)]}  # fmt: skip
    training = {"panels": [words(HOSTILE)], "samples": [(HOSTILE, words(""))], "hint": HOSTILE}
    compare = {"tables": HOSTILE, "chart": None, "others": [], "training": training}
    yield page("comparison/compare.html", HOSTILE, **compare, sections=[(HOSTILE, HOSTILE, [article])])
    yield draw("pictures", HOSTILE, HOSTILE, HOSTILE, [words(HOSTILE)])
    tag = {"uri": HOSTILE, "width": 1, "height": 1, "alt": HOSTILE, "enlarged": True}
    error = {"true": HOSTILE, "predicted": HOSTILE, "probability": 0.5, "origin": HOSTILE}
    images = {"hints": [HOSTILE], "wrong": [(HOSTILE, [(error, tag)])], "augmented": 1}
    classes = [(HOSTILE, 2, [(HOSTILE, HOSTILE, [tag])])]
    yield page("tasks/images/page.html", HOSTILE, **images, classes=classes, order=HOSTILE)
    stage = Stage(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, {}, (), (Moment(HOSTILE, (), HOSTILE),), (HOSTILE,),
                  (Check(HOSTILE, 1.0, 2.0),))  # fmt: skip
    for slides in (False, True):
        yield Lesson(HOSTILE, HOSTILE, HOSTILE, (), (stage,)).html(slides)
    yield to_svg(words(HOSTILE))


def test_no_page_obeys_what_users_wrote():
    """Each template with a text in every place that would end its element, run, clear a terminal or be a template."""
    for text in drawn_pages():
        assert lines(text) == text and "5893" not in text
        assert "<b onclick" not in text and "</script><b" not in text
        if "<svg" not in text[:10]:
            Page(text)


def test_only_listed_places_trust_text():
    """`|safe` is used nowhere; `Markup` of anything but a constant only where the package itself has made the text."""
    assert [path for path in PACKAGE.rglob("*.html") if re.search(r"\|\s*safe|autoescape", path.read_text())] == []
    trusted = {
        str(path.relative_to(PACKAGE)): len(found)
        for path in sorted(PACKAGE.rglob("*.py"))
        if (found := re.findall(r"Markup\((?![\"')])", path.read_text(encoding="utf-8")))
    }
    # Files of the package, JSON of `data`, drawings, the page's style; the frame of a notebook is a constant.
    assert trusted == {"show/page.py": 4, "show/document.py": 1}


def test_every_template_is_found_and_drawn():
    templates = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.html")}
    used = "".join(path.read_text(encoding="utf-8") for kind in ("py", "html") for path in PACKAGE.rglob(f"*.{kind}"))
    assert templates and {name for name in templates if f'"{name}"' not in used} == set()
    drawn = page("show/look.html", "t", notes=(), texts=(), parts=(), has_keys=True, scripted=True)
    assert "{" not in re.sub(r"<(style|script).*?</\1>", "", drawn, flags=re.S)


# options of pictures


def sizes(svg):
    return re.search(r'width="([\d.]+)(\w*)" height="([\d.]+)(\w*)"', svg).groups()


@pytest.mark.parametrize("width", ["85mm", "3.25in", "600px", 600])
def test_a_width_is_that_of_the_whole_figure(bare, font, width):
    scene = Scene(300, 120, "", [Label(2, 14, "Vogel")])
    number, unit = re.fullmatch(r"([\d.]+)(\D*)", str(width)).groups()
    wide, of, high, of_height = sizes(to_svg(scene, width=width))
    assert (float(wide), of) == (float(number), unit) and of_height == unit
    assert float(high) == pytest.approx(float(number) * 120 / 300, rel=1e-5)
    inches = float(number) / {"mm": 25.4, "in": 1, "px": 96, "": 96}[unit]
    for dots in (96, 300):
        drawn = pixels(to_png(scene, [font], width=width, scale=dots / 96))
        assert drawn.shape[1] == pytest.approx(inches * dots, abs=1) and drawn.min() < 100


@pytest.mark.parametrize(
    ("options", "form", "named"),
    [
        ({"width": "85cm"}, "svg", "width is '85cm'; give one such as 85mm"),
        ({"width": "0"}, "svg", "width is '0'"),
        ({"width": "9" * 400}, "svg", "width is"),
        ({"scale": 0}, "png", "scale 0: the picture would have 0 pixels"),
        ({"scale": float("nan")}, "png", "scale nan"),
        ({"scale": 1e9}, "png", "scale 1e[+]09"),
        ({"theme": "blue"}, "svg", "theme is 'blue'; valid: light, dark"),
        ({"scale": 2}, "svg", "--scale is for .png; end --out in .png"),
        ({"theme": "dark"}, "html", "--theme is for .svg, .png, .pdf; end --out in .svg"),
        ({"fonts": ["a"]}, "svg", "--font is for .png"),
        ({"dots": 3}, "svg", "unknown 'dots' of a figure; valid: theme"),
        ({"dpi": 300}, "svg", "--dpi is for .png; end --out in .png"),
        ({"dpi": 300, "scale": 2}, "png", "--dpi 300 and --scale 2 both say"),
        ({"dpi": 0}, "png", "dpi 0: the picture would have 0 pixels"),
        ({"panels": ["map"]}, "svg", "--panels: no 'map' in this figure; it has curves"),
    ],
)
def test_wrong_options_of_a_picture_are_refused_by_name(tmp_path, options, form, named):
    shown = ShownCurves(Curves("a", (), "update", (Panel("loss", (Line("a", ((0.0, 1.0), (1.0, 2.0))),)),)))
    with pytest.raises(ConfigError, match=named):
        shown.save(tmp_path / f"a.{form}", **options)
    assert not list(tmp_path.iterdir())


def test_a_png_says_how_many_pixels_are_an_inch(bare, font):
    scene = Scene(192, 48, "", [Label(2, 14, "Vogel")])
    drawn = Image.open(io.BytesIO(to_png(scene, [font], dpi=300)))
    assert drawn.size == (600, 150) and drawn.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    assert Image.open(io.BytesIO(to_png(scene, [font], width="85mm", dpi=300))).size[0] == round(85 / 25.4 * 300)
    assert "dpi" not in Image.open(io.BytesIO(to_png(scene, [font]))).info


def test_a_figure_has_only_the_panels_that_were_asked_for(tmp_path):
    attributed = replace(PEOPLE, title="added", panel="attribution")
    look = Look("a look", "text", "", (DATE,), (), (), shadings=(PEOPLE, attributed))
    shown = ShownLook(replace(look, beside=(Comparison(0, replace(DATE, of="other"), difference_of(DATE, DATE)),)))
    titles = {"words": PEOPLE.title, "attribution": "added", "map": DATE.title, "beside": f"{DATE.title}, of other",
              "difference": shown.beside[0].difference.title}  # fmt: skip
    for panels in (["attribution"], ["map", "attribution"], ["map", "difference"], [*titles]):
        shown.save(tmp_path / "a.svg", panels=panels)
        drawn = re.findall(r'class="title"[^>]*>([^<]*)<', (tmp_path / "a.svg").read_text())
        assert sorted(drawn) == sorted(titles[name] for name in panels)
    with pytest.raises(ConfigError, match="--panels: no 'maps' in this figure; it has words, attribution, map, besid"):
        shown.svg(panels=["maps"])
    with pytest.raises(ConfigError, match=r"--panels is for .svg, .png, .pdf; end --out in .svg"):
        shown.save(tmp_path / "a.txt", panels=["map"])


def test_without_the_extra_a_pdf_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(ConfigError, match=r"PDF needs CairoSVG: pip install 'heed-attention\[pdf\]'"):
        to_pdf(words("Vogel"))


def test_a_pdf_has_one_page_of_the_size_of_the_figure(cairo):
    scene = Scene(300, 120, "", [Label(2, 14, "Vogel \u0416"), Box(0, 40, 60, 20, "#3da8e2")])
    drawn, dark = to_pdf(scene, width="85mm"), to_pdf(scene, theme="dark")
    assert drawn.startswith(b"%PDF") and drawn == to_pdf(scene, width="85mm") and dark != drawn
    points = [float(number) for number in re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", drawn).groups()]
    assert points == pytest.approx([85 / 25.4 * 72, 85 / 25.4 * 72 * 0.4], abs=0.01)
    assert drawn.count(b"/MediaBox") == 1 and b"/FontName" in drawn


@pytest.mark.parametrize("text", ["\u0633\u0644\u0627\u0645", "\u0928\u092e\u0938\u094d\u0924\u0947"])
def test_a_pdf_refuses_scripts_that_would_be_drawn_wrong(cairo, text):
    with pytest.raises(ConfigError, match=f"a PDF cannot show the script of '{text}'; write .svg or .png"):
        to_pdf(words(text))


def test_each_text_of_a_pdf_has_a_font_with_its_characters(monkeypatch, font):
    have = {"a.ttf": {*"abc"}, "b.ttf": {*"abc\u0416"}}
    monkeypatch.setattr(image_files, "drawn_by", lambda path, characters: have[path.name] & set(characters))
    monkeypatch.setattr(image_files, "family_of", lambda path: path.stem)
    scene = Scene(100, 40, "", [Label(0, 10, "ab"), Label(0, 20, "a\u0416"),
                              Label(9, 30, "a_b", "end", runs=(("a", 0), ("b", -1)))])  # fmt: skip
    shown = image_files.with_families(scene, [File("a.ttf"), File("b.ttf")])
    assert (
        [item.family for item in shown.items] == ["", "b", ""]
        and shown.items[2].text == "ab"
        and "style=\"font-family:'b'\"" in to_svg(shown)
    )


def drawings():
    axis, large = Axis("text", "word", tuple(f"w{i}" for i in range(70))), DATE.weights.repeat(40, 40)[:70, :70]
    yield map_scene(DATE)
    yield map_scene(Map("encoder", 0, None, axis, axis, large))
    yield map_scene(difference_of(DATE, replace(DATE, weights=DATE.weights.flip(1))))
    yield shading_scene(PEOPLE)
    yield map_scene(vector_map(DATE.weights[0]))
    yield overview_scene([DATE], "t")
    panel = Panel("loss", (Line("a", ((0.0, 1.0), (1.0, 2.0)), dots=True),), (1.0, "kept"), level=(1.5, "even"))
    yield curves_scene(Curves("a run", ("a fact",), "update", (panel,)))


def test_every_drawing_has_a_png():
    for scene in drawings():
        try:
            drawn = pixels(to_png(scene))
        except ConfigError:
            pytest.skip("this machine has no fonts")
        assert drawn.shape[:2] == (round(2 * scene.height), round(2 * scene.width)) and drawn.min() < 100


def test_on_a_dark_ground_every_text_can_be_read():
    """Contrast of each text with what is drawn under it, from the file: the last box that contains its middle."""
    fills = {"title": "#e6e8eb", "small": "#a6adb6", "middle": "#a6adb6", "end": "#a6adb6"}
    for scene in drawings():
        drawn = to_svg(scene, theme="dark")
        assert 'class="figure dark"' in drawn and 'fill="#fff' not in drawn
        for item in scene.items:
            if isinstance(item, Label):
                boxes = [one for one in scene.items if isinstance(one, Box) and isinstance(one.fill, tuple)]
                x, y = item.x, item.y - 4
                under = [one for one in boxes if 0 <= x - one.x <= one.width and 0 <= y - one.y <= one.height]
                ground = under[-1].fill[1] if under else GROUNDS[1]
                color = item.color[1] if item.color else fills.get(item.style, "#e6e8eb")
                assert palette.contrast(color, ground) >= 4.5, item
    for kind, color in fills.items():
        assert re.search(rf"\.dark \.{kind}\b[^{{]*{{fill:{color}}}|\.dark text{{fill:{color}}}", STYLE), kind


def test_a_dark_png_is_dark_and_a_missing_letter_is_named_there_too(bare, font):
    scene = Scene(60, 20, "", [Label(2, 14, "Vogel")])
    assert pixels(to_png(scene, [font], theme="dark"))[2, 100].tolist() == [0x14, 0x16, 0x1B]
    assert pixels(to_png(replace(scene, follows_scheme=True), [font]))[2, 100].tolist() == [255] * 3
    with pytest.raises(ConfigError, match=r"character '\u0928' \(Devanagari\)"):
        to_png(Scene(60, 20, "", [Label(2, 14, "\u0928")]), [font], theme="dark")


def test_equal_drawings_give_equal_bytes_in_another_process():
    code = (
        "import hashlib, test_figures as t; from heed.show.scene import to_svg; "
        "print([hashlib.sha256(to_svg(s, theme=m, width='85mm').encode()).hexdigest() "
        "for s in t.drawings() for m in (None, 'dark')])"
    )
    path = os.pathsep.join([str(File(__file__).parent), *sys.path])
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1 and len(set(re.findall("[0-9a-f]{64}", said.pop()))) == 14
