/* Memory: ranges that are not mapped, bad flags, alignment, zero lengths and the ends of the address space. */
#include "probe.h"
#include <sys/mman.h>

#define PAGE 4096L
#define RW (PROT_READ | PROT_WRITE)
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
#define NOWHERE ((void *)0x10000)
#define KERNEL ((void *)-PAGE)
#define MAP(...) ASK(#__VA_ARGS__, map(__VA_ARGS__))
#define MOVE(...) ASK(#__VA_ARGS__, move(__VA_ARGS__))

/* Whether there is a mapping; what is made for a question stays. */
static int map(void *at, size_t length, int prot, int flags, int fd, off_t offset) {
    return mmap(at, length, prot, flags, fd, offset) == MAP_FAILED ? -1 : 0;
}

static int move(void *old, size_t length, size_t now, int flags, void *target) {
    return mremap(old, length, now, flags, target) == MAP_FAILED ? -1 : 0;
}

/* Pages of their own, with room around them. */
static char *area(int pages) {
    char *place = mmap(0, (pages + 2) * PAGE, PROT_NONE, ANONYMOUS, -1, 0);
    munmap(place, (pages + 2) * PAGE);
    return mmap(place + PAGE, pages * PAGE, RW, ANONYMOUS | MAP_FIXED, -1, 0);
}

/* Which of some pages can be read, as a row of digits. */
static const char *seen(char *start, int pages) {
    static char row[64];
    int fd = memfd_create("seen", 0);
    for (int i = 0; i < pages; i++)
        row[i] = write(fd, start + i * PAGE, 1) == 1 ? '1' : '0';
    row[pages] = 0;
    close(fd);
    return row;
}

static void unmapping(void) {
    char *p = area(4);
    TRY(munmap(p + 1, PAGE));
    TRY(munmap(p, 0));
    TRY(munmap(p, -PAGE));
    TRY(munmap(KERNEL, PAGE));
    TRY(munmap(p + 3 * PAGE, 1));
    TRY(munmap(p + 3 * PAGE, PAGE));
    SAY("left", "%s", seen(p, 4));
}

static void protecting(void) {
    char *p = area(14);
    munmap(p + 13 * PAGE, PAGE);
    TRY(mprotect(p + 1, PAGE, PROT_READ));
    TRY(mprotect(p, 0, PROT_READ));
    TRY(mprotect(NOWHERE, 0, PROT_READ));
    TRY(mprotect(NOWHERE, PAGE, PROT_READ));
    TRY(mprotect(p, 0, 0x100));
    TRY(mprotect(p, PAGE, 0x100));
    TRY(mprotect(p + 1, PAGE, 0x100));
    TRY(mprotect(NOWHERE, PAGE, 0x100));
    TRY(mprotect(p, -PAGE, 0x100));
    TRY(mprotect(p, PAGE, RW | 8));
    TRY(mprotect(p, PAGE, RW | PROT_GROWSDOWN));
    TRY(mprotect(p, PAGE, RW | PROT_GROWSUP));
    TRY(mprotect(p + 1, PAGE, RW | PROT_GROWSDOWN | PROT_GROWSUP));
    TRY(mprotect((void *)((long)&p & -PAGE), PAGE, RW | PROT_GROWSDOWN));
    TRY(mprotect(p + 12 * PAGE, 2 * PAGE, PROT_NONE));
    SAY("before the hole it has changed", "%s", seen(p + 10 * PAGE, 4));
    TRY(mprotect(p, -PAGE, PROT_READ));
    TRY(mprotect(KERNEL, PAGE, PROT_READ));
    char *writable = mmap(0, PAGE, PROT_WRITE, ANONYMOUS, -1, 0);
    SAY("what can be written can be read", "%s", seen(writable, 1));
}

static int file, reads, writes;

