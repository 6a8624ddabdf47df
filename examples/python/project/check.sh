#!/bin/sh
# Makes the virtual environment if there is none, and runs the tests with it.
# It needs no network: the project has no dependencies, so the environment has no pip.
set -eu
[ -x .venv/bin/python ] || python3 -m venv --without-pip .venv
.venv/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix, "not in a virtual environment"'
.venv/bin/python -m unittest discover -s tests "$@"
