#!/bin/sh
# Installs the built program into a directory of its own, and looks at the manual page, the page of all options and the
# completions that come with it: every option that is shown has a help text, roff and shells find nothing wrong, and what the program can do
# is in them.
#
# usage: packaging.sh [PROGRAM]       without one, the debug build
#
# Exit status: 0 all is well, 1 it is not. What is not installed here is skipped with a line that says so.
set -u

cd "$(dirname "$0")/.." || exit 1
program=${1:-.build/debug/syncagent}
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
failures=0

complain() { printf '%s\n' "$1" >&2; failures=$((failures + 1)); }
# silent WHAT COMMAND…: the command must succeed and say nothing.
silent() {
    what=$1
    shift
    if ! said=$("$@" 2>&1 >/dev/null) || [ -n "$said" ]; then complain "$what: $said"; fi
}
# has COMMAND WHAT: whether the command is here; otherwise WHAT is skipped.
has() { command -v "$1" >/dev/null || { echo "SKIPPED: $2: no $1"; return 1; }; }

Packaging/install.sh "$program" "$to" >/dev/null || { echo "packaging: it cannot be installed" >&2; exit 1; }
page="$to/share/man/man1/syncagent.1"
Packaging/man.py --options "$program" | cmp -s - Documentation/reference/Options.md ||
    complain "Documentation/reference/Options.md is not what the program says: Packaging/man.py --options $program"
# man(1) formats a page without a word of warning only when there is none.
has man "manual page, groff" && silent "groff" env LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l "$page"
if has mandoc "manual page, mandoc"; then
    said=$(mandoc -T lint -W style "$page" 2>&1) || complain "mandoc: $said"
fi
has bash "completions of bash" && silent "bash" bash -n "$to/share/bash-completion/completions/syncagent"
has zsh "completions of zsh" && silent "zsh" zsh -n "$to/share/zsh/site-functions/_syncagent"
has fish "completions of fish" && silent "fish" fish -n "$to/share/fish/vendor_completions.d/syncagent.fish"

# Each command that help shows, and each of its long options, by the help that people read.
shown() { sed -n '/^OPTIONS:/,$s/^  \([a-z][a-z]*\)[, ].*/\1/p'; }
options() { grep -oE '^  (-[a-z], )?--[a-z0-9-]+(, --[a-z0-9-]+)*' | grep -oE -- '--[a-z0-9-]+' | grep -vE '^--(help|version)$'; }
look() {
    for option in $("$program" "$@" --help | options); do
        grep -qF -- "$(printf '%s' "$option" | sed 's/-/\\-/g')" "$page" || complain "the manual page lacks $* $option"
        for completion in "$to"/share/*/*/*syncagent "$to"/share/fish/*/syncagent.fish; do
            grep -qF -- "${option#--}" "$completion" || complain "${completion#"$to"/share/} lacks $* $option"
        done
    done
}
commands=0
for command in $("$program" --help | shown); do
    inner=$("$program" "$command" --help | shown)
    for words in ${inner:-.}; do
        if [ "$words" = . ]; then words=; fi
        commands=$((commands + 1))
        # shellcheck disable=SC2086 # none or one
        look "$command" $words
        grep -qE "^\.SS $command${words:+ $words}(, [a-z]+)*\$" "$page" || complain "the manual page lacks $command $words"
    done
done
[ "$commands" -ge 20 ] || complain "only $commands commands were found in the help"
[ "$failures" -eq 0 ] && echo "manual page and completions: $commands commands, all in them"
[ "$failures" -eq 0 ]
