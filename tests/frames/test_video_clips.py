"""Video in a store: packets are kept as they are, groups are closed, frames are those of FFmpeg."""

import copy
import io
import json
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.cli.main import main
from bloscpack.exceptions import BloscpackError, FormatError, UnsupportedError
from bloscpack.frames.store.videoclip import VideoClip
from bloscpack.frames.video import groupdecoder
from bloscpack.frames.video.mp4file import write_file
from bloscpack.media.pyav import restore_scheduling

from ..videofiles import MATRICES, Frames, moving, set_matrix, write_video

os.environ.setdefault("SVT_LOG", "1")
av = pytest.importorskip("av")
read_video = pytest.importorskip("bloscpack.media.video").read_video

GOP = "keyint=8:min-keyint=8:scenecut=0:threads=1"
X264 = {"x264-params": GOP}
# Without cutree, which writes beyond its memory in small pictures.
X265 = {"x265-params": f"{GOP[:-10]}:open-gop=0:cutree=0:log-level=none:pools=1"}
FRAMES = moving(20, 32, 40)


def frames_of(path: Path) -> Frames:
    with read_video(path) as video:
        return np.stack(list(video))


def packets_of(path: Path) -> list[tuple[bytes, Any, Any, Any, bool]]:
    with av.open(str(path)) as file:
        return [
            (bytes(each), each.pts, each.dts, each.duration, each.is_keyframe)
            for each in file.demux(video=0)
            if each.size
        ]


def stored(folder: Path, source: Path | bytes, **options: Any) -> Path:
    path = folder / "video.blp"
    with bp.frames.create(path, overwrite=True, nthreads=1) as store:
        store.append_video("walk", source, {"label": 3}, **options)
    return path


@pytest.fixture(scope="module")
def mp4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "walk.mp4"
    return write_video(path, FRAMES, codec="libx264", options=X264)


@pytest.fixture(scope="module")
def store_path(mp4: Path) -> Path:
    return stored(mp4.parent, mp4)


@pytest.fixture
def clip(store_path: Path) -> Iterator[VideoClip]:
    with bp.frames.open(store_path) as store:
        found = store["walk"]
        assert isinstance(found, VideoClip)
        yield found


class TestReading:
    def test_a_clip_has_the_frames_of_the_file(self, clip: VideoClip, mp4: Path) -> None:
        whole = frames_of(mp4)
        assert clip.shape == whole.shape == FRAMES.shape
        assert (clip.dtype, clip.codec) == (np.uint8, "video")
        assert np.array_equal(clip.read(), whole)
        for selection in (7, -1, slice(1, None, 2), slice(None, None, -3), [9, 0, 9, 19, 8]):
            assert np.array_equal(clip[selection], whole[selection])
        assert np.array_equal(clip[3:9, 4:20, ::2, 0], whole[3:9, 4:20, ::2, 0])
        assert np.array_equal(list(clip)[17], whole[17])
        assert clip.read_images() is None

    def test_into_memory_of_any_layout(self, clip: VideoClip, mp4: Path) -> None:
        whole = frames_of(mp4)[::3]
        for out in (np.zeros_like(whole), np.zeros((*whole.shape[::-1],), "u1").T):
            assert clip.read(slice(None, None, 3), out=out) is out
            assert np.array_equal(out, whole)

    def test_batches(self, store_path: Path, mp4: Path) -> None:
        whole = frames_of(mp4)
        with bp.frames.open(store_path, nthreads=2) as store:
            batch = store.read([("walk", slice(0, 12, 3)), ("walk", [19, 18, 1, 0])])
        assert np.array_equal(batch, [whole[0:12:3], whole[[19, 18, 1, 0]]])

    def test_times_and_metadata_need_no_chunk(self, clip: VideoClip) -> None:
        assert np.allclose(clip.times, np.arange(20) / 30)
        assert clip.meta == {"fps": 30.0, "label": 3}
        assert clip.header.pixel_format == "yuv420p"

    def test_each_group_is_one_read(self, clip: VideoClip) -> None:
        frames = np.empty((6, 32, 40, 3), "u1")
        pieces = list(clip.pieces(np.array([0, 1, 7, 9, 8, 2]), frames))
        extents = clip.chunk_extents()
        assert [(each.offset, each.nbytes - 8) for each in pieces] == extents[:2]
        assert len(extents) == 3

    def test_pickles_copies_and_threads(self, store_path: Path, mp4: Path) -> None:
        whole = frames_of(mp4)
        with bp.frames.open(store_path) as store:
            for other in (pickle.loads(pickle.dumps(store)), copy.copy(store)):
                with other:
                    assert np.array_equal(other["walk"][5], whole[5])
            again = pickle.loads(pickle.dumps(store["walk"]))
            assert np.array_equal(again[3:5], whole[3:5])
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(store["walk"].read, range(20)))
            assert np.array_equal(found, whole)
        assert len(groupdecoder.POOL) <= 16

    def test_the_number_of_idle_decoders_is_bounded(self, clip: VideoClip) -> None:
        pool = groupdecoder._Pool()
        for _ in range(20):
            pool.give_back(groupdecoder.GroupDecoder(clip._config))
        assert len(pool) == 16
        assert pool.take(clip._config).config == clip._config
        assert len(pool) == 15
        pool.clear()
        assert not len(pool)

    @pytest.mark.parametrize("name", list(MATRICES))
    def test_frames_are_upright(self, name: str, mp4: Path, tmp_path: Path) -> None:
        turned = tmp_path / "turned.mp4"
        turned.write_bytes(mp4.read_bytes())
        set_matrix(turned, name)
        with bp.frames.open(stored(tmp_path, turned)) as store:
            assert np.array_equal(store["walk"].read(), frames_of(turned))


