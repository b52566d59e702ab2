"""Every verb on every type of file: one table of calls, and what each must give.

The table is that of "Verbs and types of files" in docs/cli.md. A cell is an expected content, or
for a verb that has no meaning for a type the error that names the right call.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.display.contactsheet import contact_sheet
from bloscpack.filetypes.table import FILETYPES
from bloscpack.media import image

from ..servers import FileServer, running
from .clipfiles import pixels
from .conftest import REPOSITORY, Blpk, Ended

pytest.importorskip("av", reason="a dataset is written by PyAV")
pytest.importorskip("simplejpeg", reason="a gulp directory holds JPEG")
pytest.importorskip("PIL", reason="a sheet is written by Pillow")

VERBS = ("info", "ls", "cat", "verify", "recover", "convert", "sheet", "tune")
DATA = bytes(i * i // 7 % 251 for i in range(3000))
RAMP = np.arange(240.0).reshape(12, 4, 5)
GRID = np.arange(96, dtype="<u2").reshape(8, 12)
STEPS = np.random.default_rng(3).normal(size=(12, 40, 50))
WALKS = np.round(np.cumsum(STEPS, axis=2), 2).astype("<f4")  # chunks of it are array chunks
MASK = np.eye(3, dtype="?")
WALK, DEPTH = pixels(1, 6, 16, 12, 3), pixels(2, 3, 4, 6).astype("<u2") + 300
PHOTOS = pixels(3, 4, 16, 24, 3)
GYRO = np.arange(15, dtype="<f4").reshape(5, 3)
FRAMES = pixels(4, 3, 6, 8)
SAMPLES = pixels(5, 3, 24, 32, 3)


def write_arrays(folder: Path) -> None:
    bp.pack_bytes_to_file(DATA, folder / "bytes.blp", chunk_size=1000)
    bp.save(folder / "array.blp", RAMP, chunks=5, attrs={"unit": "m"})
    bp.save(folder / "grid.blp", GRID, chunks=(4, 5))
    bp.save(folder / "predicted.blp", WALKS, codec="auto", chunks=5)
    bp.savez(folder / "archive.blp", mask=MASK, ramp=RAMP)


def write_store(folder: Path) -> None:
    with bp.frames.create(folder / "store.blp", attrs={"camera": "left"}) as store:
        store.append("walk", WALK, {"n": 1})
        store.append("depth", DEPTH)


def write_gulp(folder: Path) -> None:
    (folder / "gulp").mkdir()
    chunk = bp.gulp.GulpChunk(folder / "gulp" / "data_0.gulp", folder / "gulp" / "meta_0.gmeta")
    with chunk.open("wb"):
        chunk.append("one", {"n": 0}, list(PHOTOS[:3]))
        chunk.append("two", {"n": 1}, list(PHOTOS[3:]))


def write_recording(folder: Path) -> None:
    layout = type("Imu", (bp.vrs.Layout,), {"gyro": bp.vrs.Array("float", 3)})
    with bp.vrs.create(folder / "recording.vrs", tags={"place": "yard"}) as writer:
        imu, camera = writer.stream("imu"), writer.stream("rgb camera")
        imu.define("data", layout)
        camera.define("data", bp.vrs.Image("raw", 8, 6, "grey8"))
        for number, row in enumerate(GYRO):
            imu.write("data", number / 4, {"gyro": tuple(row.tolist())})
        for number, frame in enumerate(FRAMES):
            camera.write("data", number / 2, frame)


def write_dataset(folder: Path) -> None:
    with bp.benzina.Writer(folder / "dataset.bzna", tile=64, lossless=True) as writer:
        for number, picture in enumerate(SAMPLES):
            writer.add(picture, number, f"cat/{number}.jpg")


# By file: its type, and the function that writes it. Those of a removed type are not used.
WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "array.blp": ("array", write_arrays),
    "store.blp": ("frames", write_store),
    "gulp": ("gulp", write_gulp),
    "recording.vrs": ("vrs", write_recording),
    "dataset.bzna": ("bzna", write_dataset),
}
TYPES = {filetype.name for filetype in FILETYPES}
REMOVED = {name for name, (filetype, _) in WRITERS.items() if filetype not in TYPES}
each_recording = pytest.mark.parametrize("name", {"recording.vrs"} - REMOVED)


def write_files(folder: Path) -> None:
    """Write a file of each type."""
    for name, (_, write) in WRITERS.items():
        if name not in REMOVED:
            write(folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    write_files(folder)
    return folder


class Cell(NamedTuple):
    """Arguments behind the verb, and the check of what the command did in the folder."""

    arguments: tuple[str, ...]
    check: Callable[[Ended, Path], Any]


def prints(*texts: str) -> Callable[[Ended, Path], Any]:
    def check(ended: Ended, folder: Path) -> None:
        assert (ended.code, ended.err) == (0, "")
        for text in texts:
            assert text in ended.out

    return check


def prints_row(*columns: str) -> Callable[[Ended, Path], Any]:
    """Check the first columns of the only line, or of several lines."""

    def check(ended: Ended, folder: Path) -> None:
        assert (ended.code, ended.err) == (0, "")
        words = ended.out.split()
        assert words[: len(columns)] == list(columns)

    return check


def gives(expected: bytes) -> Callable[[Ended, Path], Any]:
    def check(ended: Ended, folder: Path) -> None:
        assert (ended.code, ended.raw, ended.err) == (0, expected, "")

    return check


def gives_like(where: Callable[[Path], bytes]) -> Callable[[Ended, Path], Any]:
    def check(ended: Ended, folder: Path) -> None:
        assert (ended.code, ended.raw) == (0, where(folder))

    return check


def writes(read: Callable[[Path], Any], expected: Any, out: str = "") -> Callable[..., Any]:
    """Check what `read` finds in the file OUT, and a part of what is printed."""

    def check(ended: Ended, folder: Path) -> None:
        assert (ended.code, out in ended.out) == (0, True), ended
        found = read(folder / "OUT")
        if isinstance(expected, list):
            assert len(found) == len(expected)
            assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))
        else:
            assert np.array_equal(found, expected)

    return check


def draws(*pictures: np.ndarray, unit: str) -> Callable[[Ended, Path], Any]:
    """Check that a sheet of one row has these pictures."""

    def check(ended: Ended, folder: Path) -> None:
        assert ended.code == 0
        assert f"1 rows of {len(pictures)} {unit}" in ended.err
        sheet = image.decode((folder / "OUT.png").read_bytes())
        expected = contact_sheet(pictures, columns=len(pictures), width=sheet.shape[1])
        assert np.array_equal(sheet, expected.pixels)

    return check


def tries(*settings: str, command: str) -> Callable[[Ended, Path], Any]:
    """Check the JSON of `tune`: the settings that were tried, and the command of the best."""

    def check(ended: Ended, folder: Path) -> None:
        assert ended.code == 0
        found = [json.dumps(trial["settings"]) for trial in ended.json["trials"]]
        for each in settings:
            assert any(each in text for text in found)
        assert all(trial["nbytes"] > 0 for trial in ended.json["trials"])
        assert ended.json["convert"] is None or command in ended.json["convert"]
        assert ended.json["best"] < len(found)

    return check


def refuses(code: int, *texts: str) -> Callable[[Ended, Path], Any]:
    """Check the error of a cell without a meaning: it names the right call."""

    def check(ended: Ended, folder: Path) -> None:
        assert (ended.code, ended.out) == (code, "")
        assert ended.err.startswith("blpk: error: ")
        for text in texts:
            assert text in ended.err
        assert not list(folder.glob("OUT*"))

    return check


def eight_bit(frame: np.ndarray) -> np.ndarray:
    """Return a frame scaled to bytes by itself."""
    low, high = float(frame.min()), float(frame.max())
    return np.rint((frame - low) * (255 / (high - low))).astype("u1")


def recording_fields(path: Path) -> list[np.ndarray]:
    with bp.vrs.open(path) as recording:
        images, gyro = recording.streams["214-1"], recording.streams["241-1"]
        return [images.frames.read(), np.asarray(gyro.field("gyro"))]


def clips_of(path: Path) -> list[np.ndarray]:
    with bp.frames.open(path) as source:
        return [source[id_].read() for id_ in source]


def frames_of(path: Path) -> np.ndarray:
    """Return the clip of images in a frame store made of a recording."""
    return next(clip for clip in clips_of(path) if clip.shape == FRAMES.shape)


def images_of(path: Path) -> list[bytes]:
    with bp.frames.open(path) as source:
        return [data for id_ in source for data in source[id_].read_images() or ()]


def arrays_of(path: Path) -> list[np.ndarray]:
    return [np.asarray(array) for array in bp.open(path).values()]


def photo(number: int) -> bytes:
    return image.encode_jpeg(PHOTOS[number])


def decoded(number: int) -> np.ndarray:
    return image.decode(photo(number))


def sample_bytes(folder: Path) -> bytes:
    with bp.benzina.open(folder / "dataset.bzna") as dataset:
        return dataset[1].data


NAME_ONE = ("name", "::/")

CELLS: dict[str, dict[str, Cell]] = {
    "bytes.blp": {
        "info": Cell((), prints("blpk: BloscpackHeader:", "blpk:     chunk_size: 1000.0B (1000B)")),
        "ls": Cell((), prints_row("3000", "bytes", "1000", "3000")),
        "cat": Cell(("10:20",), gives(DATA[10:20])),
        "verify": Cell((), prints("bytes.blp: ok")),
        "recover": Cell(("OUT",), writes(lambda path: list(bp.unpack_bytes_from_file(path)[0]),
                                         list(DATA), "3 of 3 chunks saved")),
        "convert": Cell(("OUT", "--to", "array"), writes(bp.load, list(DATA))),
        "sheet": Cell(("OUT.png",), refuses(1, "bytes, not an array", "no picture")),
        "tune": Cell(("--json",), tries('"codec": "lz4"', command="--to array")),
    },
    "array.blp": {
        "info": Cell((), prints("blpk: BloscpackHeader:", "'unit': 'm'")),
        "ls": Cell((), prints_row("12x4x5", "<f8", "5x4x5", "1920")),
        "cat": Cell(("2:4,1",), gives(RAMP[2:4, 1].tobytes())),
        "verify": Cell((), prints("array.blp: ok")),
        "recover": Cell(("OUT",), writes(bp.load, RAMP, "3 of 3 chunks saved")),
        "convert": Cell(("OUT", "--to", "npy"), writes(np.load, RAMP)),
        "sheet": Cell(("OUT.png", "--select", ":3"), draws(*RAMP[:3], unit="slices")),
        "tune": Cell(("--json",), tries('"codec": "lz4"', "{}", command="--to array")),
    },
    "grid.blp": {
        "info": Cell((), prints("blpk: BloscpackHeader:", "'shape'")),
        "ls": Cell((), prints_row("8x12", "<u2", "4x5", "192")),
        "cat": Cell(("::2,-1",), gives(GRID[::2, -1].tobytes())),
        "verify": Cell((), prints("grid.blp: ok")),
        "recover": Cell(("OUT",), writes(bp.load, GRID, "6 of 6 chunks saved")),
        "convert": Cell(("OUT", "--to", "v3"), writes(bp.load, GRID)),
        "sheet": Cell(("OUT.png",), draws(GRID, unit="pictures")),
        "tune": Cell(("--json",), tries('"chunks"', "{}", command="--to array")),
    },
    "predicted.blp": {
        "info": Cell((), prints("blpk: First chunk array header:")),
        "ls": Cell((), prints_row("12x40x50", "<f4", "5x40x50", "96000")),
        "cat": Cell(("3",), gives(WALKS[3].tobytes())),
        "verify": Cell((), prints("predicted.blp: ok")),
        "recover": Cell(("OUT",), writes(bp.load, WALKS, "3 of 3 chunks saved")),
        "convert": Cell(("OUT", "--to", "v3"), writes(bp.load, WALKS)),
        "sheet": Cell(("OUT.png", "--select", ":3"), draws(*WALKS[:3], unit="slices")),
        "tune": Cell(("--json",), tries('"codec": "auto"', command="--to array")),
    },
    "archive.blp": {
        "info": Cell((), prints("arrays: 2", "\n3x3     |b1         9B", "ramp\n")),
        "ls": Cell((), prints("archive.blp::/mask\n", "archive.blp::/ramp\n", "12x4x5")),
        "cat": Cell((), refuses(4, *NAME_ONE)),
        "verify": Cell((), prints("archive.blp: ok")),
        "recover": Cell(("OUT",), writes(arrays_of, [MASK, RAMP], "saved")),
        "convert": Cell(("OUT", "--to", "npz"),
                        writes(lambda path: [*np.load(path).values()], [MASK, RAMP], "2 arrays")),
        "sheet": Cell(("OUT.png",), refuses(4, *NAME_ONE)),
        "tune": Cell((), refuses(4, *NAME_ONE)),
    },
    "archive.blp::/ramp": {
        "info": Cell((), prints("blpk: BloscpackHeader:")),
        "ls": Cell((), prints_row("12x4x5", "<f8")),
        "cat": Cell(("2:4,1",), gives(RAMP[2:4, 1].tobytes())),
        "verify": Cell((), prints("archive.blp::/ramp: ok")),
        "recover": Cell(("OUT",), writes(bp.load, RAMP, "saved")),
        "convert": Cell(("OUT", "--to", "npy"), writes(np.load, RAMP)),
        "sheet": Cell(("OUT.png", "--select", ":3"), draws(*RAMP[:3], unit="slices")),
        "tune": Cell(("--json",), tries('"codec": "lz4"', command="archive.blp::/ramp")),
    },
    "store.blp": {
        "info": Cell((), prints("clips: 2", "frames: 9", "\n16x12x3    |u1    lossless")),
        "ls": Cell((), prints_row("-", "various", "-")),
        "cat": Cell((), refuses(1, "2 clips", "store.blp::/walk")),
        "verify": Cell((), prints("store.blp: ok")),
        "recover": Cell(("OUT",), writes(clips_of, [WALK, DEPTH], "2 of 2 clips saved")),
        "convert": Cell(("OUT", "--to", "frames"), writes(clips_of, [WALK, DEPTH], "2 clips")),
        "sheet": Cell(("OUT.png",), draws(WALK[3], eight_bit(DEPTH[1]), unit="clips")),
        "tune": Cell(("--json",), tries('"fast"', '"small"', command="--preset")),
    },
    "store.blp::/walk": {
        "info": Cell((), prints("kind: clip", "shape: 6x16x12x3", "dtype: |u1")),
        "ls": Cell((), prints_row("6x16x12x3", "|u1")),
        "cat": Cell(("1:3,::2,0",), gives(WALK[1:3, ::2, 0].tobytes())),
        "verify": Cell((), refuses(1, "a clip cannot be verified alone", "'store.blp'")),
        "recover": Cell(("OUT",), refuses(1, "a clip cannot be recovered alone", "'store.blp'")),
        "convert": Cell(("OUT", "--to", "npy"), writes(np.load, WALK)),
        "sheet": Cell(("OUT.png", "--select", "0,5"), draws(WALK[0], WALK[5], unit="frames")),
        "tune": Cell(("--json",), tries('"fast"', '"small"', command="store.blp::/walk")),
    },
    "gulp": {
        "info": Cell((), prints("kind: gulp directory", "items: 2", "frames: 4")),
        "ls": Cell((), prints_row("4", "jpeg", "-", "-")),
        "cat": Cell((), refuses(1, "2 clips", "gulp::/one")),
        "verify": Cell(("--decode",), prints("gulp: ok")),
        "recover": Cell(("OUT",), writes(images_of, [photo(k) for k in range(4)],
                                         "2 of 2 items saved")),
        "convert": Cell(("OUT", "--to", "frames"),
                        writes(images_of, [photo(k) for k in range(4)], "2 clips")),
        "sheet": Cell(("OUT.png",), draws(decoded(1), decoded(3), unit="clips")),
        "tune": Cell(("--json",), tries('"kept"', '"small"', command="gulp")),
    },
    "gulp::/one": {
        "info": Cell((), prints("kind: clip", "shape: 3x16x24x3", "kept as: images")),
        "ls": Cell((), prints_row("3x16x24x3", "|u1")),
        "cat": Cell(("1", "--image"), gives(photo(1))),
        "verify": Cell((), refuses(1, "a clip cannot be verified alone", "'gulp'")),
        "recover": Cell(("OUT",), refuses(1, "a clip cannot be recovered alone", "'gulp'")),
        "convert": Cell(("OUT", "--to", "npy"),
                        writes(np.load, np.stack([*map(decoded, range(3))]))),
        "sheet": Cell(("OUT.png",), draws(*map(decoded, range(3)), unit="frames")),
        "tune": Cell(("--json",), tries('"kept"', '"small"', command="gulp::/one")),
    },
    "recording.vrs": {
        "info": Cell((), prints("kind: VRS recording", "records: 8", "\n241-1  ")),
        "ls": Cell((), prints_row("8", "records", "-", "-")),
        "cat": Cell(("0:2",), gives(FRAMES[0].tobytes() + GYRO[0].tobytes())),
        "verify": Cell(("--decode",), prints("recording.vrs: ok")),
        "recover": Cell(("OUT",), writes(recording_fields, [FRAMES, GYRO], "8 of 8 records saved")),
        "convert": Cell(("OUT", "--to", "frames"),
                        writes(frames_of, FRAMES, "frames")),
        "sheet": Cell(("OUT.png",), draws(*FRAMES, unit="frames")),
        "tune": Cell(("--json",), tries('"zmax"', '"none"', command="vrs copy")),
    },
    "recording.vrs::/214-1": {
        "info": Cell((), prints("kind: clip", "shape: 3x6x8", "dtype: |u1")),
        "ls": Cell((), prints_row("3x6x8", "|u1")),
        "cat": Cell(("1",), gives(FRAMES[1].tobytes())),
        "verify": Cell((), refuses(1, "a clip cannot be verified alone", "'recording.vrs'")),
        "recover": Cell(("OUT",), refuses(1, "a clip cannot be recovered alone", "recording.vrs")),
        "convert": Cell(("OUT", "--to", "npy"), writes(np.load, FRAMES)),
        "sheet": Cell(("OUT.png",), draws(*FRAMES, unit="frames")),
        "tune": Cell(("--json",), tries('"fast"', '"small"', command="recording.vrs::/214-1")),
    },
    "dataset.bzna": {
        "info": Cell((), prints("kind: Benzina dataset", "samples: 3", "targets: 3")),
        "ls": Cell((), prints_row("3", "samples", "-", "-")),
        "cat": Cell(("1",), gives_like(sample_bytes)),
        "verify": Cell(("--decode",), prints("dataset.bzna: ok")),
        "recover": Cell(("OUT",), writes(clips_of, [each[None] for each in SAMPLES],
                                         "3 of 3 samples saved")),
        "convert": Cell(("OUT", "--to", "frames"),
                        writes(clips_of, [each[None] for each in SAMPLES], "3 clips")),
        "sheet": Cell(("OUT.png",), draws(*SAMPLES, unit="samples")),
        "tune": Cell(("--json",), tries('"fast"', '"small"', command="--preset")),
    },
    "dataset.bzna::/cat/1.jpg": {
        "info": Cell((), prints("kind: clip", "shape: 1x24x32x3", "dtype: |u1")),
        "ls": Cell((), prints_row("1x24x32x3", "|u1")),
        "cat": Cell(("0,3",), gives(SAMPLES[1, 3].tobytes())),
        "verify": Cell((), refuses(1, "a clip cannot be verified alone", "'dataset.bzna'")),
        "recover": Cell(("OUT",), refuses(1, "a clip cannot be recovered alone", "dataset.bzna")),
        "convert": Cell(("OUT", "--to", "npy"), writes(np.load, SAMPLES[1:2])),
        "sheet": Cell(("OUT.png",), draws(SAMPLES[1], unit="frames")),
        "tune": Cell(("--json",), tries('"fast"', '"small"', command="dataset.bzna::/cat/1.jpg")),
    },
}  # fmt: skip
CELLS = {name: cells for name, cells in CELLS.items() if name.split("::")[0] not in REMOVED}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", CELLS)
def test_cell(blpk: Blpk, files: Path, tmp_path: Path, name: str, verb: str) -> None:
    for each in files.iterdir():
        (tmp_path / each.name).symlink_to(each)
    cell = CELLS[name][verb]
    cell.check(blpk(verb, name, *cell.arguments), tmp_path)


def test_the_table_is_full() -> None:
    assert all(tuple(cells) == VERBS for cells in CELLS.values())


@pytest.fixture
def server(files: Path) -> Any:
    with running(FileServer()) as server:
        for path in files.rglob("*"):
            if path.is_file():
                server.files[f"/{path.relative_to(files)}"] = path.read_bytes()
        if "gulp" not in REMOVED:
            names = os.listdir(files / "gulp")
            server.files["/gulp/"] = "".join(f'<a href="{name}">x</a>' for name in names).encode()
        plain = [path.name for path in files.iterdir() if path.is_file()]
        server.files["/"] = "".join(f'<a href="{name}">x</a>' for name in plain).encode()
        yield server


URLS = ("array.blp", "store.blp", "gulp/", "recording.vrs", "dataset.bzna")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", [name for name in URLS if name.rstrip("/") not in REMOVED])
def test_urls(
    blpk: Blpk, server: FileServer, files: Path, tmp_path: Path, name: str, verb: str
) -> None:
    (tmp_path / "dataset.bzna").symlink_to(files / "dataset.bzna")  # to compare with
    cell = CELLS[name.rstrip("/")][verb]
    if verb == "tune":
        check = tries(command=server.url(""))
    elif cell.check.__qualname__.startswith("refuses"):
        check = refuses(1, "clips")
    elif verb == "verify":
        check = prints(": ok")
    else:
        check = cell.check
    check(blpk(verb, server.url(name), *cell.arguments), tmp_path)


@each_recording
def test_the_images_of_a_recording_are_clips(blpk: Blpk, server: FileServer, name: str) -> None:
    assert "214-1" in blpk("frames", "ls", server.url(name)).out


def test_patterns(blpk: Blpk, files: Path, server: FileServer) -> None:
    for where in (f"{files}/", server.url("")):
        ended = blpk("verify", f"{where}*.blp")
        assert ended.code == 0
        assert ended.out.count(": ok\n") == 6
        ended = blpk("ls", f"{where}a*.blp", f"{where}s*.blp", f"{where}*.zip")
        assert (ended.code, ended.out.count("\n")) == (1, 4)
        assert "*.zip" in ended.err
        ended = blpk("info", "--json", f"{where}by*.blp", f"{where}gr*.blp")
        assert [each["status"] for each in ended.json["files"]] == ["ok", "ok"]
        ended = blpk("cat", f"{where}arr*.blp", "-1,-1")
        assert ended.raw == RAMP[-1, -1].tobytes()
        for verb in ("recover", "sheet"):
            ended = blpk(verb, f"{where}*.blp", "OUT.png")
            assert (ended.code, "matches 6 files; expected one" in ended.err) == (2, True)


def test_a_pattern_of_arrays_or_stores_is_one(blpk: Blpk, tmp_path: Path) -> None:
    for number in range(3):
        bp.save(tmp_path / f"a{number}.blp", RAMP + number)
        with bp.frames.create(tmp_path / f"s{number}.blp") as store:
            store.append(f"clip {number}", WALK + np.uint8(number))
    ended = blpk("cat", "a*.blp", "::12,0,0")
    assert np.frombuffer(ended.raw).tolist() == [0, 1, 2]
    assert blpk("cat", "s*.blp::/clip 1", "0").raw == (WALK[0] + np.uint8(1)).tobytes()
    ended = blpk("cat", "a*.blp", "--chunk", "0")
    assert (ended.code, "matches 3 files" in ended.err) == (2, True)


def test_the_documentation_has_the_table() -> None:
    text = (REPOSITORY / "docs" / "cli.md").read_text("utf-8")
    section = text.split("### Verbs and types of files\n")[1].split("\n### ")[0].split("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")]
    assert [row.strip("`") for row in rows[2:]] == list(VERBS)


@pytest.mark.parametrize(
    ("name", "at", "unit", "left"),
    [
        each
        for each in (("gulp", 0, "items", "1 of 2"), ("dataset.bzna", 40, "samples", "2 of 3"))
        if each[0] not in REMOVED
    ],
)
def test_what_is_whole_is_recovered(
    blpk: Blpk, tmp_path: Path, name: str, at: int, unit: str, left: str
) -> None:
    write_files(tmp_path)
    path = tmp_path / name if name != "gulp" else tmp_path / "gulp" / "data_0.gulp"
    data = bytearray(path.read_bytes())
    data[at : at + 30] = bytes(30)
    path.write_bytes(data)
    assert blpk("verify", name).code == 3
    ended = blpk("recover", name, "OUT")
    assert (ended.code, f"{name}: {left} {unit} saved" in ended.out) == (3, True)
    assert blpk("verify", "--decode", "OUT").code == 0
    ended = blpk("recover", "--json", name, "AGAIN")
    assert (ended.json["status"], len(ended.json["damage"])) == ("damaged", 1)


@each_recording
def test_records_behind_damage_are_recovered(blpk: Blpk, tmp_path: Path, name: str) -> None:
    write_recording(tmp_path)
    path = tmp_path / name
    data = path.read_bytes()
    at = data.index(GYRO[1].tobytes()) - 20
    path.write_bytes(data[:at] + bytes(30) + data[at + 30 : -40])
    assert blpk("verify", path).code == 3
    ended = blpk("recover", "recording.vrs", "OUT")
    assert (ended.code, "records saved" in ended.out) == (3, True)
    assert blpk("verify", "OUT").code == 0
    with bp.vrs.open(tmp_path / "OUT") as recording:
        gyro = np.asarray(recording.streams["241-1"].field("gyro"))
    assert np.array_equal(gyro[[0, -1]], GYRO[[0, -1]])
    assert blpk("recover", "recording.vrs", "-").code == 2
