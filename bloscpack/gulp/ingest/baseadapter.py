"""Base classes of adapters, which list the items of an ingest and return their frames.

An item is a dict of ``id``, ``meta`` (a dict) and ``frames`` (a list). Our adapters do not stop at
an item that cannot be read: they return it without frames and with the reason under ``error``, and
the ingest skips and reports it. Ids and names from files are taken literally, and must not lead out
of the folder of the items.
"""

import errno
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ...plugin import BloscpackError, text_list
from ..gulperrors import DuplicateIdException
from ..labels import Labels
from ..utils import remove_entries_with_duplicate_ids

Path = str | os.PathLike[str]
Item = dict[str, Any]

# Errors that are unrelated to the item that was being read.
_OUR_OWN_TROUBLE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC}


class AbstractDatasetAdapter(ABC):
    """A set of items to ingest; subclass it for your own data.

    An adapter is sent to worker processes, so it must be picklable, and should list its items in
    the constructor and read frames in `iter_data`. It may have a method ``item_ids()`` that returns
    the ids of all items in order, as strings. Then an ingest looks for ids that are already in the
    directory before it starts, and recognizes the order of an interrupted ingest. A method
    ``prepare()`` is called once, before the first chunk is written.
    """

    @abstractmethod
    def iter_data(self, slice_element: slice | None = None) -> Iterator[Item]:
        """Yield the items of a slice, all by default.

        Each is a dict: ``id`` (str or int); ``meta``, a JSON-serializable dict; ``frames``, a list
        of uint8 arrays ``(H, W)`` or ``(H, W, 3)``, or of JPEGs to store unchanged, as bytes or
        paths of files. An item without frames is skipped; ``error``, a str, may give the reason.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of items."""


class Custom20BNAdapterMixin:
    """Label numbers, stored in ``label2idx.json``.

    The class that it is mixed into provides `output_folder` and, for writing, `labels2idx`; `data`
    holds dicts.
    """

    output_folder: Path
    data: Sequence[dict[str, Any]]
    labels2idx: dict[Any, int]

    def check_if_label2idx_exists(self) -> bool:
        """Return whether the file exists."""
        return Labels(self.output_folder).exists()

    def read_label2idx(self) -> dict[str, int]:
        """Return the content of the file."""
        return Labels(self.output_folder).read()

    def create_label2idx_dict(self, label_name: str) -> dict[Any, int]:
        """Return numbers for the labels of `data`, keeping those in the file."""
        return Labels(self.output_folder).number(entry[label_name] for entry in self.data)

    def write_label2idx_dict(self) -> None:
        """Write `labels2idx`, unless the file has this content already."""
        Labels(self.output_folder).write(self.labels2idx)


class ListedAdapter(AbstractDatasetAdapter):
    """Items listed in `all_meta`; subclasses read the frames of an item.

    Parameters
    ----------
    all_meta : list of dict
        One dict per item.
    shuffle : bool
        Shuffle the items (`random.shuffle`; seed `random` to repeat an order).
    """

    def __init__(self, all_meta: list[Item], *, shuffle: bool) -> None:
        self.all_meta = all_meta
        self.shuffle = bool(shuffle)
        if shuffle:
            random.shuffle(self.all_meta)

    def __len__(self) -> int:
        return len(self.all_meta)

    def item_ids(self) -> list[str]:
        """Return the ids of all items, in order."""
        return [str(self._id(meta)) for meta in self.all_meta]

    def leave_out(self, ids: Collection[str]) -> int:
        """Remove the items with these ids from the list, and return their number."""
        before, ids = len(self), set(text_list("ids", ids))
        self.all_meta = [meta for meta in self.all_meta if str(self._id(meta)) not in ids]
        return before - len(self)

    def iter_data(self, slice_element: slice | None = None) -> Iterator[Item]:
        """Yield the items of a slice; see `AbstractDatasetAdapter`."""
        for meta in self.all_meta[slice_element or slice(0, len(self))]:
            item = {"id": self._id(meta), "meta": self._meta(meta), "frames": []}
            try:
                item["frames"] = self._frames(meta)
            except (BloscpackError, OSError, ValueError, AssertionError) as err:
                if isinstance(err, OSError) and err.errno in _OUR_OWN_TROUBLE:
                    raise
                item["error"] = _reason(err)
            yield item
        self.prepare()

    def _id(self, meta: Item) -> Any:
        return meta["id"]

    def _meta(self, meta: Item) -> Item:
        """Return the metadata to store with the item."""
        return meta

    def prepare(self) -> None:
        """Write the files that belong beside the chunks, unless they exist."""

    @abstractmethod
    def _frames(self, meta: Item) -> Sequence[Any]:
        """Return the frames of an item; if it raises, the item is skipped."""


