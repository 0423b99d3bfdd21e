// Runs the threads of a block as fibres of one host thread; see threads.h for what it guarantees.
//
// A fibre runs threads to their end, one after another, until a thread has to wait: then that fibre stays with
// the waiting thread, and another one goes on, first with threads that need not wait any longer, then with those
// that have not begun. So a warp runs to its next barrier before the following warp begins, and a kernel without
// barriers never switches.
#include "threads.h"

#include <cstring>
#include <memory>
#include <vector>

#include "fibre.h"

namespace emulated {

namespace {

constexpr unsigned warp_lanes = 32;
constexpr unsigned most_threads = 1024;

// A fibre and the thread that it is running.
struct Runner {
    Runner() = default;
    Runner(void (*entry)(), Stacks& stacks, unsigned number) : fibre(entry, stacks, number) {}
    Fibre fibre;
    unsigned thread = 0;
    uint3 index{};
};

// Lanes on their way to a warp operation.
struct Meeting {
    unsigned mask, arrived = 0;
    WarpOperation operation;
    Where where;
};

// Disjoint masks differ in their lowest lane, so that lane's number is the place of a meeting.
struct Warp {
    unsigned live, open_meetings;
    Meeting meetings[warp_lanes];
    Runner* waiting[warp_lanes];
    uint64_t value[warp_lanes], result[warp_lanes];
    uint8_t wanted[warp_lanes];
};

// Threads on their way to the block's barrier.
struct Barrier {
    unsigned arrived, agreed;
    Where where;
    Census last;
};

}  // namespace

class Block {
public:
    Block() { position_.runs = this; }
    ~Block() {
        for (Runner* runner : all_) delete runner;
    }

    void run_grid(const char* kernel, ThreadFunction function, uint3 grid_size, uint3 block_size,
                  unsigned dynamic_shared, void** parameters);
    Census wait_at_barrier(bool predicate, Where where);
    uint64_t wait_in_warp(WarpOperation operation, unsigned mask, uint64_t value, unsigned wanted, Where where);
    const char* kernel() const { return kernel_; }

private:
    static void run_threads();
    void run_next_thread();
    void thread_ended(unsigned thread);
    void begin();
    void resume(Runner& to);
    void wait();
    Runner& next_to_run();
    Runner& idle_runner();
    void open_barrier();
    void close_meeting(Warp& warp, Meeting& meeting);
    [[noreturn]] void deadlock();
    bool something_ready() const { return first_ready_ < ready_.size(); }
    Runner& take_ready();

