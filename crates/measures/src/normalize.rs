//! The four Unicode normal forms (Unicode Standard Annex 15).

use std::str::FromStr;

use unicode_normalization::IsNormalized;
use unicode_normalization::{UnicodeNormalization, is_nfc_quick, is_nfd_quick, is_nfkc_quick, is_nfkd_quick};

/// A Unicode normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NormalForm {
    /// Canonical decomposition, then composition.
    Nfc,
    /// Canonical decomposition.
    Nfd,
    /// Compatibility decomposition, then composition.
    Nfkc,
    /// Compatibility decomposition.
    Nfkd,
}

impl FromStr for NormalForm {
    type Err = UnknownNormalForm;

    /// Takes the form's name in any case: `NFC`, `NFD`, `NFKC`, `NFKD`.
    fn from_str(name: &str) -> Result<Self, UnknownNormalForm> {
        let named = |(known, _): &&(&str, Self)| name.eq_ignore_ascii_case(known);
        NAMES.iter().find(named).map(|&(_, form)| form).ok_or(UnknownNormalForm)
    }
}

const NAMES: [(&str, NormalForm); 4] =
    [("NFC", NormalForm::Nfc), ("NFD", NormalForm::Nfd), ("NFKC", NormalForm::Nfkc), ("NFKD", NormalForm::Nfkd)];

/// The name given is none of `NFC`, `NFD`, `NFKC` and `NFKD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownNormalForm;

impl std::fmt::Display for UnknownNormalForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a normal form must be one of NFC, NFD, NFKC, NFKD")
    }
}

impl std::error::Error for UnknownNormalForm {}

/// `s` in the normal form `form`.
pub fn normalize(s: &str, form: NormalForm) -> String {
    let quick = match form {
        NormalForm::Nfc => is_nfc_quick(s.chars()),
        NormalForm::Nfd => is_nfd_quick(s.chars()),
        NormalForm::Nfkc => is_nfkc_quick(s.chars()),
        NormalForm::Nfkd => is_nfkd_quick(s.chars()),
    };
    if quick == IsNormalized::Yes {
        return s.to_string();
    }
    match form {
        NormalForm::Nfc => s.nfc().collect(),
        NormalForm::Nfd => s.nfd().collect(),
        NormalForm::Nfkc => s.nfkc().collect(),
        NormalForm::Nfkd => s.nfkd().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: [NormalForm; 4] = [NormalForm::Nfc, NormalForm::Nfd, NormalForm::Nfkc, NormalForm::Nfkd];

    // Expected values: the Unicode Standard Annex 15, figures 3 to 6.
    #[test]
    fn meets_the_examples_of_the_standard() {
        let cases = [
            ("\u{212B}", ["\u{C5}", "A\u{30A}", "\u{C5}", "A\u{30A}"]),
            ("\u{1E9B}\u{323}", ["\u{1E9B}\u{323}", "\u{17F}\u{323}\u{307}", "\u{1E69}", "s\u{323}\u{307}"]),
            ("\u{FB01}", ["\u{FB01}", "\u{FB01}", "fi", "fi"]),
            ("2\u{2075}", ["2\u{2075}", "2\u{2075}", "25", "25"]),
            ("\u{AC00}", ["\u{AC00}", "\u{1100}\u{1161}", "\u{AC00}", "\u{1100}\u{1161}"]),
        ];
        for (given, expected) in cases {
            for (form, expected) in FORMS.into_iter().zip(expected) {
                assert_eq!(normalize(given, form), expected, "{given:?} {form:?}");
            }
        }
    }

    #[test]
    fn leaves_ascii_and_nothing_alone() {
        for form in FORMS {
            assert_eq!(normalize("", form), "");
            assert_eq!(normalize("Plain text, 1.", form), "Plain text, 1.");
        }
    }

    #[test]
    fn reads_the_names() {
        for (name, form) in ["NFC", "NFD", "NFKC", "NFKD"].into_iter().zip(FORMS) {
            assert_eq!(name.parse(), Ok(form));
            assert_eq!(name.to_lowercase().parse(), Ok(form));
        }
        for unknown in ["", "NF", "NFC ", "UTF8"] {
            assert_eq!(unknown.parse::<NormalForm>(), Err(UnknownNormalForm));
        }
    }
}
