"""Ingest into a Gulp directory: adapters, journal, and the processes that write chunks."""
