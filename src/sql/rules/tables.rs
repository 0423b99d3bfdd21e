//! The names that tables have in a statement.

use datafusion::common::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, TableFactor};

use crate::sql::alias::alias;
use crate::sql::visit::{Visitor, visit};

/// The aliases of a statement's relations, and the names of those without one.
#[derive(Debug, Default)]
pub(in crate::sql) struct Tables(Vec<String>);

impl Tables {
    /// The tables of `statement`, at any depth: an alias out of scope is for the planner to tell.
    pub fn of(statement: &mut Statement) -> Result<Self> {
        let mut tables = Self::default();
        visit(statement, &mut tables)?;
        Ok(tables)
    }

    /// Whether there is a table of this name, which may be in a schema.
    pub fn has(&self, name: &[Ident]) -> bool {
        let last = name.last().map(|name| name.value.to_lowercase());
        last.is_some_and(|name| self.0.contains(&name))
    }
}

impl Visitor for Tables {
    fn before_relation(&mut self, relation: &mut TableFactor) -> Result<()> {
        let name = match (alias(relation).map(|alias| alias.name.value.to_lowercase()), &relation) {
            (Some(alias), _) => Some(alias),
            (None, TableFactor::Table { name, .. }) => {
                name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.to_lowercase())
            }
            _ => None,
        };
        self.0.extend(name);
        Ok(())
    }
}
