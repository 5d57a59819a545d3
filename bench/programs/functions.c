/* Functions that run_functions.py calls on data of each lane's own; `main` only keeps them. */
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define SIZE 1024

uint8_t input[SIZE + 8];
uint8_t other[SIZE + 8];
uint8_t output[32];

/* CRC-32 as zlib has it, bit by bit. */
__attribute__((noinline)) uint32_t crc(const uint8_t *data, long size) {
    uint32_t c = ~0u;
    for (long i = 0; i < size; i++) {
        c ^= data[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
    }
    return ~c;
}

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* One round of SHA-256; names move, not values. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                       \
    do {                                                                                       \
        uint32_t x = w[((i) + 14) & 15], y = w[((i) + 1) & 15];                                \
        if (part)                                                                              \
            w[i] += (turn(x, 17) ^ turn(x, 19) ^ x >> 10) + w[((i) + 9) & 15] +                \
                    (turn(y, 7) ^ turn(y, 18) ^ y >> 3);                                       \
        h += (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i];    \
        d += h;                                                                                \
        h += (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));         \
    } while (0)
#define EIGHT(i)                                \
    do {                                        \
        ROUND(a, b, c, d, e, f, g, h, i);       \
        ROUND(h, a, b, c, d, e, f, g, (i) + 1); \
        ROUND(g, h, a, b, c, d, e, f, (i) + 2); \
        ROUND(f, g, h, a, b, c, d, e, (i) + 3); \
        ROUND(e, f, g, h, a, b, c, d, (i) + 4); \
        ROUND(d, e, f, g, h, a, b, c, (i) + 5); \
        ROUND(c, d, e, f, g, h, a, b, (i) + 6); \
        ROUND(b, c, d, e, f, g, h, a, (i) + 7); \
    } while (0)

/* SHA-256 of a message of whole blocks. */
__attribute__((noinline)) void sha256(const uint8_t *data, long size, const uint32_t *constants) {
    uint32_t s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (long at = 0; at <= size; at += 64) {
        uint32_t w[16] = {0};
        if (at < size)
            for (int i = 0; i < 16; i++) {
                uint32_t word;
                memcpy(&word, data + at + 4 * i, 4);
                w[i] = __builtin_bswap32(word);
            }
        else {
            w[0] = 0x80000000;
            w[15] = (uint32_t)size * 8;
        }
        uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
        for (int part = 0; part < 4; part++) {
            const uint32_t *k = constants + 16 * part;
            EIGHT(0);
            EIGHT(8);
        }
        s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
    }
    for (int i = 0; i < 8; i++)
        s[i] = __builtin_bswap32(s[i]);
    memcpy(output, s, sizeof s);
}

/* A quicksort with insertion sort at its ends: what it does depends on the data. */
__attribute__((noinline)) void sort(uint32_t *data, long count) {
    while (count > 8) {
        uint32_t pivot = data[count / 2];
        long i = 0, j = count - 1;
        for (;;) {
            while (data[i] < pivot)
                i++;
            while (data[j] > pivot)
                j--;
            if (i >= j)
                break;
            uint32_t x = data[i];
            data[i++] = data[j];
            data[j--] = x;
        }
        long left = j + 1;
        sort(data, left);
        data += left;
        count -= left;
    }
    for (long i = 1; i < count; i++) {
        uint32_t x = data[i];
        long j = i;
        for (; j > 0 && data[j - 1] > x; j--)
            data[j] = data[j - 1];
        data[j] = x;
    }
}

int main(int argc, char **argv) {
    static const uint32_t none[64];
    sha256(input, argc, none);
    sort((uint32_t *)input, argc / 9);
    return strcasecmp((char *)input, (char *)other) + (int)crc(input, argc) + (argv[0] == 0);
}
