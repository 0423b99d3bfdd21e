//! What happens while a statement is typed: datafusion-cli's helper, which also accepts SIMILARITY JOIN and statements
//! about matching rules.

use std::borrow::Cow;

use datafusion::prelude::SessionContext;
use datafusion_cli::helper::CliHelper;
use datafusion_similarity::sql;
use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use crate::shell::parser_options;

/// Completes, highlights and validates input.
pub struct ShellHelper {
    inner: CliHelper,
    ctx: SessionContext,
}

impl ShellHelper {
    pub fn new(ctx: SessionContext, color: bool) -> Self {
        Self { inner: CliHelper::new(&parser_options(&ctx).dialect, color), ctx }
    }

    /// Takes over what the last statement may have set.
    pub fn refresh(&mut self) {
        self.inner.set_dialect(&parser_options(&self.ctx).dialect);
        self.inner.reset_hint();
    }

    /// Enter runs blank lines, commands and statements that are complete and parse.
    fn judge(&self, input: &str) -> ValidationResult {
        let options = parser_options(&self.ctx);
        if input.trim().is_empty() || input.starts_with('\\') {
            return ValidationResult::Valid(None);
        }
        if !sql::is_complete(input, &options) {
            return ValidationResult::Incomplete;
        }
        match sql::check(input, &options) {
            Ok(()) => ValidationResult::Valid(None),
            Err(error) => ValidationResult::Invalid(Some(format!("  {}", error.strip_backtrace()))),
        }
    }
}

impl Validator for ShellHelper {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        self.inner.reset_hint();
        Ok(self.judge(ctx.input()))
    }
}

impl Completer for ShellHelper {
    type Candidate = <CliHelper as Completer>::Candidate;

    fn complete(&self, line: &str, pos: usize, ctx: &Context<'_>) -> Result<(usize, Vec<Self::Candidate>)> {
        self.inner.complete(line, pos, ctx)
    }
}

impl Hinter for ShellHelper {
    type Hint = <CliHelper as Hinter>::Hint;

    fn hint(&self, line: &str, pos: usize, ctx: &Context<'_>) -> Option<Self::Hint> {
        self.inner.hint(line, pos, ctx)
    }
}

impl Highlighter for ShellHelper {
    fn highlight<'l>(&self, line: &'l str, pos: usize) -> Cow<'l, str> {
        self.inner.highlight(line, pos)
    }

    fn highlight_char(&self, line: &str, pos: usize, kind: CmdKind) -> bool {
        self.inner.highlight_char(line, pos, kind)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        self.inner.highlight_hint(hint)
    }
}

impl Helper for ShellHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enter_runs_what_is_complete() {
        let helper = ShellHelper::new(SessionContext::new(), false);
        let judge = |input: &str| helper.judge(input);
        for complete in [
            "",
            "\\d",
            "SELECT 1;",
            "SELECT 1; -- done",
            "SHOW MATCHING RULES;",
            "SELECT * FROM a l\nLEFT SIMILARITY JOIN b r ON l.x = r.x;",
        ] {
            assert!(matches!(judge(complete), ValidationResult::Valid(_)), "{complete}");
        }
        for incomplete in ["SELECT 1", "SELECT ';", "SELECT 1 -- ;", "SELECT 1 /* ;", "SELECT $$;"] {
            assert!(matches!(judge(incomplete), ValidationResult::Incomplete), "{incomplete}");
        }
        for wrong in ["SELECT );", "SELECT * FROM a SIMILARITY JOIN b;", "DROP MATCHING RULE;"] {
            assert!(matches!(judge(wrong), ValidationResult::Invalid(Some(_))), "{wrong}");
        }
    }
}
