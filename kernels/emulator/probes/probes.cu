// Kernels that test the emulated device itself; the engine does not use them.
// Each stores what a device would, or (the names ending in `_fault`) does what must end the process.
#include "common.cuh"

extern "C" __global__ void probe_positions(u32* out, u32 n) {
  u32 at = blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
  if (at >= n) return;
  out[at] = at * 3 + gridDim.x;
}

// Block sums with a barrier in a loop, after some threads have returned, on dynamic shared memory.
extern "C" __global__ void probe_block_sum(const u32* in, u32* out, u32 n) {
  extern __shared__ u32 cells[];
  u32 at = blockIdx.x * blockDim.x + threadIdx.x;
  cells[threadIdx.x] = at < n ? in[at] : 0;
  __syncthreads();
  for (u32 half = blockDim.x / 2; half; half /= 2) {
    if (threadIdx.x < half) cells[threadIdx.x] += cells[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, cells[0]);
}

// Results of every warp operation, 16 words a thread; the upper half of the warp meets apart from the lower.
extern "C" __global__ void probe_warp(u32* out) {
  u32 lane = threadIdx.x % 32;
  u32* mine = out + threadIdx.x * 16;
  u32 half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  mine[0] = __shfl_sync(ALL_LANES, lane * 2, 5);
  mine[1] = __shfl_up_sync(ALL_LANES, lane, 3);
  mine[2] = __shfl_down_sync(ALL_LANES, lane, 3, 8);
  mine[3] = __shfl_xor_sync(ALL_LANES, lane, 17);
  mine[4] = __ballot_sync(ALL_LANES, lane % 3 == 0);
  mine[5] = __any_sync(ALL_LANES, lane == 31) * 2 + __all_sync(ALL_LANES, lane < 31);
  mine[6] = __match_any_sync(ALL_LANES, lane / 4);
  mine[7] = __match_any_sync(half, (u64)(lane % 2) << 40);
  if (lane < 16) {
    mine[8] = __ballot_sync(half, lane & 1);
  } else {
    mine[8] = __shfl_sync(half, lane, 20);
  }
  __syncwarp();
  mine[9] = (u32)(__shfl_sync(ALL_LANES, (u64)lane << 33, 7) >> 32);
  mine[10] = __syncthreads_count(lane < 7);
  mine[11] = __syncthreads_or(threadIdx.x == 40) * 2 + __syncthreads_and(threadIdx.x != 40);
#ifndef __CUDA_ARCH__
  mine[12] = __reduce_add_sync(ALL_LANES, lane);
  mine[13] = (u32)__reduce_min_sync(ALL_LANES, (i32)lane - 9);
#endif
  if (lane > 9) return;
  mine[14] = __ballot_sync(ALL_LANES, 1);
  mine[15] = __activemask();
}

extern "C" __global__ void probe_integers(u32* out) {
  out[0] = __byte_perm(0x03020100u, 0x07060504u, 0x7531u);
  out[1] = __funnelshift_l(0x80000001u, 0x00000002u, 1);
  out[2] = __funnelshift_r(0x80000001u, 0x00000003u, 1);
  out[3] = __brev(0x00000013u);
  out[4] = (u32)__clz(1) * 1000 + (u32)__ffs(8) * 100 + (u32)__popcll(0xff00000000000001ull);
  out[5] = (u32)__double2int_rn(2.5) * 10 + (u32)__float2int_ru(1.25f);
  u64 cell = 5;
  atomicMax(&cell, 9);
  atomicCAS(&cell, 9, 1ull << 40);
  out[6] = (u32)(atomicExch(&cell, 0) >> 36);
  out[7] = __float_as_uint(__fdiv_rn(1.0f, 3.0f));
}

extern "C" __global__ void probe_store_fault(u32* out, u32 n) {
  if (threadIdx.x <= n) out[threadIdx.x] = 1;
}
extern "C" __global__ void probe_shared_fault(u32* out) {
  extern __shared__ u32 cells[];
  cells[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = cells[blockDim.x - threadIdx.x];
}
extern "C" __global__ void probe_barrier_fault(u32* out) {
  if (threadIdx.x < 7) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}
extern "C" __global__ void probe_deadlock_fault(u32* out) {
  if (threadIdx.x == 3) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  out[threadIdx.x] = 1;
}
extern "C" __global__ void probe_shuffle_fault(u32* out) {
  if (threadIdx.x == 9) return;
  out[threadIdx.x] = __shfl_sync(ALL_LANES, threadIdx.x, 9);
}
