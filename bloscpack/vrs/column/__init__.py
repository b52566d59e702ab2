"""Columns: one field or the images of many records as one array."""
