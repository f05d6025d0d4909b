"""Draw the pictures of docs/serving.md: `python docs/serving.py RUN`, where RUN is a run of `heed demo`.

Needs the extra `dev` and Chromium.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parent / "serving"


def main() -> None:
    """Make the pictures."""
    PICTURES.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "heed", "serve", sys.argv[1]]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    link = re.search(r"http\S+", server.stdout.readline())
    assert link is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1120, "height": 900}, color_scheme=scheme)
            page.goto(link[0])
            page.fill("#inputs textarea", "9 de mayo de 1998")
            page.keyboard.press("Enter")
            page.wait_for_selector("#stop", state="hidden")
            page.locator("[role=grid] tbody tr").nth(6).locator("td").nth(7).click()
            page.wait_for_selector(".cell")
            page.mouse.move(0, 0)
            page.screenshot(path=PICTURES / f"{scheme}.png", full_page=True)
        browser.close()
    server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
