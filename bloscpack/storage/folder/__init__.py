"""Folders: the files in one, and one that files are extracted to."""
