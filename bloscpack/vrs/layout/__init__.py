"""Data layouts: how the bytes of a metadata block become values."""
