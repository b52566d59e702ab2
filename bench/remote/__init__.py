"""Arrays behind URLs, and through Dask, beside zarr and h5py; ``make bench-remote`` runs it."""
