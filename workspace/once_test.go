package workspace_test

import (
	"context"
	"fmt"
	"testing"

	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/workspace"
)

// A pull fetches each manifest, config and layer once, decodes each document once
// for the checks, and each manifest once for the store.
func TestPullReadsOnce(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	r := w.serve()
	desc := w.index(r.store, "p", "1.0.0", "team/p:1.0.0", "laptop", "phone", "server")
	w.sign(r.store, desc, 0)
	tree, err := artifact.ReadTree(ctx, r.store, desc)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"phone", ""} {
		want := map[string]int{"1.0.0": 1, desc.Digest.String(): 0} // the index comes by its tag
		for _, p := range tree.Parts {
			want[p.Descriptor.Digest.String()] = 1
		}
		clear(r.gets)
		before := artifact.Decodes()
		ws := newWorld(t).open(workspace.Options{})
		if _, err := ws.Pull(ctx, r.host+"/team/p:1.0.0", workspace.PullOptions{Target: target, Out: "out"}); err != nil {
			t.Fatal(err)
		}
		for key, n := range r.gets {
			if most, ok := want[key]; n > 1 || ok && n != most {
				t.Errorf("target %q: %d GETs of %s", target, n, key)
			}
		}
		for key, n := range want {
			if r.gets[key] != n {
				t.Errorf("target %q: %d GETs of %s, want %d", target, r.gets[key], key, n)
			}
		}
		// Index, 3 manifests and 3 configs for the checks; index, 3 manifests and 4
		// bundles' manifests for the store; oci-layout once, index.json after each of 4
		// changes.
		if n := artifact.Decodes() - before; n > 7+8+5 {
			t.Errorf("target %q: %d documents decoded, want at most 20", target, n)
		}
	}
}

// A reference without a version reads the manifests of its own name alone.
func TestNewestReadsItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	ctx := context.Background()
	w := newWorld(t)
	s := w.store()
	for i := range 60 {
		desc := w.pack(s, build(fmt.Sprintf("stranger-%d", i), "1.0.0", "laptop"), "")
		for _, v := range []string{"1.0.0", "1.0.0-laptop", "latest"} {
			w.tag(s, desc, fmt.Sprintf("stranger-%d:%s", i, v))
		}
	}
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		w.pack(s, build("mine", v, "laptop"), "mine:"+v)
	}
	ws := w.open(workspace.Options{})
	if _, err := ws.Find(ctx, "stranger-1:1.0.0"); err != nil { // opens the store
		t.Fatal(err)
	}
	before := artifact.Decodes()
	at, err := ws.Find(ctx, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if at.Ref() != "mine" {
		t.Error(at.Ref())
	}
	if n := artifact.Decodes() - before; n > 2 { // the manifest and the config of the newest
		t.Errorf("decoded %d documents, want 2", n)
	}
}
