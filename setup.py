"""Build the compiled kernels; everything else is in pyproject.toml."""

import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# ext/NAME.pyx builds to bloscpack._ext.NAME; the value names the C libraries it links.
EXTENSIONS = {
    "blosc": ["blosc"],
    "bmff": [],
    "frame": [],
    "record": ["blosc"],
    "snappy": [],
    "warp": [],
}


def blosc_library():
    """Return (include directory, static library) of C-Blosc 1 from the `blosc` wheel.

    The wheel puts both into the environment's prefix, under a name that differs between
    platforms (lib, lib64), so they are looked up in the distribution's own list of files.
    """
    names = {"blosc.h": None, "libblosc.a": None}
    try:
        listed = files("blosc") or []
    except PackageNotFoundError:
        sys.exit("setup.py: the 'blosc' package is needed to build: pip install 'blosc>=1.11.1,<2'")
    for entry in listed:
        if entry.name in names:
            names[entry.name] = Path(entry.locate()).resolve()
    for name, path in names.items():
        if path is None or not path.exists():
            sys.exit(
                f"setup.py: {name} is missing from the installed 'blosc' package; only its wheels "
                "carry it: pip install --force-reinstall --only-binary blosc blosc"
            )
    header, library = names.values()
    return header.parent, library


def extension(name, libraries):
    include_dirs, extra_objects, link_args = ["ext"], [], []
    if "blosc" in libraries:
        include_dir, library = blosc_library()
        include_dirs.append(str(include_dir))
        extra_objects.append(str(library))
        if sys.platform == "linux":
            # Keep the codec's symbols to ourselves: another C-Blosc may live in the process.
            link_args.append("-Wl,--exclude-libs,ALL")
    return Extension(
        f"bloscpack._ext.{name}",
        [f"ext/{name}.pyx"],
        include_dirs=include_dirs,
        extra_objects=extra_objects,
        extra_link_args=link_args,
        extra_compile_args=["-O3", "-ffp-contract=off"],
    )


setup(
    ext_modules=cythonize(
        [extension(name, libraries) for name, libraries in EXTENSIONS.items()],
        compiler_directives={"language_level": "3str", "embedsignature": False},
        build_dir="build/cython",
    )
)
