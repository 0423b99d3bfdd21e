//! Nothing but dependencies: cargo builds DataFusion once for each set of features that its packages are asked for.
//!
//! The shell depends on this package, and the package for Python and clusters depend on the shell. So `cargo run`,
//! `cargo test` and the tests of the other packages need one and the same build, as decision 0012 says.
