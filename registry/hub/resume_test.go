package hub_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/registry/hub"
	"mm-abi.org/mm/registry/registrytest"
)

// A push that ends at any of its requests leaves no half commit, and the next one sends
// only objects that the hub lacks.
func TestPushInterrupted(t *testing.T) {
	ended := 0
	for stop := int64(1); ; stop++ {
		d := registrytest.NewHub(t)
		d.Chunk = 7000
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int64
		d.Fault = func(*http.Request) (int, string) {
			if n.Add(1) == stop {
				cancel()
				return http.StatusServiceUnavailable, ""
			}
			return 0, ""
		}
		c, r := client(t, d, ""), ref(t, "hf://me/small")
		_, err := c.Push(ctx, r, files(contents()), hub.PushOptions{})
		cancel()
		if err == nil {
			if n.Load() >= stop {
				t.Fatalf("request %d: the push succeeded after its end", stop)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("request %d: %v", stop, err)
		}
		ended++
		d.Fault = nil
		if tree, err := c.Tree(t.Context(), r); err == nil && len(tree.Files) != 0 {
			t.Errorf("request %d: %d files of a push that ended", stop, len(tree.Files))
		}
		got, err := c.Push(t.Context(), r, files(contents()), hub.PushOptions{})
		if err != nil || got.Sent+got.Present != 2 {
			t.Fatalf("request %d: the next push: %+v, %v", stop, got, err)
		}
		tree, err := c.Tree(t.Context(), r)
		if err != nil || len(tree.Files) != len(contents()) {
			t.Errorf("request %d: %+v, %v", stop, tree, err)
		}
		if stop%7 != 0 {
			continue
		}
		dir := t.TempDir()
		if _, err := c.Pull(t.Context(), r, dir, hub.PullOptions{Include: []string{"*", "*/*"}}); err != nil {
			t.Fatalf("request %d: %v", stop, err)
		}
		if diff := cmp.Diff(contents(), read(t, dir)); diff != "" {
			t.Errorf("request %d: %s", stop, diff)
		}
	}
	if ended < 10 {
		t.Errorf("got %d interruptions, want at least 10", ended)
	}
	t.Logf("%d interruptions", ended)
}

// A URL that expired and a part that arrived damaged end the push by name; the next one
// asks for new URLs.
func TestPushStorageFaults(t *testing.T) {
	for _, f := range []struct {
		name, path, want string
		status           int
	}{
		{"an expired URL", "/part/", "403", 403}, {"a part that was damaged", "/complete/", "400", 400}, {"an object that is lost", "/verify", "404", 404},
	} {
		d := registrytest.NewHub(t)
		d.Chunk = 7000
		d.Fault = func(r *http.Request) (int, string) {
			if strings.HasPrefix(r.URL.Path, f.path) {
				return f.status, "refused by the storage"
			}
			return 0, ""
		}
		c, r := client(t, d, ""), ref(t, "hf://me/small")
		if _, err := c.Push(t.Context(), r, files(contents()), hub.PushOptions{}); err == nil || !strings.Contains(err.Error(), "sending ") || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: got %v, want %q in it", f.name, err, f.want)
		}
		if _, err := c.Tree(t.Context(), r); err == nil {
			if p, err := c.Pull(t.Context(), r, t.TempDir(), hub.PullOptions{Include: []string{"*", "*/*"}}); err == nil && p.Fetched > 0 {
				t.Errorf("%s: %d files were committed", f.name, p.Fetched)
			}
		}
		d.Fault = nil
		if got, err := c.Push(t.Context(), r, files(contents()), hub.PushOptions{}); err != nil || got.Sent+got.Present != 2 {
			t.Errorf("%s: the next push: %+v, %v", f.name, got, err)
		}
	}
}
