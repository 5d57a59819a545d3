/*
 * Runs A64 words from given machine states and reports the states in which they stopped.
 *
 * A freestanding AArch64 Linux program. It reads fixed-size `struct request` records on stdin and answers
 * each with one `struct answer` and its changed data words on stdout (layouts: qemu.py packs the same).
 *
 * The loop lives in the signal handler. Each case ends in a signal (BRK -> SIGTRAP, a fault -> SIGSEGV or
 * SIGBUS, an undefined word -> SIGILL, too long -> SIGPROF); the handler reports the interrupted context,
 * overwrites it with the next case, and returns into it: the kernel's sigreturn loads all registers at once,
 * so no register has to be spared for this program, and the exclusive monitor starts clear.
 *
 * It must not own memory that a case is likely to touch, hence no libc (no TLS, no heap), an odd link
 * address, and no initial stack.
 */
#include <asm/sigcontext.h>
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <asm/ucontext.h>
#include <asm/unistd.h>

typedef __u64 u64;
typedef __u32 u32;

enum { MAX_WORDS = 256, DATA_WORDS = DATA_SIZE / 8, BRK_WORD = 0xd4200000, TICK_MICROSECONDS = 20000 };
enum { PROT_R = 1, PROT_W = 2, PROT_X = 4, MAP_PRIVATE_FIXED_ANON = 0x32, CLOCK_PROF = 2 };
enum { KIND_TIMEOUT, KIND_BRK, KIND_FAULT, KIND_ALIGNMENT, KIND_UNDEFINED };

struct request {
    u32 count, reserved;
    u32 words[MAX_WORDS];
    u64 x[31], sp, tpidr, nzcv, seed;
    u32 fpcr, fpsr;
    __uint128_t v[32];
} __attribute__((packed));

struct answer {
    u32 kind, changes;
    u64 pc, address, x[31], sp, tpidr, nzcv;
    u32 fpcr, fpsr;
    __uint128_t v[32];
} __attribute__((packed));

struct change {
    u64 offset, value;
};

_Static_assert(sizeof(struct request) == REQUEST_BYTES, "qemu.py packs another request");
_Static_assert(sizeof(struct answer) == ANSWER_BYTES, "qemu.py reads another answer");

static struct request request;
static struct {
    struct answer head;
    struct change changes[DATA_WORDS];
} report;
static u64 original[DATA_WORDS];
static u32 loaded[MAX_WORDS], loaded_count;
static int seeded, started, ticks;
static char handler_stack[65536] __attribute__((aligned(4096)));
void restore(void);
char main_stack[16384] __attribute__((aligned(16)));

