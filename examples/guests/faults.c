/* usage: faults KIND: does one thing that no program may do; every kind ends in a stop of its own. */
#include "start.h"

static const uint32_t constant = 1;

static int overflow_stack(volatile char *above, uint64_t depth)
{
    volatile char frame[4096];
    frame[0] = above[0];
    return depth ? overflow_stack(frame, depth - 1) + frame[0] : 0;
}

static int same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "null";
    char byte = 0;
    print("about to do: ");
    print(kind);
    print("\n");
    if (same(kind, "null"))
        *(volatile int *)0 = 1;
    else if (same(kind, "read"))
        return *(volatile int *)0x123456789000;
    else if (same(kind, "constant"))
        *(volatile uint32_t *)&constant = 2;
    else if (same(kind, "jump"))
        ((void (*)(void))0x123456789000)();
    else if (same(kind, "stack"))
        return overflow_stack(&byte, UINT64_MAX);
    else if (same(kind, "undefined"))
        __asm__ volatile("udf #0");
    else if (same(kind, "break"))
        __asm__ volatile("brk #1");
    else if (same(kind, "abort"))
        system_call(129, system_call(172, 0, 0, 0), 6, 0); /* kill(getpid(), SIGABRT) */
    else if (same(kind, "loop"))
        for (;;)
            __asm__ volatile("");
    print("unknown kind\n");
    return 2;
}
