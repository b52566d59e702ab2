"""Safe, unique file names for stored names; every name stays inside its folder.

A stored name can be anything: ``../``, an absolute path, control characters, a reserved device
name, half a megabyte, a duplicate. Parts between ``/`` become folders. Characters that some system
refuses become ``_``, and so do those with a special meaning (``..``, a leading dot or minus). Names
that differ in case only get numbers. The result is the same on every operating system. Pure:
texts in, texts out.
"""

import unicodedata
from collections.abc import Iterable

# Not allowed in names on Windows. ``/`` is not listed, as it separates parts.
_REFUSED = frozenset('<>:"|?*\\')
# Leading characters of hidden files, command options and home folders.
_NOT_FIRST = "._-~"
# Device names on Windows, reserved with any suffix.
_DEVICES = frozenset(
    (
        *("con", "prn", "aux", "nul", "clock$", "conin$", "conout$"),
        *(f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"),
    )
)
# Limits in bytes of UTF-8, of one part and of a path. Systems allow 255 and about 4096, and less
# on encrypted file systems.
_MAX_PART_NBYTES = 120
_MAX_NBYTES = 900
# Suffixes of pictures, removed because the extracted file has another format.
_PICTURE_SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jp2", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp"),
        *(".avif", ".heic", ".heif", ".ppm", ".pgm", ".mp4"),
    )
)


class FileNames:
    """Names of files in a folder, each handed out once and held in memory.

    They have one of `suffixes`, such as ``".png"``. `taken` are names of other files in the folder.
    No folder name ends in one of their suffixes either.
    """

    def __init__(self, suffixes: Iterable[str], taken: Iterable[str] = ()) -> None:
        self._taken = {_key(name) for name in taken}
        # Folder names never end in a file's suffix, so a folder cannot take the place of a file.
        self._suffixes = (*suffixes, *(name[name.rindex(".") :] for name in taken if "." in name))
        self._numbers: dict[str, int] = {}

    def add(self, stored: str | None, index: int, suffix: str) -> str:
        """Return a file name for the stored name `stored`, or for number `index` if it is empty.

        A relative path with ``/``: printable, at most 1024 bytes of UTF-8, and each part valid on
        every operating system. `suffix` is one of the suffixes.
        """
        parts = [part for part in (stored or "").split("/") if part not in ("", ".")]
        folders = [self._folder(part) for part in parts[:-1]]
        last = _without_suffix(_portable(parts[-1])) if parts else f"{index:06d}"
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
        portable = _portable(part)
        return f"{portable}_" if _key(portable).endswith(self._suffixes) else portable


def _key(name: str) -> str:
    """Return a key that is equal for names that some file system treats as the same."""
    # Canonical caseless matching (Unicode, D145): casefold may undo the first normalization.
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())


def _portable(part: str) -> str:
    text = "".join("_" if not c.isprintable() or c in _REFUSED else c for c in _shorten(part))
    if text[0] in _NOT_FIRST:
        text = "_" + text[1:]
    kept = text.rstrip(". ")
    text = kept + "_" * (len(text) - len(kept))
    if text.partition(".")[0].rstrip(" ").casefold() in _DEVICES:
        text = "_" + text
    return text


def _shorten(part: str) -> str:
    """Return the part, with its middle removed if it is too long."""
    # A character takes at least one byte, so longer text is cut before it is encoded.
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
    stem, dot, suffix = name.rpartition(".")
    if stem and f"{dot}{suffix}".casefold() in _PICTURE_SUFFIXES:
        # Without the suffix, the name may end in a dot or blank, or be a device name.
        return _portable(stem)
    return name
