# Each target sets up what it needs in an environment of its own, .venv-NAME; nothing else on the
# machine is changed. CONSTRAINTS=FILE holds pip to the versions in a constraints file.
PYTHON ?= python3
DEMO := .venv-demo
TEST := .venv-test
ALL := .venv-all
CHECK := .venv-check
BENCH := .venv-bench
DOCS := .venv-docs
PEERS := .venv-peers
ARRAYS := .venv-arrays
FRAMES := .venv-frames
VRS := .venv-vrs
BENZINA := .venv-benzina
REMOTE := .venv-remote
WHEEL := .venv-wheel
# Only modules that are imported are compiled to bytecode: it takes a third of the time and of the size.
# This bytecode must then be kept: tests start many processes, each of which would compile all again.
unexport PYTHONDONTWRITEBYTECODE
PIP := -m pip install --quiet --disable-pip-version-check --no-compile $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
# One more than processors, as some tests wait for other processes.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
SOURCES := setup.py pyproject.toml $(wildcard ext/*)

# Make an environment with bloscpack and a dependency group of pyproject.toml.
define environment
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(@D)/bin/python $(PIP) --editable . --group $(1)
endef

.PHONY: demo test test-all check bench bench-peers bench-arrays bench-frames bench-vrs \
	bench-benzina bench-remote bench-datasets docs wheel sanitize baseline clean

# Save a sensor array and a clip beside other formats; seek, slice, verify; pack FILE, if named.
demo: $(DEMO)/.ready
	$(DEMO)/bin/python bench/demo.py $(if $(FILE),"$(FILE)")

# A file of tests stays with one worker, so that shared fixtures are made once.
test: $(TEST)/.ready
	$(TEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

# Everything: long tests, torch, Dask, Zarr and S3, and other programs to compare with.
test-all: $(ALL)/.ready
	$(ALL)/bin/python -m pytest --all -ra -n $(WORKERS) --dist loadfile $(ARGS)

# Kernel, fuzz and hostile tests on kernels that abort at the first bad access (gcc, Linux).
sanitize: $(ALL)/.ready
	BLOSCPACK_SANITIZE_PYTHON=$(CURDIR)/$(ALL)/bin/python bash .ci/sanitize $(ARGS)

# The same bytes from kernels without instructions of newer processors (gcc, Linux, x86-64).
baseline: $(ALL)/.ready
	BLOSCPACK_SANITIZE_PYTHON=$(CURDIR)/$(ALL)/bin/python bash .ci/baseline

check: $(CHECK)/.ready
	$(CHECK)/bin/ruff check .
	$(CHECK)/bin/ruff format --check .
	$(CHECK)/bin/mypy
	$(CHECK)/bin/python .ci/planted.py
	$(CHECK)/bin/python .ci/words.py
	$(CHECK)/bin/codespell .ci bench bloscpack docs ext *.md

# The documentation as a site in build/site: warnings, such as broken links, are errors (not with
# --quiet, which hides them from --strict).
docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict $(ARGS)

# A source distribution, and a wheel built from it for this Python and platform, in dist/. The kernels
# are compiled in a further environment, that of the build.
wheel: $(WHEEL)/.ready
	$(WHEEL)/bin/python -m build --outdir dist

# Race the contenders of bench/NAME, in an environment with all of them, and write the page; with
# ARGS, such as --quick, only print the figures.
define race
	cd bench && PYTHONPATH=$(CURDIR) ../$(<D)/bin/python -m race $(1) --json ../build/$(1).json \
		$(if $(ARGS),$(ARGS),--page)
endef

# Packing, unpacking and single chunks beside C-Blosc and bloscpack 0.16.
bench: $(BENCH)/.ready
	$(call race,core)

# blosc2, zarr, zarrs, tensorstore, h5py, numpy and bloscpack 0.16.
bench-peers: $(PEERS)/.ready
	$(call race,peers)

# Codecs of arrays: blosc2, zarr, h5py, pcodec, OpenZL, Vortex, fpzip, JPEG XL.
bench-arrays: $(ARRAYS)/.ready
	$(call race,arrays)

# GulpIO2, torchcodec, PyAV, litdata, Lance, webdataset, memory maps and others at frames.
bench-frames: $(FRAMES)/.ready
	$(call race,frames)

# The vrs wheel and mcap at records of sensors.
bench-vrs: $(VRS)/.ready
	$(call race,vrs)

# PyAV alone, and Pillow at JPEG files, at datasets of pictures.
bench-benzina: $(BENZINA)/.ready
	$(call race,benzina)

# zarr, zarrs, tensorstore, Icechunk and h5py at arrays behind URLs, and zarr through Dask.
bench-remote: $(REMOTE)/.ready
	$(call race,remote)

# h5netcdf and zarr at appending to datasets of xarray, and h5py and zarr at reading them.
bench-datasets: $(ALL)/.ready
	$(call race,datasets)

$(DEMO)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python $(PIP) --editable . pillow h5py
	touch $@

$(TEST)/.ready: $(SOURCES)
	$(call environment,test)
	touch $@

$(ALL)/.ready: $(SOURCES)
	$(call environment,test-all)
	touch $@

# Without bloscpack: nothing is compiled.
$(CHECK)/.ready: pyproject.toml
	$(PYTHON) -m venv $(CHECK)
	$(CHECK)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(CHECK)/bin/python $(PIP) --group check
	touch $@

# Without bloscpack: the reference is made from its sources.
$(DOCS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(DOCS)/bin/python $(PIP) --group docs
	touch $@

$(WHEEL)/.ready:
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python $(PIP) build
	touch $@

$(BENCH)/.ready: $(SOURCES)
	$(call environment,bench)
	touch $@

$(PEERS)/.ready: $(SOURCES)
	$(call environment,peers)
	touch $@

$(ARRAYS)/.ready: $(SOURCES)
	$(call environment,arrays-bench)
	touch $@

# As declared, GulpIO2 would bring Pillow-SIMD, which takes the place of Pillow.
$(FRAMES)/.ready: $(SOURCES)
	$(call environment,frames-bench)
	$(FRAMES)/bin/python $(PIP) --no-deps gulpio2==0.0.4
	touch $@

$(VRS)/.ready: $(SOURCES)
	$(call environment,vrs-bench)
	touch $@

$(BENZINA)/.ready: $(SOURCES)
	$(call environment,benzina-bench)
	touch $@

$(REMOTE)/.ready: $(SOURCES)
	$(call environment,remote-bench)
	touch $@

clean:
	rm -rf $(DEMO) $(TEST) $(ALL) $(CHECK) $(DOCS) $(BENCH) $(PEERS) $(ARRAYS) $(FRAMES) $(VRS) $(BENZINA) \
		$(REMOTE) $(WHEEL) .oracle .gulp-oracle .vrs-oracle .benzina-oracle build dist bloscpack.egg-info \
		bloscpack/_ext/*.so