class TestCopy:
    def test_packets_and_times_are_kept(self, clip: VideoClip, mp4: Path) -> None:
        packets = packets_of(mp4)
        assert [tuple(each) for each in clip.packets()] == packets
        assert {each[1] - each[2] for each in packets} != {0}  # it has B-frames
        assert clip.decoded_per_frame < 4.5

    @pytest.mark.parametrize(
        ("name", "codec", "options"),
        [
            ("a.mp4", "libx265", X265),
            ("a.mp4", "libvpx-vp9", {"g": "8", "lag-in-frames": "16", "auto-alt-ref": "1"}),
            ("a.webm", "libvpx-vp9", {"g": "8"}),
            ("a.mp4", "libsvtav1", {"svtav1-params": "keyint=8:lp=1"}),
        ],
    )
    def test_other_codecs(
        self, name: str, codec: str, options: dict[str, str], tmp_path: Path
    ) -> None:
        source = write_video(tmp_path / name, FRAMES, codec=codec, options=options)
        path = stored(tmp_path, source.read_bytes())
        with bp.frames.open(path) as store:
            clip = store["walk"]
            whole = frames_of(source)
            assert np.array_equal(clip.read(), whole)
            assert np.array_equal(clip[1::2], whole[1::2])
            assert [tuple(each) for each in clip.packets()] == packets_of(source)
        assert bp.verify(path).ok

    @pytest.mark.parametrize("name", ["a.ts", "a.mkv"])
    def test_other_files(self, name: str, tmp_path: Path) -> None:
        source = write_video(tmp_path / name, FRAMES, codec="libx264", options=X264)
        with bp.frames.open(stored(tmp_path, source)) as store:
            clip = store["walk"]
            assert np.array_equal(clip.read(), frames_of(source))
            assert [each.pts for each in clip.packets()] == [p[1] for p in packets_of(source)]
            decoded = [each.dts for each in clip.packets()]
            assert sorted(set(decoded)) == decoded

    def test_varying_rate(self, tmp_path: Path) -> None:
        times = [0, 30, 70, 100, 133, 170, 171, 300, 400, 410, 420, 444]
        source = write_video(
            tmp_path / "v.mp4", FRAMES[:12], codec="libx264", times=times, options=X264
        )
        with bp.frames.open(stored(tmp_path, source)) as store:
            assert np.allclose(store["walk"].times * 1000, times)
            assert [tuple(each) for each in store["walk"].packets()] == packets_of(source)

    @pytest.mark.parametrize(
        ("pixels", "codec", "profile"),
        [("yuv420p10le", "libx264", "high10"), ("gray", "libx264", "high"),
         ("yuv444p", "libx264", "high444"), ("yuv422p10le", "libx264", "high422")],
    )  # fmt: skip
    def test_pixel_formats_and_odd_sides(
        self, pixels: str, codec: str, profile: str, tmp_path: Path
    ) -> None:
        source = tmp_path / "a.mp4"
        shape = (33, 47) if pixels == "yuv444p" else (34, 46)
        with av.open(str(source), "w") as container:
            stream = container.add_stream(codec, rate=30, options={**X264, "profile": profile})
            stream.height, stream.width = shape
            stream.pix_fmt = pixels
            for array in moving(10, *shape):
                container.mux(stream.encode(av.VideoFrame.from_ndarray(array, "rgb24")))
            container.mux(stream.encode(None))
        with bp.frames.open(stored(tmp_path, source)) as store:
            if pixels != "gray":  # FFmpeg decodes it with chroma
                assert store["walk"].header.pixel_format == pixels
            assert np.array_equal(store["walk"].read(), frames_of(source))


