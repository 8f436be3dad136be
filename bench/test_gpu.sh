#!/bin/bash
# All that only a GPU can show, in one go: the tests marked gpu, the kernels' figures, an 8B-shaped model end to end beside transformers.
# Made to take at most six minutes on one H200. Everything runs even where something before it failed; the exit code is the last failure's.
# OUT names a folder for the figures as JSON (default: a new one).
set -uo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-.venv/bin/python}"
out="${OUT:-$(mktemp -d -t octavo-gpu-XXXXXX)}"

if ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "test-gpu: needs a GPU, and torch sees none" >&2
  exit 2
fi

status=0
step() {
  echo "== $*"
  local started=$SECONDS
  "$@" || status=$?
  echo "== $((SECONDS - started)) s"
}

step "$python" -m pytest -q -m gpu tests/kernels tests/runtime
step "$python" -m bench.kernels --json "$out/kernels.json"
step "$python" -m bench.gpu_e2e --json "$out/gpu_e2e.json"
echo "figures: $out"
exit "$status"
