"""Requests to S3 when parts become an object: few of them, and few bytes."""

import os

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FileChangedError
from bloscpack.storage.remote import s3join
from bloscpack.storage.remote.partobjects import part_objects
from bloscpack.storage.remote.s3join import JoinedUpload

from ..conftest import server_fixture
from .copying import CopyingServer

MIB = 1 << 20
FOLDER = "s3://box/in/.folder"
# Incompressible.
ROWS = np.random.default_rng(2).integers(0, 256, (26, MIB), "u1")


running_s3 = server_fixture(CopyingServer)


@pytest.fixture
def s3(running_s3: CopyingServer) -> CopyingServer:
    running_s3.clear()
    running_s3.remove_all()
    return running_s3


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow small parts; moto refuses smaller ones."""
    monkeypatch.setattr(s3join, "_LEAST_NBYTES", 100)
    monkeypatch.setattr(s3join, "_MAX_COPY_NBYTES", 1000)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 100)


def requests_of(server: CopyingServer) -> list[str]:
    """Return a short form of the requests."""
    found = []
    for method, path, *_ in server.log:
        _, _, rest = path.partition("/box")
        place, _, query = rest.partition("?")
        words = [method, place.rpartition("/")[2].rpartition("-")[0] or place.rpartition("/")[2]]
        words += [name.partition("=")[0] for name in query.split("&") if name]
        found.append(" ".join(words))
    return found


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "a.blp"
    bp.save(path, ROWS, chunks=1)
    return path.read_bytes()


@pytest.mark.parametrize("verify", [True, False])
def test_requests(s3: CopyingServer, verify: bool, saved: bytes) -> None:
    """A job of four parts: 10, 6, 6 and 4 MiB."""
    job = bp.parts(
        "s3://box/a.blp",
        shape=ROWS.shape,
        dtype="u1",
        chunks=1,
        sample=ROWS,
        storage_options=s3.options,
    )
    assert requests_of(s3) == ["PUT begun"]

    s3.clear()
    records = [job.write(a, ROWS[a:b]) for a, b in ((0, 10), (10, 16), (16, 22), (22, 26))]
    piece = "PUT 000000000000 partNumber uploadId"
    large = ["POST 000000000000 uploads", piece, piece, "POST 000000000000 uploadId"]
    expected = ["HEAD begun", *large, "HEAD begun"]
    for first in (10, 16, 22):
        expected += ["HEAD begun", f"PUT {first:012x}", "HEAD begun"]
    assert requests_of(s3) == expected

    s3.clear()
    job.join(records, verify=verify)
    found = requests_of(s3)
    heads = [f"HEAD {first:012x}" for first in (0, 10, 16, 22)]
    # The front takes 5 MiB of the first part, and the other 5 MiB can be copied. The last part is
    # too small to copy: it is fetched and sent with the trailer.
    gets = ["GET 000000000000", "GET 000000000016"]
    # More than 8 MiB take several requests, the first ones smaller.
    read = [f"GET {first:012x}" for first in (0, 0, 0, 0, 10, 16, 22)] if verify else []
    pieces = ["PUT a.blp partNumber uploadId"] * 5
    begins = ["POST a.blp uploads", "PUT upload"]
    assert sorted(found) == sorted(
        ["HEAD begun", *heads, *read, *gets, *begins, *pieces, "POST a.blp uploadId"]
    )
    assert (found[0], found[-1]) == ("HEAD begun", "POST a.blp uploadId")
    lengths = [record.nbytes for record in records]
    copied = [extent for _, extent in sorted(s3.copied)]
    start = int(copied[0].removeprefix("bytes=").partition("-")[0])
    assert 5 * MIB - 10_000 < start < 5 * MIB
    nbytes = sum(request.nbytes for request in s3.gets)
    assert nbytes == start + lengths[3] + sum(lengths) * verify
    assert copied[1:] == [f"bytes=0-{length - 1}" for length in lengths[1:3]]

    s3.clear()
    job.abort()
    assert requests_of(s3) == [
        "DELETE begun",
        "GET  list-type prefix encoding-type",
        "DELETE a.blp uploadId",
        "GET  uploads prefix",
        "POST  delete",
    ]
    assert s3.object("a.blp") == saved
    assert s3.keys() == ["a.blp"]


def joined(s3: CopyingServer, pieces: list[bytes | int]) -> bytes:
    """Make an object of bytes and of parts of the given sizes; return the expected content."""
    upload = JoinedUpload("s3://box/in/a", s3.options, FOLDER, {})
    expected = []
    for number, piece in enumerate(pieces):
        data = piece if isinstance(piece, bytes) else np.random.default_rng(number).bytes(piece)
        expected.append(data)
        if isinstance(piece, bytes):
            upload.write(data)
        else:
            s3.put(f"in/.folder/{number}", data)
            upload.append_part(f"{number}", len(data))
    upload.commit()
    return b"".join(expected)


@pytest.mark.usefixtures("small")
class TestPieces:
    @pytest.mark.parametrize(
        ("pieces", "ncopies"),
        [
            ([b"head", 20, 30, b"tail"], 0),
            ([b"h" * 100, 99, b"t"], 0),
            ([b"h" * 100, 100, b"t"], 1),
            ([b"h" * 1, 198, b"t"], 0),
            ([b"h" * 1, 199, b"t"], 1),
            ([b"h" * 250, 120, 150, b"t"], 1),
            ([b"h", *[30] * 9, b"t"], 0),
            ([b"h", *[130] * 4, b"t"], 3),
            ([b"h", 500, 40, 500, 60, 40, 500, b"t"], 3),
            ([b"h", 1099, 1000, b"t"], 2),
            ([b"h", 1100, 1001, b"t"], 4),
            ([b"h", 150, 0, 150, b"t"], 1),
            ([], 0),
        ],
    )
    def test_what_is_copied(
        self, s3: CopyingServer, pieces: list[bytes | int], ncopies: int
    ) -> None:
        """Copied and fetched bytes; moto refuses parts that are too small."""
        expected = joined(s3, pieces)
        assert s3.object("in/a") == expected
        assert len(s3.copied) == ncopies
        for _, extent in s3.copied:
            first, last = map(int, extent.removeprefix("bytes=").split("-"))
            assert 100 <= last + 1 - first <= 1000

    def test_groups(self, s3: CopyingServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """If there are more parts than S3 accepts, they are joined into objects that are copied."""
        monkeypatch.setattr(s3join, "_MAX_SINGLE", 3)
        monkeypatch.setattr(s3join, "_GROUP", 4)
        for count in (2, 3, 10):
            s3.remove_all()
            s3.clear()
            expected = joined(s3, [b"h", *[150] * count, b"t"])
            assert s3.object("in/a") == expected
            groups = [key for key in s3.keys() if "joined-" in key]  # noqa: SIM118
            assert len(groups) == max(0, -(-(count + 1 - 3) // 4))
            assert s3.uploads() == 0
        part_objects("s3://box/in/a", s3.options).clear(".folder")
        assert s3.keys() == ["in/a"]

    def test_a_group_that_fails(self, s3: CopyingServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(s3join, "_MAX_SINGLE", 3)
        for at in (2, 7):
            upload = JoinedUpload("s3://box/in/a", s3.options, FOLDER, {"4": (150, "other")})
            upload.write(b"h" * 100)
            for number in range(8):
                s3.put(f"in/.folder/{number}", os.urandom(150))
                upload.append_part(f"{number}", 150)
                if number == at:
                    break
            if at == 7:
                with pytest.raises(FileChangedError, match=r"folder/4' changed while"):
                    upload.commit()
            upload.abort()
            assert s3.uploads() == 0
            assert "in/a" not in s3.keys()  # noqa: SIM118

    def test_what_is_fetched_is_another_one(self, s3: CopyingServer) -> None:
        for size, tag in ((20, "other"), (21, "")):
            upload = JoinedUpload("s3://box/in/a", s3.options, FOLDER, {"0": (size, tag)})
            s3.put("in/.folder/0", bytes(20))
            upload.append_part("0", 20)
            with pytest.raises(FileChangedError, match=r"folder/0' changed while"):
                upload.commit()
            assert s3.keys() == ["in/.folder/0"]

    def test_nothing_is_written_again(self, s3: CopyingServer) -> None:
        upload = JoinedUpload("s3://box/in/a", s3.options, FOLDER, {})
        upload.write(b"head")
        with pytest.raises(ValueError, match="sent"):
            upload.write_at(0, b"h")
        upload.abort()
