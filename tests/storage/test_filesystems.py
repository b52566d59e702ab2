"""File systems without locks, permissions, long names, free space or durable folders."""

import errno
import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Never

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.append import append
from bloscpack.cli.main import main
from bloscpack.storage import disk
from bloscpack.storage.descriptor import data_runs
from bloscpack.storage.folder.outputfolder import Folder
from bloscpack.storage.journal import journal_path
from bloscpack.storage.update import UpdateFile

from ..faults.disk import Crash, StoppingDisk, installed

ROWS = np.arange(3000, dtype="i4")
CLIP = np.zeros((2, 8, 8), "u1")


def refuse(number: int) -> Callable[..., Never]:
    def call(*_: Any, **__: Any) -> Never:
        raise OSError(number, os.strerror(number))

    return call


def append_rows(path: Any, **options: Any) -> None:
    with bp.open(path, "a", **options) as a:
        a.append(ROWS)


class TestWithoutLocks:
    """Lustre, NFS and FUSE without ``flock``."""

    @pytest.fixture(autouse=True, params=[errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
    def _no_locks(self, request: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(fcntl, "flock", refuse(request.param))

    @pytest.mark.parametrize(
        "write",
        [
            lambda **options: append_rows("a.blp", **options),
            lambda **options: bp.frames.create("s.blp", **options).close(),
            lambda **options: bp.frames.ingest({"x": CLIP}, "s.blp", workers=1, **options),
        ],
        ids=["append", "create", "ingest"],
    )
    def test_a_writer_says_what_to_do(
        self, monkeypatch: pytest.MonkeyPatch, write: Callable[..., None]
    ) -> None:
        bp.save("a.blp", ROWS)
        Path("new").write_bytes(bytes(12))
        with pytest.raises(OSError, match=r"cannot lock files.*locking=False.*'[as]\.blp'"):
            write()
        write(locking=False)
        Path("s.blp").unlink(missing_ok=True)
        monkeypatch.setenv("BLOSCPACK_LOCKING", "0")
        write()

    def test_the_function_of_0_16_follows_the_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bp.pack_bytes_to_file(bytes(12), "b.blp")
        Path("new").write_bytes(bytes(12))
        with pytest.raises(OSError, match=r"cannot lock files.*BLOSCPACK_LOCKING=0.*'b\.blp'"):
            append("b.blp", "new")
        monkeypatch.setenv("BLOSCPACK_LOCKING", "0")
        append("b.blp", "new")
        assert bp.unpack_bytes_from_file("b.blp")[0] == bytes(24)

    def test_files_are_written_and_read(self) -> None:
        bp.save("a.blp", ROWS)
        bp.save("a.blp", ROWS)
        with bp.Writer("w.blp", dtype="i4", locking=False) as w:
            w.append(ROWS)
        with bp.Writer("w.blp", dtype="i4", locking=False) as w:
            w.append(ROWS)
            w.flush()
            w.append(ROWS)
        assert len(bp.load("w.blp")) == 2 * len(ROWS)
        with bp.frames.create("s.blp", locking=False) as store:
            store.append("x", CLIP)
        with bp.frames.open("s.blp", "a", locking=False) as store:
            store.append("y", CLIP)
        assert list(bp.frames.open("s.blp")) == ["x", "y"]

    def test_the_command_line_has_an_option(self) -> None:
        bp.save("a.blp", ROWS)
        Path("new").write_bytes(ROWS.tobytes())
        np.save("x.npy", CLIP)
        assert main(["append", "a.blp", "new"]) == 1
        assert main(["append", "--no-locking", "a.blp", "new"]) == 0
        assert len(bp.load("a.blp")) == 2 * len(ROWS)
        assert main(["frames", "create", "--no-locking", "x.npy", "s.blp"]) == 0

    def test_a_reader_does_not_roll_back_a_writer_without_lock(self) -> None:
        bp.save("a.blp", ROWS, chunks=100)
        with bp.open("a.blp", "a", locking=False) as a:
            a.append(ROWS)
            assert len(a[...]) == 6000
            assert Path("a.blp.journal").exists()
            assert np.array_equal(bp.load("a.blp"), ROWS)
            assert Path("a.blp.journal").exists()
        assert len(bp.load("a.blp")) == 6000


def test_a_file_is_replaced_where_permissions_cannot_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bp.save(tmp_path / "a.blp", ROWS)
    monkeypatch.setattr(os, "fchmod", refuse(errno.EPERM))
    bp.save(tmp_path / "a.blp", ROWS[:10])
    append_rows(tmp_path / "a.blp")
    assert len(bp.load(tmp_path / "a.blp")) == 3010


@pytest.mark.parametrize("nbytes", [247, 248, 255])
def test_a_file_with_a_long_name_is_appended_to_and_rolled_back(
    tmp_path: Path, nbytes: int
) -> None:
    path = tmp_path / ("n" * (nbytes - 4) + ".blp")
    bp.save(path, ROWS, chunks=100)
    append_rows(path)
    assert len(bp.load(path)) == 6000
    counting = StoppingDisk()
    bp.save(path, ROWS, chunks=100)
    with installed(counting):
        append_rows(path)
    bp.save(path, ROWS, chunks=100)
    with installed(StoppingDisk(counting.count - 2, "crash")), pytest.raises(Crash):
        append_rows(path)
    assert [name for name in os.listdir(tmp_path) if name.endswith(".journal")]
    assert np.array_equal(bp.load(path), ROWS)
    append_rows(path)
    assert os.listdir(tmp_path) == [path.name]


def test_journals_have_the_name_that_they_always_had() -> None:
    assert journal_path("/x/a.blp") == "/x/a.blp.journal"
    assert journal_path("/x/" + "n" * 247) == "/x/" + "n" * 247 + ".journal"
    long = journal_path("/x/" + "n" * 248)
    assert long == journal_path("/x/" + "n" * 248) != journal_path("/x/" + "n" * 249)


def write_store(path: Path) -> None:
    bp.frames.create(path).close()


def write_rows(path: Path) -> None:
    with bp.Writer(path, dtype="i4") as w:
        w.append(ROWS)


WRITERS: dict[str, Callable[[Path], object]] = {
    "save": lambda path: bp.save(path, ROWS),
    "Writer": write_rows,
    "frames.create": write_store,
    "pack_bytes_to_file": lambda path: bp.pack_bytes_to_file(bytes(100), path),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_full_disk_is_reported_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: str
) -> None:
    monkeypatch.setattr(os, call, refuse(errno.ENOSPC), raising=False)
    if call == "fdatasync":
        monkeypatch.setattr(os, "fsync", refuse(errno.ENOSPC))
    if call == "pwrite":
        monkeypatch.setattr(os, "pwritev", refuse(errno.ENOSPC), raising=False)
    with pytest.raises(OSError, match=r"No space left on device: '.*a\.blp'") as caught:
        WRITERS[name](tmp_path / "a.blp")
    assert caught.value.filename == str(tmp_path / "a.blp")
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("call", ["write_at", "sync", "truncate", "create", "unlink"])
def test_each_failing_step_of_an_append_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, ROWS)
    monkeypatch.setattr(disk, call, refuse(errno.EDQUOT))
    if call == "truncate":  # the trailer that is cut off is longer than the new one
        with pytest.raises(OSError, match=r"a\.blp"), closing(UpdateFile.open(path)) as file:
            file.truncate(10)
        return
    with pytest.raises(OSError, match=r"a\.blp") as caught:
        append_rows(path)
    assert caught.value.errno == errno.EDQUOT


def test_a_disk_that_is_full_for_temporary_files_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    from bloscpack.storage.sink import SpoolSink

    class Full:
        def write(self, data: object) -> Never:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sink = SpoolSink()
    sink._move_to_file()
    sink.abort()
    monkeypatch.setattr(sink, "_spool", Full())
    with pytest.raises(OSError, match="temporary file in ") as caught:
        sink.write(b"x")
    assert tempfile.gettempdir() in str(caught.value)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV, errno.ENOSYS, errno.EIO])
