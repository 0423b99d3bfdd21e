//! Documentation of SQL functions.

/// Documentation of one SQL function.
#[derive(Debug, Clone, Copy)]
pub struct FunctionDoc {
    /// The call with its arguments, those in brackets optional, as in `jaccard(a, b [, q])`.
    pub syntax: &'static str,
    /// What the function computes.
    pub description: &'static str,
    /// A call and its result.
    pub example: (&'static str, &'static str),
}

impl FunctionDoc {
    /// Name of the function.
    pub fn name(&self) -> &'static str {
        self.syntax.split('(').next().unwrap_or(self.syntax)
    }

    /// Names of the arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &'static str> {
        let inside = self.syntax.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
        inside.split(',').map(|argument| argument.trim_matches(|c: char| "[] ".contains(c))).filter(|a| !a.is_empty())
    }
}
