"""A writer that is stopped, by an error or by death: flushed records exist, and are whole."""

import errno
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import bloscpack.vrs as vrs
from bloscpack.exceptions import FormatError
from bloscpack.storage import disk
from bloscpack.vrs.format.format import FILE_HEADER_SIZE, FileHeader, RecordHeader
from bloscpack.vrs.write import recordfile
from tests.conftest import REPOSITORY
from tests.faults.disk import REAL, Crash, StoppingDisk, installed
from tests.faults.power import File, Recorder, after_cut
from tests.oracle import Oracle

PLACEMENTS: dict[str, dict[str, Any]] = {
    "end": {},
    "front": {"index": "front", "index_room": 20},
    "front, too small": {"index": "front", "index_room": 0},
    "chunks": {"chunk_nbytes": 150},
}
LARGE = bytes(1 << 16)

each_placement = pytest.mark.parametrize("placement", PLACEMENTS)


def record(path: Path, placement: str, seen: list[int], made: list[vrs.Writer]) -> None:
    """Write five records, and append to `seen` the number of flushed ones."""
    with vrs.create(path, compression="none", **PLACEMENTS[placement]) as recording:
        made.append(recording)
        stream = recording.stream("sample")
        stream.define("data", vrs.Custom())
        stream.write("data", 0, b"first")
        recording.flush()
        seen.append(1)
        stream.write("data", 1, LARGE)
        seen.append(2)  # written to the file without a flush
        stream.tags["late"] = "tag"
        stream.write("data", 2, b"third")
        recording.flush()
        seen.append(3)
        late = recording.stream("imu")
        late.define("data", vrs.Custom())
        late.write("data", 3, b"fourth")
        stream.write("data", 4, b"")
    seen.append(5)


PAYLOADS = [b"first", LARGE, b"third", b"fourth", b""]


