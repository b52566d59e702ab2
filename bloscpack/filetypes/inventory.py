"""List of what a file holds, so that a copy names everything that it leaves out."""

from collections.abc import Iterable


class Inventory:
    """Things that a reader has found in a file, and those of them that it has not carried yet.

    A reader adds everything that the library of the format lists, before it decides what to read.
    A thing that is not carried later is left out, so that what a reader forgets is listed, too.
    """

    def __init__(self) -> None:
        self._found: dict[str, bool] = {}

    def add(self, *texts: str) -> None:
        """Add things, each with a short text such as ``attribute 'x' of 'T'``."""
        for text in texts:
            self._found.setdefault(text, False)

    def carry(self, *texts: str) -> None:
        """Mark things as carried by the value that the reader returns.

        Raises
        ------
        KeyError
            One was not added.
        """
        for text in texts:
            if text not in self._found:
                raise KeyError(text)
            self._found[text] = True

    @property
    def left_out(self) -> tuple[str, ...]:
        """Things that are not carried, in the order in which they were added."""
        return tuple(text for text, is_carried in self._found.items() if not is_carried)


def quoted(name: object) -> str:
    """Return a name from a file for a text."""
    return f"{name!r:.80}"


def attribute(key: object, of: str = "the file") -> str:
    """Return the text for an attribute; `of` is what has it."""
    return f"attribute {quoted(key)} of {of}"


def attributes(keys: Iterable[object], of: str = "the file") -> list[str]:
    """Return the texts for attributes of one thing."""
    return [attribute(key, of) for key in keys]
