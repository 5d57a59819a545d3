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

/* SHA-256 of a message of whole blocks. */
__attribute__((noinline)) void sha256(const uint8_t *data, long size, const uint32_t *constants) {
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (long at = 0; at <= size; at += 64) {
        uint32_t w[64], s[8];
        for (int i = 0; i < 16; i++) {
            w[i] = 0;
            if (at < size) {
                uint32_t word;
                memcpy(&word, data + at + 4 * i, 4);
                w[i] = __builtin_bswap32(word);
            }
        }
        if (at == size) {
            w[0] = 0x80000000;
            w[15] = (uint32_t)size * 8;
        }
        for (int i = 16; i < 64; i++)
            w[i] = (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10) + w[i - 7] +
                   (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 16];
        memcpy(s, h, sizeof s);
        for (int i = 0; i < 64; i++) {
            uint32_t a = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) +
                         constants[i] + w[i];
            uint32_t b = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            s[7] = s[6], s[6] = s[5], s[5] = s[4], s[4] = s[3] + a, s[3] = s[2], s[2] = s[1], s[1] = s[0], s[0] = a + b;
        }
        for (int i = 0; i < 8; i++)
            h[i] += s[i];
    }
    for (int i = 0; i < 8; i++)
        h[i] = __builtin_bswap32(h[i]);
    memcpy(output, h, sizeof h);
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