def test_bytes_are_copied_where_the_system_refuses_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "copy_file_range", refuse(number), raising=False)
    (tmp_path / "a").write_bytes(b"content")
    source, target = os.open(tmp_path / "a", os.O_RDONLY), disk.create(str(tmp_path / "b"))
    disk.copy_range(source, 0, target, 0, 7)
    os.close(source)
    os.close(target)
    assert (tmp_path / "b").read_bytes() == b"content"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_folders_that_cannot_be_synced_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "fsync", refuse(number))
    disk.sync_folder(str(tmp_path))
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO))
    with pytest.raises(OSError, match=str(tmp_path)):
        disk.sync_folder(str(tmp_path))


class TestOnMacOS:
    """On macOS, fsync leaves bytes in the cache of the drive."""

    @pytest.fixture(autouse=True)
    def _calls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[object] = []
        self.error = 0
        fsync = os.fsync

        def control(fd: int, command: int) -> int:
            self.calls.append(command)
            if self.error:
                raise OSError(self.error, os.strerror(self.error))
            return 0

        def sync(fd: int) -> None:
            self.calls.append("fsync")
            fsync(fd)

        monkeypatch.setattr(disk, "_FULL_SYNC", 51)
        monkeypatch.setattr(fcntl, "fcntl", control)
        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(os, "fdatasync", sync, raising=False)

    def test_what_is_saved_reaches_the_drive(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "a.blp", ROWS)
        assert self.calls == [51, 51]  # the file and its folder

    def test_a_file_system_without_it_is_synced_as_usual(self, tmp_path: Path) -> None:
        self.error = errno.ENOTSUP
        bp.save(tmp_path / "a.blp", ROWS)
        assert self.calls == [51, "fsync"] * 2

    def test_another_error_is_reported(self, tmp_path: Path) -> None:
        self.error = errno.EIO
        with pytest.raises(OSError, match=r"a\.blp"):
            bp.save(tmp_path / "a.blp", ROWS)


