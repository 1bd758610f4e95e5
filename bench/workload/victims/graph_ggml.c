//! A graph of ggml, the engine of llama.cpp and Ollama: 200 products of 64 x 64, one after the other.
//!
//! Weights are drawn, so no model is needed. The threads are ggml's own; they meet at `ggml_barrier` after each product,
//! which is a loop without a bound where ggml is built without OpenMP.

#include "victim.h"

#include "ggml-cpu.h"
#include "ggml.h"

enum { PRODUCTS = 200, SIDE = 64, WEIGHTS = 8 };

static struct ggml_cplan plan;
static struct ggml_cgraph *graph;
static struct ggml_tensor *result;

static uint32_t operate(void) {
    if (ggml_graph_compute(graph, &plan) != GGML_STATUS_SUCCESS)
        fail(1, "the graph was not computed");
    const float *values = ggml_get_data_f32(result);
    double squares = 0;
    for (int i = 0; i < SIDE * SIDE; i++)
        squares += (double)values[i] * values[i];
    if (!(squares > 1e-9 && squares < 1e12))
        fail(1, "the result is no number");
    return victim_checksum(values, SIDE * SIDE * sizeof *values);
}

/// Of mean 0 and variance 1/SIDE, so that products neither grow nor vanish.
static void draw(struct ggml_tensor *tensor) {
    static uint64_t state = 1;
    float *values = ggml_get_data_f32(tensor);
    for (int i = 0; i < SIDE * SIDE; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        values[i] = ((float)(state >> 40) / (1 << 24) - 0.5f) * sqrtf(12.0f / SIDE);
    }
}

int main(int argc, char **argv) {
    static const struct option_spec options[] = {VICTIM_OPTIONS, {0}};
    const struct option_spec *const tables[] = {options, NULL};
    options_parse(argc, argv, "A graph of 200 products by ggml.", tables);

    struct ggml_context *context = ggml_init((struct ggml_init_params){.mem_size = 64u << 20});
    struct ggml_tensor *weights[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++)
        draw(weights[i] = ggml_new_tensor_2d(context, GGML_TYPE_F32, SIDE, SIDE));
    draw(result = ggml_new_tensor_2d(context, GGML_TYPE_F32, SIDE, SIDE));
    for (int i = 0; i < PRODUCTS; i++)
        result = ggml_mul_mat(context, weights[i % WEIGHTS], result);
    graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, result);

    struct ggml_threadpool_params params = ggml_threadpool_params_default((int)victim_threads);
    struct ggml_threadpool *pool = ggml_threadpool_new(&params);
    plan = ggml_graph_plan(graph, (int)victim_threads, pool);
    if (plan.work_size && !(plan.work_data = malloc(plan.work_size)))
        fail(1, "no memory");
    victim_run(operate, victim_cpu);
    ggml_threadpool_free(pool);
    free(plan.work_data);
    ggml_free(context);
    return 0;
}
