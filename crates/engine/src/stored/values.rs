//! Values of several fields, and of any number of bytes.

use std::sync::Arc;

use arrow::array::{Array, Float64Array, StringViewArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};

use super::{Sink, Source, Store, Stored};
use crate::error::{Result, internal_err};

/// Stores a structure field by field: `stored!(Type { field, other })`. Fields that are made again follow:
/// `stored!(Type { field } with { made: expression })`.
macro_rules! stored {
    ($type:ty $([$($generics:tt)*])? { $($field:ident),+ $(,)? } $(with { $($made:ident: $make:expr),+ $(,)? })?) => {
        impl $(<$($generics)*>)? $crate::stored::Store for $type {
            fn store(&self, sink: &mut $crate::stored::Sink<'_>) -> $crate::Result<()> {
                let Self { $($field,)+ $($($made: _,)+)? } = self;
                $($crate::stored::Store::store($field, sink)?;)+
                Ok(())
            }
        }

        impl $(<$($generics)*>)? $crate::stored::Stored for $type {
            fn load(source: &mut $crate::stored::Source<'_>) -> $crate::Result<Self> {
                $(let $field = $crate::stored::Stored::load(source)?;)+
                $($(let $made = $make;)+)?
                Ok(Self { $($field,)+ $($($made,)+)? })
            }
        }
    };
}

/// Stores which of its variants an enumeration without fields is, by name: `tagged!(Type { Variant, Other })`.
macro_rules! tagged {
    ($type:ty { $($variant:ident),+ $(,)? }) => {
        impl $crate::stored::Store for $type {
            fn store(&self, sink: &mut $crate::stored::Sink<'_>) -> $crate::Result<()> {
                let name = match self {
                    $(Self::$variant => stringify!($variant),)+
                };
                $crate::stored::Store::store(name, sink)
            }
        }

        impl $crate::stored::Stored for $type {
            fn load(source: &mut $crate::stored::Source<'_>) -> $crate::Result<Self> {
                let name: String = $crate::stored::Stored::load(source)?;
                match name.as_str() {
                    $(stringify!($variant) => Ok(Self::$variant),)+
                    _ => $crate::error::internal_err!("a stored index has an unknown name"),
                }
            }
        }
    };
}

pub(crate) use {stored, tagged};

impl<T: Stored> Store for Vec<T> {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.len().store(sink)?;
        T::store_all(self, sink)
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        let count = usize::load(source)?;
        T::load_all(count, source)
    }
}

impl<T: Stored> Store for Arc<[T]> {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.len().store(sink)?;
        T::store_all(self, sink)
    }
}

impl<T: Stored> Stored for Arc<[T]> {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        Ok(Vec::load(source)?.into())
    }
}

impl<T: Stored> Store for Option<T> {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.is_some().store(sink)?;
        self.iter().try_for_each(|value| value.store(sink))
    }
}

impl<T: Stored> Stored for Option<T> {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        bool::load(source)?.then(|| T::load(source)).transpose()
    }
}

impl<A: Stored, B: Stored> Store for (A, B) {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.0.store(sink)?;
        self.1.store(sink)
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        Ok((A::load(source)?, B::load(source)?))
    }
}

impl Store for str {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.len().store(sink)?;
        sink.bytes(self.as_bytes())
    }
}

impl Store for String {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.as_str().store(sink)
    }
}

impl Stored for String {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        let len = usize::load(source)?;
        match str::from_utf8(source.take(len)?) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => internal_err!("a stored index has a text that is not UTF-8"),
        }
    }
}

impl Store for Buffer {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.len().store(sink)?;
        sink.bytes(self)
    }
}

impl Stored for Buffer {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        let len = usize::load(source)?;
        Ok(source.take(len)?.into())
    }
}

impl Store for NullBuffer {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.len().store(sink)?;
        self.inner().sliced().store(sink)
    }
}

