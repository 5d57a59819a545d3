"""What each system call does, by topic. A handler takes the process and the decoded arguments.

It returns the result (never negative), raises Failure for an error, or Finish to end the run. GuestFault
becomes EFAULT and OSError its own number, in `Process.syscall`.
"""
