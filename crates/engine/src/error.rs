//! What can go wrong in an engine.

use std::fmt;
use std::sync::Arc;

use arrow::error::ArrowError;

/// What an engine returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an engine could not answer. Each kind says who can mend it.
#[derive(Debug)]
pub enum Error {
    /// A key that the condition cannot read: the query or its data is to blame.
    Keys(String),
    /// What the session asks for cannot be had here.
    Setting(String),
    /// Nobody waits for the result any more.
    Cancelled,
    /// A device has no memory for what it is to hold.
    DeviceFull,
    /// A device or its driver failed.
    Device(String),
    /// A kernel of Arrow failed.
    Arrow(ArrowError),
    /// What the caller brought has failed: its memory limit, or a condition that it evaluates.
    Caller(Box<dyn std::error::Error + Send + Sync>),
    /// One failure that several callers are told of.
    Shared(Arc<Error>),
    /// A fault of this crate.
    Internal(String),
}

impl Error {
    /// An error of the caller's own code, which it gets back unchanged.
    pub fn caller(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Caller(error.into())
    }

    /// The failure itself, where several callers share it.
    pub fn root(&self) -> &Self {
        match self {
            Self::Shared(error) => error.root(),
            error => error,
        }
    }

    /// Whether a device had too little memory.
    pub fn is_device_full(&self) -> bool {
        matches!(self.root(), Self::DeviceFull)
    }

    /// Whether a device has failed, or had too little memory: the work may be done elsewhere.
    pub fn is_of_device(&self) -> bool {
        matches!(self.root(), Self::DeviceFull | Self::Device(_))
    }
}

/// What a device has done; `None` also where it has failed, so that the host does it.
pub(crate) fn unless_failed<T>(done: Result<Option<T>>) -> Result<Option<T>> {
    match done {
        Err(error) if error.is_of_device() => Ok(None),
        done => done,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(message) | Self::Setting(message) | Self::Device(message) => f.write_str(message),
            Self::Cancelled => f.write_str("a join was cancelled"),
            Self::DeviceFull => DeviceFull.fmt(f),
            Self::Arrow(error) => error.fmt(f),
            Self::Caller(error) => error.fmt(f),
            Self::Shared(error) => error.fmt(f),
            Self::Internal(message) => write!(f, "internal error of a similarity engine: {message}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Arrow(error) => Some(error),
            Self::Caller(error) => Some(error.as_ref()),
            Self::Shared(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

/// The lack of a device's memory, as an error of its own.
#[derive(Debug)]
pub struct DeviceFull;

impl fmt::Display for DeviceFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a CUDA device has too little memory for this join; raise similarity.device_memory_fraction or set \
             similarity.engine = 'cpu'",
        )
    }
}

impl std::error::Error for DeviceFull {}

/// `Err` of [`Error::Keys`](crate::Error::Keys) with a formatted message.
#[macro_export]
macro_rules! keys_err {
    ($($message:tt)+) => {
        Err($crate::error::Error::Keys(format!($($message)+)))
    };
}

/// `Err` of [`Error::Internal`](crate::Error::Internal) with a formatted message.
#[macro_export]
macro_rules! internal_err {
    ($($message:tt)+) => {
        Err($crate::error::Error::Internal(format!($($message)+)))
    };
}

pub use {internal_err, keys_err};
