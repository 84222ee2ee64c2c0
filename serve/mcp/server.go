// Package mcp serves mm to coding agents by the Model Context Protocol.
//
// [Open] makes a server of these tools, and [Server.Serve] speaks to one client
// over a pair of streams, [Server.Handler] to several over streamable HTTP:
//
//	validate   what mm validate finds in documents
//	assemble   what mm assemble makes of a graph; unsigned, and pushed nowhere
//	infer      what mm run answers
//	NAME       each skill of the build that the server was opened for
//
// Whoever calls is not trusted. A path is one below the root folder or is
// refused, links that lead out of it included; an artifact is verified before it
// is used, as on the command line; a message, a result and the number of calls
// at a time are bounded. What goes wrong with a call is its result, with
// isError set, so that the model that made it reads what to do.
//
// Schemas: a skill's are those of its manifest (skills.Schema), the request of
// infer is schemas/request.schema.json. Source of the protocol: the
// specifications 2025-11-25 and 2026-07-28 as the official SDK has them.
package mcp

import (
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
	maxMessage = 4 << 20   // bytes of one message of a client
	maxResult  = 256 << 10 // bytes of one result, about
	maxCalls   = 4         // under way at a time; more wait
)

// Options of a server.
type Options struct {
	Root    string // folder that holds every path of a call. Empty: the working folder
	Version string // of mm, told to clients

	// Build is what infer answers with where a call names no other, and the build
	// whose skills are tools: a reference, or a path below Root. Empty: none.
	Build  string
	Target string // of a build of several

	Workspace workspace.Options        // Dir is set for each call
	Resolve   workspace.ResolveOptions // how the modules of graphs are found
	Exporters []assemble.Exporter      // the formats that assemble writes
	Runner    runner.Options           // how builds are run
	Skills    skills.Options           // what runs the skills

	// Called is told of each call of a skill, by a model or by a client, with the
	// workspace that the skill was found in; nil: nobody is.
	Called func(ctx context.Context, w *workspace.Workspace, c runner.CallRecord)
}

// Server is the tools, ready for clients. It is safe for concurrent use.
type Server struct {
	opt   Options
	root  *root
	sdk   *sdk.Server
	turns chan struct{} // a place for each call under way

	closes []func() error // of Open

	mu     sync.Mutex
	loaded *loaded // the build that infer used last
}

// Open makes a server. A build whose skills it is to serve is found, verified
// and opened; one that cannot be is the error. A skill that cannot be called on
// this machine is a tool that says why.
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
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "mm", Title: "mm: modular multimodal models", Version: opt.Version}, &sdk.ServerOptions{
		Instructions: "Paths are relative to the folder " + s.root.dir + ". " +
			"validate checks module.yaml files and graphs, assemble composes a build of a graph, infer asks a build.",
		Capabilities: &sdk.ServerCapabilities{},
	})
	for _, t := range []tool{s.validate(), s.assemble(), s.infer()} {
		err = errors.Join(err, s.add(t))
	}
	if err == nil && opt.Build != "" {
		err = s.addSkills(ctx)
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

// Serve speaks to one client, a message a line, until it hangs up or ctx ends.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.connect(ctx, &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: maxMessage})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("speaking to the client: %w", err)
	}
	return ctx.Err()
}

// connect speaks to one client over a transport.
func (s *Server) connect(ctx context.Context, t sdk.Transport) error { return s.sdk.Run(ctx, t) }

// turn waits for a place among the calls under way; done gives it back.
func (s *Server) turn(ctx context.Context) (done func(), err error) {
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open opens a workspace around a document; closing it is the caller's.
func (s *Server) open(anchor string) (*workspace.Workspace, error) {
	opt := s.opt.Workspace
	opt.Dir = s.root.dir
	if anchor != "" {
		opt.Dir = workspace.Anchor(anchor)
	}
	return workspace.Open(opt)
}

// tool is what a client may call.
type tool struct {
	name, title, description string
	input, output            []byte // JSON Schemas of an object; no output: it is not promised
	changes                  bool   // it writes something
	call                     func(ctx context.Context, arguments []byte) (*sdk.CallToolResult, error)
}

// add serves a tool. Its arguments are checked against its schema before it is
// called, its errors are results.
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
		given := []byte(req.Params.Arguments)
		if len(given) == 0 {
			given = []byte("{}")
		}
		v, err := schemas.ReadValue(given)
		if err == nil {
			err = shape.Check(v)
		}
		if err != nil {
			return s.failed(fmt.Errorf("the arguments of %s are wrong: %w", t.name, err)), nil
		}
		done, err := s.turn(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		result, err := t.call(ctx, given)
		if err != nil {
			return s.failed(err), nil
		}
		return result, nil
	})
	return nil
}
