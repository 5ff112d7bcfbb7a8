/* A CUDA driver that executes nothing: for machines without a GPU.
 *
 * With it, and NVIDIA's real run-time compiler (NVRTC), a program compiles every CUDA kernel that it would launch and asks
 * for all the memory it would use, on a device that exists on paper. Results are zeros. It counts launches by kernel, compiled
 * modules and the most memory that was allocated, and writes them as JSON when the program ends.
 *
 *     cc -O1 -shared -fPIC -o libcuda.so.1 dry_driver.c
 *     LD_LIBRARY_PATH=. DRY_DRIVER_STATS=stats.json DRY_DRIVER_PTX=ptx/ PROGRAM
 *
 * DRY_DRIVER_DEVICE: h200 (default), a100 or t4. DRY_DRIVER_TRACE=FILE: each launch in a line, the kernel and
 * its grid. scripts/gpu/dry-run.sh does all of it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int result;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500 };
#define API __attribute__((visibility("default"))) result

static const struct device {
    const char *key, *name;
    int major, minor, processors, shared;
    size_t memory;
} DEVICES[] = {
    {"h200", "NVIDIA H200 (dry run)", 9, 0, 132, 232448, (size_t)139 << 30},
    {"a100", "NVIDIA A100-SXM4-80GB (dry run)", 8, 0, 108, 166912, (size_t)80 << 30},
    {"t4", "Tesla T4 (dry run)", 7, 5, 40, 65536, (size_t)15 << 30},
};

static const struct device *device(void) {
    const char *wanted = getenv("DRY_DRIVER_DEVICE");
    for (size_t i = 0; wanted && i < sizeof DEVICES / sizeof *DEVICES; i++)
        if (!strcmp(DEVICES[i].key, wanted)) return &DEVICES[i];
    return &DEVICES[0];
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t used, peak, launches, modules, graphs, captured, replays;
static int capturing;

/* Allocations: address space without memory behind it until it is touched, which nothing does. */
static struct block { void *at; size_t size; struct block *next; } *blocks;

static result take(uint64_t *at, size_t size) {
    pthread_mutex_lock(&lock);
    result outcome = OK;
    if (size == 0) outcome = INVALID;
    else if (used + size > device()->memory) outcome = OUT_OF_MEMORY;
    else {
        void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        struct block *block = malloc(sizeof *block);
        if (place == MAP_FAILED || !block) outcome = OUT_OF_MEMORY;
        else {
            *block = (struct block){place, size, blocks};
            blocks = block;
            *at = (uint64_t)(uintptr_t)place;
            used += size;
            if (used > peak) peak = used;
        }
    }
    pthread_mutex_unlock(&lock);
    return outcome;
}

static result give(uint64_t at) {
    pthread_mutex_lock(&lock);
    result outcome = INVALID;
    for (struct block **link = &blocks; *link; link = &(*link)->next)
        if ((uint64_t)(uintptr_t)(*link)->at == at) {
            struct block *block = *link;
            *link = block->next;
            munmap(block->at, block->size);
            used -= block->size;
            free(block);
            outcome = OK;
            break;
        }
    pthread_mutex_unlock(&lock);
    return outcome;
}

/* Kernels by name, and how often each was launched. */
static struct kernel { char *name; size_t launches; struct kernel *next; } *kernels;

static FILE *trace;

static void report(void) {
    if (trace) fflush(trace);
    const char *path = getenv("DRY_DRIVER_STATS");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out) return;
    fprintf(out, "{\"device\": \"%s\", \"modules\": %zu, \"launches\": %zu, \"graphs\": %zu, \"captured_launches\": %zu, "
                 "\"replays\": %zu, \"peak_bytes\": %zu, \"kernels\": {",
            device()->name, modules, launches, graphs, captured, replays, peak);
    const char *comma = "";
    for (struct kernel *kernel = kernels; kernel; kernel = kernel->next)
        if (kernel->launches) fprintf(out, "%s\n  \"%s\": %zu", comma, kernel->name, kernel->launches), comma = ",";
    fprintf(out, "}}\n");
    fclose(out);
}

