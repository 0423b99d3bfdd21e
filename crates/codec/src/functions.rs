//! Functions by name, those of this project and stock measures: what a session has put in their place stays what it is.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion_similarity::functions;
use prost::Message;

use crate::envelope;

/// Says that a function is one of this project.
#[derive(Clone, PartialEq, Message)]
struct Ours {}

/// Whether `function` is one of this project, of which `bytes` then says so.
pub fn encode(function: &ScalarUDF, bytes: &mut Vec<u8>) -> bool {
    let is_ours = functions::in_plans().iter().any(|ours| ours.as_ref() == function);
    if is_ours {
        envelope::seal(&Ours {}, bytes);
    }
    is_ours
}

/// The function with this name, where `bytes` says that it is one of this project or does not say anything.
pub fn decode(name: &str, bytes: &[u8]) -> Result<Option<Arc<ScalarUDF>>> {
    if !bytes.is_empty() {
        if !envelope::is_ours(bytes) {
            return Ok(None);
        }
        envelope::open::<Ours>(bytes)?;
    }
    let found = functions::in_plans().into_iter().find(|function| function.name() == name);
    match found {
        None if !bytes.is_empty() => {
            Err(envelope::malformed(&format!("this release has no function '{name}'; run the same on every machine")))
        }
        found => Ok(found),
    }
}
