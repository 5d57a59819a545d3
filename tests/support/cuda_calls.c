/* Does the system calls that its standard input asks for, and prints their results.
 *
 * An operation is seven words: number and six arguments. An argument whose top byte is 1 is an earlier
 * result (bits 55 to 48 say which) plus the low 48 bits, one whose top byte is 2 an address in `scratch`.
 */
typedef unsigned long word;

enum { LOAD = 1000, STORE = 1001, SPIN = 1002 };

static unsigned char scratch[1 << 16];
static word results[256];

static word call(word number, const word *a) {
    register word x8 __asm__("x8") = number;
    register word x0 __asm__("x0") = a[0];
    register word x1 __asm__("x1") = a[1];
    register word x2 __asm__("x2") = a[2];
    register word x3 __asm__("x3") = a[3];
    register word x4 __asm__("x4") = a[4];
    register word x5 __asm__("x5") = a[5];
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

static word decoded(word argument) {
    word low = (argument << 16) >> 16;
    if (argument >> 56 == 1)
        return results[argument >> 48 & 255] + low;
    if (argument >> 56 == 2)
        return (word)scratch + low;
    return argument;
}

static word done(const word *op, const word *a) {
    switch (op[0]) {
    case LOAD:
        return *(volatile unsigned char *)a[0];
    case STORE:
        *(volatile unsigned char *)a[0] = a[1];
        return 0;
    case SPIN:
        for (word i = 0; i < a[0]; i++)
            __asm__ volatile("");
        return 0;
    default:
        return call(op[0], a);
    }
}

void _start(void) {
    word op[7], a[6];
    for (int n = 0;; n++) {
        word get[6] = {0, (word)op, sizeof op};
        if (call(63, get) != sizeof op) {
            word end[6] = {n};
            call(94, end);
        }
        for (int i = 0; i < 6; i++)
            a[i] = decoded(op[1 + i]);
        results[n & 255] = done(op, a);
        word put[6] = {1, (word)&results[n & 255], 8};
        call(64, put);
    }
}
