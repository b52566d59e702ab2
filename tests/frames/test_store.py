"""Reading a store: selections, batches, images, errors that name the frame, pickles and forks."""

import io
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.exceptions import (
    ChecksumMismatch,
    FileChangedError,
    FormatError,
    NotBloscpackError,
    NotFoundError,
    TruncatedError,
    UnsupportedError,
    WrongKindError,
)
from bloscpack.frames.store import clip as clip_module
from bloscpack.frames.store.format import TAIL_SIZE, FrameFormat
from bloscpack.frames.store.lossless import Filter

from .stores import Array, changed, check, clip, decimals, fill, made, name, tails

PAN = np.clip(
    np.add.outer(np.arange(30) * 3, np.arange(40) * 2)[None, :, :, None]
    + np.arange(6)[:, None, None, None] * 5
    + np.random.default_rng(0).integers(0, 9, (6, 30, 40, 3)),
    0,
    255,
).astype("u1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clips.blp"


def still(nframes: int) -> Array:
    """Return still noise in which one corner changes: frames refer to others."""
    frames = np.repeat(np.random.default_rng(0).integers(0, 256, (1, 60, 50, 3), "u1"), nframes, 0)
    frames[:, :3, :3] = np.arange(nframes, dtype="u1")[:, None, None, None]
    return frames


class TestOpen:
    def test_attributes(self, path: Path) -> None:
        pytest.importorskip("simplejpeg")
        with bp.frames.create(path, codec="jpeg", preset="small", quality=7, attrs={"a": [1]}) as s:
            assert (s.mode, s.name, len(s), list(s), s.nframes) == ("a", str(path), 0, [], 0)
            fill(s, *range(3))
        with bp.frames.open(path) as s:
            assert (s.mode, s.name, len(s), s.nframes) == ("r", str(path), 3, 9)
            assert (s.codec, s.preset, s.quality, s.attrs) == ("jpeg", "small", 7, {"a": [1]})
            assert s.cbytes == path.stat().st_size
            assert s.attrs == {"a": [1]}
            assert repr(s) == f"<bloscpack.frames.FrameStore {str(path)!r} of 3 clips>"
            assert not s.closed
        assert s.closed
        assert repr(s).endswith("of 3 clips (closed)>")

    @pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, io.BytesIO])
    def test_from_memory(self, path: Path, wrap: Any) -> None:
        data = wrap(made(path, 3))
        with bp.frames.open(data) as store:
            assert store.name is None
            check(store, 0, 1, 2)

    def test_from_a_file_object(self, path: Path) -> None:
        made(path, 3)
        with path.open("rb") as file, bp.frames.open(file) as store:
            check(store, 0, 1, 2)
            with pytest.raises(TypeError, match="file object"):
                pickle.dumps(store)

    def test_other_files(self, path: Path) -> None:
        bp.save(path, np.arange(9))
        with pytest.raises(WrongKindError, match=r"not a frame store: open it with bloscpack.open"):
            bp.frames.open(path)
        path.write_bytes(b"GIF89a" + bytes(3000))
        with pytest.raises(NotBloscpackError):
            bp.frames.open(path)
        path.write_bytes(b"")
        with pytest.raises(FormatError):
            bp.frames.open(path)
        with pytest.raises(FileNotFoundError):
            bp.frames.open(path.with_name("none"))

    @pytest.mark.parametrize("function", [bp.open, bp.load])
    def test_other_functions_name_the_one_to_use(self, path: Path, function: Any) -> None:
        made(path, 1)
        with pytest.raises(UnsupportedError, match=r"open it with bloscpack\.frames\.open"):
            function(path)

    @pytest.mark.parametrize("options", [{"mode": "w"}, {"verify": "always"}, {"verify": 2}])
    def test_options(self, path: Path, options: Any) -> None:
        made(path, 1)
        with pytest.raises((TypeError, ValueError), match="must be"):
            bp.frames.open(path, **options)

    def test_closed(self, path: Path) -> None:
        made(path, 1)
        store = bp.frames.open(path)
        found = store["clip 0"]
        store.close()
        store.close()
        for call in (
            lambda: found.read(),
            lambda: found.read_images(),
            lambda: store["other"],
            lambda: store.read([]),
            store.refresh,
            lambda: store.append("a", []),
            lambda: pickle.dumps(store),
        ):
            with pytest.raises(ValueError, match="closed"):
                call()
        assert list(store) == ["clip 0"]

    def test_changing_the_attrs_of_a_store_raises(self, path: Path) -> None:
        with bp.frames.create(path, attrs={"a": {"b": [1]}}) as store:
            for change in (
                lambda: store.attrs.update(c=1),
                lambda: store.attrs["a"].clear(),
                lambda: store.attrs["a"]["b"].append(2),
            ):
                with pytest.raises(TypeError, match=r"set in bloscpack\.frames\.create"):
                    change()
        with bp.frames.open(path) as store:
            assert store.attrs == {"a": {"b": [1]}}
            with pytest.raises(TypeError, match=r"set in bloscpack\.frames\.create"):
                store.attrs["a"] = 1


