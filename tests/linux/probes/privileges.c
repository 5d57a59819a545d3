/* Users, groups and capabilities of an ordinary process, and what it may not do. */
#include "probe.h"
#include <linux/capability.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mount.h>

#define BAD ((void *)8)
#define NOBODY 999999
#define CALL(name, ...) ASK(#name " " #__VA_ARGS__, syscall(SYS_##name, __VA_ARGS__))

static void users(void) {
    unsigned uid = getuid(), gid = getgid(), ids[3] = {1, 2, 3};
    CALL(getresuid, &ids[0], &ids[1], &ids[2]);
    SAY("all the same", "%d", ids[0] == uid && ids[1] == uid && ids[2] == uid);
    CALL(getresuid, BAD, &ids[1], &ids[2]);
    CALL(getresgid, &ids[0], &ids[1], &ids[2]);
    SAY("all the same", "%d", ids[0] == gid && ids[1] == gid && ids[2] == gid);
    CALL(setuid, uid);
    CALL(setuid, uid + 1);
    CALL(setuid, -1);
    CALL(setgid, gid);
    CALL(setgid, gid + 1);
    CALL(setgid, -1);
    CALL(setreuid, -1, -1);
    CALL(setreuid, uid, -1);
    CALL(setreuid, -1, uid + 1);
    CALL(setregid, gid, gid);
    CALL(setregid, gid + 1, -1);
    CALL(setresuid, -1, -1, -1);
    CALL(setresuid, uid, uid, uid + 1);
    CALL(setresgid, -1, gid, -1);
    CALL(setresgid, gid + 1, -1, -1);
    SAY("setfsuid", "%d", syscall(SYS_setfsuid, -1) == uid);
    SAY("setfsuid", "%d", syscall(SYS_setfsuid, uid + 1) == uid);
    SAY("setfsuid", "%d", syscall(SYS_setfsuid, uid) == uid);
    SAY("setfsgid", "%d", syscall(SYS_setfsgid, gid + 1) == gid);
    SAY("setfsgid", "%d", syscall(SYS_setfsgid, -1) == gid);
    CALL(setgroups, 0, NULL);
    CALL(setgroups, 1 << 20, NULL);
    CALL(setgroups, 1, BAD);
    WORKS(syscall(SYS_getgroups, 0, NULL));
    CALL(getgroups, -1, NULL);
}

struct data {
    uint32_t effective, permitted, inheritable;
};

static void capabilities(void) {
    struct {
        uint32_t version;
        int pid;
    } header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct data data[2];
    memset(data, 0x55, sizeof data);
    CALL(capget, &header, data);
    SAY("of this process", "%x %x %x", data[0].effective, data[1].permitted, data[1].inheritable);
    CALL(capset, &header, data);
    data[0].permitted = 1;
    CALL(capset, &header, data);
    data[0].permitted = 0, data[0].effective = 1;
    CALL(capset, &header, data);
    data[0].effective = 0, data[0].inheritable = 1;
    CALL(capset, &header, data);
    CALL(capset, &header, BAD);
    CALL(capget, &header, NULL);
    CALL(capget, &header, BAD);
    CALL(capget, BAD, data);
    CALL(capset, BAD, data);
    header.version = _LINUX_CAPABILITY_VERSION_1;
    memset(data, 0x55, sizeof data);
    CALL(capget, &header, data);
    SAY("the first version", "%x %x", data[0].inheritable, data[1].effective);
    header.version = 77;
    CALL(capget, &header, data);
    SAY("the version that is known", "%x", header.version);
    header.version = 77;
    CALL(capget, &header, NULL);
    header.version = 77;
    CALL(capset, &header, data);
    header.version = _LINUX_CAPABILITY_VERSION_3;
    header.pid = getpid();
    CALL(capget, &header, data);
    CALL(capset, &header, data);
    header.pid = NOBODY;
    CALL(capget, &header, data);
    CALL(capset, &header, data);
    header.pid = -1;
    CALL(capget, &header, data);
    CALL(capset, &header, data);
    header.pid = 1;
    CALL(capset, &header, data);
}

static void not_permitted(void) {
    CALL(chroot, "/");
    CALL(chroot, "/nowhere");
    CALL(chroot, "/dev/null");
    CALL(chroot, BAD);
    CALL(mount, "a", "/nowhere", "c", 0, NULL);
    CALL(mount, "a", "/", "proc", 0, NULL);
    CALL(mount, BAD, "/", "proc", 0, NULL);
    CALL(mount, "a", BAD, "proc", 0, NULL);
    CALL(umount2, "/", 0);
    CALL(umount2, "/nowhere", 0);
    CALL(umount2, "/", 1 << 20);
    CALL(pivot_root, "/", "/");
    CALL(reboot, 0, 0, 0, NULL);
    CALL(sethostname, "x", 1);
    CALL(sethostname, BAD, -1);
    CALL(setdomainname, "x", 1);
    CALL(swapon, "/nowhere", 0);
    CALL(swapon, "/nowhere", 1 << 20);
    CALL(swapoff, "/nowhere");
    CALL(acct, NULL);
    CALL(vhangup, 0);
    CALL(quotactl, 0, NULL, 0, NULL);
    CALL(quotactl, 0x80000100, NULL, 0, NULL);
    CALL(quotactl, 3, NULL, 0, NULL);
    CALL(syslog, 5, NULL, 0);
    CALL(syslog, 77, NULL, 0);
    CALL(unshare, 0);
    CALL(unshare, CLONE_FILES | CLONE_FS);
    CALL(unshare, CLONE_NEWNS);
    CALL(unshare, CLONE_NEWUTS);
    CALL(unshare, 1);
    CALL(setns, -1, 0);
    CALL(setns, 0, 0);
}

int main(void) {
    /* root has capabilities, a guest has none */
    if (getuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
        errno = 0;
    users();
    capabilities();
    not_permitted();
    return 0;
}
