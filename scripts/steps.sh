# For the other scripts: what they share. A step is one line with the seconds that it took; what it printed is
# shown only if it failed.
step() {
  local what="$1" began=$SECONDS log status=0 pid
  shift
  log="$(mktemp)"
  "$@" >"$log" 2>&1 &
  pid=$!
  if [ -t 1 ]; then
    while kill -0 "$pid" 2>/dev/null; do
      printf '\r%s ... %d s ' "$what" "$((SECONDS - began))"
      sleep 0.2
    done
    printf '\r'
  else
    printf '%s ...\n' "$what"
  fi
  wait "$pid" || status=$?
  if [ "$status" = 0 ]; then
    printf '%s: %d s      \n' "$what" "$((SECONDS - began))"
  else
    printf '%s: failed after %d s\n' "$what" "$((SECONDS - began))" >&2
    tail -n 40 "$log" >&2
  fi
  rm -f "$log"
  return "$status"
}

# Whether this user may install Debian packages.
may_install() { command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; }

install() {
  step "installing $*" env DEBIAN_FRONTEND=noninteractive bash -c \
    'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' install "$@"
}

java_major() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }
javac_major() { javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p' | head -n 1; }
at_least_17() { [ "${1:-0}" -ge 17 ]; }
