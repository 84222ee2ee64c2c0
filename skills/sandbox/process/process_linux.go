//go:build amd64 || arm64

package process

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// patience is the time the second mm may take to restrict itself.
const patience = 10 * time.Second

// nobody is the user of a guest outside its namespace if mm runs as root.
const nobody = 65534

// Executor is a sandbox.Executor of native programs.
type Executor struct {
	try   sync.Once
	tried error
}

// New returns an executor. The program that calls it must call [Inner] when its
// only argument is [Command].
func New() *Executor { return &Executor{} }

// Close does nothing: every call has released its resources.
func (*Executor) Close() error { return nil }

// Prepare implements sandbox.Executor. The first call probes this machine.
func (e *Executor) Prepare(ctx context.Context, p sandbox.Program) (sandbox.Guest, error) {
	l, err := sandbox.Check(p)
	if err != nil {
		return nil, err
	}
	if err := checkAllow(p.Name, p.Allow); err != nil {
		return nil, err
	}
	if l.MilliCPU%1000 != 0 {
		return nil, sandbox.Refuse("process cannot limit a guest to %g processors: want an integer", float64(l.MilliCPU)/1000)
	}
	if p.Image == nil {
		if err := checkExecutable(p.Code, p.Allow.Read); err != nil {
			return nil, err
		}
	} else if len(p.Allow.Read) > 0 {
		return nil, sandbox.Refuse("allow.read is not supported for images")
	}
	if err := e.Probe(ctx); err != nil {
		return nil, sandbox.Refuse("this machine cannot run native programs: %v", err)
	}
	g := &Guest{name: p.Name, args: p.Args, image: p.Image, limits: l, allow: p.Allow}
	if p.Image == nil {
		if g.program, err = seal("mm-skill", int64(len(p.Code)), bytes.NewReader(p.Code)); err != nil {
			return nil, fmt.Errorf("copying the program: %w", err)
		}
	}
	return g, nil
}

// checkAllow refuses permissions that cannot be granted, and skills without the
// permissions that a native program cannot be denied.
func checkAllow(name string, a modules.Allow) error {
	if err := sandbox.None("process", a, "clock", "random", "env", "read"); err != nil {
		return err
	}
	if !a.Clock || !a.Random {
		return sandbox.Refuse("a native program needs clock and random, which cannot be denied to it: ask for both in runtime.allow, and grant them with --allow %s=clock,random", name)
	}
	for _, path := range a.Read {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" || path == "/in" {
			return sandbox.Refuse("allow.read: %q is not a clean absolute path other than / and /in", path)
		}
		if _, err := os.Stat(path); err != nil {
			return sandbox.Refuse("allow.read: %v", err)
		}
	}
	return nil
}

// checkExecutable refuses code unless it is an ELF program of this machine whose
// interpreter, if it has one, is readable in the sandbox. The kernel checks the
// rest.
func checkExecutable(code []byte, read []string) error {
	f, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return sandbox.Refuse("not a native program: %v", err)
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if f.Machine != want || f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return sandbox.Refuse("program is for %v, type %v; this machine runs %v", f.Machine, f.Type, want)
	}
	i := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if i < 0 {
		return nil
	}
	name, err := io.ReadAll(io.LimitReader(f.Progs[i].Open(), 4096))
	if err != nil {
		return sandbox.Refuse("reading the program's interpreter: %v", err)
	}
	loader := string(bytes.TrimRight(name, "\x00"))
	for _, path := range append([]string{"/in"}, read...) {
		if rest, ok := strings.CutPrefix(loader, path); ok && (rest == "" || rest[0] == '/') {
			return nil
		}
	}
	return sandbox.Refuse("program is dynamically linked and allow.read does not cover its loader %s: link it statically (Go: CGO_ENABLED=0)", loader)
}

// Probe reports why this machine cannot sandbox native programs, or nil if it
// can. The first call runs everything but a program; its result is kept.
func (e *Executor) Probe(ctx context.Context) error {
	e.try.Do(func() { e.tried = e.probe(ctx) })
	return e.tried
}

// probe runs the second mm up to the execution of a program.
func (e *Executor) probe(ctx context.Context) error {
	c := &child{spec: spec{Args: []string{"probe"}, Memory: modules.DefaultMemory, Seconds: 60, CPUs: 1, Try: true}}
	err := c.start(bytes.NewReader(nil), io.Discard, io.Discard)
	if err != nil {
		return err
	}
	defer c.end()
	if err := c.ready(ctx); err != nil {
		return err
	}
	return c.cmd.Wait()
}

