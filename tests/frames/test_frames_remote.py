"""Frame stores behind URLs: requests, answers, failures."""

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import (
    FileChangedError,
    FormatError,
    NotBloscpackError,
    RemoteError,
    UnsupportedError,
)
from bloscpack.frames import FrameStore
from bloscpack.storage.remote.source import HEAD_NBYTES

from ..servers import Answer, FileServer, S3Server, ranges, running

RNG = np.random.default_rng(7)
# Each of 40 clips is 16 incompressible frames of 12 KB.
CLIPS = {f"c{n}": RNG.integers(0, 250, (16, 64, 64, 3), "u1") for n in range(40)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, the same split in two, and one of JPEG images."""
    folder = tmp_path_factory.mktemp("remote")
    for name, part in (
        ("s.blp", slice(0, 40)),
        ("s1.blp", slice(0, 20)),
        ("s2.blp", slice(20, 40)),
    ):
        with bp.frames.create(folder / name, attrs={"of": name}) as store:
            for id_, clip in list(CLIPS.items())[part]:
                store.append(id_, clip, {"label": id_})
    with bp.frames.create(folder / "raw.blp", preset="raw") as store:
        for id_, clip in CLIPS.items():
            store.append(id_, clip, {"label": id_})
    with bp.frames.create(folder / "jpeg.blp", codec="jpeg") as store:
        for id_, clip in CLIPS.items():
            store.append(id_, clip, {"label": id_})
    return folder


@pytest.fixture(scope="module")
def s3(folder: Path) -> Iterator[S3Server]:
    with running(S3Server()) as server:
        for path in folder.rglob("*.*"):
            server.put(str(path.relative_to(folder)), path.read_bytes())
        yield server


def test_a_server_that_reports_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handle in another process finds other clips of the same sizes; a cache, none of them."""
    with running(FileServer()) as server:

        def without(*asked: Any) -> Answer:
            found = FileServer.answer(server, *asked)
            kept = found.headers.keys() - {"ETag", "Last-Modified"}
            return found._replace(headers={name: found.headers[name] for name in kept})

        monkeypatch.setattr(server, "answer", without)
        frames = CLIPS["c1"]
        for inverted in (frames, ~frames):
            with bp.frames.create(tmp_path / "s.blp", preset="raw", overwrite=True) as store:
                store.append("a", inverted)
            server.files["/s.blp"] = (tmp_path / "s.blp").read_bytes()
            if inverted is frames:
                sent = pickle.dumps(bp.frames.open(server.url("s.blp")))
                assert np.array_equal(pickle.loads(sent)["a"][:], frames)
        with pytest.raises(FileChangedError):
            pickle.loads(sent)["a"][:]
        bp.save(tmp_path / "a.blp", frames)
        server.files["/a.blp"] = (tmp_path / "a.blp").read_bytes()
        with bp.open(server.url("a.blp")) as array:
            assert array.__dask_tokenize__() != array.__dask_tokenize__()
            assert np.array_equal(pickle.loads(pickle.dumps(array))[3], frames[3])


@pytest.fixture(scope="module")
def http(folder: Path) -> Iterator[FileServer]:
    with running(FileServer()) as server:
        for path in folder.rglob("*.*"):
            server.files[f"/{path.relative_to(folder)}"] = path.read_bytes()
        yield server


@pytest.fixture(autouse=True)
def _fresh(request: pytest.FixtureRequest, retries_at_once: None) -> None:
    for name in ("s3", "http"):
        if name in request.fixturenames:
            request.getfixturevalue(name).clear()


def extents(clip: Any, frames: slice) -> tuple[int, int]:
    """Return the extents of adjacent frames of a local clip, including digests."""
    places = clip.chunk_extents()[frames]
    first, last = places[0], places[-1]
    return first[0], last[0] + last[1] + 8 - first[0]


class TestRaw:
    """Raw frames: their digests are fetched once, with the first frames."""

    @pytest.fixture
    def store(self, s3: S3Server) -> Iterator[Any]:
        with bp.frames.open("s3://box/raw.blp", storage_options=s3.options) as store:
            list(store.values())
            s3.clear()
            yield store

    def test_a_clip_and_its_digests_are_one_request(self, s3: S3Server, store: Any) -> None:
        assert np.array_equal(store["c20"][:], CLIPS["c20"])
        (start, _), *_ = store["c20"].chunk_extents()
        ndigests = len(store["c20"].chunk_extents())
        assert ranges(s3) == [(start, CLIPS["c20"].nbytes + 8 * ndigests)]

    def test_a_frame_and_its_digest_are_one_request(self, s3: S3Server, store: Any) -> None:
        assert np.array_equal(store["c21"][5], CLIPS["c21"][5])
        assert len(s3.log) == 1

    def test_a_batch(self, s3: S3Server, store: Any) -> None:
        ids = ["c30", "c2", "c20"]
        found = store.read([(id_, slice(0, 16, 2)) for id_ in ids])
        assert np.array_equal(found, np.stack([CLIPS[id_][::2] for id_ in ids]))
        assert len(s3.log) == 3

    def test_a_view_is_refused(self, store: Any) -> None:
        with pytest.raises(ValueError, match="the path of a local file"):
            store["c20"].read(copy=False)


class TestStores:
    @pytest.fixture
    def store(self, s3: S3Server) -> Iterator[Any]:
        with bp.frames.open("s3://box/s.blp", storage_options=s3.options) as store:
            yield store

    def test_opening_is_two_requests(self, s3: S3Server, store: Any, folder: Path) -> None:
        size = (folder / "s.blp").stat().st_size
        assert ranges(s3) == [(0, HEAD_NBYTES), (size - (1 << 16), 1 << 16)]
        assert len(s3.log) == 2
        assert list(store) == list(CLIPS)
        assert store["c7"].meta == {"label": "c7"}
        assert store.attrs == {"of": "s.blp"}
        assert len(s3.log) == 2

    def test_a_clip_is_one(self, s3: S3Server, store: Any, folder: Path) -> None:
        s3.clear()
        with bp.frames.open(folder / "s.blp") as local:
            expected = extents(local["c20"], slice(0, 16))
        assert np.array_equal(store["c20"][:], CLIPS["c20"])
        assert ranges(s3) == [expected]
        assert len(s3.log) == 1

    def test_a_frame_is_one(self, s3: S3Server, store: Any, folder: Path) -> None:
        s3.clear()
        with bp.frames.open(folder / "s.blp") as local:
            expected = extents(local["c21"], slice(5, 6))
        assert np.array_equal(store["c21"][5], CLIPS["c21"][5])
        assert ranges(s3) == [expected]

    def test_a_strided_clip_is_one(self, s3: S3Server, store: Any) -> None:
        s3.clear()
        assert np.array_equal(store["c22"][1::4], CLIPS["c22"][1::4])
        assert len(s3.log) == 1

    def test_a_batch_is_one_for_each_place(self, s3: S3Server, store: Any, folder: Path) -> None:
        s3.clear()
        ids = ["c38", "c2", "c20", "c21"]
        found = store.read([(id_, slice(0, 8)) for id_ in ids])
        assert np.array_equal(found, np.stack([CLIPS[id_][:8] for id_ in ids]))
        with bp.frames.open(folder / "s.blp") as local:
            two, twenty, last = (extents(local[id_], slice(0, 8)) for id_ in ("c2", "c20", "c38"))
            after = extents(local["c21"], slice(0, 8))
        # c21 follows c20: the gap is too small for a second request.
        both = twenty[0], after[0] + after[1] - twenty[0]
        # c2 starts in the head.
        assert ranges(s3) == [two, both, last] or two[0] < HEAD_NBYTES
        assert len(s3.log) == 3

    def test_a_small_store_is_one_request(self, s3: S3Server, tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "a.blp") as store:
            store.append("a", CLIPS["c1"][:2])
        url = s3.put("small.blp", (tmp_path / "a.blp").read_bytes())
        with bp.frames.open(url, storage_options=s3.options) as store:
            assert np.array_equal(store["a"][:], CLIPS["c1"][:2])
        assert len(s3.log) == 1

    def test_a_handle_travels(self, s3: S3Server, store: Any) -> None:
        s3.clear()
        data = pickle.dumps(store)
        assert s3.log == []
        again = pickle.loads(data)
        assert np.array_equal(again["c30"][2:5], CLIPS["c30"][2:5])
        assert len(s3.log) == 2

    def test_several_as_one(self, s3: S3Server) -> None:
        urls = ["s3://box/s1.blp", "s3://box/s2.blp"]
        with bp.frames.open(urls, storage_options=s3.options) as many:
            assert list(many) == list(CLIPS)
            assert many.names == urls
            assert len(s3.log) == 4
            s3.clear()
            found = many.read([("c15", slice(0, 4)), ("c35", slice(0, 4))])
            assert np.array_equal(found, np.stack([CLIPS["c15"][:4], CLIPS["c35"][:4]]))
            assert len(s3.log) == 2
            again = pickle.loads(pickle.dumps(many))
        assert np.array_equal(again["c39"][-1], CLIPS["c39"][-1])

    def test_several_are_opened_at_once(
        self, s3: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        barrier, over = threading.Barrier(2), FrameStore._over

        def opened(*arguments: Any, **options: Any) -> FrameStore:
            barrier.wait(120)  # until the other request has been sent
            return over(*arguments, **options)

        monkeypatch.setattr(FrameStore, "_over", opened)
        with bp.frames.open("s3://box/s?.blp", storage_options=s3.options) as many:
            assert list(many) == list(CLIPS)
            sent = pickle.dumps(many)
        assert len(pickle.loads(sent)) == 40

    def test_of_a_dataset(self, s3: S3Server) -> None:
        torch = pytest.importorskip("bloscpack.integrations.torch", exc_type=ImportError)
        dataset = torch.FrameDataset("s3://box/s?.blp", storage_options=s3.options, label="label")
        assert len(s3.log) == 1 + 2 * 2  # the list; the ends of both
        for each in (dataset, pickle.loads(pickle.dumps(dataset))):
            s3.clear()
            items = each.__getitems__([9, 10, 33])
            assert [item["label"] for item in items] == ["c9", "c10", "c33"]
            assert np.array_equal(items[2]["frames"], CLIPS["c33"])
            # One for adjacent clips. The pickled handle opens both again and reads their fronts.
            assert len(s3.log) == 2 + (each is not dataset) * 2

    def test_verify(self, s3: S3Server) -> None:
        report = bp.verify("s3://box/s.blp", storage_options=s3.options)
        assert report.ok
        assert report.nchunks == 640
        assert len(s3.log) < 6

    def test_images_of_several_shapes(self, http: FileServer, tmp_path: Path) -> None:
        from bloscpack.media import image

        images = [
            image.encode_jpeg(RNG.integers(0, 250, (200 + n, 300, 3), "u1")) for n in range(9)
        ]
        with bp.frames.create(tmp_path / "a.blp") as store:
            store.append("a", images)
        http.files["/various.blp"] = (tmp_path / "a.blp").read_bytes()
        with bp.frames.open(http.url("various.blp")) as store:
            http.clear()
            assert store["a"].read_images() == images
            assert store["a"][8].shape == (208, 300, 3)
        assert len(http.log) <= 2

    @pytest.mark.parametrize("fault", ["drop", "short", "500"])
    def test_the_right_frames_or_a_named_error(self, s3: S3Server, store: Any, fault: str) -> None:
        s3.clear()
        s3.faults.extend([fault, fault])
        assert np.array_equal(store["c20"][:], CLIPS["c20"])
        s3.always = fault
        for read in (lambda: store["c30"][:], lambda: store["c30"][3], lambda: store["c5"][2::3]):
            with pytest.raises(RemoteError, match=r"s\.blp"):
                read()

    def test_another_version(self, http: FileServer, folder: Path) -> None:
        http.files["/b.blp"] = (folder / "s.blp").read_bytes()
        with bp.frames.open(http.url("b.blp")) as store:
            handle = pickle.dumps(store)
            store.refresh()
            http.files["/b.blp"] = (folder / "s1.blp").read_bytes()
            for read in (lambda: store["c30"][:], lambda: store["c30"][3], store.refresh):
                with pytest.raises(FileChangedError, match=r"b\.blp"):
                    read()
        with pytest.raises(FileChangedError):
            pickle.loads(handle)

    def test_a_damaged_frame(self, http: FileServer, folder: Path) -> None:
        data = bytearray((folder / "s.blp").read_bytes())
        with bp.frames.open(folder / "s.blp") as local:
            data[local["c20"].chunk_extents()[3][0] + 100] ^= 1
        http.files["/b.blp"] = bytes(data)
        with bp.frames.open(http.url("b.blp")) as store:
            with pytest.raises(FormatError, match="frame 3"):
                store["c20"][:]
            assert np.array_equal(store["c20"][4:], CLIPS["c20"][4:])
        assert not bp.verify(http.url("b.blp")).ok

    def test_nothing_is_appended(self, s3: S3Server) -> None:
        with pytest.raises(UnsupportedError, match="appended to"):
            bp.frames.open("s3://box/s.blp", "a", storage_options=s3.options)

    def test_neither_store_nor_folder(self, s3: S3Server) -> None:
        with pytest.raises(FileNotFoundError, match="s3://box/none"):
            bp.frames.open("s3://box/none", storage_options=s3.options)
        url = s3.put("text", b"no store" * 100)
        with pytest.raises(NotBloscpackError):
            bp.frames.open(url, storage_options=s3.options)

    def test_options_are_for_urls(self, folder: Path) -> None:
        with pytest.raises(ValueError, match="storage_options"):
            bp.frames.open(folder / "s.blp", storage_options={"anon": True})

    def test_nothing_is_listed(self) -> None:
        with pytest.raises(FileNotFoundError, match="memory://nothing"):
            bp.frames.open("memory://nothing/")

    def test_recovering(self, s3: S3Server, folder: Path, tmp_path: Path) -> None:
        report = bp.recover("s3://box/s1.blp", tmp_path / "0.blp", storage_options=s3.options)
        assert (report.ok, report.path) == (True, "s3://box/s1.blp")
        bp.recover(folder / "s1.blp", tmp_path / "1.blp")
        assert (tmp_path / "0.blp").read_bytes() == (tmp_path / "1.blp").read_bytes()
