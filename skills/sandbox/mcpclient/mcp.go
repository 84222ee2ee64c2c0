// Package mcpclient runs skills that are tools of a Model Context Protocol
// server.
//
// The server is a native program in the sandbox of the process executor, and
// speaks on its standard streams. Each call starts a new server: mm
// initializes the session, lists the tools, compares the list with the hash
// pinned by the manifest, and only then calls the tool. A different list is
// refused before any call, each time. Requests of the server (roots, sampling,
// elicitation) are declined.
//
// The result is the tool's structured content. If there is none, it is the
// tool's text, under the output that the manifest's text names or parsed as a
// JSON object. The protocol follows the specifications 2025-11-25 and
// 2026-07-28 as implemented by the official SDK.
package mcpclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// Limits of what a server sends in addition to its answer.
const (
	maxOverhead = 1 << 20 // bytes in all
	maxTools    = 256
	maxPages    = 16 // of the list of tools
)

// Executor is a sandbox.Executor of servers.
type Executor struct {
	Programs sandbox.Executor // executor of native programs
}

// program is a native program that exchanges messages with mm.
type program interface {
	sandbox.Guest
	Talk(ctx context.Context, assets []sandbox.Asset, limit int64, talk func(ctx context.Context, from io.ReadCloser, to io.WriteCloser) error) (sandbox.Reply, error)
}

