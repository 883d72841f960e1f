# What a fresh machine needs: Python 3.11 or newer with pip and venv, and make.
PYTHON ?= python3
PORT ?= 2024
BIN := .venv/bin

.PHONY: help setup dev demo test eval soak lint format lock clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: .venv/installed  ## Make the virtual environment and install everything

# Made once, and again when one of the two files changes. The stamp comes last, so that an
# installation that broke off is started afresh.
.venv/installed: pyproject.toml requirements.lock
	@command -v $(PYTHON) > /dev/null || { \
		echo "There is no $(PYTHON). Name a Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is older than Python 3.11. Name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

dev: setup  ## Serve the agents on PORT (2024), ten runs at a time, for Studio and the client
	@$(BIN)/python -m scripts.dev_server --port $(PORT)

demo: setup  ## Start a server, watch all three agents work, stop it again
	$(BIN)/python -m scripts.dev_server -- $(BIN)/python client.py demo

test: setup  ## Run every test; none of them needs a key or the internet
	$(BIN)/python -m pytest -n 3 --dist worksteal

eval: setup  ## Try the agents on the model that AGENT_MODEL names; print how often each case passes
	EVALS=.env $(BIN)/python -m pytest tests/evals/test_agents.py -n 4 --no-header --tb=line -r N

soak: setup  ## Try random conversations for MINUTES (10), each with a new seed
	SOAK_MINUTES=$(or $(MINUTES),10) $(BIN)/python -m pytest tests/property -n 2 --timeout 0

lint: setup  ## Check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup  ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup  ## Pin the newest versions that pyproject.toml allows
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --upgrade \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate --output-file requirements.lock pyproject.toml

clean:  ## Remove the virtual environment and what runs left behind
	rm -rf .venv tests/javascript/node_modules .langgraph_api .pytest_cache .mypy_cache .ruff_cache *.egg-info
