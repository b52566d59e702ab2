"""Names of files for names that were stored: each inside a folder, and no two the same.

What is stored can be anything: ``../``, an absolute path, control characters, names that systems
keep for devices, half a megabyte, the same name twice. Parts between ``/`` become folders. What
cannot be in a name everywhere becomes ``_``, also where it would mean something (``..``, a dot or a
minus in front), and names that are alike but for their case get numbers: all systems give the same.
"""

import unicodedata
from collections.abc import Iterable

# Not allowed in names on Windows; ``/`` separates parts.
_REFUSED = frozenset('<>:"|?*\\')
# Hidden files, options of commands, home folders.
_NOT_FIRST = "._-~"
# Names of devices on Windows, whatever suffix they have.
_DEVICES = frozenset(
    (
        *("con", "prn", "aux", "nul", "clock$", "conin$", "conout$"),
        *(f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"),
    )
)
# Bytes of UTF-8 of a part, and of all; systems allow 255 and about 4096, and less where encrypted.
_MAX_PART_NBYTES = 120
_MAX_NBYTES = 900
# What says how a picture is stored, which is not so any more.
_PICTURE_SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jp2", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp"),
        *(".avif", ".heic", ".heif", ".ppm", ".pgm", ".mp4"),
    )
)


class FileNames:
    """Names of files that were given out.

    Parameters
    ----------
    suffixes : iterable of str
        That they may have, like ``".png"``.
    taken : iterable of str
        Names of other files in the folder, in whose suffixes no name of a folder will end either.

    Notes
    -----
    Every name that was given out is kept.
    """

    def __init__(self, suffixes: Iterable[str], taken: Iterable[str] = ()) -> None:
        self._taken = {_key(name) for name in taken}
        # A folder has no suffix that a file has: so it is never in the place of a file.
        self._suffixes = (*suffixes, *(name[name.rindex(".") :] for name in taken if "." in name))
        self._numbers: dict[str, int] = {}

    def add(self, stored: str | None, index: int, suffix: str) -> str:
        """Return a name for what was stored as `stored`, or as number `index` without a name.

        Parameters
        ----------
        stored : str or None
            Any text.
        index : int
            What it is called if there is none.
        suffix : str
            One of the suffixes.

        Returns
        -------
        str
            A relative path, with ``/``: at most 1024 bytes of UTF-8, printable, of parts that are
            names everywhere.
        """
        parts = [part for part in (stored or "").split("/") if part not in ("", ".")]
        folders = [self._folder(part) for part in parts[:-1]]
        last = _without_suffix(_sound(parts[-1])) if parts else f"{index:06d}"
        while folders and len("/".join((*folders, last)).encode()) > _MAX_NBYTES:
            del folders[0]
        path = "/".join((*folders, last))
        name = path + suffix
        key = _key(name)
        while key in self._taken:
            self._numbers[_key(path)] = number = self._numbers.get(_key(path), 1) + 1
            name = f"{path}-{number}{suffix}"
            key = _key(name)
        self._taken.add(key)
        return name

    def _folder(self, part: str) -> str:
        sound = _sound(part)
        return f"{sound}_" if _key(sound).endswith(self._suffixes) else sound


def _key(name: str) -> str:
    """Return what is equal for names that some file system takes for one."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def _sound(part: str) -> str:
    """Return a part as a name that it can have everywhere."""
    text = "".join("_" if not c.isprintable() or c in _REFUSED else c for c in _cut(part))
    if text[0] in _NOT_FIRST:
        text = "_" + text[1:]
    kept = text.rstrip(". ")
    text = kept + "_" * (len(text) - len(kept))
    if text.partition(".")[0].rstrip(" ").casefold() in _DEVICES:
        text = "_" + text
    return text


def _cut(part: str) -> str:
    """Return a part that is too long without its middle."""
    # Each character has at least a byte: what is surely too much is not looked at.
    head, tail = part[:_MAX_PART_NBYTES], part[-_MAX_PART_NBYTES:]
    if len(part) <= _MAX_PART_NBYTES and _nbytes(part) <= _MAX_PART_NBYTES:
        return part
    while _nbytes(head) > _MAX_PART_NBYTES * 3 // 4:
        head = head[:-1]
    while _nbytes(tail) > _MAX_PART_NBYTES // 4 - 1:
        tail = tail[1:]
    return f"{head}_{tail}"


def _nbytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _without_suffix(name: str) -> str:
    """Return a name without the suffix of a picture."""
    stem, dot, suffix = name.rpartition(".")
    if stem and f"{dot}{suffix}".casefold() in _PICTURE_SUFFIXES:
        # What is last now, a dot or a blank, was not before, and a device was none.
        return _sound(stem)
    return name
