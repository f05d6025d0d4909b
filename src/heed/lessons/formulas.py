"""Formulas of lessons, written as for a terminal: as MathML for pages, and as runs of text for pictures.

What is written: names with subscripts (`W_Q`, `h_n,j-1`), powers (`P^2`), `'` for a transposed matrix, `sqrt(...)`,
`/`, `sum_j` or "sum over j of", Greek letters by name; other words are text. Two spaces separate formulas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, tostring

from markupsafe import Markup, escape

from heed.visible import clean

_TOKEN = re.compile(
    r"\s+|\.\.\.|<=|\d+(?:\.\d+)?|(?P<name>[A-Za-z]+\d*(?:-[a-z]{2,})*)(?:_(?P<sub>\[\w+\]|\w+(?:,\w+)*(?:-1)?))?|."
)
_FUNCTIONS = {"softmax", "tanh", "ln", "log", "exp", "norm", "gelu", "cell", "tag", "label", "loss", "KL", "head"}
_MINUS, _TIMES, _TRANSPOSED, _BAR = "\u2212", "\u00d7", "\u22a4", "\u2223"  # the bar of a condition, "p(a | b)"
_SYMBOLS = {"alpha": "\u03b1", "beta": "\u03b2", "sum": "\u2211", "product": "\u220f", "dL": "\u2202L", "de": "\u2202e",
            "<=": "\u2264", "-": _MINUS, ".": "\u00b7", "...": "\u2026", "'": _TRANSPOSED}  # fmt: skip
_CLOSING = {"(": ")", "[": "]", "{": "}", "|": "|"}
_BREAKS = {"=", "+", _MINUS, _SYMBOLS["<="], ",", ";", ":", _BAR}
"""Operators at which a numerator begins."""
_SPACED = {*_BREAKS, _TIMES, ".", _SYMBOLS["."], _SYMBOLS["sum"], _SYMBOLS["product"]} - {",", ";", ":"}
_INLINE = re.compile(
    r"\b(?:[QKV] = X )?W_[QKVO]\b|\b[QX] [KX]'(?!\w)|\bsqrt\(\w+\)|(?<![\w.])[a-z]_(?:[a-z]{1,2}|true|pred)\b"
)
"""Formulas within sentences and titles; words of users are hardly ever of these forms."""


def to_mathml(formula: str) -> Markup:
    """The formulas of a line as MathML, a `math` element for each, between which a page may break the line."""
    parts = re.split(r" {2,}", clean(formula))
    return Markup(" ").join(Markup(tostring(_math(part), "unicode")) for part in parts)


def with_mathml(text: str) -> Markup:
    """A text whose formulas are MathML."""
    parts = (to_mathml(part) if is_formula else escape(part) for part, is_formula in _parted(clean(text)))
    return Markup().join(parts)


def with_runs(text: str) -> tuple[tuple[str, int], ...]:
    """A text with its formulas as `to_runs` gives them; empty if it has none."""
    parts = [*_parted(clean(text))]
    if not any(is_formula for _, is_formula in parts):
        return ()
    return tuple(run for part, is_formula in parts for run in (to_runs(part) if is_formula else [(part, 0)]))


def _parted(text: str) -> Iterator[tuple[str, bool]]:
    """The formulas of a text and what stands between them; True for formulas."""
    end = 0
    for found in _INLINE.finditer(text):
        yield from [(text[end : found.start()], False), (found[0], True)]
        end = found.end()
    yield text[end:], False


def to_runs(formula: str) -> tuple[tuple[str, int], ...]:
    """The formula on one line: pieces of text, each at the base line (0), below (-1) or above (1)."""
    runs: list[tuple[str, int]] = []
    for part in re.split(r" {2,}", clean(formula)):
        for text, level in [*_runs(_math(part), 0), ("\u2003", 0)]:
            before = runs.pop()[0] if runs and runs[-1][1] == level else ""
            runs.append((re.sub(" +", " ", before + text), level))
    text, level = runs.pop()
    runs = [*runs, (text.rstrip("\u2003"), level)]
    return tuple((text if i else text.lstrip(), level) for i, (text, level) in enumerate(runs) if text)


def _math(formula: str) -> Element:
    formula = re.sub(r"\bsum over (\w) of ", r"sum_\1 ", formula)
    formula = re.sub(r"\b(sum|product) of ", r"\1 ", formula)
    math = Element("math", displaystyle="true")
    math.extend(_Reader(formula).row(""))
    return math


def _node(tag: str, *content: str | Element) -> Element:
    made = Element(tag)
    for one in content:
        if isinstance(one, str):
            made.text = one
        else:
            made.append(one)
    return made


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, formula: str) -> None:
        self.tokens = [match for match in _TOKEN.finditer(formula)]
        self.at = 0

    @property
    def next(self) -> str:
        """The next token; "" at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def row(self, end: str) -> list[Element]:
        """The elements up to a closing sign, which is read too."""
        row: list[Element] = []
        while self.next and (self.next != end or self._is_bar()):
            if self.next == "/":
                self._divide(row)
            elif self.next.isspace():
                self.at += 1
                row.append(_node("mspace"))
            else:
                row.append(self.atom())
        self.at += 1
        return _with_spaces(row)

    def _is_bar(self, step: int = 0) -> bool:
        """True if the next token, or one before it, is the bar of a condition: it has spaces on both sides."""
        return [self._beside(step + i) for i in (-1, 0, 1)] == [" ", "|", " "]

    def _divide(self, row: list[Element]) -> None:
        """Replace the end of the row by a fraction; words are divided by a slash."""
        self.at += 1
        start = max((i + 1 for i, one in enumerate(row) if one.tag == "mtext" or one.text in _BREAKS), default=0)
        if self.next.isspace():
            self.at += 1
        below, above = self.atom(), _with_spaces(row[start:])
        if not above or below.tag == "mtext":
            row += [_node("mo", "/"), below]
            return
        row[start:] = [_node("mfrac", _bare(_node("mrow", *above)), _bare(below))]

    def atom(self) -> Element:
        """A name, number, bracket or operator with what belongs to it: index, argument, power, transposition."""
        token = self.tokens[self.at]
        self.at += 1
        name, opens = token["name"], token[0]
        if name == "sqrt" and self.next == "(":
            self.at += 1
            return _node("msqrt", *self.row(")"))
        if name:
            atom = self._name(name, token["sub"])
            if self.next and self.next in "([" and atom.tag != "mtext":
                self.at += 1
                atom = _node("mrow", atom, self._bracket(self.tokens[self.at - 1][0]))
        elif opens == "|" and self._is_bar(-1):
            atom = _node("mo", _BAR)
        elif opens in _CLOSING:
            atom = self._bracket(opens)
        elif opens[0].isdigit():
            atom = _node("mn", opens)
        else:
            atom = _node("mo", _SYMBOLS.get(opens, opens))
        while self.next in ("^", "'"):
            self.at += 1
            above = _node("mo", _SYMBOLS["'"]) if self.tokens[self.at - 1][0] == "'" else self.atom()
            atom = _node("msup", atom, above)
        return atom

    def _bracket(self, opens: str) -> Element:
        """A bracket, after its opening sign; it is as high as a fraction in it."""
        inner = self.row(_CLOSING[opens])
        signs = _node("mo", opens), _node("mo", _CLOSING[opens])
        if not any(one.tag == "mfrac" for one in inner):
            for sign in signs:
                sign.set("stretchy", "false")
        return _node("mrow", signs[0], *inner, signs[1])

    def _name(self, name: str, sub: str | None) -> Element:
        times = name == "x" and sub is None and re.fullmatch("[A-Z0-9]+", self._beside(-3) + self._beside(1))
        if times:
            return _node("mo", _TIMES)
        if name in ("sum", "product"):
            base = _node("mo", _SYMBOLS[name])
        elif sub is None and (name == "a" or (len(name) > 1 and name not in _FUNCTIONS | {*_SYMBOLS})):
            return _node("mi", name) if re.fullmatch(r"[a-z]\d", name) else _node("mtext", name)
        else:
            base = _node("mi", _SYMBOLS.get(name, name))
        if sub is None:
            return base
        if (len(sub) > 3 and sub.isalpha()) or sub == "pos" or sub.startswith("["):
            return _node("msub", base, _node("mtext", sub.strip("[]")))
        kinds = (("mi" if c.isalpha() else "mn" if c.isdigit() else "mo", _SYMBOLS.get(c, c)) for c in sub)
        return _node("msub", base, _node("mrow", *(_node(*one) for one in kinds)))

    def _beside(self, step: int) -> str:
        """The token some places from the next one; spaces are tokens too."""
        at = self.at + step
        return self.tokens[at][0] if 0 <= at < len(self.tokens) else ""


