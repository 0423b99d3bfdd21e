// The CUDA driver API as far as cudarc's safe layer calls it, on memory of the host.
//
// Every call is finished when it returns, so the order of launches is the order of calls, and streams and events only
// have to exist. Calls may come from any number of host threads at once.
//
// An allocation of device memory is one block of host memory, aligned as the driver aligns it and filled with 0xA5.
// Copies and fills must lie inside one live allocation. As with the driver, a host thread needs a current context, and
// dynamic shared memory beyond 48 KiB needs cuFuncSetAttribute.
//
// Each device has a context, memory, streams, events and functions of its own. What belongs to a device that is not the
// current one is refused, but for copies from one device to another.
//
// A module is known by its PTX text or its machine code, which is not executed: a kernel is found by name among the
// compiled ones, if the text (when it has entries at all) or the machine code names it too. As with the driver, machine
// code is refused that is for another major version of the compute capability, or for a later minor one.
//
// Settings, read from the environment at the first call:
//   EMULATED_DEVICE_COUNT         default 1, at most 64; with 0 cuInit says CUDA_ERROR_NO_DEVICE
//   EMULATED_DEVICE_MEMORY        bytes, default 1 GiB; beyond it allocations give CUDA_ERROR_OUT_OF_MEMORY; with several
//                                 numbers, such as 1000,2000, one a device, and the last for all others
//   EMULATED_COMPUTE_CAPABILITY   ten times the version, default 90
//   EMULATED_FAIL_LAUNCH          n: the n-th launch gives CUDA_ERROR_LAUNCH_FAILED, as does all that comes after it on its
//                                 device
//   EMULATED_HANG_LAUNCH          n: the n-th launch never ends, and its stream does nothing after it
//   EMULATED_FAIL_DEVICE          which device's launches are counted for both, default those of all
//   EMULATED_COMPILE_TIME         milliseconds that PTX takes to load, default 0
//   EMULATED_MACHINE_CODE         default 1; with 0 all machine code is refused
// The functions at the end report and change them while a test runs.
#include "driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define DRIVER_API extern "C" __attribute__((visibility("default"))) int
#define REPORT_API extern "C" __attribute__((visibility("default")))

namespace {

// CUresult: the errors that occur here.
enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
};

struct ErrorText {
    int code;
    const char *name, *text;
};
const ErrorText error_texts[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "invalid module image"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "no current context"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no machine code for the device"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "name not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "not ready"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "launch failed"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
};

