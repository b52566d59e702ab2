"""Ingest: items of any kind become clips of a frame store, on all processors."""
