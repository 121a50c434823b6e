"""A real Chromium that looks at the dashboard, and notes what it must not find there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

from support.debian import program
from support.pictures import SCREENSHOTS
from support.reading import SECONDS

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]

LAYOUT_SHIFT = """async () => {
  let sum = 0;
  const add = (entries) => entries.forEach((entry) => (sum += entry.value));
  const observer = new PerformanceObserver((list) => add(list.getEntries()));
  observer.observe({ type: "layout-shift", buffered: true });
  // Those of before are handed over in a task of their own.
  for (let frame = 0; frame < 3; frame += 1)
    await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
  add(observer.takeRecords());
  return sum;
}"""


@dataclass
class Visitor:
    """A page of the dashboard in a browser. `errors` and `strangers` have to stay empty."""

    page: Page
    url: str
    folder: Path
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def go(self, fragment: str, heading: str) -> None:
        """Open a page of the dashboard, and wait for its heading."""
        self.page.goto(f"{self.url}/ui/#/{fragment}")
        self.page.get_by_role("heading", name=heading, level=1).wait_for()

    def text(self) -> str:
        """What the page says."""
        return self.page.locator("main").inner_text()

    def until(self, words: str, seconds: float = SECONDS) -> None:
        """Wait until the page says this."""
        found = self.page.locator("main").get_by_text(words).locator("visible=true")
        found.first.wait_for(timeout=seconds * 1000)

    def check(self, name: str, *schemes: str) -> None:
        """Look at the page for barriers (axe), and keep a picture: in light and in dark, or so."""
        for scheme in schemes or ("light", "dark"):
            self.page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
            found = Axe().run(self.page, options={"runOnly": RULES})
            assert found.violations_count == 0, found.generate_report()
            picture = f"{name}-{scheme}"
            self.page.screenshot(path=self.folder / f"{picture}.png", full_page=True)
        self.page.emulate_media(color_scheme="light")

    def take_picture(self, name: str, scheme: Literal["light", "dark"] = "light") -> None:
        """Take a picture of what is in sight for the documentation, where pictures are wanted."""
        if images := os.environ.get(SCREENSHOTS):
            self.page.emulate_media(color_scheme=scheme)
            self.page.screenshot(path=Path(images) / f"{name}-{scheme}.png")
            self.page.emulate_media(color_scheme="light")

    def shift(self) -> float:
        """How much has moved on this page since it was opened, as browsers count layout shifts."""
        return float(self.page.evaluate(LAYOUT_SHIFT))

    def fits(self, width: int) -> bool:
        """Whether nothing of the page has to be scrolled to sideways at this width in pixels."""
        before = self.page.viewport_size
        self.page.set_viewport_size({"width": width, "height": 800})
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        if before is not None:
            self.page.set_viewport_size(before)
        return int(wide) <= width


@contextmanager
def visiting(url: str, folder: Path) -> Iterator[Visitor]:
    """A visitor of the instance at `url`, whose pictures of pages go to `folder`.

    Chromium is found or installed; it ends with the block, and with this process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chromium = program("chromium", "chromium-browser", "google-chrome", package="chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(SECONDS * 1000)
        visitor = Visitor(page, url, folder)
        host = urlsplit(url).netloc
        page.on("pageerror", lambda error: visitor.errors.append(str(error)))
        page.on(
            "console",
            lambda said: visitor.errors.append(said.text) if said.type == "error" else None,
        )
        page.on(
            "request",
            lambda asked: (
                visitor.strangers.append(asked.url)
                if urlsplit(asked.url).netloc not in (host, "")
                else None
            ),
        )
        try:
            yield visitor
        finally:
            browser.close()
