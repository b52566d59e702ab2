"""Errors of Gulp directories that are also the types that GulpIO2 raises in their place.

GulpIO2 raises AssertionError, TypeError and ValueError where we raise `FormatError`,
`NotFoundError` and `CodecError`. Code that catches the former catches these classes, too. Pure.
"""

from ..plugin import BloscpackError, CodecError, FormatError, NotFoundError


class DirectoryError(FormatError, AssertionError):
    """The files of a Gulp directory do not match each other."""


class UnknownItemError(NotFoundError, TypeError):
    """A chunk has no item with this id."""


class FrameError(CodecError, ValueError):
    """The bytes of a frame do not decode."""


class DuplicateIdException(BloscpackError, ValueError):  # noqa: N818 - GulpIO2's name
    """An id is used twice, or no entries are left after duplicates were removed."""
