#!/usr/bin/env bash
# Brings what the tests need beside .venv: PostgreSQL, Chromium, curl, openssl; Maven and Java's compiler, and with them a real Kafka, a
# schema registry, the Java programs that tests compare with, archives of Java classes; and npm packages.
# Everything is fetched here, and nothing in a test.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh

missing=()
if ! command -v javac >/dev/null || ! at_least_17 "$(javac_major)"; then missing+=(openjdk-17-jdk-headless); fi
command -v mvn >/dev/null || missing+=(maven)
command -v postgres >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || missing+=(postgresql)
command -v chromium >/dev/null || missing+=(chromium)
for tool in curl openssl; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ "${#missing[@]}" -gt 0 ] && may_install; then
  install "${missing[@]}"
  missing=()
fi
if [ "${#missing[@]}" -gt 0 ]; then
  echo "Tests on a real Kafka, PostgreSQL or Chromium, with curl or with TLS need more. Do: sudo apt-get install ${missing[*]}" >&2
  [ -z "${CI:-}" ] || exit 1
fi
# Else each process of a run compiles all tests, at the same time. What is wrong with a test, the run reports.
.venv/bin/python -m pytest --collect-only --quiet -p no:cacheprovider >/dev/null 2>&1 &
compiling=$!
.venv/bin/python -m tests.fetch
# Optional: without it Kafka's records are read in Python, and the tests of the compiled loop are skipped.
if command -v cc >/dev/null; then
  .venv/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation ./native ||
    echo "The compiled loop of native/ was not built. Its tests are skipped." >&2
fi
wait "$compiling" || true
[ "${#missing[@]}" -gt 0 ] || touch .venv/ready-for-tests