class TestIds:
    def test_keys(self, path: Path) -> None:
        made(path, 4, 1)
        with bp.frames.open(path) as store:
            keys = store.keys()
            assert len(keys) == 5
            assert list(keys) == [name(n) for n in range(5)]
            assert keys[-1] == "clip 4"
            assert keys[1:3] == ["clip 1", "clip 2"]
            assert "clip 4" in keys
            assert 4 not in keys
            assert keys.index("clip 2") == 2
            with pytest.raises(IndexError):
                keys[5]

    def test_unknown_ones(self, path: Path) -> None:
        made(path, 1)
        with bp.frames.open(path) as store:
            with pytest.raises(NotFoundError, match=r"clips.blp: no clip 'x' among 1"):
                store["x"]
            with pytest.raises(KeyError):
                store["x"]
            with pytest.raises(TypeError, match="str"):
                store[0]  # type: ignore[index]
            assert 0 not in store
            with pytest.raises(NotFoundError):
                store.read([("x", 0)])

    def test_any_text(self, path: Path) -> None:
        names = ["", "a/b", "\0", "\ud800", "x" * 5000, "ä", "a\u0308", "🎬", "../../etc", "%s"]
        with bp.frames.create(path) as store:
            for number, each in enumerate(names):
                store.append(each, clip(number))
        with bp.frames.open(path) as store:
            assert list(store) == names
            for number, each in enumerate(names):
                assert np.array_equal(store[each].read(), clip(number))
            assert "A" not in store


SELECTIONS: list[Any] = [
    None, ..., 0, -1, np.int8(3), slice(None), slice(1, 7, 2), slice(None, None, -1), slice(5, 2),
    [3, 3, 0, -1], [], np.array([8, 1]), np.arange(10) % 3 == 0, range(2, 9, 3),
]  # fmt: skip


