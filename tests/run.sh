#!/usr/bin/env bash
# All tests but the long ones and those that need a GPU. Tests on a cluster mostly wait for pods, so the others run beside them, at a
# lower priority; what they said stands at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
log=.artifacts/tests-without-cluster.log
mkdir -p "${log%/*}"

nice -n 10 .venv/bin/pytest -m "not gpu and not long and not cluster" >"$log" 2>&1 &
beside=$!
trap 'kill -TERM $beside 2>/dev/null' EXIT
trap 'exit 130' INT TERM
echo "the tests without a cluster run beside these; they write to $log"

.venv/bin/pytest -m "not gpu and not long and cluster"
on_cluster=$?
echo "waiting for the tests without a cluster"
wait "$beside"
without_cluster=$?
cat "$log"
exit $((on_cluster > without_cluster ? on_cluster : without_cluster))
