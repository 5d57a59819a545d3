/* Makes system calls with sound and unsound arguments and prints what they return, for comparison with QEMU.
   Nothing that differs between hosts or runs is printed. The current directory holds what the test put there. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define SHOW(call)                                                                     \
    do {                                                                               \
        errno = 0;                                                                     \
        long result_ = (long)(call);                                                   \
        printf("%s = %ld %s\n", #call, result_, result_ < 0 ? strerror(errno) : "");   \
    } while (0)

static __thread int thread_local = 42;
static int fd;
static char buffer[8192];
static struct stat st;

static void start(int argc, char **argv, char **envp) {
    printf("%d %d %s %s\n", thread_local, argc, argv[1], envp[0] ? "environment" : "none");
    printf("%lu %lu %lu\n", getauxval(AT_PAGESZ), getauxval(AT_CLKTCK), getauxval(AT_SECURE));
    printf("%s %d\n", (char *)getauxval(AT_PLATFORM), !strcmp((char *)getauxval(AT_EXECFN), argv[0]));
    printf("%d\n", getauxval(AT_PHDR) != 0 && getauxval(AT_RANDOM) != 0 && getauxval(AT_SYSINFO_EHDR) == 0);
}

static void status(const char *path) {
    struct statx x;
    SHOW(lstat(path, &st));
    printf("%o %ld %ld %ld %ld %d %d\n", st.st_mode, (long)st.st_size, (long)st.st_blocks, (long)st.st_blksize,
           (long)st.st_mtime, (int)st.st_nlink, (int)st.st_uid);
    SHOW(statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &x));
    printf("%x %o %llu %d %lld %u\n", x.stx_mask & STATX_BASIC_STATS, x.stx_mode, (unsigned long long)x.stx_size,
           x.stx_ino == st.st_ino, (long long)x.stx_mtime.tv_sec, x.stx_nlink);
}

static void reading(void) {
    int number;
    status("text");
    status("link");
    status("sub");
    SHOW(stat("nosuch", &st));
    SHOW(stat("text", (void *)1));
    SHOW(statx(AT_FDCWD, "text", 0x6000, 0, (void *)buffer));
    SHOW(fd = open("text", O_RDONLY));
    SHOW(lseek(fd, -10, SEEK_END));
    SHOW(read(fd, buffer, 100));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(pread(fd, buffer, 10, 5));
    printf("%.10s\n", buffer);
    SHOW(write(fd, buffer, 1));
    SHOW(fcntl(fd, F_GETFL) & O_ACCMODE);
    SHOW(fcntl(fd, F_GETFD));
    SHOW(fcntl(fd, F_DUPFD, 20));
    SHOW(fcntl(fd, 12345));
    SHOW(dup2(fd, 30));
    SHOW(dup2(fd, fd) == fd);
    SHOW(dup2(99, 5));
    SHOW(dup3(fd, fd, 0));
    SHOW(close(30));
    SHOW(lseek(fd, 0, SEEK_DATA));
    SHOW(lseek(fd, 0, SEEK_HOLE));
    SHOW(lseek(fd, 1 << 30, SEEK_DATA));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, 0, 77));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(ioctl(fd, 0x541b, &number));
    printf("%d\n", number);
    SHOW(read(fd, (void *)1, 5));
    SHOW(read(99, buffer, 1));
    SHOW(write(1, (void *)1, 5));
    SHOW(fchdir(fd));
    SHOW(getdents64(fd, buffer, 100));
    SHOW(ftruncate(fd, 0));
    SHOW(flock(fd, 2));
    SHOW(fcntl(fd, F_SETLK, &(struct flock){F_RDLCK, 0, 0, 0, 0}));
    SHOW(posix_fadvise(fd, 0, 0, 1));
    SHOW(sendfile(1, fd, 0, 20));
    SHOW(copy_file_range(fd, 0, open("copy", O_RDWR | O_CREAT, 0644), 0, 100, 0));
    SHOW(unlink("copy"));
}

static void opening(void) {
    SHOW(open("text/x", O_RDONLY));
    SHOW(open("", O_RDONLY));
    SHOW(open((void *)1, O_RDONLY));
    SHOW(open("sub", O_WRONLY));
    SHOW(open("text", O_DIRECTORY));
    SHOW(open("link", O_NOFOLLOW));
    SHOW(open("new/", O_CREAT | O_RDWR, 0666));
    SHOW(open("sub", O_CREAT | O_RDWR, 0666));
    SHOW(openat(99, "x", O_RDONLY));
    SHOW(openat(fd, "x", O_RDONLY));
    SHOW(openat(AT_FDCWD, ".", O_TMPFILE | O_RDWR, 0600) > 0);
    SHOW(fstatat(fd, "", &st, AT_EMPTY_PATH));
    SHOW(fstatat(fd, "", &st, 0));
    SHOW(fstatat(fd, "x", &st, 0x80));
    SHOW(faccessat(AT_FDCWD, "text", R_OK, AT_EACCESS));
    SHOW(utimensat(AT_FDCWD, "nosuch", 0, 0));
    SHOW(fchownat(AT_FDCWD, "text", -1, -1, 0));
    SHOW(truncate("nosuch", 1));
    SHOW(truncate("sub", 1));
    SHOW(getxattr("text", "user.x", buffer, 10));
    SHOW(listxattr("text", buffer, 10));
    SHOW(getxattr("nosuch", "user.x", buffer, 10));
}

static void writing(void) {
    struct iovec io[3] = {{"ab", 2}, {"", 0}, {"cde", 3}};
    SHOW(fd = open("new", O_RDWR | O_CREAT | O_EXCL, 0666));
    SHOW(open("new", O_CREAT | O_EXCL | O_RDWR, 0666));
    SHOW(write(fd, "hello world", 11));
    SHOW(pwrite(fd, "J", 1, 0));
    SHOW(pread(fd, buffer, 20, 0));
    printf("%.11s\n", buffer);
    SHOW(ftruncate(fd, 5));
    SHOW(fstat(fd, &st));
    printf("%o %ld\n", st.st_mode, (long)st.st_size);
    SHOW(ftruncate(fd, -1));
    SHOW(lseek(fd, 100000, SEEK_SET));
    SHOW(write(fd, "x", 1));
    SHOW(fstat(fd, &st));
    printf("%ld\n", (long)st.st_size);
    SHOW(posix_fallocate(fd, 0, 200000));
    SHOW(fstat(fd, &st));
    printf("%ld\n", (long)st.st_size);
    SHOW(fsync(fd));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(writev(fd, io, 3));
    SHOW(lseek(fd, 0, SEEK_SET));
    for (int i = 0; i < 3; i++) io[i] = (struct iovec){buffer + 10 * i, 1 + i};
    SHOW(readv(fd, io, 3));
    printf("%.1s %.2s %.3s\n", buffer, buffer + 10, buffer + 20);
    SHOW(readv(fd, io, -1));
    SHOW(close(fd));
    SHOW(close(fd));
    SHOW(memfd_create("m", 0) > 0);
}

static void naming(void) {
    SHOW(mkdir("d", 0755));
    SHOW(mkdir("d", 0755));
    SHOW(mkdir("nosuch/d", 0755));
    SHOW(rmdir("nosuch"));
    SHOW(rename("new", "d/moved"));
    SHOW(access("d/moved", R_OK));
    SHOW(access("d/moved", X_OK));
    SHOW(rmdir("d"));
    SHOW(chmod("d/moved", 0700));
    SHOW(access("d/moved", X_OK));
    SHOW(link("d/moved", "hard"));
    SHOW(stat("hard", &st));
    printf("%d\n", (int)st.st_nlink);
    SHOW(symlink("hard", "soft"));
    SHOW(readlink("soft", buffer, 100));
    SHOW(lstat("soft", &st));
    printf("%o %ld\n", st.st_mode, (long)st.st_size);
    SHOW(readlink("hard", buffer, 100));
    SHOW(unlink("d"));
    SHOW(unlink("d/moved"));
    SHOW(unlink("hard"));
    SHOW(stat("soft", &st));
    SHOW(unlink("soft"));
    SHOW(rmdir("d"));
    SHOW(linkat(AT_FDCWD, "link", AT_FDCWD, "l1", 0));
    SHOW(lstat("l1", &st));
    printf("%o\n", st.st_mode);
    SHOW(linkat(AT_FDCWD, "link", AT_FDCWD, "l2", AT_SYMLINK_FOLLOW));
    SHOW(lstat("l2", &st));
    printf("%o\n", st.st_mode);
}

static void odd_names(void) {
    SHOW(chdir("sub"));
    SHOW(getcwd(buffer, 4096) != 0);
    printf("%s\n", strrchr(buffer, '/'));
    SHOW(chdir(".."));
    SHOW(chdir("text"));
    SHOW((long)getcwd(buffer, 2));
    SHOW(rename("sub", "sub/deep/z"));
    SHOW(rename("text", "sub"));
    SHOW(rename("sub", "text"));
    SHOW(rename(".", "x"));
    SHOW(rename("text", "nosuch/x"));
    SHOW(rename("text/", "x"));
    SHOW(rename("text", "x/"));
    SHOW(renameat2(AT_FDCWD, "text", AT_FDCWD, "link", RENAME_NOREPLACE));
    SHOW(rmdir("."));
    SHOW(rmdir("sub/.."));
    SHOW(rmdir("/"));
    SHOW(unlink("/"));
    SHOW(unlink("text/"));
    SHOW(mkdir("/", 0777));
    SHOW(mkdir("sub/", 0777));
    SHOW(mkdir("made/", 0777));
    SHOW(symlink("x", "made/y/"));
    SHOW(symlink("", "e"));
    SHOW(link("text", "x/"));
    SHOW(link("sub", "x"));
}

static void listing(void) {
    DIR *directory = opendir("sub");
    struct dirent *entry;
    int kinds = 0, count = 0;
    while ((entry = readdir(directory))) kinds += entry->d_type;
    rewinddir(directory);
    while (readdir(directory)) count++;
    printf("%d %d\n", kinds, count);
    SHOW(lseek(dirfd(directory), 0, SEEK_SET));
    closedir(directory);
}

static void pipes(void) {
    int p[2], number;
    SHOW(pipe(p));
    struct pollfd events[2] = {{p[0], POLLIN, 0}, {p[1], POLLOUT | POLLIN, 0}};
    SHOW(write(p[1], "pipe!", 5));
    SHOW(read(p[0], buffer, 3));
    SHOW(ioctl(p[0], 0x541b, &number));
    printf("%d\n", number);
    SHOW(lseek(p[0], 0, SEEK_SET));
    SHOW(pread(p[0], buffer, 1, 0));
    SHOW(fstat(p[0], &st));
    printf("%o\n", st.st_mode);
    SHOW(poll(events, 2, -1));
    printf("%x %x\n", events[0].revents, events[1].revents);
    SHOW(read(p[0], buffer, 10));
    SHOW(poll(events, 1, 10));
    SHOW(close(p[1]));
    SHOW(poll(events, 1, -1));
    printf("%x\n", events[0].revents);
    SHOW(read(p[0], buffer, 10));
    SHOW(write(p[0], buffer, 1));
    SHOW(pipe2(p, O_NONBLOCK));
    SHOW(read(p[0], buffer, 1));
    SHOW(write(p[1], buffer, 4096));
    fd_set r, w;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(p[0], &r);
    FD_SET(p[1], &w);
    SHOW(select(p[1] + 1, &r, &w, 0, 0));
    signal(SIGPIPE, SIG_IGN);
    SHOW(close(p[0]));
    SHOW(write(p[1], buffer, 1));
}

static void memory(void) {
    unsigned char resident[8];
    char *m;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    SHOW((m = mmap(0, 10 * 4096, PROT_READ | PROT_WRITE, flags, -1, 0)) != MAP_FAILED);
    m[4096 * 3] = 7;
    SHOW(mprotect(m, 4096, PROT_READ));
    SHOW(munmap(m + 4096 * 5, 4096));
    SHOW(mprotect(m, 10 * 4096, PROT_READ));
    SHOW((long)mmap(0, 0, 3, flags, -1, 0));
    SHOW((long)mmap(0, 4096, 3, MAP_PRIVATE, -1, 0));
    SHOW((long)mmap(0, 4096, 3, MAP_ANONYMOUS, -1, 0));
    SHOW(munmap(m + 1, 4096));
    SHOW(munmap(m, 0));
    SHOW(madvise(m, 4096, MADV_DONTNEED));
    SHOW((m = mremap(m, 4 * 4096, 8 * 4096, MREMAP_MAYMOVE)) != MAP_FAILED);
    printf("%d\n", m[4096 * 3]);
    SHOW(mincore(m, 4096, resident));
    SHOW(msync(m, 4096, MS_SYNC));
    SHOW(mlock(m, 4096));
    fd = open("text", O_RDONLY);
    SHOW((m = mmap(0, 4096 * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0)) != MAP_FAILED);
    printf("%.6s %d\n", m, m[5889]);
    m[0] = 'L';
    SHOW((long)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    SHOW((long)mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 3));
    SHOW((long)mmap((void *)0x10000000, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 4096));
    printf("%.5s\n", (char *)0x10000000);
    SHOW(mprotect((void *)0x20000000, 4096, PROT_READ));
    char *top = sbrk(0);
    SHOW(sbrk(100000) == top);
    SHOW((char *)sbrk(0) - top);
    SHOW(brk(top));
}

static void signals(void) {
    struct sigaction action = {0};
    sigset_t set, old;
    struct timespec moment = {0, 1000};
    stack_t stack;
    SHOW(kill(getpid(), 0));
    SHOW(kill(getpid(), 77));
    SHOW(sigaction(SIGKILL, 0, &action));
    SHOW(sigaction(SIGKILL, &action, 0));
    SHOW(sigaction(77, 0, &action));
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    SHOW(sigprocmask(SIG_BLOCK, &set, &old));
    SHOW(raise(SIGUSR1));
    SHOW(sigpending(&old));
    SHOW(sigismember(&old, SIGUSR1));
    SHOW(sigtimedwait(&set, 0, &moment));
    SHOW(sigtimedwait(&set, 0, &moment));
    SHOW(sigprocmask(99, &set, 0));
    SHOW(sigaltstack(0, &stack));
    printf("%d\n", stack.ss_flags);
}

static void process(void) {
    struct rlimit limit;
    struct utsname name;
    struct sysinfo info;
    struct rusage usage;
    struct timespec ts;
    SHOW(umask(077));
    SHOW(umask(022));
    SHOW(getrlimit(99, &limit));
    SHOW(setrlimit(RLIMIT_NOFILE, &(struct rlimit){10, 5}));
    SHOW(getpriority(PRIO_PROCESS, 0));
    SHOW(getpgid(0) > 0);
    SHOW(getsid(0) > 0);
    SHOW(syscall(SYS_getgroups, -1, 0));
    SHOW(uname(&name));
    printf("%s %s\n", name.sysname, name.machine);
    SHOW(sysinfo(&info));
    printf("%d %d\n", info.mem_unit, info.totalram > 0);
    SHOW(getrusage(RUSAGE_SELF, &usage));
    SHOW(getrusage(5, &usage));
    SHOW(clock_gettime(99, &ts));
    SHOW(clock_getres(CLOCK_MONOTONIC, &ts));
    SHOW(nanosleep(&(struct timespec){0, 1000}, 0));
    SHOW(nanosleep(&(struct timespec){0, 2000000000}, 0));
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, 10}, 0));
    SHOW(syscall(SYS_getrandom, buffer, 16, 0));
    SHOW(syscall(9999));
}

int main(int argc, char **argv, char **envp) {
    setvbuf(stdout, 0, _IONBF, 0);
    start(argc, argv, envp);
    reading();
    opening();
    writing();
    naming();
    odd_names();
    listing();
    pipes();
    memory();
    signals();
    process();
    return 7;
}
