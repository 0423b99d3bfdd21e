//! The characters of a build side as dense codes.

use arrow::array::{Array, StringViewArray};
use similarity_engine::error::Result;

use similarity_engine::parallel::{in_parallel, ranges};

/// Below this a thread costs more than it saves.
pub(super) const ROWS_WORTH_A_THREAD: usize = 4096;

/// Codes from 1 on, in the order of the characters; 0 is any character that the build side lacks.
#[derive(Debug)]
pub(super) struct Alphabet {
    /// Codes by Unicode scalar value.
    codes: Vec<u32>,
    /// The value of each code; of 0 one that no character has.
    scalars: Vec<u32>,
}

impl Alphabet {
    /// Alphabet of all strings of a column, by up to `threads` threads.
    pub(super) fn of(values: &StringViewArray, threads: usize) -> Result<Self> {
        let parts = in_parallel(ranges(values.len(), threads, ROWS_WORTH_A_THREAD), |rows| {
            let mut occurs = vec![false; 128];
            values.slice(rows.start, rows.len()).iter().flatten().for_each(|text| note(text, &mut occurs));
            Ok(occurs)
        })?;
        let last = parts.iter().map(Vec::len).max().unwrap_or(0);
        let occurs = |scalar: usize| parts.iter().any(|part| part.get(scalar) == Some(&true));
        let (mut codes, mut scalars) = (vec![0; last], vec![u32::MAX]);
        for scalar in (0..last).filter(|&scalar| occurs(scalar)) {
            codes[scalar] = scalars.len() as u32;
            scalars.push(scalar as u32);
        }
        Ok(Self { codes, scalars })
    }

    /// The code of a character.
    #[inline]
    pub(super) fn code(&self, character: char) -> u32 {
        self.codes.get(character as usize).copied().unwrap_or(0)
    }

    /// Whether a byte holds every code.
    pub(super) fn is_small(&self) -> bool {
        self.scalars.len() <= 256
    }

    /// The Unicode scalar value of each code.
    pub(super) fn scalars(&self) -> &[u32] {
        &self.scalars
    }

    pub(super) fn memory(&self) -> usize {
        (self.codes.capacity() + self.scalars.capacity()) * size_of::<u32>()
    }
}

/// Marks the characters of `text` in a table that grows with them.
fn note(text: &str, occurs: &mut Vec<bool>) {
    if text.is_ascii() {
        return text.bytes().for_each(|byte| occurs[usize::from(byte)] = true);
    }
    for character in text.chars() {
        let scalar = character as usize;
        if scalar >= occurs.len() {
            occurs.resize((scalar + 1).next_power_of_two(), false);
        }
        occurs[scalar] = true;
    }
}
