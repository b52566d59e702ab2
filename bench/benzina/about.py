"""What a run was made of: machine, versions, parameters, file systems, pictures."""

import racepage
from races import file_system

from benzina.data import ABOUT
from benzina.race import Bench


def surroundings(bench: Bench) -> dict[str, str]:
    """Return what the page says above the figures, by name."""
    setting = bench.setting
    about = racepage.surroundings(bench)
    about["files"] = (
        f"read from {file_system(bench.folder)}, in the page cache; packed to "
        f"{file_system(bench.memory_folder)}"
    )
    sizes = ", ".join(f"{width} x {height}" for height, width in setting.sizes)
    texts = (text for name, text in ABOUT.items() if name not in bench.absent)
    about["pictures"] = f"{setting.npictures} of {sizes}; {'; '.join(texts)}"
    about["rounds"] = str(setting.nrounds)
    return about
