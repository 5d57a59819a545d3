/* Advice on memory of all kinds, memory that is locked, and what the limits on memory refuse. */
#include "probe.h"
#include <sys/mman.h>
#include <sys/resource.h>

#define PAGE 4096L
#define MIB (1L << 20)
#define RW (PROT_READ | PROT_WRITE)
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
#define NOWHERE ((void *)0x10000)
#define KERNEL ((void *)-PAGE)
#define MAP(...) ASK(#__VA_ARGS__, map(__VA_ARGS__))
#define MOVE(...) ASK(#__VA_ARGS__, move(__VA_ARGS__))

static int map(size_t length, int prot, int flags) {
    return mmap(0, length, prot, flags, -1, 0) == MAP_FAILED ? -1 : 0;
}

static int move(void *old, size_t length, size_t now, int flags) {
    return mremap(old, length, now, flags, 0) == MAP_FAILED ? -1 : 0;
}

static void all_advice(void) {
    char *p = mmap(0, 16 * PAGE, RW, ANONYMOUS, -1, 0), *shared = mmap(0, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *locked = mmap(0, PAGE, RW, ANONYMOUS, -1, 0);
    int file = open("file", O_RDWR), reads = open("file", O_RDONLY);
    char *private_file = mmap(0, 4 * PAGE, RW, MAP_PRIVATE, file, 0);
    char *shared_file = mmap(0, 4 * PAGE, RW, MAP_SHARED, file, 0);
    char *read_file = mmap(0, PAGE, PROT_READ, MAP_SHARED, reads, 0);
    munmap(p + 12 * PAGE, PAGE);
    mprotect(p + 14 * PAGE, PAGE, PROT_NONE);
    mlock(locked, PAGE);
    const struct {
        const char *name;
        char *at;
        long length;
    } ranges[] = {
        {"private memory", p, PAGE},
        {"a hole", p + 11 * PAGE, 3 * PAGE},
        {"no permissions", p + 14 * PAGE, PAGE},
        {"shared memory", shared, PAGE},
        {"a private file", private_file, PAGE},
        {"a shared file", shared_file, PAGE},
        {"past the end of a file", private_file, 4 * PAGE},
        {"a file that is only read", read_file, PAGE},
        {"locked memory", locked, PAGE},
        {"nothing", p, 0},
        {"inside a page", p + 1, PAGE},
        {"past the end of all", p, -PAGE},
        {"nowhere", NOWHERE, PAGE},
        {"nothing nowhere", NOWHERE, 0},
        {"the kernel", KERNEL, PAGE},
    };
    for (int advice = -1; advice < 28; advice++)
        for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++) {
            char question[100];
            snprintf(question, sizeof question, "advice %d on %s", advice, ranges[i].name);
            ASK(question, madvise(ranges[i].at, ranges[i].length, advice));
        }
}

