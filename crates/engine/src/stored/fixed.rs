//! Values of a fixed number of bytes, of which vectors are written and read at once.

use std::ops::Range;

use super::{Sink, Source};
use crate::error::{Result, internal_err};
use crate::parallel::each_in_parallel;

/// A value that takes the same number of bytes always.
pub trait Fixed: Sized + Send {
    /// How many bytes it takes.
    const BYTES: usize;

    /// Writes the value into as many bytes.
    fn put(&self, bytes: &mut [u8]);

    /// The value in as many bytes.
    fn get(bytes: &[u8]) -> Self;

    /// Writes values one after the other.
    ///
    /// # Errors
    /// Whatever the sink fails with.
    fn put_all(values: &[Self], sink: &mut Sink<'_>) -> Result<()> {
        let at_once = (BYTES_AT_ONCE / Self::BYTES.max(1)).max(1);
        let mut bytes = vec![0; at_once.min(values.len()) * Self::BYTES];
        for values in values.chunks(at_once) {
            let bytes = &mut bytes[..values.len() * Self::BYTES];
            values.iter().zip(bytes.chunks_exact_mut(Self::BYTES)).for_each(|(value, bytes)| value.put(bytes));
            sink.bytes(bytes)?;
        }
        Ok(())
    }

    /// Reads so many values.
    ///
    /// # Errors
    /// Too few bytes.
    fn get_all(count: usize, source: &mut Source<'_>) -> Result<Vec<Self>> {
        let Some(bytes) = count.checked_mul(Self::BYTES) else {
            return internal_err!("a stored index has a vector of {count} values");
        };
        let bytes = source.take(bytes)?;
        let mut values = Vec::with_capacity(count);
        let share = count.div_ceil(source.threads()).max(WORTH_A_THREAD / Self::BYTES.max(1)).max(1);
        let places = values.spare_capacity_mut()[..count].chunks_mut(share);
        each_in_parallel(places.zip(bytes.chunks(share * Self::BYTES)), |(places, bytes)| {
            for (place, bytes) in places.iter_mut().zip(bytes.chunks_exact(Self::BYTES)) {
                place.write(Self::get(bytes));
            }
        });
        // SAFETY: there are bytes for `count` values, and each of as many places has been given its own.
        unsafe { values.set_len(count) };
        Ok(values)
    }
}

/// Below this many bytes a thread costs more than it saves.
const WORTH_A_THREAD: usize = 1 << 20;

/// Bytes that are made ready before they are passed on.
const BYTES_AT_ONCE: usize = 1 << 16;

/// Lets values of a fixed number of bytes be stored.
macro_rules! stored_at_once {
    ($type:ty $([$($generics:tt)*])?) => {
        impl $(<$($generics)*>)? $crate::stored::Store for $type {
            fn store(&self, sink: &mut $crate::stored::Sink<'_>) -> $crate::Result<()> {
                <Self as $crate::stored::Stored>::store_all(std::slice::from_ref(self), sink)
            }
        }

        impl $(<$($generics)*>)? $crate::stored::Stored for $type {
            fn load(source: &mut $crate::stored::Source<'_>) -> $crate::Result<Self> {
                Ok(<Self as $crate::stored::Fixed>::get(source.take(<Self as $crate::stored::Fixed>::BYTES)?))
            }

            fn store_all(values: &[Self], sink: &mut $crate::stored::Sink<'_>) -> $crate::Result<()> {
                <Self as $crate::stored::Fixed>::put_all(values, sink)
            }

            fn load_all(count: usize, source: &mut $crate::stored::Source<'_>) -> $crate::Result<Vec<Self>> {
                <Self as $crate::stored::Fixed>::get_all(count, source)
            }
        }
    };
}

