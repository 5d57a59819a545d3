/* Buffers that the program may use only in part: how much is moved, and where the offset is then. */
#include "probe.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>

static char *edge; /* the end of what may be accessed */
static char big[40000];
static int fd, p[2];

static void fresh(void) {
    int flags = O_RDWR | O_CREAT | O_TRUNC;
    close(fd);
    fd = open("f", flags, 0644);
    write(fd, big, 20000);
    lseek(fd, 100, SEEK_SET);
    while (read(p[0], big, sizeof big) > 0)
        ;
    write(p[1], big, 300);
    write(p[1], big, 4096);
    write(p[1], big, 4096);
}

static void after(const char *question) {
    struct stat st;
    int left;
    fstat(fd, &st);
    left = read(p[0], big, sizeof big);
    SAY(question, "at %ld of %ld, %d in the pipe", (long)lseek(fd, 0, SEEK_CUR), (long)st.st_size, left);
}
#define DO(call)     \
    do {             \
        fresh();     \
        ASK(#call, call);   \
        after(#call); \
    } while (0)

static struct iovec two[2];
static struct iovec *split(char *a, long n, char *b, long m) {
    two[0] = (struct iovec){a, n};
    two[1] = (struct iovec){b, m};
    return two;
}

int main(void) {
    long page = sysconf(_SC_PAGESIZE);
    char *area = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    edge = area + 3 * page;
    mprotect(edge, page, PROT_NONE);
    pipe2(p, O_NONBLOCK);
    DO(read(fd, edge - 10, 10));
    DO(read(fd, edge - 10, 20));
    DO(read(fd, edge, 20));
    DO(read(fd, edge - 5000, 9000));
    DO(read(fd, edge - 5000, 5000));
    DO(pread(fd, edge - 10, 20, 19995));
    DO(pread(fd, edge - 3, 20, 19995));
    DO(pread(fd, edge, 20, 20000));
    DO(pread(fd, edge, 20, 30000));
    DO(readv(fd, split(edge - 10, 10, edge, 10), 2));
    DO(readv(fd, split(edge - 10, 20, area, 10), 2));
    DO(readv(fd, split(area, 10, edge - 10, 20), 2));
    DO(readv(fd, split(area, 0, edge - 10, 20), 2));
    DO(readv(fd, split(area, 10, NULL, 0), 2));
    DO(readv(fd, (struct iovec *)(edge - 16), 2));
    DO(readv(fd, split(area, 10, area, -1), 2));
    DO(readv(fd, split(area, 10, (char *)-4096, 5), 2));
    DO(write(fd, edge - 10, 20));
    DO(write(fd, edge, 20));
    DO(write(fd, edge - 5000, 9000));
    DO(pwrite(fd, edge - 10, 20, 19995));
    DO(writev(fd, split(edge - 10, 10, edge, 10), 2));
    DO(writev(fd, split(edge - 10, 20, area, 10), 2));
    DO(writev(fd, split(area, 10, edge - 10, 20), 2));
    DO(read(p[0], edge - 10, 20));
    DO(read(p[0], edge - 300, 600));
    DO(read(p[0], edge - 5000, 9000));
    DO(read(p[0], edge - 4396, 5000));
    DO(read(p[0], edge, 20));
    DO(readv(p[0], split(area, 100, edge - 10, 400), 2));
    DO(write(p[1], edge - 10, 20));
    DO(write(p[1], edge - 4096, 5000));
    DO(write(p[1], edge - 5000, 9000));
    DO(write(p[1], edge, 1));
    DO(writev(p[1], split(area, 10, edge, 10), 2));
    DO(writev(p[1], split(area, 4096, edge, 10), 2));
    DO(open(edge - 3, O_RDONLY));
    DO(getcwd(edge, 100) != NULL);
    DO(syscall(SYS_getcwd, edge - 2, 4000) > 0);
    DO(readlink("/proc/self/exe", edge - 2, 100));
    DO(pipe((int *)(edge - 4)));
    DO(stat("f", (struct stat *)(edge - 8)));
    DO(syscall(SYS_getdents64, open(".", O_RDONLY), edge - 8, 1000));
}