// Prepare implements sandbox.Executor. It lists the server's tools and refuses
// a list that differs from the pinned one. A server that fails otherwise is
// reported by the call.
func (e Executor) Prepare(ctx context.Context, p sandbox.Program) (sandbox.Guest, error) {
	if p.MCP == nil {
		return nil, sandbox.Refuse("%s: missing runtime.mcp", p.Name)
	}
	g, err := e.program(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &guest{program: g, name: p.Name, spec: *p.MCP, output: p.Limits.Filled().OutputBytes}
	_, err = g.Talk(ctx, nil, maxOverhead, s.conversation(func(ctx context.Context, c *sdk.ClientSession) error { return s.checkPin(ctx, c) }))
	if err != nil && (sandbox.KindOf(err) == sandbox.Refused || sandbox.KindOf(err) == "") {
		return nil, errors.Join(err, g.Close())
	}
	return s, nil
}

// program prepares the server's program.
func (e Executor) program(ctx context.Context, p sandbox.Program) (program, error) {
	g, err := e.Programs.Prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	talker, ok := g.(program)
	if !ok {
		return nil, errors.Join(sandbox.Refuse("the executor of native programs does not support messages"), g.Close())
	}
	return talker, nil
}

// Listed holds the sorted names of a server's tools and the hash that pins
// them.
type Listed struct {
	Names  []string
	SHA256 string // lower-case hex
}

// Tools lists a server's tools regardless of the pinned hash.
func (e Executor) Tools(ctx context.Context, p sandbox.Program) (l Listed, err error) {
	g, err := e.program(ctx, p)
	if err != nil {
		return Listed{}, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	s := &guest{program: g, name: p.Name}
	_, err = g.Talk(ctx, nil, maxOverhead, s.conversation(func(ctx context.Context, c *sdk.ClientSession) error {
		var err error
		l, err = s.list(ctx, c)
		return err
	}))
	return l, err
}

// guest is a server that is ready to be called.
type guest struct {
	program
	name   string
	spec   modules.MCP
	output int64 // bytes
}

// Call implements sandbox.Guest.
func (g *guest) Call(ctx context.Context, in sandbox.Call) (sandbox.Reply, error) {
	var output []byte
	// An answer may be sent twice: structured and as text.
	reply, err := g.Talk(ctx, in.Assets, maxOverhead+8*g.output, g.conversation(func(ctx context.Context, c *sdk.ClientSession) error {
		err := g.checkPin(ctx, c)
		if err == nil {
			output, err = g.ask(ctx, c, in.Input)
		}
		return err
	}))
	if err == nil {
		reply.Output = output
	}
	return reply, err
}

// conversation runs f in an initialized session with a server.
func (g *guest) conversation(f func(context.Context, *sdk.ClientSession) error) func(context.Context, io.ReadCloser, io.WriteCloser) error {
	return func(ctx context.Context, from io.ReadCloser, to io.WriteCloser) error {
		client := sdk.NewClient(&sdk.Implementation{Name: "mm", Version: "1"}, &sdk.ClientOptions{
			Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		})
		session, err := client.Connect(ctx, &sdk.IOTransport{Reader: from, Writer: to, MaxLineLength: int(min(maxOverhead+8*g.output, 1<<30))}, nil)
		if err != nil {
			return err
		}
		err = f(ctx, session)
		from.Close() // a server may ignore a shutdown
		to.Close()
		_ = session.Close() // the streams are closed
		return err
	}
}

// checkPin refuses a server whose tools differ from the pinned ones.
func (g *guest) checkPin(ctx context.Context, c *sdk.ClientSession) error {
	l, err := g.list(ctx, c)
	if err != nil {
		return err
	}
	if l.SHA256 != g.spec.Tools {
		return sandbox.Refuse("tools of %s changed: got hash %s, pinned %s", g.name, l.SHA256, g.spec.Tools)
	}
	if !slices.Contains(l.Names, g.spec.Tool) {
		return sandbox.Refuse("%s has no tool %q, available: %s", g.name, g.spec.Tool, strings.Join(l.Names, ", "))
	}
	return nil
}

// list lists the tools.
func (g *guest) list(ctx context.Context, c *sdk.ClientSession) (Listed, error) {
	var all []*sdk.Tool
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := c.ListTools(ctx, params)
		if err != nil {
			return Listed{}, err
		}
		if all = append(all, page.Tools...); len(all) > maxTools {
			return Listed{}, sandbox.Refuse("%s lists more than %d tools", g.name, maxTools)
		}
		if page.NextCursor == "" {
			return pin(g.name, all)
		}
		params.Cursor = page.NextCursor
	}
	return Listed{}, sandbox.Refuse("%s lists tools on more than %d pages", g.name, maxPages)
}

// pin hashes name, title, description and schemas of the tools, sorted by
// name, as JSON with sorted keys.
func pin(server string, all []*sdk.Tool) (Listed, error) {
	type entry struct {
		Description string `json:"description"`
		Input       any    `json:"inputSchema"`
		Name        string `json:"name"`
		Output      any    `json:"outputSchema"`
		Title       string `json:"title"`
	}
	var l Listed
	entries := []entry{}
	if slices.Contains(all, nil) {
		return l, sandbox.Refuse("%s lists a null tool", server)
	}
	slices.SortFunc(all, func(a, b *sdk.Tool) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range all {
		if slices.Contains(l.Names, t.Name) {
			return l, sandbox.Refuse("%s lists tool %q twice", server, t.Name)
		}
		l.Names = append(l.Names, t.Name)
		entries = append(entries, entry{t.Description, t.InputSchema, t.Name, t.OutputSchema, t.Title})
	}
	text, err := json.Marshal(entries) // keys of maps are sorted
	if err != nil {
		return l, fmt.Errorf("reading the list of tools: %w", err)
	}
	sum := sha256.Sum256(text)
	l.SHA256 = hex.EncodeToString(sum[:])
	return l, nil
}

// ask calls the tool and returns its answer as the skill's outputs.
func (g *guest) ask(ctx context.Context, c *sdk.ClientSession, input []byte) ([]byte, error) {
	r, err := c.CallTool(ctx, &sdk.CallToolParams{Name: g.spec.Tool, Arguments: json.RawMessage(input)})
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, content := range r.Content {
		t, ok := content.(*sdk.TextContent)
		if !ok {
			return nil, sandbox.Faultf(sandbox.Result, "%s returned %T, want text", g.name, content)
		}
		texts = append(texts, t.Text)
	}
	text := strings.Join(texts, "\n")
	var output []byte
	switch {
	case r.IsError:
		return nil, sandbox.Faultf(sandbox.Result, "%s failed: %s", g.name, text)
	case g.spec.Text != "":
		output, err = json.Marshal(map[string]string{g.spec.Text: text})
	case r.StructuredContent != nil:
		output, err = json.Marshal(r.StructuredContent)
	default:
		output = []byte(text)
	}
	if err == nil && int64(len(output)) > g.output {
		return nil, sandbox.Faultf(sandbox.Output, "%s wrote more than %d bytes", g.name, g.output)
	}
	return output, err
}
