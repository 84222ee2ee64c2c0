package farm

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// Server is a server of a queue in a child process.
type Server struct {
	URL   string
	Token string // file
	cmd   *exec.Cmd
	stdin io.Closer
}

// ServerOptions describe a server; the flags of mm-queue explain its members.
type ServerOptions struct {
	Program string // path of mm-queue
	Dir     string // folder of the state
	Listen  string
	Token   string // file; if it is missing, it is created with a random token
	Args    []string
	Output  io.Writer // receives its messages; may be nil
}

// Serve starts a server and waits until it accepts connections. It ends with this process.
func Serve(ctx context.Context, opt ServerOptions) (*Server, error) {
	if opt.Token != "" {
		if err := tokenFile(opt.Token); err != nil {
			return nil, err
		}
		opt.Args = append(opt.Args, "-token", opt.Token)
	}
	cmd := exec.CommandContext(ctx, opt.Program, append([]string{"-attached", "-dir", opt.Dir, "-listen", opt.Listen}, opt.Args...)...)
	cmd.Cancel = func() error { return interrupt(cmd.Process) }
	cmd.WaitDelay, cmd.Stderr = grace, opt.Output
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not start", filepath.Base(opt.Program)), stdin.Close(), cmd.Wait())
	}
	return &Server{URL: strings.TrimSpace(line), Token: opt.Token, cmd: cmd, stdin: stdin}, nil
}

// Close ends the server.
func (s *Server) Close() error {
	err := s.stdin.Close()
	var exit *exec.ExitError
	if e := s.cmd.Wait(); e != nil && !errors.As(e, &exit) && !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	return err
}

// Wait waits until the server ends.
func (s *Server) Wait() error { return s.cmd.Wait() }

// tokenFile creates a file with a random token that only its owner reads, unless it exists.
func tokenFile(path string) error {
	err := fsx.Place(path, 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, rand.Text()+"\n")
		return err
	})
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// Crew is a server with workers on this machine, in child processes.
type Crew struct {
	Server  *Server
	workers []*exec.Cmd
	stop    context.CancelFunc
}

// CrewOptions for [Hire].
type CrewOptions struct {
	Server  ServerOptions
	Program string // path of mm
	Dir     string // folder of the workers
	Workers int
	Threads int // of each worker
}

// Hire starts a server and workers.
func Hire(ctx context.Context, opt CrewOptions) (*Crew, error) {
	ctx, stop := context.WithCancel(ctx)
	s, err := Serve(ctx, opt.Server)
	if err != nil {
		stop()
		return nil, err
	}
	c := &Crew{Server: s, stop: stop}
	for i := range opt.Workers {
		cmd := exec.CommandContext(ctx, opt.Program, "jobs", "work", "--server", s.URL, "--token", s.Token, "--dir", filepath.Join(opt.Dir, fmt.Sprint(i+1)))
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", max(opt.Threads, 1)))
		cmd.Stderr, cmd.SysProcAttr = opt.Server.Output, attached()
		cmd.Cancel = func() error { return interrupt(cmd.Process) }
		cmd.WaitDelay = grace
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.workers = append(c.workers, cmd)
	}
	return c, nil
}

// Close ends the workers and the server.
func (c *Crew) Close() error {
	c.stop()
	for _, w := range c.workers {
		_ = w.Wait() // ended by the signal
	}
	return c.Server.Close()
}
