"""The package: extras named in messages, imports without warnings, contents of the sdist."""

import ast
import json
import re
import subprocess
import sys
import tarfile
import tomllib
from email import message_from_bytes
from itertools import chain
from pathlib import Path

import pytest

from .conftest import PACKAGE, REPOSITORY

TOOLS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
PROJECT = TOOLS["project"]
EXTRAS = PROJECT["optional-dependencies"]

PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
SOURCES = sorted([*PACKAGE.rglob("*.py"), *PAGES])


def extras_named_in(text: str) -> set[str]:
    lists = re.findall(r"bloscpack\[([a-z0-9_,\s-]+)\]", text)
    return {name.strip() for names in lists for name in names.split(",")}


def texts_of(path: Path) -> str:
    """Return a page, or only the strings of a module, where `bloscpack[x]` may be code."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return text
    nodes = list(ast.walk(ast.parse(text)))
    strings = [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    strings += [
        f"bloscpack[{ast.literal_eval(call.args[1])}]"
        for call in calls
        if ast.unparse(call.func) == "optional_library"
    ]
    return "\0".join(strings)  # no name goes on in the next string


@pytest.mark.slow
def test_extras_that_messages_and_pages_name_can_be_installed() -> None:
    unknown = {}
    named = set()
    for path in SOURCES:
        extras = extras_named_in(texts_of(path))
        named |= extras
        if extras - set(EXTRAS):
            unknown[path.name] = extras - set(EXTRAS)
    assert unknown == {}
    assert {"hdf5", "http", "image", "s3", "torch", "video", "vrs"} <= named


def test_the_extra_all_has_every_library() -> None:
    [everything] = EXTRAS["all"]
    # The viewers are programs of their own.
    assert extras_named_in(everything) == set(EXTRAS) - {"all", "napari", "rerun"}


def test_lowest_versions_are_those_of_the_metadata() -> None:
    bounds = {}
    for requirement in [*PROJECT["dependencies"], *chain.from_iterable(EXTRAS.values())]:
        found = re.match(r"([A-Za-z0-9_-]+)(?:\[[a-z,]+\])?>=([0-9.]+)", requirement)
        if found:
            bounds[found[1].lower()] = found[2]
    lines = (REPOSITORY / "constraints" / "lowest.txt").read_text("utf-8").splitlines()
    lowest = dict(line.lower().split("==") for line in lines if "==" in line)
    hard = {re.split("[>=;]", requirement)[0].lower() for requirement in PROJECT["dependencies"]}
    assert hard <= set(lowest)
    for name, version in lowest.items():
        if name in bounds:
            parts = zip(version.split("."), bounds[name].split("."), strict=False)
            assert all(a == b for a, b in parts), f"{name}: {version}, declared {bounds[name]}"


def test_libraries_are_declared_as_they_are_used() -> None:
    dependencies = PROJECT["dependencies"]
    # From Python 3.14 on the standard library has it.
    assert "zstandard>=0.22; python_version < '3.14'" in dependencies
    assert any(each.startswith("pillow-jxl-plugin") for each in EXTRAS["vrs"])
    # The kernels are linked with inner functions of this series of C-Blosc.
    setup = (REPOSITORY / "setup.py").read_text("utf-8")
    [blosc] = re.findall(r'^BLOSC_REQUIREMENT = "(.*)"$', setup, re.MULTILINE)
    assert re.search(r"<1\.12$", blosc)
    assert blosc in TOOLS["build-system"]["requires"]


def test_every_kernel_declares_that_it_needs_no_global_lock() -> None:
    kernels = sorted((REPOSITORY / "ext").glob("*.pyx"))
    assert kernels
    for path in kernels:
        first = path.read_text("utf-8").partition("\n")[0]
        assert "freethreading_compatible=True" in first, path.name


IMPORT_ALL = """
import importlib, json, sys, warnings
missing = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except ImportError as err:
        if err.name is None or err.name.split(".")[0] == "bloscpack":
            raise
        missing[name] = err.name
