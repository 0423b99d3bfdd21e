//! Probe batches as an index makes them ready, with their type or without.

use std::any::Any;

use crate::error::{Result, internal_err};

/// A probe batch that an index has made ready, and what is known of it from then on.
#[derive(Debug)]
pub struct Prepared<B> {
    /// The batch in the form that its index wants.
    pub batch: B,
    /// The length of the cursor over this batch.
    pub len: usize,
    /// Rows that can never match (NULL, blank, or no partner by the equality keys).
    pub unmatchable: usize,
    /// Whether pairs may come out that the condition does not hold for, because of rows of this batch (see
    /// [`IndexInfo::undecided`](crate::IndexInfo::undecided)).
    pub undecided: bool,
    /// Whether what is left of this batch after one call is faster where several threads share it.
    pub shared: bool,
}

impl<B> Prepared<B> {
    /// A batch whose pairs are all decided, and that several threads may share.
    pub fn new(batch: B, len: usize, unmatchable: usize) -> Self {
        Self { batch, len, unmatchable, undecided: false, shared: true }
    }

    /// Facts about the batch, without it.
    pub(crate) fn known(&self) -> Prepared<()> {
        let &Self { len, unmatchable, undecided, shared, .. } = self;
        Prepared { batch: (), len, unmatchable, undecided, shared }
    }

    /// Changes the form of the batch.
    pub fn map<C>(self, form: impl FnOnce(B) -> C) -> Prepared<C> {
        let Self { batch, len, unmatchable, undecided, shared } = self;
        Prepared { batch: form(batch), len, unmatchable, undecided, shared }
    }
}

/// What an index is probed with.
#[derive(Debug)]
pub enum Probe<'a, B> {
    /// A prepared batch of another input.
    Batch(&'a B),
    /// The build side itself.
    SelfJoin,
}

impl<B> Clone for Probe<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Probe<'_, B> {}

impl<'a, B> Probe<'a, B> {
    /// The batch, for an index that never probes itself.
    ///
    /// # Errors
    /// A self-join.
    pub fn batch(self) -> Result<&'a B> {
        match self {
            Self::Batch(batch) => Ok(batch),
            Self::SelfJoin => internal_err!("an index that does not probe itself was given no probe batch"),
        }
    }
}

/// A probe batch of an index whose type is not known.
#[derive(Debug)]
pub struct AnyBatch(Box<dyn Any + Send + Sync>);

impl AnyBatch {
    /// Forgets the type of a batch.
    pub fn new<B: Send + Sync + 'static>(batch: B) -> Self {
        Self(Box::new(batch))
    }
}

impl<'a> Probe<'a, AnyBatch> {
    /// The probe as the index takes it whose batches are of this type.
    ///
    /// # Errors
    /// A batch that another index has prepared.
    pub fn typed<B: 'static>(self) -> Result<Probe<'a, B>> {
        match self {
            Self::SelfJoin => Ok(Probe::SelfJoin),
            Self::Batch(AnyBatch(batch)) => match batch.downcast_ref() {
                Some(batch) => Ok(Probe::Batch(batch)),
                None => internal_err!("an index was given a probe batch that it did not prepare"),
            },
        }
    }
}
