"""How many requests, bytes and seconds arrays behind URLs cost, and Dask, beside zarr and h5py.

``make bench-remote`` runs it. `__main__` picks what to run; `contender` says who takes part; each
``with_`` module is one of them. `serving` has what they ask, `blocks` the race of Dask. `targets`
holds the figures that are aimed at, `page` writes the result.
"""
