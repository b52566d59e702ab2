"""Contact sheets: every dtype and shape is shown, each frame in its tile."""

import numpy as np
import pytest

from bloscpack.display.contactsheet import contact_sheet

GAP = 4


def tile(pixels: np.ndarray, row: int, column: int, height: int, width: int) -> np.ndarray:
    top, left = GAP + row * (height + GAP), GAP + column * (width + GAP)
    return pixels[top : top + height, left : left + width]


def gray(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[..., None], 3, axis=2)


def test_frames_are_in_rows() -> None:
    frames = np.random.default_rng(1).integers(0, 256, (5, 6, 8, 3)).astype("u1")
    sheet = contact_sheet(frames, columns=3, width=3 * (8 + GAP) + GAP)
    assert (sheet.shape, sheet.notes) == ((2, 3), [])
    assert sheet.pixels.shape == (2 * (6 + GAP) + GAP, 40, 3)
    for number in range(5):
        assert np.array_equal(tile(sheet.pixels, *divmod(number, 3), 6, 8), frames[number])
    border = np.ones(sheet.pixels.shape[:2], bool)
    for number in range(5):
        tile(border, *divmod(number, 3), 6, 8)[...] = False
    assert len(np.unique(sheet.pixels[border])) == 1


def test_frames_are_averaged_or_repeated() -> None:
    frame = np.random.default_rng(2).integers(0, 256, (12, 20)).astype("u1")
    half = contact_sheet([frame], columns=1, width=10 + 2 * GAP).pixels
    mean = frame.reshape(6, 2, 10, 2).mean(axis=(1, 3))
    assert abs(tile(half, 0, 0, 6, 10) - gray(mean)).max() <= 0.5
    third = contact_sheet([frame], columns=1, width=7 + 2 * GAP).pixels
    edges = [number * 20 // 7 for number in range(8)]
    column = tile(third, 0, 0, 4, 7)[0, 3, 0]
    assert abs(float(column) - frame[:3, edges[3] : edges[4]].mean()) <= 0.5
    double = contact_sheet([frame], columns=1, width=40 + 2 * GAP).pixels
    assert np.array_equal(tile(double, 0, 0, 24, 40), gray(frame.repeat(2, 0).repeat(2, 1)))


@pytest.mark.parametrize("dtype", ["<u2", ">i4", "f2", "f8", "i1", "<u8"])
def test_numbers_are_scaled_by_their_range(dtype: str) -> None:
    frames = np.array([[[10, 20], [30, 60]], [[10, 35], [110, 10]]]).astype(dtype)
    sheet = contact_sheet(frames, columns=2, width=2 * (2 + GAP) + GAP)
    assert sheet.notes == [f"{np.dtype(dtype)} is shown from 10 (black) to 110 (white)"]
    expected = np.rint((frames.astype("f8") - 10) / 100 * 255).astype("u1")
    assert np.array_equal(tile(sheet.pixels, 0, 0, 2, 2), gray(expected[0]))
    assert np.array_equal(tile(sheet.pixels, 0, 1, 2, 2), gray(expected[1]))


def test_a_range_that_overflows() -> None:
    frame = np.zeros((4, 4))
    frame[0, 0], frame[3, 3] = 1.7e308, -1.7e308
    pixels = contact_sheet([frame], columns=1, width=4 + 2 * 4).pixels[4:8, 4:8, 0]
    assert (pixels[0, 0], pixels[3, 3], pixels[1, 1]) == (255, 0, 128)


def test_holes_and_constants() -> None:
    frame = np.array([[1.5, np.nan], [np.inf, 2.5]])
    sheet = contact_sheet([frame], columns=1, width=2 + 2 * GAP)
    assert tile(sheet.pixels, 0, 0, 2, 2)[..., 0].tolist() == [[0, 0], [0, 255]]
    assert sheet.notes == [
        "float64 is shown from 1.5 (black) to 2.5 (white)",
        "black where a value is not finite",
    ]
    flat = contact_sheet([np.full((2, 2), 7, "i4")], columns=1, width=2 + 2 * GAP)
    assert not tile(flat.pixels, 0, 0, 2, 2).any()
    nothing = contact_sheet([np.full((2, 2), np.nan)], columns=1, width=2 + 2 * GAP)
    assert nothing.notes == ["black where a value is not finite"]


def test_other_kinds() -> None:
    mask = np.array([[True, False]])
    sheet = contact_sheet([mask], columns=1, width=2 + 2 * GAP)
    assert tile(sheet.pixels, 0, 0, 1, 2)[..., 0].tolist() == [[255, 0]]
    assert sheet.notes == []
    dates = np.array([["2020-01-01", "NaT", "2020-01-03"]], "M8[D]")
    shown = contact_sheet([dates], columns=1, width=3 + 2 * GAP).pixels
    assert tile(shown, 0, 0, 1, 3)[0, :, 0].tolist() == [0, 0, 255]
    waves = np.array([[3 + 4j, 0, 1]])
    shown = contact_sheet([waves], columns=1, width=3 + 2 * GAP).pixels
    assert tile(shown, 0, 0, 1, 3)[0, :, 0].tolist() == [255, 0, 51]
    row = contact_sheet([np.array([0, 128, 255], "u1")], columns=1, width=3 + 2 * GAP).pixels
    assert tile(row, 0, 0, 1, 3)[0, :, 0].tolist() == [0, 128, 255]
    dot = contact_sheet([np.array(9, "u1")], columns=1, width=1 + 2 * GAP).pixels
    assert tile(dot, 0, 0, 1, 1).tolist() == [[[9, 9, 9]]]


def test_channels() -> None:
    def shown(*values: int, is_cmyk: bool = False) -> list[int]:
        frame = np.array([[values]], "u1")
        sheet = contact_sheet([frame], columns=1, width=1 + 2 * GAP, is_cmyk=is_cmyk)
        notes.extend(sheet.notes)
        return tile(sheet.pixels, 0, 0, 1, 1)[0, 0].tolist()

    notes: list[str] = []
    assert shown(7) == [7, 7, 7]
    assert shown(10, 20, 30, 255) == [10, 20, 30]
    assert shown(10, 20, 30, 0) == [255, 255, 255]
    assert shown(0, 100, 255, 51) == [204, 224, 255]
    assert shown(0, 100, 200, 51, is_cmyk=True) == [0, 20, 40]
    assert notes == []
    assert shown(1, 2) == [1, 2, 0]
    assert shown(1, 2, 3, 4, 5) == [1, 2, 3]
    assert notes == [
        "of 2 channels the first are shown as red, green and blue",
        "of 5 channels the first are shown as red, green and blue",
    ]


def test_frames_of_several_shapes() -> None:
    frames = [np.full((4, 8), 10, "u1"), np.full((16, 8, 3), 20, "u1"), np.full((2, 2), 30, "u1")]
    pixels = contact_sheet(frames, columns=3, width=3 * (8 + GAP) + GAP).pixels
    assert pixels.shape[0] == 16 + 2 * GAP
    assert (tile(pixels, 0, 0, 16, 8)[:4] == 10).all()
    assert (tile(pixels, 0, 1, 16, 8) == 20).all()
    assert (tile(pixels, 0, 2, 16, 8)[:8] == 30).all()


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.zeros((1, 2, 2, 2, 2)), "four axes"),
        (np.zeros((1, 0, 2)), "have no pixels"),
        (np.zeros((0, 2, 2)), "no frames to show"),
        (np.array([["a"]]), "cannot be shown"),
        (np.zeros((1, 100000, 1)), "too large"),
    ],
)
def test_frames_that_cannot_be_shown(frames: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        contact_sheet(frames, columns=1, width=4000)


def test_too_many_columns() -> None:
    with pytest.raises(ValueError, match="9 columns do not fit into a width of 44 pixels"):
        contact_sheet([np.zeros((2, 2), "u1")], columns=9, width=44)