uint64_t setting(const char* name, uint64_t otherwise) {
    const char* text = getenv(name);
    return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

using Device = int;
using DevicePointer = unsigned long long;
using Clock = std::chrono::steady_clock;

// A launch that fails breaks it: from then on whatever is asked of it gives the same error, until nobody retains it any more.
struct Context {
    Device device = 0;
    std::atomic<int> retained{0};
    std::atomic<bool> broken{false};
    // Whether a launch never ends.
    std::atomic<bool> hangs{false};
    std::atomic<uint64_t> launches{0};
};
struct Stream {
    unsigned flags;
    Device device;
    std::atomic<bool> hangs{false};
};
struct Event {
    Device device;
    bool recorded = false;
    Clock::time_point time;
    std::atomic<bool> hangs{false};
};
// PTX as text, or machine code as an ELF image.
struct Module {
    std::string image;
    bool machine_code;
    Device device;
};
struct Function {
    const emulated::Kernel* kernel;
    Device device;
    std::atomic<int> most_dynamic_shared{48 << 10};
};
struct Pool {
    std::atomic<uint64_t> release_threshold{0};
};

constexpr int most_devices = 64;
const int device_count = std::min(static_cast<int>(setting("EMULATED_DEVICE_COUNT", 1)), most_devices);
const int capability = static_cast<int>(setting("EMULATED_COMPUTE_CAPABILITY", 90));
const bool takes_machine_code = setting("EMULATED_MACHINE_CODE", 1);
std::atomic<uint64_t> launches{0};
std::atomic<uint64_t> launch_to_fail{setting("EMULATED_FAIL_LAUNCH", 0)};
const uint64_t launch_to_hang = setting("EMULATED_HANG_LAUNCH", 0);
const uint64_t device_to_fail = setting("EMULATED_FAIL_DEVICE", most_devices);
Context primary_contexts[most_devices];
Pool default_pools[most_devices];
thread_local Context* current_context = nullptr;

// Whether the context of this thread can be worked with.
int usable() {
    if (!current_context) return INVALID_CONTEXT;
    return current_context->broken ? LAUNCH_FAILED : SUCCESS;
}

// Whether the context of this thread can be worked with by what belongs to a device, if anything does.
template <class Owned>
int usable_with(const Owned* owned) {
    if (const int error = usable()) return error;
    return owned && owned->device != current_context->device ? INVALID_HANDLE : SUCCESS;
}

// Whether a stream or an event waits for a launch that never ends.
template <class Waits>
bool hangs(const Waits* waits) {
    return waits && waits->hangs;
}

// What a call does that waits for such a launch.
[[noreturn]] void wait_for_ever() {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// ---- memory -------------------------------------------------------------------------------------------------------

// Blocks of the host's memory. What is given back is lent again, as each page of a new block costs a page fault; with
// AddressSanitizer every block is a new one, so that it finds accesses beside them and after their ends.
class HostBlocks {
public:
    // `bytes` of memory filled with 0xA5, or null.
    void* take(size_t bytes) {
        if (bytes > SIZE_MAX / 4) return nullptr;
        const size_t size = lent_size(bytes);
        void* block = lent_before(size);
        if (!block && posix_memalign(&block, size < page ? 256 : page, size)) return nullptr;
        memset(block, 0xA5, size);
        return block;
    }

    void give_back(void* block, size_t bytes) {
#ifndef EMULATED_ASAN
        const size_t size = lent_size(bytes);
        const std::lock_guard<std::mutex> lock(mutex_);
        if (idle_bytes_ + size > most_idle_bytes) forget_idle();
        idle_bytes_ += size;
        idle_[size].push_back(block);
#else
        free(block);
#endif
    }

private:
    static constexpr size_t page = 4096, most_idle_bytes = size_t{256} << 20;

    // A size that many blocks have: there are eight of them between a power of two and the next.
    static size_t lent_size(size_t bytes) {
#ifdef EMULATED_ASAN
        return bytes;
#else
        size_t step = 256;
        while (bytes > 16 * step) step *= 2;
        return (bytes + step - 1) / step * step;
#endif
    }

    void forget_idle() {
        for (auto& [size, blocks] : idle_) {
            for (void* block : blocks) free(block);
        }
        idle_.clear();
        idle_bytes_ = 0;
    }

    void* lent_before(size_t size) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = idle_.find(size);
        if (found == idle_.end() || found->second.empty()) return nullptr;
        void* block = found->second.back();
        found->second.pop_back();
        idle_bytes_ -= size;
        return block;
    }

    std::mutex mutex_;
    std::map<size_t, std::vector<void*>> idle_;
    size_t idle_bytes_ = 0;
};

// The memory of all devices.
class Memory {
public:
    Memory() {
        const char* list = getenv("EMULATED_DEVICE_MEMORY");
        uint64_t last = uint64_t{1} << 30;
        for (uint64_t& total : totals_) {
            char* end = nullptr;
            const uint64_t number = list && *list ? strtoull(list, &end, 10) : 0;
            if (end && end != list) {
                last = number;
                list = *end == ',' ? end + 1 : end;
            }
            total = last;
        }
    }

    int allocate(DevicePointer* pointer, size_t bytes, Device device) {
        if (!pointer || bytes == 0) return INVALID_VALUE;
        if (const int error = count()) return error;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (bytes > totals_[device] || held_[device] > totals_[device] - bytes) return OUT_OF_MEMORY;
        void* block = host_blocks_.take(bytes);
        if (!block) return OUT_OF_MEMORY;
        blocks_[reinterpret_cast<uintptr_t>(block)] = {bytes, device};
        held_[device] += bytes;
        live_ += bytes;
        peak_ = live_ > peak_ ? live_ : peak_;
        *pointer = reinterpret_cast<uintptr_t>(block);
        return SUCCESS;
    }

    // Takes note of an allocation, also of pinned memory and queues, and says whether it is one that has to fail.
    int count() {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++allocations_;
        return first_to_fail_ && allocations_ >= first_to_fail_ && allocations_ <= last_to_fail_ ? OUT_OF_MEMORY
                                                                                                 : SUCCESS;
    }

    int release(DevicePointer pointer) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = blocks_.find(pointer);
        if (found == blocks_.end()) return pointer ? INVALID_VALUE : SUCCESS;
        const auto [bytes, device] = found->second;
        held_[device] -= bytes;
        live_ -= bytes;
        blocks_.erase(found);
        host_blocks_.give_back(reinterpret_cast<void*>(pointer), bytes);
        return SUCCESS;
    }

    int allocate_pinned(void** pointer, size_t bytes) {
        if (!pointer || !bytes) return INVALID_VALUE;
        if (const int error = count()) return error;
        *pointer = host_blocks_.take(bytes);
        if (!*pointer) return OUT_OF_MEMORY;
        const std::lock_guard<std::mutex> lock(mutex_);
        pinned_[*pointer] = bytes;
        return SUCCESS;
    }

    int release_pinned(void* pointer) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = pinned_.find(pointer);
        if (found == pinned_.end()) return pointer ? INVALID_VALUE : SUCCESS;
        host_blocks_.give_back(pointer, found->second);
        pinned_.erase(found);
        return SUCCESS;
    }

    // Whether [pointer, pointer + bytes) lies in one live allocation of the device.
    bool holds(DevicePointer pointer, size_t bytes, Device device) {
        const std::lock_guard<std::mutex> lock(mutex_);
        auto after = blocks_.upper_bound(pointer);
        if (after == blocks_.begin()) return false;
        const auto& [start, block] = *--after;
        const size_t size = block.bytes;
        return block.device == device && pointer - start <= size && bytes <= size - (pointer - start);
    }

    void resize(uint64_t total) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (uint64_t& of_device : totals_) of_device = total;
    }

    // Bytes of a device, and those of them that are allocated.
    std::pair<uint64_t, uint64_t> of(Device device) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return {totals_[device], held_[device]};
    }

    void fail(uint64_t n, uint64_t count) {
        const std::lock_guard<std::mutex> lock(mutex_);
        first_to_fail_ = n ? allocations_ + n : 0;
        last_to_fail_ = count ? first_to_fail_ + (count - 1) : UINT64_MAX;
    }

    struct Figures {
        uint64_t live, peak, allocations;
    };
    Figures figures() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return {live_, peak_, allocations_};
    }