class TestFrames:
    @pytest.mark.parametrize("preset", ["fast", "small"])
    @pytest.mark.parametrize(
        "frames",
        [
            clip(1, 10),
            still(10),
            decimals(10),
            clip(2, 10, (3, 4)),
            np.arange(10.0),
            np.zeros((10, 0, 3)),
        ],
        ids=["alone", "timed", "array", "shared", "scalars", "empty"],
    )
    def test_selections(self, path: Path, frames: Array, preset: str) -> None:
        with bp.frames.create(path, preset=preset) as store:
            store.append("a", frames)
        with bp.frames.open(path) as store:
            found = store["a"]
            assert (found.shape, found.dtype, len(found)) == (frames.shape, frames.dtype, 10)
            assert (found.ndim, found.nbytes) == (frames.ndim, frames.nbytes)
            for selection in SELECTIONS:
                expected = frames if selection is None else frames[selection]
                for result in (found[selection], found.read(selection)):
                    assert isinstance(result, np.ndarray)
                    assert result.dtype == frames.dtype
                    assert result.shape == np.shape(expected)
                    assert np.array_equal(result, expected)
                out = np.full_like(expected, 7)
                assert found.read(selection, out=out) is out
                assert np.array_equal(out, expected)
            for wrong in (10, [0, -11]):
                with pytest.raises(IndexError):
                    found[wrong]
            for wrong in ("0", (0, None), 1.5, True):
                with pytest.raises(TypeError):
                    found[wrong]
            assert np.array_equal(np.asarray(found), frames)
            assert np.array_equal(np.stack(list(found)), frames)
            assert np.array_equal(found.__array__(np.dtype("f8")), frames)
            with pytest.raises(ValueError, match="copy"):
                found.__array__(copy=False)
            assert repr(found) == (
                f"<clip 'a' shape={frames.shape} dtype={frames.dtype} codec=lossless>"
            )

    @pytest.mark.parametrize("preset", ["fast", "small"])
    def test_frames_refer_to_others(self, path: Path, preset: str) -> None:
        frames = still(20)
        with bp.frames.create(path, preset=preset) as store:
            store.append("a", frames)
            kinds = [bool(each & Filter.TIME) for each in store["a"]._filters]
            assert kinds == [index % 8 != 0 for index in range(20)]
            assert store["a"].cbytes < 4 * frames[0].nbytes
            for index in range(20):
                assert np.array_equal(store["a"][index], frames[index])
            assert np.array_equal(store["a"][[15, 7, 15, 9, 6]], frames[[15, 7, 15, 9, 6]])

    def test_how_much_is_read_of_them(self, path: Path) -> None:
        with bp.frames.create(path, preset="small") as store:
            store.append("a", still(16))
            found = store["a"]
            extents = found.chunk_extents()

            def extent(selection: Any) -> list[tuple[int, int]]:
                indices = np.arange(16)[selection].reshape(-1)
                pieces = found.pieces(indices, np.empty((len(indices), *found.shape[1:]), "u1"))
                return [(piece.offset, piece.offset + piece.nbytes) for piece in pieces]

            def span(first: int, last: int) -> tuple[int, int]:
                return extents[first][0], sum(extents[last]) + 8

            assert extent(8) == [span(8, 8)]
            assert extent(slice(None, None, 8)) == [span(0, 0), span(8, 8)]
            assert extent(12) == [span(8, 12)]
            assert extent([15, 3]) == [span(8, 15), span(0, 3)]

    def test_out(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        frames = clip(0, 6)
        with bp.frames.create(path) as store:
            store.append("a", frames)
            store.append("t", still(6), preset="small")
            store.append("w", frames.astype("<u4"))
            # numpy considers void items aligned at any address.
            store.append("s", (frames + np.uint32(1 << 24)).view("V4"))
            for wrong, kind in (
                (np.empty((6, 24, 26), "u1"), ValueError),
                (np.empty((6, 24, 25), "i1"), ValueError),
                ([1], TypeError),
            ):
                with pytest.raises(kind):
                    store["a"].read(out=wrong)  # type: ignore[arg-type]
            spread = np.empty((6, 24, 50), "u1")[:, :, ::2]
            assert np.array_equal(store["a"].read(out=spread), frames)
            # Memory of the caller, unaligned for its items: the kernel must not see it.
            decode = clip_module.decode_chunk

            def aligned(chunk: Any, filters: Any, geometry: Any, reference: Any, view: Any) -> None:
                assert np.frombuffer(view, "u1").ctypes.data % geometry.itemsize == 0
                decode(chunk, filters, geometry, reference, view)

            monkeypatch.setattr(clip_module, "decode_chunk", aligned)
            for key in ("w", "s"):
                expected = store[key].read()
                odd = np.frombuffer(bytearray(frames.nbytes * 4 + 1), "u1")[1:]
                odd = odd.view(expected.dtype).reshape(frames.shape)
                assert np.array_equal(store[key].read(out=odd), expected)
                assert np.array_equal(store[key].read([5, 0], out=odd[:2]), expected[[5, 0]])

    @pytest.mark.parametrize("dtype", ["V5", "V3", "V300", "<c32", "<m8[s]", ">f16", "V513"])
    def test_items_of_odd_sizes(self, path: Path, dtype: str) -> None:
        """The location of chunks does not matter, and no address is a multiple of most sizes."""
        kind = np.dtype(dtype)
        for count in (1, 7, 600):
            data = np.random.default_rng(count).integers(0, 99, 3 * count * kind.itemsize, "u1")
            frames = np.frombuffer(data.tobytes(), kind).reshape(3, count)
            with bp.frames.create(path, overwrite=True) as store:
                store.append("a", frames)
                assert store["a"].read().tobytes() == frames.tobytes()
                assert store["a"].read([2]).tobytes() == frames[2].tobytes()
                assert store["a"].read(1).tobytes() == frames[1].tobytes()

    def test_batches(self, path: Path) -> None:
        made(path, 5)
        with bp.frames.open(path) as store:
            asked = [("clip 3", slice(0, 2)), ("clip 0", [2, 2]), ("clip 3", [0, 2])]
            batch = store.read(asked)
            assert isinstance(batch, np.ndarray)
            assert np.array_equal(batch, np.stack([clip(int(k[-1]))[s] for k, s in asked]))
            out = np.zeros_like(batch)
            assert store.read(asked, out=out, nthreads=2) is out
            assert np.array_equal(out, batch)
            parts = store.read([("clip 1", 0), ("clip 2", slice(None))])
            assert isinstance(parts, list)
            assert np.array_equal(parts[0], clip(1)[0])
            assert np.array_equal(parts[1], clip(2))
            assert store.read([]) == []

    def test_metadata(self, path: Path) -> None:
        with bp.frames.create(path) as store:
            store.append("a", clip(0), {"x": [1, {"y": None}], "": float("inf")})
            store.append("b", clip(0))
            found = store["a"]
            assert found.meta == {"x": [1, {"y": None}], "": float("inf")}
            for change in (
                lambda: found.meta["x"].append(2),
                lambda: found.meta.update(label=5),
                lambda: found.meta["x"][1].pop("y"),
            ):
                with pytest.raises(TypeError, match=r"append\(id, frames, meta\)"):
                    change()
            assert found.meta["x"] == [1, {"y": None}]
            assert type(deepcopy(found.meta)) is dict
            assert store["b"].meta == {}


class TestImages:
    def images(self, *frames: Array, kind: str = "jpeg") -> list[bytes]:
        image = pytest.importorskip("bloscpack.media.image")
        pytest.importorskip("simplejpeg")
        pytest.importorskip("PIL")
        encode = image.encode_jpeg if kind == "jpeg" else image.encode_png
        return [encode(frame) for frame in frames]

    def test_jpeg(self, path: Path) -> None:
        from bloscpack.media import image

        stored = self.images(*PAN)
        with bp.frames.create(path) as store:
            store.append("a", stored)
            store.append("views", map(memoryview, stored))  # type: ignore[arg-type]
        with bp.frames.open(path) as store:
            found = store["a"]
            assert (found.shape, found.dtype, found.codec) == (PAN.shape, PAN.dtype, "image")
            assert found.read_images() == store["views"].read_images() == stored
            assert found.read_images([4, -6]) == [stored[4], stored[0]]
            assert found.read_images(2) == [stored[2]]
            expected = np.stack([image.decode(each) for each in stored])
            for selection in SELECTIONS[:9]:
                picked = expected if selection is None else expected[selection]
                assert np.array_equal(found.read(selection), picked)
            for reduce in (2, 4, 8):
                smaller = np.stack([image.decode(each, reduce=reduce) for each in stored])
                assert np.array_equal(found.read(reduce=reduce), smaller)
                assert np.array_equal(found.read(-1, reduce=reduce), smaller[-1])
            with pytest.raises(ValueError, match="reduce"):
                found.read(reduce=3)

    def test_png(self, path: Path) -> None:
        depth = np.random.default_rng(0).integers(0, 65536, (3, 9, 8), "<u2")
        with bp.frames.create(path) as store:
            store.append("rgb", self.images(*PAN, kind="png"))
            store.append("depth", self.images(*depth, kind="png"))
        with bp.frames.open(path) as store:
            assert np.array_equal(store["rgb"].read(), PAN)
            assert np.array_equal(store["depth"].read(), depth)
            assert store["depth"].dtype == np.dtype("<u2")
            with pytest.raises(ValueError, match="only JPEG"):
                store["rgb"].read(reduce=2)

    def test_encoded_here(self, path: Path) -> None:
        pytest.importorskip("simplejpeg")
        with bp.frames.create(path, codec="jpeg", quality=80) as store:
            store.append("a", PAN)
            store.append("iterated", iter(PAN))
            store.append("poor", PAN, quality=5)
            store.append("exact", PAN, codec="lossless")
            from bloscpack.media import image

            assert store["a"].read_images() == [image.encode_jpeg(f, quality=80) for f in PAN]
            assert store["iterated"].read_images() == store["a"].read_images()
            assert store["poor"].cbytes < store["a"].cbytes
            assert np.array_equal(store["exact"].read(), PAN)
            assert store["exact"].read_images() is None
            with pytest.raises(ValueError, match="stored as JPEG"):
                store["exact"].read(reduce=2)
            store.append("gray", PAN[..., :1])
            assert store["gray"].shape == PAN.shape[:3]

    def test_frames_that_differ(self, path: Path) -> None:
        stored = self.images(PAN[0], PAN[1], PAN[2][:9]) + self.images(PAN[3][:9], kind="png")
        with bp.frames.create(path) as store:
            store.append("a", stored)
        with bp.frames.open(path) as store:
            found = store["a"]
            assert found.shape == (4, *PAN.shape[1:])
            assert found[1].shape == PAN.shape[1:]
            assert np.array_equal(found[3], PAN[3][:9])
            assert found[2:].shape == (2, 9, 40, 3)
            assert found.read([], out=np.empty((0, *PAN.shape[1:]), "u1")).shape[0] == 0
            with pytest.raises(ValueError, match=r"clip 'a': frame 1 is of shape \(30, 40, 3\), "
                               r"frame 2 of \(9, 40, 3\)"):  # fmt: skip
                found[1:]
            parts = store.read([("a", 0), ("a", [3, 2])])
            assert [part.shape for part in parts] == [PAN.shape[1:], (2, 9, 40, 3)]

    def test_an_image_that_the_index_does_not_describe(self, path: Path) -> None:
        first, other = self.images(PAN[0]), self.images(PAN[0][:9])
        with bp.frames.create(path, nthreads=1) as store:
            store.append("a", first)
            offset = store["a"].chunk_extents()[0]
        chunk = other[0] + bytes(offset[1] - len(other[0]))
        data = changed(path.read_bytes(), offset[0], chunk + xxh3_64_digest(chunk))
        with pytest.raises(FormatError, match=r"clip 'a': frame 0 .*shape"):
            bp.frames.open(data)["a"].read()


class TestDamage:
    @pytest.mark.parametrize("kind", ["alone", "array", "shared", "image"])
    def test_one_frame_is_named_and_lost(self, path: Path, kind: str) -> None:
        if kind == "image":
            pytest.importorskip("simplejpeg")
        frames = {
            "alone": clip(0, 5),
            "array": decimals(5),
            "shared": clip(0, 500, (4, 5)),
            "image": PAN,
        }[kind]
        with bp.frames.create(path, codec="jpeg" if kind == "image" else "lossless") as store:
            store.append("a", frames)
            store.append("b", frames)
            good, extents = store["a"].read(), store["a"].chunk_extents()
        offset, nbytes = extents[1]
        for place in (offset, offset + nbytes // 2, offset + nbytes + 7):
            whole = path.read_bytes()
            damaged = path.with_name("damaged")
            damaged.write_bytes(changed(whole, place))
            store = bp.frames.open(damaged)
            group = store["a"]._format.group
            called = f"frame {group}" if group == 1 else f"frames {group} to {2 * group - 1}"
            message = rf"clip 'a': {called} \(bytes {offset} to {offset + nbytes}\): xxh3_64 is "
            with pytest.raises(ChecksumMismatch, match=message) as caught:
                store["a"].read()
            assert (caught.value.index, caught.value.offset) == (group, offset)
            with pytest.raises(ChecksumMismatch, match="clip 'a'"):
                store["a"][group]
            rest = [*range(group), *range(2 * group, len(frames))]
            assert np.array_equal(store["a"].read(rest), good[rest])
            assert np.array_equal(store["b"].read(), good)

    def test_errors_name_the_path(self, path: Path) -> None:
        made(path, 1)
        path.write_bytes(changed(path.read_bytes(), 900))
        with bp.frames.open(path) as store, pytest.raises(ChecksumMismatch, match=r"^.*clips\.blp"):
            store["clip 0"].read()

    def test_a_file_that_was_cut_while_it_is_open(self, path: Path) -> None:
        made(path, 2)
        with bp.frames.open(path) as store:
            found = store["clip 1"]
            os.truncate(path, found.chunk_extents()[1][0] + 9)
            for selection in (1, -2, [1], slice(None)):
                with pytest.raises(TruncatedError, match=r"clips\.blp: "):
                    found[selection]
            assert np.array_equal(found[0], clip(1)[0])

    def test_of_frames_that_refer_to_it(self, path: Path) -> None:
        frames = still(16)
        with bp.frames.create(path, preset="small") as store:
            store.append("a", frames)
            extents = store["a"].chunk_extents()
        store = bp.frames.open(changed(path.read_bytes(), extents[4][0] + 20))
        for index in range(16):
            if index in (4, 5, 6, 7):
                with pytest.raises(ChecksumMismatch, match="frame 4 "):
                    store["a"][index]
            else:
                assert np.array_equal(store["a"][index], frames[index])

    def test_unverified(self, path: Path) -> None:
        with bp.frames.create(path) as store:
            store.append("a", clip(0))
            offset, nbytes = store["a"].chunk_extents()[0]
        data = changed(path.read_bytes(), offset + nbytes)  # in the digest itself
        assert np.array_equal(bp.frames.open(data, verify=False)["a"].read(), clip(0))
        with pytest.raises(ChecksumMismatch):
            bp.frames.open(data)["a"].read()

    def test_the_metadata_of_the_store(self, path: Path) -> None:
        data = changed(made(path, 2), 64 + 40)
        store = bp.frames.open(data)
        check(store, 0, 1)
        for get in (lambda: store.attrs, lambda: store.codec):
            with pytest.raises(ChecksumMismatch, match="metadata"):
                get()

    def test_a_chunk_that_promises_too_much(self, path: Path) -> None:
        """A noise frame claimed to have 2 GB: the index alone does not cause an allocation."""
        data = made(path, 1)
        row = FrameFormat.lossless(np.dtype("u1"), (24, 25)).pack()
        huge = FrameFormat.lossless(np.dtype("u1"), (20000, 100000)).pack()
        found = bp.frames.open(resigned(data, 0, row, huge))["clip 0"]
        assert found.shape == (3, 20000, 100000)
        for selection in (0, slice(None), [2]):
            with pytest.raises(FormatError, match="stored bytes cannot hold"):
                found[selection]

    @pytest.mark.parametrize("index", [0, 8])
    def test_a_reference_that_is_not_there(self, path: Path, index: int) -> None:
        frames = still(12)
        with bp.frames.create(path, preset="small") as store:
            store.append("a", frames)
            filters = store["a"]._filters
        assert not filters[index] & Filter.TIME
        wrong = bytearray(filters)
        wrong[index] |= Filter.TIME
        found = bp.frames.open(resigned(path.read_bytes(), 1, filters, bytes(wrong)))["a"]
        for selection in (index, slice(None), index + 1):
            with pytest.raises(FormatError, match=f"frame {index} .*refers to an earlier frame"):
                found[selection]
        assert np.array_equal(found[(index + 8) % 16 + 1], frames[(index + 8) % 16 + 1])


def resigned(data: bytes, number: int, old: bytes, new: bytes) -> bytes:
    """Return a store with changed bytes in a section of its last segment, and valid digests."""
    last = tails(data)[-1]
    start = last.section_offset(number)
    section = data[start : start + last.sections[number].stored]
    assert section.count(old) == 1
    section = section.replace(old, new)
    sections = list(last.sections)
    sections[number] = sections[number]._replace(digest=xxh3_64_digest(section))
    tail = last._replace(sections=tuple(sections)).pack()
    return data[:start] + section + data[start + len(section) : last.end - TAIL_SIZE] + tail


class TestPickles:
    def test_round_trip(self, path: Path) -> None:
        made(path, 3)
        with bp.frames.open(path, verify=False, nthreads=3) as store:
            for again in (pickle.loads(pickle.dumps(store)), copy(store)):
                check(again, 0, 1, 2)
                assert (again.verify, again.nthreads, again.name) == (False, 3, str(path))
                again.close()
            check(store, 0, 1, 2)

    def test_of_bytes(self, path: Path) -> None:
        check(pickle.loads(pickle.dumps(bp.frames.open(made(path, 2)))), 0, 1)

    def test_with_a_clip_that_cannot_be_read(self, path: Path) -> None:
        row = FrameFormat.lossless(np.dtype("u1"), (24, 25)).pack()
        data = resigned(made(path, 1), 0, row, b"\x09" + row[1:])
        path.write_bytes(data)
        with bp.frames.open(path) as store:
            again = pickle.loads(pickle.dumps(store))
            for each in (store, again):
                assert list(each) == ["clip 0"]
                with pytest.raises(UnsupportedError, match="codec 9"):
                    each["clip 0"]
            again.close()

    def test_unpickled_store_has_the_old_state(self, path: Path) -> None:
        made(path, 3)
        with bp.frames.open(path) as store:
            pickled = pickle.dumps(store)
        with bp.frames.open(path, "a") as writer:
            fill(writer, 3, 4)
            check(pickle.loads(pickled), 0, 1, 2)
        again = pickle.loads(pickled)
        check(again, 0, 1, 2)
        again.refresh()
        check(again, *range(5))

    def test_of_another_file(self, path: Path) -> None:
        made(path, 3)
        with bp.frames.open(path) as store:
            pickled = pickle.dumps(store)
        data = path.read_bytes()
        for other in (data[:-1], data[:200], b"", made(path.with_name("b"), 2)):
            path.write_bytes(other)
            with pytest.raises(FileChangedError, match="was replaced or truncated"):
                pickle.loads(pickled)
        # All sizes are equal, and so is the index.
        start = tails(data)[1].offset - 3 * (24 * 25 + 24)
        path.write_bytes(changed(data, start + 20))
        with pytest.raises(FileChangedError, match="was replaced or truncated"):
            pickle.loads(pickled)
        path.write_bytes(data)
        check(pickle.loads(pickled), 0, 1, 2)
        path.unlink()
        with pytest.raises(FileNotFoundError):
            pickle.loads(pickled)

    def test_open_for_appending(self, path: Path) -> None:
        with bp.frames.create(path) as store, pytest.raises(TypeError, match="appending"):
            pickle.dumps(store)


class TestRefresh:
    def test_appended_clips_become_visible(self, path: Path) -> None:
        with bp.frames.create(path) as writer, bp.frames.open(path) as reader:
            for number in range(5):
                fill(writer, number)
                if number % 2:
                    writer.flush()
                assert len(reader) == number
                reader.refresh()
                check(reader, *range(number + 1))
            old = reader["clip 0"]
            writer.refresh()
        reader.close()
        with pytest.raises(ValueError, match="closed"):
            old.read()

    def test_of_another_file(self, path: Path) -> None:
        data = made(path, 3)
        with bp.frames.open(path) as reader:
            copied = path.with_name("copy")
            copied.write_bytes(data)
            os.replace(copied, path)
            reader.refresh()
            check(reader, 0, 1, 2)
            made(path.with_name("b"), 4)
            os.replace(path.with_name("b"), path)
            with pytest.raises(FileChangedError):
                reader.refresh()
            check(reader, 0, 1, 2)


class TestSharing:
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_fork_of_a_writer(self, path: Path) -> None:
        with bp.frames.create(path) as store:
            fill(store, 0)

            def child() -> None:
                signal.alarm(240)  # not for ever
                check(store, 0)
                for call in (lambda: fill(store, 1), store.flush):
                    with pytest.raises(bp.exceptions.LockedError, match="forked"):
                        call()
                store.close()

            # Another thread is writing now: nothing in the child will release its lock.
            begun, ended = threading.Event(), threading.Event()

            def frames() -> Iterator[Array]:
                yield clip(1)[0]
                begun.set()
                ended.wait(240)
                yield clip(1)[1]
                yield clip(1)[2]

            thread = threading.Thread(
                target=lambda: store.append("clip 1", frames(), {"number": 1})
            )
            thread.start()
            begun.wait(240)
            status = in_child(child)
            ended.set()
            thread.join()
            assert status == 0
            with pytest.raises(bp.exceptions.LockedError):
                bp.frames.open(path, "a")
        with bp.frames.open(path) as again:
            check(again, 0, 1)


def in_child(call: Any) -> int:
    """Return the exit status of a forked child that calls a function."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            call()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]
