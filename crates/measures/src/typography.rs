//! Typographic punctuation and fractions in ASCII, as the rules of PostgreSQL 15's `unaccent` have them.

/// What stands for a typographic character.
pub(super) fn plain(c: char) -> Option<&'static str> {
    quotation_mark(c).or_else(|| dash_or_dot(c)).or_else(|| fraction(c))
}

fn quotation_mark(c: char) -> Option<&'static str> {
    Some(match c {
        '‘' | '’' | '‛' | '′' | 'ʹ' | 'ʻ' | 'ʼ' | 'ʽ' | 'ˈ' => "'",
        '“' | '”' | '‟' | '″' | 'ʺ' | '〝' | '〞' => "\"",
        '‚' => ",",
        '„' => ",,",
        '‹' => "<",
        '›' => ">",
        '«' => "<<",
        '»' => ">>",
        _ => return None,
    })
}

fn dash_or_dot(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{AD}' | '\u{2010}'..='\u{2015}' | '\u{2212}' => "-",
        '․' => ".",
        '‥' => "..",
        '…' => "...",
        '‼' => "!!",
        '⁇' => "??",
        '⁈' => "?!",
        '⁉' => "!?",
        _ => return None,
    })
}

/// A fraction stands apart from the whole number before it.
fn fraction(c: char) -> Option<&'static str> {
    Some(match c {
        '¼' => " 1/4",
        '½' => " 1/2",
        '¾' => " 3/4",
        '⅐' => " 1/7",
        '⅑' => " 1/9",
        '⅒' => " 1/10",
        '⅓' => " 1/3",
        '⅔' => " 2/3",
        '⅕' => " 1/5",
        '⅖' => " 2/5",
        '⅗' => " 3/5",
        '⅘' => " 4/5",
        '⅙' => " 1/6",
        '⅚' => " 5/6",
        '⅛' => " 1/8",
        '⅜' => " 3/8",
        '⅝' => " 5/8",
        '⅞' => " 7/8",
        '⅟' => " 1/",
        '↉' => " 0/3",
        '⁄' => "/",
        _ => return None,
    })
}