private:
    struct Block {
        size_t bytes;
        Device device;
    };
    HostBlocks host_blocks_;
    std::mutex mutex_;
    std::map<DevicePointer, Block> blocks_;
    std::map<void*, size_t> pinned_;
    uint64_t totals_[most_devices], held_[most_devices] = {};
    uint64_t live_ = 0, peak_ = 0;
    uint64_t allocations_ = 0, first_to_fail_ = 0, last_to_fail_ = 0;
};

// Never destroyed: host threads may still give memory back while the process ends.
Memory& memory() {
    static Memory& instance = *new Memory;
    return instance;
}

int allocate(DevicePointer* pointer, size_t bytes) {
    const int error = usable();
    return error ? error : memory().allocate(pointer, bytes, current_context->device);
}

// Whether memory of the current device lies there.
bool holds(DevicePointer pointer, size_t bytes) {
    return current_context && memory().holds(pointer, bytes, current_context->device);
}

int copy(void* to, const void* from, size_t bytes, bool inside) {
    if (const int error = usable()) return error;
    if (bytes == 0) return SUCCESS;
    if (!inside) return INVALID_VALUE;
    memmove(to, from, bytes);
    return SUCCESS;
}

void* host(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

int copy_in(DevicePointer to, const void* from, size_t bytes) { return copy(host(to), from, bytes, holds(to, bytes)); }
int copy_out(void* to, DevicePointer from, size_t bytes) { return copy(to, host(from), bytes, holds(from, bytes)); }
int copy_on_device(DevicePointer to, DevicePointer from, size_t bytes) {
    return copy(host(to), host(from), bytes, holds(to, bytes) && holds(from, bytes));
}

template <class Unit>
int fill(DevicePointer pointer, Unit value, size_t count) {
    if (const int error = usable()) return error;
    if (count == 0) return SUCCESS;
    if (!holds(pointer, count * sizeof(Unit))) return INVALID_VALUE;
    Unit* cells = static_cast<Unit*>(host(pointer));
    for (size_t i = 0; i < count; ++i) cells[i] = value;
    return SUCCESS;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

// One Function a kernel and a device, for the life of the process: the kernels' attributes are kept in it.
Function* function_named(const char* name, Device device) {
    static std::mutex mutex;
    static auto& functions = *new std::map<std::pair<std::string, Device>, Function>;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto known = functions.find({name, device});
    if (known != functions.end()) return &known->second;
    for (const emulated::Kernel* const* list = emulated::kernel_lists(); *list; ++list) {
        for (const emulated::Kernel* kernel = *list; kernel->name; ++kernel) {
            if (strcmp(kernel->name, name)) continue;
            Function& function = functions[{name, device}];
            function.kernel = kernel;
            function.device = device;
            return &function;
        }
    }
    return nullptr;
}

// Whether the module allows the name: as text it has no entries, or one of that name; as machine code it has a section
// of that name.
bool may_hold(const Module& module, const char* name) {
    const std::string& image = module.image;
    if (module.machine_code) return image.find(std::string(".text.") + name + '\0') != std::string::npos;
    if (image.find(".entry ") == std::string::npos) return true;
    return image.find(std::string(".entry ") + name + "(") != std::string::npos;
}

bool is_machine_code(const void* image) { return !memcmp(image, "\177ELF", 4); }

// The number of type T at a place of an image.
template <class T>
T number_at(const char* image, size_t place) {
    T number;
    memcpy(&number, image + place, sizeof number);
    return number;
}

// Machine code as far as its header says, if the device runs it.
int read_machine_code(const char* image, std::string* read) {
    constexpr int machine = 190, flags = 48, section_offset = 40, section_size = 58, section_count = 60;
    if (number_at<uint16_t>(image, 18) != machine) return INVALID_IMAGE;
    const int target = number_at<uint32_t>(image, flags) & 0xff;
    const bool runs = target / 10 == capability / 10 && target % 10 <= capability % 10;
    if (!takes_machine_code || !runs) return NO_BINARY_FOR_GPU;
    // the names of sections lie before the table of sections
    const uint64_t sections = number_at<uint16_t>(image, section_count);
    *read = std::string(
        image, number_at<uint64_t>(image, section_offset) + sections * number_at<uint16_t>(image, section_size));
    return SUCCESS;
}

// What a block may ask for with cuFuncSetAttribute.
int most_shared_per_block() {
    if (capability >= 90) return 227 << 10;
    if (capability == 80 || capability == 87) return 163 << 10;
    if (capability >= 80) return 99 << 10;
    return 64 << 10;
}

bool launchable(const Function& function, uint3 grid, uint3 block, unsigned dynamic_shared) {
    const bool grid_fits = grid.x && grid.y && grid.z && grid.x < 1u << 31 && grid.y < 1u << 16 && grid.z < 1u << 16;
    const bool block_fits = block.x && block.y && block.z && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
                            block.x * block.y * block.z <= 1024;
    return grid_fits && block_fits && dynamic_shared <= static_cast<unsigned>(function.most_dynamic_shared);
}

int launch(Function* function, uint3 grid, uint3 block, unsigned dynamic_shared, Stream* stream, void** parameters) {
    if (!function) return INVALID_HANDLE;
    if (const int error = usable_with(function)) return error;
    if (const int error = usable_with(stream)) return error;
    if (!launchable(*function, grid, block, dynamic_shared)) return INVALID_VALUE;
    const uint64_t of_all = ++launches, of_device = ++current_context->launches;
    const bool counts = device_to_fail == most_devices || device_to_fail == uint64_t(current_context->device);
    const uint64_t number = !counts ? 0 : device_to_fail == most_devices ? of_all : of_device;
    if (number && number == launch_to_fail) {
        current_context->broken = true;
        return LAUNCH_FAILED;
    }
    if (number && number == launch_to_hang && stream) stream->hangs = current_context->hangs = true;
    if (hangs(stream)) return SUCCESS;
    emulated::run_grid(function->kernel->name, function->kernel->thread, grid, block, dynamic_shared, parameters);
    return SUCCESS;
}

int resident_blocks(int block_size, size_t dynamic_shared) {
    if (block_size < 1 || block_size > 1024) return 0;
    const int by_threads = 2048 / block_size;
    const int by_memory = dynamic_shared ? static_cast<int>((228 << 10) / dynamic_shared) : 32;
    const int blocks = by_threads < by_memory ? by_threads : by_memory;
    return blocks < 32 ? blocks : 32;
}

// ---- device ---------------------------------------------------------------------------------------------------------

// CUdevice_attribute, and its value. Few multiprocessors, so that grids made to fill them stay small.
struct Attribute {
    int number, value;
};
const Attribute attributes[] = {
    {1, 1024},        // threads per block
    {2, 1024},        // block width
    {3, 1024},        // block height
    {4, 64},          // block depth
    {5, 2147483647},  // grid width
    {6, 65535},       // grid height
    {7, 65535},       // grid depth
    {8, 48 << 10},    // shared memory per block
    {9, 64 << 10},    // constant memory
    {10, 32},         // warp size
    {12, 65536},      // registers per block
    {13, 1000000},    // clock rate, kHz
    {16, 4},          // multiprocessors
    {18, 0},          // integrated
    {20, 0},          // compute mode
    {31, 1},          // concurrent kernels
    {36, 1000000},    // memory clock rate, kHz
    {37, 1024},       // memory bus width
    {38, 1 << 20},    // L2 cache
    {39, 2048},       // threads per multiprocessor
    {40, 2},          // copy engines
    {41, 1},          // unified addressing
    {75, capability / 10},
    {76, capability % 10},
    {81, most_shared_per_block() + (1 << 10)},  // shared memory per multiprocessor
    {82, 65536},                                // registers per multiprocessor
    {83, 0},                                    // managed memory
    {95, 0},                                    // cooperative launch
    {97, most_shared_per_block()},              // shared memory per block, by request
    {106, 32},                                  // blocks per multiprocessor
    {115, 1},                                   // memory pools
};

template <class T>
int give(T* place, T value) {
    if (!place) return INVALID_VALUE;
    *place = value;
    return SUCCESS;
}

int valid(Device device) { return device >= 0 && device < device_count ? SUCCESS : INVALID_DEVICE; }

}  // namespace

// ---- errors, device and context ---------------------------------------------------------------------------------------

DRIVER_API cuGetErrorName(int error, const char** name) {
    for (const ErrorText& known : error_texts) {
        if (known.code == error) return give(name, known.name);
    }
    give(name, static_cast<const char*>("unknown error"));
    return INVALID_VALUE;
}
DRIVER_API cuGetErrorString(int error, const char** text) {
    for (const ErrorText& known : error_texts) {
        if (known.code == error) return give(text, known.text);
    }
    give(text, static_cast<const char*>("unknown error"));
    return INVALID_VALUE;
}

DRIVER_API cuInit(unsigned) { return device_count ? SUCCESS : NO_DEVICE; }
DRIVER_API cuDriverGetVersion(int* version) { return give(version, 12040); }
DRIVER_API cuDeviceGetCount(int* count) { return give(count, device_count); }
DRIVER_API cuDeviceGet(Device* device, int ordinal) { return valid(ordinal) ? INVALID_DEVICE : give(device, ordinal); }
DRIVER_API cuDeviceGetName(char* name, int length, Device device) {
    if (!name || length < 1) return INVALID_VALUE;
    snprintf(name, static_cast<size_t>(length), "emulated device");
    return valid(device);
}
DRIVER_API cuDeviceGetUuid(unsigned char* uuid, Device device) {
    if (!uuid) return INVALID_VALUE;
    memset(uuid, 0xE5, 16);
    return valid(device);
}
DRIVER_API cuDeviceGetUuid_v2(unsigned char* uuid, Device device) { return cuDeviceGetUuid(uuid, device); }
DRIVER_API cuDeviceTotalMem_v2(size_t* bytes, Device device) {
    return valid(device) ? INVALID_DEVICE : give(bytes, static_cast<size_t>(memory().of(device).first));
}
DRIVER_API cuDeviceGetAttribute(int* value, int number, Device device) {
    if (valid(device)) return INVALID_DEVICE;
    for (const Attribute& attribute : attributes) {
        if (attribute.number == number) return give(value, attribute.value);
    }
    return INVALID_VALUE;
}
DRIVER_API cuDevicePrimaryCtxRetain(Context** context, Device device) {
    if (valid(device)) return INVALID_DEVICE;
    primary_contexts[device].device = device;
    ++primary_contexts[device].retained;
    return give(context, &primary_contexts[device]);
}
DRIVER_API cuDevicePrimaryCtxRelease_v2(Device device) {
    if (valid(device)) return INVALID_DEVICE;
    --primary_contexts[device].retained;
    return SUCCESS;
}

DRIVER_API cuCtxSetCurrent(Context* context) {
    current_context = context;
    return SUCCESS;
}
DRIVER_API cuCtxGetCurrent(Context** context) { return give(context, current_context); }
DRIVER_API cuCtxPushCurrent_v2(Context* context) { return cuCtxSetCurrent(context); }
DRIVER_API cuCtxPopCurrent_v2(Context** context) {
    if (context) *context = current_context;
    current_context = nullptr;
    return SUCCESS;
}
DRIVER_API cuCtxGetDevice(Device* device) {
    return current_context ? give(device, current_context->device) : INVALID_CONTEXT;
}
DRIVER_API cuCtxSynchronize() {
    if (current_context && current_context->hangs) wait_for_ever();
    return usable();
}
DRIVER_API cuCtxSetFlags(unsigned) { return current_context ? SUCCESS : INVALID_CONTEXT; }
DRIVER_API cuCtxGetLimit(size_t* value, int) { return give(value, size_t{0}); }
DRIVER_API cuCtxSetLimit(int, size_t) { return current_context ? SUCCESS : INVALID_CONTEXT; }
DRIVER_API cuCtxGetCacheConfig(int* config) { return give(config, 0); }
DRIVER_API cuCtxSetCacheConfig(int) { return SUCCESS; }
DRIVER_API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    give(least, 0);
    return give(greatest, 0);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

DRIVER_API cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
    if (!current_context) return INVALID_CONTEXT;
    const auto [total, held] = memory().of(current_context->device);
    give(free_bytes, static_cast<size_t>(held < total ? total - held : 0));
    return give(total_bytes, static_cast<size_t>(total));
}
DRIVER_API cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) { return allocate(pointer, bytes); }
DRIVER_API cuMemAllocAsync(DevicePointer* pointer, size_t bytes, Stream* stream) {
    if (const int error = usable_with(stream)) return error;
    // Unlike cuMemAlloc, the pool answers a request for nothing with the null pointer.
    return bytes ? allocate(pointer, bytes) : give(pointer, DevicePointer{0});
}
DRIVER_API cuMemAllocFromPoolAsync(DevicePointer* pointer, size_t bytes, Pool*, Stream* stream) {
    return cuMemAllocAsync(pointer, bytes, stream);
}
DRIVER_API cuMemFree_v2(DevicePointer pointer) { return memory().release(pointer); }
DRIVER_API cuMemFreeAsync(DevicePointer pointer, Stream*) { return memory().release(pointer); }

