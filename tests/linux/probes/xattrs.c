/* Extended attributes: names, values, flags, and which kinds of files have them. */
#include "probe.h"
#include <sys/xattr.h>

static char value[70000];

/* The names of a file, each once, without those that the machine itself gives to files. */
static void list(const char *path) {
    char names[2000], text[2000] = "";
    ssize_t length = llistxattr(path, names, sizeof names);
    if (length < 0)
        strcpy(text, strerrorname_np(errno));
    static const char *const ours[] = {"security.kvrm", "trusted.kvrm", "user.a", "user.b", "user.empty"};
    for (int i = 0; i < 5; i++)
        for (ssize_t at = 0; at < length; at += strlen(names + at) + 1)
            if (!strcmp(names + at, ours[i]))
                sprintf(text + strlen(text), " %s", ours[i]);
    SAY(path, "%s", text);
}

static void setting(void) {
    put("f", "");
    TRY(setxattr("f", "user.a", "value", 5, 0));
    TRY(getxattr("f", "user.a", value, sizeof value));
    SAY("value", "%.5s", value);
    TRY(getxattr("f", "user.a", value, 0));
    TRY(getxattr("f", "user.a", NULL, 0));
    TRY(getxattr("f", "user.a", value, 4));
    TRY(getxattr("f", "user.a", value, 5));
    TRY(getxattr("f", "user.a", (void *)8, 5));
    TRY(getxattr("f", "user.none", value, 5));
    TRY(setxattr("f", "user.a", "x", 1, XATTR_CREATE));
    TRY(setxattr("f", "user.b", "x", 1, XATTR_REPLACE));
    TRY(setxattr("f", "user.b", "x", 1, XATTR_CREATE));
    TRY(setxattr("f", "user.b", "yy", 2, XATTR_REPLACE));
    TRY(setxattr("f", "user.b", "x", 1, XATTR_CREATE | XATTR_REPLACE));
    TRY(setxattr("f", "user.c", "x", 1, XATTR_CREATE | XATTR_REPLACE));
    TRY(setxattr("f", "user.b", "x", 1, 4));
    TRY(setxattr("f", "user.empty", "", 0, 0));
    TRY(setxattr("f", "user.empty", NULL, 0, 0));
    TRY(getxattr("f", "user.empty", value, 10));
    list("f");
    TRY(listxattr("f", value, 1));
    TRY(listxattr("f", (void *)8, 1000));
    TRY(removexattr("f", "user.a"));
    TRY(removexattr("f", "user.a"));
    list("f");
    TRY(rename("f", "g"));
    list("g");
    TRY(link("g", "h"));
    TRY(unlink("g"));
    list("h");
    TRY(unlink("h"));
    put("h", "");
    list("h");
}

static void names(void) {
    static const char *const tried[] = {"", "user", "user.", "other.a", "system.a", "system.posix_acl_access", "security.kvrm",
                                        "trusted.kvrm", "trusted.", "security.", ".", "user.a.b", "USER.a", "a"};
    char text[300];
    put("f", "");
    for (int i = 0; i < 14; i++) {
        sprintf(text, "set '%s'", tried[i]);
        if (i != 5) /* what an access list must look like is another matter */
            ASK(text, setxattr("f", tried[i], "v", 1, 0));
        sprintf(text, "get '%s'", tried[i]);
        ASK(text, getxattr("f", tried[i], value, 10));
        sprintf(text, "remove '%s'", tried[i]);
        if (i != 5)
            ASK(text, removexattr("f", tried[i]));
    }
    strcpy(text, "user.");
    memset(text + 5, 'a', 250);
    text[255] = 0;
    TRY(setxattr("f", text, "v", 1, 0));
    text[255] = 'a', text[256] = 0;
    TRY(setxattr("f", text, "v", 1, 0));
    TRY(getxattr("f", text, value, 1));
    TRY(removexattr("f", text));
    TRY(setxattr("f", (void *)8, "v", 1, 0));
    TRY(setxattr("f", "user.a", (void *)8, 1, 0));
    TRY(setxattr("f", "user.a", value, 65537, 0));
    TRY(setxattr("f", "user.a", (void *)8, 65537, 0));
    TRY(setxattr("none", "user.a", value, 65537, 0));
    TRY(setxattr("none", "user.a", value, 1, 8));
    TRY(setxattr("none", "", value, 1, 0));
    TRY(setxattr("none", "user.a", value, 1, 0));
    TRY(getxattr("none", "", value, 1));
    TRY(getxattr("none", "user.a", value, 1));
    TRY(listxattr("none", value, 1));
    TRY(removexattr("none", "user.a"));
}

static void kinds(void) {
    static const char *const tried[] = {"f", "d", "l", "dangling", "fifo", "/dev/null", "/proc/self/status", "l/", "f/"};
    put("f", "");
    mkdir("d", 0755);
    symlink("f", "l");
    symlink("none", "dangling");
    char fifo[60], text[100];
    sprintf(fifo, "/dev/shm/kvrm-fifo-%d", getpid());
    mkfifo(fifo, 0600);
    for (int i = 0; i < 9; i++) {
        const char *path = i == 4 ? fifo : tried[i];
        sprintf(text, "set %s", tried[i]);
        if (*tried[i] != '/' || i == 6)
            ASK(text, setxattr(path, "user.a", "v", 1, 0));
        sprintf(text, "lset %s", tried[i]);
        if (*tried[i] != '/' || i == 6)
            ASK(text, lsetxattr(path, "user.a", "v", 1, 0));
        sprintf(text, "get %s", tried[i]);
        ASK(text, getxattr(path, "user.a", value, 10));
        sprintf(text, "lget %s", tried[i]);
        ASK(text, lgetxattr(path, "user.a", value, 10));
        sprintf(text, "lremove %s", tried[i]);
        if (*tried[i] != '/' || i == 6)
            ASK(text, lremovexattr(path, "user.a"));
    }
    unlink(fifo);
    int ends[2], fd = open("f", O_RDONLY), named = open("f", O_PATH), d = open("d", O_RDONLY);
    pipe(ends);
    TRY(fsetxattr(fd, "user.a", "v", 1, 0));
    TRY(fgetxattr(fd, "user.a", value, 1));
    TRY(flistxattr(fd, value, 0) >= 7);
    TRY(fsetxattr(named, "user.a", "v", 1, 0));
    TRY(fgetxattr(named, "user.a", value, 1));
    TRY(flistxattr(named, value, 0));
    TRY(fsetxattr(d, "user.b", "v", 1, 0));
    TRY(fremovexattr(d, "user.b"));
    TRY(fsetxattr(ends[0], "user.a", "v", 1, 0));
    TRY(fgetxattr(ends[0], "user.a", value, 1));
    TRY(fsetxattr(0, "user.a", "v", 1, 0));
    TRY(fgetxattr(0, "user.a", value, 1));
    TRY(fsetxattr(99, "user.a", "v", 1, 0));
    TRY(fremovexattr(99, "user.a"));
    TRY(flistxattr(99, value, 1));
}

int main(void) {
    setting();
    names();
    kinds();
}