def _with_spaces(row: list[Element]) -> list[Element]:
    """A row with spaces only between symbols that are no operators, in which words that follow one another are one."""
    joined: list[Element] = []
    for one in (one for one in row if one.tag != "mspace"):
        if one.tag == "mtext" and joined and joined[-1].tag == "mtext":
            joined[-1].text = f"{joined[-1].text}\u00a0{one.text}"
        else:
            joined.append(one)
    spaced = joined[:1]
    for one in joined[1:]:
        if "mo" not in (one.tag, spaced[-1].tag):
            spaced.append(Element("mspace", width=".3em" if "mtext" in (one.tag, spaced[-1].tag) else ".17em"))
        spaced.append(one)
    return spaced


def _bare(node: Element) -> Element:
    """Without round brackets around everything, which a fraction does not need."""
    if node.tag == "mrow" and len(node) == 1 and node[0].tag == "mrow":
        node = node[0]
    if node.tag == "mrow" and node[0].text == "(" and node[-1].text == ")":
        return _node("mrow", *node[1:-1])
    return node


def _runs(node: Element, level: int) -> Iterator[tuple[str, int]]:
    """An element as pieces of text on one line."""
    if node.tag in ("msub", "msup"):
        yield from ((text.rstrip() if node[0].tag == "mo" else text, at) for text, at in _runs(node[0], level))
        yield from _runs(node[1], -1 if node.tag == "msub" else 1)
    elif node.tag == "mfrac":
        for part, sign in zip(node, (" / ", ""), strict=True):
            several = any(one.tag == "mo" and one.text in _BREAKS for one in part)
            yield from [("(" * several, level), *_runs(part, level), (")" * several + sign, level)]
    else:
        several = node.tag == "msqrt" and len(node) > 1
        yield "\u221a" * (node.tag == "msqrt") + "(" * several, level
        for one in node:
            yield from _runs(one, level)
        text = " " if node.tag == "mspace" else (node.text or "").replace("\u00a0", " ")
        spaced = node.tag == "mo" and level == 0 and text in _SPACED
        yield f" {text} " if spaced else f"{text} " if level == 0 and text in _BREAKS else text, level
        yield ")" * several, level
