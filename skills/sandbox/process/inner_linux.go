//go:build amd64 || arm64

package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"mm-abi.org/mm/internal/fsx"
)

// Inner restricts the process and executes the program that the spec names; mm
// calls it if its argument is [Command]. It does not return.
func Inner() {
	runtime.LockOSThread() // credentials, landlock and seccomp are per thread
	debug.SetGCPercent(-1) // the collector would start threads that the limits stop
	err := inner()
	status := os.NewFile(fdStatus, "status")
	fmt.Fprint(status, err)
	os.Exit(1)
}

func inner() error {
	input := os.NewFile(fdSpec, "spec")
	text, err := io.ReadAll(io.LimitReader(input, 1<<20))
	if err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	var s spec
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	if err := root(s); err != nil {
		return err
	}
	if err := pin(s.CPUs); err != nil {
		return fmt.Errorf("setting the processor affinity: %w", err)
	}
	if err := dropPrivileges(s.Drop); err != nil {
		return err
	}
	visible := append([]string{"/in"}, s.Read...)
	if s.Root != "" {
		visible = []string{"/"}
	}
	if err := restrict(visible); err != nil {
		return err
	}
	filter := filter()
	program, err := prepare(s)
	if err != nil {
		return err
	}
	if err := limit(s); err != nil {
		return err
	}
	if err := filter.install(); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	if s.Try {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return program.run()
}

// newRoot is where the guest's root is mounted: a folder that always exists.
const newRoot = "/proc"

// root makes a root with the assets and readable paths, in memory or from the
// folder of an image, and unmounts the old one.
func root(s spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	var err error
	if s.Root != "" {
		err = image(s)
	} else {
		err = memory(s)
	}
	if err != nil {
		return err
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if s.Root != "" {
		return os.Chdir("/" + s.Dir) // the image is mounted read-only
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|inert, ""); err != nil {
		return fmt.Errorf("making the root read-only: %w", err)
	}
	return nil
}

// inert holds the flags of every mount: no setuid files, no devices.
const inert = unix.MS_NOSUID | unix.MS_NODEV

// memory makes a root in memory with the assets and the readable paths.
func memory(s spec) error {
	if err := fill(s, newRoot, "/in"); err != nil {
		return err
	}
	for _, path := range s.Read {
		if err := show(path); err != nil {
			return fmt.Errorf("binding %s: %w", path, err)
		}
	}
	return nil
}

// image makes the folder of an image the root, read-only, with the assets in
// memory mounted over its /in.
func image(s spec) error {
	if err := bind(s.Root, newRoot); err != nil {
		return fmt.Errorf("binding the image: %w", err)
	}
	in := newRoot + "/in"
	if info, err := os.Lstat(in); err != nil || !info.IsDir() {
		return fmt.Errorf("image has no folder /in (%v)", err)
	}
	if err := fill(s, in, ""); err != nil {
		return err
	}
	if err := unix.Mount("", in, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|inert, ""); err != nil {
		return fmt.Errorf("making the assets read-only: %w", err)
	}
	return nil
}

// fill mounts memory at a folder and writes the assets into a folder of it.
func fill(s spec, at, below string) error {
	size := int64(1 << 20)
	for _, a := range s.Assets {
		size += a.Size + 4096
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", inert, fmt.Sprintf("size=%d,mode=0755", size)); err != nil {
		return fmt.Errorf("making a root: %w", err)
	}
	dir, err := fsx.Create(at+below, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	for i, a := range s.Assets {
		if err := place(dir, a, fdAssets+i); err != nil {
			return fmt.Errorf("placing asset %s: %w", a.Name, err)
		}
	}
	return nil
}

// place writes an asset into dir.
func place(dir *fsx.Dir, a asset, fd int) error {
	from := os.NewFile(uintptr(fd), a.Name)
	defer from.Close()
	to, err := dir.Create(a.Name, 0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(from, 0, a.Size))
	return errors.Join(err, to.Close())
}

// show binds a readable path into the new root, read-only.
func show(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	at := newRoot + path
	if info.IsDir() {
		dir, err := fsx.Create(at, 0o755, fsx.Options{})
		if err != nil {
			return err
		}
		dir.Close()
	} else {
		dir, err := fsx.Create(filepath.Dir(at), 0o755, fsx.Options{})
		if err != nil {
			return err
		}
		defer dir.Close()
		f, err := dir.Create(filepath.Base(at), 0o444)
		if err != nil {
			return err
		}
		f.Close()
	}
	return bind(path, at)
}

// bind mounts path at another place, read-only.
func bind(path, at string) error {
	if err := unix.Mount(path, at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return err
	}
	// Flags of the original mount cannot be removed; relatime has two numbers.
	flags := uintptr(st.Flags) & (unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
	if st.Flags&unix.ST_RELATIME != 0 {
		flags |= unix.MS_RELATIME
	}
	return unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|inert|flags, "")
}

// pin limits the thread, and the program it becomes, to n of its processors.
func pin(n int) error {
	var have, want unix.CPUSet
	if err := unix.SchedGetaffinity(0, &have); err != nil {
		return err
	}
	if n >= have.Count() {
		return nil
	}
	var here uint32
	if _, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&here)), 0, 0); e == 0 && have.IsSet(int(here)) {
		want.Set(int(here))
	}
	for i := 0; want.Count() < n; i++ {
		if have.IsSet(i) {
			want.Set(i)
		}
	}
	return unix.SchedSetaffinity(0, &want)
}

