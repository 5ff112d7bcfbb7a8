// The threads of a CUDA block on a CPU: each is a fiber, run in turn until it waits for the others. Instructions of a warp are computed by
// their definition in PTX (https://docs.nvidia.com/cuda/parallel-thread-execution): mma.m16n8k16, ldmatrix, shuffles, cp.async.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __launch_bounds__(threads)
#define __grid_constant__

struct Position {
    unsigned x, y, z;
};
static Position blockIdx, gridDim, blockDim;

using __half = _Float16;
struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float value) {
        uint32_t all;
        memcpy(&all, &value, 4);
        bits = (all + 0x7fff + (all >> 16 & 1)) >> 16;
    }
    operator float() const {
        uint32_t all = uint32_t(bits) << 16;
        float value;
        memcpy(&value, &all, 4);
        return value;
    }
};

namespace warp {
constexpr int LANES = 32;

struct Copy {
    void *to;
    const void *from;
    unsigned bytes;
};

struct Thread {
    Position id;
    ucontext_t context;
    std::vector<char> stack;
    bool done;
    // What it shows to its warp: registers and an address.
    uint32_t registers[8];
    const void *address;
    // Copies that have begun, by the group that they were committed in; the last group is still open.
    std::vector<std::vector<Copy>> groups;
};

// How many have come to a barrier, and how often it has opened.
struct Barrier {
    int waiting, opened;
};

static std::vector<Thread> threads;
static std::vector<Barrier> of_warps;
static Barrier of_block;
static int now;
static ucontext_t scheduler;
alignas(128) static char shared[256 << 10];

static Thread &self() { return threads[now]; }
static Thread &lane(int number) { return threads[now / LANES * LANES + number]; }

static void wait(Barrier &barrier, int all) {
    int opened = barrier.opened;
    if (++barrier.waiting == all) {
        barrier = {0, opened + 1};
        return;
    }
    while (barrier.opened == opened) swapcontext(&self().context, &scheduler);
}
static void wait() { wait(of_warps[now / LANES], LANES); }

// Runs a kernel's body by all threads of a block.
static void run(std::function<void()> body) {
    static std::function<void()> running;
    running = body;
    int count = blockDim.x * blockDim.y * blockDim.z;
    threads.assign(count, {});
    of_warps.assign(count / LANES, {});
    of_block = {};
    // Whatever was there before: what nobody has written must not matter.
    memset(shared, 0x7e, sizeof shared);
    for (int i = 0; i < count; i++) {
        Thread &thread = threads[i];
        thread.id = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
        thread.groups.resize(1);
        thread.stack.resize(256 << 10);
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        thread.context.uc_link = &scheduler;
        void (*start)() = [] {
            running();
            self().done = true;
        };
        makecontext(&thread.context, start, 0);
    }
    for (bool some = true; some;) {
        some = false;
        for (now = 0; now < count; now++) {
            if (self().done) continue;
            some = true;
            swapcontext(&scheduler, &self().context);
        }
    }
}

static void copy(void *to, const void *from, unsigned bytes) { self().groups.back().push_back({to, from, bytes}); }
static void commit() { self().groups.emplace_back(); }
// Until at most so many committed groups are on their way; a copy that is shorter than 16 bytes is filled up with zeros.
static void wait_group(size_t left) {
    auto &groups = self().groups;
    while (groups.size() - 1 > left) {
        for (Copy &copy : groups.front()) {
            memset(copy.to, 0, 16);
            memcpy(copy.to, copy.from, copy.bytes);
        }
        groups.erase(groups.begin());
    }
}

// Matrices of 8 × 8 numbers of 16 bits, whose rows lie where the lanes say, eight lanes for each matrix.
static void load_matrices(uint32_t *out, int count, const void *row, bool turned) {
    if (uintptr_t(row) % 16) {
        puts("ldmatrix: an address is no multiple of 16");
        exit(1);
    }
    self().address = row;
    wait();
    int me = now % LANES;
    for (int matrix = 0; matrix < count; matrix++) {
        auto number = [&](int row, int column) { return static_cast<const uint16_t *>(lane(matrix * 8 + row).address)[column]; };
        auto mine = [&](int i) { return turned ? number(me % 4 * 2 + i, me / 4) : number(me / 4, me % 4 * 2 + i); };
        out[matrix] = mine(0) | uint32_t(mine(1)) << 16;
    }
    wait();
}

// d = a · b + c, of 16 × 16 by 16 × 8 numbers of the type.
template <typename T> static void multiply(float *d, const uint32_t *a, const uint32_t *b, const float *c) {
    memcpy(self().registers, a, 16);
    memcpy(self().registers + 4, b, 8);
    wait();
    auto number = [](uint32_t pair, int which) {
        uint16_t bits = pair >> 16 * which;
        T value;
        memcpy(&value, &bits, 2);
        return double(float(value));
    };
    auto left = [&](int row, int k) { return number(lane(row % 8 * 4 + k % 8 / 2).registers[row / 8 + k / 8 * 2], k % 2); };
    auto right = [&](int k, int column) { return number(lane(column * 4 + k % 8 / 2).registers[4 + k / 8], k % 2); };
    float sums[4];
    int me = now % LANES;
    for (int i = 0; i < 4; i++) {
        double sum = c[i];
        for (int k = 0; k < 16; k++) sum += left(me / 4 + i / 2 * 8, k) * right(k, me % 4 * 2 + i % 2);
        sums[i] = sum;
    }
    wait();
    memcpy(d, sums, 16);
}

// f32 with eleven digits, halves away from zero.
static uint32_t tf32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (bits + 0x1000) & ~0x1fffu;
}

// d = a · b + c, of 16 × 8 by 8 × 8 numbers, of which the units read eleven digits.
static void multiply_tf32(float *d, const uint32_t *a, const uint32_t *b, const float *c) {
    memcpy(self().registers, a, 16);
    memcpy(self().registers + 4, b, 8);
    wait();
    auto number = [](uint32_t bits) {
        float value;
        bits &= ~0x1fffu;
        memcpy(&value, &bits, 4);
        return double(value);
    };
    auto left = [&](int row, int k) { return number(lane(row % 8 * 4 + k % 4).registers[row / 8 + k / 4 * 2]); };
    auto right = [&](int k, int column) { return number(lane(column * 4 + k % 4).registers[4 + k / 4]); };
    float sums[4];
    int me = now % LANES;
    for (int i = 0; i < 4; i++) {
        double sum = c[i];
        for (int k = 0; k < 8; k++) sum += left(me / 4 + i / 2 * 8, k) * right(k, me % 4 * 2 + i % 2);
        sums[i] = sum;
    }
    wait();
    memcpy(d, sums, 16);
}
}  // namespace warp

#define threadIdx (warp::self().id)

static void __syncthreads() { warp::wait(warp::of_block, warp::threads.size()); }
static unsigned __activemask() { return ~0u; }
static uint32_t __cvta_generic_to_shared(const void *address) { return static_cast<const char *>(address) - warp::shared; }

static float __shfl_xor_sync(unsigned, float value, int mask) {
    memcpy(warp::self().registers, &value, 4);
    warp::wait();
    float other;
    memcpy(&other, warp::lane((warp::now % warp::LANES) ^ mask).registers, 4);
    warp::wait();
    return other;
}

using std::exp;
using std::fma;
using std::max;
using std::min;
