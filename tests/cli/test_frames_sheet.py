"""``blpk frames sheet``: the picture and the messages about it."""

import io
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.display.contactsheet import contact_sheet
from bloscpack.media import image

from .clipfiles import CLIPS, pixels, write_store
from .conftest import Blpk, flip

Image = pytest.importorskip("PIL.Image", reason="a sheet is written by Pillow")
pytest.importorskip("simplejpeg", reason="images are JPEG")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "clips.blp")


def opened(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_a_sheet(blpk: Blpk, store: Path, tmp_path: Path) -> None:
    ended = blpk("frames", "sheet", store, "walk", "sheet.png", "--columns", "4", "--width", "68")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "blpk: 2 rows of 4 frames: 0, 1, ... 5\n"
    expected = contact_sheet(CLIPS["walk"], columns=4, width=68).pixels
    assert np.array_equal(opened((tmp_path / "sheet.png").read_bytes()), expected)


def test_to_standard_output_and_by_default(blpk: Blpk, store: Path) -> None:
    ended = blpk("-q", "frames", "sheet", store, "walk", "-", "--select", "5,1")
    assert (ended.code, ended.err) == (0, "")
    # Tiny frames are enlarged to 32 pixels.
    expected = contact_sheet(CLIPS["walk"][[5, 1]], columns=2, width=2 * 36 + 4).pixels
    assert np.array_equal(opened(ended.raw), expected)


def test_an_output_that_is_not_named_as_a_picture(blpk: Blpk, store: Path, tmp_path: Path) -> None:
    """Without OUT_FILE, the id of a clip stands in its place."""
    for argv in (["walk"], ["walk", "sheet"]):
        ended = blpk("frames", "sheet", store, *argv)
        assert (ended.code, f"{argv[-1]} OUT.png" in ended.err) == (2, True)
    assert [each.name for each in tmp_path.iterdir()] == ["clips.blp"]
    assert blpk("frames", "sheet", store, "walk", "/dev/null").code == 0


def test_the_range_is_said(blpk: Blpk, store: Path) -> None:
    ended = blpk("frames", "sheet", store, "depth", "-", "--select", "1:")
    low, high = CLIPS["depth"][1:].min(), CLIPS["depth"][1:].max()
    assert ended.err.splitlines() == [
        "blpk: 1 rows of 2 frames: 1, 2",
        f"blpk: uint16 is shown from {low} (black) to {high} (white)",
    ]


def test_each_clip_of_several_dtypes_has_its_own_range(
    blpk: Blpk, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    shades = np.arange(0, 256, 17, "u1").reshape(1, 4, 4)
    with bp.frames.create(tmp_path / "many.blp") as store:
        store.append("bytes", shades)
        store.append("wide", (shades / 255 * 2 - 1) * 1.7e308)  # the range is beyond float64
        store.append("holes", np.full((1, 4, 4), np.nan, "f4"))
    ended = blpk("sheet", "many.blp", "x.png", "--columns", "1")
    assert ended.err.splitlines()[1] == (
        "blpk: clips differ in dtype: each frame is shown from its smallest to its largest value"
    )
    black = np.zeros_like(shades[0])
    expected = contact_sheet([shades[0], shades[0], black], columns=1, width=40)
    assert np.array_equal(opened((tmp_path / "x.png").read_bytes()), expected.pixels)
    assert not recwarn.list


def test_long_clips_are_thinned(blpk: Blpk, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "long.blp") as store:
        store.append("long", pixels(1, 480, 2, 3))
    ended = blpk("frames", "sheet", "long.blp", "long", "x.png")
    assert ended.err == "blpk: 6 rows of 8 frames: 0, 10, ... 470\n"


def test_print_colours(blpk: Blpk, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    cmyk = np.zeros((16, 16, 4), "u1") + np.array([200, 100, 50, 255], "u1")
    Image.frombytes("CMYK", cmyk.shape[1::-1], cmyk.tobytes()).save(buffer, "JPEG", quality=95)
    with bp.frames.create(tmp_path / "cmyk.blp") as store:
        store.append("x", [buffer.getvalue()])
        stored = store["x"][0][0, 0].astype(int)
    shown = opened(blpk("frames", "sheet", "cmyk.blp", "x", "-").raw)[10, 10].astype(int)
    assert abs(shown - stored[:3] * stored[3] // 255).max() < 4


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none", "x.png"], 1, "clip 'none': no frames to show"),
        (["walk", "x.png", "--select", "9"], 1, "clip 'walk': frame 9 of a clip of 6"),
        (["zebra", "x.png"], 1, "no clip 'zebra'"),
        (["walk", "clips.blp"], 2, "name the file *.png"),
        (["walk", "clips.png"], 1, "same file"),
        (["walk", "x.png", "--columns", "0"], 2, "must be at least 1"),
        (["walk", "x.png", "--columns", "9", "--width", "20"], 1, "9 columns do not fit"),
        (["walk", "x.png", "--width", "99999"], 1, "too large"),
        ([], 2, "OUT_FILE"),
    ],
)
def test_errors(
    blpk: Blpk, store: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "clips.png").symlink_to("clips.blp")
    ended = blpk("frames", "sheet", "clips.blp", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert not (tmp_path / "x.png").exists()


def test_damage_has_its_own_code(blpk: Blpk, store: Path) -> None:
    with bp.frames.open(store) as opened:
        offset, nbytes = opened["walk"].chunk_extents()[0]  # type: ignore[attr-defined]
    flip(store, offset + nbytes // 2)
    ended = blpk("frames", "sheet", store, "walk", "x.png")
    assert ended.code == 3
    assert "frame 0" in ended.err


def test_image_encoder_is_the_one_that_is_needed() -> None:
    sheet = contact_sheet(CLIPS["walk"], columns=3, width=60)
    assert np.array_equal(opened(image.encode_png(sheet.pixels)), sheet.pixels)
