"""Advisory locks: one writer to a file at a time.

A lock belongs to the open file, not to the process: it goes when the file is closed by everyone
who has it, a killed process included. Readers take none.
"""

import os
import sys

if sys.platform == "win32":
    import msvcrt

    # Locked bytes cannot be read on Windows: one far behind the end of any file stands for it.
    _POSITION = 1 << 62

    def try_lock(fd: int, *, shared: bool = False) -> bool:
        """Lock an open file and return whether that was possible at once."""
        os.lseek(fd, _POSITION, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Give a lock back, for all who share the open file."""
        os.lseek(fd, _POSITION, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_lock(fd: int, *, shared: bool = False) -> bool:
        """Lock an open file and return whether that was possible at once.

        A shared lock keeps out exclusive ones only.
        """
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Give a lock back, for all who share the open file."""
        fcntl.flock(fd, fcntl.LOCK_UN)
