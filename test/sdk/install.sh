#!/bin/sh
# Installs the clients at their locked versions: js/node_modules, python/.venv,
# python/frameworks/.venv and go/bin. Needs Node 20 or newer with npm, Python
# 3.11 or newer with venv, and Go; PYTHON and GO name others than python3 and
# go. Each part may take five minutes. The file .installed says that all of
# them are there: tests that run meanwhile would find half of a client.
set -eu
cd "$(dirname "$0")"
rm -f .installed

# wheels FOLDER FLAGS... installs FOLDER/requirements.txt into FOLDER/.venv.
wheels() {
	folder=$1
	shift
	"${PYTHON:-python3}" -m venv --clear "$folder/.venv"
	timeout 300 "$folder/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
		--require-hashes --only-binary :all: -r "$folder/requirements.txt" "$@"
}

# The frameworks have by far the most files, so they are installed beside the rest.
wheels python/frameworks &
frameworks=$!

(cd js && timeout 300 npm ci --no-audit --no-fund)
wheels python
(cd go && timeout 300 "${GO:-go}" build -o bin/queued .)
wait $frameworks
: >.installed
