"""Build the compiled kernels; everything else is in pyproject.toml."""

import os
import re
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

# ext/NAME.pyx builds to bloscpack._ext.NAME; the value names the C libraries it links.
EXTENSIONS = {
    "arraychunk": ["blosc", "m"],
    "blosc": ["blosc"],
    "bmff": [],
    "frame": [],
    "jpeg": [],
    "record": ["blosc"],
    "resident": [],
    "snappy": [],
    "statistics": [],
    "warp": [],
}

# The kernels call functions of C-Blosc that are not part of its interface (ext/block.pxd).
BLOSC_REQUIREMENT = "blosc>=1.11.1,<1.12"
BLOSC_VERSION = "1.21"

# Set by .ci/sanitize: kernels that abort at the first bad memory access or undefined operation.
SANITIZE = bool(os.environ.get("BLOSCPACK_SANITIZE"))
# Set by .ci/baseline: the compiler makes no copies of loops for newer processors.
BASELINE = bool(os.environ.get("BLOSCPACK_BASELINE"))


def blosc_library():
    """Return (include directory, static library) of C-Blosc 1 from the `blosc` wheel.

    The wheel puts both into the environment's prefix, under a name that differs between
    platforms (lib, lib64), so they are looked up in the distribution's own list of files.
    """
    names = {"blosc.h": None, "libblosc.a": None}
    try:
        listed = files("blosc") or []
    except PackageNotFoundError:
        sys.exit(f"setup.py: building needs the 'blosc' package: pip install '{BLOSC_REQUIREMENT}'")
    for entry in listed:
        if entry.name in names:
            names[entry.name] = Path(entry.locate()).resolve()
    for name, path in names.items():
        if path is None or not path.exists():
            sys.exit(
                f"setup.py: {name} is missing from the installed 'blosc' package; only its wheels "
                "carry it: pip install --force-reinstall --only-binary blosc "
                f"'{BLOSC_REQUIREMENT}'"
            )
    header, library = names.values()
    found = re.search(r'#define BLOSC_VERSION_STRING +"([^"]+)"', header.read_text("utf-8"))
    version = found.group(1) if found else "of unknown version"
    if not version.startswith(f"{BLOSC_VERSION}."):
        sys.exit(
            f"setup.py: {header} belongs to C-Blosc {version}; expected {BLOSC_VERSION}.x: "
            f"pip install '{BLOSC_REQUIREMENT}'"
        )
    return header.parent, library


class BuildKernels(build_ext):
    """Translate the kernels with Cython, which only this command needs, and compile them."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or True  # on all processors

    def build_extensions(self):
        if self.editable_mode:
            # The kernels stay in the source tree: another environment may have compiled them.
            inputs = ["setup.py", *Path("ext").iterdir()]
            self.extensions = [
                each
                for each in self.extensions
                if newer_group(inputs, self.get_ext_filename(each.name))
            ]
        try:
            from Cython.Build import cythonize
        except ImportError:
            sys.exit("setup.py: building needs Cython: pip install 'Cython>=3.1'")
        for extension in self.extensions:
            [translated] = cythonize(
                [extension],
                compiler_directives={"language_level": "3str", "embedsignature": False},
                build_dir="build/cython",
            )
            extension.sources = translated.sources
            libraries = EXTENSIONS[extension.name.rpartition(".")[2]]
            extension.libraries.extend(name for name in libraries if name != "blosc")
            if "blosc" in libraries:
                include_dir, library = blosc_library()
                extension.include_dirs.append(str(include_dir))
                extension.extra_objects.append(str(library))
        super().build_extensions()


def kernel(name):
    if SANITIZE:
        checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        compile_args = ["-O1", "-g", "-fno-omit-frame-pointer", *checks]
        link_args = list(checks)
    else:
        compile_args = ["-O3", "-g0"]
        # No debug information: on macOS -S leaves out what on Linux -s does.
        link_args = ["-Wl,-s" if sys.platform == "linux" else "-Wl,-S"]
    if BASELINE:
        compile_args.append("-Dtarget_clones(...)=")
    if sys.platform == "linux":
        # Keep the codec's symbols to ourselves: another C-Blosc may live in the process.
        link_args.append("-Wl,--exclude-libs,ALL")
    return Extension(
        f"bloscpack._ext.{name}",
        [f"ext/{name}.pyx"],
        depends=sorted(map(str, Path("ext").glob("*.h"))),
        include_dirs=["ext"],
        extra_link_args=link_args,
        extra_compile_args=[*compile_args, "-ffp-contract=off"],
    )


def long_description():
    """Return README.md for a package index, which has none of the files that it refers to.

    Relative links become plain text. Left out are pictures, with the paragraph behind each, and
    lists of links and links in parentheses.
    """
    link = r"\[([^]]*)\]\((?!https?:)[^)]*\)"
    changes = (
        (rf"(?s)!{link}\n\n.+?\n\n", ""),
        (rf"\s*\({link}(?:, {link})*\)", ""),
        (rf"(?m)^[^\[\n]*{link}(?:\s·\s{link})+\.?\n\n?", ""),
        (link, r"\1"),
    )
    # Every second part is code.
    parts = re.split(r"(?ms)(^```.*?^```$)", Path("README.md").read_text("utf-8"))
    for old, new in changes:
        parts[::2] = (re.sub(old, new, part) for part in parts[::2])
    return "".join(parts)


if sys.platform == "win32":
    sys.exit("setup.py: bloscpack supports Linux and macOS; on Windows, use WSL")

setup(
    ext_modules=[kernel(name) for name in EXTENSIONS],
    cmdclass={"build_ext": BuildKernels},
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