print(json.dumps(missing))
"""


def module_names() -> list[str]:
    paths = (path.relative_to(REPOSITORY).with_suffix("") for path in PACKAGE.rglob("*.py"))
    names = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    return sorted(names - {"bloscpack.__main__"})  # it is the program


OPTIONAL = {"aiohttp", "dask", "fsspec", "h5netcdf", "h5py", "numcodecs", "tifffile", "torch"}
OPTIONAL |= {"anyio", "anywidget", "rich", "starlette", "tqdm", "uvicorn", "xarray", "zarr"}


def test_every_module_is_imported_without_a_warning() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_ALL],
        input=json.dumps(module_names()),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (run.returncode, run.stderr) == (0, "")
    # Skipped only if the library that the module integrates is not installed.
    for name, library in json.loads(run.stdout).items():
        places = (
            "array.cfencoding",
            "array.daskparts",
            "benzina.load.",
            "exchange.",
            "integrations.",
            "storage.",
            "view.",
        )
        assert name.removeprefix("bloscpack.").startswith(places)
        assert library.split(".")[0] in OPTIONAL


def git(*arguments: str) -> list[str]:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout of the repository: there is nothing to compare with")
    run = subprocess.run(["git", *arguments, "-z"], cwd=REPOSITORY, capture_output=True)
    if run.returncode:
        pytest.skip(f"git fails here: {run.stderr.decode()}")
    names = run.stdout.decode().split("\0")
    return [name for name in names if name and (REPOSITORY / name).exists()]


@pytest.fixture(scope="module")
def sdist_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source distribution built by this fixture."""
    pytest.importorskip("setuptools", "77", reason="the source distribution is made by setuptools")
    folder = tmp_path_factory.mktemp("sdist")
    run = subprocess.run(
        [
            *(sys.executable, "setup.py", "--quiet"),
            *("egg_info", "--egg-base", folder),
            *("sdist", "--formats", "tar", "--dist-dir", folder),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    [path] = folder.glob("*.tar")
    return path


@pytest.fixture
def sdist(sdist_path: Path) -> set[str]:
    """Names of the files in the source distribution."""
    with tarfile.open(sdist_path) as archive:
        return {
            member.name.split("/", maxsplit=1)[1]
            for member in archive.getmembers()
            if member.isfile()
        }


@pytest.mark.slow
def test_the_sdist_has_every_file_of_the_repository(sdist: set[str]) -> None:
    assert set(git("ls-files")) - sdist == set()


def test_the_sdist_has_nothing_else(sdist: set[str]) -> None:
    known = set(git("ls-files", "--cached", "--others", "--exclude-standard"))
    generated = {"PKG-INFO", "setup.cfg"}
    assert {name for name in sdist - known - generated if ".egg-info/" not in name} == set()


def test_the_description_for_a_package_index_refers_to_no_file(sdist_path: Path) -> None:
    with tarfile.open(sdist_path) as archive:
        [name] = [name for name in archive.getnames() if re.fullmatch(r"[^/]+/PKG-INFO", name)]
        found = archive.extractfile(name)
        assert found is not None
        metadata = message_from_bytes(found.read())
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert [to for to in re.findall(r"\]\((.*?)\)", text) if not to.startswith("https:")] == []
    assert not re.search(r"!\[|<img|\(how\)|\(\)", text)
    # Words and code stay.
    page = (REPOSITORY / "README.md").read_text("utf-8")
    code = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert code.findall(text) == code.findall(page)
    assert re.findall(r"^#.*", text, re.MULTILINE) == re.findall(r"^#.*", page, re.MULTILINE)
    assert "compressed with\n[C-Blosc](https://www.blosc.org)" in text
    assert "or Dask; Zarr and xarray read" in text
    assert not text.startswith("\n\n")