DRIVER_API cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
    const int error = usable();
    return error ? error : memory().allocate_pinned(pointer, bytes);
}
DRIVER_API cuMemFreeHost(void* pointer) {
    if (current_context && current_context->hangs) wait_for_ever();
    return memory().release_pinned(pointer);
}

DRIVER_API cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) { return copy_in(to, from, bytes); }
DRIVER_API cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, Stream* stream) {
    return hangs(stream) ? SUCCESS : copy_in(to, from, bytes);
}
DRIVER_API cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t bytes) { return copy_out(to, from, bytes); }
DRIVER_API cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, Stream* stream) {
    return hangs(stream) ? SUCCESS : copy_out(to, from, bytes);
}
DRIVER_API cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, size_t bytes) {
    return copy_on_device(to, from, bytes);
}
DRIVER_API cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, Stream* stream) {
    return hangs(stream) ? SUCCESS : copy_on_device(to, from, bytes);
}
DRIVER_API cuMemcpyPeerAsync(DevicePointer to, Context* receiver, DevicePointer from, Context* sender, size_t bytes,
                             Stream* stream) {
    if (hangs(stream)) return SUCCESS;
    // a copy may be given to a stream of a device that is not the current one
    if (!receiver || !sender) return INVALID_CONTEXT;
    if (receiver->broken || sender->broken) return LAUNCH_FAILED;
    const bool inside = memory().holds(to, bytes, receiver->device) && memory().holds(from, bytes, sender->device);
    return copy(host(to), host(from), bytes, inside);
}
DRIVER_API cuMemsetD8_v2(DevicePointer pointer, unsigned char value, size_t count) {
    return fill(pointer, value, count);
}
DRIVER_API cuMemsetD8Async(DevicePointer pointer, unsigned char value, size_t count, Stream* stream) {
    const int error = usable_with(stream);
    return error || hangs(stream) ? error : fill(pointer, value, count);
}
DRIVER_API cuMemsetD32Async(DevicePointer pointer, unsigned value, size_t count, Stream* stream) {
    const int error = usable_with(stream);
    return error || hangs(stream) ? error : fill(pointer, value, count);
}

