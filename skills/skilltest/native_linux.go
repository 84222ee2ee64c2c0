//go:build amd64 || arm64

package skilltest

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mm-abi.org/mm/skills/sandbox"
)

// NativeName is the file name of the guest in an image.
const NativeName = "guest"

// Native is a native guest.
type Native struct {
	Name string
	Ends []sandbox.Kind // allowed ends of its call; nil: it must print "no"
	do   func()
}

// ActNative runs the native guest with a name and reports whether there is
// one. A test's program is the guest: its TestMain calls ActNative.
func ActNative(name string) bool {
	for _, g := range append(nativeSuite(), Natives()...) {
		if g.Name == name {
			g.do()
			return true
		}
	}
	return false
}

// nativeSuite returns the behaviors of the suite and two for single tests.
func nativeSuite() []Native {
	var all []Native
	for name, do := range nativeActs() {
		all = append(all, Native{Name: name, do: do})
	}
	return all
}

func nativeActs() map[string]func() {
	return map[string]func(){
		Echo: func() {
			b, err := io.ReadAll(os.Stdin)
			if err != nil {
				panic(err)
			}
			fmt.Printf(`{"echo":%s}`, b)
		},
		Loop: spin,
		Hungry: func() {
			for held := [][]byte{}; ; {
				held = append(held, make([]byte, 1<<20))
			}
		},
		Flood: func() {
			for b := make([]byte, 4096); ; {
				os.Stdout.Write(b)
			}
		},
		Trap: func() {
			runtime.LockOSThread()
			var action [64]byte // SIG_DFL
			rawCall(unix.SYS_RT_SIGACTION, uintptr(unix.SIGSEGV), uintptr(unsafe.Pointer(&action)), 0, 8)
			*(*int)(nowhere()) = 1
		},
		Exit:  func() { os.Exit(3) },
		World: func() { fmt.Printf("%q %q", os.Environ(), os.Args) },
		Read: func() {
			b, err := os.ReadFile("/in/img0")
			if err != nil {
				panic(err)
			}
			fmt.Printf(`{"text":%q}`, b)
		},
		"allowed": func() {
			b, err := os.ReadFile(os.Getenv("MM_DIR") + "/file")
			if err != nil {
				panic(err)
			}
			fmt.Printf("%s %s %v", b, os.Environ(), os.WriteFile(os.Getenv("MM_DIR")+"/new", nil, 0o644))
		},
		"holds": func() { time.Sleep(time.Hour) },
	}
}

//go:noinline
func nowhere() unsafe.Pointer { return nil }

func spin() {
	for i := 0; ; i++ {
		if i < 0 {
			return
		}
	}
}

func rawCall(number uintptr, a ...uintptr) unix.Errno {
	var p [6]uintptr
	copy(p[:], a)
	_, _, e := unix.Syscall6(number, p[0], p[1], p[2], p[3], p[4], p[5])
	return e
}

// deny prints "no" if every call fails, otherwise the calls that succeed.
func deny(calls map[string]func() unix.Errno) func() {
	return func() {
		succeeded := []string{}
		for name, f := range calls {
			if f() == 0 {
				succeeded = append(succeeded, name)
			}
		}
		if len(succeeded) == 0 {
			fmt.Print(`"no"`)
		} else {
			fmt.Printf("%q", succeeded)
		}
	}
}

// systemCalls makes system calls by number with plausible arguments.
func systemCalls(numbers map[string][]uintptr) func() {
	calls := map[string]func() unix.Errno{}
	for name, a := range numbers {
		calls[name] = func() unix.Errno { return rawCall(a[0], a[1:]...) }
	}
	return deny(calls)
}

