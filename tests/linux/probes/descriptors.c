/* Every call on a descriptor, for every kind of open file that there is. Errors come in Linux's order. */
#include "probe.h"
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <asm/termbits.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>

static char buffer[4096] = "0123456789";
static struct iovec piece = {buffer, 4}, bad_piece = {(void *)8, 4};
static int other; /* a regular file that may be read and written */
static int feed[2], drain[2];

/* -- kinds ------------------------------------------------------------------------------------------- */
static int end_of_pipe(int end, int flags) {
    int ends[2];
    pipe2(ends, flags | O_NONBLOCK);
    if (!end)
        write(ends[1], "in a pipe", 9);
    int fd = dup(ends[end]);
    close(ends[end]);
    fcntl(ends[1 - end], F_DUPFD, 200); /* the other end stays open */
    close(ends[1 - end]);
    return fd;
}

static int removed_directory(void) {
    mkdir("gone", 0755);
    int fd = open("gone", O_RDONLY);
    rmdir("gone");
    return fd;
}

static char fifo[40]; /* in a directory that is the guest's own in every run */

static int with_fifo(int flags) {
    sprintf(fifo, "/dev/shm/kvrm-fifo-%d", getpid());
    mkfifo(fifo, 0644);
    return open(fifo, flags | O_NONBLOCK);
}

static int end_of_pair(int kind) {
    int ends[2];
    socketpair(AF_UNIX, kind | SOCK_NONBLOCK, 0, ends);
    fcntl(ends[1], F_DUPFD, 200); /* the other end stays open */
    close(ends[1]);
    return ends[0];
}

static int make(int kind) {
    switch (kind) {
    case 0: return -1;
    case 1: return 99;
    case 2: return open("f", O_RDONLY);
    case 3: return open("f", O_WRONLY);
    case 4: return open("f", O_RDWR);
    case 5: return open("f", O_RDWR | O_APPEND);
    case 6: return open("f", O_WRONLY | O_APPEND);
    case 7: return open("f", 3);
    case 8: return open("f", O_PATH);
    case 9: return open("d", O_RDONLY);
    case 10: return open("d", O_PATH);
    case 11: return removed_directory();
    case 12: return open("l", O_PATH | O_NOFOLLOW);
    case 13: return end_of_pipe(0, 0);
    case 14: return end_of_pipe(1, 0);
    case 15: return end_of_pipe(1, O_DIRECT);
    case 16: return with_fifo(O_RDWR);
    case 17: return with_fifo(O_RDONLY);
    case 18: return open("/dev/null", O_RDWR);
    case 19: return open("/dev/zero", O_RDWR);
    case 20: return open("/dev/full", O_RDWR);
    case 21: return syscall(SYS_memfd_create, "m", 3);
    case 22: return open(".", O_TMPFILE | O_RDWR, 0644);
    case 23: return open("/proc/self/status", O_RDONLY);
    case 24: return open("/dev/shm/kvrm-probe", O_RDWR | O_CREAT, 0600);
    case 25: return eventfd(0, EFD_NONBLOCK);
    case 26: return eventfd(5, EFD_SEMAPHORE);
    case 27: return epoll_create1(0);
    case 28: return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    case 29: return signalfd(-1, &(sigset_t){0}, SFD_NONBLOCK);
    case 30: return syscall(SYS_pidfd_open, getpid(), 0);
    case 31: return end_of_pair(SOCK_STREAM);
    case 32: return end_of_pair(SOCK_DGRAM);
    case 33: return end_of_pair(SOCK_SEQPACKET);
    case 34: return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    case 35: return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    }
    return -2;
}

static const char *const kinds[] = {
    "-1", "closed", "read-only", "write-only", "file", "append", "append write-only", "neither", "O_PATH",
    "directory", "O_PATH directory", "removed directory", "O_PATH link", "pipe's read end", "pipe's write end",
    "packet pipe", "fifo", "fifo read-only", "/dev/null", "/dev/zero", "/dev/full", "memfd", "tmpfile",
    "/proc file", "/dev/shm file", "eventfd", "eventfd semaphore", "epoll", "timerfd", "signalfd", "pidfd",
    "stream pair", "datagram pair", "packet pair", "stream socket", "datagram socket",
};

