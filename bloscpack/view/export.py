"""Files of the page, and a copy of it for a static web host, which reads files by HTTP ranges."""

import os
from functools import cache
from pathlib import Path

from ..plugin import disk, display, open_sink

# The modules that draw are those of the widgets of notebooks, too.
_FOLDERS = (Path(__file__).with_name("page"), Path(display.__file__).with_name("page"))
_PARTS = (".html", ".js", ".css", ".svg")
# Scripts of the page only. Data may come from any host, and nothing is sent.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src http: https:; base-uri 'none'; form-action 'none'"
)
_BEFORE = '<meta charset="utf-8">\n'


@cache
def page_files() -> dict[str, Path]:
    """Return the files of the page by their names, which are relative to its URL."""
    return {
        path.relative_to(folder).as_posix(): path
        for folder in _FOLDERS
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in _PARTS
    }


def export_page(folder: str | os.PathLike[str]) -> list[str]:
    """Write the page to a folder that does not exist or is empty.

    Parameters
    ----------
    folder : str or PathLike
        The folder; its parent must exist.

    Returns
    -------
    list of str
        Paths of the files, relative to the folder.

    Raises
    ------
    FileExistsError
        The folder is not empty, or a file has this name.
    OSError
        A file cannot be written.
    """
    target = Path(folder)
    if not target.is_dir():
        disk.make_folder(os.fspath(target))
    elif any(target.iterdir()):
        raise FileExistsError(f"{os.fspath(folder)!r} is not empty; name a new folder")
    written = []
    for name, source in sorted(page_files().items()):
        (target / name).parent.mkdir(exist_ok=True)
        with open_sink(target / name, overwrite=False) as sink:
            sink.write(_content(source, name))
        written.append(name)
    return written


def _content(source: Path, name: str) -> bytes:
    """Return a file of the page as the static page has it."""
    content = source.read_bytes()
    if name == "api.js":
        return b'export * from "./static/api.js";\n'
    if name == "index.html":
        meta = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        return content.replace(_BEFORE.encode(), (_BEFORE + meta).encode(), 1)
    return content