static void mapping(void) {
    char *p = area(2);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE, -1, 1);
    MAP(0, 0, PROT_READ, MAP_PRIVATE, -1, 0);
    MAP(0, 0, PROT_READ, MAP_ANONYMOUS, -1, 0);
    MAP(0, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0);
    MAP(0, PAGE, PROT_READ, MAP_ANONYMOUS | MAP_SHARED_VALIDATE, -1, 0);
    MAP(0, PAGE, PROT_READ, MAP_ANONYMOUS | 4, -1, 0);
    MAP(0, PAGE, PROT_READ, 4, file, 0);
    MAP(0, PAGE, PROT_READ, 0, writes, 0);
    MAP(0, 1L << 60, PROT_READ, MAP_ANONYMOUS, -1, 0);
    MAP((void *)1, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED, -1, 0);
    MAP(0, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED, -1, 0);
    MAP(0, PAGE, PROT_READ, MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    MAP(p, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    MAP(p, PAGE, PROT_READ, MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    MAP(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, writes, 0);
    MAP(KERNEL, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED, -1, 0);
    MAP(0, -1L, PROT_READ, ANONYMOUS, -1, 0);
    MAP(0, PAGE, 0xff00, ANONYMOUS, -1, 0);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE, file, -PAGE);
    MAP(0, 2 * PAGE, PROT_READ, MAP_PRIVATE, file, -PAGE);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE, file, 1L << 62);
    MAP(0, PAGE, RW, MAP_SHARED, reads, 0);
    MAP(0, PAGE, PROT_WRITE, MAP_SHARED, writes, 0);
    MAP(0, PAGE, PROT_WRITE, MAP_PRIVATE, writes, 0);
    MAP(0, PAGE, RW, MAP_PRIVATE, reads, 0);
    MAP(0, PAGE, PROT_READ, MAP_SHARED_VALIDATE | 0x80000, file, 0);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE, open("/", O_RDONLY), 0);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE, open("/proc/self/maps", O_RDONLY), 0);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE, open("/dev/null", O_RDWR), 0);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE, open("/dev/zero", O_RDWR), 0);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE, open("file", O_PATH), 0);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_HUGETLB, file, 0);
    MAP(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_GROWSDOWN, file, 0);
    MAP(0, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    MAP(0, PAGE, PROT_READ, ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    TRY(mprotect(mmap(0, PAGE, PROT_READ, MAP_SHARED, reads, 0), PAGE, RW));
    TRY(mprotect(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, reads, 0), PAGE, RW));
    TRY(mprotect(mmap(0, PAGE, PROT_READ, MAP_SHARED, file, 0), PAGE, RW));
}

