// Dice, as crates/measures/src/dice.rs: 2 o / (r + s), one division in double precision.
#pragma once

__device__ __forceinline__ double dice(u32 overlap, u32 left, u32 right) {
    return (double)(2 * (u64)overlap) / (double)((u64)left + right);
}
