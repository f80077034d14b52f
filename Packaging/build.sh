#!/bin/sh
# Builds the program that is packaged: release, Swift's libraries inside, and of ICU's data only what is used.
#
# usage: Packaging/build.sh [SCRATCH]     prints the path of the program; SCRATCH is .build otherwise
#
# Foundation brings ICU with the words, sort orders and character sets of every language, 34 MB. syncagent asks it for time
# zones only: icu-data.py takes those, and what names of hosts need, from the toolchain's own library. 76 MB become 41.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
scratch=${1:-$root/.build}
mkdir -p "$scratch"
scratch=$(cd "$scratch" && pwd)
library=$(dirname "$(dirname "$(readlink -f "$(command -v swift)")")")/lib/swift_static/linux/lib_FoundationICU.a
set -- build --package-path "$root" --scratch-path "$scratch" -c release --static-swift-stdlib --product syncagent
# Packages hold no debug information, and making it takes a twentieth of the build.
set -- "$@" -debug-info-format none
# Nothing is loaded into the program, so nothing needs its symbols; identical functions are kept once.
set -- "$@" -Xlinker --no-export-dynamic -Xlinker --gc-sections -Xlinker --icf=safe
# Only Swift's runtime needs libstdc++, and a quarter of the names that the loader looks up are its own: it goes in, too.
if archive=$(gcc -print-file-name=libstdc++.a 2>/dev/null) && [ -f "$archive" ]; then
    mkdir -p "$scratch/static-libraries"
    ln -sf "$archive" "$scratch/static-libraries/libstdc++.a"
    set -- "$@" -Xlinker "-L$scratch/static-libraries"
fi
if symbol=$(python3 -B "$root/Packaging/icu-data.py" "$library" "$scratch/icu-data.o"); then
    set -- "$@" -Xlinker "--wrap=$symbol" -Xlinker "$scratch/icu-data.o"
else
    echo "build.sh: all of ICU's data goes in, 34 MB more" >&2
fi
swift "$@" >&2
printf '%s\n' "$scratch/release/syncagent"