/* -- calls ------------------------------------------------------------------------------------------- */
static long lock(int fd, int command, int type, int whence, long start, long length) {
    struct flock l = {.l_type = type, .l_whence = whence, .l_start = start, .l_len = length};
    return fcntl(fd, command, &l);
}

static long status(int fd) {
    struct stat st;
    return fstat(fd, &st) ? -1 : (long)((st.st_mode & S_IFMT) + (S_ISDIR(st.st_mode) ? 0 : st.st_nlink));
}

static long kind_of_file_system(int fd) {
    struct statfs st;
    return fstatfs(fd, &st) ? -1 : st.f_type;
}

static long mapped(int fd, int prot, int flags) {
    void *at = mmap(NULL, 4096, prot, flags, fd, 0);
    return at == MAP_FAILED ? -1 : munmap(at, 4096);
}

static long polled(int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    long result = poll(&p, 1, 0);
    return result < 0 ? -1 : p.revents;
}

static long available(int fd) {
    int count = -5;
    long result = ioctl(fd, FIONREAD, &count);
    return result ? -1 : count;
}

static long flags_of(int fd) {
    long flags = fcntl(fd, F_GETFL);
    return flags == -1 ? -1 : flags & (O_ACCMODE | O_APPEND | O_NONBLOCK);
}


/* Devices are the machine's own, and are left as they are. */
#define change(call)                                                            \
    ({                                                                          \
        struct stat st;                                                         \
        fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) ? 0 : (call);                \
    })

