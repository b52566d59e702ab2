"""Datasets to grow and to read, and how much is done with them."""

import numpy as np
import xarray as xr
from race.races import Setting

VARIABLE = "v0"  # that is read
NHOURS = 24  # of a part that is appended
_START = np.datetime64("2020-01-01", "ns")
_HOUR = np.timedelta64(1, "h")

# How much is done: in a full run, and in a try.
SETTINGS = {
    "fine": ((180, 360), (18, 36)),
    "coarse": ((18, 36), (9, 18)),
    "nvariables": (5, 2),
    "nappends": (10, 3),
    "nsmall": (40, 3),  # appends of the coarse grid
    "stored": ((1000, 90, 180), (96, 18, 36)),  # hours, latitudes, longitudes that are read
    "chunk": ((50, 30, 60), (24, 9, 18)),
    "nplaces": (31, 3),
    "delay": (0.02, 0.001),  # seconds that the server waits before each answer
    "nmeasured": (None, 2),  # arrays for statistics, as in bench/arrays
    "nmade": (1 << 22, 1 << 16),
    "nframes": (16, 1),
    "ntrials": (15, 3),
    "nrounds": (5, 2),
}


def make_part(first: int, nhours: int, shape: tuple[int, int], nvariables: int) -> xr.Dataset:
    """Return fields of some hours: a daily cycle, and noise, rounded to 0.01."""
    rng = np.random.default_rng(first)
    y, x = np.linspace(0, 6, shape[0])[:, None], np.linspace(0, 6, shape[1])
    day = 3 * np.sin((first + np.arange(nhours)) * 2 * np.pi / 24)[:, None, None]
    fields = {}
    for number in range(nvariables):
        field = (np.sin(y + number) + np.cos(2 * x + number)) * 10 + 280 + day
        field = np.round(field + 0.3 * rng.normal(size=field.shape), 2).astype("f4")
        fields[f"v{number}"] = (("time", "lat", "lon"), field, {"units": "K"})
    coords = {
        "time": _START + (first + np.arange(nhours)) * _HOUR,
        "lat": np.linspace(-90, 90, shape[0]),
        "lon": np.linspace(0, 360, shape[1], endpoint=False),
    }
    return xr.Dataset(fields, coords)


def make_stored(setting: Setting) -> xr.Dataset:
    """Return the dataset that is read, with a storm in about 1 % of its chunks."""
    nhours, *shape = setting.stored
    dataset = make_part(0, nhours, tuple(shape), 2)
    values, chunk = dataset[VARIABLE].values, setting.chunk
    counts = [-(-length // step) for length, step in zip(setting.stored, chunk, strict=True)]
    number = np.prod(counts)
    for place in np.random.default_rng(3).permutation(number)[: max(number // 100, 1)]:
        at = np.unravel_index(place, counts)
        values[tuple(index * step for index, step in zip(at, chunk, strict=True))] = 400
    return dataset


def make_typed(setting: Setting) -> dict[str, np.ndarray]:
    """Return a random walk as each type that has statistics, and times."""
    rng = np.random.default_rng(7)
    walk = np.cumsum(rng.integers(-9, 10, setting.nmade)) * 0.25
    above = walk - walk.min()
    walks = {"i1": walk % 100, "i2": walk, "i4": 16 * walk, "i8": 16 * walk}
    walks |= {"u2": above, "u4": 16 * above, "u8": 16 * above}
    walks |= {"f2": walk % 1000, "f4": walk, "f8": walk, "?": above > above.mean()}
    typed = {f"walk_{dtype}": values.astype(dtype) for dtype, values in walks.items()}
    steps = 10**6 + rng.integers(-300, 300, setting.nmade)
    return typed | {
        "clock_M8": np.cumsum(steps).view("M8[ns]"),
        "hours_M8": (np.arange(setting.nmade) * 3600 * 10**9).view("M8[ns]"),
    }
