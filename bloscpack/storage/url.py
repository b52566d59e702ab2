"""Telling URLs from paths, and showing them without what is secret in them."""

import re
from typing import Any, NoReturn
from urllib.parse import urlsplit

from ..exceptions import UnsupportedError

# A scheme has two characters at least: "C://" is a folder. "simplecache::s3://" is a chain of two.
_URL = re.compile(r"[A-Za-z][\w+.-]+(::[A-Za-z][\w+.-]*)*://")


def is_url(where: Any) -> bool:
    """Return whether `where` names something that is reached through fsspec."""
    return isinstance(where, str) and "://" in where and _URL.match(where) is not None


def shown(url: str) -> str:
    """Return a URL for messages: without password, and without a query, which may hold a key."""
    if not url.startswith(("http:", "https:")):
        return url
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    query = "?..." if parts.query else ""
    return f"{parts.scheme}://{place}{parts.path}{query}"


def refuse_url(where: Any, what: str) -> None:
    """Raise the error for what can be done to files only, such as "appended to".

    Raises
    ------
    UnsupportedError
        `where` is a URL.
    """
    if is_url(where):
        error = UnsupportedError(
            f"an object behind a URL cannot be {what}: it is replaced as a whole or not at all; "
            "copy it to a file, change that and copy it back, or write several objects and read "
            "them as one"
        )
        error.path = shown(where)
        raise error


def refuse_flush(name: str) -> NoReturn:
    """Raise the error for a flush of what appears at a URL only when it is closed.

    Raises
    ------
    UnsupportedError
        In any case.
    """
    error = UnsupportedError(
        "an object behind a URL appears when it is closed, whole, and cannot be flushed; write a "
        "file to flush it, or several objects and read them as one"
    )
    error.path = name
    raise error
