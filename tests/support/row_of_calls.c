/* Makes all system calls of its standard input, one after another, then writes their results and its memory.
 *
 * The input is their number, then seven words each: number of the call and six arguments, then data. An
 * argument whose top byte is 2 is an address in `scratch`, one whose top byte is 3 an offset in the input.
 */
typedef unsigned long word;

static word input[1 << 15], results[4096];
static unsigned char scratch[3 << 15] __attribute__((aligned(4096)));

static word call(const word *a) {
    register word x8 __asm__("x8") = a[0];
    register word x0 __asm__("x0") = a[1];
    register word x1 __asm__("x1") = a[2];
    register word x2 __asm__("x2") = a[3];
    register word x3 __asm__("x3") = a[4];
    register word x4 __asm__("x4") = a[5];
    register word x5 __asm__("x5") = a[6];
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

static word decoded(word argument) {
    word low = argument & 0xFFFFFFFF;
    return argument >> 56 == 2 ? (word)scratch + low : argument >> 56 == 3 ? (word)input + low : argument;
}

void _start(void) {
    word get[7] = {63, 0, (word)input, sizeof input}, end[7] = {94};
    call(get);
    for (word i = 0; i < sizeof scratch; i += 8)
        *(word *)(scratch + i) = i * 0x9E3779B97F4A7C15;
    word count = input[0];
    for (word i = 0; i < count; i++) {
        word a[7] = {input[1 + 7 * i]};
        for (int k = 1; k < 7; k++)
            a[k] = decoded(input[1 + 7 * i + k]);
        results[i] = call(a);
    }
    word put[7] = {64, 1, (word)results, 8 * count}, show[7] = {64, 1, (word)scratch, sizeof scratch};
    call(put);
    call(show);
    call(end);
}
