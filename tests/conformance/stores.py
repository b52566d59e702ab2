"""The frame stores of the conformance set."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np

import bloscpack as bp
from bloscpack.array.chunkcodec.chunkencoder import ArrayItems
from bloscpack.format.codec import CodecParams
from bloscpack.frames.store import directory, frameencoding
from bloscpack.frames.store.format import FrameFormat
from bloscpack.frames.store.lossless import Filter, Scheme, encode_group
from bloscpack.media import image

from ..reference.frame_reader import Store

Array = np.ndarray[Any, np.dtype[Any]]
NAMES = ("PLANES", "UP", "LEFT", "ZIGZAG", "BITS")


def moving(nframes: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Return smooth, slightly noisy frames that change a little from one to the next."""
    rng = np.random.default_rng(len(shape))
    frame = np.add.outer(np.arange(shape[0]) * 3, np.arange(shape[1]) * 2)
    frame = frame.reshape(frame.shape + (1,) * (len(shape) - 2)) + rng.integers(0, 2, shape)
    return np.stack([frame + k // 3 for k in range(nframes)]).astype(dtype)


@dataclass
class Forced:
    """Clip stored with exactly these filters, instead of those the writer would choose."""

    frames: Array
    filters: int
    text: bytes = b"{}"

    @property
    def format(self) -> FrameFormat:
        return FrameFormat.lossless(self.frames.dtype, self.frames.shape[1:])

    is_raw = False

    @property
    def nframes(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        is_packed = self.filters & Filter.PACKED == Filter.PACKED
        params = CodecParams("lz4", 0 if is_packed else 5, typesize=1)
        alone = Scheme(params, self.filters & ~int(Filter.TIME | Filter.STRIDED))
        time = Scheme(params, self.filters) if self.filters & Filter.TIME else None
        scheme = Scheme(params, alone.filters, time)
        if self.filters == Filter.ARRAY:
            items = ArrayItems(self.frames.dtype, self.frames.shape[2:])
            scheme = Scheme(replace(params, codec="zstd", items=items), self.filters)
        for start in range(0, len(self.frames), 8):
            yield from encode_group(self.frames[start : start + 8], scheme)


@dataclass
class ForcedRaw:
    """Clip of raw frames, with this number of frames per digest."""

    frames: Array
    group: int
    text: bytes = b"{}"

    is_raw = True

    @property
    def format(self) -> FrameFormat:
        form = FrameFormat.raw(self.frames.dtype, self.frames.shape[1:])
        return form._replace(group=self.group)

    @property
    def nframes(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        for start in range(0, len(self.frames), self.group):
            yield self.frames[start : start + self.group].tobytes(), 0


def encoded(clips: dict[str, Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        with bp.frames.create(path) as store:
            for id_, clip in clips.items():
                store._append_encoded(id_, clip)
        return path.read_bytes()


def forced(clips: dict[str, tuple[Array, int]]) -> bytes:
    return encoded({id_: Forced(*each) for id_, each in clips.items()})


def written(clips: dict[str, Any], flush_every: int = 0, **options: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        with bp.frames.create(path, nthreads=1, **options) as store:
            for number, (id_, frames) in enumerate(clips.items(), 1):
                store.append(id_, frames, {"number": number})
                if flush_every and number % flush_every == 0:
                    store.flush()
        return path.read_bytes()


def any_kinds(clips: dict[str, Any]) -> bytes:
    """Return a store of frames of any dtype: `append` refuses bytes, which readers must accept."""
    with patch.object(frameencoding, "_numbers", np.asarray):
        return written(clips)


def video(**encoders: Any) -> bytes:
    """Return a store of tiny videos, each by an encoder, and of other clips beside them."""
    frames = np.zeros((10, 32, 32, 3), "u1")
    for k in range(len(frames)):
        frames[k, :, 2 * k : 2 * k + 8] = 40 + 20 * k
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        with bp.frames.create(path, nthreads=1, codec="video", gop=4, crf=30) as store:
            for number, (id_, encoder) in enumerate(encoders.items()):
                meta = {"fps": 12.5, "number": number}
                store.append(id_, frames, meta, encoder=encoder)
                store.append(f"{id_} lossless", frames[:2, ..., 0], meta, codec="lossless")
            store.flush()
        return path.read_bytes()


def many(count: int, flush_every: int = 25) -> bytes:
    clips = {f"clip {n}": np.full((1, 24), n, "u1") for n in range(count)}
    return written(clips, flush_every=flush_every)


def changed(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def with_changes(count: int) -> bytes:
    """Return a store of which clips were removed, replaced, renamed and given other metadata."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        path.write_bytes(many(count))
        # A reader that has the file open keeps the chunks of removed clips.
        with bp.frames.open(path) as reader, bp.frames.open(path, "a", nthreads=1) as store:
            first, second, third, fourth, *_ = reader
            del store[first]
            store.replace(second, moving(4, (5, 6), "<u2"), {"is": "new"})
            store.rename(third, "renamed")
            store[fourth].meta = {"label": 4}
            store.flush()
            store.append("last", moving(5, (5, 6), "u1"))
            store["renamed"].meta = {"label": 5}
        return path.read_bytes()


def changed_once(data: bytes) -> bytes:
    """Return a store with a segment of changes that is too small to be merged."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        path.write_bytes(data)
        with bp.frames.open(path) as reader, bp.frames.open(path, "a", nthreads=1) as store:
            first, second, *_ = reader
            del store[first]
            store.rename(second, "renamed")
        return path.read_bytes()


def in_parts(make: Callable[[int], bytes], count: int) -> bytes:
    """Return a store whose merged segments have parts of 4 clips."""
    with patch.object(directory, "PART_CLIPS", 4):
        return make(count)


def damaged_segment() -> bytes:
    """Return a store whose merged segment has a damaged section of chunks."""
    data = many(12, 6)
    last = Store(data).chain[-1]
    return changed(data, last.places[1][0])


def add_all(add: Callable[..., None]) -> None:
    rgb, depth = moving(2, (16, 24, 3), "u1"), moving(2, (16, 25), "<u2")
    for name in NAMES:
        both = {"rgb": (rgb, int(Filter[name]))}
        if name != "PLANES":
            both["depth"] = (depth, int(Filter[name]))
        add(f"frames_filter_{name.lower()}", forced, both)
    every = int(Filter.UP | Filter.LEFT | Filter.ZIGZAG | Filter.BITS)
    for itemsize in (1, 2, 4, 8):
        frames = moving(2, (12, 31, 4), f"<u{itemsize}")
        clips = {"planes": (frames, every | Filter.PLANES), "pixels": (frames, every)}
        add(f"frames_all_filters_{itemsize}_bytes", forced, clips)
    long = moving(18, (20, 30), "u1")
    packed = int(Filter.PACKED)
    every = int(Filter.UP | Filter.LEFT) | packed
    grey, colour = moving(3, (16, 37), "|u1"), moving(3, (12, 45, 3), "|u1")
    kinds_of_packed = {
        "planes": (colour, every | Filter.PLANES | Filter.TIME),
        "up": (colour[:2], packed | Filter.UP | Filter.PLANES),
        "pixels": (colour[:2], every),
        "four": (moving(2, (12, 31, 4), "|u1"), every | Filter.PLANES),
        "grey": (grey, packed | Filter.UP | Filter.TIME | Filter.STRIDED),
        "signed": (moving(1, (3, 700), "|i1"), packed | Filter.LEFT),
    }
    add("frames_packed", forced, kinds_of_packed)
    add("frames_time", forced, {"a": (long, int(Filter.TIME))})
    add("frames_time_strided", forced, {"a": (long, int(Filter.TIME | Filter.STRIDED))})
    clips: dict[str, Any] = {
        "rgb": moving(9, (24, 32, 3), "u1"),
        "depth": moving(9, (24, 32), "<u2"),
    }
    arrays = {
        "decimals": (np.round(moving(2, (24, 24), "f4") / 7, 2), int(Filter.ARRAY)),
        "bits": (moving(1, (40, 32), ">f8") / 4, int(Filter.ARRAY)),
        "rgb": (moving(2, (16, 20, 3), "<u2") * 5, int(Filter.ARRAY)),
        "noise": (moving(1, (24, 24), "u1") * np.uint8(77), int(Filter.ARRAY)),
    }
    add("frames_array_chunks", forced, arrays)
    for preset in ("fast", "small"):
        add(f"frames_preset_{preset}", written, clips, preset=preset)
    kinds: dict[str, Any] = {
        kind: moving(1, (20, 30), kind)
        for kind in ("|i1", "<i2", ">u2", "<u4", "<f4", ">f8", "<c8", "<M8[ns]", "|S3")
    }
    kinds["|b1"] = moving(2, (20, 30), "u1") > 40
    kinds["bfloat16"] = moving(2, (20, 30), "f4").astype(ml_dtypes.bfloat16)
    add("frames_dtypes", any_kinds, kinds)
    shapes: dict[str, Any] = {
        "numbers": np.arange(70.0),
        "rows": np.arange(77, dtype="<u2").reshape(11, 7),
        "tiny pixels": np.arange(72, dtype="u1").reshape(12, 2, 3),
        "one row": moving(3, (1, 600), "u1"),
        "5 dimensions": moving(2, (20, 30), "u1").reshape(2, 5, 4, 3, 2, 5),
        "no frames": np.zeros((0, 4, 6), "<i2"),
        "nothing": [],
        "no bytes": np.zeros((3, 0, 5)),
    }
    add("frames_shapes", written, shapes)
    add("frames_ids", written, {id_: np.arange(5) for id_ in ("", "\u00e9", "\ud800", "a/b", "0")})
    add("frames_empty", written, {}, attrs={"rate": 25})
    add("frames_jpeg", written, {"a": moving(2, (16, 24, 3), "u1")}, codec="jpeg")
    raw: dict[str, Any] = {
        "rgb": moving(3, (16, 24, 3), "u1"),
        "depth": moving(2, (16, 25), ">u2"),
        "nothing": np.zeros((0, 4, 6), "<i2"),
        "no bytes": np.zeros((3, 0, 5)),
        "numbers": np.arange(70.0),
    }
    add("frames_preset_raw", written, raw, preset="raw", flush_every=2)
    shared = ForcedRaw(moving(7, (12, 20), "u1"), 3)
    add("frames_damaged_raw", lambda: changed(encoded({"a": shared}), 4096 + 3 * 240 + 99))
    images = [image.encode_jpeg(each) for each in moving(2, (16, 24, 3), "u1")]
    images.append(image.encode_jpeg(moving(1, (8, 12, 3), "u1")[0]))
    add("frames_images_differ", written, {"a": images})
    add("frames_video", video, vp9="vp9")
    add("frames_merged_index", many, 26)
    add("frames_torn_append", lambda: many(4)[:-40])
    add("frames_changed", lambda: changed_once(many(12)))
    add("frames_changed_merged", with_changes, 4)
    add("frames_parts", in_parts, many, 10)
    add("frames_parts_changed", in_parts, with_changes, 6)
    add("frames_damaged_segment", damaged_segment)
    add("frames_damaged_frame", lambda: changed(forced({"a": (long, int(Filter.TIME))}), 400))
    add("frames_damaged_metadata", lambda: changed(many(2), 100))
    add("frames_bad_no_index", lambda: many(2)[:180])
    add("frames_bad_header", lambda: changed(many(2), 10))
