"""Every way to read a VRS recording, as functions from the bytes of a file to a value."""

import pickle
from itertools import islice
from pathlib import Path
from typing import Any

from entries import OPEN_ERRORS, Errors, Reader
from store_entries import DIFFERENT

from bloscpack import vrs
from bloscpack.exceptions import NotFoundError

MAX_RECORDS = 40


def _rows(recording: Any) -> list[int]:
    count = len(recording)
    return [*range(min(count, MAX_RECORDS)), *range(max(MAX_RECORDS, count - 5), count)]


def records(data: Any, **options: Any) -> Any:
    """Return payloads and contents of the first and last records, block by block."""
    errors, found = Errors(), []
    with vrs.open(data, **options) as recording:
        str(recording.report)
        for row in _rows(recording):
            record = errors.attempt(lambda row=row: recording[row])
            if record is None:
                continue
            found.append(len(record.payload))
            for block in errors.attempt(lambda record=record: record.blocks) or ():
                read = block.values if block.kind == "metadata" else block.array
                value = errors.attempt(read)
                found.append(value if block.kind == "metadata" else getattr(value, "shape", None))
    return errors.checked(found)


def in_a_row(data: bytes) -> Any:
    with vrs.open(data) as recording:
        return sum(len(record.payload) for record in recording)


def columns(data: bytes) -> Any:
    """Return fields, times and frames of the first streams."""
    errors, found = Errors(), []
    with vrs.open(data) as recording:
        for stream in islice(recording.streams.values(), 5):
            found.append((stream.tags, stream.vrs_tags, stream.counts, stream.timestamps.shape))
            for kind, of_kind in (("data", stream.data), ("configuration", stream.configurations)):
                record = errors.attempt(lambda of_kind=of_kind: next(iter(of_kind), None))
                decoder = record and record._decoder
                layouts = errors.attempt(lambda decoder=decoder: decoder and decoder.layouts) or {}
                for block, layout in layouts.items():
                    for key in layout.keys[:5]:
                        field = {"name": key, "record_type": kind, "block": block}
                        column = errors.attempt(
                            lambda stream=stream, field=field: stream.field(**field)
                        )
                        found.append(None if column is None else len(column))
            found += _frames(stream, errors)
    return errors.checked(found)


def _frames(stream: Any, errors: Errors) -> list[Any]:
    """Read one and several frames of a stream with images, unless their shapes differ."""
    try:
        clip = stream.frames
    except NotFoundError:
        return []
    except OPEN_ERRORS as err:
        errors.first = errors.first or err
        return []
    found = []
    for selection in (0, -1, slice(8)) if len(clip) else ():
        try:
            found.append(errors.attempt(lambda selection=selection: clip[selection].shape))
        except ValueError as err:
            if DIFFERENT not in str(err):
                raise
    return found


def checksum(data: bytes) -> Any:
    with vrs.open(data) as recording:
        return recording.checksum()


def travels(data: bytes) -> Any:
    with vrs.open(data) as recording, pickle.loads(pickle.dumps(recording)) as again:
        assert len(again) == len(recording)
        return len(again)


def recording_readers(folder: Path) -> dict[str, Reader]:
    """Return all ways by name, "vrs ..."; those that take a path write to `folder`."""
    path = folder / "recording.vrs"

    def from_file(data: bytes) -> Any:
        path.write_bytes(data)
        return records(path)

    def wheel_names(data: bytes) -> Any:
        """Read through the names of pyvrs."""
        from bloscpack.vrs import pyvrs

        path.write_bytes(data)
        errors, found = Errors(), []
        with pyvrs.SyncVRSReader(path) as reader:
            str(reader)
            for stream_id in sorted(reader.stream_ids)[:5]:
                found.append(errors.attempt(lambda id_=stream_id: reader.get_stream_info(id_)))
            for row in _rows(reader):
                record = errors.attempt(lambda row=row: reader[row])
                for name in ("metadata", "image", "audio", "custom") if record else ():
                    found.append(
                        errors.attempt(
                            lambda record=record, name=name: len(
                                list(getattr(record, f"{name}_blocks"))
                            )
                        )
                    )
        return errors.checked(found)

    ways: dict[str, Reader] = {
        "records": records,
        "records(path)": from_file,
        "rebuild": lambda data: records(data, index="rebuild"),
        "strict": lambda data: records(data, index="strict"),
        "no resync": lambda data: records(data, index="rebuild", resync=False),
        "in a row": in_a_row,
        "columns": columns,
        "checksum": checksum,
        "travels": travels,
        "pyvrs": wheel_names,
    }
    return {f"vrs {name}": read for name, read in ways.items()}
