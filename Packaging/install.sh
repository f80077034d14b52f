#!/bin/sh
# Installs a built program with its manual page and its completions.
#
# usage: Packaging/install.sh PROGRAM [PREFIX]        PREFIX: /usr/local without one
#
# Manual page and completions are made by the program itself, so they say what it can do.
# Environment: DESTDIR goes before PREFIX, for packages. Needs python3 for the manual page.
set -eu

[ $# -ge 1 ] && [ -x "$1" ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 64; }
program=$1
to=${DESTDIR:-}${2:-/usr/local}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

python3 -B "$(dirname "$0")/man.py" "$program" >"$made/syncagent.1"
for shell in bash zsh fish; do
    "$program" completion "$shell" >"$made/$shell"
done
install -D -m 755 "$program" "$to/bin/syncagent"
install -D -m 644 "$made/syncagent.1" "$to/share/man/man1/syncagent.1"
install -D -m 644 "$made/bash" "$to/share/bash-completion/completions/syncagent"
install -D -m 644 "$made/zsh" "$to/share/zsh/site-functions/_syncagent"
install -D -m 644 "$made/fish" "$to/share/fish/vendor_completions.d/syncagent.fish"
echo "Installed below $to."
