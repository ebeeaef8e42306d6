# make demo [VIDEOS=/folder]   index, load and show a folder of videos (without VIDEOS: a small set made here)
# make test                    all tests
# make lint                    ruff, mypy
#
# PYTHON=python3.12            the interpreter .venv is made with (3.10 or newer)
# TORCH=torch==2.13.0          what to hand to pip first, where a certain PyTorch build is wanted

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
SOURCES := pyproject.toml README.md LICENSE $(shell find videoloader indexing padding -name '*.py' -o -name '*.cu')

# The GPU packages must fit the driver; without one, none are installed.
CUDA := $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA [A-Z ]*Version: *\([0-9]*\).*/\1/p' | head -1)
CUDA_EXTRA := $(if $(CUDA),$(shell test $(CUDA) -ge 13 && echo ,cuda13 || { test $(CUDA) -eq 12 && echo ,cuda12; }))

.PHONY: demo test lint

demo: .venv/demo.stamp
	$(BIN)/python samples/demo.py $(if $(VIDEOS),--videos "$(VIDEOS)")

test: .venv/test.stamp
	$(BIN)/pytest -n auto

# mypy runs outside the checkout's root: there it would take ./videoloader, which lacks its sub-packages.
lint: .venv/test.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	cd .venv && bin/mypy --config-file ../pyproject.toml -p videoloader
	cd samples && ../$(BIN)/mypy --config-file ../pyproject.toml --allow-untyped-calls --explicit-package-bases .

.venv/made.stamp:
	$(PYTHON) -m venv .venv
	$(if $(TORCH),$(PIP) install $(TORCH))
	touch $@

# build/ keeps modules that were deleted since, and they would be installed again.
.venv/%.stamp: $(SOURCES) | .venv/made.stamp
	rm -rf build
	$(PIP) install ".[$*$(CUDA_EXTRA)]"
	rm -rf build
	touch $@