def facts_of(path: Path) -> tuple[Any, ...]:
    """Return the properties of a video file that must survive a copy."""
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        codec = stream.codec_context
        colour = codec.color_range, codec.color_primaries, codec.color_trc, codec.colorspace
        sizes = codec.width, codec.height, stream.sample_aspect_ratio
        return codec.name, codec.extradata, codec.codec_tag, colour, sizes, stream.time_base


class TestExport:
    @pytest.mark.parametrize(
        ("codec", "options", "matrix"),
        [
            ("libx264", X264, "clockwise"),
            ("libx265", X265, "half"),
            ("libvpx-vp9", {"g": "8"}, "none"),
            ("libsvtav1", {"svtav1-params": "keyint=8:lp=1"}, "mirror"),
        ],
    )
    def test_mp4_in_mp4_out(
        self, codec: str, options: dict[str, str], matrix: str, tmp_path: Path
    ) -> None:
        source, target = tmp_path / "in.mp4", tmp_path / "out.mp4"
        with restore_scheduling(), av.open(str(source), "w") as container:
            stream = container.add_stream(codec, rate=30, options=options)
            stream.height, stream.width, stream.pix_fmt = 32, 40, "yuv420p"
            context = stream.codec_context
            context.color_range, context.color_primaries = 1, 9
            context.color_trc, context.colorspace = 16, 9
            context.sample_aspect_ratio = Fraction(4, 3)
            for array in FRAMES:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(array, "rgb24")))
            container.mux(stream.encode(None))
        set_matrix(source, matrix)
        with bp.frames.open(stored(tmp_path, source)) as store:
            store["walk"].to_mp4(target)
            with pytest.raises(FileExistsError):
                store["walk"].to_mp4(target)
        assert packets_of(target) == packets_of(source)
        assert facts_of(target) == facts_of(source)
        assert np.array_equal(frames_of(target), frames_of(source))

    def test_a_file_that_appears_is_not_replaced(
        self, clip: VideoClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = tmp_path / "out.mp4"
        packets = VideoClip.packets

        def packets_while_it_appears(self: VideoClip) -> Iterator[Any]:
            target.write_bytes(b"of another program")
            return packets(self)

        monkeypatch.setattr(VideoClip, "packets", packets_while_it_appears)
        with pytest.raises(FileExistsError, match="overwrite=True"):
            clip.to_mp4(target)
        assert target.read_bytes() == b"of another program"
        assert [path.name for path in tmp_path.glob("*out*")] == ["out.mp4"]
        clip.to_mp4(target, overwrite=True)
        assert len(packets_of(target)) == len(clip)

    @pytest.mark.parametrize(
        "changes",
        [{"width": 1 << 16}, {"time_base": Fraction(1 << 31, 7), "times": [1 << 60]}],
    )
    def test_fields_that_an_mp4_file_cannot_hold(
        self, clip: VideoClip, changes: dict[str, Any]
    ) -> None:
        first = next(clip.packets())._replace(pts=changes.get("times", [0])[0])
        packet = first._replace(dts=first.pts, duration=0)
        with pytest.raises(UnsupportedError, match="does not fit into an mp4 file"):
            write_file(io.BytesIO(), replace(clip.header, **changes), [packet])

    def test_frames_without_durations_are_all_shown(self, clip: VideoClip) -> None:
        file = io.BytesIO()
        packets = [each._replace(duration=0) for each in clip.packets()]
        write_file(file, clip.header, packets)
        with av.open(io.BytesIO(file.getvalue())) as container:
            assert len(list(container.decode(video=0))) == len(clip)

    @pytest.mark.parametrize("start", [0, 500])
    def test_varying_times(self, start: int, tmp_path: Path) -> None:
        times = [start + k * 33 + k * k % 7 for k in range(12)]
        source, target = tmp_path / "in.mp4", tmp_path / "out.mp4"
        write_video(source, FRAMES[:12], codec="libx264", times=times, options=X264)
        with bp.frames.open(stored(tmp_path, source)) as store:
            store["walk"].to_mp4(target)
        assert packets_of(target) == packets_of(source)

    def test_another_store_takes_the_groups_as_they_are(
        self, clip: VideoClip, store_path: Path, tmp_path: Path
    ) -> None:
        bp.convert(store_path, tmp_path / "copy.blp", to="frames")
        with bp.frames.open(tmp_path / "copy.blp") as copied:
            assert list(copied["walk"].packets()) == list(clip.packets())
            assert copied["walk"].meta == clip.meta
            assert np.array_equal(copied["walk"].times, clip.times)

    def test_convert_writes_an_mp4_file_of_the_packets(
        self, store_path: Path, mp4: Path, tmp_path: Path
    ) -> None:
        assert bp.convert(store_path, tmp_path / "out.mp4").lossless
        assert packets_of(tmp_path / "out.mp4") == packets_of(mp4)


class TestIngest:
    def test_video_files_stay_video(self, mp4: Path, tmp_path: Path) -> None:
        folder = tmp_path / "in"
        folder.mkdir()
        (folder / "a.mp4").write_bytes(mp4.read_bytes())
        write_video(folder / "b.mp4", FRAMES, codec="mpeg4")
        items = list(bp.frames.listing.videos(folder))
        path = tmp_path / "s.blp"
        report = bp.frames.ingest(items, path, video="copy", workers=1)
        assert (report.nclips, [each.id for each in report.skipped]) == (1, ["b"])
        assert "--video recode" in str(report.skipped[0])
        with bp.frames.open(path) as store:
            assert [tuple(each) for each in store["a"].packets()] == packets_of(mp4)
            assert store["a"].meta == {"fps": 30.0}
            copied = bp.frames.ingest(store, tmp_path / "copy.blp", workers=1)
            assert copied.ok
            with bp.frames.open(tmp_path / "copy.blp") as copy:
                assert list(copy["a"].packets()) == list(store["a"].packets())
        report = bp.frames.ingest(
            items, path, video="recode", crf=4, gop=4, overwrite=True, workers=1
        )
        assert report.ok
        with bp.frames.open(path) as store:
            assert store["b"].meta["fps"] == pytest.approx(30, rel=0.01)
            assert sum(each.is_key for each in store["b"].packets()) == 5

    def test_frames_of_files_are_encoded_at_their_rate(self, mp4: Path, tmp_path: Path) -> None:
        items = list(bp.frames.listing.videos(mp4.parent))[:1]
        path = tmp_path / "s.blp"
        assert bp.frames.ingest(items, path, codec="video", short_edge=16, workers=1).ok
        with bp.frames.open(path) as store:
            (clip,) = store.values()
            assert clip.shape == (20, 16, 20, 3)
            assert np.allclose(clip.times, np.arange(20) / 30)
            assert clip.meta == {"fps": 30.0}

    def test_options_are_checked(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="video='recode'"):
            bp.frames.ingest({"a": FRAMES}, tmp_path / "s.blp", crf=3)
        with pytest.raises(ValueError, match="video must be"):
            bp.frames.ingest({"a": FRAMES}, tmp_path / "s.blp", video="keep")  # type: ignore[arg-type]

    def test_commands(self, mp4: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, out = str(tmp_path / "s.blp"), str(tmp_path / "out.mp4")
        assert main(["frames", "create", "-q", "-w", "1", "--video", "copy", str(mp4), path]) == 0
        assert main(["frames", "ls", path]) == 0
        assert " video " in capsys.readouterr().out
        assert main(["info", path]) == 0
        assert "video: h264, groups of at most 8 frames, 3." in capsys.readouterr().out
        assert main(["info", "--json", path]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["video"]["codecs"] == ["h264"]
        assert main(["convert", f"{path}::/walk", out]) == 0
        assert packets_of(Path(out)) == packets_of(mp4)
        assert main(["frames", "create", "--crf", "3", str(mp4), path]) == 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "codec", "options", "reason"),
        [
            ("a.mp4", "libx264", {"x264-params": GOP + ":open-gop=1:bframes=3:b-adapt=0"}, "open"),
            (
                "a.mp4",
                "libx265",
                {"x265-params": "keyint=8:min-keyint=8:scenecut=0:open-gop=1:bframes=3:b-adapt=0:"
                 "cutree=0:log-level=none:pools=1"},
                "open",
            ),
            ("a.mp4", "libx264", {"x264-params": "intra-refresh=1:keyint=8:threads=1"}, "alone"),
            ("a.mp4", "libx264", {"x264-params": "keyint=20:threads=1"}, "more than 8 frames"),
            ("a.mp4", "mpeg4", {}, "mpeg4"),
            ("a.avi", "libx264", X264, "order"),
        ],
    )  # fmt: skip
    def test_packets_that_cannot_be_kept(
        self, name: str, codec: str, options: dict[str, str], reason: str, tmp_path: Path
    ) -> None:
        source = write_video(tmp_path / name, FRAMES, codec=codec, options=options)
        path = tmp_path / "s.blp"
        with bp.frames.create(path) as store:
            store.append("before", FRAMES[:2])
            size = path.stat().st_size
            with pytest.raises(UnsupportedError, match=reason) as caught:
                store.append_video("walk", source, max_gop=8)
            assert "recode=True" in str(caught.value)
            assert path.stat().st_size == size
            store.append_video("walk", source, recode=True, gop=4, crf=4)
            clip = store["walk"]
            assert clip.shape == FRAMES.shape
            assert np.abs(clip.read().astype(int) - frames_of(source)).mean() < 4
            assert sum(each.is_key for each in clip.packets()) == 5
            assert clip.meta["fps"] == pytest.approx(30, rel=0.01)

    def test_files_that_are_not_videos(self, tmp_path: Path, mp4: Path) -> None:
        path = tmp_path / "s.blp"
        playlist = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
        with bp.frames.create(path) as store:
            for source in (b"", b"text", playlist, mp4.read_bytes()[:300]):
                with pytest.raises(BloscpackError):
                    store.append_video("walk", source)
            with pytest.raises(FileNotFoundError):
                store.append_video("walk", tmp_path / "missing.mp4")
            with pytest.raises(ValueError, match="max_gop must be 1 to 255, not 256"):
                store.append_video("walk", mp4, max_gop=256)
            with pytest.raises(ValueError, match="recode=True"):
                store.append_video("walk", mp4, crf=20)
            assert not len(store)
        assert bp.verify(path).ok

    def test_a_damaged_file_is_refused_whole(self, mp4: Path, tmp_path: Path) -> None:
        data = bytearray(mp4.read_bytes())
        start = data.index(b"mdat") + 4
        at = data.index(packets_of(mp4)[9][0], start) + 20
        data[at : at + 6] = b"\xff" * 6
        with bp.frames.create(tmp_path / "s.blp") as store, pytest.raises(BloscpackError):
            store.append_video("walk", bytes(data))


class TestEncoding:
    @pytest.mark.parametrize("encoder", ["h264", "h265", "vp9", "av1"])
    def test_arrays_are_encoded_in_groups(self, encoder: Any, tmp_path: Path) -> None:
        path = tmp_path / "s.blp"
        with bp.frames.create(path, codec="video", encoder=encoder, crf=12, gop=4) as store:
            store.append("walk", FRAMES[:10], {"fps": 12.5})
        with bp.frames.open(path) as store:
            clip = store["walk"]
            assert np.abs(clip.read().astype(int) - FRAMES[:10]).mean() < 6
            assert [clip.chunk_frames(k) for k in range(3)] == [(0, 4), (4, 8), (8, 10)]
            assert np.allclose(clip.times, np.arange(10) / 12.5)
            assert clip.meta == {"fps": 12.5}
            assert (store.codec, store.encoder, store.gop, store.crf) == ("video", encoder, 4, 12)
        assert bp.verify(path).ok

    def test_bits_are_spent_on_near_pixels(self, tmp_path: Path) -> None:
        noise = np.random.default_rng(3).integers(-6, 7, (16, 96, 128, 3))
        frames = np.clip(moving(16, 96, 128).astype(int) + noise, 0, 255).astype("u1")
        options = {"crf": "18", "x264-params": f"{GOP}:bframes=3:b-adapt=0:mbtree=0:cabac=0"}
        usual = write_video(tmp_path / "a.mp4", frames, codec="libx264", options=options)
        with bp.frames.create(tmp_path / "s.blp", codec="video", crf=18, gop=8) as store:
            store.append_video("usual", usual)
            store.append("near", frames)
            nbytes, errors = [], []
            for clip in store.values():
                nbytes.append(clip.cbytes)
                errors.append(np.square(clip.read().astype(int) - frames).mean())
        assert nbytes[1] < 0.95 * nbytes[0]
        assert errors[1] < 1.02 * errors[0]

    def test_odd_sides_iterators_and_single_frames(self, tmp_path: Path) -> None:
        frames = moving(9, 33, 47)
        with bp.frames.create(tmp_path / "s.blp", codec="video", crf=4) as store:
            store.append("odd", iter(frames))
            store.append("one", frames[:1], gop=1)
            store.append("none", [])
            store.append("exact", frames, codec="lossless")
            assert store["odd"].shape == frames.shape
            assert np.abs(store["odd"].read().astype(int) - frames).mean() < 4
            assert store["one"].shape == (1, 33, 47, 3)
            assert store["none"].shape == (0,)
            assert np.array_equal(store["exact"].read(), frames)

    def test_frames_that_are_not_video(self, tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "s.blp", codec="video") as store:
            for frames in (FRAMES[..., 0], FRAMES.astype("u2")):
                with pytest.raises(ValueError, match="codec 'video' encodes RGB frames"):
                    store.append("walk", frames)
            with pytest.raises(ValueError, match="frame 1 is of shape"):
                store.append("walk", [FRAMES[0], FRAMES[1, :16]])
            with pytest.raises(ValueError, match="crf must be 0 to 51 for h264"):
                store.append("walk", FRAMES, crf=60)
            with pytest.raises(ValueError, match="encoder must be one of"):
                store.append("walk", FRAMES, encoder="theora")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="gop must be 1 to 255"):
                store.append("walk", FRAMES, gop=0)
            assert not len(store)

    @pytest.mark.parametrize("encoder", ["h264", "h265"])
    def test_each_run_gives_the_same_bytes(self, encoder: Any, tmp_path: Path) -> None:
        # In pictures of these sides, x265 writes beyond its memory with its default options.
        frames = np.random.default_rng(1).integers(0, 256, (12, 32, 40, 3), "u1")
        frames = frames.repeat(2, 0)
        found = set()
        for number in range(3):
            path = tmp_path / f"{number}.blp"
            with bp.frames.create(path, codec="video", encoder=encoder) as store:
                store.append("noise", frames)
            found.add(path.read_bytes())
        assert len(found) == 1

    def test_an_encoder_that_is_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from bloscpack.frames.video import videoencoder

        libraries = {"h264": (videoencoder._Library("libnone", 51, True),)}
        monkeypatch.setattr(videoencoder, "_LIBRARIES", libraries)
        with (
            bp.frames.create(tmp_path / "s.blp", codec="video") as store,
            pytest.raises(UnsupportedError, match="needs libnone, which the FFmpeg"),
        ):
            store.append("walk", FRAMES)


