"""Bytes behind URLs: S3, HTTP and whatever else fsspec reads."""
