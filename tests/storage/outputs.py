"""Every writer on every kind of output: a program that writes what is wrong, as JSON.

Arguments: the number of the user, 0 for root, and "core" or "all". It makes its folders and devices
as the user that starts it, uses each writer once, so that every module is loaded, and then becomes
the other user. Device nodes are made in its own folder: a fault would replace the real ones.
"""

import errno
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack import benzina, vrs
from bloscpack.cli.main import main as command

Writers = dict[str, tuple[Callable[[str], Any], bool]]

OTHER_USER, OTHER_GROUP = 1234, 2345
ROWS = np.random.default_rng(1).random((400, 30))
PICTURES = np.random.default_rng(2).integers(0, 255, (6, 64, 64), "u1")
LIMIT = 2000  # bytes; every output is larger


def rows_writer(path: str) -> None:
    with bp.Writer(path, dtype=ROWS.dtype, shape=(None, 30)) as writer:
        writer.append(ROWS)


def parts(path: str) -> None:
    with bp.parts(path, shape=ROWS.shape, dtype=ROWS.dtype) as job:
        job.commit([job.write(0, ROWS)])


def frames(path: str) -> None:
    with bp.frames.create(path, overwrite=True) as store:
        store.append("walk", PICTURES)


def recording(path: str) -> None:
    with vrs.create(path, overwrite=True, compression="none") as made:
        made.stream(100).write_payload("data", 1.0, bytes(5000))


def pictures(path: str) -> None:
    with benzina.Writer(path, overwrite=True, crf=20) as writer:
        writer.add(PICTURES[0])


def clip(method: str, path: str) -> None:
    with bp.frames.open("clips.blp") as store:
        getattr(store["walk"], method)(path, overwrite=True)


def sheet(path: str) -> None:
    with bp.frames.open("clips.blp") as store:
        store["walk"].sheet().save(path)


def convert(source: str, to: str, path: str) -> None:
    bp.convert(source, path, to=to, overwrite=True)


def dask_save(path: str) -> None:
    from bloscpack.integrations import dask  # it takes long to load, and is not always there

    dask.save(dask.from_bloscpack("rows.blp"), path)


def ingest(path: str) -> None:
    bp.frames.ingest(bp.frames.open("clips.blp"), path, workers=1, overwrite=True)


def blpk(*argv: str) -> Callable[[str], None]:
    def run(path: str) -> None:
        code = command(["-q", "-f", *(each.replace("OUT", path) for each in argv)])
        if code:
            raise OSError(f"exit code {code}")

    return run


# Writers that need a file they can read and change, not a stream.
IN_PLACE: dict[str, Callable[[str], Any]] = {
    "Writer": rows_writer,
    "parts": parts,
    "frames.create": frames,
    "vrs.create": recording,
    "vrs.copy": lambda path: vrs.copy("rec.vrs", path, overwrite=True),
    "vrs.merge": lambda path: vrs.merge(["rec.vrs", "rec.vrs"], path, overwrite=True),
}
CORE: dict[str, Callable[[str], Any]] = {
    "save": lambda path: bp.save(path, ROWS),
    "savez": lambda path: bp.savez(path, a=ROWS),
    "pack_ndarray_to_file": lambda path: bp.pack_ndarray_to_file(ROWS, path),
    "convert to array": partial(convert, "rows.blp", "array"),
    "convert to npy": partial(convert, "rows.blp", "npy"),
    "convert to frames": partial(convert, "clips.blp", "frames"),
    "recover": lambda path: bp.recover("rows.blp", path),
    "blpk compress": blpk("compress", "plain", "OUT"),
    "blpk convert": blpk("convert", "--to", "npy", "rows.blp", "OUT"),
}
MORE: dict[str, Callable[[str], Any]] = {
    "pack_bytes_to_file": lambda path: bp.pack_bytes_to_file(ROWS.tobytes(), path),
    "pack_file_to_file": lambda path: bp.pack_file_to_file("plain", path),
    "unpack_file_from_file": lambda path: bp.unpack_file_from_file("plain.blp", path),
    **{f"convert to {to}": partial(convert, "rows.blp", to) for to in ("v3", "archive", "npz")},
    **{f"convert to {to}": partial(convert, "rows.blp", to) for to in ("hdf5", "netcdf")},
    "convert to tiff": partial(convert, "picture.blp", "tiff"),
    **{
        f"convert to {to}": partial(convert, "clips.blp", to)
        for to in ("webdataset", "mp4", "gif", "benzina")
    },
    "convert to vrs": partial(convert, "rec.blp", "vrs"),
    "convert from vrs": partial(convert, "rec.vrs", "frames"),
    "recover a store": lambda path: bp.recover("clips.blp", path),
    "recover an archive": lambda path: bp.recover("archive.blp", path),
    "convert to zarr.zip": partial(convert, "rows.blp", "zarr"),
    "benzina.Writer": pictures,
    "to_mp4": partial(clip, "to_mp4"),
    "to_gif": partial(clip, "to_gif"),
    "sheet": sheet,
    "blpk decompress": blpk("decompress", "plain.blp", "OUT"),
    "blpk recover": blpk("recover", "rows.blp", "OUT"),
    "blpk cat": blpk("cat", "--npy", "rows.blp", "-o", "OUT"),
    "blpk cat of bytes": blpk("cat", "rows.blp", "-o", "OUT"),
    "blpk cat of text": blpk("cat", "--text", "rows.blp", "-o", "OUT"),
    "blpk cat of a picture": blpk("cat", "picture.blp", "-o", "OUT"),
    "blpk bzna pack": blpk("bzna", "pack", "--preset", "ultrafast", "pictures", "OUT"),
    "blpk sheet": blpk("sheet", "clips.blp", "OUT"),
    "blpk export": blpk("export", "--kerchunk", "many.blp", "-o", "OUT"),
}
MORE_IN_PLACE: dict[str, Callable[[str], Any]] = {
    "dask.save": dask_save,
    "ingest": ingest,
    "blpk frames create": blpk("frames", "create", "-w", "1", "pictures", "OUT"),
    "blpk vrs merge": blpk("vrs", "merge", "rec.vrs", "rec.vrs", "OUT"),
    "recover a recording": lambda path: bp.recover("rec.vrs", path),
    "blpk vrs copy": blpk("vrs", "copy", "rec.vrs", "OUT"),
}


