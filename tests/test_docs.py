"""The documentation matches the package: its code runs, its tables and dumps are correct."""

import doctest
import hashlib
import http.client
import importlib
import json
import pkgutil
import re
import runpy
import shlex
import zlib

import numpy as np
import pytest
import xxhash

import bloscpack as bp
from bloscpack.cli.main import main
from bloscpack.format.checksum import CHECKSUMS, LAST_V3_ID, checksum_by_name

from .conftest import ReferenceFolder
from .entrypoints import entry_points
from .pages import DOCS, FENCE, ROOT, blocks, dump_of, page_fixture, run_page

FORMAT = DOCS / "formats" / "bloscpack.md"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]

# Languages of code blocks that are not run, with the reason.
NOT_RUN = {
    "text": "a drawing or an output",
    "hex": "compared with the file it shows",
    "console": "commands; those of blpk are run by the tests of the command line",
    "sh": "commands for the reader's machine",
    "json": "data",
    "cython": "an excerpt of a kernel, built with the package",
    "python-excerpt": "a part of a file to be edited, not a program",
}

format_page = page_fixture(FORMAT)


def empty_moto():
    """Reset moto, which keeps the objects of other pages for the whole process."""
    moto = pytest.importorskip("moto.server", reason="the page has a server of it")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        connection = http.client.HTTPConnection(host, port)
        connection.request("POST", "/moto-api/reset")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        server.stop()


def page_id(page):
    return page.relative_to(ROOT).as_posix()


def run(page, folder):
    """Run the Python of a page, or skip the test if a library that it uses is missing."""
    text = page.read_text("utf-8")
    if "ThreadedMotoServer" in text:
        empty_moto()
    if "import blosc\n" in text:
        pytest.importorskip("blosc", reason="the page uses the blosc package")
    for name in (
        "torch",
        "dask.array",
        "distributed",
        "ray",
        "zarr",
        "kerchunk",
        "h5py",
        "pandas",
        "tifffile",
    ):
        is_imported = re.search(rf"^(import|from) {name}\b", text, re.MULTILINE)
        if is_imported or f'engine="{name}"' in text:
            pytest.importorskip(name, reason="the page uses it")
    if re.search(r"\.(player|viewer)\(\)$", text, re.MULTILINE):
        pytest.importorskip("anywidget", reason="the page shows widgets")
    if "\nimport xarray as xr\n" in text:
        pytest.importorskip("xarray", reason="the page uses it")
        with entry_points(folder / "site"):
            run_page(page)
    else:
        run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, tmp_path)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((DOCS / "tutorials").glob("*.md"))], ids=page_id
)
def test_shell_lines_run_after_the_code(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, tmp_path)
    [session] = [text for language, text, _ in blocks(page) if language == "console"]
    for line in session.splitlines():
        dollar, program, *argv = shlex.split(line)
        assert (dollar, program, main(argv)) == ("$", "blpk", 0), line
    if page.name == "README.md":
        assert np.array_equal(np.load("noon.npy"), bp.load("again.blp")[12, 40:60, ::2])


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_names_its_language(page):
    assert {language for language, _, _ in blocks(page)} <= {"python", *NOT_RUN}


def test_blocks_are_found():
    assert sum(len(blocks(page)) for page in PAGES) > 20
    assert {language for language, _, _ in blocks(FORMAT)} == {"python", "hex", "text"}


