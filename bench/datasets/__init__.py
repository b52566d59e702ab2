"""Datasets of xarray, to grow and to read, beside netCDF and Zarr; ``make bench-datasets``."""
