# What CI runs.
check: fmt kernels clippy test python browser doc deny book

# A first look after a change: measures and CPU engine, without DataFusion and without a GPU.
quick:
    cargo test -p similarity-measures -p similarity-engine

fmt:
    cargo fmt --all --check

kernels:
    python3 kernels/build.py --check

clippy:
    cargo clippy --workspace --features similarity-cli/cluster --all-targets -- -D warnings

test:
    cargo test

# Plans as bytes and the package for Python, with the build of DataFusion that `just test` has made.
python:
    cargo test -p similarity-codec -p similarity-python
    python/run-tests

# The charts of a report in a headless browser, which npm downloads; after `just test`.
browser:
    crates/report/browser/run

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --features similarity-cli/cluster --no-deps

# Licences and versions of dependencies. CI repeats it only where these two files differ from those that have passed.
deny:
    cargo deny check licenses bans sources
    sha256sum Cargo.lock deny.toml > .ci/dependencies.sha256

# The book of docs, in target/book; `cargo install mdbook` if it is missing.
book:
    mdbook build docs

# An archive of similarity-cli for this machine's platform, with its checksum; options go to `cargo build`.
release *options:
    crates/cli/release {{options}}

# The figures of docs/bench.
bench:
    cargo bench
