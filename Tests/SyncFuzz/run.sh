#!/bin/sh
# Builds a fuzzer and runs it: Tests/SyncFuzz/run.sh [manifest|statement] [SECONDS] [libFuzzer options]
#
# Not part of the normal build. Inputs that fail are written to FailCases/manifest or FailCases/statement; commit them
# there, and `swift test` replays those of manifests from then on. Manifests start from the samples of Manifests/,
# statements from those that the program itself makes (SYNCAGENT; otherwise the debug build).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
what=manifest
case "${1:-}" in manifest | statement) what=$1; shift ;; esac
seconds=${1:-60}
[ $# -gt 0 ] && shift
work=${SYNCAGENT_FUZZ_WORK:-$root/.build/fuzz}
mkdir -p "$work/corpus" "$work/statements"

flags="-swift-version 6 -enable-upcoming-feature ExistentialAny -enable-upcoming-feature InternalImportsByDefault
    -enable-upcoming-feature MemberImportVisibility -package-name syncagent -parse-as-library -O -wmo -g
    -sanitize=fuzzer,address"
cd "$work"
# shellcheck disable=SC2086,SC2046
build() { # MODULES, SOURCE, PROGRAM
    objects=""
    for module in $1; do
        swiftc $flags -I . -I "$root/Sources/COpenSSL" -module-name "$module" -emit-module \
            -emit-module-path "$module.swiftmodule" -c $(find "$root/Sources/$module" -name '*.swift') -o "$module.o"
        objects="$objects $module.o"
    done
    swiftc $flags -I . -I "$root/Sources/COpenSSL" "$here/$2" $objects -o "$3"
}

if [ "$what" = statement ]; then
    build "SyncModel SyncManifest SyncDigest SyncTrust" StatementFuzz.swift fuzz-statement
    program=${SYNCAGENT:-$root/.build/debug/syncagent}
    rm -rf made && mkdir made
    "$program" keys new made/keys --project com.example.fuzz
    "$program" publish "$here" --to made/out --sign made/keys
    cp made/out/trust/* made/keys/*.key statements/
    for statement in made/out/trust/*; do sed '1,/^$/d' "$statement" >"statements/json-$(basename "$statement")"; done
    exec ./fuzz-statement statements "$here/FailCases/statement" -max_total_time="$seconds" -max_len=8192 -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$here/FailCases/statement/" "$@"
fi
build "SyncModel SyncManifest" ManifestFuzz.swift fuzz-manifest

for sample in "$root"/Manifests/samples/*.json "$root"/Manifests/samples/*/*.json; do
    cp "$sample" "corpus/$(basename "$(dirname "$sample")")-$(basename "$sample")"
done
# A manifest in parts, each text behind a zero byte: the fuzzer reads them together.
ones=$(printf '1%.0s' $(seq 64))
for part in "$root"/Manifests/samples/invalid-parts/*.json; do
    {
        printf '{"format":"syncagent-manifest/1","project":"p","packs":[{"url":"p","size":1000,"sha256":"%s"}],' "$ones"
        printf '"parts":[{"blob":[0,0,9,9,"none","%s"],"files":2}]}\0' "$ones"
        cat "$part"
    } >"corpus/in-parts-$(basename "$part")"
done
./fuzz-manifest corpus "$here/FailCases/manifest" -dict="$here/manifest.dict" -max_total_time="$seconds" \
    -max_len=8192 -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$here/FailCases/manifest/" "$@"
