package mcpclient

import (
	"context"
	"fmt"
	"io"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// TestListLimits covers maxTools and maxPages on either side.
func TestListLimits(t *testing.T) {
	for _, c := range []struct {
		tools, page int
		want        bool
	}{
		{maxTools, maxTools, true}, {maxTools + 1, maxTools + 1, false},
		{maxPages, 1, true}, {maxPages + 1, 1, false},
	} {
		s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{PageSize: c.page})
		for i := range c.tools {
			s.AddTool(&sdk.Tool{Name: fmt.Sprintf("t%d", i), InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
		}
		here, there := sdk.NewInMemoryTransports()
		if _, err := s.Connect(t.Context(), there, nil); err != nil {
			t.Fatal(err)
		}
		session, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := (&guest{name: "s"}).list(t.Context(), session)
		if (err == nil) != c.want || c.want && len(l.Names) != c.tools {
			t.Errorf("%d tools in pages of %d: got %d, %v", c.tools, c.page, len(l.Names), err)
		}
		session.Close()
	}
}

// recorder is an executor and a guest that records the limits of Talk.
type recorder struct{ limits []int64 }

func (r *recorder) Prepare(context.Context, sandbox.Program) (sandbox.Guest, error) { return r, nil }
func (r *recorder) Call(context.Context, sandbox.Call) (sandbox.Reply, error) {
	return sandbox.Reply{}, nil
}
func (r *recorder) Close() error { return nil }
func (r *recorder) Talk(_ context.Context, _ []sandbox.Asset, limit int64, _ func(context.Context, io.ReadCloser, io.WriteCloser) error) (sandbox.Reply, error) {
	r.limits = append(r.limits, limit)
	return sandbox.Reply{}, nil
}

// TestOverhead checks that a server may write maxOverhead bytes, and eight
// times its output limit in a call.
func TestOverhead(t *testing.T) {
	r := &recorder{}
	g, err := Executor{Programs: r}.Prepare(t.Context(), sandbox.Program{MCP: &modules.MCP{}, Limits: modules.Effective{OutputBytes: 100}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Call(t.Context(), sandbox.Call{}); err != nil {
		t.Fatal(err)
	}
	if len(r.limits) != 2 || r.limits[0] != maxOverhead || r.limits[1] != maxOverhead+800 {
		t.Errorf("got limits %v", r.limits)
	}
}
