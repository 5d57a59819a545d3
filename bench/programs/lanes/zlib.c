/* Compresses standard input at the level that its first byte gives, expands it again, and compares. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static Bytef input[1 << 16];

int main(void) {
    uLong size = fread(input, 1, sizeof input, stdin);
    uLongf packed_size = compressBound(size), expanded_size = size;
    Bytef *packed = malloc(packed_size), *expanded = malloc(size + 1);
    int level = 1 + input[0] % 9;
    if (compress2(packed, &packed_size, input, size, level) != Z_OK ||
        uncompress(expanded, &expanded_size, packed, packed_size) != Z_OK || expanded_size != size ||
        memcmp(input, expanded, size)) {
        puts("error");
        return 1;
    }
    printf("level %d: %lu to %lu bytes, crc32 %08lx, adler32 %08lx\n", level, size, packed_size,
           crc32(0, packed, packed_size), adler32(1, expanded, expanded_size));
    free(packed);
    free(expanded);
    return 0;
}
