"""Commit: gaps, overlaps, foreign records and damaged parts are refused.

The life of a job is tested in `storage/test_remoteparts.py`, in files and in object stores.
"""

from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array.parts import PartsJob
from bloscpack.container.chunkparts import PartRecord
from bloscpack.exceptions import ChecksumMismatch, LockedError, TruncatedError

from ..strategies import AnyArray
from .test_parts import SHAPE, written
from .test_parts import array as array
from .test_parts import job as job


def all_written(job: PartsJob, array: AnyArray, step: int = 6) -> list[PartRecord]:
    return [job.write(start, array[start : start + step]) for start in range(0, 23, step)]


class TestCommit:
    def test_gaps(self, job: PartsJob, array: AnyArray) -> None:
        records = all_written(job, array)
        assert job.missing(records) == []
        assert job.missing([]) == [(0, 23)]
        assert job.missing([records[2], records[0]]) == [(6, 12), (18, 23)]
        for wrong in (records[1:], records[:-1], records[::2], []):
            with pytest.raises(ValueError, match=r"a\.blp: no part has rows \d+ to \d+"):
                job.commit(wrong)
        assert not Path(job.path).exists()
        job.commit(records)

    def test_only_some_gaps_are_listed(self, job: PartsJob, array: AnyArray) -> None:
        many = bp.parts(Path(job.path), shape=(100,), dtype="u1", chunks=1)
        records = [many.write(n, np.zeros(1, "u1")) for n in range(0, 100, 2)]
        with pytest.raises(ValueError, match=r"rows 1 to 2, 3 to 4, .* and 45 more, of 100"):
            many.commit(records)

    def test_overlaps(self, job: PartsJob, array: AnyArray) -> None:
        records = all_written(job, array)
        for other in (job.write(3, array[3:9]), job.write(0, array[:3]), job.write(0, array)):
            with pytest.raises(ValueError, match="parts overlap: rows 0 to "):
                job.commit([*records, other])
            with pytest.raises(ValueError, match="parts overlap"):
                job.missing([other, *records])
        job.commit(records)

    def test_a_task_that_ran_twice(self, job: PartsJob, array: AnyArray) -> None:
        records = [*all_written(job, array), *all_written(job, array)]
        assert len({record.key for record in records}) == 8
        job.commit(records)
        assert np.array_equal(bp.load(job.path), array)

    def test_a_task_that_ran_twice_with_different_results(
        self, job: PartsJob, array: AnyArray
    ) -> None:
        records = all_written(job, array)
        other = job.write(6, array[6:12] + 1)
        with pytest.raises(ValueError, match="rows 6 to 12 were written twice, and differ"):
            job.commit([*records, other])
        # With only one of the two records, that part is used.
        job.commit([other, records[0], *records[2:]])
        assert np.array_equal(bp.load(job.path)[6:12], array[6:12] + 1)

    def test_records_of_another_job(self, job: PartsJob, array: AnyArray) -> None:
        others = [
            bp.parts(job.path, shape=SHAPE, dtype="i4", chunks=3),
            bp.parts(job.path, shape=SHAPE, dtype="u4", chunks=3, id=job.id),
            bp.parts(job.path, shape=SHAPE, dtype="i4", chunks=3, codec="lz4", id=job.id),
            bp.parts(job.path, shape=SHAPE, dtype="i4", chunks=3, attrs={"a": 1}, id=job.id),
        ]
        for other in others:
            rows = array[:3].view(other.dtype)
            with pytest.raises(ValueError, match="rows 0 to 3 were written for another job"):
                job.commit([other.write(0, rows)])
        with pytest.raises(TypeError, match="expected a PartRecord"):
            job.commit(["a.blp"])  # type: ignore[list-item]
        job.abort(others=True)

    def test_the_same_job_made_twice(self, job: PartsJob, array: AnyArray) -> None:
        again = bp.parts(job.path, shape=SHAPE, dtype="i4", chunks=3, id=job.id)
        records = [each.write(a, array[a:b]) for a, b in job.split(1) for each in (job, again)]
        again.commit(records)
        assert np.array_equal(bp.load(job.path), array)

    @pytest.mark.parametrize("change", ["cut", "longer", "flipped", "gone", "foreign"])
    @pytest.mark.parametrize("number", [0, 2, 3])
    def test_a_damaged_part(self, job: PartsJob, array: AnyArray, number: int, change: str) -> None:
        """The error names the rows, and a part written again is accepted."""
        records = all_written(job, array)
        (folder,) = Path(job.path).parent.glob(".bloscpack-*")
        part = folder / records[number].key
        data = bytearray(part.read_bytes())
        start, stop = records[number].start, records[number].stop
        error: type[Exception] = ChecksumMismatch
        if change == "cut":
            part.write_bytes(data[:-1])
            error = TruncatedError
        elif change == "longer":
            part.write_bytes(data + b"\0")
            error = TruncatedError
        elif change == "gone":
            part.unlink()
            error = FileNotFoundError
        elif change == "foreign":
            part.write_bytes(bytes(len(data)))
        for at in range(len(data)) if change == "flipped" else [0]:
            if change == "flipped":
                part.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
            with pytest.raises(error, match=f"rows {start} to {stop}.*write it again") as caught:
                job.commit(records)
            assert "a.blp" in str(caught.value)
        assert not Path(job.path).exists()
        assert len(list(folder.iterdir())) == 4 - (change == "gone")
        records[number] = job.write(start, array[start:stop])
        job.commit(records)
        assert np.array_equal(bp.load(job.path), array)

    def test_without_verification(self, job: PartsJob, array: AnyArray) -> None:
        """A flipped bit is copied and found on reading; the size is still compared."""
        records = all_written(job, array)
        (folder,) = Path(job.path).parent.glob(".bloscpack-*")
        part = folder / records[1].key
        data = bytearray(part.read_bytes())
        part.write_bytes(data[:-1])
        with pytest.raises(TruncatedError):
            job.commit(records, verify=False)
        data[40] ^= 1
        part.write_bytes(data)
        job.commit(records, verify=False)
        with pytest.raises(ChecksumMismatch, match="chunk 2"):
            bp.load(job.path)

    def test_a_file_that_is_replaced(self, job: PartsJob, array: AnyArray) -> None:
        """The old file stays until the commit; the new file and the parts have its permissions."""
        path = Path(job.path)
        bp.save(path, np.zeros(3))
        path.chmod(0o600)
        records = all_written(job, array)
        (folder,) = path.parent.glob(".bloscpack-*")
        assert {part.stat().st_mode & 0o777 for part in folder.iterdir()} == {0o600}
        assert bp.load(path).shape == (3,)
        job.commit(records)
        assert np.array_equal(bp.load(path), array)
        assert path.stat().st_mode & 0o777 == 0o600

    def test_a_file_that_a_writer_has_open(self, job: PartsJob, array: AnyArray) -> None:
        records = all_written(job, array)
        bp.save(job.path, np.zeros(3))
        with bp.open(job.path, "a"):
            with pytest.raises(LockedError):
                job.commit(records)
            with pytest.raises(LockedError):
                bp.parts(job.path, shape=(), dtype="u1")
        job.commit(records)

    def test_through_a_link(self, tmp_path: Path, array: AnyArray) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link.blp").symlink_to(tmp_path / "real" / "a.blp")
        written(tmp_path / "link.blp", array)
        assert (tmp_path / "link.blp").is_symlink()
        assert np.array_equal(bp.load(tmp_path / "real" / "a.blp"), array)