class NumberedAdapter(ListedAdapter, Custom20BNAdapterMixin):
    """Items of 20BN, listed with an id and a label under the key `label_name`."""

    def __init__(
        self,
        data: list[Item],
        folder: Path,
        label_name: str,
        *,
        shuffle: bool,
        remove: bool = False,
    ) -> None:
        # `remove` leaves out repeated ids and those in the output folder; else they are refused.
        self.data = data
        self.output_folder = folder
        self._label_name = label_name
        self.labels2idx = self.create_label2idx_dict(label_name)
        entries = self.get_meta()
        if remove:
            entries = remove_entries_with_duplicate_ids(folder, entries)
        else:
            refuse_duplicates([(str(entry["id"]), str(entry["id"])) for entry in entries])
        super().__init__(entries, shuffle=shuffle)

    def get_meta(self) -> list[Item]:
        """Return the metadata stored with each item: ``id``, ``label`` and ``idx``."""
        labels = [entry[self._label_name] for entry in self.data]
        return [
            {"id": entry["id"], "label": label, "idx": self.labels2idx[label]}
            for entry, label in zip(self.data, labels, strict=True)
        ]

    def prepare(self) -> None:
        """Write ``label2idx.json``, unless it exists."""
        self.write_label2idx_dict()


class LabelledAdapter(ListedAdapter):
    """Listed items whose labels have numbers."""

    def __init__(self, data: list[Item], output_folder: Path, *, shuffle: bool) -> None:
        self.data = data
        self.output_folder = output_folder
        self.label2idx = self.create_label2idx_dict()
        super().__init__(self.get_meta(), shuffle=shuffle)

    def get_meta(self) -> list[Item]:
        """Return one entry per item: ``id``, ``label``, ``path`` and ``idx``."""
        return [{**entry, "idx": self.label2idx[entry["label"]]} for entry in self.data]

    def create_label2idx_dict(self) -> dict[Any, int]:
        """Return numbers for the labels of `data`, keeping those in ``label2idx.json``."""
        return Labels(self.output_folder).number(entry["label"] for entry in self.data)

    def write_label2idx_dict(self) -> None:
        """Write ``label2idx.json``, unless it has this content already."""
        Labels(self.output_folder).write(self.label2idx)

    def prepare(self) -> None:
        """Write ``label2idx.json``, unless it exists."""
        self.write_label2idx_dict()


def refuse_duplicates(ids_and_names: Sequence[tuple[str, str]]) -> None:
    """Raise if two items have the same id, as their frames would become one clip."""
    first: dict[str, str] = {}
    for id_, name in ids_and_names:
        if id_ in first:
            which = f" ({first[id_]} and {name})" if name != id_ else ""
            raise DuplicateIdException(
                f"the id {id_!r} comes twice{which}: each item needs its own"
            )
        first[id_] = name


def inside(folder: Path, name: Any) -> str:
    """Return the path of `name`, read from a file, in `folder`; ValueError if it leads out."""
    text = str(name)
    parts = text.replace(os.sep, "/").split("/")
    if os.path.isabs(text) or os.path.splitdrive(text)[0] or ".." in parts or "\0" in text:
        raise ValueError(f"{text!r} leads out of the folder {os.fspath(folder)}")
    return os.path.join(folder, text)


def walk(folder: Path, extensions: Sequence[str]) -> list[str]:
    """Return the sorted paths of all files below a folder that end in one of `extensions`.

    Hidden files and folders are skipped; links are followed, but not in circles.
    """
    found: list[str] = []
    ends = tuple(text_list("file_extensions", extensions))
    _walk(os.fspath(folder), ends, found, ())
    return sorted(found)


def _walk(folder: str, ends: tuple[str, ...], found: list[str], above: tuple[str, ...]) -> None:
    real = os.path.realpath(folder)
    if real in above:
        return
    with os.scandir(folder or ".") as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                _walk(os.path.join(folder, entry.name), ends, found, (*above, real))
            elif entry.name.endswith(ends):
                found.append(os.path.join(folder, entry.name))


def _reason(err: BaseException) -> str:
    if isinstance(err, OSError) and err.strerror and err.filename is not None:
        return f"{err.filename}: {err.strerror}"
    return str(err) or type(err).__name__
