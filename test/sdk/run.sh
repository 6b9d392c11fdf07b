#!/bin/sh
# Runs the SDKs, as install.sh has installed them, against fleets in one process, and then against processes that serve one colo. Both have the
# same paths, so the clients of all kinds of engines run once.
set -eu
cd "$(dirname "$0")/../.."
COLONNADE_SDK=1 "${GO:-go}" test -count=1 -v ./test/sdk
COLONNADE_SERVE=1 COLONNADE_SDK=1 exec "${GO:-go}" test -count=1 -v -skip '^(TestClients|TestCompatibilityPage)$' ./test/sdk
