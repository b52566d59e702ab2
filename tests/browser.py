"""Chromium, driven by Playwright, for tests that skip without them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

_DRAWN = """c => [c.width, c.height, Array.from(
  c.getContext("2d").getImageData(0, 0, c.width, c.height).data)]"""


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield the browser of the system."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


def pixels(page: Any, selector: str) -> np.ndarray:
    """Return what a page draws on a canvas, as (H, W, 4)."""
    width, height, data = page.eval_on_selector(selector, _DRAWN)
    return np.array(data, "u1").reshape(height, width, 4)
