/* What a probe is written with. It prints one line for each thing that it asks Linux, `question = answer`, and a
   question that is asked again may have another answer. Nothing that differs between runs or between hosts is
   printed: no process number, address or inode. The current directory is empty at the start. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* bad pointers and counts are what many probes ask about */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"

/* The question is the call itself: TRY(rmdir("e")). */
#define TRY(call) ASK(#call, call)

/* The same under a name that is printed: ASK(text, call). */
#define ASK(question, call)                            \
    ({                                                 \
        errno = 0;                                     \
        long result_ = (long)(call);                   \
        answer(__func__, question, result_, errno);    \
        result_;                                       \
    })

/* A result that Linux may choose, such as the number of a descriptor: only whether the call fails is printed. */
#define WORKS(call) ASK(#call, (call) < 0 ? -1 : 0)

/* A text that is printed as it is: SAY("contents", "%s", text). */
#define SAY(question, ...)                             \
    do {                                               \
        printf("%s: %s = ", __func__, question);       \
        printf(__VA_ARGS__);                           \
        putchar('\n');                                 \
    } while (0)

static inline void answer(const char *function, const char *question, long result, int error) {
    if (result == -1 && error)
        printf("%s: %s = -1 %s\n", function, question, strerrorname_np(error));
    else
        printf("%s: %s = %ld\n", function, question, result);
    fflush(stdout);
}

/* Closes a descriptor that a call has made; -1 stays -1. */
static inline int opened(int fd) {
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return fd < 0 ? -1 : 0;
}

static inline void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        printf("put %s: %s\n", path, strerror(errno));
    close(fd);
}
