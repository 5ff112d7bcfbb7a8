// One of `cube/attention/matrix_units`'s kernels beside loops in f64. Compiled with its text's KERNEL_FILE, its name KERNEL, the types of its
// numbers, of two and of eight of them (NUMBER, PAIR, EIGHT), and the WIDTH of a row.
#include "warp.h"

#include KERNEL_FILE

// As in `matrix_units::Config`.
constexpr int ROWS = 4 * 16 * (WIDTH <= 64 ? 2 : 1);

struct Strides {
    size_t batch, head, row;
};

struct Case {
    int batch, heads, queries, keys;
    // Whether queries, keys and values lie beside each other in the same rows.
    bool joined;
};

static unsigned state = 1;
static float noise() {
    state = state * 1664525u + 1013904223u;
    return float(state >> 8) / (1 << 22) - 2.0f;
}

static bool check(const Case &c) {
    size_t width = c.heads * WIDTH, row = c.joined ? 3 * width : width;
    Strides of_q = {c.queries * row, WIDTH, row}, of_k = {c.keys * row, WIDTH, row}, of_out = {c.queries * width, WIDTH, width};
    std::vector<NUMBER> numbers(c.batch * (c.joined ? c.queries : c.queries + 2 * c.keys) * row);
    for (NUMBER &number : numbers) number = noise();
    NUMBER *q = numbers.data(), *k = c.joined ? q + width : q + c.batch * c.queries * row, *v = c.joined ? k + width : k + c.batch * c.keys * row;
    std::vector<NUMBER> out(c.batch * c.queries * width, NUMBER(NAN));
    info_st info = {};
    auto *next = info.scalars_usize;
    using Rows = std::pair<Strides, int>;
    for (auto [strides, vector] : {Rows(of_q, 2), Rows(of_k, 8), Rows(of_k, 8), Rows(of_out, 2)})
        for (size_t distance : {strides.batch, strides.head, strides.row}) *next++ = distance / vector;
    for (int size : {c.heads, c.batch * c.heads, c.queries, c.keys}) *next++ = size;
    info.scalars_f32[0] = float(M_LOG2E / sqrt(WIDTH));
    // One block more than there is work for, as where a grid has several axes.
    unsigned blocks = c.batch * c.heads * ((c.queries + ROWS - 1) / ROWS) + 1;
    gridDim = {blocks, 1, 1};
    blockDim = {128, 1, 1};
    for (blockIdx = {0, 0, 0}; blockIdx.x < blocks; blockIdx.x++)
        warp::run([&] { KERNEL((PAIR *)q, (EIGHT *)k, (EIGHT *)v, (PAIR *)out.data(), info); });
    double worst = 0, largest = 0;
    for (int b = 0; b < c.batch; b++)
        for (int h = 0; h < c.heads; h++)
            for (int n = 0; n < c.queries; n++) {
                auto at = [&](const NUMBER *from, Strides s, int row, int i) { return double(float(from[b * s.batch + h * s.head + row * s.row + i])); };
                std::vector<double> weights(c.keys);
                double most = -INFINITY, total = 0;
                for (int m = 0; m < c.keys; m++) {
                    for (int i = 0; i < WIDTH; i++) weights[m] += at(q, of_q, n, i) * at(k, of_k, m, i);
                    most = fmax(most, weights[m] /= sqrt(WIDTH));
                }
                for (double &weight : weights) total += weight = exp(weight - most);
                for (int i = 0; i < WIDTH; i++) {
                    double want = 0;
                    for (int m = 0; m < c.keys; m++) want += weights[m] / total * at(v, of_k, m, i);
                    double error = fabs(at(out.data(), of_out, n, i) - want);
                    // NaN is no small error.
                    if (!(error <= worst)) worst = error;
                    largest = fmax(largest, fabs(want));
                }
            }
    // As in `prepose selftest`.
    double allowed = std::is_same_v<NUMBER, __nv_bfloat16> ? 1e-2 : 2e-3;
    bool right = worst <= allowed * largest;
    printf("| %s | %d | %d × %d × %d × %d%s | %.1e | %.0e |\n", right ? "ok" : "WRONG", WIDTH, c.batch, c.heads, c.queries, c.keys, c.joined ? ", joined" : "",
           worst / largest, allowed);
    return right;
}

int main() {
    bool right = true;
    for (const Case &c : {Case{1, 1, 1, 1, false}, {1, 2, 130, 77, false}, {2, 3, 150, 200, false}, {2, 2, 200, 200, true}, {1, 1, 64, 64, true}}) right &= check(c);
    return right ? 0 : 1;
}
