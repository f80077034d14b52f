#!/bin/sh
# A program that embeds a pull: Examples/EmbeddedPull brings a set, its verifier in Swift keeps out what is no PNG, and the
# command sees the same session.
#
#   Tests/walks/embed.sh
#
# Environment: EMBEDDED, the example; otherwise that of the debug build. See common.
# Exit status: 0 when everything did what the page says, 1 at the first that did not.
set -eu

. "$(dirname "$0")/common"
EMBEDDED=$(realpath "${EMBEDDED:-$root/.build/debug/embedded-pull-example}")

mkdir set
printf '\211PNG\r\n\032\nand more' >set/picture.png
echo 'no picture' >set/liar.png
echo text >set/notes.txt
"$SYNCAGENT" publish set --to site --project walk.embed --quiet

echo "- a pull in a program of its own"
expect 2 "$EMBEDDED" "$work/site/manifest.json" tower
grep -q '^! liar.png: .*it is no PNG' output || fail "the verifier was not asked"
cmp set/picture.png tower/picture.png
cmp set/notes.txt tower/notes.txt
[ ! -e tower/liar.png ] || fail "liar.png was placed"

echo "- the command sees the same session"
ends 0 walk.embed syncagent status
ends 0 '"event":"run.summary"' syncagent events walk.embed --json

echo "- what cannot be tried is said"
expect 66 "$EMBEDDED" "$work/nowhere.json" tower
echo "An embedded pull does what its page says."
