"""Errors for a file, folder or value of another type: what it is, and which call to use."""

import pickle
import re
import zipfile
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array.axislabels import Labels
from bloscpack.cli.console.inputfile import open_input
from bloscpack.exceptions import (
    FormatError,
    IsAFolderError,
    NotBloscpackError,
    UnsupportedError,
    WrongKindError,
)
from bloscpack.filetypes import identify
from bloscpack.format import filekind
from bloscpack.format.filekind import DATASET, GULP_DIRECTORY, GULP_FILE, RECORDING, VIDEO, kind_of
from bloscpack.frames.sampler import ClipSampler
from bloscpack.storage.file import Place

from ..conftest import needs_exchange
from ..test_layers import FILE_TYPES

MP4 = b"\0\0\0\x10ftypisom\0\0\0\0\0\0\0\x08moov"


def of_types(*names: str) -> list[Callable[..., Any]]:
    """Return public functions by name, without those of file types that have been removed."""
    return [attrgetter(name)(bp) for name in names if name.split(".")[0] in FILE_TYPES]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write one file of each type that this package can make, in the working directory."""
    monkeypatch.chdir(tmp_path)
    bp.save("array.blp", np.arange(2000))
    with bp.frames.create("clips.blp") as store:
        store.append("walk", np.zeros((2, 4, 6), "u1"))
    np.save("plain.npy", np.arange(9))
    zipfile.ZipFile("several.npz", "w").writestr("a.npy", b"")
    Path("film.mp4").write_bytes(MP4)
    Path("data.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    Path("frame.b2frame").write_bytes(b"\x9e\xa8b2frame\0" + bytes(600))
    Path("photo.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(600))
    Path("data_0.gulp").write_bytes(b"\xff\xd8\xff\xe0" + bytes(600))
    Path("film.mkv").write_bytes(b"\x1a\x45\xdf\xa3" + bytes(600))
    Path("moves.gif").write_bytes(b"GIF89a" + bytes(600))
    Path("a.tar").write_bytes(bytes(257) + b"ustar" + bytes(600))
    Path("old.nc").write_bytes(b"CDF\1" + bytes(600))
    Path("my stack.tif").write_bytes(b"II*\0" + bytes(600))
    Path("table.parquet").write_bytes(b"PAR1" + bytes(600))
    Path("table.arrow").write_bytes(b"ARROW1" + bytes(600))
    Path("moves.vrs").write_bytes(b"VisionRe" + bytes(600))
    return tmp_path


@pytest.mark.parametrize(
    ("call", "name", "words"),
    [
        (bp.open, "clips.blp", ("a frame store", "bloscpack.frames.open")),
        (bp.load, "clips.blp", ("a frame store", "bloscpack.frames.open")),
        (bp.open, "moves.vrs", (RECORDING.name, RECORDING.advice)),
        (bp.open, "data.h5", ("an HDF5 file", "h5py")),
        (
            bp.open,
            "plain.npy",
            ("a NumPy array file", "'blpk convert plain.npy plain.blp' converts it"),
        ),
        (bp.open, "several.npz", ("a ZIP archive", "numpy.load")),
        (bp.open, "frame.b2frame", ("a Blosc2 frame", "blosc2.open")),
        (bp.load, "film.mkv", ("a video", "'blpk convert film.mkv film.blp' converts it")),
        (bp.verify, "film.mkv", ("a video", "'blpk convert")),
        (bp.open, "moves.gif", ("a GIF image", "'blpk convert moves.gif moves.blp' converts it")),
        (bp.open, "photo.jpg", ("a JPEG image", "'blpk convert photo.jpg photo.blp'")),
        (bp.load, "a.tar", ("a tar archive", "'blpk convert a.tar a.blp' converts it")),
        (bp.verify, "old.nc", ("a netCDF file", "'blpk convert old.nc old.blp' converts it")),
        (bp.open, "my stack.tif", ("a TIFF", '\'blpk convert "my stack.tif" "my stack.blp"\' c')),
        (bp.open, "table.parquet", ("a Parquet file", "pyarrow")),
        (bp.open, "table.arrow", ("an Arrow file", "pyarrow")),
        (bp.frames.open, "data.h5", ("an HDF5 file", "'blpk convert data.h5 data.blp' converts")),
        (bp.frames.open, "array.blp", ("not a frame store", "open it with bloscpack.open")),
        (bp.frames.open, "film.mp4", ("a video", "bloscpack.frames.ingest")),
        (bp.frames.open, "photo.jpg", ("a JPEG image", "listing.images")),
        *(
            (call, name, words)
            for call in of_types("vrs.open")
            for name, words in (
                ("array.blp", ("not a VRS file", "open it with bloscpack.open")),
                ("clips.blp", ("a frame store", "bloscpack.frames.open")),
            )
        ),
        *(
            (call, name, words)
            for call in of_types("benzina.open", "benzina.verify")
            for name, words in (
                ("array.blp", ("not a Benzina dataset", "open it with bloscpack.open")),
                ("moves.vrs", (RECORDING.name, RECORDING.advice)),
                ("film.mp4", ("a video", "not a Benzina dataset")),
            )
        ),
    ],
)
@pytest.mark.usefixtures("files")
def test_a_file_of_another_kind_names_the_right_call(
    call: Callable[[str], Any], name: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(WrongKindError) as caught:
        call(name)
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert all(word in message for word in words), message
    assert isinstance(caught.value, UnsupportedError | ValueError)
    # A sound file of ours is not reported as damaged.
    is_ours = name.endswith(".blp")
    assert isinstance(caught.value, FormatError) != is_ours
    assert isinstance(caught.value, NotBloscpackError) != is_ours
    assert str(pickle.loads(pickle.dumps(caught.value))).endswith(message.partition(": ")[2])


@needs_exchange
@pytest.mark.usefixtures("files")
def test_an_array_to_convert_is_not_reported_as_damaged() -> None:
    with pytest.raises(ValueError, match=r"shape \(2000,\) is not a clip of frames") as caught:
        bp.convert("array.blp", "out", to="images")
    assert not isinstance(caught.value, FormatError)
    with pytest.raises(WrongKindError, match=r"open it with bloscpack\.open"):
        bp.frames.open("array.blp", "a")
    assert not Path("out").exists()


def test_kinds_known_by_name_only() -> None:
    assert kind_of(b"") is kind_of(b"no kind at all") is None
    assert kind_of(b"\xff\xd8\xff", "folder/data_0.gulp") is GULP_FILE
    assert kind_of(MP4, "pictures.bzna") is DATASET
    assert kind_of(MP4, "https://host/pictures.bzna?key=1") is DATASET
    assert kind_of(MP4, "film.mp4") is VIDEO


@pytest.mark.parametrize(
    ("head", "name", "call"),
    [
        (b"SIMPLE  =                    T", "a FITS file", "astropy.io.fits.getdata(path)"),
        (bytes(344) + b"n+1\0", "a NIfTI image", "nibabel.load(path)"),
        (b"\x1c\x02\0\0n+2\0\r\n\x1a\n", "a NIfTI image", "nibabel.load(path)"),
        (bytes(128) + b"DICM", "a DICOM file", "pydicom.dcmread(path).pixel_array"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "a WAV file", "scipy.io.wavfile.read(path)[1]"),
        (b"GRIB\0\0\0\x02", "a GRIB file", "xarray.open_dataset(path, engine='cfgrib')"),
        (b"MATLAB 5.0 MAT-file, Platform", "a MATLAB file", "scipy.io.loadmat(path)['NAME']"),
        (b"MATLAB 7.3 MAT-file, Platform", "a MATLAB file", "h5py.File(path)['NAME'][...]"),
        (b"PAR1\x15", "a Parquet file", "pyarrow.parquet.read_table(path)"),
        (b"ARROW1\0\0", "an Arrow file", "pyarrow.feather.read_table(path)"),
        (b"\x9e\xa8b2frame\0", "a Blosc2 frame", "blosc2.open(path)[:]"),
        (pickle.dumps([1.5, 2.5]), "a pickle", "if you trust it"),
        (pickle.dumps(np.arange(3), 2), "a pickle", "if you trust it"),
        (b"\x1f\x8b\x08", "a gzip file", "gzip.open(path)"),
        (b"\x28\xb5\x2f\xfd\x04", "a Zstandard file", "zstandard.open(path)"),
        (b"a,b\n1,2\n3,4\n", "a table of text (CSV)", "numpy.genfromtxt(path"),
        (b"1.5;2\r\n2.5;3", "a table of text (CSV)", "numpy.genfromtxt(path"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_foreign_files_are_named_with_the_line_that_reads_them(
    tmp_path: Path, head: bytes, name: str, call: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(head if name == "a table of text (CSV)" else head + bytes(600))
    for opened in (bp.open, bp.load, bp.verify, bp.frames.open):
        with pytest.raises(NotBloscpackError) as caught:
            opened(path)
        assert f"x: {name}" in str(caught.value)
        assert call in str(caught.value)


def test_text_is_not_taken_for_a_table() -> None:
    for head in (
        b'{"a": 1, "b": 2}\n', b"One, two.\nThree", b"[1,\n2,\n3]", b"a b\nc d\n", b"a,b\n\0,\0\n",
    ):  # fmt: skip
        assert kind_of(head) is None, head
        assert kind_of(head, "x.txt") is None
    assert kind_of(b"header\n1\n2", "x.csv") is filekind.CSV


def test_a_folder_of_another_kind_without_a_magic_is_not_a_gulp_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(filekind._SUFFIXES, ".film", VIDEO)
    assert not filekind.is_gulp(["a.film"])
    assert filekind.is_gulp(["a.film", "data_0.gulp"])


def folder_with(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(MP4)
    return folder


def test_a_folder_is_refused_without_a_type_of_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tuple(each for each in identify.FILETYPES if not each.is_folder)
    monkeypatch.setattr(identify, "FILETYPES", files)
    folder = folder_with(tmp_path / "vids", "a.mp4")
    for call in (bp.frames.open, lambda path: open_input(Place(path))):
        with pytest.raises(IsAFolderError, match=r"vids: a folder, not a file: it holds videos"):
            call(str(folder))


@pytest.mark.parametrize(
    "call",
    [
        bp.open,
        lambda path: bp.open(path, "a"),
        bp.load,
        bp.unpack_ndarray_from_file,
        *of_types("vrs.open", "benzina.open", "benzina.verify"),
        *((lambda path, call=call: call([path])) for call in of_types("vrs.open")),
    ],
)
@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            ("data_0.gulp", "meta_0.gmeta"),
            f"a Gulp directory, not a file: {GULP_DIRECTORY.advice}",
        ),
        (("data_0.gulp",), "a folder, not a file: it has 1 .gulp and 0 .gmeta files that do not"),
        (("a.mp4",), "a folder, not a file: it holds videos (.mp4); 'blpk frames create"),
        (
            ("_versions", "data"),
            "a folder, not a file: it is a Lance dataset: read it with lance",
        ),
        (
            ("zarr.json",),
            "a folder, not a file: it is a Zarr store: zarr.open reads it, 'blpk convert",
        ),
        ((), "a folder, not a file: it is empty"),
    ],
)
def test_a_folder_instead_of_a_file_names_the_right_call(
    tmp_path: Path, call: Callable[[Path], Any], names: tuple[str, ...], words: str
) -> None:
    folder = folder_with(tmp_path / "vids", *names)
    with pytest.raises(IsAFolderError) as caught:
        call(folder)
    assert str(caught.value).startswith(f"{folder}: {words}")
    assert isinstance(caught.value, NotBloscpackError)
    assert isinstance(caught.value, IsADirectoryError)  # as of 0.16
    assert str(pickle.loads(pickle.dumps(caught.value))).startswith(f"{folder}: {words}")


@pytest.mark.parametrize("names", [(), ("a.mp4",), ("zarr.json",)])
def test_only_gulp_directories_are_verified_and_recovered(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    folder = folder_with(tmp_path / "vids", *names)
    for call in (bp.verify, lambda path: bp.recover(path, tmp_path / "new")):
        with pytest.raises(IsAFolderError, match=r"vids: a folder, not a file: it "):
            call(folder)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "items",
    [
        lambda folder: bp.frames.listing.videos(folder),
        lambda folder: bp.frames.listing.folders(folder),
        lambda folder: bp.frames.listing.listed(folder / "empty.csv"),
        lambda folder: bp.frames.listing.listed(folder / "empty.json"),
        lambda folder: {},
        lambda folder: iter([]),
    ],
)
def test_an_ingest_that_finds_nothing_fails(tmp_path: Path, items: Any) -> None:
    (tmp_path / "empty.csv").write_text("path,id\n")
    (tmp_path / "empty.json").write_text("[]")
    target = tmp_path / "out.blp"
    with pytest.raises(ValueError, match=r"nothing to ingest, so nothing was written.*allow_empty"):
        bp.frames.ingest(items(tmp_path), target)
    assert not target.exists()
    report = bp.frames.ingest(items(tmp_path), target, allow_empty=True)
    assert (report.nclips, target.exists()) == (0, True)


@pytest.mark.parametrize("name", ["videos", "folders", "images", "arrays"])
def test_a_list_of_a_missing_folder_fails_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        getattr(bp.frames.listing, name)(tmp_path / "missing")


def test_a_conversion_that_finds_nothing_fails(tmp_path: Path) -> None:
    bp.frames.create(tmp_path / "empty.blp").close()
    with pytest.raises(ValueError, match=r"empty.blp: no clips to convert"):
        bp.convert(tmp_path / "empty.blp", tmp_path / "out.bzna")
    assert not (tmp_path / "out.bzna").exists()
    assert bp.convert(tmp_path / "empty.blp", tmp_path / "copy.blp", allow_empty=True).clips == 0


@pytest.mark.parametrize(
    "frames",
    [
        ["a.png", "b.png"],
        [Path("a.png")],
        np.array(["a.png", "b.png"]),
        np.array([1, None], object),
        [np.array(["text"])],
    ],
)
@pytest.mark.parametrize("codec", ["lossless", "jpeg"])
def test_paths_and_text_are_not_frames(tmp_path: Path, frames: Any, codec: str) -> None:
    found = (
        "an array of" if isinstance(frames[0], np.ndarray | np.str_ | int) else "such as .*a.png"
    )
    with bp.frames.create(tmp_path / "clips.blp", codec=codec) as store:
        with pytest.raises(TypeError, match=found + r".*bloscpack\.frames\.ingest reads files"):
            store.append("a", frames)
        assert len(store) == 0


@pytest.mark.parametrize("dtype", ["M8[ns]", "V3"])
def test_documented_dtypes_stay_frames(tmp_path: Path, dtype: str) -> None:
    frames = np.zeros((2, 3), dtype)
    with bp.frames.create(tmp_path / "clips.blp") as store:
        store.append("a", frames)
        assert store["a"][:].tobytes() == frames.tobytes()


def test_a_sampler_does_not_count_the_letters_of_a_path(tmp_path: Path) -> None:
    (tmp_path / "a.blp").write_bytes(b"")
    for wrong in (
        "clips.blp",
        b"clips.blp",
        Path("clips.blp"),
        [Path("a")],
        [str(tmp_path / "a.blp")],
    ):
        with pytest.raises(TypeError, match="pass the FrameDataset"):
            ClipSampler(wrong)  # type: ignore[arg-type]
    assert len(ClipSampler(["a", "b"])) == 2


def frame_dataset(folder: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from bloscpack.integrations.torch import FrameDataset

    FrameDataset(folder / "clips.blp", clips="ab")


def mapped_clips(folder: Path) -> None:
    pytest.importorskip("dask.array", reason="dask is not installed")
    from bloscpack.integrations.dask import map_clips

    map_clips(folder / "clips.blp", len, ids="ab")


@pytest.mark.parametrize(
    ("name", "given", "call"),
    [
        ("clips", "ab", frame_dataset),
        ("ids", "ab", mapped_clips),
        ("dims", "yx", lambda folder: Labels.unpack({}, (2, 3), dims="yx")),
    ],
)
def test_one_text_is_not_a_list_of_its_letters(
    tmp_path: Path, name: str, given: str, call: Callable[[Path], object]
) -> None:
    with bp.frames.create(tmp_path / "clips.blp") as store:
        for id_ in "ab":
            store.append(id_, np.zeros((2, 3), "u1"))
    with pytest.raises(
        TypeError, match=f"{name} is a list, not a single str: \\['{re.escape(given)}'"
    ):
        call(tmp_path)
