package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/mcp"
	"mm-abi.org/mm/workspace"
)

func (p *program) mcpCommand() *cli.Command {
	return &cli.Command{
		Name: "mcp", Usage: "serve validate, assemble, infer and the skills of a build to coding agents (MCP)", ArgsUsage: "[REF|DIR|GRAPH]",
		Description: "Speaks the Model Context Protocol on standard input and output, or with --http over\n" +
			"streamable HTTP. With an argument, infer asks that build where a call names no other, and\n" +
			"its skills are tools. Paths of calls are below --root; nothing is signed or pushed.\n\n" +
			"HTTP is for this machine alone unless --http says otherwise: then clients must bear the\n" +
			"token in MM_MCP_TOKEN. Web pages are refused but for those of --origin.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "root", Value: ".", Usage: "`FOLDER` that the paths of calls are below"},
			&cli.StringFlag{Name: "http", Usage: "serve over HTTP at `HOST:PORT`, such as 127.0.0.1:7700"},
			&cli.StringSliceFlag{Name: "origin", Usage: "let web pages of this `ORIGIN` in, such as https://ide.example"},
			&cli.BoolFlag{Name: "online", Usage: "let calls name artifacts at registries"},
			&cli.StringFlag{Name: "target", Usage: "which target of a multi-target build"},
			&cli.IntFlag{Name: "threads", Usage: "threads of the engine (default: the physical cores at hand)"},
			&cli.StringSliceFlag{Name: "backend", Usage: "engine for the core, or PART=`NAME` for a part of the graph (repeatable; mm doctor lists engines)"},
		}, claimFlags()...),
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, 1); err != nil {
				return err
			}
			if len(c.StringSlice("origin")) > 0 && c.String("http") == "" {
				return usageError{errors.New("--origin is for --http")}
			}
			opt, err := p.agentOptions(c)
			if err != nil {
				return err
			}
			return p.serveAgents(c.Context, opt, c.String("http"), mcp.HTTPOptions{Token: os.Getenv("MM_MCP_TOKEN"), Origins: c.StringSlice("origin")})
		},
	}
}

// agentOptions reads what is served, and how, from the flags.
func (p *program) agentOptions(c *cli.Context) (mcp.Options, error) {
	run, err := p.runOptions(c)
	if err != nil {
		return mcp.Options{}, err
	}
	w := workspaceOptions(c, "")
	w.Offline = !c.Bool("online")
	w.Say = func(s string) { p.say("mm: %s", s) }
	return mcp.Options{
		Root: c.String("root"), Version: built().Version, Build: c.Args().First(), Target: c.String("target"),
		Workspace: w, Resolve: workspace.ResolveOptions{Claim: claimOptions(c)}, Exporters: exporters(), Runner: run,
		Called: func(ctx context.Context, w *workspace.Workspace, c runner.CallRecord) { w.Record(ctx, entry(c)) },
	}, nil
}

func (p *program) serveAgents(ctx context.Context, opt mcp.Options, addr string, who mcp.HTTPOptions) (err error) {
	w, err := p.open(opt.Workspace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if opt.Skills, err = p.skillOptions(ctx, w); err != nil {
		return err
	}
	s, err := mcp.Open(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if addr == "" {
		return s.Serve(ctx, io.NopCloser(p.stdin), writeNopCloser{p.stdout})
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	handler, err := s.Handler(l.Addr().String(), who)
	if err != nil {
		return errors.Join(usageError{hinted{err, "set MM_MCP_TOKEN, or serve at 127.0.0.1"}}, l.Close())
	}
	if _, err := fmt.Fprintf(p.stdout, "http://%s\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	return serveUntil(ctx, &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}, l)
}

// writeNopCloser is standard output, which is not the client's to close.
type writeNopCloser struct{ io.Writer }

// Close implements io.Closer.
func (writeNopCloser) Close() error { return nil }

// serveUntil serves until the context ends; then calls under way are ended.
func serveUntil(ctx context.Context, s *http.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	err := s.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close() // a client that listens for ever
	}
	if serve := <-failed; !errors.Is(serve, http.ErrServerClosed) {
		err = errors.Join(err, serve)
	}
	return err
}
