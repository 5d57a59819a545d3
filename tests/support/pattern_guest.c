/* A program with library functions of its own, for the tests of patterns. What it does is its first argument. */

typedef unsigned long size_t;

static long call(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

__attribute__((noinline)) size_t strlen(const char *s)
{
    size_t n = 0;
    while (s[n])
        n++;
    return n;
}

__attribute__((noinline)) void *memcpy(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

__attribute__((noinline)) void *memset(void *to, int c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)to)[i] = (char)c;
    return to;
}

__attribute__((noinline)) int memcmp(const void *one, const void *other, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)one)[i] != ((const unsigned char *)other)[i])
            return ((const unsigned char *)one)[i] - ((const unsigned char *)other)[i];
    return 0;
}

__attribute__((noinline)) char *strchr(const char *s, int c)
{
    for (;; s++) {
        if (*s == (char)c)
            return (char *)s;
        if (!*s)
            return 0;
    }
}

/* Looks like strlen, and is not. */
__attribute__((noinline)) size_t words(const char *s)
{
    size_t n = 0;
    while (s[n] > ' ')
        n++;
    return n;
}

static char buffer[70000];

static void say(const char *s)
{
    call(64, 1, (long)s, (long)strlen(s));
}

void work(char **argv)
{
    char *what = argv[1];
    for (int i = 0; i < 50; i++) {
        memset(buffer + 13 * i, 'a' + i % 26, 1000);
        memcpy(buffer + 40000 + 7 * i, buffer + 13 * i, 900);
    }
    buffer[60000] = '\n';
    memcpy(buffer + 20001, buffer + 20000 - 900, 5000); /* forwards over itself: what it does is its own matter */
    say(buffer + 40000);
    say("\n");
    say(strchr(what, what[0]));
    if (what[0] == 'n')
        call(93, (long)strlen((const char *)8), 0, 0);
    if (what[0] == 'c')
        memcpy((char *)work, buffer, 16);
    if (what[0] == 'e')
        memset(buffer, 0, 1ul << 20);
    call(93, memcmp(buffer, buffer + 40000, 99) + (int)words("two words"), 0, 0);
}

__asm__(".globl _start\n_start: mov x29, #0\n add x0, sp, #8\n bl work\n");
