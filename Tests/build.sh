#!/bin/sh
# Builds the program and its tests for Tests/job.sh and Tests/run.sh: nothing optimized, assertions checked, and without DEBUG, with
# which ArgumentParser looks at all options of a command at each of the thousands of starts, a third of a second each time.
#
#   Tests/build.sh [OPTION]...     further options of swift build; --show-bin-path prints where the products are
set -eu
cd "$(dirname "$0")/.."
exec swift build --build-tests --scratch-path .build/tests -c release -Xswiftc -Onone -Xswiftc -enable-testing "$@"