// dropPrivileges drops every capability, and if drop the user, for this thread
// and the program it becomes.
func dropPrivileges(drop bool) error {
	const noRoot = 0xef // SECBIT_NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, all locked, and KEEP_CAPS_LOCKED
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0); err != nil {
		return fmt.Errorf("dropping privileges: %w", err)
	}
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil && c < 64; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("dropping privileges: %w", err)
		}
	}
	if drop {
		if err := become(dropped); err != nil {
			return fmt.Errorf("changing the user: %w", err)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&head, &none[0]); err != nil {
		return fmt.Errorf("dropping privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("dropping privileges: %w", err)
	}
	return nil
}

// dropped is the user and group ID in the namespace that maps to nobody
// outside.
const dropped = 1

// become changes the user of this thread. The kernel then clears the parent
// death signal, which is set again; if mm ended in between, nothing reads the
// status any longer, which the poll detects.
func become(id int) error {
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(id), uintptr(id), uintptr(id)); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(id), uintptr(id), uintptr(id)); e != 0 {
		return e
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	ends := []unix.PollFd{{Fd: fdStatus}}
	if n, err := unix.Poll(ends, 0); err != nil || n > 0 {
		return errors.Join(errors.New("mm has ended"), err)
	}
	return nil
}

const (
	descriptors = 64
	threads     = 64
	stack       = 8 << 20
	addresses   = 4 << 30 // on top of the memory: unused reservations cost page tables
)

// limit sets the resource limits. Memory comes last: this process may already
// hold more than the program is allowed.
func limit(s spec) error {
	for _, l := range []struct {
		what  int
		limit uint64
	}{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_MEMLOCK, 0}, {unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_SIGPENDING, 64},
		{unix.RLIMIT_NOFILE, descriptors}, {unix.RLIMIT_NPROC, threads}, {unix.RLIMIT_CPU, s.Seconds}, {unix.RLIMIT_STACK, stack},
		{unix.RLIMIT_AS, uint64(s.Memory) + addresses}, {unix.RLIMIT_DATA, uint64(s.Memory)},
	} {
		if err := unix.Prlimit(0, l.what, &unix.Rlimit{Cur: l.limit, Max: l.limit}, nil); err != nil {
			return fmt.Errorf("setting limit %d: %w", l.what, err)
		}
	}
	return nil
}

// start holds the arguments of execve or execveat.
type start struct {
	argv, envp []*byte
	path       *byte
	inside     bool // path is in the root
}

// prepare allocates the arguments before memory is limited.
func prepare(s spec) (*start, error) {
	args := make([]string, len(s.Args))
	for i, a := range s.Args {
		args[i] = strings.ReplaceAll(a, "\x00", "")
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return nil, err
	}
	envp, err := syscall.SlicePtrFromStrings(s.Env)
	if err != nil {
		return nil, err
	}
	path, err := syscall.BytePtrFromString(s.Path)
	if err != nil {
		return nil, err
	}
	// The program inherits only the three standard streams.
	if err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("closing descriptors: %w", err)
	}
	return &start{argv, envp, path, s.Root != ""}, nil
}

// run executes the program in place of this one.
func (p *start) run() error {
	argv, envp, path := uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.envp[0])), uintptr(unsafe.Pointer(p.path))
	var e syscall.Errno
	if p.inside {
		_, _, e = unix.RawSyscall(unix.SYS_EXECVE, path, argv, envp)
	} else {
		_, _, e = unix.RawSyscall6(unix.SYS_EXECVEAT, fdProgram, path, argv, envp, unix.AT_EMPTY_PATH, 0)
	}
	return fmt.Errorf("executing the program: %w", e)
}
