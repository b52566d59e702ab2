"""The objects of the parts of one file behind a URL, in folders beside it, and the end of them.

A folder is there while an object in it says so: who makes a part asks for that object before and
after. Whoever clears the folder removes that first, and lists the others then. So a part that is
made at the same time is on the list, or its maker finds the folder gone and removes the part; on
any store that lists what was written before. S3 has no folders: what is in one are the keys that
begin with its name.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

from ...exceptions import notice
from ..url import shown
from .backends import tag_of
from .client import client, kind_of
from .retry import has_folders, once, run
from .s3 import Bucket

# Says that the folder is there.
_BEGUN = "begun"
# The beginning of the names of objects that stand for unfinished uploads of the file.
_UPLOAD = "upload-"
# What tells objects of the same content apart, by file system.
_TIME_KEYS = ("mtime", "created", "updated", "last_modified", "LastModified", "generation", "ino")


class Stat(NamedTuple):
    """What is told of an object.

    Attributes
    ----------
    size : int
        In bytes.
    tag : str
        Version, as reading it tells.
    time : str
        When it was made, as far as that is told.
    """

    size: int
    tag: str
    time: str


def stat(url: str, options: dict[str, Any]) -> Stat:
    """Return what is told of an object, by one request.

    Raises
    ------
    FileNotFoundError
        There is none.
    """
    filesystem, path = client(url, options)
    if is_s3(filesystem):
        found = Bucket(url, options).head()
        time = f"{found.get('LastModified', '')} {found.get('VersionId', '')}"
        return Stat(int(found["ContentLength"]), str(found.get("ETag") or ""), time)
    filesystem.invalidate_cache()
    info = run(once(filesystem, shown(url), "info", path))
    if info.get("type") == "directory":
        raise IsADirectoryError(21, "is a folder", shown(url))
    time = " ".join(str(info[key]) for key in _TIME_KEYS if info.get(key) is not None)
    return Stat(int(info["size"]), tag_of(info), time)


def remove(url: str, options: dict[str, Any]) -> None:
    """Remove an object, which need not be there."""
    filesystem, path = client(url, options)
    if is_s3(filesystem):
        run(Bucket(url, options).surely("delete_object", "the removal"))
        return
    try:
        run(once(filesystem, shown(url), "rm_file", path))
    except FileNotFoundError:
        return


def is_s3(filesystem: Any) -> bool:
    """Return whether objects are reached through the client of s3fs."""
    return kind_of(filesystem) == "s3" and hasattr(filesystem, "_call_s3")


class PartObjects(Protocol):
    """Folders beside a file, by their names."""

    def begin(self, folder: str) -> None:
        """Make a folder; it may be there already."""
        ...

    def clear(self, folder: str) -> None:
        """Remove a folder with all that is in it; it need not be there."""
        ...

    def folders(self, prefix: str) -> Iterable[str]:
        """Return the folders that begin with `prefix`."""
        ...


def part_objects(target: str, options: dict[str, Any]) -> PartObjects:
    """Return the folders beside the file at a URL."""
    filesystem, _ = client(target, options)
    return _Keys(target, options) if is_s3(filesystem) else _Folders(target, options)


def begun_url(folder: str) -> str:
    """Return the URL of the object that says that the folder at a URL is there."""
    return f"{folder}/{_BEGUN}"


def note_upload(folder: str, options: dict[str, Any], upload_id: str) -> None:
    """Note an unfinished upload of the file in the folder at a URL: `clear` ends it."""
    Bucket(f"{folder}/{_UPLOAD}{quote(upload_id, safe='')}", options).put(b"")


class _Keys:
    """Folders in S3."""

    def __init__(self, target: str, options: dict[str, Any]) -> None:
        self._bucket = Bucket(target, options)
        parent, slash, _ = self._bucket.key.rpartition("/")
        self._parent = parent + slash

    def begin(self, folder: str) -> None:
        self._bucket.put(b"", f"{self._parent}{folder}/{_BEGUN}")

    def clear(self, folder: str) -> None:
        prefix = f"{self._parent}{folder}/"
        run(self._bucket.surely("delete_object", "the removal", Key=prefix + _BEGUN))
        keys = [key for key in self._bucket.keys(prefix) if key != prefix + _BEGUN]
        noted = [key for key in keys if key.startswith(prefix + _UPLOAD)]
        ids = [unquote(key.removeprefix(prefix + _UPLOAD)) for key in noted]
        self._bucket.end_uploads((self._bucket.key, upload_id) for upload_id in ids)
        self._bucket.end_uploads(self._uploads(prefix))
        self._bucket.remove(keys)

    def _uploads(self, prefix: str) -> list[tuple[str, str]]:
        """Return the unfinished uploads of parts, whose makers died."""
        try:
            return list(self._bucket.uploads(prefix))
        except OSError as err:  # not everybody may ask, and not every store knows
            notice("unfinished uploads of parts, if there are any, stay, unseen: %s", err)
            return []

    def folders(self, prefix: str) -> Iterable[str]:
        start = self._parent + prefix
        keys = [*self._bucket.keys(start), *(key for key, _ in self._uploads(start))]
        return {key[len(self._parent) :].partition("/")[0] for key in keys}


class _Folders:
    """Folders of any other file system of fsspec."""

    def __init__(self, target: str, options: dict[str, Any]) -> None:
        self._filesystem, path = client(target, options)
        self._parent = path.rpartition("/")[0]
        self._name = shown(target)

    def begin(self, folder: str) -> None:
        path = f"{self._parent}/{folder}"
        if has_folders(self._filesystem):
            self._call("makedirs", path, True)
        self._call("pipe_file", f"{path}/{_BEGUN}", b"")

    def clear(self, folder: str) -> None:
        path = f"{self._parent}/{folder}"
        for method, arguments in (("rm_file", (f"{path}/{_BEGUN}",)), ("rm", (path, True))):
            try:
                self._call(method, *arguments)
            except FileNotFoundError:
                continue

    def folders(self, prefix: str) -> Iterable[str]:
        try:
            found = self._call("ls", self._parent, False)
        except FileNotFoundError:
            return []
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return [name for name in names if name.startswith(prefix)]

    def _call(self, method: str, *arguments: Any) -> Any:
        self._filesystem.invalidate_cache()
        return run(once(self._filesystem, self._name, method, *arguments))
