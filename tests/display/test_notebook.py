"""Cards of notebooks: a table and a picture of every kind of object, bounded and escaped."""

import io
import re
from base64 import b64decode
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.storage.memory import MemorySource

from ..conftest import REPOSITORY

EVIL = "<script>alert('x')</script>\x1b[2J\u202e\ud800"
# Larger cards would make a notebook slow.
MAX_LENGTH = 1 << 20


class Checker(HTMLParser):
    """Collects the elements of a card, and checks that they are closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes += attrs

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(shown: Any) -> str:
    html: str = shown._repr_html_()
    found = Checker(html)
    allowed = {"b", "br", "div", "img", "path", "small", "span", "svg", "table", "td", "th", "tr"}
    assert found.tags <= allowed
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    sources = [value or "" for name, value in found.attributes if name in ("src", "href")]
    assert all(value.startswith("data:image/png;base64,") for value in sources)
    assert html.encode()
    assert len(html) < MAX_LENGTH
    assert all(char.isprintable() for char in html)
    return html


def pictures(html: str) -> list[np.ndarray]:
    pil = pytest.importorskip("PIL.Image")
    found = re.findall(r"base64,([^\"]+)\"", html)
    return [np.asarray(pil.open(io.BytesIO(b64decode(each)))) for each in found]


def store_of(path: Path, clips: dict[str, np.ndarray], **options: Any) -> Path:
    with bp.frames.create(path, **options) as store:
        for id_, frames in clips.items():
            store.append(id_, frames, {"label": EVIL})
    return path


def test_the_picture_of_an_array_is_its_values(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 256, (3, 40, 60, 3)).astype("u1")
    bp.save(tmp_path / "a.blp", values)
    with bp.open(tmp_path / "a.blp") as array:
        html = checked(array)
    [picture] = pictures(html)
    assert np.array_equal(picture, values[1])
    for words in ("(3, 40, 60, 3)", "uint8", "a.blp", "zstd", "[1, 0:40, 0:60, :]"):
        assert words in html


def test_other_values_are_a_heat_map_with_a_legend(tmp_path: Path) -> None:
    values = np.arange(600, dtype="f4").reshape(20, 30)
    values[3, 4] = np.nan
    bp.save(tmp_path / "a.blp", values)
    with bp.open(tmp_path / "a.blp") as array:
        html = checked(array)
    assert "0 (dark) to 599 (bright), gray where a value is not finite" in html
    [picture] = pictures(html)
    assert picture.shape == (20, 30, 3)
    assert picture[0, 0].tolist() == [0x44, 0x01, 0x54]
    assert picture[-1, -1].tolist() == [0xFD, 0xE7, 0x25]
    assert picture[3, 4].tolist() == [128, 128, 128]


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(0),
        np.zeros((0, 3)),
        np.array(5),
        np.arange(1000.0),
        np.full(5, np.nan),
        np.array([1e308, -1e308, np.inf]),
        np.ones((4, 5), "c16"),
        np.ones((7, 5), "?"),
        np.array(["a", "bc"]),
        np.zeros(3, [("x", "f4"), (EVIL[:20], "i2")]),
        np.arange(6).astype("M8[D]"),
        np.asfortranarray(np.ones((9, 8, 7))),
        np.ones((2, 2, 2, 2, 9, 9), "i8"),
    ],
    ids=lambda values: f"{values.dtype.kind}{values.shape}",
)
def test_any_array(values: np.ndarray, tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", values)
    with bp.open(tmp_path / "a.blp") as array:
        html = checked(array)
    shows = values.size and values.dtype.kind in "bfciM" and values.ndim
    assert ("<svg" in html or "<img" in html) == bool(shows)
    assert checked(array), "a closed one can be shown too"


class CountingSource(MemorySource):
    """File in memory that counts the bytes that are read."""

    nread = 0

    def read_at(self, offset: int, nbytes: int) -> memoryview:
        found = super().read_at(offset, nbytes)
        self.nread += len(found)
        return found

    def read_into(self, offset: int, out: memoryview) -> None:
        self.nread += len(out)
        super().read_into(offset, out)


@pytest.mark.parametrize("how", ["default", "grid", "0.16", "fortran"])
def test_the_cost_of_a_large_array_is_bounded(how: str) -> None:
    values = np.random.default_rng(1).random((40, 512, 64))
    if how == "0.16":  # chunks of bytes, which begin anywhere
        data = bp.pack_ndarray_to_bytes(values, chunk_size="100K")
    else:
        target = io.BytesIO()
        chunks: Any = (1, 64, 64) if how == "grid" else 1
        bp.save(target, np.asfortranarray(values) if how == "fortran" else values, chunks=chunks)
        data = target.getvalue()
    source = CountingSource(data)
    with bp.open(source) as array:
        html = checked(array)
        assert "<img" in html
        nbytes = array.nbytes // array.nchunks
    assert nbytes < source.nread < 10 * nbytes + 20_000 < len(data)


def test_chunks_that_are_too_large_are_not_decoded(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.zeros((2, 5000, 2000), "f4"), chunks=(1, 5000, 2000))
    with bp.open(tmp_path / "a.blp") as array:
        html = checked(array)
    assert "too much for a thumbnail" in html
    assert "<img" not in html


def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    # File names can hold anything but a slash and NUL.
    path = tmp_path / "<b>&.blp"
    bp.savez(tmp_path / "z.blp", **{EVIL[:20]: np.zeros(3)}, attrs={"<i>": EVIL[:30]})
    bp.save(path, np.zeros((9, 9)), attrs={EVIL[:30]: [EVIL[:30]]})
    store_of(tmp_path / "s.blp", {EVIL[:20]: np.zeros((2, 9, 9), "u1")}, attrs={"a": EVIL})
    with (
        bp.open(path) as array,
        bp.Archive(tmp_path / "z.blp") as archive,
        bp.frames.open(tmp_path / "s.blp") as store,
        bp.open_many([path]) as many,
    ):
        for each in (array, many, archive, store, store[store.keys()[0]]):
            html = checked(each)
            assert "&lt;script&gt;" in html


def test_damage_is_shown_and_not_raised(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, np.random.default_rng(1).random((50, 50)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    with bp.open(bytes(data)) as array:
        html = checked(array)
        assert "chunk 0" in html
        assert "(50, 50)" in html
    report = bp.verify(bytes(data))
    html = checked(report)
    assert "1 fault" in html
    assert "chunk 0" in html
    assert "ok" in checked(bp.verify(path))


def test_rows_are_bounded(tmp_path: Path) -> None:
    clips = {f"c{n:03}": np.zeros((1, 8, 8), "u1") for n in range(100)}
    with bp.frames.open(store_of(tmp_path / "s.blp", clips)) as store:
        html = checked(store)
        assert "... 92 more" in html
        assert html.count("<tr>") < 20
    bp.savez(tmp_path / "z.blp", **{f"a{n}": np.zeros(2) for n in range(30)})
    with bp.Archive(tmp_path / "z.blp") as archive:
        assert "... 22 more" in checked(archive)


def test_a_clip_is_a_contact_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = np.random.default_rng(2).integers(0, 256, (100, 96, 96, 3)).astype("u1")
    path = store_of(tmp_path / "s.blp", {"walk": frames})
    read: list[Any] = []
    with bp.frames.open(path) as store:
        clip = store["walk"]
        original = type(clip).read

        def noted(self: Any, selection: Any = None, **options: Any) -> Any:
            read.append(selection)
            return original(self, selection, **options)

        monkeypatch.setattr(type(clip), "read", noted)
        html = checked(clip)
    assert read == [0, 12, 25, 37, 50, 62, 75, 87]
    [sheet] = pictures(html)
    assert np.array_equal(sheet[4:100, 104:200], frames[12])
    with bp.frames.open([path]) as many:
        assert "walk" in checked(many)


def check_clips(path: Path) -> None:
    """Check the cards of a source of clips and of its first clip."""
    with bp.frames.open(path) as source:
        assert "<img" in checked(source)
        assert "<img" in checked(source[source.keys()[0]])


def test_clips_of_a_store(tmp_path: Path) -> None:
    check_clips(store_of(tmp_path / "s.blp", {"walk": np.zeros((3, 8, 8, 3), "u1")}))


def test_the_result_of_a_conversion(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(9))
    done = bp.convert(tmp_path / "a.blp", tmp_path / "s.blp", to="archive")
    assert "<td>archive</td>" in checked(done)


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "tests" / "conformance").glob("*.blp")), ids=lambda path: path.stem
)
@pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")
def test_any_file_that_opens_is_shown(path: Path) -> None:
    openers = (bp.open, bp.frames.open)
    for opener in openers:
        try:
            opened = opener(path)
        except bp.exceptions.BloscpackError:
            continue
        with opened:
            checked(opened)
            if opener is bp.frames.open and len(opened):
                checked(opened[opened.keys()[0]])
    with suppress(bp.exceptions.BloscpackError):
        checked(bp.verify(path))
