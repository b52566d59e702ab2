"""Files that `convert` reads and writes: one module for each format.

A module has ``open_FORMAT`` and ``copy_to_FORMAT``. Both are named in `rows`, and imported
on use, as the library of the format is an extra.

``open_FORMAT`` yields `SeveralArrays` or a `FrameSource` of an open file, and reads no items. It
raises FormatError for a damaged file, and UnsupportedError if nothing in it, or not the array that
is named, can be read. Everything else in the file is in ``left_out``.
"""
