"""Telling URLs from paths, and showing them without what is secret in them."""

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ..exceptions import UnsupportedError

# A scheme has two characters at least: "C://" is a folder. "simplecache::s3://" is a chain of two.
_URL = re.compile(r"[A-Za-z][\w+.-]+(::[A-Za-z][\w+.-]*)*://")


def is_url(where: Any) -> bool:
    """Return whether `where` names something that is reached through fsspec."""
    return isinstance(where, str) and "://" in where and _URL.match(where) is not None


# A URL in the words of others: up to what cannot be part of one, or is quoted around it.
_URL_IN_TEXT = re.compile(r"[A-Za-z][\w+.-]+://[^\s'\"<>]+")


def shown(url: str) -> str:
    """Return a URL for messages: without password, and without a query, which may hold a key.

    The parts of a chain likewise.
    """
    return "::".join(map(_shown_link, url.split("::")))


def shown_name(name: str) -> str:
    """Return a path as it is, or a URL as `shown`."""
    return shown(name) if is_url(name) else name


def _shown_link(url: str) -> str:
    scheme, slashes, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    is_web = scheme.lower() in ("http", "https")
    # "container@account" is a place, too, and elsewhere "?" may be part of a name or a pattern.
    user, at, host = place.rpartition("@")
    if at and (is_web or ":" in user):
        place = host
    shortened = f"{scheme}{slashes}{place}{slash}{path}"
    if not is_web:
        return shortened
    shortened, query, _ = shortened.partition("?")
    return f"{shortened.partition('#')[0]}{query}{'...' if query else ''}"


def without_secrets(text: str) -> str:
    """Return the words of others with the URLs in them as `shown`, none with a query."""

    def clean(found: re.Match[str]) -> str:
        url, query, _ = shown(found[0]).partition("?")
        return f"{url}{query}{'...' if query else ''}"

    return _URL_IN_TEXT.sub(clean, text)


def refuse_options(where: Any, storage_options: Mapping[str, Any] | None) -> None:
    """Raise the error for `storage_options` with what is not a URL.

    Raises
    ------
    ValueError
        There are some.
    """
    if storage_options and not is_url(where):
        raise ValueError(f"storage_options are for URLs, not for {where!r:.200}")


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
