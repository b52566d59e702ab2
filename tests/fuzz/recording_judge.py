"""Read damaged recordings in every way and report faults in the outcome.

VRS has no checksums, so a value may be wrong. But every way must return the same one, sizes must
add up, missing data must not be replaced by zeros, and damage to one record must not change others.
"""

import pickle
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from outcomes import NOTHING, READ_ERRORS, Outcomes
from recording_damage import damaged
from recording_rewrite_judge import RewriteJudge
from recordings import RecordingVector, recording_vectors

from bloscpack import vrs
from bloscpack.exceptions import NotFoundError
from bloscpack.vrs.column.ragged import Ragged, Strings

TAGS = 4
# Most cases use small files, which are read quickly and have every field of large ones.
SMALL_NBYTES = 12_000
# Number of records of a case that are examined completely.
MAX_RECORDS = 24
MAX_FIELDS = 4


def run_case(rng: Random, folder: Path) -> tuple[str, list[str], int]:
    """Damage a recording and examine the results of reading it."""
    vectors = recording_vectors()
    if rng.random() < 0.95:
        vectors = [each for each in vectors if len(each.data) <= SMALL_NBYTES]
    vector = rng.choice(vectors)
    what, data, in_place = damaged(rng, vector)
    judge = RecordingJudge(vector, data, in_place, folder)
    judge.check(rng)
    honest = 4 * len(data) + sum(len(each.payload) for each in vector.records)
    return f"{vector.name}: {what}", judge.faults, honest


