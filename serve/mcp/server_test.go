package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/starlark"
	"mm-abi.org/mm/workspace"
)

// world is a root folder with a graph of skills and the shipped core.
func world(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "mm.yaml", "modules: [modules]\n")
	put(t, dir, "b.graph.yaml", "name: b\nversion: 1.0.0\ncore:\n  llm: {ref: core-llm@^3}\nskills:\n  - {ref: adder@^1}\n  - {ref: reader@^1}\nruntime:\n  router: {ref: router@^1}\n  sandbox: {ref: sandbox@^0.3}\nexports:\n  laptop:\n    gguf: {quant: int8, kv: int8}\n")
	put(t, dir, "modules/sandbox/module.yaml", "name: sandbox\nversion: 0.3.0\ntype: sandbox\nabi: mm-abi-1.0\nlicense: MIT\nlimits: {timeout_ms: 60000}\nengines: [starlark]\n")
	put(t, dir, "modules/adder/module.yaml", skillYAML("adder", "{name: a, type: int}, {name: b, type: int, optional: true}", "{name: sum, type: int}"))
	put(t, dir, "modules/adder/run.star", "def run(args):\n  if args[\"a\"] < 0:\n    fail(\"no\")\n  while args[\"a\"] == 7:\n    pass\n  return {\"sum\": args[\"a\"] + args.get(\"b\", 0)}\n")
	put(t, dir, "modules/reader/module.yaml", skillYAML("reader", "{name: file, type: uri}", "{name: text, type: str}"))
	put(t, dir, "modules/reader/run.star", "def run(args):\n  return {\"text\": str(read(args[\"file\"]))}\n")
	for _, name := range []string{"core-llm", "router"} {
		if err := os.CopyFS(filepath.Join(dir, "modules", name), os.DirFS(filepath.Join("..", "..", "catalog", name))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func skillYAML(name, in, out string) string {
	return fmt.Sprintf("name: %s\nversion: 1.0.0\ntype: skill\nabi: mm-abi-1.0\nlicense: MIT\ndescription: The skill %s.\ninputs: [%s]\noutputs: [%s]\nruntime:\n  starlark: run.star\n  limits: {timeout_ms: 60000}\n", name, name, in, out)
}

func put(t *testing.T, elem ...string) {
	t.Helper()
	path := filepath.Join(elem[:len(elem)-1]...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(elem[len(elem)-1]), 0o644); err != nil {
		t.Fatal(err)
	}
}

// serve opens a server on a root folder with a temporary home.
func serve(t *testing.T, dir string, opt Options) *Server {
	t.Helper()
	opt.Root, opt.Version = dir, "1.2.3"
	opt.Workspace.Home, opt.Workspace.Offline = t.TempDir(), true
	opt.Exporters = []assemble.Exporter{quantize.Exporter{}}
	opt.Runner = runner.Options{Engines: []runtimes.Engine{engines.Core{}}, Limits: runtimes.Limits{Threads: 1}}
	opt.Skills = skills.Options{Executors: map[string]sandbox.Executor{"starlark": starlark.Executor{}}}
	s, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// client connects the SDK's client in memory.
func client(t *testing.T, s *Server) *sdk.ClientSession {
	t.Helper()
	mine, theirs := sdk.NewInMemoryTransports()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.connect(ctx, mine) }()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		stop()
		<-ended
	})
	return session
}

// call calls a tool and returns its text, and whether it is an error.
func call(t *testing.T, c *sdk.ClientSession, name string, args any) (string, bool) {
	t.Helper()
	result, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return textOf(t, result), result.IsError
}

func textOf(t *testing.T, r *sdk.CallToolResult) string {
	t.Helper()
	var b strings.Builder
	for _, c := range r.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	if b.Len() == 0 {
		t.Fatalf("no text in %+v", r)
	}
	return b.String()
}

type fields = map[string]any

