#!/usr/bin/env bash
# Brings up .venv with the locked packages. Needs Python 3.11 or newer and a Java runtime 17 or newer (Spark
# runs on it), and no more: what the tests need beside it, scripts/setup_tests.sh brings.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
python="${PYTHON:-python3}"

missing() { # what, Debian's package, Fedora's package
  echo "tidegate needs $1. Do: sudo apt-get install $2   (Fedora: sudo dnf install $3)" >&2
  exit 1
}

command -v "$python" >/dev/null || missing "Python 3.11 or newer" "python3 python3-venv" python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "tidegate needs Python 3.11 or newer, and '$python' is older. Do: make PYTHON=python3.11 setup" >&2
  exit 1
}
if ! command -v java >/dev/null || ! at_least_17 "$(java_major)"; then
  may_install || missing "Java 17 or newer" openjdk-17-jre-headless java-17-openjdk-headless
  install openjdk-17-jre-headless
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  may_install || missing "Python's venv module" python3-venv python3
  install python3-venv
fi

# What is imported is compiled below: it is a small part of what is installed.
pip=(.venv/bin/python -m pip --disable-pip-version-check --quiet install --no-compile)

packages() { # Spark is as large as all others together: two processes install the two halves
  local lists spark status=0
  lists="$(mktemp -d)"
  awk -v spark="$lists/spark" -v others="$lists/others" \
    '/^[^ ]/ { list = /^pyspark==/ ? spark : others } { print > list }' locks/all.txt
  "${pip[@]}" --no-deps --require-hashes --no-build-isolation -r "$lists/spark" &
  spark=$!
  "${pip[@]}" --no-deps --require-hashes --no-build-isolation -r "$lists/others" || status=$?
  wait "$spark" || status=$?
  rm -r "$lists"
  return "$status"
}

step "creating .venv" "$python" -m venv .venv
step "installing the build tools" "${pip[@]}" --require-hashes -r locks/tools.txt
step "installing Spark and the other packages (about 600 MB)" packages
step "installing tidegate from this folder" "${pip[@]}" --no-deps --no-build-isolation --editable .
step "compiling what tidegate imports" env -u PYTHONDONTWRITEBYTECODE \
  .venv/bin/python -c "import confluent_kafka, fastapi, pandas, pyspark.sql, uvicorn, tidegate.cli.main, tidegate.spark.running"
touch .venv/ready