static long call(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 asm("x8") = number;
    register long x0 asm("x0") = a;
    register long x1 asm("x1") = b;
    register long x2 asm("x2") = c;
    register long x3 asm("x3") = d;
    register long x4 asm("x4") = e;
    register long x5 asm("x5") = f;
    asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

static void leave(int code)
{
    for (;;)
        call(__NR_exit_group, code, 0, 0, 0, 0, 0);
}

/* Stops the program with `code` unless all bytes go through. */
static void transfer(long number, int file, void *data, long length, int code)
{
    for (char *at = data; length > 0;) {
        long done = call(number, file, (long)at, length, 0, 0, 0);
        if (done <= 0)
            leave(code);
        at += done;
        length -= done;
    }
}

static void map(u64 start, u64 length, int prot)
{
    if ((u64)call(__NR_mmap, start, length, prot, MAP_PRIVATE_FIXED_ANON, -1, 0) != start)
        leave(10);
}

static void protect_code(int prot)
{
    if (call(__NR_mprotect, ENTRY, 4096, prot, 0, 0, 0))
        leave(11);
}

/* splitmix64 in counter form; case.py has the same in numpy. */
static u64 data_word(u64 seed, u64 index)
{
    u64 z = seed + (index + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void load_data(u64 previous_seed)
{
    u64 *data = (u64 *)DATA_BASE;
    int fresh = !seeded || previous_seed != request.seed;
    seeded = 1;
    for (u32 i = 0; fresh && i < DATA_WORDS; i++)
        data[i] = original[i] = data_word(request.seed, i);
    for (u32 i = 0; i < report.head.changes; i++)
        data[report.changes[i].offset / 8] = original[report.changes[i].offset / 8];
}

/* Rewriting code costs a translation, so equal words in a row are left alone. */
static void load_words(void)
{
    volatile u32 *code = (u32 *)ENTRY;
    int same = request.count == loaded_count;
    for (u32 i = 0; same && i < loaded_count; i++)
        same = loaded[i] == request.words[i];
    if (same)
        return;
    protect_code(PROT_R | PROT_W);
    for (u32 i = 0; i < loaded_count; i++)
        code[i] = BRK_WORD;
    for (u32 i = 0; i < request.count; i++)
        code[i] = loaded[i] = request.words[i];
    loaded_count = request.count;
    protect_code(PROT_R | PROT_X);
    __builtin___clear_cache((char *)ENTRY, (char *)ENTRY + sizeof loaded);
}

static struct fpsimd_context *simd(struct ucontext *context)
{
    return (struct fpsimd_context *)context->uc_mcontext.__reserved;
}

static void collect_changes(void)
{
    const u64 *data = (const u64 *)DATA_BASE;
    u32 changes = 0;
    for (u32 i = 0; i < DATA_WORDS; i++)
        if (data[i] != original[i])
            report.changes[changes++] = (struct change){i * 8, data[i]};
    report.head.changes = changes;
}

static void send_answer(u32 kind, u64 address, struct ucontext *context)
{
    struct answer *answer = &report.head;
    struct sigcontext *machine = &context->uc_mcontext;
    struct fpsimd_context *vectors = simd(context);
    collect_changes();
    answer->kind = kind;
    answer->pc = machine->pc;
    answer->address = address;
    for (int i = 0; i < 31; i++)
        answer->x[i] = machine->regs[i];
    answer->sp = machine->sp;
    asm volatile("mrs %0, tpidr_el0" : "=r"(answer->tpidr));
    answer->nzcv = machine->pstate >> 28 & 15;
    answer->fpcr = vectors->fpcr;
    answer->fpsr = vectors->fpsr;
    for (int i = 0; i < 32; i++)
        answer->v[i] = vectors->vregs[i];
    transfer(__NR_write, 1, &report, sizeof report.head + answer->changes * sizeof report.changes[0], 12);
}

static void read_request(void)
{
    long first = call(__NR_read, 0, (long)&request, sizeof request, 0, 0, 0);
    if (first <= 0)
        leave(first < 0 ? 13 : 0);
    transfer(__NR_read, 0, (char *)&request + first, sizeof request - first, 13);
    if (request.count < 1 || request.count > MAX_WORDS)
        leave(14);
}

static void start_case(u64 previous_seed, struct ucontext *context)
{
    struct sigcontext *machine = &context->uc_mcontext;
    struct fpsimd_context *vectors = simd(context);
    load_data(previous_seed);
    load_words();
    report.head.changes = 0;
    machine->pc = ENTRY;
    for (int i = 0; i < 31; i++)
        machine->regs[i] = request.x[i];
    machine->sp = request.sp;
    asm volatile("msr tpidr_el0, %0" : : "r"(request.tpidr));
    machine->pstate = request.nzcv << 28;
    vectors->head = (struct _aarch64_ctx){FPSIMD_MAGIC, sizeof *vectors};
    vectors->fpcr = request.fpcr;
    vectors->fpsr = request.fpsr;
    for (int i = 0; i < 32; i++)
        vectors->vregs[i] = request.v[i];
    /* End the list here: an SVE record behind it would overwrite the vectors. */
    *(struct _aarch64_ctx *)(vectors + 1) = (struct _aarch64_ctx){0, 0};
}

static u32 kind_of(int number)
{
    return number == SIGTRAP ? KIND_BRK : number == SIGSEGV ? KIND_FAULT : number == SIGBUS ? KIND_ALIGNMENT
         : number == SIGILL ? KIND_UNDEFINED : KIND_TIMEOUT;
}

static void on_signal(int number, struct siginfo *info, struct ucontext *context)
{
    u64 previous_seed = request.seed;
    if (simd(context)->head.magic != FPSIMD_MAGIC)
        leave(15);
    if (number == SIGPROF && !started)
        return;
    /* The clock runs freely: the first tick in a case may come early, so it gets a second, whole run. */
    if (number == SIGPROF && !ticks++) {
        collect_changes();
    } else {
        if (started)
            send_answer(kind_of(number), number == SIGSEGV || number == SIGBUS ? (u64)info->si_addr : 0, context);
        started = 1;
        ticks = 0;
        read_request();
    }
    start_case(previous_seed, context);
}

static void catch(int number)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER, .sa_mask = {{~0ul}}};
    action.sa_handler = (__sighandler_t)(void *)on_signal;
    action.sa_restorer = restore;
    if (call(__NR_rt_sigaction, number, (long)&action, 0, sizeof action.sa_mask, 0, 0))
        leave(16);
}

void begin(u64 initial_stack)
{
    static const int caught[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGPROF};
    static const long tick[4] = {0, TICK_MICROSECONDS, 0, TICK_MICROSECONDS};
    stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    u64 middle = initial_stack & ~0xffffffull;
    call(__NR_munmap, middle - 0x1000000, 0x3000000, 0, 0, 0, 0);
    map(DATA_BASE, DATA_SIZE, PROT_R | PROT_W);
    map(CODE_BASE, CODE_SIZE, PROT_R | PROT_W);
    for (u64 at = CODE_BASE; at < CODE_BASE + CODE_SIZE; at += 4)
        *(u32 *)at = BRK_WORD;
    if (call(__NR_mprotect, CODE_BASE, CODE_SIZE, PROT_R | PROT_X, 0, 0, 0))
        leave(11);
    if (call(__NR_sigaltstack, (long)&stack, 0, 0, 0, 0, 0))
        leave(17);
    for (u32 i = 0; i < sizeof caught / sizeof caught[0]; i++)
        catch(caught[i]);
    if (call(__NR_setitimer, CLOCK_PROF, (long)tick, 0, 0, 0, 0))
        leave(18);
    asm volatile("brk #0");
    leave(19);
}

asm(".global _start\n"
    "_start:\n"
    "    mov x0, sp\n"
    "    adrp x1, main_stack\n"
    "    add x1, x1, :lo12:main_stack\n"
    "    add sp, x1, #16384\n"
    "    b begin\n"
    "restore:\n"
    "    mov x8, #139\n" /* rt_sigreturn */
    "    svc #0\n");
