"""Take the screenshots of docs/howto/view.md: ``python .ci/screenshots.py [CHROMIUM]``.

Needs the extra ``view`` and Playwright's Python package; the browser is that of the system.
"""

import io
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

import bloscpack as bp
from bloscpack.view.server import PageServer
from bloscpack.view.session import Session

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
# Name of the picture, address of the page, and what to do before it is taken.
PICTURES = {
    "view-array": ("#/0", "document.querySelector('canvas.heat').click()"),
    "view-clips": ("#/1", "scrollTo(0, 0)"),
}


def make_files(folder: Path) -> list[str]:
    """Write the files that are shown, and return their paths."""
    y, x = np.mgrid[0:180, 0:300] / 30
    sea = np.stack([15 + 8 * np.sin(x + k / 9) * np.cos(y - k / 30) for k in range(40)])
    bp.save(folder / "sea.blp", sea.astype("f4"), chunks=(4, 90, 300), attrs={"units": "degC"})
    with bp.frames.create(folder / "clips.blp") as store:
        for k in range(4):
            t = np.arange(30)[:, None, None]
            waves = 120 + 60 * np.sin(x[None] + t / 5 + k) * np.cos(y + k * t / 30)
            clip = np.stack([waves, np.roll(waves, 40, 2), 250 - waves], -1).astype("u1")
            store.append(f"waves-{k}", clip, {"fps": 30, "label": k})
    return [str(folder / "sea.blp"), str(folder / "clips.blp")]


def main(chromium: str = "/usr/bin/chromium") -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = PageServer(Session(make_files(Path(folder))))
        threading.Thread(target=server.run, args=(lambda: None,), daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.goto(server.url)
        for name, (address, action) in PICTURES.items():
            page.goto(f"http://127.0.0.1:{server.port}/{address}")
            page.wait_for_load_state("networkidle")
            page.evaluate(action)
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(500)
            picture = Image.open(io.BytesIO(page.screenshot()))
            small = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
            small.save(FIGURES / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