func str(s string) uintptr {
	b := append([]byte(s), 0)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

var kept [][]byte

func toErrno(err error) unix.Errno {
	if err == nil {
		return 0
	}
	return unix.EPERM
}

// Natives returns hostile native guests. Most try forbidden operations and
// print "no" if none succeeds.
func Natives() []Native {
	var all []Native
	harm := func(name string, do func(), ends ...sandbox.Kind) { all = append(all, Native{name, ends, do}) }
	acts := nativeActs()
	resources(harm, acts)
	reach(harm)
	calls(harm)
	return all
}

// resources adds guests that exhaust resources.
func resources(harm func(string, func(), ...sandbox.Kind), acts map[string]func()) {
	harm("endless loop", spin, sandbox.Time)
	harm("sleeping", func() { time.Sleep(time.Hour) }, sandbox.Time)
	harm("threads", func() {
		for range 40 {
			go func() { runtime.LockOSThread(); spin() }()
		}
		spin()
	}, sandbox.Time)
	harm("more threads than there are", func() {
		for range 1000 {
			go func() { runtime.LockOSThread(); time.Sleep(time.Hour) }()
		}
		time.Sleep(time.Hour)
	}, sandbox.Time, sandbox.Exit, sandbox.Memory, sandbox.Trap)
	harm("signals ignored", func() {
		signal.Ignore()
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGXCPU)
		spin()
	}, sandbox.Time)
	harm("streams closed", func() { os.Stdin.Close(); os.Stdout.Close(); os.Stderr.Close(); spin() }, sandbox.Time)
	harm("memory bomb", acts[Hungry], sandbox.Memory)
	harm("giant allocation at the start", func() { b := make([]byte, 8<<30); b[1] = 1; fmt.Print(len(b)) }, sandbox.Memory)
	harm("flood", acts[Flood], sandbox.Output)
	harm("flood of the log", func() {
		for b := make([]byte, 4096); ; {
			os.Stderr.Write(b)
		}
	}, sandbox.Output)
	harm("stack overflow", func() { fmt.Print(recurse(1)) }, sandbox.Exit, sandbox.Memory, sandbox.Trap, sandbox.Time)
	harm("illegal access", acts[Trap], sandbox.Trap)
	harm("panic", func() { panic("no") }, sandbox.Exit)
	harm("exit 255", func() { os.Exit(255) }, sandbox.Exit)
}