DRIVER_API cuDeviceGetDefaultMemPool(Pool** pool, Device device) {
    return valid(device) ? INVALID_DEVICE : give(pool, &default_pools[device]);
}
DRIVER_API cuDeviceGetMemPool(Pool** pool, Device device) { return cuDeviceGetDefaultMemPool(pool, device); }
DRIVER_API cuDeviceSetMemPool(Device device, Pool*) { return valid(device); }
DRIVER_API cuMemPoolTrimTo(Pool*, size_t) { return SUCCESS; }
DRIVER_API cuMemPoolSetAttribute(Pool* pool, int attribute, void* value) {
    constexpr int last_switch = 3;  // 1 to 3 switch kinds of reuse on or off, which changes nothing here
    constexpr int release_threshold = 4;
    if (!pool || !value || attribute < 1 || attribute > release_threshold) return INVALID_VALUE;
    if (attribute > last_switch) pool->release_threshold = *static_cast<const uint64_t*>(value);
    return SUCCESS;
}
DRIVER_API cuMemPoolGetAttribute(Pool* pool, int attribute, void* value) {
    if (!pool || !value) return INVALID_VALUE;
    const auto figures = memory().figures();
    switch (attribute) {
        case 4: return give(static_cast<uint64_t*>(value), pool->release_threshold.load());
        case 5:
        case 7: return give(static_cast<uint64_t*>(value), figures.live);
        case 6:
        case 8: return give(static_cast<uint64_t*>(value), figures.peak);
        default: return INVALID_VALUE;
    }
}

