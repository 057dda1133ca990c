# Two commands a newcomer needs: `make demo` and `make test`. Everything lives in .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Whole files go to a worker, so that tests share fits and compiled programs, in the order of
# tests/conftest.py.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder
# Modules are translated when they are first imported: most of them never are.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-all check format docs benchmark-noise benchmark-em benchmark-networks benchmark-scaling benchmark-mcmc benchmark-uci benchmark-peers benchmark-tables benchmark-estimators benchmark-conformal benchmark-holes benchmark-latency benchmark-raw clean

demo: $(STAMP)
	@mkdir -p out
	$(BIN)/scalemix demo --output out/demo.html

test: $(STAMP)
	$(BIN)/python -m pytest $(WORKERS)

# With XLA's own settings, as users run it; `make test` compiles quickly instead (tests/conftest.py).
test-all: $(STAMP)
	XLA_FLAGS= $(BIN)/python -m pytest $(WORKERS) -m ""

check: .venv/.check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/pyright
	$(BIN)/python -m tests.check_types

format: .venv/.check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# All that README, pages and docstrings show is run. Any warning fails. The variable silences an
# announcement of the theme's.
docs: .venv/.docs
	$(BIN)/python -m pytest $(WORKERS) -m "docs and not slow"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir out/docs

benchmark-noise: $(STAMP)
	$(INSTALL) --group benchmark
	$(BIN)/python benchmarks/noise_speed.py

benchmark-em: $(STAMP)
	$(BIN)/python benchmarks/em_speed.py

benchmark-networks: $(STAMP)
	$(BIN)/python benchmarks/networks.py

benchmark-scaling: $(STAMP)
	$(BIN)/python benchmarks/scaling.py members
	$(BIN)/python benchmarks/scaling.py one
	$(BIN)/python benchmarks/scaling_page.py

benchmark-uci: $(STAMP)
	$(BIN)/python benchmarks/uci_default.py

# A peer wants an older BlackJAX than ours, hence a venv of its own.
benchmark-mcmc: $(STAMP) .venv-peer/.installed
	$(BIN)/python benchmarks/mcmc_peer.py --peer-python .venv-peer/bin/python

benchmark-peers: $(STAMP) .venv-peer/.installed
	$(BIN)/python benchmarks/uci_peers.py --peer-python .venv-peer/bin/python

# Days of processor time in all. It may be stopped and goes on later; see tables.py for parts of it.
benchmark-tables: $(STAMP) .venv-peer/.tables
	$(BIN)/python benchmarks/tables.py --peer-python .venv-peer/bin/python

benchmark-estimators: $(STAMP) .venv-peer/.tables
	$(BIN)/python benchmarks/estimator_peers.py --peer-python .venv-peer/bin/python

benchmark-conformal: $(STAMP)
	$(PYTHON) -m venv .venv-mapie
	.venv-mapie/bin/python -m pip install --quiet --disable-pip-version-check mapie==1.6.0
	$(BIN)/python benchmarks/conformal.py --peer-python .venv-mapie/bin/python

benchmark-holes: $(STAMP)
	$(BIN)/python benchmarks/holes.py

benchmark-latency: $(STAMP)
	$(BIN)/python benchmarks/latency.py

benchmark-raw: $(STAMP) .venv-peer/.tables
	$(BIN)/python benchmarks/raw_tables.py --peer-python .venv-peer/bin/python

.venv-peer/.installed: constraints.txt
	$(PYTHON) -m venv .venv-peer
	grep -E '^(jax|jaxlib|numpy|optax|scikit-learn|scipy)==' constraints.txt > .venv-peer/constraints.txt
	.venv-peer/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-peer/constraints.txt sklearn-contrib-bde==1.0.2 xgboost-cpu==3.2.0 ngboost==0.5.11
	@touch $@

# PyTorch first: what is installed after it is content with this version and fetches no other.
.venv-peer/.tables: .venv-peer/.installed
	.venv-peer/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-peer/constraints.txt torch==2.13.0
	.venv-peer/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-peer/constraints.txt torch==2.13.0 lightgbm==4.7.0 catboost==1.2.10 pytabkit==1.7.3
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("scalemix needs Python 3.11 or later; %d.%d found. Try: make PYTHON=python3.11 ..." % v[:2])'
	$(PYTHON) -m venv .venv
	@# Older ones do not know dependency groups.
	$(INSTALL) 'pip>=25.1'
	$(INSTALL) --editable '.[all]' --group test
	@touch $@

.venv/.check .venv/.docs: .venv/.%: $(STAMP)
	$(INSTALL) --group $*
	@touch $@

clean:
	rm -rf .venv .venv-peer .venv-mapie .pytest_cache .ruff_cache .hypothesis dist build out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