// reach adds guests that try to reach other processes, files and sockets.
func reach(harm func(string, func(), ...sandbox.Kind)) {
	harm("killing everything", func() {
		signal.Ignore(syscall.SIGTERM)
		rawCall(unix.SYS_KILL, ^uintptr(0), 9)
		rawCall(unix.SYS_KILL, 0, 15)
		for pid := uintptr(2); pid < 5000; pid++ {
			if rawCall(unix.SYS_KILL, pid, 0) == 0 && pid > 128 {
				fmt.Print("yes")
			}
		}
		fmt.Print(`"no"`)
	})
	harm("fork bomb", func() {
		for range 100 {
			if rawCall(unix.SYS_CLONE, uintptr(unix.SIGCHLD)) == 0 {
				fmt.Print("yes")
				os.Exit(0)
			}
		}
		fmt.Print(`"no"`)
	})
	harm("fork by exec", deny(map[string]func() unix.Errno{
		"start": func() unix.Errno {
			_, err := os.StartProcess("/bin/sh", []string{"sh"}, &os.ProcAttr{})
			return toErrno(err)
		},
		"exec": func() unix.Errno { return toErrno(syscall.Exec("/bin/sh", []string{"sh"}, nil)) },
		"exe":  func() unix.Errno { return toErrno(syscall.Exec("/proc/self/exe", []string{"sh"}, nil)) },
	}))
	harm("clone3", systemCalls(map[string][]uintptr{"clone3": {unix.SYS_CLONE3, str("\x00\x00\x00\x00"), 88}}))
	harm("namespaces", systemCalls(map[string][]uintptr{
		"unshare user": {unix.SYS_UNSHARE, unix.CLONE_NEWUSER}, "unshare net": {unix.SYS_UNSHARE, unix.CLONE_NEWNET}, "setns": {unix.SYS_SETNS, 0, 0},
		"clone": {unix.SYS_CLONE, unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)},
	}))
	harm("sockets of every family", func() {
		for family := uintptr(0); family < 50; family++ {
			for _, kind := range []uintptr{1, 2, 3, 4, 5, 10} {
				if rawCall(unix.SYS_SOCKET, family, kind, 0) == 0 {
					fmt.Printf("socket %d %d", family, kind)
					return
				}
			}
		}
		var pair [2]int32
		if rawCall(unix.SYS_SOCKETPAIR, 1, 1, 0, uintptr(unsafe.Pointer(&pair))) == 0 {
			fmt.Print("pair")
		}
		fmt.Print(`"no"`)
	})
	harm("sockets of others", systemCalls(map[string][]uintptr{
		"connect": {unix.SYS_CONNECT, 0, str("x"), 16}, "bind": {unix.SYS_BIND, 0, str("x"), 16}, "accept": {unix.SYS_ACCEPT, 0, 0, 0}, "sendto": {unix.SYS_SENDTO, 1, str("x"), 1, 0, 0, 0},
		"recvmsg": {unix.SYS_RECVMSG, 0, str("x"), 0}, "io_uring": {unix.SYS_IO_URING_SETUP, 8, str(string(make([]byte, 120)))},
	}))
	harm("files", func() {
		found := []string{}
		for _, path := range []string{"/etc/passwd", "../../etc/passwd", "/proc/self/environ", "/proc/1/environ", "/proc/self/root/etc/passwd", "/sys/kernel", "/dev/null", "/dev/mem", "/dev/shm", "/tmp", "/home", "/root", "/work", "/bin/sh", "/in/../etc", "/in/none"} {
			if _, err := os.Stat(path); err == nil {
				found = append(found, path)
			}
			if b, err := os.ReadFile(path); err == nil {
				found = append(found, string(b))
			}
		}
		for _, dir := range []string{"/", "/in"} {
			list, _ := os.ReadDir(dir)
			for _, e := range list {
				if e.Name() != "in" && e.Name() != NativeName {
					found = append(found, e.Name())
				}
			}
		}
		if len(found) > 0 {
			fmt.Printf("%q", found)
			return
		}
		fmt.Print(`"no"`)
	})
	harm("writing", deny(map[string]func() unix.Errno{
		"create": func() unix.Errno { return toErrno(os.WriteFile("/in/x", []byte("x"), 0o644)) }, "root": func() unix.Errno { return toErrno(os.WriteFile("/x", []byte("x"), 0o644)) },
		"mkdir": func() unix.Errno { return toErrno(os.Mkdir("/x", 0o755)) }, "symlink": func() unix.Errno { return toErrno(os.Symlink("/etc", "/in/x")) },
		"link": func() unix.Errno { return toErrno(os.Link("/in", "/x")) }, "rename": func() unix.Errno { return toErrno(os.Rename("/in", "/x")) },
		"remove": func() unix.Errno { return toErrno(os.Remove("/in")) }, "chmod": func() unix.Errno { return toErrno(os.Chmod("/in", 0o777)) },
		"chown": func() unix.Errno { return toErrno(os.Chown("/in", 0, 0)) }, "times": func() unix.Errno { return toErrno(os.Chtimes("/in", time.Now(), time.Now())) },
		"temp":    func() unix.Errno { _, err := os.CreateTemp("/", "x"); return toErrno(err) },
		"tmpfile": func() unix.Errno { _, err := unix.Open("/in", unix.O_TMPFILE|unix.O_RDWR, 0o600); return toErrno(err) },
		"mknod":   func() unix.Errno { return toErrno(unix.Mknod("/x", unix.S_IFCHR|0o666, 0x103)) }, "xattr": func() unix.Errno { return toErrno(unix.Setxattr("/in", "user.x", []byte("x"), 0)) },
	}))
	harm("variables and arguments", func() {
		if len(os.Environ()) > 0 || len(os.Args) > 2 {
			fmt.Printf("%q %q", os.Environ(), os.Args)
			return
		}
		fmt.Print(`"no"`)
	})
	harm("descriptors of mm", func() {
		open := []int{}
		for fd := 3; fd < 1024; fd++ {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != 0 { // descriptors of the Go runtime have no type
				open = append(open, fd)
			}
		}
		if len(open) > 0 {
			fmt.Print(open)
			return
		}
		fmt.Print(`"no"`)
	})
	harm("links of processes", func() {
		found, _ := filepath.Glob("/proc/*")
		if len(found) > 0 {
			fmt.Printf("%q", found)
			return
		}
		fmt.Print(`"no"`)
	})
}

