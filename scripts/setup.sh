#!/usr/bin/env bash
# Brings up .venv with the locked packages, and finds or installs Java 17+ (Spark needs it), its compiler and
# Maven (the tests fetch a real Kafka broker with it and compile programs against it).
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "tidegate needs Python 3.11 or newer; '$python' is older. Do: make PYTHON=python3.11 setup" >&2; exit 1; }

java_major() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }
if ! command -v java >/dev/null || [ "$(java_major)" -lt 17 ]; then
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless >/dev/null
  else
    echo "tidegate needs Java 17 or newer. Do: sudo apt-get install openjdk-17-jre-headless" >&2; exit 1
  fi
fi
javac_major() { javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p' | head -n 1; }
missing=()
if ! command -v javac >/dev/null || [ "$(javac_major)" -lt 17 ]; then missing+=(openjdk-17-jdk-headless); fi
if ! command -v mvn >/dev/null; then missing+=(maven); fi
if [ "${#missing[@]}" -gt 0 ]; then
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
  else
    echo "The Kafka tests need more. Do: sudo apt-get install ${missing[*]}" >&2; exit 1
  fi
fi

"$python" -m venv .venv 2>/dev/null || {
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
    "$python" -m venv .venv
  else
    echo "This Python has no venv module. Do: sudo apt-get install python3-venv" >&2; exit 1
  fi
}
pip=(.venv/bin/python -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install --require-hashes -r locks/tools.txt
"${pip[@]}" install --require-hashes --no-build-isolation -r locks/all.txt
"${pip[@]}" install --no-deps --no-build-isolation --editable .
touch .venv/ready
