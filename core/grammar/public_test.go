package grammar_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/grammar"
)

var update = flag.Bool("update", false, "rewrite testdata/public/refused.txt")

// TestPublic compiles schemas in the style of public ones: tools of MCP servers, models
// of pydantic and zod, OpenAPI, and the kinds of JSONSchemaBench. Each is accepted, or
// is in the list of refusals with the place and the reason.
func TestPublic(t *testing.T) {
	all := public(t)
	var refused strings.Builder
	for _, s := range all {
		_, err := grammar.New(s.data, grammar.Options{})
		if err == nil {
			continue
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		if !strings.Contains(first, "/") {
			t.Errorf("%s: %v, want a place", s.name, err)
		}
		fmt.Fprintf(&refused, "%s: %s\n", s.name, first)
	}
	const list = "testdata/public/refused.txt"
	if *update {
		if err := os.WriteFile(list, []byte(refused.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if got := refused.String(); got != string(want) {
		t.Errorf("other refusals than %s (-update rewrites it): got\n%s", list, got)
	}
	t.Logf("%d of %d accepted", len(all)-strings.Count(string(want), "\n"), len(all))
}

// public returns the schemas of testdata/public.
func public(t testing.TB) (out []named) {
	t.Helper()
	files, err := filepath.Glob("testdata/public/*.json")
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			out = append(out, named{filepath.Base(file) + ": " + name, all[name]})
		}
	}
	return out
}