    const char* kernel_ = "";
    ThreadFunction function_ = nullptr;
    void** parameters_ = nullptr;
    unsigned threads_ = 0, begun_ = 0, live_ = 0;
    Stacks stacks_;
    Position& position_ = *new (stacks_.page()) Position{};
    Runner main_;
    Runner* current_ = &main_;
    Barrier barrier_{};
    Warp warps_[most_threads / warp_lanes];
    std::vector<Runner*> all_, idle_, ready_, at_barrier_;
    size_t first_ready_ = 0;
};

void Block::begin() {
    const uint3 size = position_.block_size;
    threads_ = live_ = size.x * size.y * size.z;
    begun_ = 0;
    barrier_.arrived = barrier_.agreed = 0;
    for (unsigned first = 0; first < threads_; first += warp_lanes) {
        const unsigned lanes = threads_ - first;
        warps_[first / warp_lanes].live = lanes >= warp_lanes ? ~0u : (1u << lanes) - 1;
        warps_[first / warp_lanes].open_meetings = 0;
    }
}

// Lets another fibre run; returns when this one is resumed.
void Block::resume(Runner& to) {
    Runner& from = *current_;
    current_ = &to;
    Fibre::switch_between(from.fibre, to.fibre);
}

Runner& Block::take_ready() {
    Runner& runner = *ready_[first_ready_++];
    if (first_ready_ == ready_.size()) {
        ready_.clear();
        first_ready_ = 0;
    }
    return runner;
}

Runner& Block::idle_runner() {
    if (idle_.empty()) {
        all_.push_back(new Runner(run_threads, stacks_, static_cast<unsigned>(all_.size())));
        return *all_.back();
    }
    Runner& runner = *idle_.back();
    idle_.pop_back();
    return runner;
}

Runner& Block::next_to_run() {
    if (something_ready()) return take_ready();
    if (begun_ < threads_) return idle_runner();
    deadlock();
}

// What every fibre does for ever.
void Block::run_threads() {
    Block& self = *position().runs;
    Runner& me = *self.current_;
    Fibre::arrived(me.fibre);
    for (;;) {
        while (self.begun_ < self.threads_ && !self.something_ready()) self.run_next_thread();
        self.idle_.push_back(&me);
        if (self.something_ready()) {
            self.resume(self.take_ready());
        } else if (self.live_ == 0) {
            self.resume(self.main_);
        } else {
            self.deadlock();
        }
    }
}

void Block::run_next_thread() {
    const uint3 size = position_.block_size;
    const unsigned thread = begun_++;
    current_->thread = thread;
    current_->index = {thread % size.x, thread / size.x % size.y, thread / (size.x * size.y)};
    position_.thread = current_->index;
    position_.number = thread;
    function_(parameters_);
    thread_ended(thread);
}

// Those who wait do not wait for a thread that has returned.
void Block::thread_ended(unsigned thread) {
    --live_;
    Warp& warp = warps_[thread / warp_lanes];
    warp.live &= ~(1u << thread % warp_lanes);
    if (warp.open_meetings) {
        for (Meeting& meeting : warp.meetings) {
            if (meeting.arrived && meeting.arrived == (meeting.mask & warp.live)) close_meeting(warp, meeting);
        }
    }
    if (barrier_.arrived && barrier_.arrived == live_) open_barrier();
}

void Block::wait() {
    Runner& me = *current_;
    resume(next_to_run());
    position_.thread = me.index;
    position_.number = me.thread;
}

void Block::open_barrier() {
    barrier_.last = {barrier_.arrived, barrier_.agreed};
    barrier_.arrived = barrier_.agreed = 0;
    if (something_ready()) {
        ready_.insert(ready_.end(), at_barrier_.begin(), at_barrier_.end());
        at_barrier_.clear();
    } else {
        ready_.swap(at_barrier_);
    }
}

Census Block::wait_at_barrier(bool predicate, Where where) {
    if (barrier_.arrived && barrier_.where.line != where.line)
        fail(where, "threads of a block wait at different barriers");
    barrier_.where = where;
    barrier_.agreed += predicate;
    if (++barrier_.arrived == live_) {
        open_barrier();
    } else {
        at_barrier_.push_back(current_);
        wait();
    }
    return barrier_.last;
}

namespace {

// Calls `visit` with the number of every lane in `lanes`.
template <class Visit>
void for_lanes(unsigned lanes, Visit visit) {
    for (; lanes; lanes &= lanes - 1) visit(static_cast<unsigned>(__builtin_ctz(lanes)));
}

void shuffle(Warp& warp, unsigned lanes, Where where) {
    for_lanes(lanes, [&](unsigned lane) {
        if (!(lanes >> warp.wanted[lane] & 1)) fail(where, "a shuffle reads a lane that takes no part in it");
        warp.result[lane] = warp.value[warp.wanted[lane]];
    });
}

void match(Warp& warp, unsigned lanes) {
    for (unsigned left = lanes; left;) {
        const uint64_t value = warp.value[__builtin_ctz(left)];
        unsigned same = 0;
        for_lanes(left, [&](unsigned lane) { same |= static_cast<unsigned>(warp.value[lane] == value) << lane; });
        for_lanes(same, [&](unsigned lane) { warp.result[lane] = same; });
        left &= ~same;
    }
}

uint32_t combine(WarpOperation operation, uint32_t a, uint32_t b) {
    const auto sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
    switch (operation) {
        case WarpOperation::add: return a + b;
        case WarpOperation::minimum: return a < b ? a : b;
        case WarpOperation::maximum: return a > b ? a : b;
        case WarpOperation::signed_minimum: return sa < sb ? a : b;
        case WarpOperation::signed_maximum: return sa > sb ? a : b;
        case WarpOperation::bit_and: return a & b;
        case WarpOperation::bit_or: return a | b;
        default: return a ^ b;
    }
}

// The one result of the operations that give every lane the same.
uint64_t common_result(const Warp& warp, unsigned lanes, WarpOperation operation) {
    unsigned holds = 0;
    if (operation == WarpOperation::ballot || operation == WarpOperation::all) {
        for_lanes(lanes, [&](unsigned lane) { holds |= static_cast<unsigned>(warp.value[lane] != 0) << lane; });
        return operation == WarpOperation::ballot ? holds : holds == lanes;
    }
    auto total = static_cast<uint32_t>(warp.value[__builtin_ctz(lanes)]);
    for_lanes(lanes & (lanes - 1),
              [&](unsigned lane) { total = combine(operation, total, static_cast<uint32_t>(warp.value[lane])); });
    return total;
}

void compute(Warp& warp, const Meeting& meeting) {
    switch (meeting.operation) {
        case WarpOperation::synchronise: return;
        case WarpOperation::shuffle: return shuffle(warp, meeting.arrived, meeting.where);
        case WarpOperation::match: return match(warp, meeting.arrived);
        default: break;
    }
    const uint64_t result = common_result(warp, meeting.arrived, meeting.operation);
    for_lanes(meeting.arrived, [&](unsigned lane) { warp.result[lane] = result; });
}

void join(Warp& warp, Meeting& meeting, unsigned mask, WarpOperation operation, Where where) {
    if (!meeting.arrived) {
        meeting = {mask, 0, operation, where};
        ++warp.open_meetings;
    } else if (meeting.mask != mask) {
        fail(where, "lanes meet with overlapping masks that differ");
    } else if (meeting.operation != operation || meeting.where.line != where.line) {
        fail(where, "lanes of one mask meet in different warp operations");
    }
}

}  // namespace

// Every lane finds its result in its own place, which it alone can give up: no lane overtakes another.
void Block::close_meeting(Warp& warp, Meeting& meeting) {
    compute(warp, meeting);
    for_lanes(meeting.arrived, [&](unsigned lane) {
        if (warp.waiting[lane] != current_) ready_.push_back(warp.waiting[lane]);
    });
    meeting.arrived = 0;
    --warp.open_meetings;
}

uint64_t Block::wait_in_warp(WarpOperation operation, unsigned mask, uint64_t value, unsigned wanted, Where where) {
    Warp& warp = warps_[current_->thread / warp_lanes];
    const unsigned me = current_->thread % warp_lanes;
    if (!(mask >> me & 1)) fail(where, "a lane calls a warp operation whose mask leaves it out");
    Meeting& meeting = warp.meetings[__builtin_ctz(mask)];
    join(warp, meeting, mask, operation, where);
    warp.value[me] = value;
    warp.wanted[me] = static_cast<uint8_t>(wanted);
    warp.waiting[me] = current_;
    meeting.arrived |= 1u << me;
    if (meeting.arrived == (mask & warp.live)) {
        close_meeting(warp, meeting);
    } else {
        wait();
    }
    return warp.result[me];
}

void Block::deadlock() {
    fprintf(stderr, "emulated device: deadlock in kernel %s, block (%u, %u, %u): %u threads are left\n", kernel_,
            position_.block.x, position_.block.y, position_.block.z, live_);
    if (barrier_.arrived) {
        fprintf(stderr, "  %u wait at the barrier of %s:%d\n", barrier_.arrived, barrier_.where.file,
                barrier_.where.line);
    }
    for (unsigned first = 0; first < threads_; first += warp_lanes) {
        const Warp& warp = warps_[first / warp_lanes];
        for (const Meeting& meeting : warp.meetings) {
            if (!warp.open_meetings || !meeting.arrived) continue;
            fprintf(stderr, "  warp %u: lanes %08x of mask %08x wait in the warp operation of %s:%d\n",
                    first / warp_lanes, meeting.arrived, meeting.mask & warp.live, meeting.where.file,
                    meeting.where.line);
        }
    }
    abort();
}

namespace {

// Dynamic shared memory is not initialised, and ends where the launch said.
void lend_dynamic_shared(unsigned bytes) {
    for (unsigned number = 0; dynamic_shared(number).memory; ++number) {
        const DynamicShared array = dynamic_shared(number);
        memset(array.memory, 0xA5, bytes);
#ifdef EMULATED_ASAN
        __asan_poison_memory_region(array.memory + bytes, array.bytes - bytes);
#endif
    }
}

void take_back_dynamic_shared() {
#ifdef EMULATED_ASAN
    for (unsigned number = 0; dynamic_shared(number).memory; ++number) {
        __asan_unpoison_memory_region(dynamic_shared(number).memory, dynamic_shared(number).bytes);
    }
#endif
}

}  // namespace

void Block::run_grid(const char* kernel, ThreadFunction function, uint3 grid_size, uint3 block_size,
                     unsigned dynamic_shared, void** parameters) {
    kernel_ = kernel;
    function_ = function;
    parameters_ = parameters;
    position_.grid_size = grid_size;
    position_.block_size = block_size;
    for (unsigned z = 0; z < grid_size.z; ++z) {
        for (unsigned y = 0; y < grid_size.y; ++y) {
            for (unsigned x = 0; x < grid_size.x; ++x) {
                position_.block = {x, y, z};
                lend_dynamic_shared(dynamic_shared);
                begin();
                resume(idle_runner());
            }
        }
    }
    take_back_dynamic_shared();
}

void fail(Where where, const char* what) {
    const Position& at = position();
    fprintf(stderr, "emulated device: %s:%d: %s (kernel %s, block (%u, %u, %u), thread (%u, %u, %u))\n", where.file,
            where.line, what, at.runs->kernel(), at.block.x, at.block.y, at.block.z, at.thread.x, at.thread.y,
            at.thread.z);
    abort();
}

Census barrier(bool predicate, Where where) { return position().runs->wait_at_barrier(predicate, where); }

uint64_t meet(WarpOperation operation, unsigned mask, uint64_t value, unsigned wanted, Where where) {
    return position().runs->wait_in_warp(operation, mask, value, wanted, where);
}

void run_grid(const char* name, ThreadFunction thread, uint3 grid_size, uint3 block_size, unsigned dynamic_shared,
              void** parameters) {
    // made at the first launch of a host thread, gone with the thread
    static thread_local std::unique_ptr<Block> block;
    if (!block) block = std::make_unique<Block>();
    block->run_grid(name, thread, grid_size, block_size, dynamic_shared, parameters);
}

}  // namespace emulated
