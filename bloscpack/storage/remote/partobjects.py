"""Objects that hold the parts of one file behind a URL, and their removal.

Parts are in a folder beside the file. The folder exists while it holds the object ``begun``. A
worker checks for this object before and after it creates a part. `clear` removes it first and then
lists the other objects. A part created at the same time is therefore either on the list, or its
worker finds the folder gone and removes the part. This holds for every store whose listings
include all earlier writes. S3 has no folders: a folder is all keys that begin with its name.
"""

from collections.abc import Iterable
from contextlib import suppress
from glob import has_magic
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote

from ...notice import notice
from ..url import shown
from .backends import tag_of
from .client import client, kind_of
from .retry import call_with_retry, has_folders, run
from .s3 import Bucket

# Object whose presence means that the folder exists.
_BEGUN = "begun"
# Name prefix of objects that record unfinished uploads of the file.
_UPLOAD = "upload-"
# Keys that distinguish objects of equal content; each file system has some of them.
_TIME_KEYS = ("mtime", "created", "updated", "last_modified", "LastModified", "generation", "ino")


class Stat(NamedTuple):
    """Status of an object."""

    size: int  # size in bytes
    tag: str  # version, the same as reading the object reports
    time: str  # time of creation, as far as the store reports it


def stat(url: str, options: dict[str, Any]) -> Stat:
    """Return the status of an object; one request.

    Raises
    ------
    FileNotFoundError
        It does not exist.
    """
    filesystem, path = client(url, options)
    if is_s3(filesystem):
        found = Bucket(url, options).head()
        time = f"{found.get('LastModified', '')} {found.get('VersionId', '')}"
        return Stat(int(found["ContentLength"]), str(found.get("ETag") or ""), time)
    filesystem.invalidate_cache()
    info = run(call_with_retry(filesystem, shown(url), "info", path))
    if info.get("type") == "directory":
        raise IsADirectoryError(21, "is a folder", shown(url))
    time = " ".join(str(info[key]) for key in _TIME_KEYS if info.get(key) is not None)
    return Stat(int(info["size"]), tag_of(info), time)


def remove(url: str, options: dict[str, Any]) -> None:
    """Remove an object, if it exists."""
    filesystem, path = client(url, options)
    if is_s3(filesystem):
        run(Bucket(url, options).request("delete_object", "the removal"))
        return
    try:
        run(call_with_retry(filesystem, shown(url), "rm_file", path))
    except FileNotFoundError:
        return


def is_s3(filesystem: Any) -> bool:
    """Return whether a file system is an s3fs client."""
    return kind_of(filesystem) == "s3" and hasattr(filesystem, "_call_s3")


class PartObjects(Protocol):
    """Folders beside a file, addressed by name."""

    def begin(self, folder: str) -> None:
        """Create a folder; it may exist already."""

    def clear(self, folder: str) -> None:
        """Remove a folder and everything in it, if it exists."""

    def folders(self, prefix: str) -> Iterable[str]:
        """Return the names of folders that begin with `prefix`."""


def part_objects(target: str, options: dict[str, Any]) -> PartObjects:
    """Return the folders beside the file at a URL."""
    filesystem, _ = client(target, options)
    return _Keys(target, options) if is_s3(filesystem) else _Folders(target, options)


def begun_url(folder: str) -> str:
    """Return the URL of the object whose presence means that the folder at a URL exists."""
    return f"{folder}/{_BEGUN}"


def note_upload(folder: str, options: dict[str, Any], upload_id: str) -> None:
    """Record an unfinished upload of the file in the folder at a URL; `clear` aborts it."""
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
        run(self._bucket.request("delete_object", "the removal", Key=prefix + _BEGUN))
        keys = [key for key in self._bucket.keys(prefix) if key != prefix + _BEGUN]
        noted = [key for key in keys if key.startswith(prefix + _UPLOAD)]
        ids = [unquote(key.removeprefix(prefix + _UPLOAD)) for key in noted]
        self._bucket.end_uploads((self._bucket.key, upload_id) for upload_id in ids)
        self._bucket.end_uploads(self._uploads(prefix))
        self._bucket.remove(keys)

    def _uploads(self, prefix: str) -> list[tuple[str, str]]:
        """Return the unfinished uploads of parts, whose workers died."""
        try:
            return list(self._bucket.uploads(prefix))
        except OSError as err:  # some users may not list uploads, some stores cannot
            notice("cannot list unfinished uploads of parts, so any that exist remain: %s", err)
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
        with suppress(FileNotFoundError):
            self._call("rm_file", f"{path}/{_BEGUN}")
        with suppress(FileNotFoundError):
            if has_magic(path):  # `rm` of fsspec takes the path as a pattern
                self._remove_files(path)
            else:
                self._call("rm", path, True)

    def _remove_files(self, path: str) -> None:
        for file in self._call("find", path):
            with suppress(FileNotFoundError):
                self._call("rm_file", file)
        if has_folders(self._filesystem):
            self._call("rmdir", path)

    def folders(self, prefix: str) -> Iterable[str]:
        try:
            found = self._call("ls", self._parent, False)
        except FileNotFoundError:
            return []
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return [name for name in names if name.startswith(prefix)]

    def _call(self, method: str, *arguments: Any) -> Any:
        self._filesystem.invalidate_cache()
        return run(call_with_retry(self._filesystem, self._name, method, *arguments))