API cuInit(unsigned flags) {
    static int once;
    const char *path = getenv("DRY_DRIVER_TRACE");
    if (!once++) {
        if (path) trace = fopen(path, "w");
        atexit(report);
    }
    return OK;
}
API cuDriverGetVersion(int *version) { *version = 13000; return OK; }
API cuDeviceGetCount(int *count) { *count = 1; return OK; }
API cuDeviceGet(int *dev, int ordinal) { *dev = 0; return ordinal ? 101 : OK; }
API cuDeviceGetName(char *name, int len, int dev) { snprintf(name, len, "%s", device()->name); return OK; }
API cuDeviceGetPCIBusId(char *id, int len, int dev) { snprintf(id, len, "0000:00:00.0"); return OK; }
API cuDeviceGetUuid_v2(unsigned char *uuid, int dev) { memset(uuid, 0, 16); return OK; }
API cuDeviceTotalMem_v2(size_t *bytes, int dev) { *bytes = device()->memory; return OK; }
API cuMemGetInfo_v2(size_t *left, size_t *total) { *total = device()->memory; *left = *total - used; return OK; }
API cuDeviceGetAttribute(int *value, int attribute, int dev) {
    switch (attribute) {
    case 1: *value = 1024; break;                         /* threads in a block */
    case 2: case 3: *value = 1024; break;                 /* block x, y */
    case 4: *value = 64; break;                           /* block z */
    case 5: *value = 2147483647; break;                   /* grid x */
    case 6: case 7: *value = 65535; break;                /* grid y, z */
    case 8: *value = 49152; break;                        /* shared memory in a block */
    case 10: *value = 32; break;                          /* warp */
    case 12: *value = 65536; break;                       /* registers in a block */
    case 16: *value = device()->processors; break;
    case 39: *value = 2048; break;                        /* threads on a multiprocessor */
    case 75: *value = device()->major; break;
    case 76: *value = device()->minor; break;
    case 81: *value = device()->shared + 1024; break;     /* shared memory of a multiprocessor */
    case 97: *value = device()->shared; break;            /* shared memory in a block, on request */
    case 115: *value = 1; break;                          /* memory pools */
    default: *value = 0;
    }
    return OK;
}

static int context, stream_number;
API cuDevicePrimaryCtxRetain(void **ctx, int dev) { *ctx = &context; return OK; }
API cuDevicePrimaryCtxRelease_v2(int dev) { return OK; }
API cuDevicePrimaryCtxSetFlags_v2(int dev, unsigned flags) { return OK; }
API cuCtxSetCurrent(void *ctx) { return OK; }
API cuCtxGetCurrent(void **ctx) { *ctx = &context; return OK; }
API cuCtxSynchronize(void) { return OK; }
API cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return OK; }
API cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)(intptr_t)(16 + ++stream_number); return OK; }
API cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return cuStreamCreate(stream, flags); }
API cuStreamDestroy_v2(void *stream) { return OK; }
API cuStreamSynchronize(void *stream) { return OK; }
API cuStreamQuery(void *stream) { return OK; }
API cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return OK; }

/* Events keep the time at which they were recorded, of a clock that each of them moves on by 20 ms: who measures sees some, the same
 * for every kernel, and enough to stop trying it. */
static double now;
API cuEventCreate(void **event, unsigned flags) { *event = calloc(1, sizeof(double)); return OK; }
API cuEventRecord(void *event, void *stream) {
    pthread_mutex_lock(&lock);
    *(double *)event = now += 20;
    pthread_mutex_unlock(&lock);
    return OK;
}
API cuEventSynchronize(void *event) { return OK; }
API cuEventQuery(void *event) { return OK; }
API cuEventDestroy_v2(void *event) { free(event); return OK; }
API cuEventElapsedTime(float *ms, void *a, void *b) {
    *ms = *(double *)b - *(double *)a;
    return OK;
}
API cuEventElapsedTime_v2(float *ms, void *a, void *b) { return cuEventElapsedTime(ms, a, b); }

