"""``label2idx.json``: the numbers of labels, stored beside the chunks.

Numbers in the file never change; new labels are numbered in sorted order. The file is written only
if its content changes, and atomically, so several processes may do it at the same time.
"""

import json
import os
from collections.abc import Iterable
from typing import Any

from ..plugin import FileSink, FormatError, committed
from .chunk.format import LABELS_NAME
from .ingest.listfiles import read_json


class Labels:
    """Label numbers of one output folder.

    Parameters
    ----------
    folder : str or PathLike
        The output folder; it need not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = os.path.join(folder, LABELS_NAME)

    def exists(self) -> bool:
        """Return whether the file exists."""
        return os.path.exists(self.path)

    def read(self) -> dict[str, int]:
        """Return the content of the file."""
        content = read_json(self.path)
        if not isinstance(content, dict) or not all(type(n) is int for n in content.values()):
            raise FormatError("not an object of label: number").at(path=self.path, whole="")
        return content

    def number(self, labels: Iterable[Any]) -> dict[Any, int]:
        """Return numbers for the labels in the file and for `labels`."""
        numbers: dict[Any, int] = self.read() if self.exists() else {}
        following = max(numbers.values(), default=-1) + 1
        for label in sorted(set(labels)):
            # All labels in the file are strings.
            known = numbers.get(label, numbers.get(_text(label)))
            numbers[label] = following if known is None else known
            following += known is None
        return numbers

    def write(self, numbers: dict[Any, int]) -> None:
        """Write the file, unless it has this content already."""
        by_text = {_text(label): number for label, number in numbers.items()}
        content = json.dumps(by_text).encode("ascii")
        try:
            with open(self.path, "rb") as file:
                if file.read() == content:
                    return
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        with committed(FileSink(self.path)) as sink:
            sink.write(content)


def _text(label: Any) -> str:
    """Return a label as JSON writes it as a key."""
    return label if isinstance(label, str) else json.dumps(label)
