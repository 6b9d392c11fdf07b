#!/bin/sh
# Runs the SDKs, as install.sh has installed them, against fleets in one process.
set -eu
cd "$(dirname "$0")/../.."
COLONNADE_SDK=1 exec "${GO:-go}" test -count=1 -v ./test/sdk
