#!/bin/sh
# Installs the official SDKs at their locked versions: js/node_modules and
# python/.venv. Needs Node 20 or newer with npm, and Python 3.11 or newer with
# venv; PYTHON names another interpreter than python3.
set -eu
cd "$(dirname "$0")"

(cd js && npm ci --no-audit --no-fund)

"${PYTHON:-python3}" -m venv --clear python/.venv
python/.venv/bin/python -m pip install --quiet --disable-pip-version-check \
	--require-hashes --only-binary :all: -r python/requirements.txt
