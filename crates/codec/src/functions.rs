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

/// Whether `function` is one that is known by its name.
pub fn is_known(function: &ScalarUDF) -> bool {
    functions::in_plans().iter().any(|known| known.as_ref() == function)
}

/// Whether `function` is one that is known by its name, of which `bytes` then says so.
pub fn encode(function: &ScalarUDF, bytes: &mut Vec<u8>) -> bool {
    let is_ours = is_known(function);
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

/// The methods of a codec about functions: those of this project by name, all others by the codec `self.others`.
macro_rules! forwarded_functions {
    () => {
        fn try_decode_udf(&self, name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
            functions::decode(name, buf)?.map_or_else(|| self.others.try_decode_udf(name, buf), Ok)
        }

        fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
            if functions::encode(node, buf) { Ok(()) } else { self.others.try_encode_udf(node, buf) }
        }

        fn try_decode_higher_order_function(&self, name: &str, buf: &[u8]) -> Result<Arc<HigherOrderUDF>> {
            self.others.try_decode_higher_order_function(name, buf)
        }

        fn try_encode_higher_order_function(&self, node: &HigherOrderUDF, buf: &mut Vec<u8>) -> Result<()> {
            self.others.try_encode_higher_order_function(node, buf)
        }

        fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
            self.others.try_decode_udaf(name, buf)
        }

        fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
            self.others.try_encode_udaf(node, buf)
        }

        fn try_decode_udwf(&self, name: &str, buf: &[u8]) -> Result<Arc<WindowUDF>> {
            self.others.try_decode_udwf(name, buf)
        }

        fn try_encode_udwf(&self, node: &WindowUDF, buf: &mut Vec<u8>) -> Result<()> {
            self.others.try_encode_udwf(node, buf)
        }
    };
}

pub(crate) use forwarded_functions;
