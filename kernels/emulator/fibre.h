// A fibre: a stack of its own, and the switch from one to another.
//
// x86-64 and AArch64 switch in a dozen instructions (the callee-saved registers and the stack pointer);
// elsewhere ucontext does it, with a system call a switch. Floating-point modes are not switched: device code
// does not change them. AddressSanitizer is told of every switch.
//
// A fibre belongs to the host thread that made it and must never run on another.
#pragma once
#include <cstddef>
#include <cstdint>

#include "stacks.h"

#ifdef EMULATED_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(EMULATED_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define EMULATED_UCONTEXT 1
#endif

#ifdef EMULATED_UCONTEXT
#include <ucontext.h>
#else
extern "C" void emulated_switch_stack(void** saved, void* restored) __attribute__((visibility("hidden")));
#if defined(__x86_64__)
asm(R"(
.text
.hidden emulated_switch_stack
.globl emulated_switch_stack
.type emulated_switch_stack, @function
emulated_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulated_switch_stack, .-emulated_switch_stack
)");
#elif defined(__aarch64__)
asm(R"(
.text
.hidden emulated_switch_stack
.globl emulated_switch_stack
.type emulated_switch_stack, %function
emulated_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size emulated_switch_stack, .-emulated_switch_stack
)");
#endif
#endif

namespace emulated {

class Fibre {
public:
    // The host thread's own stack: it can only be switched from and back to.
    Fibre() = default;

    // A fibre that will run `entry`, which must never return. `number` spreads the stacks over the caches' sets.
    Fibre(void (*entry)(), Stacks& stacks, unsigned number)
        : bottom_(stacks.bottom(number)), size_(Stacks::one_bytes - number * 448 % 16384) {
        prepare(entry);
    }

    Fibre(const Fibre&) = delete;
    Fibre& operator=(const Fibre&) = delete;

    // Suspends `from`, which must be running, and runs `to` until somebody switches back.
    static void switch_between(Fibre& from, Fibre& to) {
#ifdef EMULATED_ASAN
        came_from_ = &from;
        __sanitizer_start_switch_fiber(&from.fake_stack_, to.bottom_, to.size_);
#endif
#ifdef EMULATED_UCONTEXT
        swapcontext(&from.context_, &to.context_);
#else
        emulated_switch_stack(&from.stack_pointer_, to.stack_pointer_);
#endif
        arrived(from);
    }

    // The first thing that a fibre's entry must call.
    static void arrived(Fibre& here) {
#ifdef EMULATED_ASAN
        const void* bottom = nullptr;
        __sanitizer_finish_switch_fiber(here.fake_stack_, &bottom, &came_from_->size_);
        came_from_->bottom_ = static_cast<char*>(const_cast<void*>(bottom));
#else
        (void)here;
#endif
    }

private:
    void prepare(void (*entry)()) {
#ifdef EMULATED_UCONTEXT
        getcontext(&context_);
        context_.uc_stack.ss_sp = bottom_;
        context_.uc_stack.ss_size = size_;
        context_.uc_link = nullptr;
        makecontext(&context_, entry, 0);
#else
        auto top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(bottom_) + size_) & ~uintptr_t{15});
#if defined(__x86_64__)
        top[-2] = reinterpret_cast<void*>(entry);  // popped by `ret`; six registers lie below
        stack_pointer_ = top - 8;
#else
        top[-20 + 11] = reinterpret_cast<void*>(entry);  // x30, the return address
        stack_pointer_ = top - 20;
#endif
#endif
    }

    char* bottom_ = nullptr;
    size_t size_ = 0;
#ifdef EMULATED_UCONTEXT
    ucontext_t context_{};
#else
    void* stack_pointer_ = nullptr;
#endif
#ifdef EMULATED_ASAN
    void* fake_stack_ = nullptr;
    static inline __thread Fibre* came_from_ = nullptr;
#endif
};

}  // namespace emulated
