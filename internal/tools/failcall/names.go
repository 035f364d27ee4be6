//go:build linux && amd64

package main

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// nameOf returns a call's name, or its number. Variants of a call that fail differently, or
// that only Go's runtime uses, have their own names.
func nameOf(tid int, nr uint64, args [4]uint64) string {
	name, ok := names[nr]
	switch {
	case !ok:
		return strconv.FormatUint(nr, 10)
	case name == "clone" && args[0]&unix.CLONE_THREAD != 0:
		return "clone:thread"
	case name == "read", name == "write":
		switch kind := descriptor(tid, args[0]); {
		case kind == "anon_inode:[eventfd]":
			return name + ":eventfd"
		case strings.HasPrefix(kind, "pipe:"):
			return name + ":pipe"
		case strings.HasPrefix(kind, "socket:"):
			return name + ":socket"
		}
	}
	return name
}

// number returns the number of the call with this name, "" if there is none.
func number(call string) string {
	kind, _, _ := strings.Cut(call, ":")
	for nr, name := range names {
		if name == kind {
			return strconv.FormatUint(nr, 10)
		}
	}
	if _, err := strconv.ParseUint(call, 10, 32); err != nil {
		return ""
	}
	return call
}

var names = map[uint64]string{
	unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_CLOSE: "close", unix.SYS_FSTAT: "fstat", unix.SYS_POLL: "poll", unix.SYS_LSEEK: "lseek",
	unix.SYS_MMAP: "mmap", unix.SYS_MUNMAP: "munmap", unix.SYS_RT_SIGACTION: "rt_sigaction", unix.SYS_RT_SIGPROCMASK: "rt_sigprocmask",
	unix.SYS_RT_SIGRETURN: "rt_sigreturn", unix.SYS_PREAD64: "pread64", unix.SYS_PWRITE64: "pwrite64", unix.SYS_SCHED_YIELD: "sched_yield",
	unix.SYS_MADVISE: "madvise", unix.SYS_NANOSLEEP: "nanosleep", unix.SYS_GETPID: "getpid", unix.SYS_SOCKET: "socket",
	unix.SYS_CONNECT: "connect", unix.SYS_SENDTO: "sendto", unix.SYS_RECVFROM: "recvfrom", unix.SYS_BIND: "bind", unix.SYS_SHUTDOWN: "shutdown",
	unix.SYS_GETSOCKNAME: "getsockname", unix.SYS_GETPEERNAME: "getpeername", unix.SYS_SETSOCKOPT: "setsockopt",
	unix.SYS_GETSOCKOPT: "getsockopt", unix.SYS_CLONE: "clone", unix.SYS_CLONE3: "clone3", unix.SYS_EXECVE: "execve",
	unix.SYS_EXIT: "exit", unix.SYS_WAIT4: "wait4", unix.SYS_KILL: "kill", unix.SYS_UNAME: "uname", unix.SYS_FCNTL: "fcntl",
	unix.SYS_FLOCK: "flock", unix.SYS_FSYNC: "fsync", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_READLINK: "readlink",
	unix.SYS_GETEUID: "geteuid", unix.SYS_SETPGID: "setpgid", unix.SYS_SETSID: "setsid", unix.SYS_GETPPID: "getppid", unix.SYS_GETPGRP: "getpgrp",
	unix.SYS_GETPGID: "getpgid", unix.SYS_STATFS: "statfs", unix.SYS_SIGALTSTACK: "sigaltstack", unix.SYS_GETPRIORITY: "getpriority", unix.SYS_SETPRIORITY: "setpriority", unix.SYS_MLOCKALL: "mlockall",
	unix.SYS_CAPGET: "capget", unix.SYS_CLOSE_RANGE: "close_range", unix.SYS_PRCTL: "prctl", unix.SYS_ARCH_PRCTL: "arch_prctl", unix.SYS_GETTID: "gettid", unix.SYS_FUTEX: "futex",
	unix.SYS_SCHED_GETAFFINITY: "sched_getaffinity", unix.SYS_GETDENTS64: "getdents64", unix.SYS_RESTART_SYSCALL: "restart_syscall",
	unix.SYS_TIMER_CREATE: "timer_create", unix.SYS_TIMER_SETTIME: "timer_settime", unix.SYS_CLOCK_GETTIME: "clock_gettime",
	unix.SYS_EXIT_GROUP: "exit_group", unix.SYS_EPOLL_CTL: "epoll_ctl", unix.SYS_TGKILL: "tgkill", unix.SYS_WAITID: "waitid",
	unix.SYS_INOTIFY_ADD_WATCH: "inotify_add_watch", unix.SYS_INOTIFY_RM_WATCH: "inotify_rm_watch", unix.SYS_INOTIFY_INIT1: "inotify_init1",
	unix.SYS_OPENAT: "openat", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHMODAT: "fchmodat", unix.SYS_NEWFSTATAT: "newfstatat", unix.SYS_UNLINKAT: "unlinkat",
	unix.SYS_RENAMEAT: "renameat", unix.SYS_READLINKAT: "readlinkat", unix.SYS_FACCESSAT: "faccessat", unix.SYS_FACCESSAT2: "faccessat2",
	unix.SYS_PPOLL: "ppoll", unix.SYS_EPOLL_PWAIT: "epoll_pwait", unix.SYS_TIMERFD_CREATE: "timerfd_create",
	unix.SYS_TIMERFD_SETTIME: "timerfd_settime", unix.SYS_EVENTFD2: "eventfd2", unix.SYS_EPOLL_CREATE1: "epoll_create1",
	unix.SYS_DUP3: "dup3", unix.SYS_PIPE2: "pipe2", unix.SYS_PRLIMIT64: "prlimit64", unix.SYS_GETRANDOM: "getrandom",
	unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal", unix.SYS_PIDFD_OPEN: "pidfd_open",
}
