"""The page in a real browser: Debian's Chromium, driven by Playwright.

Slow, and skipped where Chromium or Playwright is not installed.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

from ..browser import browser as browser
from ..browser import pixels
from ..conftest import SMALL_FORMATS, ReferenceFolder, small_vectors
from ..test_layers import FILE_TYPES

pytest.importorskip("uvicorn", reason="starlette and uvicorn are not installed (view)")
pytestmark = pytest.mark.slow
FORMATS = SMALL_FORMATS
CONFORMANCE = Path(__file__).parents[1] / "conformance"
RNG = np.random.default_rng(8)
PLANE = RNG.normal(size=(40, 30, 50)).astype("f4")
CLIP = RNG.integers(0, 255, (12, 24, 32, 3), "u1")
HTML = "<img src=x onerror='document.title=1'><script>document.title=1</script>"


class Visit:
    """A page of files in the browser, which collects what goes wrong in it."""

    def __init__(self, browser: Any, places: list[Path]) -> None:
        from bloscpack.storage.file import Place
        from bloscpack.view.server import PageServer
        from bloscpack.view.session import Session

        self.session = Session([Place(str(place)) for place in places])
        self.server = PageServer(self.session)
        threading.Thread(target=self.server.run, args=(lambda: None,), daemon=True).start()
        self.problems: list[str] = []
        self.page = browser.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._on_request)
        self.page.on("response", self._on_response)
        self.page.goto(self.server.url)
        self.page.wait_for_selector("main h2")

    def _on_console(self, message: Any) -> None:
        # A status is checked by itself; pixels are read back by the test only.
        is_harmless = message.text.startswith(("Failed to load resource", "Canvas2D: Multiple"))
        if message.type in ("error", "warning") and not is_harmless:
            self.problems.append(message.text)

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith(f"http://127.0.0.1:{self.server.port}/"):
            self.problems.append(request.url)

    def _on_response(self, response: Any) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.status} {response.url} {response.text()}")

    def go(self, address: str) -> None:
        self.page.goto(f"http://127.0.0.1:{self.server.port}/#/{address}")
        self.page.wait_for_load_state("networkidle")

    def pixels(self, selector: str) -> np.ndarray:
        """Return what is drawn on a canvas, as (H, W, 4)."""
        self.page.wait_for_selector(f"{selector}[data-drawn]")
        return pixels(self.page, selector)


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    visits = []

    def open_page(*places: Path) -> Visit:
        visits.append(Visit(browser, list(places)))
        return visits[-1]

    yield open_page
    for each in visits:
        each.page.close()
        each.server.stop()
        each.session.close()
        assert not each.problems


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    bp.save(tmp_path / "a.blp", PLANE, attrs={"title": HTML, HTML: 1})
    with bp.frames.create(tmp_path / "f.blp") as store:
        store.append(HTML, CLIP, {"fps": 60, HTML: HTML})
        store.append("mask", CLIP[..., 0] % 3)
    return tmp_path / "a.blp", tmp_path / "f.blp"


def test_a_heat_map_shows_the_data(visit: Any, files: Any) -> None:
    found = visit(files[0])
    found.page.select_option("text=Colours >> xpath=.. >> select", "gray")
    drawn = found.pixels("canvas.heat")
    low, high = PLANE[0].min(), PLANE[0].max()
    expected = np.floor((PLANE[0].astype("f8") - low) * (255 / (float(high) - float(low))) + 0.5)
    np.testing.assert_array_equal(drawn[..., 0], expected.clip(0, 255))
    assert (drawn[..., 3] == 255).all()


def test_an_array_of_pictures_is_shown_in_colour(visit: Any, tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", CLIP, attrs={"fps": 24})
    found = visit(tmp_path / "a.blp")
    np.testing.assert_array_equal(found.pixels("canvas.frame")[..., :3], CLIP[0])
    found.page.get_by_label("One frame on").click()
    found.page.wait_for_selector("canvas.frame[data-drawn='1']")
    np.testing.assert_array_equal(found.pixels("canvas.frame")[..., :3], CLIP[1])
    # The heat map has rows and columns of a picture, at one of its colours.
    assert found.pixels("canvas.heat").shape[:2] == CLIP.shape[1:3]


def test_a_frame_shows_the_data(visit: Any, files: Any) -> None:
    found = visit(files[1])
    drawn = found.pixels("canvas.frame")
    np.testing.assert_array_equal(drawn[..., :3], CLIP[0])


def test_text_of_files_is_only_text(visit: Any, files: Any) -> None:
    found = visit(*files)
    for address in ("0", "0/File", "1", "1/File"):
        found.go(address)
        assert found.page.query_selector("main img") is None
        assert found.page.query_selector("main script") is None
        assert found.page.title().endswith("blpk view")
    found.go("1")
    found.page.wait_for_selector("summary")
    assert HTML in found.page.inner_text("main")


def test_the_keyboard_is_enough(visit: Any, files: Any) -> None:
    found = visit(*files)
    page = found.page
    found.pixels("canvas.heat")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "heat":
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    assert "[0, 10, 1]" in page.inner_text("main")
    found.go("1")
    found.pixels("canvas.frame")
    page.focus(".player")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("canvas.frame[data-drawn='1']")
    np.testing.assert_array_equal(found.pixels("canvas.frame")[..., :3], CLIP[1])
    page.keyboard.press("End")
    page.wait_for_selector("canvas.frame[data-drawn='11']")
    page.get_by_label("Loop").uncheck()
    page.focus(".player")
    page.keyboard.press("Home")
    page.wait_for_selector("canvas.frame[data-drawn='0']")
    page.keyboard.press("Space")
    page.wait_for_selector("canvas.frame[data-drawn='11']")
    page.wait_for_selector("text=Play >> visible=true")


def test_every_control_has_a_name(visit: Any, files: Any) -> None:
    found = visit(*files)
    for address in ("0", "1", "0/File"):
        found.go(address)
        nameless = found.page.evaluate(
            "[...document.querySelectorAll('main button, main input, main select')].filter("
            "e => !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML)"
        )
        assert nameless == []


def test_verification_shows_damage(visit: Any, files: Any) -> None:
    path = files[0]
    with bp.open(path) as array:
        offset = array.chunk_offset(0)
    data = bytearray(path.read_bytes())
    data[offset + 50] ^= 1
    path.write_bytes(data)
    found = visit(path)
    found.go("0/File")
    found.page.click("text=Verify")
    found.page.wait_for_selector("text=1 faults")
    found.go("0")
    found.page.wait_for_selector(".chunks .bad")
    assert all(each.startswith("422") for each in found.problems)
    found.problems.clear()


def test_clips_are_searched_and_have_thumbnails(visit: Any, files: Any) -> None:
    page = visit(files[1]).page
    page.wait_for_selector(".thumbs button >> nth=1")
    page.wait_for_function("() => document.querySelector('.thumbs canvas').width > 1")
    page.get_by_label("Search").fill("MAS")
    page.wait_for_function("() => document.querySelectorAll('.thumbs button').length === 1")
    assert page.inner_text(".thumbs button").startswith("mask")


def test_clips_play_side_by_side_in_step(visit: Any, files: Any) -> None:
    page = visit(files[1]).page
    page.get_by_label("Side by side").check()
    page.click(".thumbs button >> nth=1")
    page.wait_for_function(
        "() => document.querySelectorAll('canvas.frame[data-drawn]').length === 2"
    )
    page.get_by_label("One frame on").click()
    page.wait_for_function(
        "() => document.querySelectorAll('canvas.frame[data-drawn=\"1\"]').length === 2"
    )


def test_playing_keeps_the_rate_of_the_clip(visit: Any, tmp_path: Path) -> None:
    """At each time of a clock of the test, the frame of that time is shown, at either speed."""
    with bp.frames.create(tmp_path / "f.blp") as store:
        store.append("slow", CLIP, {"fps": 24})
    found = visit(tmp_path / "f.blp")
    script = """async (speed) => {
        const { framesOf } = await import("./api.js");
        const { Player } = await import("./player.js");
        window.requestAnimationFrame = () => 0;
        const clip = { ordinal: 0, id: "slow", nframes: 12, fps: 24 };
        const player = new Player(document.getElementById("main"), framesOf(0), [clip], []);
        Object.assign(player, { speed, isLooping: false });
        player.start();
        while (!player.screens[0].feed.ended) await new Promise((next) => setTimeout(next, 5));
        return Array.from({ length: 40 }, (_, k) => {
            player.tick(1000 + 10 * k);
            return Number(player.screens[0].canvas.dataset.drawn);
        });
    }"""
    for speed in (1, 2):
        shown = found.page.evaluate(script, speed)
        assert shown == [min(11, k * 10 * 24 * speed // 1000) for k in range(40)]


@pytest.mark.parametrize("mode", ["labels", "values"])
def test_another_clip_lies_over_the_first(visit: Any, tmp_path: Path, mode: str) -> None:
    """A mask as labels leaves pixels of 0 as they are; depth as values covers all of them."""
    mask = np.zeros((12, 24, 32), "u1")
    mask[:, 3:9, 4:11] = 1
    with bp.frames.create(tmp_path / "f.blp") as store:
        store.append("clip", CLIP)
        store.append("mask", mask)
        store.append("depth", mask.astype("u2") * 900)
    found = visit(tmp_path / "f.blp")
    found.pixels("canvas.frame")
    over = {"labels": "mask", "values": "depth"}[mode]
    found.page.get_by_label("Overlay").select_option(label=over)
    found.page.get_by_label("as", exact=True).select_option(mode)
    found.page.get_by_label("Opacity").fill("1")
    colours = {"labels": (230, 25, 75), "values": (122, 4, 3)}  # first label; end of turbo
    found.page.wait_for_function(
        "([r, g, b]) => { const c = document.querySelector('canvas.frame');"
        "const d = c.getContext('2d').getImageData(5, 5, 1, 1).data;"
        "return d[0] === r && d[1] === g && d[2] === b; }",
        arg=colours[mode],
    )
    drawn = found.pixels("canvas.frame")[..., :3]
    assert (drawn[mask[0] == 1] == colours[mode]).all()
    others = drawn[mask[0] == 0]
    expected = CLIP[0][mask[0] == 0] if mode == "labels" else np.full_like(others, (48, 18, 59))
    np.testing.assert_array_equal(others, expected)


@pytest.mark.skipif("vrs" not in FILE_TYPES, reason="recordings are not read")
def test_a_recording_shows_the_moment_of_the_cursor(visit: Any, tmp_path: Path) -> None:
    vrs = bp.vrs
    motion = type("Motion", (vrs.Layout,), {"turn": vrs.Array("float", 3)})
    images = RNG.integers(0, 255, (5, 24, 32), "u1")
    with vrs.create(tmp_path / "a.vrs", tags={"place": HTML}) as recording:
        camera = recording.stream("RGB Camera Class")
        camera.define("data", vrs.Image("raw", 32, 24, "grey8"))
        imu = recording.stream("imu", tags={HTML: HTML})
        imu.define("data", motion)
        for k, image in enumerate(images):
            camera.write("data", float(k), image)
            imu.write("data", k + 0.25, {"turn": [k, 2, 3]})
    found = visit(tmp_path / "a.vrs")
    page = found.page
    np.testing.assert_array_equal(found.pixels("canvas.frame")[..., 0], images[0])
    assert found.pixels("canvas.timeline")[4::24, :, 3].astype(bool).sum(1).tolist() == [5, 5]
    page.focus("input[aria-label=Time]")
    page.keyboard.press("End")
    page.wait_for_selector("canvas.frame[data-drawn='4']")
    np.testing.assert_array_equal(found.pixels("canvas.frame")[..., 0], images[4])
    page.click(".track", position={"x": 2, "y": 4})
    page.wait_for_selector("canvas.frame[data-drawn='0']")
    page.click("text=Play")
    page.wait_for_selector("canvas.frame[data-drawn='1']")
    page.click("text=Stop")
    for summary in page.query_selector_all("summary"):
        summary.click()
    assert "turn: float_array of 3" in page.inner_text("main")
    assert HTML in page.inner_text("main")


@pytest.mark.parametrize("name", small_vectors("h264.bzna"))
def test_a_gallery_is_filtered_and_shows_a_sample(visit: Any, name: str) -> None:
    found = visit(FORMATS / name)
    page = found.page
    page.wait_for_selector("text=3 in all")
    page.get_by_label("Split").select_option("train")
    page.wait_for_selector("text=2 in all")
    page.get_by_label("Split").select_option("")
    page.get_by_label("Target", exact=True).select_option("2")
    page.wait_for_selector("text=1 in all")
    page.wait_for_selector("section[aria-label=Sample] >> text=bzna_thumb")
    page.wait_for_function(
        "() => document.querySelector('section[aria-label=Sample] td:nth-child(2)') !== null"
    )
    with bp.benzina.open(FORMATS / name) as dataset:
        expected = dataset[2].read(0)
        page.wait_for_selector(f"section[aria-label=Sample] >> text={dataset[2].name}")
    page.wait_for_function(
        f"() => document.querySelector('canvas.frame').width === {expected.shape[1]}"
    )
    np.testing.assert_array_equal(found.pixels("canvas.frame")[..., :3], expected)


def test_every_kind_of_file(visit: Any) -> None:
    """Every page opens for every vector, without an error of the browser."""
    places = [*sorted(CONFORMANCE.glob("*.blp")), *sorted(FORMATS.glob("*.blp"))]
    places += map(FORMATS.joinpath, small_vectors("gulp", "recording.vrs", "h264.bzna"))
    found = visit(*places)
    for ordinal in range(len(places)):
        found.go(str(ordinal))
        found.go(f"{ordinal}/File")
    # Views of damaged files are answered with errors, which the page shows.
    found.problems[:] = [each for each in found.problems if each[:3] not in ("400", "422")]


@pytest.mark.parametrize("folder", ["bloscpack", *FILE_TYPES])
def test_every_reference_file(visit: Any, folder: str) -> None:
    """Files of the original programs: each has a page, and what is wrong with one is said there."""
    root = Path(ReferenceFolder(folder) / ".").resolve()
    suffixes = {".blp", ".vrs", ".bzna"}
    places = [each for each in sorted(root.rglob("*")) if each.suffix in suffixes]
    places += sorted({each.parent for each in root.rglob("*.gmeta")})
    assert places
    found = visit(*places)
    for ordinal in range(len(places)):
        found.go(str(ordinal))
        found.page.wait_for_selector("[role=tabpanel] > *")
    # Views of damaged files, and of fields that only other versions of records have, are answered
    # with errors, which the page shows.
    assert not [each for each in found.problems if "cannot reshape" in each]
    found.problems[:] = [each for each in found.problems if each[:3] not in ("400", "404", "422")]
