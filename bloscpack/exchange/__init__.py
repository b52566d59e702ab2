"""Files that `convert` reads and writes: one module for each format.

A module has ``open_FORMAT``, which yields `SeveralArrays` or a `FrameSource`, and
``copy_to_FORMAT``. Both are named in `filetypes/table.py`, and imported on use, as the library of
the format is an extra.
"""