// ---- streams and events -----------------------------------------------------------------------------------------------

DRIVER_API cuStreamCreate(Stream** stream, unsigned flags) {
    if (const int error = usable()) return error;
    if (const int error = memory().count()) return error;
    return give(stream, new Stream{flags, current_context->device});
}
DRIVER_API cuStreamCreateWithPriority(Stream** stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
DRIVER_API cuStreamDestroy_v2(Stream* stream) {
    delete stream;
    return SUCCESS;
}
DRIVER_API cuStreamSynchronize(Stream* stream) {
    if (hangs(stream)) wait_for_ever();
    return usable_with(stream);
}
DRIVER_API cuStreamQuery(Stream* stream) { return hangs(stream) ? NOT_READY : usable_with(stream); }
DRIVER_API cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    if (stream && hangs(event)) stream->hangs = true;
    return event ? SUCCESS : INVALID_HANDLE;
}
DRIVER_API cuStreamIsCapturing(Stream*, int* status) { return give(status, 0); }
DRIVER_API cuLaunchHostFunc(Stream*, void (*function)(void*), void* argument) {
    function(argument);
    return SUCCESS;
}

DRIVER_API cuEventCreate(Event** event, unsigned) {
    const int error = usable();
    return error ? error : give(event, new Event{current_context->device});
}
DRIVER_API cuEventDestroy_v2(Event* event) {
    delete event;
    return SUCCESS;
}
DRIVER_API cuEventRecord(Event* event, Stream* stream) {
    if (!event) return INVALID_HANDLE;
    if (const int error = usable_with(event)) return error;
    if (const int error = usable_with(stream)) return error;
    event->time = Clock::now();
    event->recorded = true;
    event->hangs = hangs(stream);
    return SUCCESS;
}
DRIVER_API cuEventQuery(Event* event) { return !event ? INVALID_HANDLE : hangs(event) ? NOT_READY : SUCCESS; }
DRIVER_API cuEventSynchronize(Event* event) {
    if (hangs(event)) wait_for_ever();
    return event ? SUCCESS : INVALID_HANDLE;
}
DRIVER_API cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
    if (!start || !end || !start->recorded || !end->recorded) return INVALID_HANDLE;
    return give(milliseconds, std::chrono::duration<float, std::milli>(end->time - start->time).count());
}

