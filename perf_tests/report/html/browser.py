"""Open a page in Chromium, for a picture or to time it: ``python -m perf_tests.report.html.browser PAGE``."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "google-chrome")
WIDTH = 1120  # viewport width in pixels
DRAWN = "html[data-drawn=true]"  # matches once all plots are drawn


class NoBrowser(RuntimeError):
    """No browser is installed; the message says how to install one."""


@contextmanager
def opened(**context: Any) -> Iterator[Any]:
    """Yield an empty, offline browser page; ``context`` is passed to playwright's ``new_context``."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise NoBrowser("no browser is installed; run: apt-get install chromium")
    with sync_playwright() as driver, closing(driver.chromium.launch(executable_path=path)) as browser:
        yield browser.new_context(offline=True, **context).new_page()


def picture(html: str) -> bytes:
    """Return a PNG of a page, from its top down to its first plot."""
    with opened(viewport={"width": WIDTH, "height": WIDTH}, device_scale_factor=1.5, color_scheme="light") as page:
        page.set_content(html)
        page.wait_for_selector(DRAWN, state="attached")
        height = page.eval_on_selector("#scaling", "chapter => chapter.getBoundingClientRect().bottom + 16")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height}
        image: bytes = page.screenshot(clip=clip, full_page=True)
        return image


def opening(path: Path) -> tuple[int, float]:
    """Return the size of a page in bytes, and the seconds from opening it until all plots are drawn."""
    with opened() as page:
        page.goto(path.resolve().as_uri())
        page.wait_for_selector(DRAWN, state="attached")
        seconds = page.evaluate("performance.getEntriesByName('drawn')[0].startTime") / 1000
    return path.stat().st_size, seconds


def main(arguments: list[str] | None = None) -> None:
    """Print a page's size and opening time."""
    parser = argparse.ArgumentParser(
        prog="python -m perf_tests.report.html.browser",
        description="Print the size of a page, and the time until all plots are drawn.",
    )
    parser.add_argument("page", type=Path, help="HTML file to open")
    options = parser.parse_args(arguments)
    try:
        size, seconds = opening(options.page)
    except NoBrowser as error:
        parser.exit(1, f"{error}\n")
    print(f"{options.page}: {size / 1e6:.2f} MB, all plots drawn after {seconds:.2f} s")


if __name__ == "__main__":
    main()