def test_windows_is_refused_on_import() -> None:
    program = "import sys; sys.platform = 'win32'; import bloscpack"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert b"ImportError: bloscpack runs on Linux and macOS" in done.stderr


def has_holes(path: Path) -> bool:
    with open(path, "wb") as file:
        file.truncate(1 << 30)
        return data_runs(file.fileno(), 10) == []


SPARSE = 1 << 42
PROBE = """
import bloscpack as bp
print(bp.recover("a.blp", "b.blp").saved)
print(bp.recover("s.blp", "t.blp").saved)
with bp.frames.open("s.blp", "a") as store:
    store.append("y", store["x"][:])
print(len(bp.frames.open("s.blp")))
"""


def limit_time() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


def test_terabytes_of_holes_are_passed_over(tmp_path: Path) -> None:
    if not has_holes(tmp_path / "probe"):
        pytest.skip("the file system has no holes")
    bp.save(tmp_path / "a.blp", ROWS, chunks=100)
    with bp.frames.create(tmp_path / "s.blp") as store:
        store.append("x", CLIP)
    for name in ("a.blp", "s.blp"):
        with open(tmp_path / name, "r+b") as file:
            if name == "a.blp":
                file.seek(os.path.getsize(tmp_path / name) // 2)
                file.write(b"\xff" * 300)
            file.truncate(SPARSE)
    run = [sys.executable, "-c", PROBE]
    done = subprocess.run(
        run, capture_output=True, text=True, cwd=tmp_path, preexec_fn=limit_time, check=False
    )
    answers = done.stdout.split()
    assert answers[1:] == ["1", "2"], done.stderr
    assert 0 < int(answers[0]) < 30
    assert os.path.getsize(tmp_path / "s.blp") < 1 << 20


class TestFolderThatIsSwapped:
    """Another program creates links in the folder while files are written to it."""

    def test_a_folder_replaced_by_a_link_does_not_lead_out(self, tmp_path: Path) -> None:
        out, outside = tmp_path / "out", tmp_path / "outside"
        outside.mkdir()
        folder = Folder(out)
        folder.write("a/x", b"1")
        (out / "a").rename(out / "b")
        (out / "a").symlink_to(outside)
        with pytest.raises(FileExistsError, match="a/y"):
            folder.write("a/y", b"2")
        assert os.listdir(outside) == []

    def test_the_folder_itself_replaced_is_not_followed(self, tmp_path: Path) -> None:
        out, outside = tmp_path / "out", tmp_path / "outside"
        outside.mkdir()
        folder = Folder(out)
        out.rename(tmp_path / "moved")
        out.symlink_to(outside)
        folder.write("x", b"1")
        assert os.listdir(outside) == []
        assert os.listdir(tmp_path / "moved") == ["x"]

    def test_a_file_replaced_by_a_link_is_not_written_again(self, tmp_path: Path) -> None:
        (tmp_path / "precious").write_bytes(b"precious")
        folder = Folder(tmp_path / "out")
        fd = folder.create("x")
        made = disk.identity(fd)
        os.close(fd)
        os.close(folder.reopen("x", made))
        (tmp_path / "out/x").unlink()
        (tmp_path / "out/x").symlink_to(tmp_path / "precious")
        with pytest.raises(OSError, match="out/x"):
            folder.reopen("x", made)
        (tmp_path / "out/x").unlink()
        os.link(tmp_path / "precious", tmp_path / "out/x")
        with pytest.raises(OSError, match="was replaced while it was being written"):
            folder.reopen("x", made)
        assert (tmp_path / "precious").read_bytes() == b"precious"
