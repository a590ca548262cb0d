# Everything runs in .venv, made with plain pip from pyproject.toml under the pins of constraints.txt.
# Only COMET and XTTS have environments of their own: their packages do not go together with those of the zoo.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
COMET_STAMP := .venv-comet/.installed
XTTS_STAMP := .venv-xtts/.installed
export OMP_WAIT_POLICY ?= passive
# Processes of the demo: two stream its two talks at the same time, where no GPU does.
RANKS = $(shell $(PYTHON) -c 'import os, shutil; print(1 if shutil.which("nvidia-smi") else min(2, os.cpu_count() or 1))')

.PHONY: help setup comet xtts demo live test rehearsal train lint docs format clean

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

setup: $(STAMP) ## make .venv and install the zoo with its pins

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "SimulZoo needs Python 3.11 or newer (PYTHON=... make setup)"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --no-build-isolation --constraint constraints.txt --editable '.[dev]'
	@touch $@

comet: $(COMET_STAMP) ## make .venv-comet, which scores evaluation.comet=[...] (Python 3.11 or 3.12)

$(COMET_STAMP): requirements-comet.txt
	@for python in '$(PYTHON)' python3.11 python3.12; do \
		$$python -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' 2>/dev/null \
			&& exec $$python -m venv --clear .venv-comet; \
	done; echo "COMET needs Python 3.11 or 3.12: its numpy has no wheels for later versions (PYTHON=... make comet)"; exit 2
	.venv-comet/bin/python -m pip install --quiet --requirement requirements-comet.txt
	@touch $@

xtts: $(XTTS_STAMP) ## make .venv-xtts, which speaks for synthesizer=xtts (Python 3.11 to 3.13; no weights)

$(XTTS_STAMP): requirements-xtts.txt
	@for python in '$(PYTHON)' python3.11 python3.12 python3.13; do \
		$$python -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12), (3, 13)])' 2>/dev/null \
			&& exec $$python -m venv --clear .venv-xtts; \
	done; echo "XTTS needs Python 3.11, 3.12 or 3.13: its torch has no wheels for later versions (PYTHON=... make xtts)"; exit 2
	.venv-xtts/bin/python -m pip install --quiet --requirement requirements-xtts.txt
	@touch $@

demo: setup ## translate a few talks with every shipped system, print the table, write the report
	$(BIN)/python evaluate.py experiment=demo trainer.devices=$(RANKS)

live: setup ## open a page that interprets what you say, by the shipped InfiniSST
	$(BIN)/python -m zoo live browser=true

test: setup ## run the test suite, two files at a time
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

rehearsal: setup ## run the pages' commands for published weights and real corpora, with tiny stand-ins
	$(BIN)/python -m tests.rehearsal

train: setup ## train the InfiniSST model of the built-in benchmark from scratch
	$(BIN)/python train.py experiment=infinisst_minitalks

lint: setup ## style, types, and the GitHub workflow against its schema
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

docs: setup ## build the documentation site into outputs/site and check its links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

format: setup ## let ruff rewrite the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environments (what you trained in outputs/ stays)
	rm -rf .venv .venv-comet .venv-interop .venv-xtts *.egg-info
