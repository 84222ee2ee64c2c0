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

	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/mcp"
	"mm-abi.org/mm/workspace"
)

func (p *program) mcpCommand() *cli.Command {
	return &cli.Command{
		Name: "mcp", Usage: "serve validate, assemble, infer and the skills of a build to agents (MCP)", ArgsUsage: "[REF|DIR|GRAPH]",
		Description: "Serves the Model Context Protocol on standard input and output, or with --http over streamable\n" +
			"HTTP. The argument is the default build of infer; its skills become tools. Paths in calls are\n" +
			"relative to --root and must stay below it, as what skills may read. Nothing is signed or pushed.\n\n" +
			"HTTP is limited to this machine unless --http names another address. Clients must then send the\n" +
			"token in MM_MCP_TOKEN. Requests from web pages are refused unless --origin allows them.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "root", Value: ".", Usage: "root `FOLDER` of the paths in calls"},
			&cli.StringFlag{Name: "http", Usage: "serve over HTTP at `HOST:PORT`, such as 127.0.0.1:7700"},
			&cli.StringSliceFlag{Name: "origin", Usage: "allow web pages of `ORIGIN`, such as https://ide.example"},
			&cli.BoolFlag{Name: "online", Usage: "allow calls to name artifacts at registries"},
			&cli.StringFlag{Name: "target", Usage: "target of a multi-target build"},
			&cli.IntFlag{Name: "threads", Usage: "threads of the engine (default: the available physical cores)"},
			&cli.StringSliceFlag{Name: "backend", Usage: "engine for the core, or PART=`NAME` for a part of the graph (repeatable; mm doctor lists engines)"},
			p.allowFlag(),
		}, claimFlags()...),
		Action: func(c *cli.Context) error {
			if len(c.StringSlice("origin")) > 0 && c.String("http") == "" {
				return usageError{errors.New("--origin requires --http")}
			}
			opt, err := p.agentOptions(c)
			if err != nil {
				return err
			}
			return p.serveAgents(c.Context, opt, c.String("http"), mcp.HTTPOptions{Token: os.Getenv("MM_MCP_TOKEN"), Origins: c.StringSlice("origin")})
		},
	}
}

// agentOptions reads the options of the server from the flags.
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
	hs := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	return server.Until(ctx, hs, time.Second, func() error { return hs.Serve(l) })
}

// writeNopCloser is standard output, which the server must not close.
type writeNopCloser struct{ io.Writer }

// Close implements io.Closer.
func (writeNopCloser) Close() error { return nil }
