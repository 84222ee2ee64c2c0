package modules

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAllowWithin(t *testing.T) {
	for _, c := range []struct{ asks, most, want, rest string }{
		{"s=read:/a/b", "s=read:/a", "read:/a/b", "none"},
		{"s=read:/a", "s=read:/a/b,read:/a/c", "read:/a/b read:/a/c", "read:/a"},
		{"s=read:/a", "s=read:/ab", "none", "read:/a"},
		{"s=read:/a", "s=read:/", "read:/a", "none"},
		{"s=read:/a/../b", "s=read:/a", "none", "read:/b"},
		{"s=env:A,env:B,clock", "s=env:B,random", "env:B", "clock env:A"},
		{"s=network:a.example,random", "s=network:a.example,clock", "network:a.example", "random"},
		{"s=network:a.example", "s=network:example", "none", "network:a.example"},
	} {
		asks, err := ParseGrant(c.asks)
		if err != nil {
			t.Fatal(err)
		}
		most, err := ParseGrant(c.most)
		if err != nil {
			t.Fatal(err)
		}
		got := asks.Allow.Within(most.Allow)
		if got.String() != c.want || asks.Allow.Without(got).String() != c.rest || got.Empty() != (c.want == "none") {
			t.Errorf("%s within %s: %s, rest %s; want %s, %s", c.asks, c.most, got, asks.Allow.Without(got), c.want, c.rest)
		}
	}
}

func TestParseGrant(t *testing.T) {
	wd, err := filepath.Abs("x")
	if err != nil {
		t.Fatal(err)
	}
	if g, err := ParseGrant("s=read:x"); err != nil || !slices.Equal(g.Allow.Read, []string{wd}) {
		t.Errorf("%+v, %v", g, err)
	}
	for _, text := range []string{"", "s", "s=", "=read:/x", "s=read", "s=read:", "s=env:", "s=env:A=B", "s=env:" + strings.Repeat("A", 65), "s=network:a/b", "s=all", "s=clock:1", "s=env:A,,env:B"} {
		if g, err := ParseGrant(text); err == nil {
			t.Errorf("%q: %+v", text, g)
		}
	}
}

func TestProgramDigest(t *testing.T) {
	const file = "sha256:00"
	mcp := func(args ...string) *Runtime { return &Runtime{MCP: &MCP{Command: "x", Args: args, Tool: "t"}} }
	seen := map[string]bool{}
	for _, r := range []*Runtime{{Wasm: "x"}, mcp(), mcp("a"), mcp("a", "b"), mcp("a b"), {MCP: &MCP{Command: "x", Tool: "u"}}, {Container: "x@sha256:11"}} {
		d := r.ProgramDigest(file)
		if seen[d] || !strings.HasPrefix(d, "sha256:") {
			t.Errorf("%+v: %q", r, d)
		}
		seen[d] = true
	}
	if (&Runtime{Builtin: "x"}).ProgramDigest("") != "" || (&Runtime{Agent: "x:1"}).ProgramDigest("") != "" || (&Runtime{Container: "x:1"}).ProgramDigest("") != "" {
		t.Error("a program without bytes has a digest")
	}
}
