//! Prints how many tests the run skipped, after the tests of all other packages.

use std::io;

fn main() -> io::Result<()> {
    println!("{}", skipped_tests::sum()?);
    Ok(())
}
