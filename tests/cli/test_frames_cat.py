"""``blpk cat`` and ``blpk frames cat`` of clips: selections, forms and errors."""

from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.console.status import UsageError
from bloscpack.cli.frames import cat
from bloscpack.cli.frames.clips import parse_frames

from .clipfiles import CLIPS, write_store
from .conftest import Blpk


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "clips.blp")


def test_arrays_are_not_printed_as_images(blpk: Blpk, store: Path) -> None:
    ended = blpk("frames", "cat", store, "walk", "--select", "0", "--image")
    assert ended.code == 2
    assert "'blpk sheet' and -o FILE.png make a picture of others" in ended.err


@pytest.mark.parametrize("piece_nbytes", [1200, 1 << 20])
@pytest.mark.parametrize(
    ("text", "selection"),
    [
        (None, slice(None)),
        ("0:6:2", slice(0, 6, 2)),
        ("::-1", slice(None, None, -1)),
        ("-2:", slice(-2, None)),
        ("3", 3),
        ("-1", -1),
        ("4,0,4", [4, 0, 4]),
        ("[1, 2]", [1, 2]),
        ("5:2", slice(5, 2)),
        ("...", slice(None)),
    ],
)
def test_selections(
    blpk: Blpk,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    piece_nbytes: int,
    text: str | None,
    selection: object,
) -> None:
    monkeypatch.setattr(cat, "_PIECE_NBYTES", piece_nbytes)
    chosen = () if text is None else ("--select", text)
    expected = CLIPS["walk"][selection]  # type: ignore[index]
    ended = blpk("frames", "cat", store, "walk", *chosen)
    assert (ended.code, ended.err, ended.raw) == (0, "", expected.tobytes())
    assert blpk("frames", "cat", store, "walk", *chosen, "-o", "x.npy").code == 0
    found = np.load("x.npy")
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(found, expected)


def test_few_frames_are_read_at_once(
    blpk: Blpk, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = CLIPS["walk"]
    monkeypatch.setattr(cat, "_PIECE_NBYTES", 2 * frames[0].nbytes)
    most = 0

    class Counted(cat._Frames):
        def _rest_of(self, frames: np.ndarray) -> np.ndarray:
            nonlocal most
            most = max(most, len(frames) if frames.strides[0] else 0)  # not those without items
            return super()._rest_of(frames)

    monkeypatch.setattr(cat, "_Frames", Counted)
    ended = blpk("cat", f"{store}::/walk", ":,3,:2")
    assert (ended.code, ended.raw, most) == (0, frames[:, 3, :2].tobytes(), 2)


def test_text_and_json(blpk: Blpk, store: Path) -> None:
    ended = blpk("frames", "cat", store, "mask", "--select", "0", "--text")
    assert ended.out == np.array2string(CLIPS["mask"][0]) + "\n"
    document = blpk("frames", "cat", store, "none", "--json").json
    assert document == blpk("cat", f"{store}::/none", "--json").json
    assert document == {
        "schema_version": 1,
        "command": "cat",
        "path": f"{store}::/none",
        "selection": None,
        "chunk": None,
        "shape": [0, 4, 6],
        "dtype": "<f4",
        "nbytes": 0,
    }
    document = blpk("frames", "cat", store, "depth", "--select", "[1:]", "--json").json
    assert (document["selection"], document["shape"], document["nbytes"]) == ("1:", [2, 4, 6], 96)
    assert blpk("frames", "cat", store, "depth", "--npy").raw.startswith(b"\x93NUMPY")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["walk", "--select", "6"], 1, "clip 'walk': frame 6 of a clip of 6"),
        (["zebra"], 1, "no clip 'zebra'"),
        (["walk", "--select", "1:2,3"], 2, "expected one range, or a list of frame numbers"),
        (["walk", "--select", "os"], 2, "'os' is not an integer"),
        (["walk", "1", "--select", "2"], 2, "cannot be combined"),
        (["walk", "--npy", "--text"], 2, "not allowed with"),
        (["walk", "-o", "clips.blp"], 1, "same file"),
        (["walk", "-o", "there.npy"], 1, "exists!"),
    ],
)
def test_errors(
    blpk: Blpk, store: Path, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "there.npy").write_text("mine")
    ended = blpk("frames", "cat", "clips.blp", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert (tmp_path / "there.npy").read_text() == "mine"


def test_numbers_are_names_of_clips_and_not_of_other_types(blpk: Blpk, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "numbers.blp") as store:
        store.append("3", CLIPS["walk"])
    bp.save(tmp_path / "array.blp", np.arange(9))
    frame = CLIPS["walk"][1]
    assert blpk("frames", "cat", "numbers.blp", "3").raw == CLIPS["walk"].tobytes()
    assert blpk("cat", "numbers.blp", "3").raw == CLIPS["walk"][3].tobytes()
    assert blpk("frames", "cat", "numbers.blp", "3", "1").raw == frame.tobytes()
    assert blpk("frames", "cat", "numbers.blp::/3", "1").raw == frame.tobytes()
    ended = blpk("frames", "cat", "array.blp", "3")
    assert (ended.code, ended.raw) == (4, b"")
    assert "not a frame store" in ended.err
    ended = blpk("cat", "array.blp", "--select", "3")
    assert (ended.code, ended.raw) == (2, b"")
    assert "give SELECTION instead" in ended.err


def test_forced(blpk: Blpk, store: Path, tmp_path: Path) -> None:
    (tmp_path / "there.npy").write_text("mine")
    assert blpk("-f", "frames", "cat", store, "walk", "-o", "there.npy").code == 0
    assert np.array_equal(np.load("there.npy"), CLIPS["walk"])


@pytest.mark.parametrize("text", ["", "1:2,3", "...,1", "1:2:3:4", "a"])
def test_texts_that_select_nothing(text: str) -> None:
    with pytest.raises(UsageError):
        parse_frames(text)