#define CALLS(ROW)                                                              \
    ROW(read(fd, buffer, 4))                                                    \
    ROW(read(fd, buffer, 0))                                                    \
    ROW(read(fd, (void *)8, 4))                                                 \
    ROW(read(fd, buffer, -1))                                                   \
    ROW(write(fd, buffer, 4))                                                   \
    ROW(write(fd, buffer, 0))                                                   \
    ROW(write(fd, (void *)8, 4))                                                \
    ROW(readv(fd, &piece, 1))                                                   \
    ROW(readv(fd, &bad_piece, 1))                                               \
    ROW(readv(fd, (void *)8, 1))                                                \
    ROW(readv(fd, &piece, 0))                                                   \
    ROW(readv(fd, &piece, 1025))                                                \
    ROW(writev(fd, &piece, 1))                                                  \
    ROW(writev(fd, &bad_piece, 1))                                              \
    ROW(writev(fd, (void *)8, 1))                                               \
    ROW(writev(fd, &piece, -1))                                                 \
    ROW(pread(fd, buffer, 4, 2))                                                \
    ROW(pread(fd, buffer, 4, -1))                                               \
    ROW(pwrite(fd, buffer, 4, 2))                                               \
    ROW(pwrite(fd, buffer, 4, -1))                                              \
    ROW(preadv(fd, &piece, 1, 2))                                               \
    ROW(preadv(fd, &piece, 1, -1))                                              \
    ROW(pwritev(fd, &piece, 1, 2))                                              \
    ROW(pwritev(fd, (void *)8, 1, 2))                                           \
    ROW(syscall(SYS_preadv2, fd, &piece, 1, -1L, -1L, 0))                       \
    ROW(syscall(SYS_preadv2, fd, &piece, 1, -2L, -1L, 0))                       \
    ROW(syscall(SYS_preadv2, fd, &piece, 1, 1L, 0L, 0x10000))                   \
    ROW(syscall(SYS_preadv2, fd, &piece, 0, 1L, 0L, 0x10000))                   \
    ROW(syscall(SYS_preadv2, fd, &piece, 1, 0L, 0L, 1))                         \
    ROW(syscall(SYS_pwritev2, fd, &piece, 1, 1L, 0L, 0x30))                     \
    ROW(syscall(SYS_pwritev2, fd, &piece, 1, 1L, 0L, 0x10))                     \
    ROW(syscall(SYS_pwritev2, fd, &piece, 1, -1L, -1L, 0x10))                   \
    ROW(lseek(fd, 2, SEEK_SET))                                                 \
    ROW(lseek(fd, -1, SEEK_SET))                                                \
    ROW(lseek(fd, 0, 9))                                                        \
    ROW(ftruncate(fd, 6))                                                       \
    ROW(ftruncate(fd, -1))                                                      \
    ROW(fallocate(fd, 0, 0, 20))                                                \
    ROW(fallocate(fd, 0, -1, 20))                                               \
    ROW(fallocate(fd, 0, 0, 0))                                                 \
    ROW(fallocate(fd, 0x1000, 0, 20))                                            \
    ROW(fallocate(fd, 2, 0, 20))                                                \
    ROW(fallocate(fd, 3, 0, 4))                                                 \
    ROW(fallocate(fd, 0x13, 0, 4))                                              \
    ROW(fsync(fd))                                                              \
    ROW(fdatasync(fd))                                                          \
    ROW(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL))                             \
    ROW(posix_fadvise(fd, 0, 0, 77))                                            \
    ROW(flock(fd, LOCK_SH | LOCK_NB))                                           \
    ROW(flock(fd, LOCK_UN))                                                     \
    ROW(flock(fd, 77))                                                          \
    ROW(lock(fd, F_SETLK, F_RDLCK, SEEK_SET, 0, 0))                             \
    ROW(lock(fd, F_SETLK, F_WRLCK, SEEK_SET, 0, 1))                             \
    ROW(lock(fd, F_SETLK, F_UNLCK, SEEK_SET, 0, 0))                             \
    ROW(lock(fd, F_SETLK, F_RDLCK, 9, 0, 0))                                    \
    ROW(lock(fd, F_SETLK, 9, SEEK_SET, 0, 0))                                   \
    ROW(lock(fd, F_SETLK, F_RDLCK, SEEK_SET, -1, 0))                            \
    ROW(lock(fd, F_SETLK, F_RDLCK, SEEK_SET, 0x7fffffffffffffff, 2))            \
    ROW(lock(fd, F_OFD_SETLK, F_RDLCK, SEEK_SET, 4, 4))                         \
    ROW(lock(fd, F_GETLK, F_RDLCK, SEEK_SET, 0, 0))                             \
    ROW(fcntl(fd, F_SETLK, (void *)8))                                          \
    ROW(getdents64(fd, buffer, sizeof buffer) > 0)                              \
    ROW(getdents64(fd, buffer, 1))                                              \
    ROW(available(fd))                                                          \
    ROW(ioctl(fd, FIONREAD, (void *)8))                                         \
    ROW(ioctl(fd, 0x12345678, 0))                                               \
    ROW(ioctl(fd, TCGETS, buffer))                                              \
    ROW(flags_of(fd))                                                           \
    ROW(fcntl(fd, F_GETFD))                                                     \
    ROW(fcntl(fd, 12345))                                                       \
    ROW(opened(fcntl(fd, F_DUPFD, 50)))                                         \
    ROW(fcntl(fd, F_DUPFD, 1 << 30))                                            \
    ROW(fcntl(fd, F_DUPFD, -1))                                                 \
    ROW(fcntl(fd, F_GETPIPE_SZ))                                                \
    ROW(fcntl(fd, F_SETPIPE_SZ, 4096))                                          \
    ROW(fcntl(fd, F_GET_SEALS))                                                 \
    ROW(fcntl(fd, F_ADD_SEALS, 0))                                              \
    ROW(opened(dup(fd)))                                                        \
    ROW(dup3(fd, fd, 0))                                                        \
    ROW(dup3(fd, 60, 1))                                                        \
    ROW(dup3(fd, -1, 0))                                                        \
    ROW(dup3(fd, 60, O_CLOEXEC))                                                \
    ROW(close(60))                                                              \
    ROW(status(fd))                                                             \
    ROW(kind_of_file_system(fd))                                                \
    ROW(change(fchmod(fd, 0700)))                                               \
    ROW(change(fchown(fd, -1, -1)))                                             \
    ROW(change(futimens(fd, NULL)))                                             \
    ROW(syscall(SYS_utimensat, fd, NULL, NULL, AT_SYMLINK_NOFOLLOW))            \
    ROW(fchdir(fd) ? -1 : fchdir(70))                                           \
    ROW(opened(openat(fd, "x", O_RDONLY)))                                      \
    ROW(opened(openat(fd, "new", O_CREAT | O_RDWR, 0600)))                      \
    ROW(faccessat(fd, "x", F_OK, 0))                                            \
    ROW(unlinkat(fd, "nothing", 0))                                             \
    ROW(mkdirat(fd, "nothing/x", 0700))                                         \
    ROW(readlinkat(fd, "", buffer, 10))                                         \
    ROW(polled(fd))                                                             \
    ROW(mapped(fd, PROT_READ, MAP_PRIVATE))                                     \
    ROW(mapped(fd, PROT_READ, MAP_SHARED))                                      \
    ROW(mapped(fd, PROT_READ | PROT_WRITE, MAP_SHARED))                         \
    ROW(mapped(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE))                        \
    ROW(sendfile(fd, other, NULL, 3))                                           \
    ROW(sendfile(fd, other, &(off_t){1}, 3))                                    \
    ROW(sendfile(fd, other, &(off_t){-1}, 3))                                   \
    ROW(sendfile(fd, other, (off_t *)8, 3))                                     \
    ROW(sendfile(other, fd, NULL, 3))                                           \
    ROW(sendfile(other, fd, &(off_t){1}, 3))                                    \
    ROW(sendfile(feed[1], fd, NULL, 3))                                         \
    ROW(copy_file_range(fd, NULL, other, NULL, 3, 0))                           \
    ROW(copy_file_range(other, NULL, fd, NULL, 3, 0))                           \
    ROW(copy_file_range(other, NULL, fd, &(off_t){100}, 3, 0))                  \
    ROW(copy_file_range(fd, NULL, fd, NULL, 3, 0))                              \
    ROW(copy_file_range(fd, NULL, other, NULL, 3, 1))                           \
    ROW(splice(drain[0], NULL, fd, NULL, 1, 2))                                 \
    ROW(splice(drain[0], NULL, fd, &(off_t){2}, 1, 2))                          \
    ROW(splice(drain[0], &(off_t){2}, fd, NULL, 1, 2))                          \
    ROW(splice(drain[0], NULL, fd, NULL, 1, 64))                                \
    ROW(splice(fd, NULL, feed[1], NULL, 1, 2))                                  \
    ROW(splice(fd, &(off_t){2}, feed[1], NULL, 1, 2))                           \
    ROW(splice(fd, NULL, fd, NULL, 1, 2))                                       \
    ROW(splice(fd, NULL, fd, NULL, 0, 2))                                       \
    ROW(tee(fd, feed[1], 1, 2))                                                 \
    ROW(tee(drain[0], fd, 1, 2))                                                \
    ROW(vmsplice(fd, &piece, 1, 2))                                             \
    ROW(fcntl(fd, F_SETFL, O_NONBLOCK))                                         \
    ROW(lseek(fd, 0, SEEK_CUR))                                                 \
    ROW(lseek(fd, 0, SEEK_END) >= 0)                                            \
    ROW(lseek(fd, 0, SEEK_DATA))                                                \
    ROW(lseek(fd, 0, SEEK_HOLE) > 0)                                            \
    ROW(close(fd))                                                              \
    ROW(close(fd))

