//! Set similarity joins.