class RecordingJudge(Outcomes):
    """Collects the faults found in one damaged recording."""

    errors = (*READ_ERRORS, NotFoundError)

    def __init__(self, vector: RecordingVector, data: bytes, in_place: bool, folder: Path) -> None:
        super().__init__()
        self.vector = vector
        self.data = data
        self.in_place = in_place
        self.folder = folder

    def check(self, rng: Random) -> None:
        index = rng.choice(("auto", "auto", "auto", "rebuild", "strict"))
        resync = rng.random() < 0.8
        recording = self.attempt(
            f"open {index}", lambda: vrs.open(self.data, index=index, resync=resync, nthreads=1)
        )
        if recording is NOTHING:
            return
        self.recording = recording
        with recording:
            self._check_recording(recording, rng)
            if resync and index != "strict":
                self._check_what_was_not_damaged(recording)
            for share, check in (
                (0.3, self._check_iteration),
                (0.6, self._check_columns),
                (0.2, self._check_checksum),
                (0.15, self._check_other_ways_in),
                (0.15, self._check_pyvrs),
                (0.15 if resync and index != "strict" else 0, self._check_rewrites),
            ):
                if rng.random() < share:
                    check(recording, rng)

    def _check_recording(self, recording: Any, rng: Random) -> None:
        str(recording.report), repr(recording), recording.time_range, recording.index_kind
        table = recording.table
        ends = table.offset + table.size
        if len(table) and (ends.max() > len(self.data) or table.offset.min() < 80):
            self.fault("records lie outside of the file")
        if len(table) and (np.sort(table.offset)[1:] < np.sort(ends)[:-1]).any():
            self.fault("records overlap")
        for stream in islice(recording.streams.values(), 8):
            self.attempt(
                f"stream {stream.id}",
                lambda stream=stream: (
                    *(stream.tags, stream.vrs_tags, stream.name, stream.flavor),
                    *(stream.serial_number, stream.counts, stream.time_range, repr(stream)),
                    *(len(stream.records), len(stream.timestamps), stream.versions()),
                ),
            )
        for row in chosen(rng, len(recording)):
            record = self.attempt(f"[{row}]", lambda row=row: recording[row])
            if record is not NOTHING:
                self.check_record(f"[{row}]", record, rng)

    def check_record(self, what: str, record: Any, rng: Random) -> None:
        """Check that the properties of a record are consistent."""
        repr(record)
        payload = bytes(record.payload)
        blocks = self.attempt(f"{what}.blocks", lambda: record.blocks)
        metadata = self.attempt(f"{what}.metadata_blocks", lambda: record.metadata_blocks)
        if blocks is NOTHING:
            return
        str(record.note)
        at, values = 0, []
        for number, block in enumerate(blocks):
            name = f"{what}.blocks[{number}]"
            data = self.attempt(f"{name}.data", lambda block=block: block.data)
            if data is not NOTHING:
                if bytes(data) != payload[at : at + len(data)]:
                    self.fault(f"{name}: not the bytes of the payload at {at}")
                at += len(data)
            repr(block), self.attempt(f"{name}.spec", lambda block=block: block.spec)
            if block.kind == "metadata":
                values.append(self.attempt(f"{name}.values", block.values))
            else:
                self._check_content(name, block, rng)
        if at > len(payload):
            self.fault(f"{what}: blocks of {at} bytes in {len(payload)}")
        if (
            metadata is not NOTHING
            and not any(each is NOTHING for each in values)
            and repr(metadata) != repr(tuple(values))
        ):
            self.fault(f"{what}: metadata {metadata!r:.200} is {tuple(values)!r:.200} by block")
        self.attempt(f"{what}.unread", lambda: record.unread)
        if at == len(payload) and record.note is None and len(record.unread):
            self.fault(f"{what}: bytes unread of none")

    def _check_content(self, name: str, block: Any, rng: Random) -> None:
        spec = block.spec
        # We have no decoder for JPEG XL.
        allowed = (ImportError,) if getattr(spec, "image_format", "") == vrs.ImageFormat.JXL else ()
        conversions = list(vrs.ImageConversion)
        for conversion in (conversions[0], rng.choice(conversions)):
            found = self.attempt(
                f"{name}.array({conversion.name})",
                lambda conversion=conversion: block.array(conversion),
                allowed=allowed,
            )
            if found is not NOTHING and not isinstance(found, np.ndarray):
                self.fault(f"{name}: not an array")
            is_whole = found is not NOTHING and conversion is vrs.ImageConversion.RAW_BUFFER
            if is_whole and block.kind != "audio" and found.tobytes() != bytes(block.data):
                self.fault(f"{name}: other bytes than its own")

    def _check_iteration(self, recording: Any, rng: Random) -> None:
        """Check that iteration equals indexing up to the first damaged record."""
        row, iterator = 0, iter(recording)
        while row < 3000:
            found = self.attempt("next", lambda: next(iterator, None))
            if found is None:
                if row != len(recording):
                    self.fault(f"iteration ends after {row} records of {len(recording)}")
                return
            alone = self.attempt(f"[{row}]", lambda row=row: recording[row])
            if (found is NOTHING) != (alone is NOTHING):
                self.fault(f"record {row}: {alone!r} alone and {found!r} in a row")
            if found is NOTHING:
                return
            if alone is not NOTHING and same_record(found, alone):
                row += 1
                continue
            self.fault(f"record {row}: another one in a row")
            return

    def _check_what_was_not_damaged(self, recording: Any) -> None:
        """Check that exactly the records outside the damage are found, intact."""
        place = self._damaged_place() if self.in_place else None
        if place is None:
            return
        start, stop = place
        records = self.vector.records
        hit = [
            k
            for k, each in enumerate(records)
            if each.end > len(self.data) or (each.offset < stop and start < each.end)
        ]
        near = {k + step for k in hit for step in (-1, 0, 1)}
        offsets, sizes = recording.table.offset.tolist(), recording.table.size.tolist()
        rows = dict(zip(offsets, range(len(offsets)), strict=True))
        # A size that happens to lead to the end of the file, or to another record, is accepted.
        hidden = [
            range(at + 1, at + size)
            for at, size in zip(offsets, sizes, strict=True)
            if any(records[k].offset == at and records[k].size < size for k in hit)
        ]
        for k, each in enumerate(records):
            is_hidden = any(each.offset in span for span in hidden)
            if k in near or each.is_internal or each.record_type == TAGS or is_hidden:
                continue
            if each.offset not in rows:
                self.fault(f"record {k} at {each.offset} is lost by damage at {start} to {stop}")
                return
            row = rows[each.offset]
            payload = self.attempt(f"record {k}", lambda row=row: recording.read_payload(row))
            if payload is NOTHING or bytes(payload) != each.payload:
                self.fault(f"record {k} is another by damage at {start} to {stop}")
                return
        spans = [range(r.offset, r.end) for k, r in enumerate(records) if k in near]
        true = {each.offset for each in records}
        for offset in offsets:
            if offset not in true and not any(offset in span for span in spans):
                self.fault(f"a record at {offset} that was none, by damage at {start} to {stop}")

    def _damaged_place(self) -> tuple[int, int] | None:
        """Return the damaged user records; None if other bytes are damaged or bytes have moved."""
        old, new = self.vector.data, self.data
        if len(new) > len(old) or (len(new) < len(old) and not old.startswith(new)):
            return None
        there = np.frombuffer(old[: len(new)], "u1") != np.frombuffer(new, "u1")
        differing = np.flatnonzero(there)
        start, stop = len(new), len(new)
        if len(differing):
            start, stop = int(differing[0]), int(differing[-1]) + 1
        internal = [each for each in self.vector.records if each.is_internal]
        is_front = any(start < each.end and each.offset < stop for each in internal)
        shown = self.vector.shown
        return None if is_front or not shown or start < shown[0].offset else (start, stop)

    def _check_columns(self, recording: Any, rng: Random) -> None:
        """Check that a column equals the values of the records."""
        for stream in islice(recording.streams.values(), 3):
            for name, records in (("data", stream.data), ("configuration", stream.configurations)):
                if len(records):
                    self._check_fields(stream, name, records, rng)
            self._check_frames(stream, rng)

    def _check_fields(self, stream: Any, kind: str, records: Any, rng: Random) -> None:
        record = self.attempt("a record", lambda: records[rng.randrange(len(records))])
        if record is NOTHING:
            return
        version = record.format_version
        layouts = self.attempt("layouts", lambda: record._decoder.layouts)
        if layouts is NOTHING:
            return
        for block, layout in islice(layouts.items(), 3):
            keys = rng.sample(layout.keys, min(len(layout.keys), MAX_FIELDS))
            for key in keys:
                options = {"block": block, "version": version, "nthreads": 1}
                column = self.attempt(
                    f"{stream.id} field {key!r:.60}",
                    lambda key=key, options=options: stream.field(key, kind, **options),
                )
                if column is not NOTHING:
                    where = f"{stream.id} {kind} {version} block {block} field {key!r:.60}"
                    self._compare(where, column, records, version, block, key)

    def _compare(
        self, where: str, column: Any, records: Any, version: int, block: int, key: str
    ) -> None:
        rows = 0
        for record in islice(self._readable(records), 12):
            if record.format_version != version:
                continue
            row, rows = rows, rows + 1
            if row >= len(column):
                self.fault(f"{where}: {len(column)} rows")
                return
            blocks = self.attempt(f"{where}: blocks", lambda record=record: record.blocks)
            if blocks is NOTHING or any(each.kind == "unsupported" for each in blocks):
                return
            # Empty blocks are in the format but not in the record.
            kinds = [each.content_type.name for each in record._decoder.contents]
            place = block - kinds[:block].count("EMPTY")
            if place >= len(blocks) or blocks[place].kind != "metadata":
                self.fault(f"{where}: {row} has no such block, but a value {column[row]!r:.80}")
                return
            values = self.attempt(f"{where}: values", blocks[place].values)
            if values is NOTHING:  # another of its fields is damaged
                return
            if key not in values or plain(column[row]) != plain(values[key]):
                there = values.get(key, "nothing")
                self.fault(f"{where}, row {row}: {column[row]!r:.80} and {there!r:.80}")
                return

    def _readable(self, records: Any) -> Any:
        for number in range(len(records)):
            record = self.attempt("a record", lambda number=number: records[number])
            if record is NOTHING:
                return
            yield record

    def _check_frames(self, stream: Any, rng: Random) -> None:
        """Check that frames equal the images of the records, one by one and together."""
        clip = self.attempt(f"{stream.id}.frames", lambda: stream.frames)
        if clip is NOTHING or not len(clip):
            return
        # Frames that differ are read one by one; we have no decoder for JPEG XL.
        allowed = (ImportError, ValueError)
        self.attempt("shape", lambda: (clip.shape, clip.dtype, clip.meta), allowed=allowed)
        rows, start = clip.rows.tolist(), rng.randrange(len(clip))
        frames = self.attempt(
            f"{stream.id}.frames[{start}:]", lambda: clip[start : start + 5 : 2], allowed=allowed
        )
        for k, index in enumerate(range(start, min(start + 5, len(clip)), 2)):
            where = f"{stream.id}.frames[{index}]"
            frame = self.attempt(where, lambda index=index: clip[index], allowed=(ImportError,))
            record = self.attempt(where, lambda index=index: self.recording[rows[index]])
            if frame is NOTHING:
                continue
            if record is NOTHING:
                self.fault(f"{where}: an image of a record that cannot be read")
                continue
            blocks = [block for block in record.blocks if block.kind == "image"]
            images = [self.attempt(where, lambda block=block: image_of(block)) for block in blocks]
            if not any(image is not NOTHING and same_array(frame, image) for image in images):
                self.fault(f"{where}: {frame.shape} {frame.dtype}, not the image of its record")
            if frames is not NOTHING and not same_array(frames[k], frame):
                self.fault(f"{where}: another one with others")

    def _check_checksum(self, recording: Any, rng: Random) -> None:
        one = self.attempt("checksum", recording.checksum)
        if one is NOTHING:
            return
        payloads = [self._payload(recording, row) for row in range(len(recording))]
        if any(each is NOTHING for each in payloads):
            self.fault("a checksum of records that cannot be read")

    def _check_other_ways_in(self, recording: Any, rng: Random) -> None:
        """Check that a path, chunks and a pickle give the same records."""
        path = self.folder / "damaged.vrs"
        for old in self.folder.glob("damaged*"):
            old.unlink()
        cut = rng.randrange(1, len(self.data))
        first, second = self.folder / "damaged_part", self.folder / "damaged_rest"
        path.write_bytes(self.data)
        first.write_bytes(self.data[:cut])
        second.write_bytes(self.data[cut:])
        again = self.attempt("pickle", lambda: pickle.loads(pickle.dumps(recording)))
        for what, opened in (
            ("pickle", lambda: again),
            ("path", lambda: vrs.open(path)),
            ("chunks", lambda: vrs.open([first, second])),
        ):
            other = self.attempt(what, opened)
            if other is NOTHING:
                self.fault(f"{what}: nothing, where the bytes give a recording")
                continue
            with other:
                reference = recording if what == "pickle" else vrs.open(self.data)
                if not same_table(other, reference):
                    self.fault(f"{what}: {len(other)} records, not {len(reference)}")
                elif len(other):
                    row = rng.randrange(len(other))
                    found = [self._payload(each, row) for each in (other, reference)]
                    if found[0] != found[1]:
                        self.fault(f"{what}: record {row} is another one")

    def _payload(self, recording: Any, row: int) -> Any:
        return self.attempt("payload", lambda: bytes(recording.read_payload(row)))

    def _check_rewrites(self, recording: Any, rng: Random) -> None:
        judge = RewriteJudge(recording, self.data, self.folder, self.attempt, self.fault)
        judge.check(rng, NOTHING)

    def _check_pyvrs(self, recording: Any, rng: Random) -> None:
        path = self.folder / "damaged.vrs"
        path.write_bytes(self.data)
        from bloscpack.vrs import pyvrs

        reader = self.attempt("pyvrs", lambda: pyvrs.SyncVRSReader(path))
        if reader is NOTHING:
            return
        with reader:
            self.attempt("pyvrs str", lambda: (str(reader), reader.file_tags, reader.stream_tags))
            for stream_id in sorted(reader.stream_ids)[:3]:
                self.attempt(
                    f"pyvrs {stream_id}",
                    lambda stream_id=stream_id: (
                        reader.get_stream_info(stream_id),
                        reader.might_contain_images(stream_id),
                        reader.get_estimated_frame_rate(stream_id),
                    ),
                    allowed=(ValueError,),
                )
            for row in chosen(rng, len(reader))[:6]:
                record = self.attempt(f"pyvrs [{row}]", lambda row=row: reader[row])
                if record is NOTHING:
                    continue
                for name in (
                    *("metadata_blocks", "image_blocks", "audio_blocks", "custom_blocks"),
                    *("image_specs", "audio_specs", "custom_block_specs", "n_blocks_in_total"),
                ):
                    self.attempt(
                        f"pyvrs [{row}].{name}",
                        lambda record=record, name=name: _all_of(getattr(record, name)),
                    )


