/* usage: mandelbrot [columns [limit]]: the Mandelbrot set in text, in 64-bit fixed point with 28 fraction bits. */
#include "start.h"

#define FRACTION 28
#define ONE ((int64_t)1 << FRACTION)
#define PALETTE " .,:;i+*oaxOX%#@"

static int64_t multiply(int64_t a, int64_t b)
{
    return (a * b) >> FRACTION;
}

static int steps_to_escape(int64_t cx, int64_t cy, int limit)
{
    int64_t x = 0, y = 0;
    for (int n = 0; n < limit; n++) {
        int64_t xx = multiply(x, x), yy = multiply(y, y);
        if (xx + yy > 4 * ONE)
            return n;
        y = 2 * multiply(x, y) + cy;
        x = xx - yy + cx;
    }
    return limit;
}

static char shade(int steps, int limit)
{
    const int shades = sizeof PALETTE - 2;
    if (steps == limit)
        return PALETTE[shades];
    return PALETTE[steps < shades ? steps : shades - 1];
}

int main(int argc, char **argv)
{
    int columns = argc > 1 ? (int)parse_number(argv[1]) : 76;
    int limit = argc > 2 ? (int)parse_number(argv[2]) : 1000;
    char line[512];
    if (columns < 8 || columns > 500 || limit < 1) {
        print("usage: mandelbrot [columns (8 to 500) [limit]]\n");
        return 2;
    }
    int rows = columns * 2 / 5;
    for (int row = 0; row < rows; row++) {
        int64_t cy = (2 * row - rows + 1) * (5 * ONE / 4) / rows;
        for (int column = 0; column < columns; column++) {
            int64_t cx = column * 3 * ONE / columns - 9 * ONE / 4;
            line[column] = shade(steps_to_escape(cx, cy, limit), limit);
        }
        line[columns] = '\n';
        write_some(STDOUT, line, (size_t)columns + 1);
    }
    return 0;
}
