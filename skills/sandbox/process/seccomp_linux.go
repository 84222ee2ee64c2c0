//go:build amd64 || arm64

package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls lists the system calls that are allowed on every architecture. Others
// fail with EPERM: sockets, processes, mounts, tracing, shared memory, queues,
// keys, modules, and calls of later kernels.
var calls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_LSEEK, unix.SYS_CLOSE,
	unix.SYS_FSTAT, unix.SYS_STATX, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2,
	unix.SYS_GETDENTS64, unix.SYS_READLINKAT, unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FCNTL, unix.SYS_PIPE2,
	unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_BRK, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_MEMBARRIER,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGTIMEDWAIT,
	unix.SYS_SIGALTSTACK, unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RESTART_SYSCALL,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES,
	unix.SYS_GETTIMEOFDAY, unix.SYS_TIMES, unix.SYS_GETITIMER, unix.SYS_SETITIMER, unix.SYS_GETRUSAGE, unix.SYS_GETCPU, unix.SYS_UNAME, unix.SYS_SYSINFO,
	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETPGID,
	unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_PRLIMIT64, unix.SYS_GETRLIMIT, unix.SYS_FUTEX,
	unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_GETRANDOM,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_EXECVE, unix.SYS_EXECVEAT,
}

// Offsets of the fields of struct seccomp_data (linux/seccomp.h), and the
// results of a filter.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16 // eight bytes each, the low half first

	permit = unix.SECCOMP_RET_ALLOW
	deny   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
)

// rules is a classic BPF program that filters system calls.
type rules []unix.SockFilter

func (r *rules) load(at uint32) {
	*r = append(*r, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
}
func (r *rules) ret(v uint32) {
	*r = append(*r, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v})
}

// jump skips yes instructions if the test holds, otherwise no.
func (r *rules) jump(test uint16, k uint32, yes, no uint8) {
	*r = append(*r, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k, Jt: yes, Jf: no})
}

// when returns v for system call number.
func (r *rules) when(number, v uint32) {
	r.jump(unix.BPF_JEQ, number, 0, 1)
	r.ret(v)
}

// filter returns the program that checks system calls and their arguments.
func filter() rules {
	var r rules
	r.load(atArch)
	r.jump(unix.BPF_JEQ, arch, 1, 0)
	r.ret(unix.SECCOMP_RET_KILL_PROCESS)
	r.load(atNumber)
	for _, list := range [][]uint32{calls, archCalls} {
		for _, n := range list {
			r.when(n, permit)
		}
	}
	r.when(unix.SYS_CLONE3, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)) // its flags are in memory, which a filter cannot read; libraries fall back to clone
	r.when(unix.SYS_IOCTL, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOTTY))
	// Threads but no processes.
	r.jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4)
	r.load(atArgs)
	r.jump(unix.BPF_JSET, unix.CLONE_THREAD, 0, 1)
	r.ret(permit)
	r.ret(deny)
	// Only private memory of fixed size, which the limits count.
	r.jump(unix.BPF_JEQ, unix.SYS_MMAP, 0, 4)
	r.load(atArgs + 3*8)
	r.jump(unix.BPF_JSET, unix.MAP_SHARED|unix.MAP_GROWSDOWN, 0, 1)
	r.ret(deny)
	r.ret(permit)
	// A name for a thread or for memory.
	r.jump(unix.BPF_JEQ, unix.SYS_PRCTL, 0, 5)
	r.load(atArgs)
	r.jump(unix.BPF_JEQ, unix.PR_SET_VMA, 2, 0)
	r.jump(unix.BPF_JEQ, unix.PR_SET_NAME, 1, 0)
	r.ret(deny)
	r.ret(permit)
	r.ret(deny)
	return r
}

// install applies the filter to this thread and the program it becomes.
func (r rules) install() error {
	prog := unix.SockFprog{Len: uint16(len(r)), Filter: &r[0]}
	if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return e
	}
	return nil
}
