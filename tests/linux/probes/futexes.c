/* Futexes that no other thread touches: what is compared, what is changed, limits, and bad arguments. */
#include "probe.h"
#include <time.h>

#define BAD ((void *)8)
#define PRIVATE 128
#define REAL 256
enum { WAIT, WAKE, FD, REQUEUE, CMP_REQUEUE, WAKE_OP, LOCK_PI, UNLOCK_PI, TRYLOCK_PI, WAIT_BITSET, WAKE_BITSET,
       WAIT_REQUEUE_PI, CMP_REQUEUE_PI, LOCK_PI2 };

static unsigned first, second;
static struct timespec soon = {0, 1000}, odd = {0, -1};

static long futex(void *word, int operation, int value, void *limit, void *other, unsigned last) {
    return syscall(SYS_futex, word, operation, value, limit, other, last);
}

/* The result of a call that begins with these two words, and the words after it. */
#define CHANGES(one, two, call) (first = one, second = two, TRY(call), show())

static void show(void) {
    int me = getpid();
    SAY("words", "%x%s %x", (int)(first & 0x3fffffff) == me ? first & ~0x3fffffff : first,
        (int)(first & 0x3fffffff) == me ? " own" : "", second);
}

static void waits(void) {
    void *unaligned = (char *)&first + 1;
    first = 1;
    TRY(futex(&first, WAIT, 2, 0, 0, 0));
    TRY(futex(&first, WAIT, 1, &soon, 0, 0));
    TRY(futex(&first, WAIT | PRIVATE, 1, &soon, 0, 0));
    TRY(futex(&first, WAIT, 2, &odd, 0, 0));
    TRY(futex(&first, WAIT, 2, BAD, 0, 0));
    TRY(futex(unaligned, WAIT, 1, &soon, 0, 0));
    TRY(futex(0, WAIT, 1, &soon, 0, 0));
    TRY(futex(BAD, WAIT, 1, &soon, 0, 0));
    TRY(futex(&first, WAIT_BITSET, 1, &soon, 0, 0));
    TRY(futex(&first, WAIT_BITSET, 1, &soon, 0, 1));
    TRY(futex(&first, WAIT_BITSET | REAL, 1, &soon, 0, -1));
    TRY(futex(&first, WAIT_BITSET, 2, &soon, 0, -1));
    TRY(futex(&first, WAIT_REQUEUE_PI, 1, &soon, &first, 0));
    TRY(futex(&first, WAIT_REQUEUE_PI, 1, &soon, &second, 0));
    TRY(futex(&first, WAIT | REAL, 2, 0, 0, 0));
    TRY(futex(&first, WAKE | REAL, 2, 0, 0, 0));
    TRY(futex(&first, LOCK_PI | REAL, 2, 0, 0, 0));
    TRY(futex(&first, REQUEUE | REAL, 1, 0, &second, 0));
    TRY(futex(&first, FD, 1, 0, 0, 0));
    TRY(futex(&first, 14, 1, 0, 0, 0));
    TRY(futex(&first, 99, 1, 0, 0, 0));
    TRY(futex(&first, -1, 1, 0, 0, 0));
}

static void wakes(void) {
    void *unaligned = (char *)&first + 1;
    first = 1;
    TRY(futex(0, WAKE, 1, 0, 0, 0));
    TRY(futex(0, WAKE | PRIVATE, 1, 0, 0, 0));
    TRY(futex(BAD, WAKE, 1, 0, 0, 0));
    TRY(futex(BAD, WAKE | PRIVATE, 1, 0, 0, 0));
    TRY(futex(unaligned, WAKE, 1, 0, 0, 0));
    TRY(futex(&first, WAKE, -1, 0, 0, 0));
    TRY(futex(&first, WAKE_BITSET, 1, 0, 0, 0));
    TRY(futex(&first, WAKE_BITSET, 1, 0, 0, -1));
    TRY(futex(&first, REQUEUE, 1, (void *)1, &second, 0));
    TRY(futex(&first, REQUEUE, -1, (void *)1, &second, 0));
    TRY(futex(&first, REQUEUE, 1, (void *)-1, &second, 0));
    TRY(futex(&first, REQUEUE, 1, (void *)1, BAD, 0));
    TRY(futex(&first, REQUEUE, 1, (void *)1, &first, 0));
    TRY(futex(&first, CMP_REQUEUE, 1, (void *)1, &second, 9));
    TRY(futex(&first, CMP_REQUEUE, 1, (void *)1, &second, 1));
    TRY(futex(&first, CMP_REQUEUE, 1, (void *)1, unaligned, 1));
    TRY(futex(&first, CMP_REQUEUE_PI, 1, (void *)1, &second, 1));
    TRY(futex(&first, CMP_REQUEUE_PI, 2, (void *)1, &second, 1));
    TRY(futex(&first, CMP_REQUEUE_PI, 1, (void *)1, &second, 9));
}

