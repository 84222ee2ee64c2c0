// Package mcp serves mm to coding agents over the Model Context Protocol.
//
// [Open] returns a server; [Server.Serve] serves one client over a pair of streams,
// [Server.Handler] several over streamable HTTP. The tools are:
//
//	validate   mm validate
//	assemble   mm assemble, without signing and pushing
//	infer      mm run
//	NAME       each skill of the build that the server was opened for
//
// Clients are not trusted. A path must be below the root folder, links included; an artifact
// is verified before use, as on the command line; the sizes of messages and results and the
// number of concurrent calls are bounded. Skills have the permissions that the user granted,
// and read nothing outside of the root folder. An error of a call is its result, with isError set,
// so that the calling model can read the hint.
//
// The schemas of a skill are those of its manifest (skills.Schema); the request of infer is
// schemas/request.schema.json. The protocol follows the specifications 2025-11-25 and
// 2026-07-28 as implemented by the official SDK.
package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/workspace"
)

const (
	maxMessage = 32 << 20  // bytes of a client's message
	maxResult  = 256 << 10 // approximate bytes of a result
	maxCalls   = 4         // concurrent calls; others wait
)

// Options configures a server.
type Options struct {
	Root    string // folder that contains every path of a call; empty: the working folder
	Version string // of mm, reported to clients

	// Build is the default build of infer, and the build whose skills are tools: a
	// reference, or a path below Root. If empty, there is none.
	Build  string
	Target string // of a build with several targets

	Workspace workspace.Options        // Dir is set for each call
	Resolve   workspace.ResolveOptions // resolution of the modules of graphs
	Exporters []assemble.Exporter      // the formats that assemble writes
	Runner    runner.Options           // options of builds
	Skills    skills.Options           // options of skills

	// Called receives each call of a skill, by a model or by a client, with the workspace
	// of the skill; may be nil.
	Called func(ctx context.Context, w *workspace.Workspace, c runner.CallRecord)
}

// Server serves the tools. It is safe for concurrent use.
type Server struct {
	opt   Options
	root  *root
	sdk   *sdk.Server
	turns chan struct{} // a semaphore of concurrent calls

	functions []string       // of the default build, with their modalities
	closes    []func() error // of Open

	mu     sync.Mutex
	loaded *loaded // the build used last by infer
}

// Open returns a server. It finds, verifies and opens the build whose skills are tools. A
// skill that cannot run on this machine is a tool that returns the reason.
func Open(ctx context.Context, opt Options) (*Server, error) {
	abs, err := filepath.Abs(opt.Root)
	if err != nil {
		return nil, fmt.Errorf("opening the root folder: %w", err)
	}
	s := &Server{opt: opt, turns: make(chan struct{}, maxCalls)}
	if s.root, err = openRoot(abs); err != nil {
		return nil, fmt.Errorf("opening the root folder: %w", err)
	}
	s.closes = append(s.closes, s.root.Close)
	s.opt.Skills.Root = s.root.dir
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "mm", Title: "mm: modular multimodal models", Version: opt.Version}, &sdk.ServerOptions{
		Instructions: "Paths are relative to the folder " + s.root.dir + ". " +
			"validate checks module.yaml files and graphs, assemble composes a build of a graph, infer asks a build.",
		Capabilities: &sdk.ServerCapabilities{},
	})
	if len(byName(opt.Skills.Grants)) > 0 && opt.Build == "" {
		err = errors.New("permissions of skills need the build whose skills are served")
	}
	if err == nil && opt.Build != "" {
		err = s.addSkills(ctx)
	}
	for _, t := range []tool{s.validate(), s.assemble(), s.infer()} {
		err = errors.Join(err, s.add(t))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close frees what the server opened; no client may be connected.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all error
	if s.loaded != nil {
		all = s.loaded.release()
		s.loaded = nil
	}
	for i := len(s.closes) - 1; i >= 0; i-- {
		all = errors.Join(all, s.closes[i]())
	}
	s.closes = nil
	return all
}

// Serve serves one client, one message a line, until it disconnects or ctx ends. A line that
// is not a message is answered with an error of JSON-RPC.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	one := &oneWriter{WriteCloser: out}
	read := &lines{in: bufio.NewReader(in), file: in, out: one}
	err := s.connect(ctx, &sdk.IOTransport{Reader: read, Writer: one, MaxLineLength: maxMessage + 1})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving the client: %w", err)
	}
	return ctx.Err()
}

// connect serves one client over a transport.
func (s *Server) connect(ctx context.Context, t sdk.Transport) error { return s.sdk.Run(ctx, t) }

// turn waits for a slot among the concurrent calls; done frees it.
func (s *Server) turn(ctx context.Context) (done func(), err error) {
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open opens a workspace for a document; the caller closes it.
func (s *Server) open(anchor string) (*workspace.Workspace, error) {
	opt := s.opt.Workspace
	opt.Dir = s.root.dir
	if anchor != "" {
		opt.Dir = workspace.Anchor(anchor)
	}
	return workspace.Open(opt)
}

// tool is a callable tool.
type tool struct {
	name, title, description string
	input, output            []byte // JSON Schemas of an object; output may be nil
	changes                  bool   // the tool writes files
	call                     func(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error)
}

// add serves a tool. Arguments are checked against its schema before a call; errors are
// results.
func (s *Server) add(t tool) error {
	shape, err := schemas.NewShape(t.input)
	if err != nil {
		return fmt.Errorf("serving %s: %w", t.name, err)
	}
	spec := &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.description, InputSchema: json.RawMessage(t.input),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: !t.changes, DestructiveHint: new(bool), OpenWorldHint: new(bool)},
	}
	if t.output != nil {
		spec.OutputSchema = json.RawMessage(t.output)
	}
	s.sdk.AddTool(spec, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		args := []byte(req.Params.Arguments)
		if len(args) == 0 {
			args = []byte("{}")
		}
		v, err := schemas.ReadValue(args)
		if err == nil {
			err = shape.Check(v)
		}
		if err != nil {
			return s.failed(fmt.Errorf("bad arguments of %s: %w", t.name, err)), nil
		}
		done, err := s.turn(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		result, err := t.call(ctx, args)
		if err != nil {
			return s.failed(err), nil
		}
		return result, nil
	})
	return nil
}
