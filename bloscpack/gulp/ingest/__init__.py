"""Ingest into a Gulp directory: adapters, plan, journal and chunks."""
