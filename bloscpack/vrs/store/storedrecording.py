"""Reader of the recording in a frame store: tags, records and the attributes of the recording."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from ...plugin import FrameStore, NotFoundError
from ..export.contentchecksum import records_checksum
from ..format.description import Description, StreamTags, encode_text
from ..format.format import StreamId
from ..read.content import Content
from ..read.recordreader import StoredRecord
from .clipcolumns import Plan
from .payloadrows import damaged
from .recordforms import StoredTable
from .storeprogress import Counter

FORMAT = 1
"""Name and version of the layout of a recording in a store. Stored on disk."""
ATTR = "vrs"
"""Attribute of a store that holds a recording. Stored on disk."""
CLIP = "recording"
"""Id of the clip that describes the others, and is appended last. Stored on disk."""


def is_recording_store(store: Any) -> bool:
    """Return whether a source of clips is a frame store that holds a recording."""
    return isinstance(store, FrameStore) and ATTR in store.attrs


class StoredRecording:
    """Recording in a frame store.

    `plans` are descriptions of the forms: how to rebuild records from clips. `known_checksum` is
    that of the recording when it was stored.
    """

    def __init__(self, store: FrameStore) -> None:
        self.store = store
        try:
            self._meta = store[CLIP].meta
        except NotFoundError as err:
            raise damaged(
                f"clip {CLIP!r} is missing: the store was not written completely"
            ) from err
        found = store.attrs.get(ATTR)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise damaged(f"{found!r:.80}: this release reads format {FORMAT}")
        plans = self._meta.get("forms")
        if not isinstance(plans, list) or not all(isinstance(each, dict) for each in plans):
            raise damaged("its forms are not a list")
        self.plans: list[Plan] = plans
        self.description, listed = _tags_of(self._meta)
        try:
            self.records = StoredTable(store, plans, listed)
        except NotFoundError as err:
            raise damaged(str(err.args[0])) from err
        self.streams = self.records.table.streams
        checksum = self._meta.get("checksum")
        self.known_checksum = checksum if isinstance(checksum, str) else None

    @property
    def creation_id(self) -> int:
        """Creation id in the file header."""
        found = self._meta.get("creation_id")
        if type(found) is not int or not 0 <= found < 1 << 64:
            raise damaged(f"creation_id {found!r:.80}")
        return found

    @property
    def has_front_index(self) -> bool:
        """Whether the index was in front of the records."""
        return "front" in str(self._meta.get("index"))

    @property
    def is_verbatim(self) -> bool:
        """Whether the file can be restored byte for byte."""
        return self._meta.get("verbatim") is not None

    @property
    def part_sizes(self) -> list[int]:
        """Bytes of the files of the original recording."""
        sizes = self.verbatim.get("parts")
        if (
            not isinstance(sizes, list)
            or not sizes
            or any(type(size) is not int or size < 0 for size in sizes)
        ):
            raise damaged("sizes of its files")
        return sizes

    @property
    def verbatim(self) -> dict[str, Any]:
        """Description of the bytes from which the file is restored."""
        found = self._meta.get("verbatim")
        if not isinstance(found, dict):
            raise damaged("the description of its file is missing")
        return found

    def checksum(self, count: Counter | None = None) -> str:
        """Return the checksum of all records and tags: see `Recording.checksum`."""
        return records_checksum(self._iter_in_time(count), self.streams, self.description)

    def _iter_in_time(self, count: Counter | None) -> Iterator[StoredRecord]:
        ordinals = {stream_id: k for k, stream_id in enumerate(self.streams)}
        positions = self.records.table.position
        for form, row, payload in self.records.iter_records(positions):
            time = form.timestamps.item(row)
            yield ordinals[form.stream_id], form.record_type, form.version, time, payload
            if count is not None:
                count.add()


def facts_of(content: Content) -> dict[str, Any]:
    """Return the attributes that describe the recording as a whole, also for human readers."""
    description = content.description
    return {
        "creation_id": content.header.creation_id,
        "version": content.header.version,
        "index": content.index_kind,
        "file_tags": description.file_tags,
        "streams": {
            str(stream_id): (
                {"tags": tags.user, "vrs_tags": tags.vrs}
                if (tags := description.streams.get(stream_id)) is not None
                else None
            )
            for stream_id in content.table.streams
        },
    }


def _tags_of(meta: Mapping[str, Any]) -> tuple[Description, list[StreamId]]:
    """Return the tags of a recording, and all its streams, also those without tags."""
    streams: dict[StreamId, StreamTags] = {}
    listed: list[StreamId] = []
    found = meta.get("streams")
    if not isinstance(found, dict):
        raise damaged("no streams")
    for name, tags in found.items():
        try:
            stream_id = StreamId.parse(name)
        except ValueError as err:
            raise damaged(f"stream {name!r:.80}") from err
        listed.append(stream_id)
        if tags is None:
            continue
        if not isinstance(tags, dict):
            raise damaged(f"tags of stream {name}")
        streams[stream_id] = StreamTags(_texts(tags.get("tags")), _texts(tags.get("vrs_tags")))
    return Description(streams, _texts(meta.get("file_tags"))), listed


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise damaged("tags are not texts")
    try:
        for text in chain.from_iterable(value.items()):
            encode_text(text)
    except ValueError as err:
        raise damaged("a tag is half of a surrogate pair") from err
    return value
