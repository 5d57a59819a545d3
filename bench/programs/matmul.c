/* Product of double-precision matrices, row by row: vectors of two, fused. */
#include "program.h"

enum { N = 64 };
static double a[N][N], b[N][N], c[N][N];

__attribute__((noinline)) static void multiply(void) {
    for (int i = 0; i < N; i++) {
        double row[N];
        for (int j = 0; j < N; j++)
            row[j] = a[i][0] * b[0][j];
        for (int k = 1; k < N; k++)
            for (int j = 0; j < N; j++)
                row[j] += a[i][k] * b[k][j];
        for (int j = 0; j < N; j++)
            c[i][j] = row[j];
    }
}

int main(int argc, char **argv) {
    uint64_t times = argc > 1 ? scale(argv[1]) : 1, seed = 1, sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = next(&seed) - 0.5;
            b[i][j] = next(&seed) - 0.5;
        }
    for (uint64_t t = 0; t < times; t++) {
        multiply();
        a[t % N][t / N % N] = c[t / N % N][t % N] / 8;
        for (int i = 0; i < N; i++) {
            uint64_t bits;
            __builtin_memcpy(&bits, &c[i][(i + t) % N], sizeof bits);
            sum = mix(sum, bits);
        }
    }
    report("matmul", sum);
    return 0;
}
