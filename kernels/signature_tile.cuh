// Signatures of many rows against those of many columns: common bits of all pairs, counted by binary tensor cores with
// compute capability 8.0, otherwise by popcounts. What every filter by signatures uses.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define BINARY_TENSOR_CORES 1
#endif

// Words of 32 bits in the part of a signature that one matrix instruction takes.
#define STEP 8  // for the host

// What a warp holds of its Q * 16 probe rows' signatures while build columns pass by, 8 at a time. A thread answers for
// the rows q * 16 + lane / 4 and those 8 after them, in the columns 2 * (lane % 4) and the one after: d[q][0..1] and
// d[q][2..3].
template <int W, int Q>
struct ProbeRows {
#ifdef BINARY_TENSOR_CORES
    u32 a[Q][W][4];

    __device__ __forceinline__ void load(const u32* signatures, u32 row) {
        u32 g = lane_of_thread() >> 2, t = lane_of_thread() & 3;
#pragma unroll
        for (int q = 0; q < Q; q++)
#pragma unroll
            for (int w = 0; w < W; w++) {
                const u32* upper = signatures + (u64)(row + q * 16 + g) * (W * STEP) + w * STEP;
                const u32* lower = upper + 8 * (W * STEP);
                a[q][w][0] = upper[t];
                a[q][w][1] = lower[t];
                a[q][w][2] = upper[4 + t];
                a[q][w][3] = lower[4 + t];
            }
    }

    // d = common bits of each pair, less `needed`.
    __device__ __forceinline__ void common(const u32* columns, int needed, int d[Q][4]) const {
        u32 g = lane_of_thread() >> 2, t = lane_of_thread() & 3;
#pragma unroll
        for (int q = 0; q < Q; q++)
#pragma unroll
            for (int z = 0; z < 4; z++) d[q][z] = -needed;
#pragma unroll
        for (int w = 0; w < W; w++) {
            u32 b0 = columns[g * (W * STEP) + w * STEP + t], b1 = columns[g * (W * STEP) + w * STEP + 4 + t];
#pragma unroll
            for (int q = 0; q < Q; q++)
                asm volatile(
                    "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                    "{%0,%1,%2,%3};"
                    : "+r"(d[q][0]), "+r"(d[q][1]), "+r"(d[q][2]), "+r"(d[q][3])
                    : "r"(a[q][w][0]), "r"(a[q][w][1]), "r"(a[q][w][2]), "r"(a[q][w][3]), "r"(b0), "r"(b1));
        }
    }
#else
    const u32* rows;

    __device__ __forceinline__ void load(const u32* signatures, u32 row) { rows = signatures + (u64)row * (W * STEP); }

    __device__ __forceinline__ void common(const u32* columns, int needed, int d[Q][4]) const {
        u32 g = lane_of_thread() >> 2, t = lane_of_thread() & 3;
        for (int q = 0; q < Q; q++)
            for (int z = 0; z < 4; z++) {
                const u32* row = rows + (q * 16 + g + (z >> 1) * 8) * (W * STEP);
                const u32* column = columns + (t * 2 + (z & 1)) * (W * STEP);
                int bits = 0;
                for (int w = 0; w < W * STEP; w++) bits += __popc(row[w] & column[w]);
                d[q][z] = bits - needed;
            }
    }
#endif
};

// Visits the pairs of a warp's rows and a build block that have as many bits in common as needed: the place of the probe
// row among those of the warp, and the build position. All lanes call it.
template <int W, int Q, class Visit>
__device__ __forceinline__ void visit_reaching(const ProbeRows<W, Q>& held, const u32* signatures, u32 block,
                                               int needed, Visit visit) {
#pragma unroll 2
    for (u32 column = block * BLOCK; column < (block + 1) * BLOCK; column += 8) {
        int d[Q][4];
        held.common(signatures + (u64)column * (W * STEP), needed, d);
        int all_negative = -1;
#pragma unroll
        for (int q = 0; q < Q; q++) all_negative &= d[q][0] & d[q][1] & d[q][2] & d[q][3];
        if (all_negative < 0) continue;
        u32 hits = 0;
#pragma unroll
        for (int i = 0; i < Q * 4; i++) hits |= (u32)(d[i / 4][i % 4] >= 0) << i;
        u32 g = lane_of_thread() >> 2, t = lane_of_thread() & 3;
        for (; hits != 0; hits &= hits - 1) {
            u32 i = __ffs(hits) - 1;
            visit(i / 4 * 16 + g + (i % 4 >> 1) * 8, column + t * 2 + (i & 1));
        }
    }
}
