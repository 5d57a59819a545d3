/* Holes, room and sizes of files: what lseek finds, what st_blocks counts, what fallocate does. Exit 77 where the file
   system has other rules than ext4's. */
#include "probe.h"
#include <sys/statfs.h>

static char buffer[1 << 17];
static int fd, reading = 1;

/* Data and holes of the file, its size and blocks; and the first byte of each page. */
static void show(const char *question) {
    struct stat st;
    char text[2000] = "", bytes[100] = "";
    fstat(fd, &st);
    for (off_t at = 0; at < st.st_size;) {
        off_t data = lseek(fd, at, SEEK_DATA), hole;
        if (data < 0)
            break;
        hole = lseek(fd, data, SEEK_HOLE);
        sprintf(text + strlen(text), " %ld-%ld", (long)data, (long)hole);
        at = hole;
    }
    for (int page = 0; reading && page < 40 && page * 4096 < st.st_size; page++) {
        char c = 0;
        pread(fd, &c, 1, page * 4096);
        sprintf(bytes + strlen(bytes), "%c", c ? c : '.');
    }
    SAY(question, "size %ld blocks %ld data%s bytes %s", (long)st.st_size, (long)st.st_blocks, text, bytes);
}
#define DO(call)      \
    do {              \
        ASK(#call, call);    \
        show(#call);  \
    } while (0)

static void fresh(void) {
    close(fd);
    fd = open("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
}

/* Eight pages, each full of its number. */
static void numbered(void) {
    fresh();
    for (int page = 0; page < 8; page++) {
        memset(buffer, 'A' + page, 4096);
        pwrite(fd, buffer, 4096, page * 4096);
    }
}

static void writing(void) {
    fresh();
    show("empty");
    DO(pwrite(fd, "x", 1, 0));
    DO(pwrite(fd, "x", 1, 10000));
    DO(pwrite(fd, "x", 1, 1 << 20));
    DO(pwrite(fd, "x", 1, 4095));
    DO(pwrite(fd, buffer, 4096, 20480));
    DO(ftruncate(fd, 50000));
    DO(ftruncate(fd, 20481));
    DO(ftruncate(fd, 20480));
    DO(ftruncate(fd, 100000));
    DO(ftruncate(fd, 9000));
    DO(ftruncate(fd, 0));
}

/* Nothing is read, since ext4 takes room that was read for data; and ranges are large, since it fills small ones with
   zeros when something beside them is written. */
static void allocating(void) {
    reading = 0;
    fresh();
    DO(fallocate(fd, 0, 5000, 400000));
    DO(pwrite(fd, "x", 1, 200000));
    DO(fallocate(fd, 1, 600000, 5000));
    DO(ftruncate(fd, 405000));
    DO(fallocate(fd, 1, 600000, 5000));
    DO(ftruncate(fd, 604000));
    DO(ftruncate(fd, 4096));
    numbered();
    DO(fallocate(fd, 0, 0, 32768));
    DO(fallocate(fd, 0, 0, 32769));
    reading = 1;
}

static void punching(void) {
    static const int ranges[][2] = {{0, 4096}, {0, 4095}, {1, 4095}, {100, 8192}, {4096, 8192}, {4000, 200},
                                    {28672, 4096}, {28672, 9000}, {30000, 9000}, {32768, 4096}, {40000, 10},
                                    {0, 100000}, {4096, 1}, {8191, 4098}};
    for (int i = 0; i < 14; i++) {
        char question[60];
        numbered();
        ftruncate(fd, 32000);
        sprintf(question, "punch %d %d", ranges[i][0], ranges[i][1]);
        ASK(question, fallocate(fd, 3, ranges[i][0], ranges[i][1]));
        show(question);
        numbered();
        sprintf(question, "zero %d %d", ranges[i][0], ranges[i][1]);
        ASK(question, fallocate(fd, 0x10, ranges[i][0], ranges[i][1]));
        show(question);
        numbered();
        sprintf(question, "zero and keep %d %d", ranges[i][0], ranges[i][1]);
        ASK(question, fallocate(fd, 0x11, ranges[i][0], ranges[i][1]));
        show(question);
    }
}

static void moving(void) {
    static const int ranges[][2] = {{0, 4096}, {4096, 8192}, {24576, 4096}, {28672, 4096}, {24576, 8192}, {100, 4096},
                                    {4096, 100}, {32768, 4096}, {0, 32768}};
    for (int i = 0; i < 9; i++) {
        char question[60];
        numbered();
        ftruncate(fd, 32000);
        sprintf(question, "collapse %d %d", ranges[i][0], ranges[i][1]);
        ASK(question, fallocate(fd, 8, ranges[i][0], ranges[i][1]));
        show(question);
        numbered();
        ftruncate(fd, 32000);
        sprintf(question, "insert %d %d", ranges[i][0], ranges[i][1]);
        ASK(question, fallocate(fd, 0x20, ranges[i][0], ranges[i][1]));
        show(question);
    }
    TRY(fallocate(fd, 9, 0, 4096));
    TRY(fallocate(fd, 0x21, 0, 4096));
    TRY(fallocate(fd, 0x28, 0, 4096));
    TRY(fallocate(fd, 0x0a, 0, 4096));
    TRY(fallocate(fd, 0x12, 0, 4096));
    TRY(fallocate(fd, 0x40, 0, 4096));
}

static void limits(void) {
    static const long last = (1L << 44) - 4096;
    fresh();
    TRY(lseek(fd, last, SEEK_SET) == last);
    TRY(lseek(fd, last + 1, SEEK_SET));
    TRY(lseek(fd, 0x7fffffffffffffff, SEEK_SET));
    TRY(pwrite(fd, "x", 1, last));
    TRY(pwrite(fd, "xyz", 3, last - 2));
    TRY(pwrite(fd, "x", 1, 0x7fffffffffffffff));
    TRY(pread(fd, buffer, 1, last + 5));
    TRY(ftruncate(fd, 0));
    TRY(ftruncate(fd, last));
    TRY(ftruncate(fd, last + 1));
    TRY(ftruncate(fd, 0));
    TRY(fallocate(fd, 1, last, 1));
    TRY(fallocate(fd, 1, last - 4096, 4097));
    TRY(fallocate(fd, 0, 0x7fffffffffffffff, 1));
    TRY(fallocate(fd, 0, 0x7ffffffffffffff0, 100));
    TRY(lseek(fd, 0, SEEK_DATA));
    TRY(lseek(fd, 0, SEEK_HOLE));
    TRY(lseek(fd, -1, SEEK_DATA));
    TRY(lseek(fd, -1, SEEK_HOLE));
    TRY(ftruncate(fd, 5));
    TRY(lseek(fd, 4, SEEK_DATA));
    TRY(lseek(fd, 4, SEEK_HOLE));
    TRY(lseek(fd, 5, SEEK_HOLE));
    TRY(lseek(fd, 3, SEEK_SET));
    TRY(lseek(fd, 9, SEEK_DATA));
    TRY(lseek(fd, 0, SEEK_CUR));
}

int main(void) {
    struct statfs fs;
    statfs(".", &fs);
    if (fs.f_type != 0xEF53)
        return 77;
    writing();
    allocating();
    punching();
    moving();
    limits();
}
