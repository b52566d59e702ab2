"""The page on a static web host: its files, and in Chromium what it draws and how often it asks."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.main import main
from bloscpack.view.export import export_page
from tests.browser import browser as browser
from tests.browser import pixels
from tests.servers import Answer, FileServer, running

RNG = np.random.default_rng(8)
PLANE = RNG.normal(size=(40, 30, 50)).astype("f4")
CLIP = RNG.integers(0, 255, (12, 24, 32, 3), "u1")
HTML = "<img src=x onerror='document.title=1'>"
TYPES = {
    ".js": "text/javascript",
    ".html": "text/html",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


def test_the_folder_is_complete(tmp_path: Path) -> None:
    names = export_page(tmp_path / "site")
    found = {
        each.relative_to(tmp_path / "site").as_posix() for each in (tmp_path / "site").rglob("*.*")
    }
    assert found == set(names) >= {"index.html", "api.js", "static/api.js", "format/array.js"}
    for name in names:
        text = (tmp_path / "site" / name).read_text()
        for other in re.findall(r'(?:from|import) "(\..+?)"', text):
            assert ((tmp_path / "site" / name).parent / other).is_file(), (name, other)
    assert "fetch(" not in (tmp_path / "site/api.js").read_text()
    assert "Content-Security-Policy" in (tmp_path / "site/index.html").read_text()


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        export_page(tmp_path / "site")
    assert [each.name for each in (tmp_path / "site").iterdir()] == ["index.html"]
    assert main(["view", "--export", str(tmp_path / "site")]) == 1
    assert main(["view", "--export", str(tmp_path / "new"), "a.blp"]) == 2
    assert main(["view"]) == 2
    assert main(["view", "--export", str(tmp_path / "new")]) == 0
    assert (tmp_path / "new" / "index.html").is_file()


class Host(FileServer):
    """Static web host, whose files pages of other hosts may read if `is_open`."""

    def __init__(self, *, is_open: bool) -> None:
        super().__init__()
        self.is_open = is_open

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        found = super().answer(method, path, headers, body)
        found.headers["Content-Type"] = TYPES.get(Path(path.partition("?")[0]).suffix, "text/plain")
        found.headers["Cache-Control"] = "no-store"
        if self.is_open:
            found.headers["Access-Control-Allow-Origin"] = "*"
            found.headers["Access-Control-Expose-Headers"] = "Content-Range, ETag"
        return found


class Site:
    """The exported page at a host, and data at another; collects what goes wrong in the page."""

    def __init__(self, browser: Any, folder: Path, host: Host, data: Host) -> None:
        for name in export_page(folder):
            host.files[f"/{name}"] = (folder / name).read_bytes()
        self.host, self.data, self.page = host, data, browser.new_page()
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._on_console)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(
            "Canvas2D: Multiple"
        ):
            self.problems.append(message.text)

    def open(self, *paths: Path) -> None:
        """Open files by the URLs of the other host."""
        for path in paths:
            self.data.files[f"/{path.name}"] = path.read_bytes()
        query = "&".join(f"url={self.data.url(path.name)}" for path in paths)
        self.page.goto(f"{self.host.url('index.html')}?{query}")
        self.page.wait_for_selector("main h2")

    def pixels(self, selector: str) -> np.ndarray:
        """Return what is drawn on a canvas, as (H, W, 4)."""
        self.page.wait_for_selector(f"{selector}[data-drawn]")
        return pixels(self.page, selector)


@pytest.fixture
def site(browser: Any, tmp_path: Path) -> Iterator[Site]:
    with running(Host(is_open=False)) as host, running(Host(is_open=True)) as data:
        found = Site(browser, tmp_path / "site", host, data)
        yield found
        found.page.close()
        assert not found.problems


def gray(plane: Any) -> Any:
    low, high = float(plane.min()), float(plane.max())
    return np.floor((plane.astype("f8") - low) * (255 / (high - low)) + 0.5).clip(0, 255)


@pytest.mark.slow
@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("codec", ["zstd", "auto"])
def test_a_heat_map_shows_the_data(site: Site, tmp_path: Path, codec: Any, is_log: bool) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, PLANE, chunks=(1, 30, 50), codec=codec, attrs={"title": HTML, HTML: 1})
    if is_log:
        with bp.open(path, "r+") as a:
            a[0], a[1] = 5, 6
            a.flush()
            a[0] = PLANE[0]
    site.open(path)
    site.page.select_option("text=Colours >> xpath=.. >> select", "gray")
    np.testing.assert_array_equal(site.pixels("canvas.heat")[..., 0], gray(PLANE[0]))
    assert HTML in site.page.inner_text("main")
    assert site.page.query_selector("main img") is None
    assert {each.status for each in site.data.log} <= {200, 206}
    site.page.goto(f"{site.page.url.partition('#')[0]}#/0/File")
    site.page.click("text=Verify")
    site.page.wait_for_selector("text=The file is sound.")


@pytest.mark.slow
def test_opening_takes_two_requests_and_a_plane_one(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    noise = RNG.integers(0, 1 << 16, (64, 128, 128), "u2")
    bp.save(path, noise, chunks=1)
    assert path.stat().st_size > 1 << 20
    site.data.files["/a.blp"] = path.read_bytes()
    site.page.goto(f"{site.host.url('index.html')}?url={site.data.url('a.blp')}#/0/File")
    site.page.wait_for_selector("text=Decoded")
    assert [each.status for each in site.data.log] == [206, 206]
    asked = """async () => (await import("./api.js")).getPacket("0/plane", { index: "32" })
        .then((plane) => Array.from(plane.arrays[0].data))"""
    assert site.page.evaluate(asked) == noise[32].ravel().tolist()
    assert len(site.data.log) == 3


@pytest.mark.slow
def test_the_views_of_a_slice_take_one_request(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, RNG.integers(0, 1 << 16, (64, 128, 128), "u2"), chunks=1)
    site.data.files["/a.blp"] = path.read_bytes()
    url = site.data.url("a.blp?signature=SECRET")
    site.page.goto(f"{site.host.url('index.html')}?url={url}")
    site.page.wait_for_selector("text=Standard deviation")
    site.page.wait_for_load_state("networkidle")
    assert "SECRET" not in site.page.inner_text("body") + site.page.title()
    site.data.clear()
    site.page.fill("input[type=number][max='63']", "24")
    site.page.press("input[type=number][max='63']", "Enter")
    site.page.wait_for_selector("text=[24, 0, 0]")
    site.page.wait_for_timeout(300)
    site.page.wait_for_load_state("networkidle")
    assert [each.status for each in site.data.log] == [206]


@pytest.mark.slow
def test_an_archive_opens_each_array_by_its_name(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    noise = RNG.integers(0, 1 << 16, (64, 128, 128), "u2")
    bp.savez(path, {"first": PLANE, "noise": noise, HTML: PLANE[1]}, chunks=1)
    data = bytearray(path.read_bytes())
    with bp.open(path) as archive:
        place = archive._members.named["noise"].offset + archive["noise"].chunk_offset(7)
    data[place + 40] ^= 1
    path.write_bytes(data)
    site.open(path)
    site.page.select_option("text=Colours >> xpath=.. >> select", "gray")
    np.testing.assert_array_equal(site.pixels("canvas.heat")[..., 0], gray(PLANE[0]))
    # Both ends of the archive, and a small array as a whole.
    assert [each.status for each in site.data.log] == [206, 206, 206]
    asked = """async () => (await import("./api.js"))
        .getPacket("0/plane", { member: 1, index: "32" })
        .then((plane) => Array.from(plane.arrays[0].data))"""
    assert site.page.evaluate(asked) == noise[32].ravel().tolist()
    # The start of a large array, whose end is in that of the archive, and the chunk.
    assert len(site.data.log) == 5
    site.page.select_option("text=Array >> xpath=.. >> select", label=HTML)
    site.page.wait_for_selector("text=30 x 50")
    site.page.select_option("text=Colours >> xpath=.. >> select", "gray")
    np.testing.assert_array_equal(site.pixels("canvas.heat")[..., 0], gray(PLANE[1]))
    assert site.page.query_selector("main img") is None
    site.page.goto(f"{site.page.url.partition('#')[0]}#/0/File")
    site.page.click("text=Verify")
    site.page.wait_for_selector("text=noise: chunk 7")
    site.page.goto(f"{site.page.url.partition('#')[0]}#/0/Arrays")
    site.page.select_option("text=Array >> xpath=.. >> select", label="noise")
    site.page.wait_for_selector("text=1 are damaged")
    assert len(site.page.query_selector_all(".chunks button.bad")) == 1


@pytest.mark.slow
def test_fields_of_records_and_parts_of_complex_numbers(site: Site, tmp_path: Path) -> None:
    record = np.zeros(PLANE.shape[1:], [("name", "S4"), (HTML, "u1"), ("at", [("x", ">f4")])])
    record[HTML], record["at"]["x"] = RNG.integers(0, 255, record.shape), PLANE[3]
    wave = PLANE[4] + 1j * PLANE[5]
    bp.save(tmp_path / "r.blp", record)
    bp.save(tmp_path / "c.blp", wave.astype("c8"))
    site.open(tmp_path / "r.blp", tmp_path / "c.blp")
    for field, expected in ((HTML, record[HTML]), ("at/x", PLANE[3])):
        site.page.select_option("text=Field >> xpath=.. >> select", field)
        site.page.wait_for_load_state("networkidle")
        site.page.select_option("text=Colours >> xpath=.. >> select", "gray")
        np.testing.assert_array_equal(site.pixels("canvas.heat")[..., 0], gray(expected))
    site.page.wait_for_selector(f"text=of (, {record[HTML][0, 0]}, (")
    site.page.goto(f"{site.page.url.partition('#')[0]}#/1")
    site.page.wait_for_selector("text=Part")
    for part, numbers in (("magnitude", np.abs(wave)), ("imaginary", wave.imag)):
        site.page.select_option("text=Part >> xpath=.. >> select", label=part)
        site.page.wait_for_load_state("networkidle")
        site.page.select_option("text=Colours >> xpath=.. >> select", "gray")
        drawn = site.pixels("canvas.heat")[..., 0]
        assert np.abs(drawn - gray(numbers.astype("f4"))).max() <= 1  # of one ulp
    assert site.page.query_selector("main img") is None


@pytest.mark.slow
def test_a_single_value_is_exact_and_the_picture_is_approximate_where_it_is(
    site: Site, tmp_path: Path
) -> None:
    large = 2**62 + np.arange(1200).reshape(30, 40)
    bp.save(tmp_path / "i.blp", large)
    bp.save(tmp_path / "small.blp", large - 2**62)
    bp.save(tmp_path / "t.blp", large.view("M8[ns]"))
    bp.save(tmp_path / "text.blp", np.array([["ab", HTML]]))
    site.open(*(tmp_path / f"{name}.blp" for name in ("i", "small", "t", "text")))
    site.page.wait_for_selector(f"text=[0, 0] = {2**62}")
    site.page.focus("canvas.heat")
    for _ in range(3):
        site.page.keyboard.press("Shift+ArrowRight")
    site.page.keyboard.press("ArrowDown")
    # On another page of the items.
    site.page.wait_for_selector(f"text=[1, 30] = {large[1, 30]}")
    assert site.page.inner_text("td[aria-current]") == str(large[1, 30])
    assert site.page.locator("text=drawn rounded").count() > 0
    site.page.wait_for_selector(f"td:text-is('{large[-1, -1]}')")  # the largest
    site.page.goto(f"{site.page.url.partition('#')[0]}#/1")
    site.page.wait_for_selector("td:text-is('1199')")
    assert site.page.locator("text=drawn rounded").count() == 0
    site.page.goto(f"{site.page.url.partition('#')[0]}#/2")
    site.page.wait_for_selector(f"text=[0, 0] = {large.view('M8[ns]')[0, 0]}")
    site.page.goto(f"{site.page.url.partition('#')[0]}#/3")
    site.page.wait_for_selector("text=Items of <U")
    assert HTML in site.page.inner_text("table.cells")
    assert site.page.query_selector("canvas.heat, main img") is None


@pytest.mark.slow
def test_much_of_a_remote_file_is_fetched_after_a_question(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    noise = RNG.integers(0, 1 << 62, (48, 250, 250))
    bp.save(path, noise, chunks=1, codec="lz4")
    nbytes = path.stat().st_size
    assert nbytes > 22 << 20
    site.open(path)
    site.page.wait_for_selector("text=Standard deviation")
    site.page.wait_for_load_state("networkidle")
    site.data.clear()
    site.page.select_option("label:text-is('Of') >> xpath=.. >> select", "array")
    site.page.wait_for_selector("button:text-matches('Fetch 22.* MiB')")
    assert not site.data.log
    site.page.click("text=Take a sample")
    site.page.wait_for_selector("text=of 48 chunks")
    sampled = sum(each.nbytes for each in site.data.log)
    assert 0 < sampled < 5 << 20
    assert len(site.data.log) <= 8
    site.page.select_option("label:text-is('Of') >> xpath=.. >> select", "plane")
    site.page.select_option("label:text-is('Of') >> xpath=.. >> select", "array")
    site.page.click("button:text-matches('Fetch')")
    site.page.wait_for_selector("text=evenly spaced sample")
    assert sum(each.nbytes for each in site.data.log) > nbytes - (1 << 20)
    # A line through all chunks asks again, and a dropped file never does.
    site.data.clear()
    site.page.goto(f"{site.host.url('index.html')}?url={site.data.url('a.blp')}")
    site.page.select_option("label:text-is('Along') >> xpath=.. >> select", "0")
    site.page.wait_for_selector("button:text-matches('Fetch')")
    site.page.set_input_files("input[type=file]", path)
    site.page.wait_for_selector("text=Standard deviation")
    site.page.select_option("label:text-is('Of') >> xpath=.. >> select", "array")
    site.page.wait_for_selector("text=evenly spaced sample")


@pytest.mark.slow
def test_a_frame_shows_the_data(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "f.blp"
    with bp.frames.create(path) as store:
        store.append(HTML, CLIP, {"fps": 60, HTML: HTML})
        store.append("depth", CLIP[..., 0].astype("u2") * 7)
    site.open(path)
    np.testing.assert_array_equal(site.pixels("canvas.frame")[..., :3], CLIP[0])
    site.page.click("button[aria-label='One frame on']")
    site.page.wait_for_selector("canvas.frame[data-drawn='1']")
    np.testing.assert_array_equal(site.pixels("canvas.frame")[..., :3], CLIP[1])
    assert site.page.query_selector("main img") is None
    site.page.click("button:has-text('depth')")
    site.page.wait_for_selector("canvas.frame[aria-label='Clip depth'][data-drawn='0']")
    drawn = site.pixels("canvas.frame")[..., 0]
    assert drawn.shape == CLIP.shape[1:3]
    site.page.click("button:text-is('Play')")
    for _ in range(300):
        if int(site.page.get_attribute("canvas.frame", "data-count")) > 5:
            break
        site.page.wait_for_timeout(100)
    else:
        pytest.fail("the player stands still")


@pytest.mark.slow
def test_arrays_of_pictures_are_shown_in_colour(site: Site, tmp_path: Path) -> None:
    pairs = np.asfortranarray(CLIP.reshape(6, 2, *CLIP.shape[1:]))
    bp.savez(tmp_path / "a.blp", {"other": PLANE, "pictures": CLIP, "pairs": pairs}, chunks=2)
    site.open(tmp_path / "a.blp")
    for name in ("pictures", "pairs"):
        site.page.select_option("text=Array >> xpath=.. >> select", label=name)
        site.page.wait_for_selector(f"h4:text-is('{name}')")
        np.testing.assert_array_equal(site.pixels("canvas.frame")[..., :3], CLIP[0])
        site.page.click("button[aria-label='One frame on']")
        site.page.wait_for_selector("canvas.frame[data-drawn='1']")
        np.testing.assert_array_equal(site.pixels("canvas.frame")[..., :3], CLIP[1])
    assert site.pixels("canvas.heat").shape[:2] == CLIP.shape[1:3]


@pytest.mark.slow
def test_a_dropped_file_and_jpeg(site: Site, tmp_path: Path) -> None:
    pytest.importorskip("simplejpeg")
    path = tmp_path / "j.blp"
    smooth = np.stack([np.add.outer(np.arange(24) * 4, np.arange(32) * 3)] * 3, -1).astype("u1")
    with bp.frames.create(path, codec="jpeg", quality=100) as store:
        store.append("a", smooth[None])
    site.page.goto(site.host.url("index.html"))
    site.page.wait_for_selector("text=No file is open.")
    site.page.set_input_files("input[type=file]", path)
    drawn = site.pixels("canvas.frame")[..., :3].astype(int)
    assert np.abs(drawn - smooth).max() <= 4
    assert site.data.log == []


@pytest.mark.slow
def test_what_cannot_be_read_says_why(site: Site, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("no Bloscpack file, but some text")
    site.open(tmp_path / "x.txt")
    site.page.wait_for_selector("text=not a Bloscpack file")
    site.page.goto(f"{site.host.url('index.html')}?url=javascript:alert(1)")
    site.page.wait_for_selector("text=is not an http or https URL")


@pytest.mark.slow
def test_a_host_that_does_not_share_its_files(browser: Any, tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", PLANE)
    with running(Host(is_open=False)) as host, running(Host(is_open=False)) as data:
        site = Site(browser, tmp_path / "site", host, data)
        site.open(tmp_path / "a.blp")
        site.page.wait_for_selector("text=Access-Control-Allow-Origin")
        site.page.close()
    assert all("CORS" in each or "Failed to load" in each for each in site.problems)


@pytest.mark.slow
def test_hosts_without_ranges_and_without_the_file(browser: Any, tmp_path: Path) -> None:
    bp.save(tmp_path / "small.blp", PLANE)
    with running(Host(is_open=True)) as host, running(Host(is_open=True)) as data:
        data.has_ranges = False
        site = Site(browser, tmp_path / "site", host, data)
        data.files["/large.blp"] = bytes((1 << 26) + 1)
        site.open(tmp_path / "small.blp")
        site.page.select_option("text=Colours >> xpath=.. >> select", "gray")
        np.testing.assert_array_equal(site.pixels("canvas.heat")[..., 0], gray(PLANE[0]))
        assert [each.status for each in data.log] == [200]
        site.page.goto(f"{host.url('index.html')}?url={data.url('large.blp')}")
        site.page.wait_for_selector(
            "text=the server does not support ranges, so all 67108865 bytes"
        )
        site.page.goto(f"{host.url('index.html')}?url={host.url('missing.blp')}")
        site.page.wait_for_selector("text=the server answered 404: it has no such file")
        site.page.close()
    assert all("404" in each for each in site.problems)


@pytest.mark.slow
def test_a_damaged_chunk_is_named(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, PLANE, chunks=1)
    with bp.open(path) as array:
        place = array.chunk_offset(3)
    data = bytearray(path.read_bytes())
    data[place + 40] ^= 1
    path.write_bytes(data)
    site.open(path)
    site.page.goto(f"{site.page.url.partition('#')[0]}#/0/File")
    site.page.click("text=Verify")
    site.page.wait_for_selector("text=chunk 3")
