// How the compiled kernels reach the driver: each kernel file gives a list, and the build gives the list of lists.
#pragma once
#include "threads.h"

namespace emulated {

struct Kernel {
    const char* name;  // as cuModuleGetFunction is asked for it; nullptr ends a list
    ThreadFunction thread;
};

// The lists of all kernel files; nullptr ends it. The build writes this function.
const Kernel* const* kernel_lists();

}  // namespace emulated
