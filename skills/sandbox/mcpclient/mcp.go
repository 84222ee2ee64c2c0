// Package mcpclient runs skills that are tools of a Model Context Protocol server.
//
// The server is a native program behind the walls of the process executor, and
// speaks on its standard streams. Each call starts it anew: mm greets it, asks
// for the list of its tools, compares that with the hash that the manifest pins,
// and only then calls the tool. A list that is another is refused before
// anything is called, in each call, whatever the server said before. What it
// asks of mm (roots, a model, a person) it is not given.
//
// An answer is the tool's structured content; of a tool that has none, its text,
// under the output that the manifest's text names, or as the JSON object that it
// is. Source of the protocol: the specifications 2025-11-25 and 2026-07-28 as the
// official SDK has them.
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

// What a server may say beside the answer that it is asked for.
const (
	maxSaid  = 1 << 20 // bytes in all
	maxTools = 256
	maxPages = 16 // of the list of tools
)

// Executor is a sandbox.Executor of servers.
type Executor struct {
	Programs sandbox.Executor // what a native program runs under: process
}

// program is a native program that mm can speak with.
type program interface {
	sandbox.Guest
	Talk(ctx context.Context, assets []sandbox.Asset, limit int64, talk func(ctx context.Context, from io.ReadCloser, to io.WriteCloser) error) (sandbox.Reply, error)
}

// Prepare implements sandbox.Executor. It asks the server for its tools: one
// whose list is not the pinned one is refused. A server that breaks off is left
// to the call to tell of.
func (e Executor) Prepare(ctx context.Context, p sandbox.Program) (sandbox.Guest, error) {
	if p.MCP == nil {
		return nil, sandbox.Refuse("%s names no tool of a server", p.Name)
	}
	g, err := e.program(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &guest{program: g, name: p.Name, spec: *p.MCP, output: p.Limits.Filled().OutputBytes}
	_, err = g.Talk(ctx, nil, maxSaid, s.conversation(func(ctx context.Context, c *sdk.ClientSession) error { return s.pinned(ctx, c) }))
	if err != nil && (sandbox.KindOf(err) == sandbox.Refused || sandbox.KindOf(err) == "") {
		return nil, errors.Join(err, g.Close())
	}
	return s, nil
}

// program readies the server's program.
func (e Executor) program(ctx context.Context, p sandbox.Program) (program, error) {
	g, err := e.Programs.Prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	talker, ok := g.(program)
	if !ok {
		return nil, errors.Join(sandbox.Refuse("this mm cannot speak with native programs"), g.Close())
	}
	return talker, nil
}

// Listed are the tools of a server, by name, and the hash that pins them.
type Listed struct {
	Names  []string
	SHA256 string // lower-case hex
}

// Tools asks a server for its tools, whatever its manifest pins.
func (e Executor) Tools(ctx context.Context, p sandbox.Program) (l Listed, err error) {
	g, err := e.program(ctx, p)
	if err != nil {
		return Listed{}, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	s := &guest{program: g, name: p.Name}
	_, err = g.Talk(ctx, nil, maxSaid, s.conversation(func(ctx context.Context, c *sdk.ClientSession) error {
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
	// An answer may stand there twice: as it is, and as text.
	reply, err := g.Talk(ctx, in.Assets, maxSaid+8*g.output, g.conversation(func(ctx context.Context, c *sdk.ClientSession) error {
		err := g.pinned(ctx, c)
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

// conversation is one with a server that was greeted.
func (g *guest) conversation(say func(context.Context, *sdk.ClientSession) error) func(context.Context, io.ReadCloser, io.WriteCloser) error {
	return func(ctx context.Context, from io.ReadCloser, to io.WriteCloser) error {
		client := sdk.NewClient(&sdk.Implementation{Name: "mm", Version: "1"}, &sdk.ClientOptions{
			Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		})
		session, err := client.Connect(ctx, &sdk.IOTransport{Reader: from, Writer: to, MaxLineLength: int(min(maxSaid+8*g.output, 1<<30))}, nil)
		if err != nil {
			return err
		}
		err = say(ctx, session)
		from.Close() // a server may be silent when it is told that it is over
		to.Close()
		_ = session.Close() // its streams are closed
		return err
	}
}

// pinned refuses a server whose tools are not those that the manifest pins.
func (g *guest) pinned(ctx context.Context, c *sdk.ClientSession) error {
	l, err := g.list(ctx, c)
	if err != nil {
		return err
	}
	if l.SHA256 != g.spec.Tools {
		return sandbox.Refuse("the tools of %s are not those that its manifest pins: %s, pinned %s", g.name, l.SHA256, g.spec.Tools)
	}
	if !slices.Contains(l.Names, g.spec.Tool) {
		return sandbox.Refuse("%s has no tool %q; it has %s", g.name, g.spec.Tool, strings.Join(l.Names, ", "))
	}
	return nil
}

// list asks for the tools.
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
	return Listed{}, sandbox.Refuse("%s lists its tools on more than %d pages", g.name, maxPages)
}

// pin hashes what a caller is told of tools, as JSON with sorted keys, by their
// names: name, title, description and the schemas of what goes in and comes out.
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
		return l, sandbox.Refuse("%s lists a tool that is none", server)
	}
	slices.SortFunc(all, func(a, b *sdk.Tool) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range all {
		if slices.Contains(l.Names, t.Name) {
			return l, sandbox.Refuse("%s lists two tools called %q", server, t.Name)
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

// ask calls the tool and gives its answer as the skill's outputs.
func (g *guest) ask(ctx context.Context, c *sdk.ClientSession, input []byte) ([]byte, error) {
	r, err := c.CallTool(ctx, &sdk.CallToolParams{Name: g.spec.Tool, Arguments: json.RawMessage(input)})
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, content := range r.Content {
		t, ok := content.(*sdk.TextContent)
		if !ok {
			return nil, sandbox.Faultf(sandbox.Result, "%s gave what is no text: %T", g.name, content)
		}
		texts = append(texts, t.Text)
	}
	text := strings.Join(texts, "\n")
	var output []byte
	switch {
	case r.IsError:
		return nil, sandbox.Faultf(sandbox.Result, "%s says: %s", g.name, text)
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