// ---- modules, functions and launches ------------------------------------------------------------------------------------

// As the driver's own, it is there once it is needed, and takes itself apart when the process exits, which is the end of a process that
// still compiles.
class Compiler {
public:
    ~Compiler() {
        if (at_work_) abort();
    }
    void compile() {
        ++at_work_;
        std::this_thread::sleep_for(std::chrono::milliseconds(time_));
        --at_work_;
    }
    int at_work() const { return at_work_; }

private:
    const uint64_t time_ = setting("EMULATED_COMPILE_TIME", 0);
    std::atomic<int> at_work_{0};
};
Compiler& compiler() {
    static Compiler compiler;
    return compiler;
}

DRIVER_API cuLinkCreate_v2(unsigned, void*, void*, void** state) {
    if (const int error = usable()) return error;
    return give(state, static_cast<void*>(&compiler()));
}
DRIVER_API cuLinkDestroy(void* state) { return state ? SUCCESS : INVALID_HANDLE; }

DRIVER_API cuModuleLoadData(Module** module, const void* image) {
    if (const int error = usable()) return error;
    if (!image) return INVALID_IMAGE;
    const char* bytes = static_cast<const char*>(image);
    if (!is_machine_code(image)) {
        compiler().compile();
        return give(module, new Module{bytes, false, current_context->device});
    }
    std::string read;
    if (const int error = read_machine_code(bytes, &read)) return error;
    return give(module, new Module{std::move(read), true, current_context->device});
}
DRIVER_API cuModuleUnload(Module* module) {
    delete module;
    return SUCCESS;
}
DRIVER_API cuModuleGetFunction(Function** function, Module* module, const char* name) {
    if (!module || !name) return INVALID_VALUE;
    Function* found = may_hold(*module, name) ? function_named(name, module->device) : nullptr;
    return found ? give(function, found) : NOT_FOUND;
}
DRIVER_API cuModuleGetGlobal_v2(DevicePointer*, size_t*, Module*, const char*) { return NOT_FOUND; }