FOLDERS: dict[str, Callable[[str], Any]] = {
    "convert to zarr": partial(convert, "rows.blp", "zarr"),
    "convert to gulp": lambda path: bp.convert("clips.blp", path, to="gulp", quality=90),
    "convert to images": partial(convert, "clips.blp", "images"),
    "blpk view": blpk("view", "--export", "OUT"),
    "blpk vrs extract": blpk("vrs", "extract", "rec.vrs", "OUT"),
    "blpk bzna extract": blpk("bzna", "extract", "pictures.bzna", "OUT"),
    "blpk bzna extract --as": blpk("bzna", "extract", "--as", "png", "pictures.bzna", "OUT"),
    "blpk gulp ingest": blpk(
        *("gulp", "ingest", "image-folder", "--workers", "1", "--extension", ".png"),
        *("pictures", "OUT"),
    ),
}
SUFFIXES = {
    "convert to zarr.zip": ".zarr.zip",
    "blpk cat of a picture": ".png",
    "blpk sheet": ".png",
}


def make_sources() -> None:
    bp.save("rows.blp", ROWS)
    bp.save("many.blp", ROWS, chunks=1)
    bp.save("picture.blp", PICTURES[0])
    bp.savez("archive.blp", a=ROWS)
    frames("clips.blp")
    bp.convert("clips.blp", "pictures", to="images")
    recording("rec.vrs")
    with suppress(ImportError):  # the writers that read it are then left out, too
        pictures("pictures.bzna")
    bp.convert("rec.vrs", "rec.blp")
    Path("plain").write_bytes(ROWS.tobytes())
    bp.pack_file_to_file("plain", "plain.blp")
    for name in os.listdir():
        os.chmod(name, 0o755 if os.path.isdir(name) else 0o644)


