//go:build amd64 || arm64

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"

	"mm-abi.org/mm/skills/sandbox"
)

// Talk runs the program while talk reads its output, at most limit bytes, and
// writes its input. When talk returns, the program is killed. If talk returns
// an error that the end of the program caused, Talk reports how the program
// ended instead.
func (g *Guest) Talk(ctx context.Context, assets []sandbox.Asset, limit int64, talk func(ctx context.Context, from io.ReadCloser, to io.WriteCloser) error) (sandbox.Reply, error) {
	r, err := g.begin(ctx, assets)
	if err != nil {
		return sandbox.Reply{}, err
	}
	defer r.end()
	s, err := streams()
	if err != nil {
		return sandbox.Reply{}, err
	}
	defer s.close()
	if err := r.start(ctx, s.in, s.out); err != nil {
		return sandbox.Reply{}, err
	}
	s.in.Close() // the program has its copy
	s.out.Close()
	r.ends = append(r.ends, context.AfterFunc(r.inside, s.cut))
	var ended atomic.Bool
	talkErr := talk(r.inside, &reading{File: s.from, left: limit, full: r.full, ended: &ended}, writing{s.to, &ended})
	if talkErr == nil || !ended.Load() {
		r.child.kill() // the conversation is over
	}
	s.to.Close()
	err = r.child.cmd.Wait()
	reply := r.reply()
	var fault *sandbox.Fault
	switch {
	case talkErr == nil:
		return reply, nil
	case r.inside.Err() == nil && errors.As(talkErr, &fault):
		return reply, fault
	case ended.Load() || r.inside.Err() != nil:
		if err := g.fault(ctx, r.inside, err, r.child.cmd.ProcessState, reply); err != nil {
			return reply, err
		}
		return reply, sandbox.Faultf(sandbox.Result, "%s ended before it answered", g.name)
	}
	return reply, sandbox.Faultf(sandbox.Result, "%s broke the protocol: %v", g.name, talkErr)
}

// pair holds the pipes of a program's standard input and output.
type pair struct{ in, to, from, out *os.File }

func streams() (*pair, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), to.Close())
	}
	return &pair{in, to, from, out}, nil
}

// cut ends a conversation: pending reads and writes fail.
func (p *pair) cut() {
	p.from.Close()
	p.to.Close()
}

func (p *pair) close() {
	p.cut()
	p.in.Close()
	p.out.Close()
}

// reading is the output of a program, up to a limit.
type reading struct {
	*os.File
	left  int64
	full  func()
	ended *atomic.Bool // the program writes no more
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	n, err := r.File.Read(p)
	if r.left -= int64(n); r.left < 0 {
		r.full()
		return 0, io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.EOF) {
		r.ended.Store(true)
	}
	return n, err
}

// writing is the input of a program.
type writing struct {
	*os.File
	ended *atomic.Bool // the program reads no more
}

// Write implements io.Writer.
func (w writing) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		w.ended.Store(true)
	}
	return n, err
}
