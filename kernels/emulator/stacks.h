// The stacks of a host thread's fibres, side by side behind a page of its own. Code on any of them finds the page by its
// stack pointer, which takes less time than thread-local storage of a library that is loaded late.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATED_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATED_ASAN 1
#endif
#endif
#ifdef EMULATED_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace emulated {

// The stacks of a host thread: addresses for all that a block may need, of which memory is taken as they are used. Below
// each stack lies a page out of reach. So the tops of stacks do not all fall into the same places of the caches.
class Stacks {
public:
    Stacks() {
        void* addresses = mmap(nullptr, 2 * all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (addresses == MAP_FAILED) fail();
        char* mapping = static_cast<char*>(addresses);
        start_ = page_of(mapping + all_bytes - 1);
        // what lies outside of the aligned part is given back
        if (start_ > mapping) munmap(mapping, start_ - mapping);
        if (start_ < mapping + all_bytes) munmap(start_ + all_bytes, mapping + all_bytes - start_);
        open(start_, page_bytes());
    }

    ~Stacks() {
#ifdef EMULATED_ASAN
        __asan_unpoison_memory_region(start_, end_ - start_);
#endif
        munmap(start_, all_bytes);
    }

    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;

    // The page that lies before them.
    void* page() const { return start_; }

    // The page of the stacks among which an address lies.
    static char* page_of(const void* address) {
        return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(address) & ~uintptr_t{all_bytes - 1});
    }

    // Makes a stack usable and returns its lower end.
    char* bottom(unsigned number) {
        char* bottom = start_ + page_bytes() + number * (page_bytes() + one_bytes) + page_bytes();
        end_ = bottom + one_bytes;
        if (end_ > start_ + all_bytes) {
            fprintf(stderr, "emulated device: a block has more threads than there are stacks\n");
            abort();
        }
        open(bottom, one_bytes);
        return bottom;
    }

    static constexpr size_t one_bytes = 256 << 10;

private:
    static constexpr size_t all_bytes = 512 << 20;

    static size_t page_bytes() {
        static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        return page;
    }

    static void open(void* start, size_t bytes) {
        if (mprotect(start, bytes, PROT_READ | PROT_WRITE)) fail();
    }

    [[noreturn]] static void fail() {
        perror("emulated device: no memory for a thread's stack");
        abort();
    }

    char *start_, *end_ = nullptr;
};

// An address on the stack of the caller.
inline const void* stack_address() {
#if defined(__x86_64__)
    const void* address;
    asm("movq %%rsp, %0" : "=r"(address));
    return address;
#elif defined(__aarch64__)
    const void* address;
    asm("mov %0, sp" : "=r"(address));
    return address;
#else
    return __builtin_frame_address(0);
#endif
}

}  // namespace emulated
