// The threads of an emulated block: what device code may ask of them, and how the driver runs them.
//
// Every host thread emulates on its own: it runs the blocks of a launch one after another, and the threads of
// a block as fibres that give up the processor only where they wait for each other. A thread that never waits
// costs a function call.
//
// Guarantees: a barrier and a warp operation behave as the CUDA programming guide says for threads that are
// scheduled independently: threads that have returned are not waited for. What the guide leaves undefined ends
// the process with a message: threads of a block that wait at different barriers, lanes that meet in different
// warp operations, a lane outside its own mask, a shuffle from a lane that takes no part, and any deadlock.
#pragma once
#include <cstdint>

#include "stacks.h"

struct uint3 {
    unsigned x, y, z;
};

namespace emulated {

class Block;

// Where the running thread is; what `threadIdx` and its companions stand for.
struct Position {
    uint3 thread, block, block_size, grid_size;
    // The thread's number in its block.
    unsigned number;
    // What runs it.
    Block* runs;
};

// The position of the calling thread of a block, which its host thread keeps beside the stacks. Outside of a block there
// is none to be had.
inline Position& position() { return *reinterpret_cast<Position*>(Stacks::page_of(stack_address())); }

// A line of device code, for messages and to tell one barrier from another.
struct Where {
    const char* file;
    int line;
};

// What lanes can do together. Values and results are the operands' bits, zero-extended.
enum class WarpOperation : uint8_t {
    synchronise,
    shuffle,
    ballot,
    all,
    match,
    add,
    minimum,
    maximum,
    signed_minimum,
    signed_maximum,
    bit_and,
    bit_or,
    bit_xor,
};

// How many threads met at a barrier, and for how many of them the predicate held.
struct Census {
    unsigned met, agreed;
};

Census barrier(bool predicate, Where where);

// Waits until the lanes of `mask` have come, and returns the calling lane's result. `wanted` is the lane that a
// shuffle reads; the other operations ignore it.
uint64_t meet(WarpOperation operation, unsigned mask, uint64_t value, unsigned wanted, Where where);

// The calling thread's lane in its warp.
inline unsigned lane() { return position().number % 32; }

// Ends the process: device code did what no device defines.
[[noreturn]] void fail(Where where, const char* what);

// A kernel, compiled for the host: runs one thread with cuLaunchKernel's `kernelParams`.
using ThreadFunction = void (*)(void** parameters);

// Runs the whole grid on the calling host thread. `name` is for messages.
void run_grid(const char* name, ThreadFunction thread, uint3 grid_size, uint3 block_size, unsigned dynamic_shared,
              void** parameters);

// One `extern __shared__` array of the calling host thread, as large as any device allows.
struct DynamicShared {
    unsigned char* memory;
    unsigned bytes;
};
// The arrays by number; {nullptr, 0} after the last. The build writes this function.
DynamicShared dynamic_shared(unsigned number);

}  // namespace emulated