/// Stores a structure field by field, all of whose fields are [`Fixed`](super::Fixed): `fixed!(Type { field: u32 })`.
macro_rules! fixed {
    ($type:ty { $($field:tt: $of:ty),+ $(,)? }) => {
        impl $crate::stored::Fixed for $type {
            const BYTES: usize = 0 $(+ <$of as $crate::stored::Fixed>::BYTES)+;

            #[inline]
            fn put(&self, bytes: &mut [u8]) {
                let mut end = 0;
                $(
                    let start = end;
                    end = start + <$of as $crate::stored::Fixed>::BYTES;
                    <$of as $crate::stored::Fixed>::put(&self.$field, &mut bytes[start..end]);
                )+
            }

            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let mut end = 0;
                Self {
                    $($field: {
                        let start = end;
                        end = start + <$of as $crate::stored::Fixed>::BYTES;
                        <$of as $crate::stored::Fixed>::get(&bytes[start..end])
                    }),+
                }
            }
        }

        $crate::stored::stored_at_once!($type);
    };
}

pub(crate) use {fixed, stored_at_once};

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Fixed for $type {
            const BYTES: usize = size_of::<Self>();

            #[inline]
            fn put(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn get(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(Self::default(), |bytes| Self::from_le_bytes(*bytes))
            }
        }

        stored_at_once!($type);
    )+};
}

numbers!(u16, u32, u64, u128, i64, f32, f64);

impl Fixed for u8 {
    const BYTES: usize = 1;

    #[inline]
    fn put(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&[*self]);
    }

    #[inline]
    fn get(bytes: &[u8]) -> Self {
        bytes.first().copied().unwrap_or_default()
    }

    fn put_all(values: &[Self], sink: &mut Sink<'_>) -> Result<()> {
        sink.bytes(values)
    }

    fn get_all(count: usize, source: &mut Source<'_>) -> Result<Vec<Self>> {
        Ok(source.take(count)?.to_vec())
    }
}

stored_at_once!(u8);

impl Fixed for usize {
    const BYTES: usize = u64::BYTES;

    #[inline]
    fn put(&self, bytes: &mut [u8]) {
        (*self as u64).put(bytes);
    }

    #[inline]
    fn get(bytes: &[u8]) -> Self {
        u64::get(bytes) as Self
    }
}

stored_at_once!(usize);

impl Fixed for bool {
    const BYTES: usize = 1;

    #[inline]
    fn put(&self, bytes: &mut [u8]) {
        u8::from(*self).put(bytes);
    }

    #[inline]
    fn get(bytes: &[u8]) -> Self {
        u8::get(bytes) != 0
    }
}

stored_at_once!(bool);

impl<T: Fixed, const N: usize> Fixed for [T; N] {
    const BYTES: usize = N * T::BYTES;

    #[inline]
    fn put(&self, bytes: &mut [u8]) {
        self.iter().zip(bytes.chunks_exact_mut(T::BYTES)).for_each(|(value, bytes)| value.put(bytes));
    }

    #[inline]
    fn get(bytes: &[u8]) -> Self {
        std::array::from_fn(|at| T::get(&bytes[at * T::BYTES..(at + 1) * T::BYTES]))
    }
}

stored_at_once!([T; N] [T: Fixed, const N: usize]);

/// A number that may be missing, which then counts as the type's default.
impl<T: Fixed + Copy + Default> Fixed for Option<T> {
    const BYTES: usize = 1 + T::BYTES;

    #[inline]
    fn put(&self, bytes: &mut [u8]) {
        let (tag, value) = bytes.split_at_mut(1);
        self.is_some().put(tag);
        self.unwrap_or_default().put(value);
    }

    #[inline]
    fn get(bytes: &[u8]) -> Self {
        let (tag, value) = bytes.split_at(1);
        bool::get(tag).then(|| T::get(value))
    }
}

impl<T: Fixed> Fixed for Range<T> {
    const BYTES: usize = 2 * T::BYTES;

    #[inline]
    fn put(&self, bytes: &mut [u8]) {
        let (start, end) = bytes.split_at_mut(T::BYTES);
        self.start.put(start);
        self.end.put(end);
    }

    #[inline]
    fn get(bytes: &[u8]) -> Self {
        let (start, end) = bytes.split_at(T::BYTES);
        T::get(start)..T::get(end)
    }
}

stored_at_once!(Range<T> [T: Fixed]);
