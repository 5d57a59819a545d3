// The smallest useful program: two system calls, no stack, no data segment.
    .file "hello.s"
    .globl _start
_start:
    mov x0, #1              // standard output
    adr x1, message
    mov x2, #message_size
    mov x8, #64             // write
    svc #0
    mov x0, #0
    mov x8, #94             // exit_group
    svc #0

message:
    .ascii "Hello from AArch64.\n"
    .equ message_size, . - message
