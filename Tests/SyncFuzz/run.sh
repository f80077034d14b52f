#!/bin/sh
# Builds the fuzzer and runs it: Tests/SyncFuzz/run.sh [SECONDS] [libFuzzer options]
#
# Not part of the normal build. Inputs that fail are written to FailCases/manifest; commit them there, and
# `swift test` replays them from then on. Starts from the samples of Manifests/.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
seconds=${1:-60}
[ $# -gt 0 ] && shift
work=${SYNCAGENT_FUZZ_WORK:-$root/.build/fuzz}
mkdir -p "$work/corpus"

flags="-swift-version 6 -enable-upcoming-feature ExistentialAny -enable-upcoming-feature InternalImportsByDefault
    -enable-upcoming-feature MemberImportVisibility -package-name syncagent -parse-as-library -O -wmo -g
    -sanitize=fuzzer,address"
cd "$work"
# shellcheck disable=SC2086
for module in SyncModel SyncManifest; do
    swiftc $flags -I . -module-name $module -emit-module -emit-module-path $module.swiftmodule \
        -c $(find "$root/Sources/$module" -name '*.swift') -o $module.o
done
# shellcheck disable=SC2086
swiftc $flags -I . "$here/ManifestFuzz.swift" SyncModel.o SyncManifest.o -o fuzz-manifest

for sample in "$root"/Manifests/samples/*.json "$root"/Manifests/samples/*/*.json; do
    cp "$sample" "corpus/$(basename "$(dirname "$sample")")-$(basename "$sample")"
done
# A manifest in parts, each text behind a zero byte: the fuzzer reads them together.
ones=$(printf '1%.0s' $(seq 64))
for part in "$root"/Manifests/samples/invalid-parts/*.json; do
    {
        printf '{"format":"syncagent-manifest/2","project":"p","packs":[{"url":"p","size":1000,"sha256":"%s"}],' "$ones"
        printf '"parts":[{"blob":[0,0,9,9,"none","%s"],"files":2}]}\0' "$ones"
        cat "$part"
    } >"corpus/in-parts-$(basename "$part")"
done
./fuzz-manifest corpus "$here/FailCases/manifest" -dict="$here/manifest.dict" -max_total_time="$seconds" \
    -max_len=8192 -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$here/FailCases/manifest/" "$@"