// A client lists the tools with their schemas and calls each of them.
func TestTools(t *testing.T) {
	dir := world(t)
	var reported []string
	s := serve(t, dir, Options{Build: "b.graph.yaml", Called: func(_ context.Context, _ *workspace.Workspace, c runner.CallRecord) {
		reported = append(reported, c.Skill.Name+" "+c.Answer.Kind())
	}})
	c := client(t, s)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Name == "adder" {
			got, _ := json.Marshal(tool.InputSchema)
			if want := `{"additionalProperties":false,"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a"],"type":"object"}`; string(got) != want {
				t.Errorf("schema of adder: %s", got)
			}
		}
		if ro := tool.Annotations.ReadOnlyHint; ro == (tool.Name == "assemble") {
			t.Errorf("%s: read only %v", tool.Name, ro)
		}
	}
	if want := []string{"adder", "assemble", "infer", "reader", "validate"}; !slices.Equal(names, want) {
		t.Errorf("tools %v, wanted %v", names, want)
	}

	var found checked
	text, failed := call(t, c, "validate", fields{})
	if err := json.Unmarshal([]byte(text), &found); err != nil || failed || !found.OK || found.Checked < 4 {
		t.Errorf("validate: %s", text)
	}
	text, failed = call(t, c, "assemble", fields{"graph": "b.graph.yaml", "out": "dist/b"})
	if failed || !strings.Contains(text, `"ref":"b:1.0.0"`) || strings.Contains(text, "signatures") || strings.Contains(text, dir) {
		t.Errorf("assemble: %s", text)
	}
	for _, build := range []string{"dist/b", "b:1.0.0", filepath.Join(dir, "b.graph.yaml"), "modules/core-llm", ""} {
		args := fields{"inputs": []fields{{"type": "text", "text": "Once upon a time"}}, "preferences": fields{"max_tokens": 4}, "tools_allowed": []string{}}
		if build != "" {
			args["build"] = build
		}
		text, failed = call(t, c, "infer", args)
		if build == "b:1.0.0" || build == "dist/b" { // unsigned
			if !failed || !strings.Contains(text, "no rule of the trust policy") {
				t.Errorf("infer %s, which nobody vouches for: %s", build, text)
			}
			continue
		}
		var a inferOutput
		if err := json.Unmarshal([]byte(text), &a); err != nil || failed || a.Generated != 4 || a.Text == "" {
			t.Errorf("infer %q: %s", build, text)
		}
	}

	if text, failed = call(t, c, "adder", fields{"a": 2, "b": 40}); failed || text != `{"sum":42}` {
		t.Errorf("adder: %s", text)
	}
	put(t, dir, "notes.txt", "hello")
	if text, failed = call(t, c, "reader", fields{"file": "#n", "assets": fields{"n": "notes.txt"}}); failed || text != `{"text":"hello"}` {
		t.Errorf("reader: %s", text)
	}
	if text, failed = call(t, c, "adder", fields{"a": -1}); !failed || !strings.Contains(text, `"kind":"trap"`) {
		t.Errorf("a skill that breaks: %s", text)
	}
	if want := []string{"adder ok", "reader ok", "adder trap"}; !slices.Equal(reported, want) {
		t.Errorf("told of %v, wanted %v", reported, want)
	}
}

// A fault of a document has its position, with the client's path.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "bad/module.yaml", "name: bad\nversion: one\ntype: skill\n")
	c := client(t, serve(t, dir, Options{}))
	text, failed := call(t, c, "validate", fields{"paths": []string{"bad/module.yaml"}})
	var found checked
	if err := json.Unmarshal([]byte(text), &found); err != nil || failed || found.OK || found.Errors == 0 || found.Diagnostics[0].Pos.File != "bad/module.yaml" {
		t.Errorf("%s", text)
	}
	text, failed = call(t, c, "assemble", fields{"graph": "bad/module.yaml"})
	if !failed || !strings.Contains(text, "MM0") || strings.Contains(text, dir) {
		t.Errorf("%s", text)
	}
	if text, failed = call(t, c, "infer", fields{"inputs": []fields{{"type": "text", "text": "x"}}}); !failed {
		t.Errorf("no build: %s", text)
	}
}