@pytest.fixture(autouse=True)
def _many_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make split indexes grow every two records."""
    monkeypatch.setattr(recordfile, "SPLIT_RECORDS", 2)


def check(path: Path, flushed: int) -> vrs.Recording | None:
    """Check that a file has the first records, at least the flushed ones; None if not readable."""
    if not path.exists() or path.stat().st_size < FILE_HEADER_SIZE:
        assert not flushed
        return None
    recording = vrs.open(path)
    payloads = [bytes(each.payload) for each in recording]
    assert payloads == PAYLOADS[: len(payloads)]
    assert len(payloads) >= flushed
    return recording


@each_placement
@pytest.mark.parametrize("kind", ["error", "crash", "torn"])
def test_stopped_at_every_step(tmp_path: Path, placement: str, kind: str) -> None:
    counts, nclosed = set(), 0
    for step in range(100):
        folder = tmp_path / str(step)
        folder.mkdir()
        stopping, flushed, made = StoppingDisk(step, kind), [0], list[vrs.Writer]()
        was_closed = False
        with installed(stopping):
            try:
                record(folder / "a.vrs", placement, flushed, made)
            except (OSError, Crash):
                was_closed = bool(made) and made[0].closed
                drop_writers(made)
            else:
                break
        found = check(folder / "a.vrs", flushed[-1])
        if found is None:
            continue
        counts.add(len(found))
        if was_closed:
            # Even after the error, accepted records have an index.
            assert found.report.is_clean, (step, stopping.names[step], found.report)
        found.close()
        nclosed += was_closed
    assert step > 8
    assert (nclosed > 2) == (kind == "error")
    # After an error the rest is still written: exactly two records are found after death only.
    assert counts >= ({0, 1, 3} if kind == "error" else {0, 1, 2, 3})


def drop_writers(made: list[vrs.Writer]) -> None:
    """End a writer as death does, without another write."""
    for recording in made:
        if not recording.closed:
            recording._is_closed = True
            recording._file._close_files()


@each_placement
def test_failed_calls_can_be_retried(tmp_path: Path, placement: str) -> None:
    """A full disk: each failed call is retried, and in the end the file has every record once."""
    for step in range(100):
        folder = tmp_path / str(step)
        folder.mkdir()
        path = folder / "a.vrs"
        recording = vrs.create(path, compression="none", **PLACEMENTS[placement])
        stream = recording.stream("sample")
        stream.define("data", vrs.Custom())
        stopping = StoppingDisk(step)
        with installed(stopping):
            for index, payload in enumerate(PAYLOADS):
                retry_until_done(stream.write, "data", index, payload)
                retry_until_done(recording.flush)
            retry_until_done(recording.close)
        found = check(path, len(PAYLOADS))
        assert found is not None
        assert len(found) == len(PAYLOADS)
        assert found.report.is_clean, (step, stopping.names, found.report)
        found.close()
        if stopping.count <= step:
            break
    assert step > 8


@each_placement
def test_power_loss(tmp_path: Path, placement: str) -> None:
    """A header with the offset of the index becomes durable after all records and names."""
    work = tmp_path / "work"
    work.mkdir()
    recorder = Recorder(work)
    with installed(recorder):
        record(work / "a.vrs", placement, [], [])
    ncomplete = 0
    for count in range(len(recorder.events) + 1):
        for seed in range(12):
            files = after_cut(recorder, count, seed)
            if not is_complete(files, placement):
                assert count < len(recorder.events)
                continue
            ncomplete += 1
            folder = tmp_path / f"{count}-{seed}"
            folder.mkdir()
            for name, file in files.items():
                (folder / name).write_bytes(file.durable)
            with vrs.open(folder / "a.vrs") as found:
                assert [bytes(each.payload) for each in found] == PAYLOADS
                assert found.report.is_clean, found.report
    assert ncomplete > 12


def is_complete(files: dict[str, File], placement: str) -> bool:
    """Return whether the header gives the offset of a whole index."""
    if "a.vrs" not in files or len(files["a.vrs"].durable) < FILE_HEADER_SIZE:
        return False
    try:
        header = FileHeader.unpack(bytes(files["a.vrs"].durable))
    except FormatError:
        return False  # zeros: the header was not written
    offset = header.first_record_offset if placement == "chunks" else header.index_offset
    return offset > 0


@each_placement
@pytest.mark.parametrize("also", [(), ("truncate",)])
def test_bytes_of_a_failed_write_are_removed(
    tmp_path: Path, placement: str, also: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full after the bytes of a record, and the caller does not retry."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def filling(fd: int, offset: int, *parts: Any) -> None:
        REAL["write_at"](fd, offset, *parts)
        fail()

    path = tmp_path / "a.vrs"
    with vrs.create(path, compression="none", **PLACEMENTS[placement]) as recording:
        stream = recording.stream("sample")
        stream.write_payload("data", 0, PAYLOADS[0])
        with monkeypatch.context() as patch:
            patch.setattr(disk, "write_at", filling)
            for name in also:
                patch.setattr(disk, name, fail)
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                stream.write_payload("data", 1, LARGE)
    found = check(path, 1)
    assert found is not None
    assert (len(found), found.report.is_clean) == (1, True)
    assert found.source.size() < len(LARGE)
    found.close()


def retry_until_done(call: Callable[..., None], *args: Any) -> None:
    try:
        call(*args)
    except OSError:
        call(*args)


KILLED = """
import os, sys
import bloscpack.vrs as vrs
from bloscpack.exceptions import FormatError
from bloscpack.storage import disk
from bloscpack.vrs.write import recordfile
from bloscpack.vrs.format.format import FILE_HEADER_SIZE, FileHeader, RecordHeader
recordfile.SPLIT_RECORDS = 1000
class Numbers(vrs.Layout):
    i = vrs.Value("uint64_t")
recording = vrs.create(sys.argv[1], **eval(sys.argv[2]))
stream = recording.stream("sample")
stream.define("data", Numbers)
for i in range(1 << 40):
    stream.write("data", i, {"i": i})
    if i % 700 == 699:
        recording.flush()
        print(i + 1, flush=True)
