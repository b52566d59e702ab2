"""Kinds of files and folders, ours and others: their magic numbers, and which call reads each.

All errors about a file of the wrong kind are created here, so that a new kind is one row. Pure:
takes the first bytes of a file or the names in a folder, and reads nothing. `filetypes/table.py`
has the kinds that this package reads, with the modules that do.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ..exceptions import IsAFolderError, NotBloscpackError, WrongKindError
from ..types import BytesLike

# Bytes needed to recognise a file: the magic of HDF5 behind a user block is the farthest from the
# start. Also enough for the header and the metadata of nearly every frame store.
HEAD_NBYTES = 4096

BLOSCPACK_MAGIC = b"blpk"
RECORDING_MAGIC = b"VisionRe"
# Boxes that an mp4 file may begin with, after the size of the first.
_MP4_BOXES = b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"uuid"
# Last part of a frame store, its index, by which it is recognised if its beginning is damaged.
STORE_TAIL_NBYTES, STORE_TAIL_MAGIC = 152, b"BLPKFRMS"

# Beginning of a slot of commits, by which a changed file is recognised if its header is damaged.
COMMIT_MAGIC, COMMITS_AT, COMMIT_COPIES_AT = b"BLPKCMIT", (4096, 4224), (8192, 8320)

# Suffixes of files that an ingest reads.
ARRAY_SUFFIXES = (".npy",)
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".png")
VIDEO_SUFFIXES = (
    *(".mp4", ".webm", ".avi", ".mkv", ".mov", ".m4v", ".mpg", ".mpeg", ".ogv", ".ts", ".m2ts"),
    *(".flv", ".wmv", ".mxf", ".y4m", ".ivf", ".nut"),
)

_DATASET_BRAND, _DATASET_SUFFIX = b"bzna", ".bzna"
# Offset of the incompatible features in a Bloscpack file of version 4; bit 0 means a frame store,
# bit 4 an archive (format/header.py).
FEATURES_AT = 40
_VERSION_AT, _FRAMES, _ARCHIVE = 4, 0x01, 0x10


class FileKind(NamedTuple):
    """Kind of file or folder.

    Attributes
    ----------
    name : str
        Name with its article, for messages.
    advice : str
        Advice on the right call, for messages.
    """

    name: str
    advice: str


ARRAY = FileKind("a Bloscpack file of an array or bytes", "open it with bloscpack.open")
FRAME_STORE = FileKind("a frame store", "open it with bloscpack.frames.open or 'blpk frames'")
ARCHIVE = FileKind(
    "an archive of named arrays",
    "bloscpack.open(path)['name'] is one of them; on the command line, path::/name",
)
BLOSCPACK_KINDS = (ARRAY, FRAME_STORE, ARCHIVE)
RECORDING = FileKind("a VRS recording", "open it with bloscpack.vrs.open or 'blpk vrs'")
DATASET = FileKind("a Benzina dataset", "open it with bloscpack.benzina.open or 'blpk bzna'")
GULP_DIRECTORY = FileKind("a Gulp directory", "open it with bloscpack.frames.open or 'blpk gulp'")
GULP_FILE = FileKind(
    "a file of a Gulp directory", "open the folder it is in with bloscpack.frames.open"
)
_IMAGE_ADVICE = (
    "bloscpack.frames.ingest(bloscpack.frames.listing.images(path), 'out.blp') makes a frame store "
    "of it"
)
_CONVERT = f"'{WrongKindError._COMMAND}' converts it"

VIDEO = FileKind(
    "a video",
    f"{_CONVERT}, and bloscpack.frames.ingest(bloscpack.frames.listing.videos(path), 'out.blp') "
    "many",
)
GIF = FileKind("a GIF image", _CONVERT)
NPY = FileKind("a NumPy array file (.npy)", f"numpy.load reads it, {_CONVERT}")

HDF5 = FileKind("an HDF5 file", f"h5py reads it, {_CONVERT}")

JPEG = FileKind("a JPEG image", f"{_IMAGE_ADVICE}; {_CONVERT}")
PNG = FileKind("a PNG image", f"{_IMAGE_ADVICE}; {_CONVERT}")
TAR = FileKind("a tar archive", f"webdataset reads one of samples, {_CONVERT}")
TIFF = FileKind("a TIFF image", f"tifffile reads it, {_CONVERT}")
NETCDF3 = FileKind("a netCDF file", f"xarray reads it, {_CONVERT}")
ZARR = FileKind("a Zarr store", f"zarr.open reads it, {_CONVERT}")
ZIP = FileKind("a ZIP archive (.npz)", f"numpy.load reads one of arrays, {_CONVERT}")

# Other files, and the values of each in Python, which `bloscpack.save` takes.
_TABLE = ".to_records(index=False)"
_VALUES: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"SIMPLE  =", "a FITS file", "astropy.io.fits.getdata(path)"),
    (344, b"n+1\0", "a NIfTI image", "numpy.asarray(nibabel.load(path).dataobj)"),
    (4, b"n+2\0\r\n\x1a\n", "a NIfTI image", "numpy.asarray(nibabel.load(path).dataobj)"),
    (128, b"DICM", "a DICOM file", "pydicom.dcmread(path).pixel_array"),
    (8, b"WAVE", "a WAV file", "scipy.io.wavfile.read(path)[1]"),
    (0, b"fLaC", "a FLAC file", "soundfile.read(path, dtype='int32')[0]"),
    (0, b"GRIB", "a GRIB file", "xarray.open_dataset(path, engine='cfgrib')['NAME']"),
    (0, b"\x0e\x03\x13\x01", "an HDF4 file", "pyhdf.SD.SD(path).select('NAME')[:]"),
    (0, b"MATLAB 5.0 MAT", "a MATLAB file", "scipy.io.loadmat(path)['NAME']"),
    (0, b"MATLAB 7.3 MAT", "a MATLAB file (version 7.3)", "h5py.File(path)['NAME'][...]"),
    (0, b"PAR1", "a Parquet file", f"pyarrow.parquet.read_table(path).to_pandas(){_TABLE}"),
    (0, b"ARROW1", "an Arrow file", f"pyarrow.feather.read_table(path).to_pandas(){_TABLE}"),
    (0, b"FEA1", "an Arrow file", f"pyarrow.feather.read_table(path).to_pandas(){_TABLE}"),
    (0, b"ORC", "an ORC file", f"pyarrow.orc.read_table(path).to_pandas(){_TABLE}"),
    (2, b"b2frame\0", "a Blosc2 frame", "blosc2.open(path)[:]"),
    (0, b"NRRD000", "an NRRD file", "nrrd.read(path)[0]"),
    (0, b"\x76\x2f\x31\x01", "an OpenEXR image", "imageio.v3.imread(path)"),
    (8, b"WEBP", "a WebP image", "numpy.asarray(PIL.Image.open(path))"),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 image", "numpy.asarray(PIL.Image.open(path))"),
)
# Pickles run code when they are read; `load` of such a file is for the caller to decide.
_PICKLE = FileKind(
    "a pickle",
    "it can run any code; if you trust it, bloscpack.save stores what pickle.load gives",
)
CSV = FileKind(
    "a table of text (CSV)",
    "bloscpack.save('x.blp', numpy.genfromtxt(path, delimiter=',', names=True, dtype=None)) "
    "stores it",
)
_PAGE = FileKind("a web page", "the URL of a folder that its server lists ends with a slash")
_UNPACKED = (
    (b"\x1f\x8b", "a gzip file", "gzip"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file", "zstandard"),
    (b"\x04\x22\x4d\x18", "an LZ4 file", "lz4.frame"),
    (b"\xfd7zXZ\0", "an xz file", "lzma"),
    (b"BZh", "a bzip2 file", "bz2"),
)

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_MAGICS: tuple[tuple[int, bytes, FileKind], ...] = (
    (0, RECORDING_MAGIC, RECORDING),
    (0, b"\x93NUMPY", NPY),
    (0, b"PK\x03\x04", ZIP),
    (0, b"PK\x05\x06", ZIP),  # without members
    (0, _HDF5_MAGIC, HDF5),
    (0, b"\xff\xd8\xff", JPEG),
    (0, b"\x89PNG\r\n\x1a\n", PNG),
    *((0, magic, TIFF) for magic in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")),
    *((0, magic, NETCDF3) for magic in (b"CDF\1", b"CDF\2", b"CDF\5")),
    (0, b"\x1a\x45\xdf\xa3", VIDEO),  # Matroska, WebM
    (8, b"AVI ", VIDEO),
    *((0, magic, VIDEO) for magic in (b"\0\0\1\xba", b"\0\0\1\xb3")),  # MPEG-1 and 2
    (0, b"FLV\1", VIDEO),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", VIDEO),  # ASF: WMV
    (0, b"\x06\x0e\x2b\x34\x02\x05\x01\x01", VIDEO),  # MXF
    *((0, magic, VIDEO) for magic in (b"YUV4MPEG2", b"DKIF", b"nut/multimedia", b"OggS")),
    # H.264 and H.265 without a container, from parameters or a delimiter on.
    *((0, b"\0\0\0\1" + unit, VIDEO) for unit in (b"\x67", b"\x27", b"\x09", b"@\1", b"F\1")),
    *((0, magic, GIF) for magic in (b"GIF87a", b"GIF89a")),
    *(
        (at, magic, FileKind(name, f"bloscpack.save('x.blp', {values}) stores it"))
        for at, magic, name, values in _VALUES
    ),
    *(
        (0, magic, FileKind(name, f"decompress it first, as with {module}.open(path)"))
        for magic, name, module in _UNPACKED
    ),
    *((0, bytes((0x80, protocol)), _PICKLE) for protocol in range(2, 6)),
    *((0, magic, _PAGE) for magic in (b"<!DOCTYPE", b"<!doctype", b"<html", b"<HTML")),
    (257, b"ustar", TAR),
    # Behind a user block of 512 bytes, or of 2, 4, ... times as many. Last, as a tar archive or any
    # other file may hold an HDF5 file there.
    *((at, _HDF5_MAGIC, HDF5) for at in (512, 1024, 2048)),
)
_SUFFIXES = {".gulp": GULP_FILE, ".gmeta": GULP_FILE}


def kind_of(head: BytesLike, name: str | None = None) -> FileKind | None:
    """Return the kind of a file by its first bytes; None if it is unknown.

    Parameters
    ----------
    head : bytes-like
        Beginning of the file, up to `HEAD_NBYTES`.
    name : str, optional
        Its path or URL, needed for data files of a Gulp directory, which have no magic, and for a
        dataset with a damaged beginning.
    """
    head = bytes(head[:HEAD_NBYTES])
    if head.startswith(BLOSCPACK_MAGIC):
        if head[_VERSION_AT : _VERSION_AT + 1] != b"\x04" or len(head) <= FEATURES_AT:
            return ARRAY
        features = head[FEATURES_AT]
        return FRAME_STORE if features & _FRAMES else ARCHIVE if features & _ARCHIVE else ARRAY
    if kind := _SUFFIXES.get(_suffix(name or "")):
        return kind
    if is_mp4(head):
        brands = head[8 : int.from_bytes(head[:4], "big")] if head[4:8] == b"ftyp" else b""
        return DATASET if _DATASET_BRAND in brands or _has_dataset_suffix(name) else VIDEO
    for at, magic, kind in _MAGICS:
        if head[at:].startswith(magic):
            return zip_kind(head) if kind is ZIP else kind
    if is_transport_stream(head):
        return VIDEO
    if head and _has_dataset_suffix(name):
        return DATASET
    return CSV if _is_table(head, _suffix(name or "")) else None


def is_mp4(head: BytesLike) -> bool:
    """Return whether a file starts like an mp4."""
    return bytes(head[4:8]) in _MP4_BOXES


def is_transport_stream(head: bytes) -> bool:
    """Return whether packets of MPEG-TS follow each other; in .m2ts, each behind 4 bytes."""
    return b"GGG" in (head[:377:188], head[4:389:192])


def _is_table(head: bytes, suffix: str) -> bool:
    """Return whether a file is a table by two lines of text with as many separators, or by name."""
    lines = head.split(b"\n")[:2]
    is_text = not any(byte < 32 and byte not in b"\t\r" for line in lines for byte in line)
    counts = {tuple(line.count(separator) for separator in b",;\t") for line in lines}
    is_even = len(lines) == 2 and len(counts) == 1 and any(*counts) and head[0] not in b"{[<"
    return bool(head) and is_text and (is_even or suffix in (".csv", ".tsv"))


def _has_dataset_suffix(name: str | None) -> bool:
    return name is not None and name.partition("?")[0].endswith(_DATASET_SUFFIX)


def wrong_kind(head: BytesLike, wanted: str, name: str | None = None) -> WrongKindError:
    """Return the error for a file of the wrong kind.

    Parameters
    ----------
    head : bytes-like
        Beginning of the file, up to `HEAD_NBYTES`.
    wanted : str
        Kind that the caller reads, with its article: "a frame store".
    name : str, optional
        Its path or URL.

    Returns
    -------
    WrongKindError
        `NotBloscpackError` unless it is a Bloscpack file; the caller adds the path.
    """
    kind = kind_of(head, name)
    if not len(head):
        message = f"not {wanted}: it is empty"
    elif kind is None:
        message = f"not {wanted}: it starts with {bytes(head[:8])!r}"
        if wanted == "a Bloscpack file":
            message += f", not {BLOSCPACK_MAGIC!r}"
    else:
        message = f"{kind.name}, not {wanted}: {kind.advice}"
    if kind in BLOSCPACK_KINDS:
        return WrongKindError(message)
    return NotBloscpackError(message, offset=0, field="magic")


# Content of a folder by the suffix of its files, and the call that reads it.
_CREATE = "'blpk frames create FOLDER OUT.blp' or bloscpack.frames.ingest with listing.{} makes a "
_CREATE += "frame store of them"
_CONTENTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(VIDEO_SUFFIXES, ("videos", _CREATE.format("videos"))),
    **dict.fromkeys(IMAGE_SUFFIXES, ("images", _CREATE.format("folders or listing.images"))),
    **dict.fromkeys(ARRAY_SUFFIXES, ("NumPy arrays", _CREATE.format("arrays"))),
    ".blp": ("Bloscpack files", "name the files, or a pattern such as 'FOLDER/*.blp'"),
    ".bzna": ("Benzina datasets", "open each with bloscpack.benzina.open"),
    ".vrs": ("VRS recordings", "open each with bloscpack.vrs.open"),
}
_ZARR_NAMES = frozenset((".zarray", ".zgroup", ".zmetadata", "zarr.json"))
_ZARR_MEMBERS = tuple(name.encode() for name in sorted(_ZARR_NAMES))


def folder_kind(names: Iterable[str]) -> FileKind | None:
    """Return the kind of a folder of another library by the names in it; None if it is unknown."""
    return ZARR if _ZARR_NAMES.intersection(names) else None


def zip_kind(content: bytes) -> FileKind:
    """Return the kind of a ZIP archive by some of its bytes, in which names of members are."""
    # In a .npz file, an array of such a name is a member with one more suffix.
    counts = ((content.count(each), content.count(each + b".npy")) for each in _ZARR_MEMBERS)
    return ZARR if any(count > in_npz for count, in_npz in counts) else ZIP


def is_gulp(names: Iterable[str]) -> bool:
    """Return whether a folder has files of a Gulp directory."""
    return any(_SUFFIXES.get(_suffix(name)) is GULP_FILE for name in names)


def not_gulp(names: Iterable[str]) -> NotBloscpackError:
    """Return the error for a folder that is not a Gulp directory; the caller adds the path.

    Parameters
    ----------
    names : iterable of str
        Names of the files and folders in it.
    """
    lead = "a folder without pairs of .gulp and .gmeta files, so not a Gulp directory"
    return NotBloscpackError(f"{lead}: {_describe_folder(names)}")


def not_a_file(names: Iterable[str]) -> IsAFolderError:
    """Return the error for a folder where a file is expected; the caller adds the path.

    Parameters
    ----------
    names : iterable of str
        Names of the files and folders in it.
    """
    names = list(names)
    if {".gulp", ".gmeta"} <= set(map(_suffix, names)):
        return IsAFolderError(f"{GULP_DIRECTORY.name}, not a file: {GULP_DIRECTORY.advice}")
    return IsAFolderError(f"a folder, not a file: {_describe_folder(names)}")


def _describe_folder(names: Iterable[str]) -> str:
    """Describe the content of a folder that is not a Gulp directory, and the call that reads it."""
    listed = [name for name in names if not name.startswith(".") or name in _ZARR_NAMES]
    found = Counter(_suffix(name) for name in listed)
    if not listed:
        return "it is empty"
    if _ZARR_NAMES.intersection(listed):
        return f"it is a Zarr store: {ZARR.advice}"
    if "_versions" in listed:
        return "it is a Lance dataset: read it with lance"
    if ".gulp" in found or ".gmeta" in found:
        return (
            f"it has {found['.gulp']} .gulp and {found['.gmeta']} .gmeta files that do not "
            "belong together; 'blpk gulp verify' lists them"
        )
    for suffix, _ in found.most_common():
        if suffix in _CONTENTS:
            what, advice = _CONTENTS[suffix]
            return f"it holds {what} ({suffix}); {advice}"
    shown = ", ".join(repr(name[:40]) for name in sorted(listed)[:3])
    return (
        f"it holds {shown}{', ...' * (len(listed) > 3)}; 'blpk frames create FOLDER OUT.blp' "
        "makes a frame store of the images, videos or arrays in a folder and its subfolders"
    )


def _suffix(name: str) -> str:
    name = name.rstrip("/")
    dot = name.rfind(".")
    return name[dot:].lower() if dot > name.rfind("/") else ""