class TestDamage:
    def test_errors_of_a_group_cost_that_group(self, store_path: Path, tmp_path: Path) -> None:
        data = bytearray(store_path.read_bytes())
        with bp.frames.open(store_path) as store:
            whole = store["walk"].read()
            offset, nbytes = store["walk"].chunk_extents()[1]
        data[offset + nbytes // 2] ^= 1
        with bp.frames.open(bytes(data)) as store:
            clip = store["walk"]
            assert np.array_equal(clip[:8], whole[:8])
            assert np.array_equal(clip[16:], whole[16:])
            with pytest.raises(FormatError, match=r"clip 'walk': frames 8 to 15 \(bytes \d+ to"):
                clip[9]
            with pytest.raises(FormatError):
                list(clip.packets())
        report = bp.verify(bytes(data))
        assert [(each.clip, each.frames, each.index) for each in report.damage] == [
            ("walk", (8, 16), 1)
        ]

    def test_packets_that_do_not_decode(self, store_path: Path) -> None:
        """The digest is that of bytes that were invalid when they were written."""
        data = bytearray(store_path.read_bytes())
        with bp.frames.open(store_path) as store:
            offset, nbytes = store["walk"].chunk_extents()[1]
            key = [each for each in store["walk"].packets() if each.is_key][1]
        at = data.index(key.data, offset)
        data[at : at + 4] = b"\xff\xff\xff\xff"
        data[offset + nbytes : offset + nbytes + 8] = xxh3_64_digest(data[offset : offset + nbytes])
        with bp.frames.open(bytes(data)) as store:
            with pytest.raises(FormatError, match="clip 'walk': frames 8 to 15"):
                store["walk"].read()
            assert store["walk"][:8].any()
        (damage,) = bp.verify(bytes(data)).damage
        assert damage.frames == (8, 16)

    def test_recovery_keeps_whole_clips(self, store_path: Path, mp4: Path, tmp_path: Path) -> None:
        path = tmp_path / "s.blp"
        with bp.frames.create(path) as store:
            for name in ("a", "b", "c"):
                store.append_video(name, mp4)
        data = bytearray(path.read_bytes())
        with bp.frames.open(path) as store:
            offset, _ = store["b"].chunk_extents()[2]
        data[offset + 4] ^= 0xFF
        path.write_bytes(data)
        bp.recover(path, tmp_path / "saved.blp")
        with bp.frames.open(tmp_path / "saved.blp") as store:
            assert list(store) == ["a", "c"]
            assert np.array_equal(store["c"].read(), frames_of(mp4))
            assert [tuple(each) for each in store["a"].packets()] == packets_of(mp4)

    def test_merged_segments(self, mp4: Path, tmp_path: Path) -> None:
        path = tmp_path / "s.blp"
        with bp.frames.create(path) as store:
            for number in range(3):
                store.append_video(f"v{number}", mp4)
                store.append(f"a{number}", FRAMES[:3])
            store.flush()
        assert bp.verify(path).ok
        with bp.frames.open(path) as store:
            assert np.array_equal(store["v2"][9], frames_of(mp4)[9])
            assert np.array_equal(store["a2"].read(), FRAMES[:3])