API cuMemAlloc_v2(uint64_t *at, size_t size) { return take(at, size); }
API cuMemAllocAsync(uint64_t *at, size_t size, void *stream) { return take(at, size); }
API cuMemFree_v2(uint64_t at) { return give(at); }
API cuMemFreeAsync(uint64_t at, void *stream) { return give(at); }
API cuMemAllocHost_v2(void **at, size_t size) { *at = calloc(1, size); return *at ? OK : OUT_OF_MEMORY; }
API cuMemFreeHost(void *at) { free(at); return OK; }
API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) { return OK; }
API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) { memset(to, 0, size); return OK; }
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream) { return OK; }
API cuMemsetD8Async(uint64_t at, unsigned char value, size_t size, void *stream) { return OK; }
struct copy { size_t source[8]; size_t to_x, to_y; int to_type; void *to_host; uint64_t to; void *to_array; size_t to_pitch, width, height; };
API cuMemcpy2DAsync_v2(const struct copy *copy, void *stream) {
    if (copy->to_type == 1) /* the host */
        for (size_t row = 0; row < copy->height; row++)
            memset((char *)copy->to_host + (copy->to_y + row) * copy->to_pitch + copy->to_x, 0, copy->width);
    return OK;
}

API cuModuleLoadData(void **module, const char *image) {
    pthread_mutex_lock(&lock);
    size_t number = modules++;
    pthread_mutex_unlock(&lock);
    const char *folder = getenv("DRY_DRIVER_PTX");
    if (folder && !strncmp(image, "//", 2)) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%05zu.ptx", folder, number);
        FILE *out = fopen(path, "w");
        if (out) fputs(image, out), fclose(out);
    }
    report(); /* so that something is known of a program that is stopped */
    *module = &context;
    return OK;
}
API cuModuleUnload(void *module) { return OK; }
API cuModuleGetFunction(void **function, void *module, const char *name) {
    struct kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel) return OUT_OF_MEMORY;
    kernel->name = strdup(name);
    pthread_mutex_lock(&lock);
    kernel->next = kernels;
    kernels = kernel;
    pthread_mutex_unlock(&lock);
    *function = kernel;
    return OK;
}
API cuFuncSetAttribute(void *function, int attribute, int value) {
    /* Dynamic shared memory: refused beyond what the device has, as the real one does. */
    return attribute == 8 && value > device()->shared ? INVALID : OK;
}
API cuLaunchKernel(struct kernel *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || !bx || !by || !bz || bx * by * bz > 1024 ||
        shared > (unsigned)device()->shared)
        return INVALID;
    pthread_mutex_lock(&lock);
    kernel->launches++;
    launches++;
    captured += capturing;
    if (trace) fprintf(trace, "%s %ux%ux%u\n", kernel->name, gx, gy, gz);
    pthread_mutex_unlock(&lock);
    return OK;
}

API cuStreamBeginCapture_v2(void *stream, int mode) { capturing = 1; return OK; }
API cuStreamEndCapture(void *stream, void **graph) { capturing = 0; *graph = &context; return OK; }
API cuGraphGetNodes(void *graph, void **nodes, size_t *count) { *count = 0; return OK; }
API cuGraphNodeGetType(void *node, int *type) { *type = 0; return OK; }
API cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) { graphs++; *exec = &context; return OK; }
API cuGraphUpload(void *exec, void *stream) { return OK; }
API cuGraphLaunch(void *exec, void *stream) { replays++; return OK; }
API cuGraphDestroy(void *graph) { return OK; }
API cuGraphExecDestroy(void *exec) { return OK; }
API cuTensorMapEncodeTiled(void *map) { return OK; }
API cuTensorMapEncodeIm2col(void *map) { return OK; }
/* NVRTC looks for private functions of the driver: a table that ends where it begins has none. */
API cuGetExportTable(const void **table, const void *id) { static const size_t size = sizeof size; *table = &size; return OK; }
API cuGetErrorString(int error, const char **text) { *text = error == OUT_OF_MEMORY ? "out of memory" : "invalid value"; return OK; }
API cuGetErrorName(int error, const char **text) { *text = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE"; return OK; }
