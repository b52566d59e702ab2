"""Our reader and the reference readers accept and refuse files as the set specifies."""

import contextlib
import hashlib
import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import exceptions
from bloscpack.format.codec import ChunkHeader
from bloscpack.frames.store.videoclip import VideoClip

from .describe import describe

pytestmark = pytest.mark.filterwarnings("ignore:.*commit 3 was not completed")

FOLDER = Path(__file__).parent
TWINS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))
}
MAX_NBYTES = 640_000
KINDS: dict[str, type[BaseException]] = {
    "not-bloscpack": exceptions.NotBloscpackError,
    "truncated": exceptions.TruncatedError,
    "checksum": exceptions.ChecksumError,
    "format": exceptions.FormatError,
    "codec": exceptions.CodecError,
    "unsupported": exceptions.UnsupportedError,
    "object-dtype": exceptions.ObjectNumpyArrayRejection,
}
ARRAYS = [name for name, twin in TWINS.items() if twin["kind"] in ("array", "bytes")]
STORES = [name for name, twin in TWINS.items() if twin["kind"] == "frames"]
ARCHIVES = [name for name, twin in TWINS.items() if twin["kind"] == "archive"]
DAMAGED = [name for name, twin in TWINS.items() if twin["kind"] == "damaged"]


def data_of(name: str) -> bytes:
    return (FOLDER / f"{name}.blp").read_bytes()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_every_file_has_a_twin_and_all_are_small() -> None:
    files = sorted(FOLDER.glob("*.blp"))
    assert [path.stem for path in files] == sorted(TWINS)
    assert len(files) > 120
    assert sum(path.stat().st_size for path in FOLDER.glob("*.[bj]*")) < MAX_NBYTES


