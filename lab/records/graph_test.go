package records_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/records"
)

func TestAddAndRead(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	run := records.Node{ID: "run-1", Type: "Run", Time: "2026-01-01T00:00:00Z", Attributes: json.RawMessage(`{"z": 1.50, "a": "x"}`)}
	checkpoint := records.Node{ID: "ckpt-1", Type: "Checkpoint"}
	edges := []records.Edge{{Type: "PRODUCED", From: "run-1", To: "ckpt-1"}, {Type: "USED_MODEL", From: "run-1", To: "qwen"}, {Type: "DERIVED_FROM", From: "ckpt-1", To: "qwen"}}
	for range 2 { // the second call adds nothing
		if err := records.AddToGraph(ctx, dir, []records.Node{run, checkpoint}, edges); err != nil {
			t.Fatal(err)
		}
	}
	g, err := records.ReadGraph(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Nodes) != 3 || !g.Nodes[2].Placeholder || g.Nodes[2].ID != "qwen" || g.Nodes[2].Type != "" || string(g.Nodes[0].Attributes) != `{"a":"x","z":1.50}` {
		t.Errorf("%+v", g.Nodes)
	}
	if diff := cmp.Diff(edges, g.Edges); diff != "" {
		t.Error(diff)
	}
	near, err := g.Neighbors("qwen", "")
	if err != nil || len(near.Nodes) != 2 || len(near.Edges) != 2 {
		t.Errorf("%+v, %v", near, err)
	}
	if near, err = g.Neighbors("run-1", "PRODUCED"); err != nil || len(near.Nodes) != 1 || near.Nodes[0].ID != "ckpt-1" {
		t.Errorf("%+v, %v", near, err)
	}
	for _, query := range [][2]string{{"none", ""}, {"run-1", "LIKES"}} {
		if _, err := g.Neighbors(query[0], query[1]); err == nil {
			t.Errorf("%v: no error", query)
		}
	}
	run.Attributes = json.RawMessage(`{"z":2}`)
	for name, err := range map[string]error{
		"changed node":          records.AddToGraph(ctx, dir, []records.Node{run}, nil),
		"unknown node type":     records.AddToGraph(ctx, dir, []records.Node{{ID: "x", Type: "Cat"}}, nil),
		"no ID":                 records.AddToGraph(ctx, dir, []records.Node{{Type: "Run"}}, nil),
		"placeholder":           records.AddToGraph(ctx, dir, []records.Node{{ID: "x", Type: "Run", Placeholder: true}}, nil),
		"attributes are a list": records.AddToGraph(ctx, dir, []records.Node{{ID: "x", Type: "Run", Attributes: json.RawMessage(`[1]`)}}, nil),
		"unknown edge type":     records.AddToGraph(ctx, dir, nil, []records.Edge{{Type: "LIKES", From: "a", To: "b"}}),
		"edge without target":   records.AddToGraph(ctx, dir, nil, []records.Edge{{Type: "PRODUCED", From: "a"}}),
		"loop":                  records.AddToGraph(ctx, dir, nil, []records.Edge{{Type: "PRODUCED", From: "a", To: "a"}}),
	} {
		if err == nil {
			t.Errorf("%s was added", name)
		}
	}
	path := filepath.Join(dir, records.NodesFile)
	data, _ := os.ReadFile(path)
	if err := os.WriteFile(path, append(data, data...), 0o644); err != nil { // as two processes leave
		t.Fatal(err)
	}
	if g, err := records.ReadGraph(dir); err != nil || len(g.Nodes) != 3 {
		t.Errorf("%+v, %v", g, err)
	}
	changed := strings.Replace(string(data), `"a":"x"`, `"a":"y"`, 1)
	for name, text := range map[string]string{"changed": changed, "duplicate": string(data) + `{"id":"run-1","type":"Phase"}` + "\n", "unknown": `{"id":"x","type":"Run","colour":"red"}` + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := records.ReadGraph(dir); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if len(records.NodeTypes()) != 22 || len(records.EdgeTypes()) != 14 {
		t.Error("missing types")
	}
}

// Concurrent additions of the same nodes write them once; of different nodes with one ID,
// one is written.
func TestAddAtOnce(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	var other atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			if err := records.AddToGraph(ctx, dir, []records.Node{{ID: "a", Type: "Run"}, {ID: "b", Type: "Model"}}, []records.Edge{{Type: "USED_MODEL", From: "a", To: "b"}}); err != nil {
				t.Error(err)
			}
			if records.AddToGraph(ctx, dir, []records.Node{{ID: "c", Type: "Run", Attributes: fmt.Appendf(nil, `{"i":%d}`, i)}}, nil) == nil {
				other.Add(1)
			}
		})
	}
	wg.Wait()
	for file, want := range map[string]int{records.NodesFile: 3, records.EdgesFile: 1} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || strings.Count(string(data), "\n") != want {
			t.Errorf("%s: %v\n%s", file, err, data)
		}
	}
	if g, err := records.ReadGraph(dir); err != nil || len(g.Nodes) != 3 || other.Load() != 1 {
		t.Errorf("%+v, %v, %d of different nodes", g, err, other.Load())
	}
}
