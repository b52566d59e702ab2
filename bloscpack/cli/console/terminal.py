"""Abilities of the terminal of standard output: its size, its colours, and sixel pictures."""

import os
import re
import select
import shutil
import sys
import time

_DA1 = b"\x1b[c"  # primary device attributes: the answer lists 4 if there is sixel
_ANSWER = re.compile(rb"\x1b\[\?([0-9;]{1,64})c")
_WAIT_SECONDS = 0.2
_MAX_ANSWER = 1024


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def size() -> tuple[int, int]:
    """Return columns and lines of the terminal; 80 and 24 if it is unknown."""
    found = shutil.get_terminal_size()
    return max(1, found.columns), max(1, found.lines)


def colors() -> int:
    """Return the number of colours of the terminal; 0 if nothing may be coloured."""
    if not is_terminal() or os.environ.get("NO_COLOR") or os.environ.get("TERM") in (None, "dumb"):
        return 0
    return 1 << 24 if os.environ.get("COLORTERM") in ("truecolor", "24bit") else 256


def has_sixel() -> bool:
    """Return whether the terminal says that it draws sixel pictures, within 0.2 seconds.

    A terminal is asked only if it is both standard input and output; its echo is off for that time.
    """
    if not is_terminal() or sys.stdin is None or not sys.stdin.isatty():
        return False
    import termios  # on use: only for terminals
    import tty

    fd = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(fd)
    except termios.error:
        return False
    try:
        tty.setcbreak(fd)  # an answer does not end in a newline, and would be shown
        sys.stdout.flush()  # what was printed stands before the question
        os.write(sys.stdout.fileno(), _DA1)
        match = _ANSWER.search(_read_answer(fd))
    except (OSError, termios.error):
        return False
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
    return match is not None and b"4" in match[1].split(b";")


def _read_answer(fd: int) -> bytes:
    """Return what the terminal answers until it is whole or the time is over."""
    answer, end = b"", time.monotonic() + _WAIT_SECONDS
    while len(answer) < _MAX_ANSWER and not _ANSWER.search(answer):
        rest = end - time.monotonic()
        if rest <= 0 or not select.select([fd], [], [], rest)[0]:
            break
        read = os.read(fd, 64)
        if not read:
            break
        answer += read
    return answer


def is_utf8() -> bool:
    """Return whether standard output takes any character."""
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return encoding.lower().replace("-", "") == "utf8"
