"""Appending: accepted input, refused input that leaves no trace, and locking."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FormatError, LockedError, UnsupportedError, WrongKindError
from bloscpack.frames.store import frameencoding, writer
from bloscpack.frames.store import index as index_module
from bloscpack.media import image

from .stores import Array, changed, check, clip, fill, made, tails


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clips.blp"


class InterruptedClipError(Exception):
    pass


def broken(nframes: int) -> Iterator[Array]:
    yield from clip(9, nframes)
    raise InterruptedClipError


class TestCreate:
    def test_it_is_there_at_once(self, path: Path) -> None:
        with bp.frames.create(path, attrs={"a": 1}):
            with bp.frames.open(path) as store:
                assert (len(store), store.attrs) == (0, {"a": 1})
            assert os.listdir(path.parent) == ["clips.blp"]

    def test_nothing_is_replaced_unless_asked_for(self, path: Path) -> None:
        path.write_bytes(b"precious")
        with pytest.raises(FileExistsError, match="mode 'a'"):
            bp.frames.create(path)
        assert path.read_bytes() == b"precious"
        with bp.frames.create(path, overwrite=True) as store:
            fill(store, 0)
        with bp.frames.open(path) as store:
            check(store, 0)

    def test_the_old_store_stays_until_the_new_one_is_whole(self, path: Path) -> None:
        made(path, 3)
        before = path.read_bytes()

        def interrupted() -> None:
            with bp.frames.create(path, overwrite=True) as store:
                fill(store, 0)
                raise InterruptedClipError

        with pytest.raises(InterruptedClipError):
            interrupted()
        assert path.read_bytes() == before
        with bp.frames.create(path, overwrite=True) as store:
            fill(store, 0)
            store.flush()
            assert path.read_bytes() == before
            for attempt in (
                lambda: bp.frames.create(path, overwrite=True),
                lambda: bp.frames.open(path, "a"),
            ):
                with pytest.raises(LockedError):
                    attempt()
            check(store, 0)
        with bp.frames.open(path) as reader:
            check(reader, 0)
        store = bp.frames.create(path, overwrite=True)
        with pytest.warns(ResourceWarning, match="nothing was replaced"):
            del store
        with bp.frames.open(path) as reader:
            check(reader, 0)
        assert os.listdir(path.parent) == ["clips.blp"]

    def test_readers_keep_a_replaced_file(self, path: Path) -> None:
        made(path, 3)
        with bp.frames.open(path) as reader:
            bp.frames.create(path, overwrite=True).close()
            check(reader, 0, 1, 2)

    def test_a_store_that_is_written_is_not_replaced(self, path: Path) -> None:
        with bp.frames.create(path) as store:
            with pytest.raises(LockedError):
                bp.frames.create(path, overwrite=True)
            fill(store, 0)
        assert os.listdir(path.parent) == ["clips.blp"]

    @pytest.mark.parametrize(
        ("options", "kind"),
        [
            ({"codec": "png"}, ValueError),
            ({"preset": "best"}, ValueError),
            ({"quality": 0}, ValueError),
            ({"quality": 101}, ValueError),
            ({"quality": "90"}, TypeError),
            ({"quality": True}, TypeError),
            ({"attrs": {"a": b"x"}}, TypeError),
        ],
    )
    def test_options(self, path: Path, options: Any, kind: type[Exception]) -> None:
        with pytest.raises(kind):
            bp.frames.create(path, **options)
        assert not os.listdir(path.parent)

    def test_a_link_is_followed(self, path: Path) -> None:
        made(path, 1)
        link = path.with_name("link")
        link.symlink_to(path)
        with bp.frames.open(link, "a") as store:
            fill(store, 1)
        with bp.frames.open(path) as store:
            check(store, 0, 1)


class TestModeA:
    def test_goes_on(self, path: Path) -> None:
        made(path, 3)
        for number in range(3, 6):
            with bp.frames.open(path, "a") as store:
                check(store, *range(number))
                fill(store, number)
        with bp.frames.open(path) as store:
            check(store, *range(6))

    def test_nothing_appended_changes_nothing(self, path: Path) -> None:
        data = made(path, 3)
        bp.frames.open(path, "a").close()
        with bp.frames.open(path, "a") as store:
            store.flush()
        assert path.read_bytes() == data

    def test_one_writer(self, path: Path) -> None:
        made(path, 1)
        with bp.frames.open(path, "a") as store:
            with pytest.raises(LockedError, match=r"clips\.blp"):
                bp.frames.open(path, "a")
            with bp.frames.open(path) as reader:
                check(reader, 0)
            fill(store, 1)
        bp.frames.open(path, "a").close()

    def test_leftovers_of_a_killed_writer_are_cut_off(self, path: Path) -> None:
        data = made(path, 3)
        path.write_bytes(data + b"half of something" * 1000)
        with bp.frames.open(path, "a") as store:
            assert path.read_bytes() == data
            fill(store, 3)
        with bp.frames.open(path) as store:
            check(store, *range(4))

    @pytest.mark.parametrize("gap", [0, 5])
    def test_damaged_segments_are_kept(self, path: Path, monkeypatch: Any, gap: int) -> None:
        """A clip with a damaged index at the end of the file may still be recovered by hand."""
        monkeypatch.setattr(index_module, "_BLOCK_NBYTES", 100)
        with bp.frames.create(path) as store:
            fill(store, *range(3))
        with bp.frames.open(path, "a") as store:
            fill(store, 3)
        data = path.read_bytes()
        assert tails(data)[-1].nclips == 1
        data = changed(data, len(data) - 1) + bytes(gap)
        path.write_bytes(data)
        with bp.frames.open(path, "a") as store:
            check(store, 0, 1, 2)
            fill(store, 4)
        assert path.read_bytes()[: len(data)] == data
        for mode in ("r", "a"):
            with bp.frames.open(path, mode) as store:
                check(store, 0, 1, 2, 4)

    def test_reading_and_others(self, path: Path) -> None:
        data = made(path, 1)
        with bp.frames.open(path) as store:
            for call in (lambda: fill(store, 1), store.flush):
                with pytest.raises(ValueError, match="mode 'a'"):
                    call()
        with pytest.raises(TypeError, match="path"):
            bp.frames.open(data, "a")
        path.write_bytes(data[:100])
        with pytest.raises(FormatError, match=r"clips\.blp: .*index"):
            bp.frames.open(path, "a")
        assert path.read_bytes() == data[:100]
        bp.save(path, np.arange(3))
        with pytest.raises(WrongKindError, match=r"array or bytes, not a frame store: .*\.open"):
            bp.frames.open(path, "a")

    def test_defaults_of_the_store(self, path: Path) -> None:
        pytest.importorskip("simplejpeg")
        bp.frames.create(path, codec="jpeg", quality=10).close()
        with bp.frames.open(path, "a") as store:
            store.append("a", clip(0))
            assert store["a"].codec == "image"


class TestFlush:
    def test_append_is_seen_at_once_and_close_merges(self, path: Path) -> None:
        with bp.frames.create(path) as store:
            for number in range(4):
                fill(store, number)
                with bp.frames.open(path) as reader:
                    check(reader, *range(number + 1))
            assert [tail.nclips for tail in tails(path.read_bytes())] == [0, 1, 1, 1, 1]
        assert [tail.nclips for tail in tails(path.read_bytes())] == [0, 1, 1, 1, 1, 4]

    def test_an_error_in_a_block_keeps_appended_clips(self, path: Path) -> None:
        def fail() -> None:
            with bp.frames.create(path) as store:
                fill(store, 0, 1)
                raise InterruptedClipError

        with pytest.raises(InterruptedClipError):
            fail()
        with bp.frames.open(path) as store:
            check(store, 0, 1)

    def test_a_store_that_is_forgotten(self, path: Path) -> None:
        store = bp.frames.create(path)
        fill(store, 0)
        with pytest.warns(ResourceWarning, match="never closed; its clips are in the file"):
            del store
        with bp.frames.open(path, "a") as again:
            check(again, 0)


class TestFrames:
    def test_of_any_layout(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        frames = np.random.default_rng(0).integers(0, 999, (6, 30, 41), "<u4")
        odd = np.frombuffer(b"x" + frames.tobytes(), "u1")[1:].view("<u4").reshape(frames.shape)
        layouts = {
            "C": frames,
            "F": np.asfortranarray(frames),
            "strided": np.repeat(frames, 2, axis=2)[:, :, ::2],
            "backwards": frames[::-1].copy()[::-1],
            "transposed": frames.transpose(2, 1, 0).copy().transpose(2, 1, 0),
            "unaligned": odd,
            "list": list(frames),
            "iterator": iter(frames),
            "nested": frames.tolist(),
        }
        encode = frameencoding.encode_clip

        def aligned(chunks: Any, *rest: Any) -> Any:
            for chunk in chunks:
                assert chunk.flags.c_contiguous
                assert chunk.ctypes.data % chunk.itemsize == 0
            return encode(chunks, *rest)

        monkeypatch.setattr(frameencoding, "encode_clip", aligned)
        with bp.frames.create(path) as store:
            for key, value in layouts.items():
                if key == "nested":
                    store.append(key, np.array(value, "<u4"))
                else:
                    store.append(key, value)
                assert np.array_equal(store[key].read(), frames), key
                assert store[key].dtype == frames.dtype

    def test_an_iterator_is_taken_in_batches(self, path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(frameencoding, "_BATCH_NBYTES", 1)
        frames = clip(0, 50)
        held: list[int] = []
        given = 0

        def some() -> Iterator[Array]:
            nonlocal given
            for frame in frames:
                given += 1
                held.append(given - store._writer.index.nframes)  # type: ignore[union-attr]
                yield frame

        calls = []
        stack = frameencoding.Encoder._stack

        def watched(self: Any, items: Iterator[Any]) -> Iterator[Array]:
            for batch in stack(self, items):
                calls.append(len(batch))
                yield batch

        monkeypatch.setattr(frameencoding.Encoder, "_stack", watched)
        with bp.frames.create(path) as store:
            store.append("a", some())
            assert np.array_equal(store["a"].read(), frames)
        assert calls == [8] * 6 + [2]

    def test_batches_of_small_frames_fill_chunks(self, path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(frameencoding, "_BATCH_NBYTES", 1)
        frames = clip(0, 3000, (3, 2))
        with bp.frames.create(path) as store:
            store.append("a", iter(frames))
            assert np.array_equal(store["a"].read(), frames)
            assert len(store["a"].chunk_extents()) == -(-3000 // 255)

    @pytest.mark.parametrize("preset", ["fast", "small"])
    def test_small_frames_that_stand_still(self, path: Path, preset: str) -> None:
        """Chunks of several frames do not refer to others, as the last one may be shorter."""
        frames = np.repeat(clip(0, 1, (20, 20)), 95, axis=0)
        with bp.frames.create(path, preset=preset) as store:
            store.append("a", frames)
            assert np.array_equal(store["a"].read(), frames)
            assert len(store["a"].chunk_extents()) == 10
            assert not store["a"]._has_time

    @pytest.mark.parametrize(
        "frames", [np.zeros((0, 3, 4), "f4"), [], (), iter(()), np.zeros((3, 0), "i2")]
    )
    def test_without_bytes(self, path: Path, frames: Any) -> None:
        with bp.frames.create(path) as store:
            store.append("a", frames)
        with bp.frames.open(path) as store:
            found = store["a"]
            expected = frames if isinstance(frames, np.ndarray) else np.zeros(0, "u1")
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            assert found.read().shape == expected.shape
            assert found.cbytes == 0

    def test_other_arrays(self, path: Path) -> None:
        class Like:
            def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
                return clip(0)

        bp.save(path.with_name("array"), clip(0))
        with bp.frames.create(path) as store, bp.open(path.with_name("array")) as array:
            for key, value in (("like", Like()), ("array", array), ("matrix", clip(0))):
                store.append(key, value)
                assert np.array_equal(store[key].read(), clip(0))
            store.append("bools", [np.array([True, False])] * 3)
            assert store["bools"].read().tolist() == [[True, False]] * 3

    def test_never_more_than_raw(self, path: Path) -> None:
        frames = clip(0, 5, (40, 40, 3))
        with bp.frames.create(path) as store:
            for preset in ("fast", "small"):
                store.append(preset, frames, preset=preset)
                assert store[preset].cbytes <= frames.nbytes + 5 * 16

    def test_threads_do_not_change_the_bytes(self, path: Path) -> None:
        pytest.importorskip("simplejpeg")
        frames = np.repeat(clip(0, 1, (300, 200, 3)), 40, axis=0)
        frames[:, 0] = np.arange(40, dtype="u1")[:, None, None]
        found = []
        for nthreads in (1, 2, 5):
            with bp.frames.create(path, nthreads=nthreads, overwrite=True) as store:
                store.append("a", frames, preset="small")
                store.append("b", frames[:8], codec="jpeg")
                store.append("c", iter(frames))
            found.append(path.read_bytes())
        assert found[0] == found[1] == found[2]


class TestRefused:
    """Refused input leaves the file unchanged, byte for byte."""

    @pytest.mark.parametrize(
        ("frames", "kind", "message"),
        [
            (np.array(3), ValueError, "axis of frames"),
            (np.zeros((2, 2), "O"), TypeError, "Python objects"),
            (np.zeros((2, 2), "u1,u2"), TypeError, "fields"),
            (np.zeros((2, *[1] * 9)), ValueError, "dimensions"),
            ("text", TypeError, "array"),
            (b"bytes", TypeError, "array"),
            ({"a": 1}, TypeError, "array"),
            (3, TypeError, "iter"),
            ([np.zeros(3), np.zeros(4)], ValueError, "frame 1 is"),
            ([np.zeros(3), np.zeros(3, "i4")], ValueError, "frame 1 is"),
            ([b"no image"], FormatError, "frame 0: neither"),
            ([None], TypeError, "expected an array"),
        ],
    )
    def test_frames(self, path: Path, frames: Any, kind: type[Exception], message: str) -> None:
        made(path, 2)
        with bp.frames.open(path, "a") as store:
            before = path.read_bytes()
            with pytest.raises(kind, match=message):
                store.append("bad", frames)
            assert path.read_bytes() == before
            fill(store, 2)
            check(store, 0, 1, 2)

    def test_a_bad_frame_after_much_was_written(self, path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(frameencoding, "_BATCH_NBYTES", 1)
        monkeypatch.setattr(writer, "_WRITE_NBYTES", 1000)
        with bp.frames.create(path) as store:
            fill(store, 0)
            before = path.read_bytes()
            sizes = []

            def frames() -> Iterator[Array]:
                for frame in broken(40):
                    sizes.append(path.stat().st_size)
                    yield frame

            with pytest.raises(InterruptedClipError):
                store.append("a", frames())
            assert max(sizes) > len(before) + 10000
            assert path.read_bytes() == before
            fill(store, 1)
        with bp.frames.open(path) as store:
            check(store, 0, 1)

    @pytest.mark.parametrize("change", ["append", "flush"])
    def test_frames_that_change_the_store(self, path: Path, monkeypatch: Any, change: str) -> None:
        monkeypatch.setattr(writer, "_WRITE_NBYTES", 100)
        monkeypatch.setattr(frameencoding, "_BATCH_NBYTES", 1)
        with bp.frames.create(path) as store:
            fill(store, 1)

            def frames() -> Iterator[Array]:
                yield from clip(9, 40)
                getattr(store, change)(*(["inner", clip(8)] if change == "append" else []))
                yield from clip(9, 40)

            with pytest.raises(ValueError, match="its frames must not change the store"):
                store.append("outer", frames())
            fill(store, 2)
        assert bp.verify(path).ok
        with bp.frames.open(path) as store:
            check(store, 1, 2)

    def test_a_bad_image_among_good_ones(self, path: Path) -> None:
        image = pytest.importorskip("bloscpack.media.image")
        pytest.importorskip("simplejpeg")
        pytest.importorskip("PIL")
        good = image.encode_jpeg(clip(0, 1, (20, 20, 3))[0])
        deep = image.encode_png(np.zeros((20, 20), "<u2"))
        with bp.frames.create(path) as store:
            for images, kind, message in (
                ([good, good, good[:100]], FormatError, "frame 2: "),
                ([good, b""], FormatError, "frame 1: "),
                ([good, deep], ValueError, "frame 1 is uint16"),
                ([good, np.zeros(3)], Exception, "frame 1"),
            ):
                with pytest.raises(kind, match=message):
                    store.append("a", images)
            with pytest.raises(ValueError, match="JPEG stores uint8"):
                store.append("a", np.zeros((2, 8, 8), "u2"), codec="jpeg")
            assert len(store) == 0

    def test_ids(self, path: Path) -> None:
        made(path, 70, 1)
        with bp.frames.open(path, "a") as store:
            fill(store, 71)
            before = path.read_bytes()
            for taken in (0, 69, 70, 71):
                with pytest.raises(ValueError, match=f"a clip 'clip {taken}' already"):
                    fill(store, taken)
            for wrong in (0, None, b"a", ("a",)):
                with pytest.raises(TypeError, match="str"):
                    store.append(wrong, clip(0))  # type: ignore[arg-type]
            assert path.read_bytes() == before

    def test_options(self, path: Path) -> None:
        with bp.frames.create(path) as store:
            for options in ({"codec": "x"}, {"preset": ""}, {"quality": 0}):
                with pytest.raises(ValueError, match="must be"):
                    store.append("a", clip(0), **options)  # type: ignore[arg-type]
            assert len(store) == 0

    def test_a_feature_of_the_future(self, path: Path) -> None:
        from bloscpack.frames.store.format import store_header

        header = store_header()._replace(features=3).pack()
        path.write_bytes(header + made(path, 1)[64:])
        for mode in ("r", "a"):
            with pytest.raises(UnsupportedError, match="features 0x2"):
                bp.frames.open(path, mode)


class TestMetadata:
    def test_numpy_values(self, path: Path) -> None:
        given = {
            "int": np.int64(-3),
            "float": np.float32(0.5),
            "bool": np.True_,
            "text": np.str_("x"),
            "array": np.arange(4).reshape(2, 2),
            "inner": [{"a": np.uint8(7)}, (1, np.float64(2))],
            "deep": {"n": None},
        }
        with bp.frames.create(path) as store:
            store.append("a", clip(0), given)
        with bp.frames.open(path) as store:
            assert store["a"].meta == {
                "int": -3, "float": 0.5, "bool": True, "text": "x", "array": [[0, 1], [2, 3]],
                "inner": [{"a": 7}, [1, 2.0]], "deep": {"n": None},
            }  # fmt: skip

    def test_any_text(self, path: Path) -> None:
        given = {"\ud800": "\udfff", "ä": "\0", "nan": float("nan")}
        with bp.frames.create(path) as store:
            store.append("a", clip(0), given)
            assert repr(store["a"].meta) == repr(given)
            assert json.loads(store._index.meta(0).decode("ascii"))

    @pytest.mark.parametrize(
        "meta",
        [
            [], "a", {"a": b"x"}, {"a": {1, 2}}, {"a": 1j}, {"a": np.complex64(1)},
            {"a": np.longdouble(1)}, {"a": np.datetime64("2020")}, {("a",): 1}, {"a": object()},
        ],
    )  # fmt: skip
    def test_values_that_json_lacks(self, path: Path, meta: Any) -> None:
        with bp.frames.create(path) as store:
            before = path.read_bytes()
            with pytest.raises(TypeError):
                store.append("a", clip(0), meta)
            circle: dict[str, Any] = {}
            circle["a"] = circle
            with pytest.raises(ValueError, match="ircular"):
                store.append("a", clip(0), circle)
            assert path.read_bytes() == before

    def test_large_metadata_is_merged_small(self, path: Path) -> None:
        with bp.frames.create(path) as store:
            for number in range(20):
                store.append(str(number), clip(0, 1), {"label": "x" * 5000})
        last = tails(path.read_bytes())[-1]
        assert last.sections[2].decoded > 20 * 5000 > 20 * last.sections[2].stored


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_a_truncated_image_is_refused(path: Path, kind: str) -> None:
    pytest.importorskip("simplejpeg")
    pytest.importorskip("PIL")
    encode = image.encode_jpeg if kind == "jpeg" else image.encode_png
    data = encode(np.arange(30 * 40, dtype="u1").reshape(30, 40))
    with bp.frames.create(path) as store:
        store.append("whole", [data])
        for length in (len(data) - 1, len(data) // 2, 40):
            with pytest.raises(FormatError, match="frame 1: "):
                store.append("cut", [data, data[:length]])
        assert list(store) == ["whole"]
