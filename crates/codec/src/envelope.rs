//! What stands around the content of a message: whose it is, of which version, and whether it is whole.
//!
//! ```text
//! "dfsimpln" | length of the release, 1 byte | release | format, 4 bytes | XXH3 of the content, 8 bytes | content
//! ```
//! Numbers are little-endian.

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use prost::Message;
use xxhash_rust::xxh3::xxh3_64;

const MARK: &[u8; 8] = b"dfsimpln";
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The number of the format, which every change of a message raises.
const FORMAT: u32 = 3;

/// Appends `message` in an envelope.
pub fn seal(message: &impl Message, bytes: &mut Vec<u8>) {
    seal_bytes(&message.encode_to_vec(), bytes);
}

/// Appends the content of a message in an envelope.
pub fn seal_bytes(content: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(MARK);
    bytes.push(RELEASE.len() as u8);
    bytes.extend_from_slice(RELEASE.as_bytes());
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&xxh3_64(content).to_le_bytes());
    bytes.extend_from_slice(content);
}

/// Whether `bytes` are an envelope, and not of another codec.
pub fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK)
}

/// The message in an envelope.
///
/// # Errors
/// Another format, and bytes that are not whole.
pub fn open<M: Message + Default>(bytes: &[u8]) -> Result<M> {
    let (release, format, checksum, content) = parts(bytes).ok_or_else(damaged)?;
    if format != FORMAT {
        return plan_err!(
            "the plan was written by datafusion-similarity {release} in format {format}, and this is release {RELEASE}, \
             which reads format {FORMAT}; run the same release on every machine"
        );
    }
    if xxh3_64(content) != checksum {
        return Err(damaged());
    }
    M::decode(content).map_err(|_| damaged())
}

/// What is in an envelope, whatever it says of itself.
#[cfg(test)]
pub fn content(bytes: &[u8]) -> Option<&[u8]> {
    parts(bytes).map(|(.., content)| content)
}

fn parts(bytes: &[u8]) -> Option<(&str, u32, u64, &[u8])> {
    let (&length, rest) = bytes.strip_prefix(MARK)?.split_first()?;
    let (release, rest) = rest.split_at_checked(usize::from(length))?;
    let (format, rest) = rest.split_first_chunk()?;
    let (checksum, content) = rest.split_first_chunk()?;
    Some((str::from_utf8(release).ok()?, u32::from_le_bytes(*format), u64::from_le_bytes(*checksum), content))
}

fn damaged() -> datafusion::common::DataFusionError {
    plan_datafusion_err!("the plan of a similarity join is damaged or incomplete; send it again")
}

/// What a message lacks or says that cannot be.
pub fn malformed(what: &str) -> datafusion::common::DataFusionError {
    plan_datafusion_err!("the plan of a similarity join cannot be read: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Bound;

    #[test]
    fn an_envelope_is_opened_whole_or_not_at_all() {
        let (mut bytes, message) = (Vec::new(), Bound { value: 0.8, inclusive: true });
        seal(&message, &mut bytes);
        assert!(is_ours(&bytes));
        assert_eq!(open::<Bound>(&bytes).unwrap(), message);
        for end in 0..bytes.len() {
            let error = open::<Bound>(&bytes[..end]).unwrap_err().to_string();
            assert!(error.contains("damaged or incomplete"), "{end}: {error}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            assert!(open::<Bound>(&changed).is_err() || (MARK.len() + 1..MARK.len() + 1 + RELEASE.len()).contains(&at));
        }
    }

    #[test]
    fn another_format_is_named_with_its_release() {
        let mut bytes = Vec::new();
        seal(&Bound { value: 0.8, inclusive: true }, &mut bytes);
        let at = MARK.len() + 1 + RELEASE.len();
        bytes[at..at + 4].copy_from_slice(&(FORMAT + 1).to_le_bytes());
        let error = open::<Bound>(&bytes).unwrap_err().to_string();
        assert!(error.contains(RELEASE) && error.contains(&format!("in format {}", FORMAT + 1)), "{error}");
    }
}
