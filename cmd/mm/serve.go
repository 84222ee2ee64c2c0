package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/httpx"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/anthropic"
	"mm-abi.org/mm/serve/api"
	"mm-abi.org/mm/serve/dashboard"
	"mm-abi.org/mm/serve/jobs"
	"mm-abi.org/mm/serve/mcp"
	"mm-abi.org/mm/serve/models"
	"mm-abi.org/mm/serve/oip"
	"mm-abi.org/mm/serve/ollama"
	"mm-abi.org/mm/serve/openai"
	"mm-abi.org/mm/serve/otlp"
	"mm-abi.org/mm/workspace"
)

// keysVariable holds the keys of mm serve in the environment.
const keysVariable = "MM_SERVE_KEYS"

func (p *program) serve(c *cli.Context) error {
	opt, board, err := p.serverOptions(c)
	if err != nil {
		return err
	}
	run, err := p.runOptions(c)
	if err != nil {
		return err
	}
	run.Sequences = max(4, c.Int("parallel")) // that wait for their next turn
	limits, kept, err := p.modelOptions(c, &run)
	if err != nil {
		return err
	}
	background := p.jobOptions(c)
	ctx, u := c.Context, useOptions(c)
	u.skills = !c.Bool("no-tools")
	if c.Bool("stdin-lifeline") {
		ctx = p.lifeline(ctx)
	}
	stop, err := p.traces(&opt)
	if err != nil {
		return err
	}
	defer stop()
	return p.inWorkspace(p.pulling(workspaceOptions(c, c.Args().First())), func(w *workspace.Workspace) error {
		return p.cached(w, c.Bool("no-cache"), kept, &run, func() (err error) {
			f := p.fleet(w, u, run, models.Fleet{Args: c.Args().Slice(), Alias: c.StringSlice("alias"), Watch: c.Bool("watch")})
			pool, err := f.Open(ctx, limits, &opt)
			defer func() { err = errors.Join(err, pool.Close()) }()
			if err != nil {
				return unserved(err)
			}
			s, err := newServer(opt)
			if err != nil {
				return err
			}
			if err := f.Show(ctx, s, board); err != nil {
				return unserved(err)
			}
			work, err := jobs.Mount(s, p.recorded(ctx, w, background))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, work.Close()) }()
			if root := c.String("mcp"); root != "" {
				agents, err := p.mountAgents(ctx, w, s, p.mountOptions(c, root, opt.Models[0], run), opt.Origins)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, agents.Close()) }()
			}
			defer f.Follow(ctx, pool, s, c.Duration("watch-every"))()
			return p.listen(ctx, s, c.String("addr"), c.Duration("drain"))
		})
	})
}

// unserved turns a request that a fleet cannot serve into a usage error.
func unserved(err error) error {
	if errors.Is(err, models.ErrNoReference) || errors.Is(err, models.ErrNoResults) {
		return diag.Usage(err)
	}
	return err
}

// traces exports the requests of a server to the collector that the environment names.
func (p *program) traces(opt *api.Options) (stop func(), err error) {
	e, err := otlp.New(otlp.Options{Version: built().Version, Env: os.Getenv, Failed: func(err error) { p.Note("traces: %v", err) }})
	if err != nil {
		return nil, diag.Usage(err)
	}
	if e == nil {
		return func() {}, nil
	}
	opt.Trace = e.Record
	opt.Metrics = append(opt.Metrics, api.Metric{Name: "mm_spans_dropped_total", Help: "Spans that were not sent to the collector.", Type: "counter", Value: e.Dropped})
	return e.Close, nil
}

// newServer returns a server with all wire formats.
func newServer(opt api.Options) (*api.Server, error) {
	s, err := api.New(opt)
	if err != nil {
		return nil, diag.Usage(err)
	}
	openai.Mount(s)
	anthropic.Mount(s)
	ollama.Mount(s)
	oip.Mount(s)
	return s, nil
}

// mountOptions reads the options of the server of agents, which is without a network.
func (p *program) mountOptions(c *cli.Context, root string, first api.Model, run runner.Options) mcp.Options {
	o := mcp.Options{
		Root: root, Version: built().Version, Target: c.String("target"), Workspace: workspaceOptions(c, ""),
		Resolve: workspace.ResolveOptions{Claim: claimOptions(c)}, Exporters: exporters(), Runner: run,
	}
	if o.Workspace.Offline = true; len(first.Answerer.Build().Assembly.Skills) > 0 {
		o.Build = c.Args().First()
	}
	return o
}

// mountAgents adds the server of mm mcp to a server, which checks keys and hosts.
func (p *program) mountAgents(ctx context.Context, w *workspace.Workspace, s *api.Server, opt mcp.Options, origins []string) (*mcp.Server, error) {
	opt.Called = func(ctx context.Context, w *workspace.Workspace, c runner.CallRecord) { w.Record(ctx, c.AuditEntry()) }
	var err error
	if opt.Skills, err = p.skillOptions(ctx, w); err != nil {
		return nil, err
	}
	agents, err := mcp.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	handler, err := agents.Handler("127.0.0.1:0", mcp.HTTPOptions{Origins: origins})
	if err != nil {
		return nil, errors.Join(err, agents.Close())
	}
	s.Mount("/mcp", handler)
	return agents, nil
}

// serverOptions reads the options of the server and of its dashboard.
func (p *program) serverOptions(c *cli.Context) (opt api.Options, board *dashboard.Options, err error) {
	opt = api.Options{
		Version: built().Version, Hosts: c.StringSlice("host"), Origins: c.StringSlice("origin"),
		Parallel: c.Int("parallel"), Queue: c.Int("queue"), Tokens: c.Int("max-tokens"), Time: c.Duration("max-time"),
		Log: func(line string) { p.Note("%s", line) },
	}
	if opt.Parallel == 0 && c.IsSet("backend") {
		opt.Parallel = 4 // other engines have a memory for each
	}
	if text := c.String("max-body"); text != "" {
		if opt.Body, err = fsx.ParseSize(text); err != nil {
			return opt, nil, diag.Usagef("--max-body: %w", err)
		}
	}
	if opt.Keys, err = api.ReadKeys(c.String("keys"), keysVariable); err != nil {
		return opt, nil, err
	}
	if addr := c.String("addr"); !httpx.IsLoopback(addr) && len(opt.Keys) == 0 {
		return opt, nil, diag.Usage(diag.Hinted(fmt.Errorf("--addr %s is not loopback: keys are required", addr), "set --keys or "+keysVariable+", or serve at 127.0.0.1"))
	}
	board, err = dashboardOptions(c)
	return opt, board, err
}

// lifeline returns a context that also ends with the end of standard input. The goroutine
// that reads it ends with the program.
func (p *program) lifeline(ctx context.Context) context.Context {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, p.stdin)
		stop()
	}()
	return ctx
}

// printAddr prints the address of the server in a line.
func (p *program) printAddr(addr string) error {
	if !p.JSON {
		_, err := fmt.Fprintf(p.Stdout, "http://%s\n", addr)
		return err
	}
	return json.NewEncoder(p.Stdout).Encode(map[string]any{"url": "http://" + addr, "addr": addr, "pid": os.Getpid()})
}

// listen serves until ctx ends. The models are loaded meanwhile.
func (p *program) listen(ctx context.Context, s *api.Server, addr string, drain time.Duration) error {
	api.MountInfer(s)
	api.MountPage(s)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	if err := p.printAddr(l.Addr().String()); err != nil {
		return errors.Join(err, l.Close())
	}
	return s.Run(ctx, l, drain)
}