"""


@each_placement
def test_killed(wheel: Oracle, tmp_path: Path, placement: str) -> None:
    path = tmp_path / "a.vrs"
    options = {
        key: 1000 if key == "index_room" else value for key, value in PLACEMENTS[placement].items()
    }
    if "chunk_nbytes" in options:
        options["chunk_nbytes"] = 200_000
    command = [sys.executable, "-c", KILLED, str(path), repr(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as program:
        assert program.stdout is not None
        flushed = [int(program.stdout.readline()) for _ in range(12)][-1]
        program.send_signal(signal.SIGKILL)
    with vrs.open(path) as recording:
        assert len(recording) >= flushed
        assert [each.metadata_blocks[0]["i"] for each in recording] == list(range(len(recording)))
        seen = wheel("[r.timestamp for r in vrs.SyncVRSReader(path)]", path=str(path))
        assert seen == [float(i) for i in range(len(recording))]
        assert recording["998-1"].name == "Sample Class"


def test_a_recording_that_is_dropped_keeps_its_records(tmp_path: Path) -> None:
    vrs.create(tmp_path / "a.vrs").stream("sample").write_payload("data", 1, b"x")
    with pytest.warns(ResourceWarning, match="never closed"):
        gc.collect()
    with vrs.open(tmp_path / "a.vrs") as found:
        assert [bytes(each.payload) for each in found] == [b"x"]


FORKED = """
import os, sys
import bloscpack.vrs as vrs
recording = vrs.create(sys.argv[1])
stream = recording.stream("sample")
stream.write_payload("data", 1, b"in the buffer of both")
if not os.fork():
    sys.exit()  # drops its copy
os.wait()
print(os.path.getsize(sys.argv[1]))
stream.write_payload("data", 2, b"y")
recording.close()
"""


def test_a_forked_process_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    head = RecordHeader.unpack(path.read_bytes(), FILE_HEADER_SIZE).size + FILE_HEADER_SIZE
    assert int(done.stdout) == head
    with vrs.open(path) as found:
        assert len(found) == 2


FORKED_IN_A_BLOCK = """
import os, signal, sys
import bloscpack.vrs as vrs
from bloscpack.exceptions import LockedError

recording = vrs.create(sys.argv[1])
stream = recording.stream("sample")
stream.write_payload("data", 1, b"x")
recording.flush()
with recording.lock:  # as a thread that writes holds it
    child = os.fork()
if not child:
    signal.alarm(240)
    recording.lock.acquire(blocking=False)
    for call in recording.flush, lambda: stream.write_payload("data", 2, b"y"):
        try:
            call()
        except LockedError:
            continue
        os._exit(1)
    getattr(recording, sys.argv[2])()
    os._exit(0 if recording.closed else 2)
assert os.waitpid(child, 0)[1] == 0
with vrs.open(sys.argv[1]) as found:
    assert (len(found), found.index_kind) == (1, "scanned")
stream.write_payload("data", 2, b"y")
recording.close()
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("end", ["close", "abort"])
def test_a_forked_process_only_lets_go(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.vrs"
    command = [sys.executable, "-W", "ignore", "-c", FORKED_IN_A_BLOCK, str(path), end]
    subprocess.run(command, check=True, cwd=REPOSITORY, timeout=300)
    with vrs.open(path, index="strict") as found:
        assert [bytes(each.payload) for each in found] == [b"x", b"y"]


def test_an_error_in_the_block_keeps_the_records(tmp_path: Path) -> None:
    with suppress(KeyError), vrs.create(tmp_path / "a.vrs") as recording:
        recording.stream("sample").write_payload("data", 1, b"x")
        raise KeyError
    with vrs.open(tmp_path / "a.vrs") as found:
        assert len(found) == 1
        assert found.report.is_clean


@each_placement
def test_abort_leaves_nothing(tmp_path: Path, placement: str) -> None:
    recording = vrs.create(tmp_path / "a.vrs", **PLACEMENTS[placement])
    stream = recording.stream("sample")
    for i in range(9):
        stream.write_payload("data", i, bytes(100))
        recording.flush()
    assert len(list(tmp_path.iterdir())) == (10 if "chunk" in placement else 1)
    recording.abort()
    recording.abort()
    assert recording.closed
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="closed"):
        stream.write_payload("data", 1, b"x")
