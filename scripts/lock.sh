#!/usr/bin/env bash
# Writes the lock files anew: names, versions and hashes, no addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
options=(--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links
         --no-annotate --no-header --quiet --upgrade)
uv=.venv/bin/uv
printf 'editables\nhatchling\npip\nsetuptools\nwheel\n' | "$uv" pip compile "${options[@]}" - -o locks/tools.txt
"$uv" pip compile "${options[@]}" --all-extras --group dev pyproject.toml -o locks/all.txt
