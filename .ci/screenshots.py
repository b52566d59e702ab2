"""Take the screenshots of docs/howto/view*.md: ``python .ci/screenshots.py [CHROMIUM]``.

Needs the extras ``view``, ``image`` and ``benzina``, and Playwright's Python package; the browser
is that of the system. ``notebook-widgets.png`` is of JupyterLab, and made by hand.
"""

import functools
import http.server
import io
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from playwright.sync_api import sync_playwright

import bloscpack as bp
from bloscpack import benzina, vrs
from bloscpack.view.export import export_page
from bloscpack.view.server import PageServer
from bloscpack.view.session import Session

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
WIDTH, HEIGHT = 1100, 860
# Name of the picture, address of the page, what to do before it is taken, and the height.
PICTURES = {
    "view-array": ("#/0", "document.querySelector('canvas.heat').click()", HEIGHT),
    "view-clips": ("#/1", "document.querySelector('.thumbs button:nth-child(1)').click()", 720),
    "view-recording": (
        "#/2",
        """() => {
            const slider = document.querySelector("input[aria-label=Time]");
            slider.value = 1.6;
            slider.dispatchEvent(new Event("input"));
        }""",
        HEIGHT,
    ),
    "view-gallery": ("#/3", "document.querySelectorAll('.thumbs button')[3].click()", 640),
    "view-dark": ("#/2", "scrollTo(0, 0)", 640),
}


class Motion(vrs.Layout):
    """Record of the motion sensor."""

    acceleration = vrs.Array("float", 3, tags={"unit": "m/s2"})


class Shot(vrs.Layout):
    """Record of the camera, before its image."""

    exposure = vrs.Value("float", tags={"unit": "s"})


def make_files(folder: Path) -> list[str]:
    """Write the files that are shown, and return their paths."""
    y, x = np.mgrid[0:180, 0:300] / 30
    sea = np.stack([15 + 8 * np.sin(x + k / 9) * np.cos(y - k / 30) for k in range(40)])
    bp.save(folder / "sea.blp", sea.astype("f4"), chunks=(4, 90, 300), attrs={"units": "degC"})
    with bp.frames.create(folder / "clips.blp") as store:
        for k in range(6):
            clip = np.stack([scene(t, k) for t in range(30)])
            store.append(f"scene-{k}", clip, {"fps": 30, "label": k})
        disc = [np.hypot(x - 3 - t / 15, y - 3) < 1 for t in range(30)]
        store.append("mask", np.array(disc).astype("u1"), {"fps": 30})
    make_recording(folder / "walk.vrs")
    make_dataset(folder)
    os.chdir(folder)  # so that the page shows short names
    return ["sea.blp", "clips.blp", "walk.vrs", "shapes.bzna"]


def scene(t: float, k: int = 0) -> np.ndarray:
    """Return a picture of hills under a sun, (180, 300, 3), at a time."""
    y, x = np.mgrid[0:180, 0:300]
    sky = np.stack([90 + y * 0.6, 130 + y * 0.5, 230 - y * 0.3], -1)
    sun = np.hypot(x - 60 - 6 * t, y - 45 - 8 * np.sin(t / 8 + k)) < 18
    picture = np.where(sun[..., None], (255, 220, 90), sky)
    for depth in range(3):
        hill = (
            95
            + 26 * depth
            + (22 - 5 * depth) * np.sin(x / (34 - 7 * depth) + k + depth * (1 + t / 12))
        )
        color = np.array([70 - 18 * depth, 150 - 30 * depth, 100 - 24 * depth])
        picture = np.where((y > hill)[..., None], color, picture)
    return picture.clip(0, 255).astype("u1")


