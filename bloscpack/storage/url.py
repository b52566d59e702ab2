"""Recognition of URLs, and their display without secrets."""

import io
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ..exceptions import UnsupportedError

# A scheme has at least two characters: "C://" is a folder. "simplecache::s3://" is a chain of two.
_URL = re.compile(r"[A-Za-z][\w+.-]+(::[A-Za-z][\w+.-]*)*://")


def is_url(where: Any) -> bool:
    """Return whether `where` is a URL, which fsspec opens."""
    return isinstance(where, str) and "://" in where and _URL.match(where) is not None


def in_folder(url: str, name: str) -> str:
    """Return the URL of a file in a folder; in a chain, the first link with a path has it."""
    links = url.split("::")
    place = next((at for at, link in enumerate(links) if "://" in link), 0)
    link = links[place] if links[place].endswith("/") else f"{links[place]}/"
    return "::".join((*links[:place], f"{link}{name}", *links[place + 1 :]))


# A URL inside a foreign message: it ends at white space, a quote or an angle bracket.
_URL_IN_TEXT = re.compile(r"[A-Za-z][\w+.-]+://[^\s'\"<>]+")


def shown(url: str) -> str:
    """Return a URL for messages: without the password, and without the query, which may hold a key.

    Each link of a chained URL is treated in this way.
    """
    return "::".join(map(_shown_link, url.split("::")))


def shown_name(name: str) -> str:
    """Return a path unchanged, and a URL as `shown` does."""
    return shown(name) if is_url(name) else name


def _shown_link(url: str) -> str:
    scheme, slashes, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    is_web = scheme.lower() in ("http", "https")
    # "container@account" is a valid host, and outside HTTP "?" may be part of a name or a pattern.
    user, at, host = place.rpartition("@")
    if at and (is_web or ":" in user):
        place = host
    shortened = f"{scheme}{slashes}{place}{slash}{path}"
    if not is_web:
        return shortened
    shortened, query, _ = shortened.partition("?")
    return f"{shortened.partition('#')[0]}{query}{'...' if query else ''}"


def without_secrets(text: str) -> str:
    """Return a foreign message with its URLs shortened as by `shown`, and without queries."""

    def clean(found: re.Match[str]) -> str:
        url, query, _ = shown(found[0]).partition("?")
        return f"{url}{query}{'...' if query else ''}"

    return _URL_IN_TEXT.sub(clean, text)


def options_of(storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of the options for a URL, or raise TypeError."""
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise TypeError(
            "storage_options must be a mapping, such as {'anon': True}, not "
            f"{type(storage_options).__name__}"
        )
    return dict(storage_options or {})


def refuse_options(where: Any, storage_options: Mapping[str, Any] | None) -> None:
    """Raise ValueError if `storage_options` are given for anything but a URL.

    Raises
    ------
    ValueError
        `storage_options` are not empty and `where` is not a URL.
    """
    if storage_options and not is_url(where):
        raise ValueError(f"storage_options are for URLs, not for {where!r:.200}")


def refuse_text(where: Any) -> None:
    """Raise TypeError for a file object of text."""
    if isinstance(where, io.TextIOBase):
        raise TypeError(
            f"expected a binary file, got {type(where).__name__!r}, which is one of text: open it "
            "in binary mode ('rb' or 'wb'), or use io.BytesIO"
        )


def refuse_url(where: Any, what: str, storage_options: Mapping[str, Any] | None = None) -> None:
    """Raise UnsupportedError if `where` is a URL; `what` is the action, such as "appended to".

    Raises
    ------
    UnsupportedError
        `where` is a URL.
    ValueError
        It is not, and there are `storage_options`.
    """
    if is_url(where):
        raise UnsupportedError(
            f"an object behind a URL cannot be {what}: it is replaced as a whole or not at all; "
            "copy it to a file, change that and copy it back, or write several objects and read "
            "them as one"
        ).at(path=shown(where))
    refuse_options(where, storage_options)


def refuse_url_as_target(where: Any, what: str) -> None:
    """Raise UnsupportedError if a file or folder to write is a URL; `what` it is: "a recording".

    As a path, the URL would name local folders, and `what` would seem to be where it is not.

    Raises
    ------
    UnsupportedError
        `where` is a URL.
    """
    if is_url(where):
        raise UnsupportedError(
            f"{what} cannot be written to a URL: write it to a local path, and copy it there"
        ).at(path=shown(where))


def refuse_flush(name: str) -> NoReturn:
    """Raise UnsupportedError for a flush of an object, which appears only when it is closed.

    Raises
    ------
    UnsupportedError
        Always.
    """
    raise UnsupportedError(
        "an object behind a URL cannot be flushed: it appears as a whole when it is closed; write "
        "a file to flush it, or several objects and read them as one"
    ).at(path=name)
