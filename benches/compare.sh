#!/usr/bin/env bash
# Leasehold beside its peers, on the same work, on this machine: docs/performance-peers.{jsonl,svg}.
#
#   benches/compare.sh                  the comparison
#   benches/compare.sh backlog          Leasehold with more and more records waiting:
#                                       docs/performance-backlog.{jsonl,svg}
#   benches/compare.sh [backlog] --tiny in seconds, unoptimized and into target/compare, to see that all of it
#                                       still runs
#
# Sizes: RECORDS (20000), BACKLOG (0), IN_FLIGHT (256), ROUNDS (3, the median is taken), SINGLE_RECORDS
# (2000, for the peers that sync for every record), BACKLOGS ("1000 10000 100000 1000000"). FOLDER is where
# the databases are put for the while; it has to be on the disk that is to be measured. LEASEHOLD may name
# a program that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."

part=compare
tiny=
for argument in "$@"; do
    case "$argument" in
        compare | backlog) part=$argument ;;
        --tiny) tiny=yes ;;
        *)
            echo "usage: benches/compare.sh [compare|backlog] [--tiny]" >&2
            exit 2
            ;;
    esac
done

target=${CARGO_TARGET_DIR:-$PWD/target}
folder=${FOLDER:-$target/compare}
mkdir -p "$folder"
if [ -n "$tiny" ]; then
    records=200 backlog=20 in_flight=16 rounds=1 single=20 backlogs="10 100" results=$folder
else
    records=${RECORDS:-20000} backlog=${BACKLOG:-0} in_flight=${IN_FLIGHT:-256} rounds=${ROUNDS:-3}
    single=${SINGLE_RECORDS:-2000} backlogs=${BACKLOGS:-1000 10000 100000 1000000} results=docs
fi

# To see that it runs, programs that are built quickly do.
release=(--release) built=release
if [ -n "$tiny" ]; then
    release=() built=debug
fi
# Both programs of the peers go into one folder, where the one finds the other.
export CARGO_TARGET_DIR=$target/peers
# The bundled SQLite syncs with fsync unless it is told that there is fdatasync, which Leasehold uses.
export LIBSQLITE3_FLAGS=-DHAVE_FDATASYNC=1
cargo build --locked "${release[@]}" --manifest-path benches/peers/Cargo.toml
cargo build --locked "${release[@]}" --manifest-path benches/peers/effectum/Cargo.toml
peers=$CARGO_TARGET_DIR/$built/leasehold-peers
if [ -z "${LEASEHOLD:-}" ]; then
    CARGO_TARGET_DIR=$target cargo build --locked "${release[@]}" --bin leasehold
fi
leasehold=${LEASEHOLD:-$target/$built/leasehold}

lines=$(mktemp "$folder/lines.XXXXXX")
trap 'rm -f "$lines" "$lines.median"' EXIT

bench() { # waiting
    "$leasehold" bench --records "$records" --backlog "$1" --in-flight "$in_flight" \
        --http 0 --folder "$folder" >>"$lines"
}

peer() { # name, lives
    "$peers" run "$1" --records "$2" --backlog "$backlog" --in-flight "$in_flight" \
        --folder "$folder" >>"$lines"
}

# Round by round, not peer by peer: what else the machine does then falls on all of them.
measure_compare() {
    for round in $(seq "$rounds"); do
        echo "round $round of $rounds" >&2
        bench "$backlog"
        for name in raw sqlite effectum apalis; do
            peer "$name" "$records"
        done
        for name in raw-single sqlite-single apalis-single; do
            peer "$name" "$single"
        done
    done
}

measure_backlog() {
    for round in $(seq "$rounds"); do
        echo "round $round of $rounds" >&2
        for waiting in $backlogs; do
            bench "$waiting"
        done
    done
}

"measure_$part"
case "$part" in
    compare) output=$results/performance-peers ;;
    backlog) output=$results/performance-backlog ;;
esac
"$peers" median "$part" "$lines" | tee "$lines.median"
mv "$lines.median" "$output.jsonl"
"$peers" chart "$part" "$output.jsonl" -o "$output.svg"
echo "$output.svg" >&2
