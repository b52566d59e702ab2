# Each target sets up what it needs in .venv; nothing else on the machine is changed.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
PY := $(VENV)/bin/python
SOURCES := setup.py pyproject.toml $(wildcard ext/*)

.PHONY: demo test check bench bench-peers clean

# Pack a real clip (and FILE, if named), seek, slice, verify, compare with numpy.save.
demo: $(VENV)/.ready
	$(PY) bench/demo.py $(if $(FILE),"$(FILE)")

test: $(VENV)/.ready
	$(PY) -m pytest $(ARGS)

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

$(VENV)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test,check,bench]'
	touch $@

$(PEERS)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]'
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) build bloscpack.egg-info bloscpack/_ext/*.so
