//! The matching rules of a session.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::prelude::SessionConfig;

use super::rule::Rule;
use similarity_measures::osa::osa_distance;

type Rules = BTreeMap<String, Arc<Rule>>;

/// The matching rules of a session, an extension of its [`SessionConfig`].
///
/// Sessions whose configurations are clones of one that already holds a catalog share it.
#[derive(Debug, Default)]
pub struct RuleCatalog {
    rules: RwLock<Rules>,
}

impl RuleCatalog {
    /// The catalog of the session with this configuration.
    ///
    /// # Errors
    /// A planning error where similarity joins were not added to the session.
    pub fn of(config: &SessionConfig) -> Result<Arc<Self>> {
        config.get_extension().ok_or_else(|| {
            plan_datafusion_err!(
                "this session does not know matching rules; build its state `with_similarity()` or call \
                 `enable_similarity()`"
            )
        })
    }

    /// The names of all rules, in ascending order.
    pub fn names(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    pub(super) fn all(&self) -> Vec<(String, Arc<Rule>)> {
        self.read().iter().map(|(name, rule)| (name.clone(), Arc::clone(rule))).collect()
    }

    /// Adds a rule, in the place of its namesake where `replace` says so.
    pub(super) fn add(&self, name: &str, rule: Rule, replace: bool) -> Result<()> {
        let mut rules = self.write();
        if !replace && rules.contains_key(name) {
            return plan_err!(
                "the matching rule '{name}' exists already; CREATE OR REPLACE MATCHING RULE takes its place"
            );
        }
        rules.insert(name.to_owned(), Arc::new(rule));
        Ok(())
    }

    /// Removes a rule; without `if_exists` there has to be one.
    pub(super) fn remove(&self, name: &str, if_exists: bool) -> Result<()> {
        let mut rules = self.write();
        if rules.remove(name).is_none() && !if_exists {
            return plan_err!("{}", unknown(name, &rules));
        }
        Ok(())
    }

    /// The rule that a query calls `name`: as names in SQL text do, it finds a rule in lower case if there is none
    /// of this very name. What to tell the user if there is no such rule either.
    pub(super) fn find(&self, name: &str) -> Result<Arc<Rule>, String> {
        let rules = self.read();
        let found = rules.get(name).or_else(|| rules.get(&name.to_lowercase()));
        found.cloned().ok_or_else(|| unknown(name, &rules))
    }

    // every change is a single insertion or removal, so what a panic left behind is whole

    fn read(&self) -> RwLockReadGuard<'_, Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rules> {
        self.rules.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(name: &str, rules: &Rules) -> String {
    let distance = |known: &&String| osa_distance(&known.to_lowercase(), &name.to_lowercase());
    let nearest = rules.keys().min_by_key(distance).filter(|known| distance(known) <= 1 + name.len() / 4);
    let hint = match nearest {
        Some(nearest) => format!("; did you mean '{nearest}'?"),
        None => "; CREATE MATCHING RULE makes one".to_owned(),
    };
    let known = rules.keys().map(|known| format!("'{known}'")).collect::<Vec<_>>().join(", ");
    let known = if known.is_empty() { "this session has none".to_owned() } else { format!("known are {known}") };
    format!("there is no matching rule '{name}'{hint} ({known})")
}
