package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/httpx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/farm"
	"mm-abi.org/mm/lab/study"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

func (p *program) experimentRun(c *cli.Context) error {
	file, key := c.Args().First(), c.String("sign")
	where, err := p.trialOptions(c)
	if err != nil {
		return err
	}
	opt := study.Options{Dir: c.String("out"), Resume: c.Bool("resume"), AtOnce: c.Int("at-once")}
	if _, err := os.Stat(filepath.Join(opt.Dir, study.ChainDir)); c.Bool("continue") && err == nil {
		opt.Resume = true
	}
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		stop := func() error { return nil }
		if where != nil {
			if opt.Runner, stop, err = farm.OpenTrials(c.Context, *where); err != nil {
				return err
			}
		}
		return errors.Join(p.runStudy(c.Context, w, file, key, opt), stop())
	})
}

func (p *program) runStudy(ctx context.Context, w *workspace.Workspace, file, key string, opt study.Options) error {
	s, err := study.Read(file)
	if err != nil {
		return err
	}
	if opt.Text, err = s.Texts(file); err != nil {
		return err
	}
	signer, err := w.Signer(key, p.password)
	if err != nil {
		return err
	}
	opt.Key, opt.Verifier = signer.Key, signer.Key.Public()
	opt.Each = func(row chain.Row) { p.Note("%s", study.Describe(row)) }
	a, err := study.Run(ctx, s, opt)
	switch {
	case errors.Is(err, study.ErrExists):
		return diag.Hinted(err, "--resume continues it")
	case err != nil:
		return broken(err)
	}
	return written(p, a, nil)
}

func (p *program) experimentPlan(c *cli.Context) error {
	s, err := study.Read(c.Args().First())
	if err != nil {
		return err
	}
	return written(p, s.Plan(), nil)
}

// withView opens the run in dir.
func (p *program) withView(dir, key string, fn func(*study.View, *sign.PublicKey) error) error {
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		public, err := p.publicKey(w, key)
		if err != nil {
			return err
		}
		view, err := study.Open(dir, public)
		if err != nil {
			return broken(err)
		}
		return fn(view, public)
	})
}

func (p *program) experimentStatus(c *cli.Context) error {
	return p.withView(c.Args().First(), c.String("key"), func(v *study.View, _ *sign.PublicKey) error {
		return written(p, v.Status(), nil)
	})
}

func (p *program) experimentExplain(c *cli.Context) error {
	claim := c.Args().Get(1)
	return p.withView(c.Args().First(), c.String("key"), func(v *study.View, _ *sign.PublicKey) error {
		e, err := v.Explain(claim)
		return written(p, e, err)
	})
}

func (p *program) experimentReport(c *cli.Context) error {
	plots := c.String("plot")
	return p.withView(c.Args().First(), c.String("key"), func(v *study.View, _ *sign.PublicKey) error {
		a, err := v.Answer()
		if err != nil {
			return err
		}
		if plots != "" {
			files, err := v.Plot(plots)
			if err != nil {
				return err
			}
			for _, f := range files {
				p.Note("drew %s", f)
			}
		}
		return written(p, a, nil)
	})
}

func (p *program) experimentWatch(c *cli.Context) error {
	dir, addr, every := c.Args().First(), c.String("addr"), c.Duration("every")
	if addr != "" && !httpx.IsLoopback(addr) {
		return diag.Usagef("--addr: %q is not a loopback address", addr)
	}
	if every < 100*time.Millisecond {
		return diag.Usagef("--every: got %v, want at least 100ms", every)
	}
	return p.withView(dir, c.String("key"), func(_ *study.View, key *sign.PublicKey) error {
		if addr != "" {
			return p.serveStudy(c.Context, dir, addr, key)
		}
		return broken(study.Watch(c.Context, dir, key, every, func(s study.Status) error { return show(p, s, nil, p.showStudy) }))
	})
}

// showStudy prints the state of a run: a table that replaces the last one on a terminal,
// otherwise a line.
func (p *program) showStudy(s study.Status) error {
	if _, tty := console.StyleOf(p.Stdout); !tty {
		return p.Line("%s", s.Line())
	}
	fmt.Fprint(p.Stdout, "\x1b[H\x1b[2J")
	return s.Write(p.Stdout)
}

// serveStudy serves the state of a run until ctx is done.
func (p *program) serveStudy(ctx context.Context, dir, addr string, key *sign.PublicKey) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	read := func() (study.Status, error) {
		v, err := study.Open(dir, key)
		if err != nil {
			return study.Status{}, err
		}
		return v.Status(), nil
	}
	hs := &http.Server{Handler: study.Handler(read), ReadHeaderTimeout: 10 * time.Second}
	p.Note("listening on http://%s", listener.Addr())
	err = server.Until(ctx, hs, 0, func() error { return hs.Serve(listener) })
	return errors.Join(err, ctx.Err())
}
