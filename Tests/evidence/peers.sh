#!/bin/bash
# The contenders of bench.sh, one function each with its exact command line. Started as `peers.sh CONTENDER` with
#   URL    where raw/SET/, SET.tar and site/SITE/manifest.json are served    RSYNC  rsync://host:port/module
#   SET    the set to end up with    SITE  what syncagent publishes it as    DST    the destination
#   STATE  where syncagent keeps its state
#   LISTS  input for those that want a list of URLs, made before the clock starts; a gift to them
#   AGAIN  not empty when DST already holds the set, or the revision before it
#   UPDATE not empty when it holds the revision before
#   N      transfers at a time for the others
#   BEFORE another syncagent, such as the one of the last release, for the contender of that name
set -eu -o pipefail
DAY="Tue, 14 Nov 2023 22:13:20 GMT"        # the time of every file that make-set.py writes, but for changed ones

# Floors: what the machine and the path allow to those who know everything before.
hash_all()       { local i pids=()
                   for i in 0 1; do (cd "$DST"; xargs -r -a "$LISTS/half.$i" -d '\n' -n 4000 openssl dgst -r -sha256 >"$LISTS/sums.$i") & pids+=($!); done
                   for i in "${pids[@]}"; do wait "$i"; done
                   sort "$LISTS/sums.0" "$LISTS/sums.1" | cmp - "$LISTS/expected"; }
floor_tar()      { curl -sSf "$URL/$SET.tar" | tar xf - -C "$DST"; }         # nothing verified, nothing on disk for sure
floor_tar_sha()  { floor_tar; hash_all; }                                    # two hashing processes afterwards
floor_tar_sync() { floor_tar; sync -f "$DST"; }                              # on disk for sure, not verified
floor_delta()    { curl -sSf "$URL/$SET.delta.tar" | tar xf - -C "$DST"; }   # whole files, only those that changed
floor_null()     { curl -sSf -o /dev/null -K "$LISTS/null"; }                # one connection, nothing kept
floor_stored()   { curl -sSf -Z --parallel-max 8 -K "$LISTS/stored"; }       # syncagent's packs, nothing kept: what the path allows
floor_stat()     { curl -sSf -o /dev/null "$URL/site/$SITE/manifest.json.zst"; find "$DST" -type f -printf '%P %s %T@\n' >/dev/null; }
floor_rehash()   { hash_all; }

# Programs that people use for this today.
curl_Z()         { local when=(); [ -z "$AGAIN" ] || when=(-z "$DAY")
                   curl -sSf -R "${when[@]}" -Z --parallel-max "$N" --create-dirs -K "$LISTS/curl"; }
curl_Z_sha()     { curl_Z; hash_all; }
aria2()          { aria2c --no-conf -q -i "$LISTS/aria2" -j "$N" -x 4 -s 4 -k 16M --file-allocation=none --check-integrity=true \
                     --allow-overwrite=true --auto-file-renaming=false --deferred-input=true; }
wget2()          { command wget2 --no-config -q ${AGAIN:+-N} --max-threads="$N" -x -nH --cut-dirs=2 -P "$DST" -i "$LISTS/urls"; }
rclone()         { command rclone --config /dev/null -q "$([ -n "$AGAIN" ] && echo sync || echo copy)" ":http:raw/$SET/" "$DST" \
                     --http-url "$URL" --transfers "$N" --checkers $((2 * N)); }
rsync()          { command rsync -a --delete "$RSYNC/$SET/" "$DST/"; }
rsync_checksum() { command rsync -a --checksum --delete "$RSYNC/$SET/" "$DST/"; }
lftp_pget()      { lftp -c "set cmd:fail-exit yes; pget -n 8 $URL/raw/$SET/huge.bin -o $DST/huge.bin"; }
# Told which files have changed, four at a time; control files are on the server.
zsync()          { cd "$DST"
                   xargs -r -a "$LISTS/changed" -d '\n' -P 4 -I{} zsync -q -i {} -o {} "$URL/zsync/$SET/{}.zsync" >/dev/null
                   find . -name '*.zs-old' -delete; }
# What is in DST is its seed; chunks and index are on the server.
casync()         { command casync extract --with=unix --store="$URL/casync/$SET.castr" "$URL/casync/$SET.caidx" "$DST"; }

syncagent()      { XDG_STATE_HOME=$STATE "$SYNCAGENT" pull "$URL/site/$SITE/manifest.json" --into "$DST" --quiet \
                     ${UPDATE:+--prune} ${SYNCAGENT_OPTIONS:-}; }
syncagent_cold() { syncagent; }                                              # the files are there, nothing is known of them
before()         { SYNCAGENT=${BEFORE:?} syncagent; }                        # whether a change has made it slower

"$1"
