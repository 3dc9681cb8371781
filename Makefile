# `make help` lists what there is. Every target first sets up what it needs; repeating that is quick.

.DEFAULT_GOAL := help
.PHONY: help demo test check lab docs bench torture lock clean python system system-test

# So that a plain user finds sshd and ip, and no target meets settings of another environment. One
# that keeps no bytecode makes each of the many processes compile all that it imports: seconds.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
INSTALL := labkit/programs/install.sh
LACKING := $(BIN)/python -m labkit.programs

help: ## this list
	@echo 'make TARGET   (add SYSTEM=no to leave the packages of the system alone)'
	@echo
	@sed -n 's/^\([a-z]*\):[^#]*## /\1	/p' Makefile | while IFS='	' read -r name said; do \
	    printf '  %-9s %s\n' "$$name" "$$said"; done

demo: system ## from nothing to a judged study: hosts up, ping between them, report, hosts down
	@$(BIN)/labkit demo

# Five processes of tests share the machine, with all hosts and guests that they have started: most
# of the time they wait, for guests to boot or a clock to pass. So what fails beside others runs once
# more, alone.
test: system-test ## the tests that this machine can run; the others say why they were skipped
	@$(PYTEST) -n 5 --dist loadscope || { \
	    echo 'FAILED BESIDE OTHER TESTS: what failed above runs once more, alone, to the first failure'; \
	    $(PYTEST) -v -x -n 0 --last-failed; }

check: python ## what each change must pass: ruff, mypy, the quick tests; about a minute
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check --quiet || { echo 'hint: $(BIN)/ruff format'; exit 1; }
	@$(BIN)/mypy
	@$(PYTEST) -q -n 2 -m 'not box and not browser and not slow and not torture'

lab: system ## JupyterLab, open at a page of studies, labs and results
	@$(BIN)/labkit lab

# REPOSITORY=https://github.com/you/labkit adds a link to each notebook that opens it on Binder.
docs: python ## the site in out/site: pages, notebooks on recorded runs, reference; asks no network
	@$(BIN)/python notebooks/docs/site/build.py --repository '$(REPOSITORY)'

bench: system-test ## the benchmarks; each writes out/bench/<name>.json
	@mkdir -p out/bench
	@failed=; found=; for file in tests/bench/[!_]*.py; do \
	    [ -e "$$file" ] || continue; found=yes; \
	    echo "== $$file"; $(BIN)/python "$$file" || failed="$$failed $$file"; \
	done; \
	[ "$$found" ] || echo 'there are no benchmarks in tests/bench yet'; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

torture: system-test ## minutes to hours: crashes at random moments, long runs, what `make test` left out
	@LABKIT_CASES=other $(PYTEST) -m 'torture or hypothesis or when_changed'

lock: python ## write .ci/requirements.txt anew, with the newest versions allowed
	@.ci/lock

clean: ## remove .venv and caches; results in out/ are kept
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	@find labkit tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo 'Clean. out/ is kept; a box that is up stays up (labkit box down).'

python:
	@.ci/venv

system: python ## only the set-up: .venv and the system packages that are missing
	@packages=$$($(BIN)/labkit doctor --packages) && \
	    $(INSTALL) 'for the lab in a box and its studies' $$packages
	@.ci/guest-kernel

# Each module of labkit and each test names the programs that it calls. libvirt, QEMU and Docker are
# for settings: the tests start their own, which nobody else sees. So are TuneD and irqbalance, which
# in guests undo what a study has set.
system-test: system
	@packages=$$($(LACKING) labkit/box labkit/workloads labkit/probes labkit/settings tests) && \
	    $(INSTALL) 'for the tests' $$packages
