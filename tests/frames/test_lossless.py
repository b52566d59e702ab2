"""Image filters compared with their numpy twins, and chunks of frames of every kind."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bloscpack._ext import frame as kernel
from bloscpack.exceptions import BloscpackError, CodecError
from bloscpack.format.codec import CHUNK_HEADER_SIZE, ChunkHeader, CodecParams, encode
from bloscpack.frames.store import lossless
from bloscpack.frames.store.lossless import GROUP_FRAMES, PRESETS, Filter, Geometry, Scheme

from ..reference import frame_filters
from .stores import decimals

Array = np.ndarray[Any, np.dtype[Any]]
ALL_SETS = range(64)


def bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def noise(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    random = np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)
    return random.view(dtype).reshape(shape)


@pytest.fixture(params=[0, 1, 2], ids=["general", "avx2", "gfni"])
def vectors(request: pytest.FixtureRequest) -> Iterator[int]:
    """Each decoder of 8-bit pixels that this processor supports."""
    if kernel.limit_vectors(request.param) < request.param:
        pytest.skip("the processor has no such instructions")
    yield request.param
    kernel.limit_vectors(2)


def check_filters(shape: tuple[int, ...], dtype: str) -> None:
    frame, reference = noise(shape, dtype), noise(shape, dtype, 1)
    for flags in ALL_SETS:
        if flags & Filter.PLANES and shape[-1] not in (3, 4):
            continue
        base = bytes_of(reference) if flags & Filter.TIME else None
        residuals = bytearray(frame.nbytes)
        assert kernel.encode(bytes_of(frame), base, residuals, *shape, frame.itemsize, flags)
        assert residuals == frame_filters.encode(frame, reference, flags), Filter(flags)
        out = np.empty_like(frame)
        if flags & Filter.BITS:
            residuals = residuals + bytearray(frame.nbytes)
        assert kernel.decode(residuals, base, bytes_of(out), *shape, frame.itemsize, flags)
        assert np.array_equal(out, frame), Filter(flags)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
@pytest.mark.parametrize(
    "shape", [(5, 7, 3), (6, 16, 4), (1, 33, 3), (9, 50, 1), (1, 1, 1), (4, 40, 2), (3, 35, 4)]
)
def test_filters_equal_the_twin(shape: tuple[int, ...], dtype: str) -> None:
    check_filters(shape, dtype)


@pytest.mark.parametrize(
    "shape", [(16, 32, 3), (17, 33, 3), (29, 1, 3), (16, 7, 3), (40, 95, 3), (23, 258, 3)]
)
def test_bands_of_rows_equal_the_twin(shape: tuple[int, ...], vectors: int) -> None:
    check_filters(shape, "u1")


@pytest.mark.parametrize(
    "shape", [(16, 33, 3), (40, 95, 3), (9, 64, 3), (5, 7, 1), (3, 35, 4), (4, 40, 2), (1, 1, 1)]
)
def test_packed_residuals_equal_the_twin(shape: tuple[int, ...], vectors: int) -> None:
    reference = noise(shape, "u1", 1)
    for shift in range(0, 9, 2):  # residuals of every width
        frame = (reference.astype("i2") + (noise(shape, "i1").astype("i2") >> shift)).astype("u1")
        for flags in range(32):
            if flags & Filter.ZIGZAG or (flags & Filter.PLANES and shape[-1] < 3):
                continue
            residuals, out = bytearray(frame.nbytes), bytearray(frame.nbytes)
            assert kernel.encode(bytes_of(frame), bytes_of(reference), residuals, *shape, 1, flags)
            packed = kernel.pack(residuals, *shape, flags)
            assert packed == frame_filters.pack(bytes(residuals), shape, flags), Filter(flags)
            assert kernel.unpack(packed, bytes_of(reference), out, *shape, flags)
            assert out == bytes_of(frame), Filter(flags)


def test_packed_residuals_that_do_not_fit_are_refused(vectors: int) -> None:
    shape, flags = (40, 33, 3), int(Filter.PLANES | Filter.UP)
    frame, out = noise(shape, "u1"), bytearray(40 * 33 * 3)
    packed = kernel.pack(bytes_of(frame), *shape, flags)
    nwidths = 40 * 2 * 3
    assert packed is not None
    assert kernel.unpack(packed, None, out, *shape, flags)

    def is_refused(packed: bytes, form: tuple[int, ...] = shape, flags: int = flags) -> bool:
        return not kernel.unpack(packed, None, out, *form, flags)

    assert all(is_refused(packed[:size]) for size in (0, 1, nwidths - 1, len(packed) - 1))
    assert all(is_refused(extra + packed) for extra in (b"\0", bytes(2), bytes(99)))
    widths = bytearray(packed[-nwidths:])
    for value in (0x98, 0x89, 0xF0, 0x87):  # too wide, or of another size
        widths[7] = value
        assert is_refused(packed[:-nwidths] + widths)
    assert not is_refused(bytes(nwidths))
    assert is_refused(bytes(nwidths), (41, 33, 3))
    assert is_refused(bytes(nwidths), (33, 40, 3))
    for other in (flags | Filter.ZIGZAG, flags | Filter.BITS, flags | Filter.TIME, 0x40, 0x80, -1):
        assert is_refused(packed, flags=other), other
    assert kernel.pack(out, *shape, Filter.ZIGZAG) is kernel.pack(out, 41, 33, 3, 0) is None


def test_the_kernel_refuses_mismatched_sizes() -> None:
    frame = bytes(2 * 3 * 3)

    def tried(**changes: Any) -> set[bool]:
        values: dict[str, Any] = {"reference": frame, "rows": 2, "width": 3, "channels": 3}
        values |= {"itemsize": 1, "flags": 0, "residuals": len(frame), **changes}
        form = [values[name] for name in ("rows", "width", "channels", "itemsize", "flags")]
        base, room = values["reference"], values["residuals"]
        return {
            kernel.encode(frame, base, bytearray(room), *form),
            kernel.decode(bytearray(room), base, bytearray(frame), *form),
        }

    assert tried() == {True}
    assert tried(flags=Filter.TIME) == {True}
    huge = 2**64 - 1
    for changes in (
        {"rows": 3},
        {"rows": 0},
        {"width": huge},
        {"width": 0},
        {"channels": 0},
        {"channels": huge},
        {"itemsize": 3},
        {"itemsize": 0},
        {"itemsize": huge},
        {"rows": 2**63, "width": 2**62},
        {"flags": 0x40},
        {"flags": -1},
        {"flags": Filter.TIME, "reference": None},
        {"flags": Filter.TIME, "reference": frame[1:]},
        {"flags": Filter.PLANES, "channels": 1, "width": 9},
        {"residuals": len(frame) - 1},
        {"residuals": len(frame) + 1},
    ):
        assert tried(**changes) == {False}, changes
    empty = bytearray()
    assert not kernel.encode(empty, None, empty, 0, 0, 0, 1, 0)
    assert not kernel.decode(bytearray(18), None, bytearray(18), 2, 3, 3, 1, Filter.BITS)


@pytest.mark.parametrize(
    ("shape", "form"),
    [
        ((240, 320, 3), (240, 320, 3)),
        ((3, 224, 224), (672, 224, 1)),
        ((240, 320), (240, 320, 1)),
        ((2, 5, 6, 4), (10, 6, 4)),
        ((512,), (1, 512, 1)),
        ((), (1, 1, 1)),
        ((7, 5), (7, 5, 1)),
    ],
)
def test_geometry(shape: tuple[int, ...], form: tuple[int, ...]) -> None:
    assert Geometry.of(shape, 2) == (*form, 2)


def round_trip(frames: Array, preset: str) -> tuple[Scheme, list[tuple[bytes, int]]]:
    each = [frames[k, ...] for k in range(len(frames))]  # arrays, even without dimensions
    scheme = lossless.choose(each, preset)
    chunks = list(lossless.encode_clip(each, scheme, 1))
    assert chunks == list(lossless.encode_clip(each, scheme, 3))
    geometry = Geometry.of(frames.shape[1:], frames.itemsize)
    out = np.empty_like(frames)
    for index, (chunk, filters) in enumerate(chunks):
        place = index % GROUP_FRAMES
        reference = None
        if filters & Filter.TIME:
            assert place
            reference = bytes_of(out[index - place + lossless.reference_of(place, filters), ...])
        lossless.decode_chunk(chunk, filters, geometry, reference, bytes_of(out[index, ...]))
        assert len(chunk) <= each[index].nbytes + CHUNK_HEADER_SIZE
    assert out.tobytes() == frames.tobytes()
    return scheme, chunks


def test_frames_needed_for_strided_reads() -> None:
    def needed(first: int, step: int, filters: int) -> set[int]:
        todo = set(range(first, GROUP_FRAMES, step))
        found: set[int] = set()
        while todo:
            found |= todo
            todo = {lossless.reference_of(index, filters) for index in todo} - found
        return found

    strided = Filter.TIME | Filter.STRIDED
    assert needed(1, 2, strided) == {0, 1, 3, 5, 7}
    assert needed(1, 2, Filter.TIME) == set(range(GROUP_FRAMES))
    for filters in (Filter.TIME, strided):
        for step in (2, 4, 8):
            assert needed(0, step, filters) == set(range(0, GROUP_FRAMES, step))
        for index in range(1, GROUP_FRAMES):
            assert 0 <= lossless.reference_of(index, filters) < index


DTYPES = ["u1", "i1", "?", "u2", ">u2", "i4", "f4", "<f8", "c16", "M8[ns]", "S5", "f2", "c8"]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(9, 12, 16, 3), (1, 20, 20), (5, 7, 9, 2), (3, 40), (2,)])
def test_any_dtype_and_shape(shape: tuple[int, ...], dtype: str, preset: str) -> None:
    frames = np.arange(np.prod(shape)).astype("S5" if dtype == "S5" else "i8").astype(dtype)
    round_trip(frames.reshape(shape), preset)


@given(
    frames=st.sampled_from(["u1", "u2", "f4", "?"]).flatmap(
        lambda dtype: hnp.arrays(
            dtype, hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=20)
        )
    ),
    preset=st.sampled_from(PRESETS),
)
def test_any_frames(frames: Array, preset: str) -> None:
    round_trip(frames, preset)


def moving_scene(nframes: int) -> Array:
    """Return detailed frames that change little from one to the next."""
    background = noise((48, 64, 3), "u1")
    frames = np.repeat(background[None], nframes, axis=0)
    for index in range(nframes):
        frames[index, 10:20, index : index + 10] = index
    return frames


@pytest.mark.parametrize("preset", PRESETS)
def test_a_static_camera_has_frames_that_refer_to_others(preset: str) -> None:
    frames = moving_scene(20)
    scheme, chunks = round_trip(frames, preset)
    assert scheme.time is not None
    timed = [bool(filters & Filter.TIME) for _, filters in chunks]
    assert timed == [index % GROUP_FRAMES != 0 for index in range(20)]
    assert sum(len(chunk) for chunk, _ in chunks) < frames.nbytes // 4


def test_a_cut_within_a_group_is_encoded_by_itself() -> None:
    frames = moving_scene(24)
    frames[12:] = 255 - np.roll(frames[12:], 7, axis=1)
    scheme = lossless.choose(moving_scene(24), "small")
    chunks = list(lossless.encode_clip(frames, scheme, 1))
    assert not chunks[12][1] & Filter.TIME
    assert chunks[13][1] & Filter.TIME


@pytest.mark.parametrize("preset", PRESETS)
def test_noise_is_stored_uncompressed(preset: str) -> None:
    frames = noise((4, 32, 32, 3), "u1")
    _, chunks = round_trip(frames, preset)
    for chunk, filters in chunks:
        assert filters == 0
        assert ChunkHeader.unpack(chunk).is_memcpy


@pytest.mark.parametrize("preset", PRESETS)
def test_smooth_pictures_become_small(preset: str) -> None:
    y, x = np.mgrid[0:64, 0:96]
    frames = np.stack([(y + 2 * x + 3 * t) // 2 for t in range(3)])[..., None] + [0, 9, 30]
    _, chunks = round_trip(frames.astype(np.uint8), preset)
    assert all(filters & Filter.PLANES for _, filters in chunks)
    assert sum(len(chunk) for chunk, _ in chunks) < frames.size // 8


@pytest.mark.parametrize("preset", PRESETS)
def test_masks_are_packed_by_zstandard(preset: str) -> None:
    row, column = np.mgrid[0:240, 0:320]
    masks = np.stack([(row - 90) ** 2 + (column - 9 * k) ** 2 < 4000 for k in range(6)])
    scheme, chunks = round_trip(masks, preset)
    assert (scheme.params.codec, scheme.filters) == ("zstd", Filter.BITS)
    assert sum(len(chunk) for chunk, _ in chunks) < masks.nbytes / 150
    assert scheme.params.clevel == lossless._TINY_CLEVEL
    scheme, chunks = round_trip(masks.astype("u1") * 7, preset)
    assert (scheme.params.codec, scheme.params.clevel) == ("zstd", lossless._TINY_CLEVEL)
    assert sum(len(chunk) for chunk, _ in chunks) < masks.nbytes / 100


def test_preset_fast_uses_lz4_unless_frames_become_tiny() -> None:
    words = np.random.default_rng(0).integers(0, 2, (6, 64, 64), dtype="u1") * 9
    assert lossless.choose(list(words), "fast").params.codec in ("lz4", "lz4hc")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("dtype", ["<f4", ">f8"])
def test_decimals_are_array_chunks(dtype: str, preset: str) -> None:
    frames = decimals(10, dtype)
    scheme, chunks = round_trip(frames, preset)
    assert scheme.time is None
    assert {filters for _, filters in chunks} == {Filter.ARRAY}
    assert sum(len(chunk) for chunk, _ in chunks) < frames.nbytes / 8
    infinite = frames.copy()
    infinite[3, 5, 6:9] = [np.nan, -0.0, -np.inf]
    round_trip(infinite, preset)


def test_array_chunks_need_large_frames_that_gain() -> None:
    small = decimals(3, "f4", 100)
    assert small[0].nbytes < lossless._MIN_ARRAY_NBYTES <= decimals(1)[0].nbytes
    uniform = noise((2, 200, 200), "f4")
    pictures = (decimals(2, "f4", 300) + 60).astype("u1")
    for frames in (small, uniform, pictures):
        for preset in PRESETS:
            _, chunks = round_trip(frames, preset)
            assert not any(filters & Filter.ARRAY for _, filters in chunks)


def test_a_frame_that_gains_nothing_is_a_blosc_chunk() -> None:
    frames = decimals(9)
    frames[2] = noise(frames.shape[1:], "f4")
    frames[7] = 0
    _, chunks = round_trip(frames, "small")
    kinds = [filters for _, filters in chunks]
    assert kinds == [Filter.ARRAY, Filter.ARRAY, 0, *[Filter.ARRAY] * 4, 0, Filter.ARRAY]


def test_wrong_filters_of_array_chunks_are_refused() -> None:
    frames = decimals(2)
    [(array, filters), *_] = lossless.encode_clip(frames, lossless.choose(frames, "small"), 1)
    blosc = encode(bytes_of(frames[0]), CodecParams("zstd", 1, typesize=4))
    geometry = Geometry.of(frames.shape[1:], 4)
    out = bytes_of(np.empty_like(frames[0]))
    lossless.decode_chunk(array, filters, geometry, None, out)
    for chunk, wrong in (
        *((array, each) for each in (0, Filter.UP, Filter.ARRAY | Filter.TIME, 0xFF)),
        *((blosc, each) for each in (Filter.ARRAY, Filter.ARRAY | Filter.UP)),
        (b"", Filter.ARRAY),
    ):
        with pytest.raises(CodecError, match="filters"):
            lossless.decode_chunk(chunk, int(wrong), geometry, bytes(out), out)
    with pytest.raises(CodecError, match="decodes to"):
        lossless.decode_chunk(array, filters, geometry, None, out[:-4])


def test_the_choice_depends_on_the_frames_alone() -> None:
    frames = moving_scene(20)
    first = lossless.choose(frames, "small")
    lossless.choose(noise((3, 5), "f8"), "fast")
    assert lossless.choose(list(frames), "small") == first


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ValueError, match="fast, small"):
        lossless.choose(noise((3, 5), "u1"), "medium")


@pytest.mark.parametrize("dtype", ["u1", "i1"])
@pytest.mark.parametrize("shape", [(3, 48, 64), (3, 40, 50, 3), (3, 2, 5, 32, 4)])
def test_preset_fast_packs_pictures_of_8_bits(shape: tuple[int, ...], dtype: str) -> None:
    rough = noise(shape, "u1") >> 4
    frames = (rough + np.arange(shape[2], dtype="u1").reshape(-1, *[1] * (len(shape) - 3))).view(
        dtype
    )
    _, chunks = round_trip(frames, "fast")
    assert all(lossless.is_packed(filters) for _, filters in chunks)
    assert sum(len(chunk) for chunk, _ in chunks) < 0.95 * frames.nbytes


def test_packed_frames_refer_to_others_only_if_that_saves_enough() -> None:
    still = np.cumsum(noise((64, 96, 3), "i1") >> 4, axis=0).astype("u1")
    frames = np.stack([still + (noise(still.shape, "u1", k) >> 7) for k in range(16)])
    scheme, chunks = round_trip(frames, "fast")
    assert scheme.time is not None
    assert [bool(filters & Filter.TIME) for _, filters in chunks] == [k % 8 > 0 for k in range(16)]
    assert all(lossless.is_packed(filters) for _, filters in chunks)
    noisy = np.stack([still + (noise(still.shape, "u1", k) >> 6) for k in range(16)])
    assert round_trip(noisy, "fast")[0].time is None
    moving = np.stack([np.roll(still, 17 * k, axis=1) for k in range(16)])
    assert round_trip(moving, "fast")[0].time is None


def test_a_packed_chunk_is_stored_uncompressed() -> None:
    frame = noise((40, 64, 3), "u1") >> 3
    params = CodecParams("lz4", 0)
    filters = int(Filter.PACKED | Filter.UP | Filter.PLANES)
    [(chunk, stored)] = lossless.encode_group([frame], Scheme(params, filters))
    geometry, out = Geometry.of(frame.shape, 1), bytearray(frame.nbytes)
    lossless.decode_chunk(chunk, filters, geometry, None, memoryview(out))
    assert (stored, out) == (filters, bytes_of(frame))
    compressed = encode(bytes(40 * 2 * 3), CodecParams("zstd", 1, 0))  # widths 0
    wrong: list[tuple[bytes, int, Geometry]] = [
        (compressed, filters, geometry),
        (chunk, filters, Geometry(20, 64, 3, 2)),
        (chunk, filters | Filter.STRIDED, geometry),
        (chunk, filters | Filter.TIME, geometry),
        (chunk, filters & ~Filter.BITS, geometry),
        (chunk[:-1], filters, geometry),
        (encode(chunk[CHUNK_HEADER_SIZE:-1], params), filters, geometry),
        (chunk[:9], filters, geometry),
    ]
    for data, flags, form in wrong:
        with pytest.raises(BloscpackError):
            lossless.decode_chunk(data, flags, form, None, memoryview(out))
    for position in range(len(chunk) - 240, len(chunk)):  # widths
        damaged = bytearray(chunk)
        damaged[position] ^= 0x88
        with pytest.raises(BloscpackError):
            lossless.decode_chunk(damaged, filters, geometry, None, memoryview(out))


def test_hostile_chunks_and_filters_raise() -> None:
    frames = moving_scene(4)
    [(chunk, filters), *_] = lossless.encode_clip(frames, lossless.choose(frames, "small"), 1)
    geometry = Geometry.of(frames.shape[1:], 1)
    out = bytes_of(np.empty_like(frames[0]))
    for wrong in (filters | Filter.TIME, 0x40, 255):
        with pytest.raises(CodecError, match="filters"):
            lossless.decode_chunk(chunk, wrong, geometry, None, out)
    with pytest.raises(CodecError, match="filters"):
        lossless.decode_chunk(
            chunk, Filter.PLANES, geometry._replace(channels=9, width=1), None, out
        )
    with pytest.raises(CodecError):
        lossless.decode_chunk(chunk, filters, geometry, None, out[:-3])
    for position in range(len(chunk)):
        damaged = bytearray(chunk)
        damaged[position] ^= 0xFF
        try:
            lossless.decode_chunk(damaged, filters, geometry, None, out)
        except BloscpackError:
            continue
