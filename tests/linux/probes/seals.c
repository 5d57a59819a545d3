/* memfd_create and what seals forbid. */
#include "probe.h"
#include <sys/mman.h>

static const int all[] = {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, 0x10, 0x20};
static const char *const names[] = {"SEAL", "SHRINK", "GROW", "WRITE", "FUTURE_WRITE", "EXEC"};

static int made(unsigned flags) { return memfd_create("m", flags); }

static long mapped(int fd, int prot, int flags) {
    void *at = mmap(NULL, 4096, prot, flags, fd, 0);
    return at == MAP_FAILED ? -1 : munmap(at, 4096);
}

static void making(void) {
    for (unsigned flags = 0; flags < 64; flags++) {
        if (flags & MFD_HUGETLB)
            continue;
        char question[20];
        sprintf(question, "flags %x", flags);
        int fd = ASK(question, memfd_create("m", flags)) < 0 ? -1 : 3;
        if (fd < 0)
            continue;
        struct stat st;
        fstat(fd, &st);
        SAY(question, "%o %ld %x %d", st.st_mode, (long)st.st_nlink, fcntl(fd, F_GET_SEALS), fcntl(fd, F_GETFD));
        close(fd);
    }
    char name[300];
    memset(name, 'a', sizeof name);
    name[249] = 0;
    TRY(opened(memfd_create(name, 0)));
    name[249] = 'a', name[250] = 0;
    TRY(opened(memfd_create(name, 0)));
    TRY(opened(memfd_create("", 0)));
    TRY(opened(memfd_create("a/b", 0)));
    TRY(opened(memfd_create((void *)8, 0)));
    TRY(opened(memfd_create((void *)8, 0x1000)));
    int fd = made(0);
    char link[100], path[40];
    sprintf(path, "/proc/self/fd/%d", fd);
    link[readlink(path, link, sizeof link - 1)] = 0;
    SAY("link", "%s", link);
    TRY(linkat(AT_FDCWD, path, AT_FDCWD, "linked", AT_SYMLINK_FOLLOW));
    TRY(opened(open(path, O_RDWR)));
    close(fd);
}

static void adding(void) {
    int fd = made(MFD_ALLOW_SEALING);
    TRY(fcntl(fd, F_ADD_SEALS, 0x40));
    TRY(fcntl(fd, F_ADD_SEALS, 0));
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    TRY(fcntl(fd, F_GET_SEALS));
    TRY(fcntl(fd, F_ADD_SEALS, 0x20));
    TRY(fcntl(fd, F_GET_SEALS));
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    char path[40];
    sprintf(path, "/proc/self/fd/%d", fd);
    int reader = open(path, O_RDONLY), other = made(MFD_ALLOW_SEALING), file = open("f", O_RDWR | O_CREAT, 0600);
    TRY(fcntl(reader, F_GET_SEALS));
    TRY(fcntl(reader, F_ADD_SEALS, 0x40));
    TRY(fcntl(file, F_GET_SEALS));
    TRY(fcntl(file, F_ADD_SEALS, F_SEAL_GROW));
    TRY(fcntl(other, F_GET_SEALS));
    close(fd), close(reader), close(other), close(file);
}

#define UNDER_EACH(call)                                                             \
    for (int i = 0; i < 6; i++) {                                                    \
        char question[150];                                                          \
        int fd = made(MFD_ALLOW_SEALING);                                            \
        ftruncate(fd, 5000);                                                         \
        pwrite(fd, "0123456789", 10, 0);                                             \
        fcntl(fd, F_ADD_SEALS, all[i]);                                              \
        snprintf(question, sizeof question, "%s: %s", names[i], #call);              \
        ASK(question, call);                                                         \
        struct stat st;                                                              \
        fstat(fd, &st);                                                              \
        SAY(question, "%ld %lo", (long)st.st_size, (long)st.st_mode & 07777);        \
        close(fd);                                                                   \
    }

static char big[20000];

static void forbidding(void) {
    UNDER_EACH(pwrite(fd, "x", 1, 0))
    UNDER_EACH(pwrite(fd, "xyz", 3, 4999))
    UNDER_EACH(pwrite(fd, "xyz", 3, 5000))
    UNDER_EACH(pwrite(fd, big, 6000, 0))
    UNDER_EACH(pwrite(fd, big, 100, 4096))
    UNDER_EACH(pwrite(fd, big, 905, 4096))
    UNDER_EACH(pwrite(fd, big, 0, 9000))
    UNDER_EACH(ftruncate(fd, 5000))
    UNDER_EACH(ftruncate(fd, 4000))
    UNDER_EACH(ftruncate(fd, 6000))
    UNDER_EACH(fallocate(fd, 0, 0, 5000))
    UNDER_EACH(fallocate(fd, 0, 0, 6000))
    UNDER_EACH(fallocate(fd, 1, 0, 6000))
    UNDER_EACH(fallocate(fd, 3, 0, 4096))
    UNDER_EACH(mapped(fd, PROT_READ, MAP_SHARED))
    UNDER_EACH(mapped(fd, PROT_READ | PROT_WRITE, MAP_SHARED))
    UNDER_EACH(mapped(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE))
    UNDER_EACH(fchmod(fd, 0700))
    UNDER_EACH(fchmod(fd, 0666))
    UNDER_EACH(fchmod(fd, 0777))
    UNDER_EACH(read(fd, big, 10))
}

static void while_mapped(void) {
    int fd = made(MFD_ALLOW_SEALING);
    ftruncate(fd, 4096);
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    TRY(munmap(shared, 4096));
    void *private = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    TRY(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    TRY(munmap(private, 4096));
    void *reading = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    TRY(mprotect(reading, 4096, PROT_READ | PROT_WRITE));
    TRY(fcntl(fd, F_GET_SEALS));
}

int main(void) {
    making();
    adding();
    forbidding();
    while_mapped();
}
