/* Single-precision y = a * x + y over arrays that fit a first-level cache: vectors of four, fused. */
#include "program.h"

enum { N = 4096 };
static float x[N], y[N];

__attribute__((noinline)) static void saxpy(float a) {
    for (int i = 0; i < N; i++)
        y[i] = a * x[i] + y[i];
}

int main(int argc, char **argv) {
    uint64_t times = argc > 1 ? scale(argv[1]) : 1, seed = 1, sum = 0;
    for (int i = 0; i < N; i++) {
        x[i] = (float)next(&seed);
        y[i] = (float)next(&seed);
    }
    for (uint64_t t = 0; t < times; t++)
        saxpy(t & 1 ? -0.75f : 0.7f);
    for (int i = 0; i < N; i++) {
        uint32_t bits;
        __builtin_memcpy(&bits, &y[i], sizeof bits);
        sum = mix(sum, bits);
    }
    report("saxpy", sum);
    return 0;
}