// calls adds guests that try system calls.
func calls(harm func(string, func(), ...sandbox.Kind)) {
	harm("mounts", systemCalls(map[string][]uintptr{
		"mount": {unix.SYS_MOUNT, str("tmpfs"), str("/in"), str("tmpfs"), 0, 0}, "remount": {unix.SYS_MOUNT, 0, str("/"), 0, unix.MS_REMOUNT | unix.MS_BIND, 0}, "umount": {unix.SYS_UMOUNT2, str("/"), unix.MNT_DETACH},
		"pivot": {unix.SYS_PIVOT_ROOT, str("/"), str("/in")}, "chroot": {unix.SYS_CHROOT, str("/in")}, "fsopen": {unix.SYS_FSOPEN, str("tmpfs"), 0}, "open_tree": {unix.SYS_OPEN_TREE, ^uintptr(99), str("/"), 1},
		"move_mount": {unix.SYS_MOVE_MOUNT, 0, str(""), 0, str(""), 0}, "mount_setattr": {unix.SYS_MOUNT_SETATTR, ^uintptr(99), str("/"), 0, str(string(make([]byte, 32))), 32},
	}))
	harm("handles of files", systemCalls(map[string][]uintptr{
		"name_to_handle": {unix.SYS_NAME_TO_HANDLE_AT, ^uintptr(99), str("/"), str("\x80" + string(make([]byte, 140))), str("abcd"), 0}, "open_by_handle": {unix.SYS_OPEN_BY_HANDLE_AT, 0, str(string(make([]byte, 40))), 0},
		"fanotify": {unix.SYS_FANOTIFY_INIT, 0, 0}, "inotify": {unix.SYS_INOTIFY_INIT1, 0},
	}))
	harm("other processes", systemCalls(map[string][]uintptr{
		"ptrace": {unix.SYS_PTRACE, 0, 0, 0, 0}, "attach": {unix.SYS_PTRACE, unix.PTRACE_SEIZE, 1, 0, 0}, "readv": {unix.SYS_PROCESS_VM_READV, 1, 0, 0, 0, 0, 0}, "writev": {unix.SYS_PROCESS_VM_WRITEV, 1, 0, 0, 0, 0, 0},
		"pidfd": {unix.SYS_PIDFD_OPEN, 1, 0}, "getfd": {unix.SYS_PIDFD_GETFD, 0, 0, 0}, "kcmp": {unix.SYS_KCMP, 1, 1, 0, 0, 0}, "setpriority": {unix.SYS_SETPRIORITY, 0, 0, 0},
	}))
	harm("uncounted memory", systemCalls(map[string][]uintptr{
		"memfd": {unix.SYS_MEMFD_CREATE, str("x"), 0}, "secret": {unix.SYS_MEMFD_SECRET, 0}, "shmget": {unix.SYS_SHMGET, 0, 1 << 20, 0o600}, "msgget": {unix.SYS_MSGGET, 0, 0o600}, "mq": {unix.SYS_MQ_OPEN, str("x"), 0x42, 0o600, 0}, "semget": {unix.SYS_SEMGET, 0, 1, 0o600},
		"shared": {unix.SYS_MMAP, 0, 1 << 30, 3, unix.MAP_SHARED | unix.MAP_ANON, ^uintptr(0), 0}, "growing": {unix.SYS_MMAP, 0, 1 << 30, 3, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_GROWSDOWN, ^uintptr(0), 0},
		"huge": {unix.SYS_MMAP, 0, 1 << 30, 3, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB, ^uintptr(0), 0}, "private": {unix.SYS_MMAP, 0, 1 << 30, 3, unix.MAP_PRIVATE | unix.MAP_ANON, ^uintptr(0), 0},
		"reserved": {unix.SYS_MMAP, 0, 1 << 40, 0, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE, ^uintptr(0), 0}, "mlock": {unix.SYS_MLOCKALL, 1}, "remap": {unix.SYS_REMAP_FILE_PAGES, 0, 0, 0, 0, 0}, "userfaultfd": {unix.SYS_USERFAULTFD, 0},
	}))
	harm("the kernel", systemCalls(map[string][]uintptr{
		"bpf": {unix.SYS_BPF, 0, str(string(make([]byte, 128))), 128}, "perf": {unix.SYS_PERF_EVENT_OPEN, str(string(make([]byte, 128))), 0, ^uintptr(0), ^uintptr(0), 0}, "keyctl": {unix.SYS_KEYCTL, 0, ^uintptr(2), 1}, "add_key": {unix.SYS_ADD_KEY, str("user"), str("x"), str("x"), 1, ^uintptr(2)},
		"request_key": {unix.SYS_REQUEST_KEY, str("user"), str("x"), 0, 0}, "init_module": {unix.SYS_INIT_MODULE, str("x"), 1, str("")}, "kexec": {unix.SYS_KEXEC_LOAD, 0, 0, 0, 0}, "reboot": {unix.SYS_REBOOT, 0xfee1dead, 672274793, 0x89abcdef},
		"syslog": {unix.SYS_SYSLOG, 3, str(string(make([]byte, 64))), 64}, "swapon": {unix.SYS_SWAPON, str("/x"), 0}, "sethostname": {unix.SYS_SETHOSTNAME, str("x"), 1}, "settime": {unix.SYS_SETTIMEOFDAY, str(string(make([]byte, 16))), 0}, "clock_settime": {unix.SYS_CLOCK_SETTIME, 0, str(string(make([]byte, 16)))},
		"acct": {unix.SYS_ACCT, 0}, "quotactl": {unix.SYS_QUOTACTL, 0, 0, 0, 0}, "personality": {unix.SYS_PERSONALITY, 0x0040000}, "vhangup": {unix.SYS_VHANGUP},
	}))
	harm("sandbox settings", systemCalls(map[string][]uintptr{
		"affinity": {unix.SYS_SCHED_SETAFFINITY, 0, 8, str("\xff\xff\xff\xff\xff\xff\xff\xff")}, "scheduler": {unix.SYS_SCHED_SETSCHEDULER, 0, 3, str(string(make([]byte, 8)))}, "setuid": {unix.SYS_SETUID, 0}, "setgroups": {unix.SYS_SETGROUPS, 0, 0}, "capset": {unix.SYS_CAPSET, str("\x22\x05\x08\x20\x00\x00\x00\x00"), str("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" + string(make([]byte, 16)))},
		"seccomp": {unix.SYS_SECCOMP, 1, 0, 0}, "landlock": {unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1}, "pdeathsig": {unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0}, "no_new_privs": {unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 0}, "dumpable": {unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1},
		"subreaper": {unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1}, "setsid": {unix.SYS_SETSID}, "ioctl": {unix.SYS_IOCTL, 0, unix.TIOCSTI, str("x")},
		"limit": {unix.SYS_PRLIMIT64, 0, unix.RLIMIT_DATA, str("\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x7f"), 0},
	}))
}

func recurse(n int) int {
	if n == 0 {
		return 0
	}
	var block [1 << 12]byte
	block[n%len(block)] = 1
	return recurse(n+1) + int(block[n%7])
}
