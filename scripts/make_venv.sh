#!/bin/sh
# Create .venv with $PYTHON, or else with the first of the usual names that is new enough.
# A .venv that is there already is kept; only pip is added where it has none.
set -eu
cd "$(dirname "$0")/.."

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if new_enough .venv/bin/python; then
    .venv/bin/python -c 'import pip' 2>/dev/null || .venv/bin/python -m ensurepip
    exit
fi

python=
if [ -n "${PYTHON:-}" ]; then
    new_enough "$PYTHON" && python=$PYTHON
else
    for name in python3 python3.13 python3.12 python3.11; do
        if new_enough "$name"; then
            python=$name
            break
        fi
    done
fi
if [ -z "$python" ]; then
    found=$("${PYTHON:-python3}" --version 2>&1 | head -n 1) || true
    echo "bisect-diverge needs Python 3.11 or newer; ${PYTHON:-python3} is: ${found:-not there}." \
        "Name another one: make PYTHON=/path/to/python3.12" >&2
    exit 1
fi

echo "Creating .venv with $("$python" --version) ($python)"
if ! "$python" -m venv --clear .venv; then
    rm -rf .venv
    exit 1
fi
