// The two kernels of `cube/attention/matrix_units/gradients.rs` beside loops in f64, as attention.cpp. Compiled with the files and names of both
// (QUERY_FILE, QUERY_KERNEL, KEY_FILE, KEY_KERNEL), the types of their numbers, of two and of eight of them, and the WIDTH of a row.
#include "warp.h"

namespace of_queries {
#include QUERY_FILE
}
namespace of_keys {
#include KEY_FILE
}

// Rows of a block: four planes of sixteen.
constexpr int ROWS = 4 * 16;

struct Strides {
    size_t batch, head, row;
};

struct Case {
    int batch, heads, queries, keys;
    // Whether queries, keys and values lie beside each other in the same rows.
    bool joined;
};

using Rows = std::pair<Strides, int>;

static unsigned state = 1;
static float noise() {
    state = state * 1664525u + 1013904223u;
    return float(state >> 8) / (1 << 22) - 2.0f;
}

template <typename Info> static Info info_of(std::vector<Rows> of, const Case &c) {
    Info info = {};
    auto *next = info.scalars_usize;
    for (auto [strides, vector] : of)
        for (size_t distance : {strides.batch, strides.head, strides.row}) *next++ = distance / vector;
    for (int size : {c.heads, c.batch * c.heads, c.queries, c.keys}) *next++ = size;
    info.scalars_f32[0] = float(1 / sqrt(WIDTH));
    return info;
}

// One block more than there is work for, as where a grid has several axes.
static void launch(const Case &c, int rows, std::function<void()> kernel) {
    unsigned blocks = c.batch * c.heads * ((rows + ROWS - 1) / ROWS) + 1;
    gridDim = {blocks, 1, 1};
    blockDim = {128, 1, 1};
    for (blockIdx = {0, 0, 0}; blockIdx.x < blocks; blockIdx.x++) warp::run(kernel);
}

static bool check(const Case &c) {
    size_t width = c.heads * WIDTH, row = c.joined ? 3 * width : width;
    Strides at_q = {c.queries * row, WIDTH, row}, at_k = {c.keys * row, WIDTH, row};
    Strides dense_q = {c.queries * width, WIDTH, width}, dense_k = {c.keys * width, WIDTH, width};
    std::vector<NUMBER> numbers(c.batch * (c.joined ? c.queries : c.queries + 2 * c.keys) * row);
    for (NUMBER &number : numbers) number = noise();
    NUMBER *q = numbers.data(), *k = c.joined ? q + width : q + c.batch * c.queries * row, *v = c.joined ? k + width : k + c.batch * c.keys * row;
    size_t of_queries_count = c.batch * c.queries * width, of_keys_count = c.batch * c.keys * width;
    std::vector<NUMBER> grad(of_queries_count), out(of_queries_count);
    // Small gradients, as they are far from a loss.
    for (NUMBER &number : grad) number = noise() * 1e-3f;
    std::vector<NUMBER> found[3] = {std::vector<NUMBER>(of_queries_count, NUMBER(NAN)), std::vector<NUMBER>(of_keys_count, NUMBER(NAN)), std::vector<NUMBER>(of_keys_count, NUMBER(NAN))};
    std::vector<double> want[3] = {std::vector<double>(of_queries_count), std::vector<double>(of_keys_count), std::vector<double>(of_keys_count)};
    for (int b = 0; b < c.batch; b++)
        for (int h = 0; h < c.heads; h++)
            for (int n = 0; n < c.queries; n++) {
                auto place = [&](Strides s, int row, int i) { return b * s.batch + h * s.head + row * s.row + i; };
                std::vector<double> weights(c.keys), to_probs(c.keys);
                double most = -INFINITY, total = 0, along = 0;
                for (int m = 0; m < c.keys; m++) {
                    for (int i = 0; i < WIDTH; i++) {
                        weights[m] += double(float(q[place(at_q, n, i)])) * float(k[place(at_k, m, i)]) / sqrt(WIDTH);
                        to_probs[m] += double(float(grad[place(dense_q, n, i)])) * float(v[place(at_k, m, i)]);
                    }
                    most = fmax(most, weights[m]);
                }
                for (double &weight : weights) total += weight = exp(weight - most);
                for (int m = 0; m < c.keys; m++) along += (weights[m] /= total) * to_probs[m];
                for (int i = 0; i < WIDTH; i++) {
                    double result = 0;
                    for (int m = 0; m < c.keys; m++) {
                        double to_score = weights[m] * (to_probs[m] - along) / sqrt(WIDTH);
                        result += weights[m] * float(v[place(at_k, m, i)]);
                        want[0][place(dense_q, n, i)] += to_score * float(k[place(at_k, m, i)]);
                        want[1][place(dense_k, m, i)] += to_score * float(q[place(at_q, n, i)]);
                        want[2][place(dense_k, m, i)] += weights[m] * float(grad[place(dense_q, n, i)]);
                    }
                    out[place(dense_q, n, i)] = float(result);
                }
            }
    std::vector<float> logs(c.batch * c.heads * c.queries, NAN), alongs(logs);
    auto of_queries_info = info_of<of_queries::info_st>({{at_q, 2}, {at_k, 8}, {at_k, 8}, {dense_q, 2}, {dense_q, 2}, {dense_q, 2}}, c);
    launch(c, c.queries, [&] {
        using namespace of_queries;
        QUERY_KERNEL((PAIR *)q, (EIGHT *)k, (EIGHT *)v, (PAIR *)grad.data(), (PAIR *)out.data(), (PAIR *)found[0].data(), logs.data(), alongs.data(), of_queries_info);
    });
    auto of_keys_info = info_of<of_keys::info_st>({{at_q, 8}, {at_k, 2}, {at_k, 2}, {dense_q, 8}, {dense_k, 2}}, c);
    launch(c, c.keys, [&] {
        using namespace of_keys;
        KEY_KERNEL((EIGHT *)q, (PAIR *)k, (PAIR *)v, (EIGHT *)grad.data(), logs.data(), alongs.data(), (PAIR *)found[1].data(), (PAIR *)found[2].data(), of_keys_info);
    });
    // As in `prepose selftest`.
    double allowed = std::is_same_v<NUMBER, __nv_bfloat16> ? 1e-2 : 2e-3, worst = 0;
    for (int which = 0; which < 3; which++) {
        double error = 0, largest = 0;
        for (size_t i = 0; i < want[which].size(); i++) {
            double off = fabs(double(float(found[which][i])) - want[which][i]);
            // NaN is no small error.
            if (!(off <= error)) error = off;
            largest = fmax(largest, fabs(want[which][i]));
        }
        if (!(error / largest <= worst)) worst = error / largest;
    }
    bool right = worst <= allowed;
    printf("| %s | %d, gradients | %d × %d × %d × %d%s | %.1e | %.0e |\n", right ? "ok" : "WRONG", WIDTH, c.batch, c.heads, c.queries, c.keys, c.joined ? ", joined" : "", worst, allowed);
    return right;
}

int main() {
    bool right = true;
    for (const Case &c : {Case{1, 1, 5, 9, false}, {1, 2, 130, 77, false}, {2, 3, 150, 200, false}, {2, 2, 200, 200, true}, {1, 1, 64, 64, true}}) right &= check(c);
    return right ? 0 : 1;
}
