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

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/mcp"
	"mm-abi.org/mm/workspace"
)

func (p *program) mcp(c *cli.Context) error {
	if len(c.StringSlice("origin")) > 0 && c.String("http") == "" {
		return diag.Usagef("--origin requires --http")
	}
	opt, err := p.agentOptions(c)
	if err != nil {
		return err
	}
	return p.serveAgents(c.Context, opt, c.String("http"), mcp.HTTPOptions{Token: os.Getenv("MM_MCP_TOKEN"), Origins: c.StringSlice("origin")})
}

// agentOptions reads the options of the server from the flags.
func (p *program) agentOptions(c *cli.Context) (mcp.Options, error) {
	run, err := p.runOptions(c)
	if err != nil {
		return mcp.Options{}, err
	}
	w := workspaceOptions(c, "")
	w.Offline = !c.Bool("online")
	w.Say = func(s string) { p.Note("mm: %s", s) }
	return mcp.Options{
		Root: c.String("root"), Version: built().Version, Build: c.Args().First(), Target: c.String("target"),
		Workspace: w, Resolve: workspace.ResolveOptions{Claim: claimOptions(c)}, Exporters: exporters(), Runner: run,
		Called: func(ctx context.Context, w *workspace.Workspace, c runner.CallRecord) { w.Record(ctx, c.AuditEntry()) },
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
		return s.Serve(ctx, io.NopCloser(p.stdin), writeNopCloser{p.Stdout})
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	handler, err := s.Handler(l.Addr().String(), who)
	if err != nil {
		return errors.Join(diag.Usage(diag.Hinted(err, "set MM_MCP_TOKEN, or serve at 127.0.0.1")), l.Close())
	}
	if _, err := fmt.Fprintf(p.Stdout, "http://%s\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	hs := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	return server.Until(ctx, hs, time.Second, func() error { return hs.Serve(l) })
}

// writeNopCloser is standard output, which the server must not close.
type writeNopCloser struct{ io.Writer }

// Close implements io.Closer.
func (writeNopCloser) Close() error { return nil }