static void moving(void) {
    char *p = area(16), *to = area(16), *shared = mmap(0, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    munmap(p + 8 * PAGE, PAGE);
    mprotect(p + 4 * PAGE, PAGE, PROT_READ);
    MOVE(p, PAGE, PAGE, 8, 0);
    MOVE(p, PAGE, PAGE, MREMAP_FIXED, to);
    MOVE(p, PAGE, PAGE, 4, 0);
    MOVE(p, PAGE, 2 * PAGE, 4 | MREMAP_MAYMOVE, 0);
    MOVE(p + 1, PAGE, PAGE, 0, 0);
    MOVE(p, PAGE, 0, 0, 0);
    MOVE(p + 8 * PAGE, PAGE, 0, 0, 0);
    MOVE(p + 8 * PAGE, PAGE, PAGE, 0, 0);
    MOVE(p + 8 * PAGE, 2 * PAGE, PAGE, 0, 0);
    MOVE(p, 0, PAGE, MREMAP_MAYMOVE, 0);
    MOVE(p + 3 * PAGE, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE, 0);
    MOVE(p + 3 * PAGE, 2 * PAGE, 2 * PAGE, 0, 0);
    MOVE(p, 4 * PAGE, 5 * PAGE, 0, 0);
    MOVE(p + 7 * PAGE, PAGE, 2 * PAGE, 0, 0);
    MOVE(p + 15 * PAGE, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE, 0);
    MOVE(p, PAGE, 1L << 60, MREMAP_MAYMOVE, 0);
    MOVE(p, PAGE, -1L, MREMAP_MAYMOVE, 0);
    MOVE(p, -PAGE, 2 * PAGE, 0, 0);
    MOVE(KERNEL, PAGE, PAGE, 0, 0);
    MOVE(p + 3 * PAGE, 3 * PAGE, PAGE, 0, 0);
    SAY("less, across mappings", "%s", seen(p, 16));
    MOVE(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 1);
    MOVE(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + PAGE);
    MOVE(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p);
    MOVE(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, 0);
    MOVE(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, KERNEL);
    MOVE(NOWHERE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, KERNEL);
    MOVE(NOWHERE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 15 * PAGE);
    SAY("nothing was lost", "%s", seen(to, 16));
    p = area(6), strcpy(p + PAGE, "moved");
    MOVE(p, 4 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    SAY("after a move", "%s", to + PAGE);
    SAY("after a move there", "%s", seen(p, 6));
    SAY("after a move here", "%s", seen(to, 3));
    char *now = mremap(to, 2 * PAGE, 2 * PAGE, 4 | MREMAP_MAYMOVE, 0);
    SAY("moved, and still mapped", "%s [%s]", now + PAGE, to + PAGE);
    MOVE(shared, 0, PAGE, 0, 0);
    MOVE(shared, PAGE, 3 * PAGE, 0, 0);
}

static void syncing(void) {
    char *p = area(8);
    munmap(p + 4 * PAGE, PAGE);
    TRY(msync(p, PAGE, 8));
    TRY(msync(p, PAGE, MS_SYNC | MS_ASYNC));
    TRY(msync(p + 1, PAGE, MS_SYNC));
    TRY(msync(NOWHERE, 0, MS_SYNC));
    TRY(msync(NOWHERE, PAGE, MS_SYNC));
    TRY(msync(p, 8 * PAGE, MS_SYNC));
    TRY(msync(p, -PAGE, MS_SYNC));
    TRY(msync(p, PAGE, 0));
    TRY(msync(p, PAGE, MS_INVALIDATE));
    TRY(msync(KERNEL, PAGE, MS_SYNC));
}

static void what_is_in_memory(void) {
    char *p = area(8), *of_file;
    int fd = memfd_create("in memory", 0);
    unsigned char row[16];
    ftruncate(fd, 100);
    of_file = mmap(0, 3 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    SAY("in memory once it is read", "%d", of_file[0]);
    munmap(p + 4 * PAGE, PAGE);
    p[0] = p[2 * PAGE] = 1;
    memset(row, 7, sizeof row);
    TRY(mincore(p, 3 * PAGE + 1, row));
    SAY("in memory", "%d %d %d %d %d", row[0], row[1], row[2], row[3], row[4]);
    TRY(mincore(p + 1, PAGE, row));
    TRY(mincore(NOWHERE, 0, NULL));
    TRY(mincore(NOWHERE, PAGE, NULL));
    TRY(mincore(p, PAGE, (void *)8));
    memset(row, 7, sizeof row);
    TRY(mincore(p, 8 * PAGE, row));
    SAY("up to the hole", "%d %d %d", row[0], row[3], row[4]);
    TRY(mincore(p, -PAGE, row));
    TRY(mincore(KERNEL, PAGE, row));
    TRY(mincore(of_file, 3 * PAGE, row));
    SAY("of a file of 100 bytes", "%d %d %d", row[0], row[1], row[2]);
}

static void heap(void) {
    char *end = (char *)(((long)sbrk(0) + PAGE - 1) & -PAGE);
    mmap(end + 4 * PAGE, PAGE, RW, ANONYMOUS | MAP_FIXED, -1, 0);
    TRY(brk(end + 3 * PAGE));
    TRY(brk(end + 3 * PAGE + 1));
    TRY(brk(end + 4 * PAGE));
    TRY(brk(end + 9 * PAGE));
    TRY(brk(end));
}

int main(void) {
    put("file", "");
    TRY(truncate("file", 100));
    file = open("file", O_RDWR), reads = open("file", O_RDONLY), writes = open("file", O_WRONLY);
    /* root may map the lowest page */
    if (getuid() == 0 && setresuid(65534, 65534, 65534))
        errno = 0;
    unmapping();
    protecting();
    mapping();
    moving();
    syncing();
    what_is_in_memory();
    heap();
    return 0;
}
