/* What the benchmark programs share. Each takes a scale and prints its name and one checksum.
 * With -DNOLIBC a program needs no C library, and only the system calls write and exit_group. */
#include <stdint.h>

#ifdef NOLIBC

enum { WRITE = 64, EXIT_GROUP = 94 };

static long call(long number, long a, long b, long c) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

static uint64_t scale(const char *text) {
    uint64_t value = 0;
    for (; *text; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

static void report(const char *name, uint64_t checksum) {
    char line[80];
    long at = 0;
    while (*name)
        line[at++] = *name++;
    line[at++] = ' ';
    for (int shift = 60; shift >= 0; shift -= 4)
        line[at++] = "0123456789abcdef"[checksum >> shift & 15];
    line[at++] = '\n';
    call(WRITE, 1, (long)line, at);
}

int main(int argc, char **argv);

__attribute__((used)) void start(long *stack) {
    call(EXIT_GROUP, main((int)stack[0], (char **)(stack + 1)), 0, 0);
    __builtin_unreachable();
}

__asm__(".globl _start\n_start: mov x29, #0\n mov x30, #0\n mov x0, sp\n bl start\n");

#else

#include <stdio.h>
#include <stdlib.h>

static uint64_t scale(const char *text) { return strtoull(text, NULL, 10); }

static void report(const char *name, uint64_t checksum) {
    printf("%s %016llx\n", name, (unsigned long long)checksum);
}

#endif

/* A step of the checksum. */
static uint64_t mix(uint64_t sum, uint64_t value) {
    sum = (sum ^ value) * 0x100000001b3;
    return sum ^ sum >> 29;
}

/* The next number of a sequence, in [0, 1). */
static double next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005 + 1442695040888963407;
    return (double)(*seed >> 40) / (double)(1 << 24);
}
