"""Reading an open file by position, from many threads and in forked children.

``pread`` leaves the position of the file alone, which a forked child shares with its parent.
"""

import errno
import os


class Descriptor:
    """A file descriptor that is closed when its last user has let it go.

    A thread that reads holds a reference meanwhile. So another thread may close the file: its
    number is not given to another file before the read has ended.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    # Bound here: while the interpreter ends, modules are emptied before objects.
    def __del__(self, close=os.close) -> None:  # type: ignore[no-untyped-def]
        close(self.number)


def pread(number: int, nbytes: int, offset: int) -> bytes:
    """Return `nbytes` from `offset`, less only at the end; a read cut short is continued."""
    data = os.pread(number, nbytes, offset)
    return data if len(data) == nbytes else pread_more(number, nbytes, offset, data)


def pread_more(number: int, nbytes: int, offset: int, data: bytes) -> bytes:
    """Return what `pread` does, `data` being what a first read gave."""
    parts = []
    missing = nbytes
    while data:
        parts.append(data)
        missing -= len(data)
        data = os.pread(number, missing, offset + nbytes - missing) if missing else b""
    return b"".join(parts)


def pread_into(number: int, view: memoryview, offset: int) -> int:
    """Fill `view` from `offset` and return how much of it was, less only at the end."""
    done = 0
    while done < len(view):
        if hasattr(os, "preadv"):
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

    Of more runs than `most` the last one reaches to the end.
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
