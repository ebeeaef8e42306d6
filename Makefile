# make demo [VIDEOS=/folder]   index, load and show a folder of videos (without VIDEOS: a small set made here)
# make test                    all tests, the examples in the documentation included
# make lint                    ruff, mypy
# make docs                    the documentation site, in docs/site
#
# PYTHON=python3.12            the interpreter .venv is made with (3.10 or newer)
# TORCH=torch==2.13.0          what to hand to pip first, where a certain PyTorch build is wanted

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# The GPU packages must fit the driver; without one, none are installed.
CUDA := $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA [A-Z ]*Version: *\([0-9]*\).*/\1/p' | head -1)
CUDA_EXTRA := $(if $(CUDA),$(shell test $(CUDA) -ge 13 && echo ,cuda13 || { test $(CUDA) -eq 12 && echo ,cuda12; }))

.PHONY: demo test lint docs

demo: .venv/demo.stamp
	$(BIN)/python samples/demo.py $(if $(VIDEOS),--videos "$(VIDEOS)")

test: .venv/test.stamp
	$(BIN)/pytest -n auto

# Programs that read sources know no path hooks, by which Python finds indexing/ and padding/ below videoloader: links
# put them there.
.PHONY: tree
tree:
	rm -rf .venv/tree && mkdir -p .venv/tree/videoloader
	ln -s $(addprefix $(CURDIR)/,$(wildcard videoloader/*) indexing padding) .venv/tree/videoloader

# mypy runs outside the checkout's root, where it would take ./videoloader.
lint: .venv/test.stamp tree
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	cd .venv && MYPYPATH=tree bin/mypy --config-file ../pyproject.toml -p videoloader
	cd samples && MYPYPATH=../.venv/tree ../$(BIN)/mypy --config-file ../pyproject.toml \
	  --follow-imports=silent --allow-untyped-calls --explicit-package-bases .
	cd tests && MYPYPATH=../.venv/tree ../$(BIN)/mypy --config-file ../pyproject.toml --follow-imports=silent \
	  user_code.py user_page.py

# Words that are spelled wrong, links that lead nowhere and names without a docstring to show are errors.
docs: .venv/docs.stamp tree
	$(BIN)/codespell README.md CHANGELOG.md docs videoloader indexing padding samples benchmarks
	$(BIN)/zensical build --strict --clean -f docs/zensical.toml

.venv/made.stamp:
	$(PYTHON) -m venv .venv
	$(if $(TORCH),$(PIP) install $(TORCH))
	touch $@

# The install is editable: it points at the folders here, so that only changes of what is compiled, and of pyproject.toml,
# ask for another one.
.venv/%.stamp: pyproject.toml Makefile $(wildcard videoloader/convert/*.cpp videoloader/convert/*.h) | .venv/made.stamp
	rm -rf build videoloader.egg-info
	$(PIP) install -e ".[$*$(CUDA_EXTRA)]"
	rm -rf build videoloader.egg-info
	touch $@