// No path of a call leaves the root folder.
func TestConfined(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "module.yaml", "name: outside\nversion: 1.0.0\ntype: skill\nsecret: sesame\n")
	put(t, outside, "secret.txt", "sesame")
	dir := world(t)
	put(t, dir, "full/src/main.go", "package main\n")
	for name, to := range map[string]string{"link": outside, "link.yaml": filepath.Join(outside, "module.yaml"), "link.txt": filepath.Join(outside, "secret.txt")} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	session := client(t, serve(t, dir, Options{Build: "b.graph.yaml"}))
	up, err := filepath.Rel(dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	text := []fields{{"type": "text", "text": "x"}}
	for name, c := range map[string]struct {
		tool string
		args fields
		want string
	}{
		"dots":              {"validate", fields{"paths": []string{up}}, "not below the root folder"},
		"absolute":          {"validate", fields{"paths": []string{outside}}, "not below the root folder"},
		"a link":            {"validate", fields{"paths": []string{"link"}}, "not below the root folder"},
		"a linked file":     {"validate", fields{"paths": []string{"link.yaml"}}, "not below the root folder"},
		"below a link":      {"validate", fields{"paths": []string{"link/module.yaml"}}, "not below the root folder"},
		"a zero":            {"validate", fields{"paths": []string{"x\x00y"}}, "not below the root folder"},
		"graph":             {"assemble", fields{"graph": "../x.graph.yaml"}, "not below the root folder"},
		"out by dots":       {"assemble", fields{"graph": "b.graph.yaml", "out": "../dist"}, "not below the root folder"},
		"out by a link":     {"assemble", fields{"graph": "b.graph.yaml", "out": "link/dist"}, "not below the root folder"},
		"out over files":    {"assemble", fields{"graph": "b.graph.yaml", "out": "full"}, "other files"},
		"out over all":      {"assemble", fields{"graph": "b.graph.yaml", "out": "."}, "other files"},
		"build":             {"infer", fields{"build": filepath.Join(outside, "x.gguf"), "inputs": text}, "not below the root folder"},
		"build by a link":   {"infer", fields{"build": "link", "inputs": text}, "not below the root folder"},
		"build below it":    {"infer", fields{"build": "link/x@1.0.0", "inputs": text}, "not below the root folder"},
		"layout":            {"infer", fields{"build": "oci:" + outside + ":x", "inputs": text}, "by its folder"},
		"build by dots":     {"infer", fields{"build": up + "@1.0.0", "inputs": text}, "not below the root folder"},
		"of this folder":    {"infer", fields{"build": "server.go", "inputs": text}, "not below the root folder"},
		"registry, offline": {"infer", fields{"build": "127.0.0.1:1/x/y:1.0.0", "inputs": text}, ""},
		"input":             {"infer", fields{"inputs": []fields{{"type": "image", "path": filepath.Join(outside, "secret.txt")}}}, "not below the root folder"},
		"asset":             {"reader", fields{"file": "#n", "assets": fields{"n": "link.txt"}}, "not below the root folder"},
		"asset by dots":     {"reader", fields{"file": "#n", "assets": fields{"n": filepath.Join(up, "secret.txt")}}, "not below the root folder"},
		"asset, a folder":   {"reader", fields{"file": "#n", "assets": fields{"n": "modules"}}, "regular"},
	} {
		t.Run(name, func(t *testing.T) {
			said, failed := call(t, session, c.tool, c.args)
			if !failed || strings.Contains(said, "sesame") || !strings.Contains(said, c.want) {
				t.Errorf("%s", said)
			}
		})
	}
	if left, _ := os.ReadDir(outside); len(left) != 2 {
		t.Errorf("outside there is now %v", left)
	}
}

// Invalid calls are refused, and the server continues.
func TestHostile(t *testing.T) {
	dir := world(t)
	s := serve(t, dir, Options{Build: "b.graph.yaml"})
	c := client(t, s)
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "rm", Arguments: fields{}}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("an unknown tool: %v", err)
	}
	for name, c2 := range map[string]struct {
		tool string
		args any
	}{
		"another type":      {"validate", fields{"paths": "b.graph.yaml"}},
		"an unknown key":    {"validate", fields{"path": "b.graph.yaml"}},
		"is not an object":  {"validate", []string{"b.graph.yaml"}},
		"another number":    {"adder", fields{"a": 1.5}},
		"an asset's name":   {"reader", fields{"file": "#n", "assets": fields{"../n": "b.graph.yaml"}}},
		"no such asset":     {"reader", fields{"file": "#n"}},
		"a large request":   {"infer", fields{"inputs": []fields{{"type": "text", "text": strings.Repeat("x", 1<<20+1)}}}},
		"messages":          {"infer", fields{"inputs": []fields{{"type": "text", "text": "x"}}, "messages": []fields{}}},
		"no inputs":         {"infer", fields{}},
		"not below 0":       {"infer", fields{"inputs": []fields{{"type": "text", "text": "x"}}, "preferences": fields{"max_tokens": -1}}},
		"a picture of text": {"infer", fields{"inputs": []fields{{"type": "image", "path": "b.graph.yaml"}}}},
	} {
		if said, failed := call(t, c, c2.tool, c2.args); !failed || len(said) > maxError+8 {
			t.Errorf("%s: %d bytes: %.200s", name, len(said), said)
		}
	}
	// A message that the protocol's reader refuses may end the session, with one
	// client.
	for name, args := range map[string]string{"a key twice": `{"a":1,"a":2}`, "too deep": `{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`} {
		result, err := client(t, s).CallTool(t.Context(), &sdk.CallToolParams{Name: "adder", Arguments: json.RawMessage(args)})
		if err == nil && !result.IsError {
			t.Errorf("%s: %s", name, textOf(t, result))
		}
	}
	if said, failed := call(t, c, "adder", fields{"a": 1}); failed {
		t.Errorf("after that: %s", said)
	}
}

// A canceled call ends, and so does the wait for a turn.
func TestCancelled(t *testing.T) {
	s := serve(t, world(t), Options{Build: "b.graph.yaml"})
	c := client(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "adder", Arguments: fields{"a": 7}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	for len(s.turns) > 0 {
		if time.Since(start) > 20*time.Second {
			t.Fatal("the skill goes on")
		}
		time.Sleep(5 * time.Millisecond)
	}
	for range maxCalls {
		s.turns <- struct{}{}
	}
	waits, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := s.turn(waits); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a fifth call: %v", err)
	}
	for range maxCalls {
		<-s.turns
	}
}