impl Stored for NullBuffer {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        let (len, bits) = (usize::load(source)?, Buffer::load(source)?);
        match len.div_ceil(8) <= bits.len() {
            true => Ok(Self::new(BooleanBuffer::new(bits, 0, len))),
            false => internal_err!("a stored index has too few bits"),
        }
    }
}

impl Store for Float64Array {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.len().store(sink)?;
        f64::store_all(self.values(), sink)?;
        self.nulls().cloned().store(sink)
    }
}

impl Stored for Float64Array {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        let values: Vec<f64> = Vec::load(source)?;
        Ok(Self::try_new(values.into(), Stored::load(source)?)?)
    }
}

impl Store for StringViewArray {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        self.len().store(sink)?;
        u128::store_all(self.views(), sink)?;
        self.data_buffers().len().store(sink)?;
        self.data_buffers().iter().try_for_each(|buffer| buffer.store(sink))?;
        self.nulls().cloned().store(sink)
    }
}

impl Stored for StringViewArray {
    fn load(source: &mut Source<'_>) -> Result<Self> {
        let views: Vec<u128> = Vec::load(source)?;
        let buffers: Vec<Buffer> = Vec::load(source)?;
        Ok(Self::try_new(ScalarBuffer::from(views), buffers, Stored::load(source)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::fixed;

    fn again<T: Stored>(value: &T) -> T {
        let mut bytes = Vec::new();
        value.store(&mut Sink::new(&mut bytes)).unwrap();
        for cut in [0, bytes.len() / 2, bytes.len() - 1] {
            assert!(T::load(&mut Source::new(&bytes[..cut], 2)).is_err(), "{cut} of {} bytes", bytes.len());
        }
        let mut source = Source::new(&bytes, 2);
        let loaded = T::load(&mut source).unwrap();
        assert_eq!(source.left(), 0);
        loaded
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Point {
        x: f32,
        leaf: Option<u32>,
        bits: [u64; 3],
    }

    fixed!(Point { x: f32, leaf: Option<u32>, bits: [u64; 3] });

    #[derive(Debug, PartialEq)]
    struct Both<T> {
        points: Vec<Point>,
        name: String,
        all: Vec<T>,
        count: usize,
    }

    stored!(Both<T> [T: Stored] { points, name, all } with { count: 7 });

    #[test]
    fn values_come_back() {
        let point = |x: u32| Point {
            x: x as f32 / 3.0,
            leaf: (!x.is_multiple_of(3)).then_some(x),
            bits: [x.into(), 0, u64::MAX],
        };
        let points: Vec<Point> = (0..200_000).map(point).collect();
        let all = vec![Some(3..7u32), None];
        let both = Both { points, name: "é".into(), all, count: 7 };
        assert_eq!(again(&both), both);
        assert!(again(&vec![f64::NAN])[0].is_nan());
        assert_eq!(again(&(vec![1u16, 2], Arc::<[usize]>::from([usize::MAX]))).1[..], [usize::MAX]);
    }

    #[test]
    fn arrays_come_back() {
        let floats = Float64Array::from(vec![Some(1.5), None, Some(-0.0)]).slice(1, 2);
        assert_eq!(again(&floats), floats);
        let texts = StringViewArray::from(vec![Some("short"), None, Some("longer than twelve bytes"), Some("")]);
        assert_eq!(again(&texts.slice(1, 3)), texts.slice(1, 3));
    }

    #[test]
    fn lengths_beyond_the_bytes_are_no_vectors() {
        for count in [u64::MAX, 1 << 61, 9] {
            let mut bytes = count.to_le_bytes().to_vec();
            bytes.extend([1; 40]);
            assert!(<Vec<u64>>::load(&mut Source::new(&bytes, 2)).is_err());
            assert!(<Vec<String>>::load(&mut Source::new(&bytes, 2)).is_err());
            assert!(String::load(&mut Source::new(&bytes, 2)).is_err() || count == 9);
        }
    }
}