def anchors(page):
    """Return the anchors of a page's headings, as code hosts and the site make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    plain = [re.sub(r"\]\([^)]*\)|[`*\[]", "", heading).strip().lower() for heading in headings]
    return [re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in plain]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", text):
        if target.startswith(("https:", "http:")):
            continue
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), f"{page_id(page)} links to {target}"
        if anchor:
            assert anchors(other).count(anchor) == 1, f"{page_id(page)} links to {target}"


def test_navigation_of_the_site_names_every_page():
    text = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"\S+\.md$", text, re.MULTILINE)
    generated = ["changes.md", "index.md", "security.md"]  # by .ci/site.py, as the reference is
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(named) == sorted([*pages, *generated])
    guides = (DOCS / "howto" / "index.md").read_text("utf-8")
    paths = [path.name for path in (DOCS / "howto").iterdir() if path.name != "index.md"]
    assert [name for name in paths if f"]({name})" not in guides] == []


def test_figures_are_those_of_the_script():
    """If not: ``python .ci/figures.py``."""
    script = runpy.run_path(str(ROOT / ".ci" / "figures.py"))
    drawn = {f"{name}.svg": draw().svg() for name, draw in script["FIGURES"].items()}
    stored = {path.name: path.read_text("utf-8") for path in (DOCS / "figures").iterdir()}
    assert stored == drawn
    text = "".join(path.read_text("utf-8") for path in DOCS.rglob("*.md"))
    assert [name for name in drawn if f"figures/{name})" not in text] == []


def modules():
    return ["bloscpack"] + [
        name
        for _, name, is_package in pkgutil.walk_packages(bp.__path__, "bloscpack.")
        if not name.startswith("bloscpack._ext.")
    ]


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name in ("bloscpack.benzina.load.ongpu", "bloscpack.benzina.load.torchloader"):
        pytest.importorskip("torch", reason="the module imports it")
    try:
        module = importlib.import_module(name)
    except ImportError as err:
        places = ("array.cfencoding", "array.daskparts", "exchange.", "integrations.", "view.")
        if not name.removeprefix("bloscpack.").startswith(places):
            raise
        pytest.skip(f"the module imports {err.name}")
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_api_page_names_everything_public():
    text = (DOCS / "api.md").read_text("utf-8")
    missing = [name for name in bp.__all__ if not re.search(rf"`(bp\.)?{name}[`(]", text)]
    assert missing == []
    errors = [
        name
        for name, value in vars(bp.exceptions).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and not name.startswith("_")
        and value.__module__ == "bloscpack.exceptions"
    ]
    assert [name for name in errors if f"`{name}`" not in text] == []


def test_api_page_names_everything_public_of_recordings():
    text = (DOCS / "api.md").read_text("utf-8")
    section = text.partition("\n## VRS recordings\n")[2].partition("\n## ")[0]
    names = bp.vrs.__all__
    assert [name for name in names if not re.search(rf"`(vrs\.)?{name}[`(]", section)] == []


def test_api_page_names_everything_public_of_datasets():
    text = (DOCS / "api.md").read_text("utf-8")
    section = text.partition("\n## Benzina datasets\n")[2].partition("\n## ")[0]
    module = bp.benzina.transforms
    classes = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
    names = [*bp.benzina.__all__, *classes]
    assert "RandomResizedCrop" in names
    assert [n for n in names if not re.search(rf"`(benzina\.)?{n}[`(]", section)] == []


def test_files_that_the_guide_for_contributors_names_exist():
    text = (DOCS / "contributing.md").read_text("utf-8")
    package = ROOT / "bloscpack"
    places = (package, ROOT, DOCS, ROOT / "tests")
    paths = re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|pyx|md|json|txt|toml))`", text)
    table = text.partition("\n## Where is it?\n")[2].partition("\n## ")[0]
    questions = re.findall(r"^\| Where .* \| `(.*)` \|$", table, re.MULTILINE)
    assert len(questions) > 10  # fewer without a file type
    assert [path for path in questions if not (package / path).is_file()] == []
    # A name in capitals stands for that of the new part.
    missing = {path for path in paths if not any((place / path).is_file() for place in places)}
    assert {path for path in missing if not re.search(r"\bNAME|_NAME|LIBRARY", path)} == set()
    named = re.findall(r"`(\w+)` (?:in|to|\()\s*`((?:[\w-]+/)+[\w-]+\.py)`", text)
    assert ("CHECKSUMS", "bloscpack/format/checksum.py") in named
    for name, path in named:
        if path in missing:
            continue
        file = next(place / path for place in places if (place / path).is_file())
        assert re.search(rf"\b{name}\b", file.read_text("utf-8")), f"{path} has no {name}"


def test_checksum_table_is_the_packages():
    text = FORMAT.read_text("utf-8").partition("\n## Checksums\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| \d", line)
    ]
    data = b"123456789"
    known = {
        "adler32": zlib.adler32(data),
        "crc32": zlib.crc32(data),
        "xxh3_64": xxhash.xxh3_64_intdigest(data),
        "xxh3_128": xxhash.xxh3_128_intdigest(data),
    }
    orders = {"u32, little-endian": "little", "most significant byte first": "big"}
    assert len(rows) == len(CHECKSUMS)
    for (id_, name, nbytes, order, versions), row in zip(rows, CHECKSUMS, strict=True):
        assert (int(id_), name, int(nbytes)) == (row.id, row.name, row.nbytes)
        assert versions == ("4" if row.id > 8 else "2, 3, 4")
        digest = row.digest(data)
        assert len(digest) == row.nbytes
        if name in known:
            assert int.from_bytes(digest, orders[order]) == known[name]
        elif name in hashlib.algorithms_guaranteed:
            assert order == "as the standard writes it"
            assert digest == hashlib.new(name, data).digest()


def test_hex_dump_is_the_file(format_page):
    assert dump_of(FORMAT).hex(" ") == format_page["example"].hex(" ")


def vectors():
    manifest = ReferenceFolder("bloscpack") / "manifest.json"
    return manifest.parent, json.loads(manifest.read_text("utf-8"))["vectors"]


def test_reader_of_the_page_reads_files_of_the_original(format_page):
    folder, entries = vectors()
    checksums = set()
    for entry in entries:
        if entry.get("optional") or entry["file_size"] > 200_000:
            continue
        data = (folder / entry["file"]).read_bytes()
        content, metadata, positions, table = format_page["read_file"](data)
        assert len(content) == entry["payload"]["size"], entry["file"]
        assert hashlib.sha256(content).hexdigest() == entry["payload"]["sha256"], entry["file"]
        assert metadata == entry["metadata"], entry["file"]
        assert list(table) == (entry["offsets"] or []), entry["file"]
        assert positions[:64] == [chunk[0] for chunk in entry["chunks"]], entry["file"]
        checksums.add(entry["header"]["checksum"])
    assert len(checksums) == 9


@pytest.mark.parametrize("checksum", [row.name for row in CHECKSUMS])
@pytest.mark.parametrize("size", [0, 1, 1000, 70_000])
def test_reader_of_the_page_reads_ours(format_page, checksum, size):
    content = np.arange(size, dtype="<u2").tobytes()
    packed = bp.pack_bytes_to_bytes(
        content,
        chunk_size=5000,
        metadata={"size": size},
        bloscpack_args=bp.BloscpackArgs(checksum=checksum),
    )
    read, metadata, positions, table = format_page["read_file"](packed)
    assert (read, metadata, positions) == (content, {"size": size}, list(table))


@pytest.mark.parametrize("checksum", [row.name for row in CHECKSUMS])
def test_metadata_may_have_every_checksum(format_page, checksum):
    packed = bp.pack_bytes_to_bytes(
        b"content", metadata=[1, 2], metadata_args=bp.MetadataArgs(meta_checksum=checksum)
    )
    assert bp.unpack_bytes_from_bytes(packed) == (b"content", [1, 2])
    assert format_page["read_file"](packed)[:2] == (b"content", [1, 2])
    assert packed[4] == (4 if checksum_by_name(checksum).id > LAST_V3_ID else 3)


def test_reader_of_the_page_refuses_damage(format_page):
    example = format_page["example"]
    for position in range(0xA4, len(example)):
        damaged = bytearray(example)
        damaged[position] ^= 0x04
        with pytest.raises(ValueError, match="chunk"):
            format_page["read_file"](bytes(damaged))
    for end in range(len(example)):
        with pytest.raises(ValueError, match=r"cut|no Bloscpack|unknown"):
            format_page["read_file"](example[:end])


@pytest.mark.parametrize("metadata", [None, {"a": [1, 2.5, None]}, "text"])
@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 100_000])
def test_we_read_files_of_the_writer_of_the_page(format_page, size, metadata):
    content = bytes(i * i % 251 for i in range(size))
    written = format_page["write_file"](content, metadata, 4096)
    assert bp.unpack_bytes_from_bytes(written) == (content, metadata)
    assert bp.verify(written).ok


def test_demo_clip_is_the_one_described():
    zstandard = pytest.importorskip("zstandard", reason="the clip is in a Zstandard file")
    folder = ROOT / "bench" / "data"
    with (folder / "bbb_16x240x320x3_u8.npy.zst").open("rb") as stream:
        data = zstandard.ZstdDecompressor().stream_reader(stream).read()
    nbytes = 16 * 240 * 320 * 3
    digest = hashlib.sha256(data[-nbytes:]).hexdigest()
    assert digest in (folder / "README.md").read_text("utf-8")


def test_photograph_is_the_one_described():
    folder = ROOT / "bench" / "data"
    digest = hashlib.sha256((folder / "coffee_600x400.jpg").read_bytes()).hexdigest()
    assert digest in (folder / "README.md").read_text("utf-8")
