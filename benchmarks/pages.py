"""Size, first paint and speed of the page of many maps, in headless Chromium.

    python benchmarks/pages.py [--layers 12] [--heads 12] [--tokens 512] [--times 5]

The maps are random softmaxes, half of the layers causal; no model is needed. First paint is the browser's own measure,
from opening the file; a hover is the time from a pointer's move over the opened map to the end of the next frame, and
so at least a frame (16.7 ms). Needs playwright and Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch
from machine import print_machine

from heed.show.shown import ShownLook
from heed.watch.looks import Look
from heed.watch.maps import Axis, Map

HOVER = """async (picture) => {
  const canvas = document.querySelector(picture), box = canvas.getBoundingClientRect(), took = [];
  for (let k = 0; k < 40; k++) {
    const at = { clientX: box.x + box.width * (0.3 + k / 60), clientY: box.y + box.height * (0.3 + k / 60) };
    await new Promise((done) => requestAnimationFrame(done));
    const start = performance.now();
    canvas.dispatchEvent(new MouseEvent("mousemove", { ...at, bubbles: true }));
    const handled = performance.now();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    took.push([handled - start, performance.now() - start]);
  }
  return took;
}"""


def maps(layers: int, heads: int, tokens: int) -> list[Map]:
    random = torch.Generator().manual_seed(0)
    axis = Axis("text", "token", tuple(f"token{i}" for i in range(tokens)))
    causal, made = torch.ones(tokens, tokens).tril().bool(), []
    for layer in range(layers):
        for head in range(heads):
            scores = torch.randn(tokens, tokens, generator=random) * (0.5 + head / 3)
            mask = causal if layer % 2 else None
            scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
            made.append(Map("encoder", layer, head, axis, axis, scores.softmax(-1), None, mask))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 12), ("heads", 12), ("tokens", 512), ("times", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    print_machine()
    from playwright.sync_api import sync_playwright

    every = maps(given.layers, given.heads, given.tokens)
    start = time.perf_counter()
    html = ShownLook(Look("heads", "a text", "", tuple(every), (), ())).html()
    print(f"{len(every)} maps of {given.tokens} tokens: {len(html.encode()) / 1e6:.2f} MB, ", end="")
    print(f"written in {time.perf_counter() - start:.1f} s")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "look.html"
        file.write_text(html, encoding="utf-8")
        paints, drawn, hovers, lines = [], [], [], []
        for _ in range(given.times):  # each in a browser of its own, as a reader opens a file
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page()
            start = time.perf_counter()
            page.goto(file.as_uri())
            page.wait_for_selector(".overview[data-drawn]")
            drawn.append(time.perf_counter() - start)
            paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            page.click(f'td[data-map="{len(every) // 2}"] button')
            page.wait_for_selector("section.map")
            hovers += page.evaluate(HOVER, "section.map .matrix canvas")
            lines += page.evaluate(HOVER, "section.map .lines canvas")
            nodes = page.evaluate("document.querySelectorAll('*').length")
            browser.close()
    print(f"first paint: median {statistics.median(paints):.0f} ms, largest {max(paints):.0f} ms")
    print(f"all thumbnails drawn: median {statistics.median(drawn):.1f} s; elements with a map open: {nodes:,}")
    for name, took in (("map", hovers), ("lines", lines)):
        handled, shown = zip(*took, strict=True)
        print(f"hover over the {name}: median {statistics.median(shown):.0f} ms, largest {max(shown):.0f} ms ", end="")
        print(f"(of which the script: {statistics.median(handled):.1f} ms, {max(handled):.1f} ms)")


if __name__ == "__main__":
    main()
