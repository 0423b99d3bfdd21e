// Set cosine, as crates/measures/src/set_cosine.rs: o / sqrt(r s), the product taken in integers.
#pragma once

__device__ __forceinline__ double set_cosine(u32 overlap, u32 left, u32 right) {
    return (double)overlap / sqrt((double)((u64)left * right));
}
