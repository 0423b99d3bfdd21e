#!/usr/bin/env bash
# A scheduler and three executors on this machine, until Ctrl-C. At the top of the repository:
#
#   cargo build --release -p similarity-cli --features cluster
#   SIMILARITY_CLI=target/release/similarity-cli examples/cluster/start.sh
#   target/release/similarity-cli --scheduler 127.0.0.1:50050     # in another terminal
#
# SIMILARITY_CLI is the program, by default the one in the path. MEMORY and CORES are those of each executor.
set -euo pipefail

program=${SIMILARITY_CLI:-similarity-cli}
memory=${MEMORY:-2g}
cores=${CORES:-2}
scheduler=127.0.0.1:50050

processes=()
stop() {
    kill "${processes[@]}" 2> /dev/null || true
    wait
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# rows at this port, tasks at the next one
for port in 50051 50061 50071; do
    "$program" -m "$memory" executor --scheduler "$scheduler" --port "$port" --cores "$cores" &
    processes+=($!)
done
"$program" scheduler --bind "$scheduler" &
processes+=($!)

# an executor may be ended, and the others go on
wait "$!"