#define ONE_CALL(call)                                                          \
    {                                                                           \
        char question[200];                                                     \
        snprintf(question, sizeof question, "%s: %s", kinds[kind], #call);      \
        fresh();                                                                \
        ASK(question, call);                                                    \
    }

/* What other calls have left does not matter: the file has its contents, and the pipes their bytes, again. */
static void fresh(void) {
    int flags = O_WRONLY | O_TRUNC | O_CREAT, fd = open("f", flags, 0644);
    write(fd, "0123456789", 10);
    close(fd);
    lseek(other, 0, SEEK_SET);
    while (read(feed[0], buffer, sizeof buffer) > 0)
        ;
    while (read(drain[0], buffer, sizeof buffer) > 0)
        ;
    write(drain[1], "drain", 5);
    strcpy(buffer, "0123456789");
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    pipe2(feed, O_NONBLOCK);
    pipe2(drain, O_NONBLOCK);
    mkdir("d", 0755);
    put("d/x", "x");
    symlink("f", "l");
    put("other", "something else");
    other = open("other", O_RDWR);
    dup2(open(".", O_PATH), 70);
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++) {
        fresh();
        int fd = make(kind);
        CALLS(ONE_CALL)
    }
    unlink(fifo);
    unlink("/dev/shm/kvrm-probe");
}
