//! Addresses of a device's memory that say what lies there, as kernels are given them and as structures hold them.
//!
//! An address does not keep the memory: whoever launches a kernel sees to it that the memory outlives the launch.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU64;

use cudarc::driver::DeviceRepr;

/// Defines an address of values that a kernel reads, or of those that it writes.
macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub(crate) struct $name<T> {
            bits: NonZeroU64,
            values: PhantomData<fn() -> T>,
        }

        impl<T> $name<T> {
            /// Address of values of `T`, as the driver gives it.
            pub(crate) fn new(bits: u64) -> Self {
                let bits = NonZeroU64::new(bits).unwrap_or_else(|| unreachable!("no allocation is at null"));
                Self { bits, values: PhantomData }
            }

            /// Number that the driver knows the address by.
            pub(crate) fn bits(self) -> u64 {
                self.bits.get()
            }

            /// Number that kernels take for an address that may be missing.
            pub(crate) fn or_null(address: Option<Self>) -> u64 {
                address.map_or(0, Self::bits)
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                self.bits == other.bits
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.bits)
            }
        }

        // SAFETY: one number of 64 bits, as a pointer of a kernel.
        unsafe impl<T> DeviceRepr for $name<T> {}
    };
}

address! {
    /// Address of values that kernels read.
    Address
}

address! {
    /// Address of values that kernels write.
    AddressMut
}

impl<T> Address<T> {
    /// Address of the value that lies `count` values behind.
    pub(crate) fn add(self, count: usize) -> Self {
        Self::new(self.bits() + (count * size_of::<T>()) as u64)
    }

    /// Address of the same memory, read as values of another type.
    pub(crate) fn cast<U>(self) -> Address<U> {
        Address::new(self.bits())
    }

    /// Address for a kernel that writes there while others may, or that could write and does not.
    pub(crate) fn as_mut(self) -> AddressMut<T> {
        AddressMut::new(self.bits())
    }
}

// an address that may be missing is null for a kernel
const _: () = assert!(size_of::<Option<Address<u8>>>() == size_of::<u64>());