static void what_is_dropped(void) {
    char *kinds[] = {
        mmap(0, 2 * PAGE, RW, ANONYMOUS, -1, 0),
        mmap(0, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
        mmap(0, PAGE, RW, MAP_PRIVATE, open("file", O_RDWR), 0),
        mmap(0, PAGE, RW, MAP_SHARED, open("file", O_RDWR), 0),
    };
    const char *names[] = {"private memory", "shared memory", "a private file", "a shared file"};
    for (int i = 0; i < 4; i++) {
        kinds[i][0] = 'x';
        TRY(madvise(kinds[i], PAGE, MADV_DONTNEED));
        SAY("dropped", "%s: %d", names[i], kinds[i][0]);
    }
    TRY(madvise(kinds[1], PAGE, MADV_REMOVE));
    SAY("removed", "%d", kinds[1][0]);
    kinds[0][0] = 'y';
    TRY(madvise(kinds[0], PAGE, MADV_PAGEOUT));
    SAY("paged out", "%d", kinds[0][0]);
    munmap(kinds[0] + PAGE, PAGE);
    TRY(madvise(kinds[0], 2 * PAGE, MADV_DONTNEED));
    SAY("before a hole", "%d", kinds[0][0]);
}

static void locking(void) {
    char *p = mmap(0, 8 * PAGE, RW, ANONYMOUS, -1, 0);
    char *file = mmap(0, 4 * PAGE, RW, MAP_PRIVATE, open("file", O_RDWR), 0);
    munmap(p + 4 * PAGE, PAGE);
    mprotect(p + 6 * PAGE, PAGE, PROT_NONE);
    TRY(mlock(p + 1, 1));
    TRY(mlock(p, 6 * PAGE));
    TRY(mlock(NOWHERE, 0));
    TRY(mlock(NOWHERE, PAGE));
    TRY(mlock(p, -PAGE));
    TRY(mlock(p + 6 * PAGE, PAGE));
    TRY(mlock(file, 3 * PAGE));
    TRY(munlock(p, PAGE));
    TRY(munlock(p, 6 * PAGE));
    TRY(munlock(p, -PAGE));
    TRY(munlock(NOWHERE, PAGE));
    TRY(mlock2(p, PAGE, 2));
    TRY(mlock2(p, PAGE, MLOCK_ONFAULT));
    TRY(mlock2(p + 6 * PAGE, PAGE, MLOCK_ONFAULT));
    TRY(mlockall(0));
    TRY(mlockall(9));
    TRY(mlockall(MCL_ONFAULT));
    TRY(mlock(p, PAGE));
    TRY(msync(p, PAGE, MS_INVALIDATE));
    TRY(munlockall());
    TRY(msync(p, PAGE, MS_INVALIDATE));
    struct rlimit limit = {2 * PAGE, 2 * PAGE};
    TRY(setrlimit(RLIMIT_MEMLOCK, &limit));
    TRY(mlock(p, 3 * PAGE));
    TRY(mlock(p, 2 * PAGE));
    TRY(mlock(p, 2 * PAGE));
    TRY(mlock(p + 2 * PAGE, PAGE));
    MAP(PAGE, RW, ANONYMOUS | MAP_LOCKED);
    MOVE(p, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    TRY(munlockall());
    MAP(2 * PAGE, RW, ANONYMOUS | MAP_LOCKED);
    TRY(mlockall(MCL_CURRENT));
    TRY(mlockall(MCL_FUTURE));
    MAP(3 * PAGE, RW, ANONYMOUS);
    ASK("a larger heap", sbrk(5 * PAGE) == (void *)-1 ? -1 : 0);
    TRY(munlockall());
    ASK("a larger heap", sbrk(5 * PAGE) == (void *)-1 ? -1 : 0);
    limit.rlim_cur = 0;
    TRY(setrlimit(RLIMIT_MEMLOCK, &limit));
    TRY(mlock(p, PAGE));
    TRY(mlock(p, 0));
    TRY(mlockall(MCL_FUTURE));
    TRY(mlockall(0));
    MAP(PAGE, RW, ANONYMOUS | MAP_LOCKED);
    MAP(PAGE, RW, MAP_ANONYMOUS | MAP_LOCKED);
    TRY(munlock(p, PAGE));
}

static void limits(void) {
    struct rlimit data = {64 * MIB, RLIM_INFINITY}, all = {512 * MIB, RLIM_INFINITY};
    char *heap = sbrk(0), *none = mmap(0, 128 * MIB, PROT_NONE, ANONYMOUS, -1, 0);
    TRY(setrlimit(RLIMIT_DATA, &data));
    MAP(128 * MIB, RW, ANONYMOUS);
    MAP(128 * MIB, PROT_READ, ANONYMOUS);
    MAP(128 * MIB, RW, ANONYMOUS | MAP_SHARED);
    TRY(mprotect(none, 128 * MIB, RW));
    TRY(mprotect(none, 128 * MIB, PROT_READ));
    MOVE(mmap(0, PAGE, RW, ANONYMOUS, -1, 0), PAGE, 128 * MIB, MREMAP_MAYMOVE);
    TRY(brk(heap + 128 * MIB));
    MAP(MIB, RW, ANONYMOUS);
    TRY(setrlimit(RLIMIT_AS, &all));
    MAP(512 * MIB, PROT_NONE, ANONYMOUS);
    ASK("over itself", mmap(none, 128 * MIB, PROT_NONE, ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ? -1 : 0);
    MOVE(none, 128 * MIB, 512 * MIB, MREMAP_MAYMOVE);
    MOVE(none, 128 * MIB, PAGE, 0);
    MAP(PAGE, RW, ANONYMOUS);
}

int main(void) {
    put("file", "");
    TRY(truncate("file", PAGE + 100));
    TRY(chmod("file", 0666));
    /* root may lock what it likes */
    if (getuid() == 0 && setresuid(65534, 65534, 65534))
        errno = 0;
    all_advice();
    what_is_dropped();
    locking();
    limits();
    return 0;
}