// seal copies bytes into a memory file that cannot be changed.
func seal(name string, size int64, r io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3: always executable
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = io.CopyN(f, r, size)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Guest is a native program that is ready to be called.
type Guest struct {
	name    string
	args    []string
	program *os.File       // nil: part of the image
	image   *sandbox.Image // nil: part of the image
	limits  modules.Effective
	allow   modules.Allow
}

// Close implements sandbox.Guest.
func (g *Guest) Close() error {
	if g.program == nil {
		return nil
	}
	return g.program.Close()
}

// Call implements sandbox.Guest.
func (g *Guest) Call(ctx context.Context, in sandbox.Call) (sandbox.Reply, error) {
	r, err := g.begin(ctx, in.Assets)
	if err != nil {
		return sandbox.Reply{}, err
	}
	defer r.end()
	out := sandbox.NewBuffer(g.limits.OutputBytes, r.full)
	if err := r.start(ctx, bytes.NewReader(in.Input), out); err != nil {
		return sandbox.Reply{}, err
	}
	err = r.child.cmd.Wait()
	reply := r.reply()
	reply.Output = out.Bytes()
	return reply, g.fault(ctx, r.inside, err, r.child.cmd.ProcessState, reply)
}

// run is a running program.
type run struct {
	guest  *Guest
	child  *child
	log    *sandbox.Log
	inside context.Context // ends when the program must end
	stop   context.CancelCauseFunc
	ends   []func() bool
	began  time.Time
}

// begin prepares a run with its assets.
func (g *Guest) begin(ctx context.Context, assets []sandbox.Asset) (*run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := sandbox.Assets(assets); err != nil {
		return nil, err
	}
	limit := time.Duration(g.limits.TimeoutMS) * time.Millisecond
	c := &child{program: g.program, spec: spec{
		Args: append([]string{g.name}, g.args...), Memory: g.limits.MemBytes, CPUs: int(g.limits.MilliCPU / 1000), Read: g.allow.Read,
		Seconds: uint64(limit/time.Second)*uint64(g.limits.MilliCPU/1000) + 2,
	}}
	if i := g.image; i != nil {
		c.spec.Root, c.spec.Path, c.spec.Dir, c.spec.Args[0] = i.Root, i.Path, i.Dir, i.Name
		c.spec.Env, c.spec.Drop = slices.Clone(i.Env), os.Geteuid() == 0
	}
	for _, name := range slices.Sorted(slices.Values(g.allow.Env)) {
		if v, ok := os.LookupEnv(name); ok {
			c.spec.Env = append(c.spec.Env, name+"="+v)
		}
	}
	r := &run{guest: g, child: c}
	r.inside, r.stop = context.WithCancelCause(ctx)
	r.log = sandbox.NewLog(r.full)
	if err := c.hand(assets); err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

// full ends a program that wrote too much.
func (r *run) full() {
	r.stop(sandbox.Faultf(sandbox.Output, "%s wrote more than %d bytes", r.guest.name, r.guest.limits.OutputBytes))
}

// start starts the program; its time starts when it is executed.
func (r *run) start(ctx context.Context, in io.Reader, out io.Writer) error {
	if err := r.child.start(in, out, r.log); err != nil {
		return err
	}
	r.ends = append(r.ends, context.AfterFunc(r.inside, r.child.kill))
	if err := r.child.ready(ctx); err != nil {
		return err
	}
	r.began = time.Now()
	limit := time.Duration(r.guest.limits.TimeoutMS) * time.Millisecond
	timer := time.AfterFunc(limit, func() {
		r.stop(sandbox.Faultf(sandbox.Time, "%s took more than %v", r.guest.name, limit))
	})
	r.ends = append(r.ends, timer.Stop)
	return nil
}

// reply describes a program that has ended.
func (r *run) reply() sandbox.Reply {
	reply := sandbox.Reply{Log: r.log.Bytes(), Usage: sandbox.Usage{Time: time.Since(r.began)}}
	var parent syscall.Rusage
	use, ok := r.child.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	// The kernel starts a child's peak at its parent's: a peak below that is
	// unknown.
	if ok && syscall.Getrusage(syscall.RUSAGE_SELF, &parent) == nil && use.Maxrss > parent.Maxrss {
		reply.Usage.Memory = use.Maxrss << 10
	}
	return reply
}

// end releases the resources of a run.
func (r *run) end() {
	for i := len(r.ends) - 1; i >= 0; i-- {
		r.ends[i]()
	}
	r.stop(nil)
	r.child.end()
}

// fault returns the error for the way the program ended.
func (g *Guest) fault(outer, inside context.Context, err error, state *os.ProcessState, reply sandbox.Reply) error {
	if err == nil {
		return nil
	}
	if outer.Err() != nil {
		return outer.Err()
	}
	if cause := context.Cause(inside); cause != nil {
		return cause
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok || state.Success(): // a failure of mm's pipes
		return err
	case g.outOfMemory(reply):
		return sandbox.Faultf(sandbox.Memory, "%s exceeded its memory limit of %d bytes", g.name, g.limits.MemBytes)
	case status.Signaled() && status.Signal() == syscall.SIGXCPU:
		return sandbox.Faultf(sandbox.Time, "%s exceeded its processor time", g.name)
	case status.Signaled():
		return sandbox.Faultf(sandbox.Trap, "%s crashed: %v", g.name, status.Signal())
	}
	f := sandbox.Faultf(sandbox.Exit, "%s exited with code %d", g.name, status.ExitStatus())
	f.Code = status.ExitStatus()
	return f
}

// outOfMemory guesses whether a program failed for lack of memory: the kernel
// reports the refusal only to the program, which may log it.
func (g *Guest) outOfMemory(reply sandbox.Reply) bool {
	for _, message := range []string{"out of memory", "cannot allocate memory", "Cannot allocate memory", "bad_alloc"} {
		if bytes.Contains(reply.Log, []byte(message)) {
			return true
		}
	}
	return reply.Usage.Memory >= g.limits.MemBytes/10*9
}

// child is the second mm and the program it becomes.
type child struct {
	spec    spec
	program *os.File // nil: part of the image
	files   []*os.File
	status  *os.File
	cmd     *exec.Cmd
}

// hand copies assets into sealed memory for the second mm.
func (c *child) hand(list []sandbox.Asset) error {
	for _, a := range list {
		f, err := seal(a.Name, a.Size, io.NewSectionReader(a.Data, 0, a.Size))
		if err != nil {
			return fmt.Errorf("copying asset %s: %w", a.Name, err)
		}
		c.files = append(c.files, f)
		c.spec.Assets = append(c.spec.Assets, asset{a.Name, a.Size})
	}
	return nil
}

// start starts the second mm in new namespaces.
func (c *child) start(in io.Reader, out, log io.Writer) error {
	text, err := json.Marshal(c.spec)
	if err != nil {
		return err
	}
	specFile, err := seal("spec", int64(len(text)), bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("writing the spec: %w", err)
	}
	defer specFile.Close()
	if _, err := specFile.Seek(0, io.SeekStart); err != nil {
		return err
	}
	status, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	c.status = status
	program := c.program
	if program == nil {
		program = specFile
	}
	c.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: []string{os.Args[0], Command}}
	c.cmd.Env = []string{"GOTRACEBACK=none", "GOMAXPROCS=1"}
	c.cmd.Dir = "/"
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, out, log
	c.cmd.ExtraFiles = append([]*os.File{specFile, w, program}, c.files...)
	c.cmd.WaitDelay = time.Second
	c.cmd.SysProcAttr = namespaces(c.spec.Drop)
	if err := c.cmd.Start(); err != nil {
		c.cmd = nil
		return fmt.Errorf("creating namespaces: %w", err)
	}
	return nil
}

// namespaces returns the namespaces of a guest. Inside, the guest is an
// unprivileged root. Outside, it is the user of mm, or nobody if that is root;
// with drop, it changes to nobody itself.
func namespaces(drop bool) *syscall.SysProcAttr {
	uid, gid := os.Geteuid(), os.Getegid()
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
		Credential: &syscall.Credential{NoSetGroups: true},
	}
	if uid == 0 {
		attr.GidMappingsEnableSetgroups, attr.Credential.NoSetGroups = true, false
		if !drop {
			uid, gid = nobody, nobody
		}
	}
	attr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	if drop {
		other := syscall.SysProcIDMap{ContainerID: dropped, HostID: nobody, Size: 1}
		attr.UidMappings, attr.GidMappings = append(attr.UidMappings, other), append(attr.GidMappings, other)
	}
	return attr
}

// ready waits until the second mm has become the program, which closes its end
// of the status pipe. Text on the pipe is the reason why it failed.
func (c *child) ready(ctx context.Context) error {
	if err := c.status.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(c.status, 4<<10))
	if err == nil && len(text) == 0 {
		return nil
	}
	c.kill()
	_ = c.cmd.Wait() // killed
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("starting a guest: %w", err)
	}
	return sandbox.Refuse("sandbox: %s", text)
}

// kill ends the guest and everything in its namespace.
func (c *child) kill() { _ = c.cmd.Process.Kill() } // it may have ended already

// end releases the resources of the call.
func (c *child) end() {
	if c.cmd != nil && c.cmd.ProcessState == nil {
		c.kill()
		_ = c.cmd.Wait() // killed
	}
	for _, f := range c.files {
		f.Close()
	}
	if c.status != nil {
		c.status.Close()
	}
}