def make_recording(path: Path) -> None:
    """Write a recording of a camera, a motion sensor and a microphone."""
    with vrs.create(path, tags={"place": "garden"}) as recording:
        camera = recording.stream("RGB Camera Class", flavor="demo/camera")
        camera.define("data", Shot, vrs.Image("raw", 300, 180, "rgb8"))
        sensor = recording.stream("imu", flavor="demo/imu")
        sensor.define("data", Motion)
        microphone = recording.stream(101, flavor="demo/microphone")
        microphone.define("data", vrs.Audio("int16le", 1, 8000))
        for n in range(1000):
            time = n / 200
            moved = [np.sin(n / 50), np.cos(n / 31), 9.81 + 0.2 * np.sin(n / 7)]
            sensor.write("data", time, {"acceleration": moved})
            if n % 10 == 0:
                exposure = 0.01 + 0.002 * np.sin(time)
                camera.write("data", time, {"exposure": exposure}, scene(n / 10))
            if n % 20 == 0:
                at = np.arange(800) / 8000 + time
                tone = np.sin(3 * at) * np.sin(2 * np.pi * 440 * at)
                microphone.write("data", time, (9000 * tone).astype("i2"))


def make_dataset(folder: Path) -> None:
    """Write a dataset of drawn shapes, by class."""
    for number, kind in enumerate(("discs", "squares", "triangles")):
        (folder / "shapes" / kind).mkdir(parents=True)
        for n in range(8):
            picture = Image.new("RGB", (160, 120), (40 + 20 * n, 90, 190 - 12 * n))
            draw, left = ImageDraw.Draw(picture), 14 + 8 * n
            if number == 0:
                draw.ellipse((left, 20, left + 76, 96), fill=(250 - 18 * n, 215, 70 + 16 * n))
            elif number == 1:
                draw.rectangle((left, 24, left + 66, 90), fill=(250, 190 - 12 * n, 60 + 20 * n))
            else:
                corners = [(left, 96), (left + 76, 96), (left + 38, 22)]
                draw.polygon(corners, fill=(120 + 16 * n, 240 - 10 * n, 130))
            picture.save(folder / "shapes" / kind / f"{n:02}.png")
    benzina.pack(str(folder / "shapes"), str(folder / "shapes.bzna"), tile=192)


class StaticHost(http.server.SimpleHTTPRequestHandler):
    """Answers for the files of a folder, without a log."""

    def log_message(self, *args: object) -> None:
        """Print nothing."""


def take_static(browser: Any, folder: Path) -> None:
    """Take the picture of the static page, with an archive beside it."""
    export_page(folder)
    y, x = np.mgrid[0:180, 0:300] / 30
    wave = (1 + y / 3) * np.exp(1j * (2 * x + 3 * np.sin(y)))
    arrays = {"height": np.abs(wave).astype("f4"), "wave": wave.astype("c8"), "rows": y[:, 0]}
    bp.savez(folder / "waves.blp", arrays)
    bp.save(folder / "phase.blp", np.angle(wave), codec="auto")
    handler = functools.partial(StaticHost, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page(viewport={"width": 1100, "height": 860})
    page.goto(f"http://127.0.0.1:{server.server_port}/?url=waves.blp&url=phase.blp")
    for label, choice in {"Array": "wave", "Part": "phase", "Colours": "red-blue"}.items():
        page.select_option(f"label:text-is('{label}') >> xpath=.. >> select", label=choice)
        page.wait_for_load_state("networkidle")
    page.click("canvas.heat")
    page.wait_for_timeout(500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(256)
    picture.save(FIGURES / "view-static.png", optimize=True)
    server.shutdown()


def main(chromium: str = "/usr/bin/chromium") -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = PageServer(Session(make_files(Path(folder))))
        threading.Thread(target=server.run, args=(lambda: None,), daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (address, action, height) in PICTURES.items():
            page = browser.new_page(
                viewport={"width": WIDTH, "height": height},
                color_scheme="dark" if name == "view-dark" else "light",
            )
            page.goto(server.url)
            page.wait_for_selector("main h2")
            page.goto(f"http://127.0.0.1:{server.port}/{address}")
            page.wait_for_selector("canvas[data-drawn]")
            page.wait_for_timeout(1000)
            page.evaluate(action)
            page.wait_for_timeout(1500)
            picture = Image.open(io.BytesIO(page.screenshot()))
            small = picture.convert("RGB").quantize(256)
            small.save(FIGURES / f"{name}.png", optimize=True)
            page.close()
        take_static(browser, Path(folder) / "site")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
