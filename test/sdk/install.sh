#!/bin/sh
# Installs the official SDKs at their locked versions: js/node_modules,
# python/.venv and go/bin. Needs Node 20 or newer with npm, Python 3.11 or newer
# with venv, and Go; PYTHON and GO name others than python3 and go.
set -eu
cd "$(dirname "$0")"

(cd js && npm ci --no-audit --no-fund)

"${PYTHON:-python3}" -m venv --clear python/.venv
python/.venv/bin/python -m pip install --quiet --disable-pip-version-check \
	--require-hashes --only-binary :all: -r python/requirements.txt

(cd go && "${GO:-go}" build -o bin/queued .)
