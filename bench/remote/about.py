"""What a run was made of: machine, versions, parameters, the array."""

import racepage
from races import file_system

from remote.data import ABOUT
from remote.race import CODEC, LEVEL, Bench


def surroundings(bench: Bench, versions: list[str]) -> dict[str, str]:
    """Return what the page says above the figures, by name; `versions`: of libraries."""
    setting = bench.setting
    about = racepage.surroundings(bench, libraries=versions)
    about["array"] = (
        f"uint8, {' x '.join(map(str, bench.array.shape))}, {bench.array.nbytes / 1e6:,.1f} MB in "
        f"chunks of {setting.chunk_rows} rows, Blosc with {CODEC}, level {LEVEL}; {ABOUT}"
    )
    about["stored"] = ", ".join(
        f"{name} {nbytes / 1e6:,.1f} MB" for name, nbytes in bench.sizes.items()
    )
    about["files of Dask"] = f"in {file_system(bench.folder)}, in the page cache"
    about["rounds"] = f"{setting.nrounds}; {setting.ndask_rounds} under Dask"
    return about