// One message a line, over any pair of streams; a line that is not a message is answered, and the
// session goes on.
func TestServe(t *testing.T) {
	s := serve(t, t.TempDir(), Options{})
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n"
	const name = `"name":"mm"`
	for title, c := range map[string]struct{ in, code, want string }{
		"initialize":   {hello, "", name},
		"no JSON":      {"hello\n" + hello, "-32700", name},
		"byte order":   {"\ufeff" + hello, "", name},
		"blank line":   {"\r\n \n" + hello, "", name},
		"batch":        {"[" + strings.TrimSpace(hello) + "]\n" + hello, "-32600", name},
		"other object": {"{\"a\":1}\n" + hello, "-32600", name},
		"other id":     {`{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n" + hello, "-32600", name},
		"version 1":    {`{"jsonrpc":"1.0","id":1,"method":"ping"}` + "\n" + hello, "-32600", name},
		"largest":      {strings.Repeat(" ", maxMessage-len(hello)) + hello, "", name},
		"larger":       {strings.Repeat(" ", maxMessage-len(hello)+1) + hello + hello, "-32600", name},
		"nothing":      {"", "", ""},
	} {
		out := &stream{}
		in, feed := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(t.Context(), in, out) }()
		io.WriteString(feed, c.in)
		// At the end of input answers under way are dropped.
		for end := time.Now().Add(10 * time.Second); c.want != "" && !strings.Contains(out.String(), c.want) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		feed.Close()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it goes on", title)
		}
		if got := out.String(); !strings.Contains(got, c.want) || !strings.Contains(got, c.code) || c.code == "" && strings.Contains(got, "error") || len(got) > 1<<16 {
			t.Errorf("%s: %.200s", title, got)
		}
	}
}

// stream is a stream in memory.
type stream struct {
	mu  sync.Mutex
	out strings.Builder
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// Close implements io.Closer.
func (*stream) Close() error { return nil }

// Over HTTP an unauthorized client is refused before its body is read.
func TestHandler(t *testing.T) {
	s := serve(t, t.TempDir(), Options{})
	const token = "0123456789abcdef"
	h, err := s.Handler("127.0.0.1:0", HTTPOptions{Token: token, Origins: []string{"https://ide.example"}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for name, c := range map[string]struct {
		set  map[string]string
		body string
		want int
	}{
		"welcome":        {nil, hello, 200},
		"an origin":      {map[string]string{"Origin": "https://ide.example"}, hello, 200},
		"no token":       {map[string]string{"Authorization": ""}, hello, 401},
		"another token":  {map[string]string{"Authorization": "Bearer 0123456789abcdeX"}, hello, 401},
		"another scheme": {map[string]string{"Authorization": "Basic " + token}, hello, 401},
		"a web page":     {map[string]string{"Origin": "https://evil.example"}, hello, 403},
		"no origin":      {map[string]string{"Origin": "null"}, hello, 403},
		"another name":   {map[string]string{"Host": "evil.example", "Origin": "http://evil.example"}, hello, 403},
		"a giant":        {nil, hello + strings.Repeat(" ", maxMessage), 413},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(c.body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", "Bearer "+token)
		for k, v := range c.set {
			if k == "Host" {
				req.Host = v
			} else {
				req.Header.Set(k, v)
			}
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d %.100s, wanted %d", name, resp.StatusCode, body, c.want)
		}
	}
	for name, c := range map[string]struct {
		addr string
		opt  HTTPOptions
	}{
		"all the world, no token": {"0.0.0.0:80", HTTPOptions{}},
		"a short token":           {"127.0.0.1:80", HTTPOptions{Token: "short"}},
		"no origin":               {"127.0.0.1:80", HTTPOptions{Origins: []string{"ide.example"}}},
		"an origin with a path":   {"127.0.0.1:80", HTTPOptions{Origins: []string{"https://ide.example/x"}}},
	} {
		if _, err := s.Handler(c.addr, c.opt); err == nil {
			t.Errorf("%s is served", name)
		}
	}
}

// The number of clients is bounded.
func TestCrowd(t *testing.T) {
	s := serve(t, t.TempDir(), Options{})
	h, err := s.Handler("127.0.0.1:0", HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	codes := map[int]int{}
	for range maxSessions + 2 {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		codes[resp.StatusCode]++
	}
	if codes[200] != maxSessions || codes[503] != 2 {
		t.Errorf("%v", codes)
	}
}

// Sealed marks files whose names identify their bytes.
func (sealed) Sealed() {}