class Outputs:
    """The outputs, in a folder of their own; a method returns what is wrong with one, or ""."""

    def __init__(
        self, folder: str, write: Callable[[str], Any], *, streams: bool, suffix: str = ""
    ) -> None:
        self._folder = folder
        self._write = write
        self._streams = streams
        self._suffix = suffix

    def path(self, name: str) -> str:
        return os.path.join(self._folder, name + self._suffix)

    def failure(self, path: str) -> OSError | None:
        """Write, and return the error, if it is one of the system."""
        try:
            self._write(path)
        except OSError as err:
            return err
        return None

    def old(self, name: str, mode: int = 0o644) -> str:
        path = self.path(name)
        Path(path).write_text("old")
        os.chmod(path, mode)
        return path

    def device(self) -> str:
        return self._node("null", None)

    def full_device(self) -> str:
        return self._node("full", errno.ENOSPC)

    def _node(self, name: str, expected: int | None) -> str:
        path = self.path(name)
        err = self.failure(path)
        if not stat.S_ISCHR(os.lstat(path).st_mode):
            return "the device was replaced"
        if not self._streams:
            return "" if err else "written, although it is not a file"
        is_expected = err is None if expected is None else err is not None
        return "" if is_expected else f"got {err!r}"

    def pipe(self) -> str:
        path = self.path("pipe")
        with suppress(FileExistsError):
            os.mkfifo(path)
        got = []
        reader = threading.Thread(target=lambda: got.append(Path(path).read_bytes()))
        if self._streams:
            reader.start()
        err = self.failure(path)
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            return "the pipe was replaced"
        if not self._streams:
            return "" if err else "written, although it is not a file"
        if err:
            return f"got {err!r}"
        reader.join()
        return "" if len(got[0]) > LIMIT else f"{len(got[0])} bytes arrived"

    def link(self) -> str:
        path, target = self.path("link"), os.path.join(self._folder, "target")
        Path(target).write_text("old")
        os.symlink("target", path)
        self._write(path)
        if not os.path.islink(path):
            return "the link was replaced"
        return "" if os.path.getsize(target) > LIMIT else "the target was not written"

    def private_file(self) -> str:
        path = self.old("private", 0o600)
        with suppress(PermissionError):
            os.chown(path, OTHER_USER, OTHER_GROUP)
        before = os.stat(path)
        self._write(path)
        after = os.stat(path)
        if after.st_size < LIMIT:
            return "not written"
        same = [(each.st_mode, each.st_uid, each.st_gid) for each in (before, after)]
        return "" if same[0] == same[1] else f"mode and owner {same}"

    def folder_that_cannot_be_written(self) -> str:
        folder = os.path.join(self._folder, "read-only")
        os.mkdir(folder)
        path = self.path("read-only/old")
        Path(path).write_text("old")
        os.chmod(folder, 0o555)
        try:
            err = self.failure(path)
            if os.geteuid() == 0:
                return ""
            return self._kept(path, err)
        finally:
            os.chmod(folder, 0o755)

    def folder_with_a_group(self) -> str:
        """The folder is made by root, before this program becomes another user."""
        path = self.path("group/new")
        self._write(path)
        found = os.stat(path)
        remove(path)
        return "" if found.st_gid == os.stat(os.path.dirname(path)).st_gid else f"{found}"

    def other_file_system(self) -> str:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            target, path = Path(folder, "target"), self.path("elsewhere")
            target.write_text("old")
            os.symlink(target, path)
            self._write(path)
            size, names = target.stat().st_size, os.listdir(folder)
        return "" if (size > LIMIT, names) == (True, ["target"]) else f"{size}, {names}"

    def limit_of_size(self) -> str:
        path = self.old("limited")
        with limited():
            err = self.failure(path)
        return self._kept(path, err)

    def full_file_system(self) -> str:
        path = self.old("small/old")
        filler = Path(path).with_name("filler")
        with suppress(OSError), open(filler, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        try:
            err = self.failure(path)
            if err is not None and err.errno not in (errno.ENOSPC, None):
                return f"got {err!r}"
            return self._kept(path, err)
        finally:
            filler.unlink()
            os.unlink(path)

    def name_with_a_slash(self) -> str:
        path = self.path("none")
        err = self.failure(f"{path}/")
        if err is None or os.path.lexists(path):
            return "written"
        return "" if "slash" in str(err) or "exit code" in str(err) else f"got {err!r}"

    def _kept(self, path: str, err: OSError | None) -> str:
        if err is None:
            return "no error"
        folder, name = os.path.split(path)
        left = [each for each in os.listdir(folder) if each.startswith((".", f"{name}_"))]
        if left:
            return f"left: {left}"
        # A recording exists from its beginning.
        is_kept = self._write is recording or Path(path).read_bytes() == b"old"
        return "" if is_kept else "the old file is gone"


class FolderOutputs(Outputs):
    """The same for writers of a folder, which refuse what is not an empty folder."""

    def pipe(self) -> str:
        path = self.path("pipe")
        os.mkfifo(path)
        err = self.failure(path)
        is_kept = stat.S_ISFIFO(os.lstat(path).st_mode)
        return "" if err and is_kept else f"got {err!r}, kept: {is_kept}"

    def link(self) -> str:
        target, path = self.path("target"), self.path("link")
        os.mkdir(target)
        os.symlink(target, path)
        self._write(path)
        if not os.path.islink(path):
            return "the link was replaced"
        return "" if os.listdir(target) else "the target was not written"

    def private_file(self) -> str:
        """Try a file, which is refused, and a private folder."""
        path = self.old("old")
        err = self.failure(path)
        if err is None or Path(path).read_text() != "old":
            return f"a file was replaced, {err!r}"
        path = self.path("private")
        os.mkdir(path, 0o700)
        self._write(path)
        mode = stat.S_IMODE(os.stat(path).st_mode)
        return "" if mode == 0o700 and os.listdir(path) else f"mode {mode:o}"

    def folder_that_cannot_be_written(self) -> str:
        folder = self.path("read-only")
        os.mkdir(folder, 0o555)
        err = self.failure(os.path.join(folder, "new"))
        return "" if err or os.geteuid() == 0 else "no error"

    def other_file_system(self) -> str:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            target, path = os.path.join(folder, "target"), self.path("elsewhere")
            os.mkdir(target)
            os.symlink(target, path)
            self._write(path)
            written, names = os.listdir(target), os.listdir(folder)
        return "" if written and names == ["target"] else f"{written}, {names}"

    def limit_of_size(self) -> str:
        with limited(100):
            return "" if self.failure(self.path("limited")) else "no error"

    def full_file_system(self) -> str:
        path = self.path("small/new")
        filler = Path(path).with_name("filler")
        with suppress(OSError), open(filler, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        err = self.failure(path)
        filler.unlink()
        remove(path)
        left = os.listdir(os.path.dirname(path))
        return "" if err and err.errno in (errno.ENOSPC, None) and not left else f"{err!r}, {left}"

    def name_with_a_slash(self) -> str:
        path = self.path("none")
        self._write(f"{path}/")
        return "" if os.listdir(path) else "not written"


OUTPUTS = (
    "device", "full_device", "pipe", "link", "private_file", "folder_that_cannot_be_written",
    "folder_with_a_group", "other_file_system", "limit_of_size", "full_file_system",
    "name_with_a_slash",
)  # fmt: skip


@contextmanager
def limited(nbytes: int = LIMIT) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def prepare(folder: str) -> set[str]:
    """Make what only root may make; return the outputs that cannot be tried."""
    missing: set[str] = set()
    os.chmod(folder, 0o777)
    for suffix, (name, minor) in product(("", *SUFFIXES.values()), (("null", 3), ("full", 7))):
        path = os.path.join(folder, name + suffix)
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
            os.chmod(path, 0o666)
            with open(path, "wb"):
                pass
        except OSError:
            missing |= {"device", "full_device"}
    group = os.path.join(folder, "group")
    os.mkdir(group)
    with suppress(PermissionError):
        os.chown(group, -1, OTHER_GROUP)
    os.chmod(group, 0o2777)
    small = os.path.join(folder, "small")
    os.mkdir(small)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0777", "tmpfs", small]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        missing.add("full_file_system")
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(folder).st_dev:
        missing.add("other_file_system")
    return missing


def use_each(writers: Writers, work: str) -> Writers:
    """Use each writer once, which loads every module; return those whose libraries are there."""
    usable = {}
    for name, (write, streams) in writers.items():
        try:
            write(os.path.join(work, "first" + SUFFIXES.get(name, "")))
        except ImportError:
            continue
        remove(os.path.join(work, "first" + SUFFIXES.get(name, "")))
        usable[name] = write, streams
    return usable


def problems_of(writers: Writers, work: str, outputs: list[str]) -> Iterator[tuple[str, str]]:
    before = set(os.listdir(work))
    for name, (write, streams) in writers.items():
        for output in outputs:
            try:
                outputs_of = FolderOutputs if name in FOLDERS else Outputs
                tried = outputs_of(work, write, streams=streams, suffix=SUFFIXES.get(name, ""))
                found = getattr(tried, output)()
            except Exception:
                found = traceback.format_exc(limit=-3)
            if name == "blpk frames create" and "exit code 2" in found:
                found = ""  # even with -f it refuses an old file that is not a store
            if left := [each for each in os.listdir(work) if each.startswith(".")]:
                found += f" left: {left}"
            if found:
                yield f"{name}, {output}", found
            for each in set(os.listdir(work)) - before:
                remove(os.path.join(work, each))


def run(writers: Writers, user: int) -> None:
    work = tempfile.mkdtemp()
    os.chmod(work, 0o777)
    os.chdir(work)
    found: dict[str, str] = {}
    usable: Writers = {}
    try:
        make_sources()
        # The other user may not write to the folder of temporary files of this one.
        tempfile.tempdir = os.environ["TMPDIR"] = os.path.join(work, "temporary")
        os.mkdir(tempfile.tempdir)
        os.chmod(tempfile.tempdir, 0o777)
        missing = prepare(work)
        usable = use_each(writers, work)
        if user != os.getuid():
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        found = dict(problems_of(usable, work, [each for each in OUTPUTS if each not in missing]))
    finally:
        document = {"work": work, "tried": len(usable), "missing": [*missing], "problems": found}
        sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    chosen = {name: (write, True) for name, write in CORE.items()}
    chosen |= {name: (write, False) for name, write in IN_PLACE.items()}
    if sys.argv[2] == "all":
        chosen |= {name: (write, True) for name, write in MORE.items()}
        chosen |= {name: (write, False) for name, write in (MORE_IN_PLACE | FOLDERS).items()}
    run(chosen, int(sys.argv[1]))
