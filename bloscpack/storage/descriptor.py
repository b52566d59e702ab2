"""Positional reads of an open file, from many threads and in forked children.

``pread`` does not move the file position, which a forked child shares with its parent.
"""

import errno
import os


class Descriptor(int):
    """File descriptor that is closed when the last reference to it is dropped.

    A thread holds a reference while it reads. Another thread may therefore close the file: the
    system does not reuse the number before the read has ended.
    """

    __slots__ = ()

    # Bound as a default: at interpreter exit, modules are cleared before objects are deleted.
    def __del__(self, close=os.close) -> None:  # type: ignore[no-untyped-def]
        close(self)


def pread(number: int, nbytes: int, offset: int) -> bytes:
    """Return `nbytes` from `offset`, fewer only at the end; continue after a short read."""
    data = os.pread(number, nbytes, offset)
    return data if len(data) == nbytes else pread_more(number, nbytes, offset, data)


def pread_more(number: int, nbytes: int, offset: int, data: bytes) -> bytes:
    """Complete a short `pread`; `data` is the result of the first read.

    Linux returns at most 2 GiB from a call.
    """
    parts = []
    missing = nbytes
    while data:
        parts.append(data)
        missing -= len(data)
        data = os.pread(number, missing, offset + nbytes - missing) if missing else b""
    return b"".join(parts)


def pread_into(number: int, view: memoryview, offset: int) -> int:
    """Fill `view` from `offset`; return the bytes read, fewer only at the end of the file."""
    done = 0
    while done < len(view):
        if hasattr(os, "preadv"):  # macOS has it since version 11
            step = os.preadv(number, [view[done:]], offset + done)
        else:
            data = os.pread(number, len(view) - done, offset + done)
            step = len(data)
            view[done : done + step] = data
        if not step:
            break
        done += step
    return done


def data_runs(number: int, most: int) -> list[tuple[int, int]] | None:
    """Return the (start, stop) of each run of data; None if the file system does not report them.

    If there are more than `most` runs, the last one extends to the end.
    """
    size = os.fstat(number).st_size
    runs: list[tuple[int, int]] = []
    position = 0
    try:
        while position < size:
            start = os.lseek(number, position, os.SEEK_DATA)
            position = os.lseek(number, start, os.SEEK_HOLE)
            if len(runs) == most:
                position = size
            runs.append((start, position))
    except OSError as err:
        if err.errno != errno.ENXIO:  # ENXIO: no more data
            return None
    return runs