def _all_of(found: Any) -> Any:
    return list(found) if hasattr(found, "__iter__") else found


def chosen(rng: Random, count: int) -> list[int]:
    """Return some of the indices below `count`, including those at both ends."""
    if count <= MAX_RECORDS:
        return list(range(count))
    third = MAX_RECORDS // 3
    middle = rng.sample(range(third, count - third), third)
    return [*range(third), *sorted(middle), *range(count - third, count)]


def same_table(one: Any, two: Any) -> bool:
    return np.array_equal(one.table.offset, two.table.offset) and np.array_equal(
        one.table.size, two.table.size
    )


def image_of(block: Any) -> Any:
    """Return the frame that a clip has for an image."""
    is_raw = block.spec.image_format == vrs.ImageFormat.RAW
    return block.array(vrs.ImageConversion.OFF if is_raw else vrs.ImageConversion.DECOMPRESS)


def same_array(one: Any, two: Any) -> bool:
    """Return whether two arrays are equal to the bit."""
    return (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())


def same_record(one: Any, two: Any) -> bool:
    names = ("stream_id", "record_type", "format_version", "record_index")
    return all(getattr(one, name) == getattr(two, name) for name in names) and bytes(
        one.payload
    ) == bytes(two.payload)


def plain(value: Any) -> str:
    """Return a text for a value, equal for equal values from a column and from a record."""
    if isinstance(value, Ragged | Strings):
        value = list(value)
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.dtype.kind != "S" else [_char(each) for each in value.flat]
    if isinstance(value, np.bytes_):
        return repr(_char(value))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return repr({key: plain(each) for key, each in sorted(value.items())})
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain, value))}]"
    return repr(value)


def _char(value: Any) -> bytes:
    return bytes(value).ljust(1, b"\0")