static void operations(void) {
    for (unsigned code = 0; code < 6; code++)
        for (unsigned comparison = 0; comparison < 7; comparison++)
            CHANGES(0, 5, futex(&first, WAKE_OP, 1, (void *)1, &second, code << 28 | comparison << 24 | 3 << 12 | 5));
    CHANGES(0, 5, futex(&first, WAKE_OP, 1, (void *)1, &second, 9u << 28 | 3 << 12));
    CHANGES(0, 5, futex(&first, WAKE_OP, 1, (void *)1, &second, 9u << 28 | 40 << 12));
    CHANGES(0, 5, futex(&first, WAKE_OP, 1, (void *)1, &second, 1u << 28 | 0xfff << 12));
    CHANGES(0, 5, futex(&first, WAKE_OP, 1, (void *)1, BAD, 0));
    CHANGES(0, 5, futex(&first, WAKE_OP, 1, (void *)1, (char *)&second + 1, 0));
}

static void locks(void) {
    int me = getpid();
    CHANGES(0, 0, futex(&first, LOCK_PI, 0, 0, 0, 0));
    CHANGES(0, 0, futex(&first, LOCK_PI2, 0, 0, 0, 0));
    CHANGES(0, 0, futex(&first, TRYLOCK_PI, 0, 0, 0, 0));
    CHANGES(0x40000000, 0, futex(&first, LOCK_PI, 0, 0, 0, 0));
    CHANGES(0x80000000, 0, futex(&first, LOCK_PI, 0, 0, 0, 0));
    CHANGES(me, 0, futex(&first, LOCK_PI, 0, 0, 0, 0));
    CHANGES(me, 0, futex(&first, TRYLOCK_PI, 0, 0, 0, 0));
    CHANGES(999999, 0, futex(&first, LOCK_PI, 0, 0, 0, 0));
    CHANGES(999999, 0, futex(&first, TRYLOCK_PI, 0, 0, 0, 0));
    CHANGES(me, 0, futex(&first, UNLOCK_PI, 0, 0, 0, 0));
    CHANGES(0, 0, futex(&first, UNLOCK_PI, 0, 0, 0, 0));
    CHANGES(999999, 0, futex(&first, UNLOCK_PI, 0, 0, 0, 0));
    CHANGES(0, 0, futex(&first, LOCK_PI, 0, &odd, 0, 0));
    CHANGES(0, 0, futex(BAD, LOCK_PI, 0, 0, 0, 0));
    CHANGES(0, 0, futex((char *)&first + 1, LOCK_PI, 0, 0, 0, 0));
}

static long set_robust_list(void *head, long length) { return syscall(SYS_set_robust_list, head, length); }

static long get_robust_list(int pid, void *head, void *length) {
    return syscall(SYS_get_robust_list, pid, head, length);
}

static void robust_list(void) {
    static char list[24];
    void *head = 0;
    size_t length = 0;
    TRY(set_robust_list(list, 24));
    TRY(set_robust_list(0, 8));
    TRY(get_robust_list(0, &head, &length));
    SAY("the list", "%d %zd", head == list, length);
    TRY(get_robust_list(getpid(), &head, &length));
    TRY(get_robust_list(999999, &head, &length));
    TRY(get_robust_list(-1, &head, &length));
    TRY(get_robust_list(0, BAD, &length));
    TRY(get_robust_list(0, &head, BAD));
}

int main(void) {
    waits(), wakes(), operations(), locks(), robust_list();
    return 0;
}
