/* Files opened to append: every way to write, in every order, and the offset after it. */
#include "probe.h"
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static int file, twice, source, pipe_with[2];
static struct iovec parts[2] = {{"VEC", 3}, {"TOR", 3}};

#define WAYS(ROW)                                                                                              \
    ROW(write(twice, "W", 1))                                                                                  \
    ROW(write(twice, "", 0))                                                                                   \
    ROW(pwrite(twice, "P", 1, 0))                                                                              \
    ROW(pwrite(twice, "P", 1, 100))                                                                            \
    ROW(pwrite(twice, "", 0, 100))                                                                             \
    ROW(writev(twice, parts, 2))                                                                               \
    ROW(pwritev(twice, parts, 2, 1))                                                                           \
    ROW(syscall(SYS_pwritev2, twice, parts, 2, -1L, -1L, 0))                                                   \
    ROW(syscall(SYS_pwritev2, twice, parts, 2, 1L, 0L, 0x10))                                                  \
    ROW(syscall(SYS_pwritev2, twice, parts, 2, 1L, 0L, 0x20))                                                  \
    ROW(syscall(SYS_pwritev2, twice, parts, 2, -1L, -1L, 0x20))                                                \
    ROW(syscall(SYS_pwritev2, twice, parts, 2, -1L, -1L, 0x10))                                                \
    ROW(syscall(SYS_pwritev2, file, parts, 2, 1L, 0L, 0x10))                                                   \
    ROW(syscall(SYS_pwritev2, file, parts, 2, -1L, -1L, 0x10))                                                 \
    ROW(sendfile(twice, source, NULL, 3))                                                                      \
    ROW(copy_file_range(source, NULL, twice, NULL, 3, 0))                                                      \
    ROW(splice(pipe_with[0], NULL, twice, NULL, 3, 2))                                                         \
    ROW(splice(pipe_with[0], NULL, twice, &(off_t){1}, 3, 2))                                                  \
    ROW(ftruncate(twice, 5))                                                                                   \
    ROW(ftruncate(twice, 20))                                                                                  \
    ROW(fallocate(twice, 0, 0, 20))                                                                            \
    ROW(fallocate(twice, 3, 0, 3))                                                                             \
    ROW(lseek(twice, 2, SEEK_SET))                                                                             \
    ROW(read(twice, (char[4]){0}, 3))                                                                          \
    ROW(fcntl(twice, F_SETFL, 0) || write(twice, "C", 1) != 1)                                                 \
    ROW(fcntl(twice, F_SETFL, 0) || pwrite(twice, "C", 1, 1) != 1)                                             \
    ROW(fcntl(file, F_SETFL, O_APPEND) || write(file, "S", 1) != 1)                                            \
    ROW(fcntl(file, F_SETFL, O_APPEND) || pwrite(file, "S", 1, 1) != 1)                                        \
    ROW(sendfile(file, source, NULL, 3))                                                                       \
    ROW(copy_file_range(source, NULL, file, &(off_t){2}, 3, 0))                                                \
    ROW(splice(pipe_with[0], NULL, file, &(off_t){1}, 3, 2))

static void fresh(void) {
    char buffer[100];
    put("f", "0123456789");
    close(file), close(twice), close(source);
    file = open("f", O_RDWR);
    twice = open("f", O_RDWR | O_APPEND);
    source = open("source", O_RDONLY);
    while (read(pipe_with[0], buffer, sizeof buffer) > 0)
        ;
    write(pipe_with[1], "PIPE", 4);
    lseek(file, 4, SEEK_SET);
    lseek(twice, 3, SEEK_SET);
}

static void after(const char *question) {
    char text[100] = "", shown[200] = "";
    long length = pread(file, text, sizeof text - 1, 0);
    for (long i = 0; i < length; i++)
        sprintf(shown + strlen(shown), "%c", text[i] ? text[i] : '.');
    SAY(question, "%s at %ld and %ld", shown, (long)lseek(file, 0, SEEK_CUR), (long)lseek(twice, 0, SEEK_CUR));
}

#define ONE(call)    \
    fresh();         \
    ASK(#call, call);       \
    after(#call);
#define EACH_AFTER(call)                               \
    fresh();                                           \
    write(twice, "a", 1), write(file, "b", 1);         \
    ASK(#call, call);                                         \
    after("then " #call);

static void ways(void) { WAYS(ONE) }

static void ways_after_writes(void) { WAYS(EACH_AFTER) }

static void others(void) {
    int a = open("g", O_WRONLY | O_CREAT | O_APPEND, 0644), b = open("g", O_WRONLY | O_APPEND), c = dup(a);
    for (int i = 0; i < 3; i++) {
        TRY(write(a, "a", 1));
        TRY(write(b, "bb", 2));
        TRY(write(c, "c", 1));
        SAY("at", "%ld %ld %ld", (long)lseek(a, 0, SEEK_CUR), (long)lseek(b, 0, SEEK_CUR), (long)lseek(c, 0, SEEK_CUR));
    }
    TRY(opened(open("g", O_WRONLY | O_TRUNC | O_APPEND)));
    TRY(write(a, "d", 1));
    TRY(lseek(a, 0, SEEK_END));
    TRY(fcntl(c, F_SETFL, 0));
    TRY(fcntl(a, F_GETFL) & O_APPEND);
    TRY(lseek(a, 0, SEEK_SET));
    TRY(write(a, "ee", 2));
    TRY(lseek(a, 0, SEEK_END));
    int m = memfd_create("m", 0);
    TRY(write(m, "12345", 5));
    TRY(fcntl(m, F_SETFL, O_APPEND));
    TRY(pwrite(m, "6", 1, 0));
    TRY(lseek(m, 0, SEEK_END));
}

int main(void) {
    put("source", "SOURCE");
    pipe2(pipe_with, O_NONBLOCK);
    ways();
    ways_after_writes();
    others();
}
