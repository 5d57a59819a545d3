/* usage: primes [limit]: counts the primes below the limit (1,000,000) with a sieve and prints the largest. */
#include "start.h"

#define MOST 16000000

static unsigned char composite[MOST];

int main(int argc, char **argv)
{
    int64_t limit = argc > 1 ? parse_number(argv[1]) : 1000000;
    int64_t count = 0, largest = 0;
    if (limit > MOST)
        limit = MOST;
    for (int64_t n = 2; n < limit; n++) {
        if (composite[n])
            continue;
        count++;
        largest = n;
        for (int64_t multiple = n * n; multiple < limit; multiple += n)
            composite[multiple] = 1;
    }
    print_number(count);
    print(" primes below ");
    print_number(limit);
    print(", the largest is ");
    print_number(largest);
    print("\n");
    return 0;
}
