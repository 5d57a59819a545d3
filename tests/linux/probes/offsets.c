/* Where a file is read and written: offsets, their limits, and what lies between them. */
#include "probe.h"

static char buffer[64];

static void seeking(void) {
    int fd = open("f", O_RDWR | O_CREAT, 0644);
    TRY(write(fd, "0123456789", 10));
    TRY(read(fd, buffer, 4));
    TRY(lseek(fd, 2, SEEK_SET));
    TRY(read(fd, buffer, 4));
    SAY("read", "%.4s", buffer);
    TRY(lseek(fd, 0, SEEK_CUR));
    TRY(lseek(fd, -7, SEEK_CUR));
    TRY(lseek(fd, -7, SEEK_END));
    TRY(lseek(fd, -11, SEEK_END));
    TRY(lseek(fd, -1, SEEK_SET));
    TRY(lseek(fd, 0, 9));
    TRY(lseek(fd, 0, SEEK_CUR));
    TRY(lseek(fd, 20, SEEK_SET));
    TRY(read(fd, buffer, 4));
    TRY(write(fd, "end", 3));
    TRY(pread(fd, buffer, 64, 8));
    SAY("the hole", "%d %d %d %d", buffer[1], buffer[2], buffer[11], buffer[12]);
    TRY(lseek(99, 0, SEEK_SET));
    close(fd);
}

int main(void) {
    seeking();
}
