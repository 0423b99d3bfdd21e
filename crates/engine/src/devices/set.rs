//! Which devices a session asks for.

use std::fmt;
use std::str::FromStr;

/// Ordinals that can be listed: those below.
const ORDINALS: usize = u64::BITS as usize;

/// Devices by their ordinals, or all that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceSet {
    /// Every device that can be used.
    All,
    /// The devices of these ordinals.
    Listed(Ordinals),
}

/// Ordinals, one at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordinals(u64);

impl DeviceSet {
    /// The first device alone.
    pub const FIRST: Self = Self::Listed(Ordinals(1));

    /// The ordinals, ascending, on a machine with so many devices.
    pub fn ordinals(self, devices: usize) -> impl Iterator<Item = usize> + Clone {
        let (all, listed) = match self {
            Self::All => (devices, 0),
            Self::Listed(Ordinals(listed)) => (0, listed),
        };
        (0..all).chain((0..ORDINALS).filter(move |ordinal| listed >> ordinal & 1 == 1))
    }
}

/// `all`, an ordinal, or several of them such as `0,2`.
impl FromStr for DeviceSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        let mut listed = 0;
        for item in text.split(',').map(str::trim) {
            let ordinal = match item.parse::<usize>() {
                Ok(ordinal) if ordinal < ORDINALS => ordinal,
                _ => {
                    let last = ORDINALS - 1;
                    return Err(format!(
                        "'{item}' is no device; a device is a number from 0 to {last}, several are a list such as \
                         '0,2', and 'all' is every one"
                    ));
                }
            };
            if listed >> ordinal & 1 == 1 {
                return Err(format!("device {ordinal} is there twice; name each device once"));
            }
            listed |= 1 << ordinal;
        }
        Ok(Self::Listed(Ordinals(listed)))
    }
}

impl fmt::Display for DeviceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Listed(_) => {
                let ordinals: Vec<String> = self.ordinals(0).map(|ordinal| ordinal.to_string()).collect();
                f.write_str(&ordinals.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_as_they_are_shown() {
        for (text, shown, ordinals) in
            [("0", "0", vec![0]), (" 3, 1 ,63", "1,3,63", vec![1, 3, 63]), ("ALL", "all", vec![0, 1, 2, 3])]
        {
            let set: DeviceSet = text.parse().unwrap();
            assert_eq!((set.to_string().as_str(), set.ordinals(4).collect()), (shown, ordinals));
            assert_eq!(shown.parse(), Ok(set));
        }
        assert_eq!("0".parse(), Ok(DeviceSet::FIRST));
    }

    #[test]
    fn errors_say_what_was_wrong() {
        for text in ["", "-1", "64", "0,", "0;1", "cuda:0"] {
            assert!(text.parse::<DeviceSet>().unwrap_err().contains("is no device"), "{text}");
        }
        assert!("1,0,1".parse::<DeviceSet>().unwrap_err().starts_with("device 1 is there twice"));
    }
}
