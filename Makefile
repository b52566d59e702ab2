# Each target sets up what it needs in .venv; nothing else on the machine is changed.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
FRAMES := .venv-frames
VRS := .venv-vrs
BENZINA := .venv-benzina
REMOTE := .venv-remote
PY := $(VENV)/bin/python
SOURCES := setup.py pyproject.toml $(wildcard ext/*)

.PHONY: demo test check bench bench-peers bench-frames bench-vrs bench-benzina bench-remote clean

# Pack a real clip (and FILE, if named), seek, slice, verify, compare with numpy.save.
demo: $(VENV)/.ready
	$(PY) bench/demo.py $(if $(FILE),"$(FILE)")

# A file of tests stays with one worker: what its tests share is made once.
test: $(VENV)/.ready
	$(PY) -m pytest -n auto --dist loadfile $(ARGS)

check: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(VENV)/.ready
	$(PY) -m pytest bench --benchmark-only --benchmark-columns=min,median,rounds $(ARGS)

# Race blosc2, zarr, zarrs, tensorstore, h5py, numpy and bloscpack 0.16, and write the page;
# with ARGS, such as --quick, only print what was found.
bench-peers: $(PEERS)/.ready
	cd bench && ../$(PEERS)/bin/python -m peers --json ../build/peers.json $(ARGS)
	$(if $(ARGS),,$(PEERS)/bin/python bench/page.py --peers build/peers.json)
	$(if $(ARGS),,cd bench && ../$(PEERS)/bin/python -m peers.plot ../build/peers.json \
		../docs/benchmarks-peers.svg)

# Race GulpIO2, PNG, FFV1, webdataset and h5py at keeping frames, and write the page; with ARGS,
# such as --quick, only print what was found.
bench-frames: $(FRAMES)/.ready
	cd bench && ../$(FRAMES)/bin/python -m frames --json ../build/frames.json $(ARGS)
	$(if $(ARGS),,cd bench && ../$(FRAMES)/bin/python -m frames.page ../build/frames.json)

# Race the vrs wheel and mcap at records of sensors, and write the page; with ARGS, such as --quick,
# only print what was found.
bench-vrs: $(VRS)/.ready
	cd bench && ../$(VRS)/bin/python -m vrs --json ../build/vrs.json $(ARGS)
	$(if $(ARGS),,cd bench && ../$(VRS)/bin/python -m vrs.page ../build/vrs.json)

# Race PyAV alone, and Pillow at JPEG files, at datasets of pictures, and write the page; with ARGS,
# such as --quick, only print what was found.
bench-benzina: $(BENZINA)/.ready
	cd bench && ../$(BENZINA)/bin/python -m benzina --json ../build/benzina.json $(ARGS)
	$(if $(ARGS),,cd bench && ../$(BENZINA)/bin/python -m benzina.page ../build/benzina.json)

# Race zarr and h5py at arrays behind URLs, and zarr through Dask, and write the page; with ARGS, such
# as --quick, only print what was found.
bench-remote: $(REMOTE)/.ready
	cd bench && ../$(REMOTE)/bin/python -m remote --json ../build/remote.json $(ARGS)
	$(if $(ARGS),,cd bench && ../$(REMOTE)/bin/python -m remote.page ../build/remote.json)

$(VENV)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test,check,bench]'
	touch $@

$(PEERS)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]'
	touch $@

# As declared, GulpIO2 would bring Pillow-SIMD, which takes the place of Pillow.
$(FRAMES)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(FRAMES)
	$(FRAMES)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[frames-bench]'
	$(FRAMES)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps gulpio2==0.0.4
	touch $@

$(VRS)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(VRS)
	$(VRS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[vrs-bench]'
	touch $@

# pybenzinaparse declares no limit to bitstring, whose later versions have not all it needs.
$(BENZINA)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(BENZINA)
	$(BENZINA)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[benzina-bench]'
	$(BENZINA)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		pybenzinaparse==0.2.2
	touch $@

$(REMOTE)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(REMOTE)
	$(REMOTE)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[remote-bench]'
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(FRAMES) $(VRS) $(BENZINA) $(REMOTE) build bloscpack.egg-info \
		bloscpack/_ext/*.so
