"""Cases: appending, reading points, maps and few chunks, and the cost of statistics."""

import shutil
from functools import partial
from time import thread_time
from typing import Any

import numpy as np
from arrays.data import make_samples
from race.races import Benchmark, Case, Races, Task, file_system, size_of
from remote.serving import S3, publish, serving

from bloscpack.array.arraymetadata import statistics_type
from bloscpack.format.codec import CodecParams, encode_measured
from datasets.contenders import APPEND, READ, SCAN, TABLE, Contender
from datasets.data import SETTINGS, VARIABLE, make_part, make_stored, make_typed

DISK, LIMIT = "disk", 350  # kelvin; nothing but storms is above it
_CHUNK_NBYTES = 1 << 20


class Datasets(Races):
    """Races over a dataset that came from netCDF, on disk and behind S3, and over new ones.

    Attributes
    ----------
    server : Server
        An S3 API, which has the files of all contenders.
    """

    folder_name, table = "datasets", TABLE

    def make_data(self) -> None:
        setting = self.setting
        self.server: Any = self.closing.enter_context(serving())[S3]
        dataset, source = make_stored(setting), self.folder / "source.nc"
        self._wanted = self.folder / "wanted.npy"
        np.save(self._wanted, dataset[VARIABLE].values)
        filters = {"zlib": True, "complevel": 4, "shuffle": True, "chunksizes": setting.chunk}
        encoding = dict.fromkeys(dataset.data_vars, filters)
        dataset.to_netcdf(source, engine="h5netcdf", encoding=encoding)
        sizes = self.found["sizes"] = {}
        for one in self.contenders:
            path = self.folder / f"read{one.suffix}"
            if READ in one.works and not path.exists():
                one.copy(source, path, setting.chunk)
                publish(self.server, path)
                sizes[one.name] = size_of(path)

    def about(self) -> dict[str, str]:
        about = super().about()
        about["files"] = f"in {file_system(self.folder)}, read from the page cache"
        about["stored"] = ", ".join(
            f"{name} {nbytes / 1e6:,.1f} MB" for name, nbytes in self.found["sizes"].items()
        )
        return about

    def task(self, one: Contender, where: str, work: str, part: str, *, is_open: bool) -> Task:
        """Return a task that reads from the disk or from S3."""
        name, (nhours, height, width) = f"read{one.suffix}", self.setting.stored
        rng = np.random.default_rng(4)
        places = rng.integers(0, (nhours, height, width), (self.setting.nplaces, 3)).tolist()
        point = [[None, y, x] for _, y, x in places]
        place, options = str(self.folder / name), {}
        if where == S3:
            place, options = self.server.place(name)
        return {
            "work": work,
            "place": place,
            "options": options,
            "wanted": self._wanted,
            "indices": point if part == "point" else [[hour, None, None] for hour, _, _ in places],
            "is_open": is_open,
            "limit": LIMIT,
            "step": self.setting.chunk[0],
        }


def race_appends(races: Datasets) -> None:
    """Append parts of a day to a dataset, each durable."""
    setting = races.setting
    for shape, nappends in (
        (setting.fine, setting.nappends),
        (setting.coarse, setting.nsmall),
    ):
        size = f"{setting.nvariables} x 24 x {' x '.join(map(str, shape))}"
        case = Case(f"append/{size}", f"append {size}, durable", 0)
        nbytes: dict[str, int] = races.found.setdefault("appended", {}).setdefault(size, {})

        def task(one: Contender, shape: Any = shape, nappends: int = nappends) -> Task:
            return {
                "work": APPEND,
                "path": races.folder / f"append {one.name}{one.suffix}",
                "shape": shape,
                "nvariables": setting.nvariables,
                "nappends": nappends,
            }

        races.hold_work(case, APPEND, task, nappends)
        parts = [make_part(24 * at, 24, tuple(shape), setting.nvariables) for at in range(4)]
        for one in races.contenders:
            if APPEND in one.works:
                path = races.folder / f"size{one.suffix}"
                one.create(path, parts[0])
                for part in parts[1:]:
                    one.append(path, part)
                nbytes[one.name] = size_of(path)
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def race_reads(races: Datasets) -> None:
    """Read the series of a point, and a map, from the disk and behind S3."""
    for where in (DISK, S3):
        for part in ("point", "map"):
            for is_open in (False, True):
                what = "series of a point" if part == "point" else "a map"
                how = "" if is_open else "open, "
                case = Case(f"read/{where}, {how}{part}", f"{how}{what}", 0)
                task = partial(races.task, where=where, work=READ, part=part, is_open=is_open)
                races.server.delay = races.setting.delay if where == S3 else 0.0
                try:
                    races.hold_work(case, READ, task)
                finally:
                    races.server.delay = 0.0


def count_scans(races: Datasets) -> None:
    """Count the requests and bytes of finding the items of storms behind S3."""
    found: dict[str, list[int]] = {}
    for one in races.contenders:
        if SCAN in one.works:
            races.say(f"scan, {one.name}")
            log = races.server.log
            log.clear()
            races.worker(one.name).prepare(**races.task(one, S3, SCAN, "map", is_open=False))
            found[one.name] = [len(log), sum(request.nbytes for request in log)]
    races.found[SCAN] = found


def time_statistics(races: Datasets) -> None:
    """Find how much longer a chunk takes with its statistics, in processor time."""
    rows: dict[str, list[float]] = {}
    for name, array in _typed_arrays(races).items():
        races.say(f"statistics of {name}")
        plain = CodecParams("zstd", 3, 1 if array.itemsize > 1 else 0, array.itemsize)
        step = _CHUNK_NBYTES // array.itemsize
        flat = array.reshape(-1)
        chunks = [flat[at : at + step].view(np.uint8).data for at in range(0, len(flat), step)]
        kind = statistics_type().stored(array.dtype, step * array.itemsize)
        measured = CodecParams(**{**_fields(plain), "statistics": kind})
        best = np.full((len(chunks), 2), np.inf)
        for trial in range(races.setting.ntrials):
            for at, chunk in enumerate(chunks):
                for which in (trial % 2, 1 - trial % 2):
                    start = thread_time()
                    encode_measured(chunk, measured if which else plain)
                    best[at, which] = min(best[at, which], thread_time() - start)
        plain_seconds, both = best.sum(axis=0).tolist()
        rows[name] = [array.nbytes, plain_seconds, both]
    races.found["statistics"] = rows


def _fields(params: CodecParams) -> dict[str, Any]:
    return {name: getattr(params, name) for name in ("codec", "clevel", "shuffle", "typesize")}


def _typed_arrays(races: Datasets) -> dict[str, np.ndarray]:
    """Return arrays of all types that have statistics; small ones are repeated to some chunks."""
    samples = {one.name: one.array for one in make_samples(races.setting)}
    flat = {name: array.reshape(-1) for name, array in samples.items()} | make_typed(races.setting)
    least = 8 * _CHUNK_NBYTES
    return {
        name: np.tile(one, -(-least // one.nbytes))[: max(least, one.nbytes) // one.itemsize]
        for name, one in flat.items()
    }


BENCHMARK = Benchmark(
    Datasets,
    {
        "appends": race_appends,
        "reads": race_reads,
        "scans": count_scans,
        "statistics": time_statistics,
    },
    SETTINGS,
)