def test_all_files_can_be_made(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    pytest.importorskip("av")
    make = importlib.import_module(f"{__package__}.make")
    make.main(tmp_path / "new")
    assert {path.stem for path in (tmp_path / "new").glob("*.json")} == {*TWINS}
    made = json.loads((tmp_path / "new/frames_dtypes.json").read_text("utf-8"))
    clips = [
        [(each["dtype"], each["frames"]) for each in of["clips"]]
        for of in (made, TWINS["frames_dtypes"])
    ]
    assert clips[0] == clips[1]


@pytest.mark.parametrize("name", TWINS)
def test_the_file_is_the_one_described(name: str) -> None:
    data, twin = data_of(name), TWINS[name]
    assert twin["file"] == f"{name}.blp"
    assert (len(data), sha256(data)) == (twin["nbytes"], twin["sha256"])


@pytest.mark.parametrize("name", TWINS)
def test_the_reference_reader_finds_what_is_described(name: str) -> None:
    twin = {key: TWINS[name][key] for key in TWINS[name] if key not in ("file", "nbytes", "sha256")}
    assert json.loads(json.dumps(describe(data_of(name)))) == twin


@pytest.mark.parametrize("name", ARRAYS)
def test_our_reader_finds_what_is_described(name: str) -> None:
    data, twin = data_of(name), TWINS[name]
    with bp.open(data) as opened:
        header = opened.header._asdict() | {"checksum": opened.header.checksum.name}
        assert {key: header[key] for key in twin["header"]} == twin["header"]
        content = b"".join(bytes(chunk) for chunk in opened.iter_chunks())
        assert content == b"".join(
            bytes(opened.read_chunk(number)) for number in range(opened.nchunks)
        )
        assert opened.nchunks == len(twin["chunks"])
        offsets = [opened.chunk_offset(number) for number in range(opened.nchunks)]
        array = np.asarray(opened)
        attrs = opened.attrs
    assert (len(content), sha256(content)) == (twin["content"]["nbytes"], twin["content"]["sha256"])
    assert offsets == [chunk["offset"] for chunk in twin["chunks"]]
    for chunk in twin["chunks"]:
        head = ChunkHeader.unpack(data, chunk["offset"])
        found = {
            "cbytes": head.cbytes,
            "nbytes": head.nbytes,
            "codec": head.codec,
            "shuffle": head.shuffle.name.lower(),
            "typesize": head.typesize,
            "blocksize": head.blocksize,
            "uncompressed": head.is_memcpy,
        }
        assert {key: chunk[key] for key in found} == found
        end = chunk["offset"] + chunk["cbytes"]
        digest = bytes.fromhex(chunk["digest"])
        assert data[end : end + len(digest)] == digest
    report = bp.verify(data)
    assert report.ok
    assert report.trailer == twin["trailer"]
    if "array" in twin:
        said = twin["array"]
        dtype = array.dtype.name if array.dtype.isbuiltin == 2 else array.dtype.str
        assert (dtype, list(array.shape), attrs) == (said["dtype"], said["shape"], said["attrs"])
        assert sha256(array.tobytes()) == said["sha256"]
    else:
        unpacked, metadata = bp.unpack_bytes_from_bytes(data)
        assert (unpacked, metadata) == (content, twin["metadata"])


@pytest.mark.parametrize("name", [name for name in ARRAYS if name.startswith("log_")])
def test_the_reader_on_the_page_finds_the_chunks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the example on the page writes a file
    page = (FOLDER.parents[1] / "docs/formats/log.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    reader: dict[str, Any] = {}
    exec(code, reader)
    front, chunks = reader["arrays_of"](data_of(name))[""]
    assert front.startswith(b"blpk")
    assert [
        chunk[: said["cbytes"]].hex() + said["digest"]
        for chunk, said in zip(chunks, TWINS[name]["chunks"], strict=True)
    ] == [chunk.hex() for chunk in chunks]


@pytest.mark.parametrize("name", STORES)
def test_our_reader_finds_the_clips(name: str) -> None:
    twin = TWINS[name]
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(_opened(name))
        assert list(store) == [clip["id"] for clip in twin["clips"]]
        if "error" in twin["metadata"]:
            with pytest.raises(KINDS[twin["metadata"]["error"]]):
                store.attrs  # noqa: B018 - read on access
        else:
            assert store.attrs == twin["metadata"]["attrs"]
        for said in twin["clips"]:
            _check_clip(store[said["id"]], said)


@pytest.mark.parametrize("name", ARCHIVES)
def test_our_reader_finds_the_members(name: str) -> None:
    twin, data = TWINS[name], data_of(name)
    assert bp.verify(data).ok
    with bp.Archive(data) as archive:
        assert archive.attrs == twin["attrs"]
        assert list(archive) == [said["name"] for said in twin["members"]]
        for said in twin["members"]:
            with archive[said["name"]] as array:
                file = bytes(array.container.source.read_at(0, len(data)))
                assert (len(file), sha256(file)) == (said["nbytes"], said["sha256"])
                if "start" not in said:  # of a member in a bundle
                    assert file == data[said["offset"] : said["offset"] + said["nbytes"]]
                found = (array.dtype.str, list(array.shape), array.attrs)
                assert found == tuple(said["array"][key] for key in ("dtype", "shape", "attrs"))
                assert sha256(array.read_whole().tobytes()) == said["array"]["sha256"]


def _opened(name: str) -> bp.frames.FrameStore:
    return bp.frames.FrameStore(data_of(name))


def _check_clip(clip: bp.frames.StoreClip, said: dict[str, Any]) -> None:
    dtype = clip.dtype.name if clip.dtype.isbuiltin == 2 else clip.dtype.str
    found = {
        "meta": clip.meta,
        "codec": clip.codec,
        "dtype": dtype,
        "frame_shape": list(clip.shape[1:]),
        "offset": said["offset"],
    }
    assert {key: said[key] for key in found} == found
    chunks = [(chunk["offset"], chunk["cbytes"]) for chunk in said["chunks"]]
    assert clip.chunk_extents() == chunks
    assert len(clip) == len(said["frames"])
    if isinstance(clip, VideoClip):
        assert [sha256(each.data) for each in clip.packets()] == said["frames"]
        pytest.importorskip("av")
        assert clip[len(clip) - 1].shape == clip.shape[1:]
        return
    for k, digest in enumerate(said["frames"]):
        if isinstance(digest, dict):
            with pytest.raises(KINDS[digest["error"]]):
                clip.read(k)
            continue
        images = clip.read_images([k])
        assert sha256(clip[k].tobytes() if images is None else images[0]) == digest


@pytest.mark.parametrize("name", DAMAGED)
def test_our_reader_refuses_damaged_files(name: str) -> None:
    with pytest.raises(KINDS[TWINS[name]["error"]]):  # noqa: PT012 - opening or reading
        if name.startswith("frames_"):
            _opened(name)
        with bp.open(data_of(name)) as opened:
            opened.read()