DRIVER_API cuFuncGetAttribute(int* value, int attribute, Function* function) {
    if (!function) return INVALID_HANDLE;
    switch (attribute) {
        case 0: return give(value, 1024);  // threads per block
        case 1:
        case 2:
        case 3: return give(value, 0);   // shared, constant and local bytes: not known
        case 4: return give(value, 32);  // registers
        case 5:
        case 6: return give(value, capability);  // PTX and binary version
        case 8: return give(value, function->most_dynamic_shared.load());
        default: return INVALID_VALUE;
    }
}
DRIVER_API cuFuncSetAttribute(Function* function, int attribute, int value) {
    constexpr int most_dynamic_shared = 8, carveout = 9;
    if (!function) return INVALID_HANDLE;
    if (attribute == carveout) return SUCCESS;
    if (attribute != most_dynamic_shared || value < 0 || value > most_shared_per_block()) return INVALID_VALUE;
    function->most_dynamic_shared = value;
    return SUCCESS;
}
DRIVER_API cuFuncSetCacheConfig(Function* function, int) { return function ? SUCCESS : INVALID_HANDLE; }
DRIVER_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function*, int block_size, size_t dynamic_shared) {
    return give(blocks, resident_blocks(block_size, dynamic_shared));
}
DRIVER_API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function*, int block_size,
                                                                size_t dynamic_shared, unsigned) {
    return give(blocks, resident_blocks(block_size, dynamic_shared));
}

DRIVER_API cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned dynamic_shared, Stream* stream,
                          void** parameters, void** extra) {
    if (extra) return NOT_SUPPORTED;
    return launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared, stream, parameters);
}

// ---- for tests ------------------------------------------------------------------------------------------------------

// Bytes of device memory that are allocated now, and the most at any time.
REPORT_API uint64_t emulated_live_bytes() { return memory().figures().live; }
REPORT_API uint64_t emulated_peak_bytes() { return memory().figures().peak; }
// Allocations so far, failed ones included.
REPORT_API uint64_t emulated_allocations() { return memory().figures().allocations; }
// Makes so many allocations from now fail, all if the count is 0, beginning with the n-th, 1 being the next; with n = 0 none.
REPORT_API void emulated_fail_allocations(uint64_t n, uint64_t count) { memory().fail(n, count); }
// Launches so far, failed ones included.
REPORT_API uint64_t emulated_launches() { return launches; }
// Modules that are being compiled.
REPORT_API uint64_t emulated_compiling() { return compiler().at_work(); }
// Replaces EMULATED_DEVICE_MEMORY, for every device; what is allocated stays.
REPORT_API void emulated_set_memory(uint64_t bytes) { memory().resize(bytes); }
// Makes the n-th launch from now fail, 1 being the next; 0 none.
REPORT_API void emulated_fail_launch(uint64_t n) { launch_to_fail = n ? launches + n : 0; }
