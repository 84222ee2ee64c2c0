package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/server"
)

// world is a home with a key and two signed builds of the same name in it.
func world(t *testing.T) {
	t.Helper()
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	t.Setenv("MM_KEY_PASSWORD", "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Chdir("../..")
	for _, args := range [][]string{
		{"keys", "generate"},
		{"assemble", "builds/m-lite.graph.yaml", "--sign", "default", "--target", "laptop"},
		{"tag", "m-lite:0.1.0", "m-lite:kept"},
		{"assemble", "builds/m-lite.graph.yaml", "--sign", "default", "--target", "phone"},
		{"tag", "m-lite:0.1.0-phone", "m-lite:0.1.0", "--force"},
	} {
		if _, stderr, code := mm(t, args...); code != exitOK {
			t.Fatalf("mm %v: exit %d: %s", args, code, stderr)
		}
	}
}

// moving runs mm with a hook between verification and use.
func moving(t *testing.T, move func(), args ...string) (stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, engines: engines()}
	p.testOnlyVerified = func(*located) { move() }
	app := p.app()
	code = p.exit(app.RunContext(context.Background(), permute(app, append([]string{"mm"}, args...))))
	if strings.Contains(out.String(), "tok/s") {
		t.Error("it ran")
	}
	return errs.String(), code
}

// A tag that moves between verification and use is refused: by run in the
// store, by pull at a registry.
func TestTagMoved(t *testing.T) {
	world(t)
	stderr, code := moving(t, func() {
		if _, errs, code := mm(t, "tag", "m-lite:kept", "m-lite:0.1.0", "--force"); code != exitOK {
			t.Fatal(errs)
		}
	}, "run", "m-lite:0.1.0", "--max-tokens", "1")
	if code != exitRefused || !strings.Contains(stderr, "MM0614") {
		t.Errorf("run: exit %d: %s", code, stderr)
	}

	address, store := serveForTest(t)
	ref := address + "/team/m-lite:0.1.0"
	push := func(what string) {
		t.Helper()
		if _, errs, code := mm(t, "push", what, ref); code != exitOK {
			t.Fatal(errs)
		}
	}
	push("m-lite:0.1.0-laptop")
	t.Setenv("MM_HOME", copyTrust(t))
	stderr, code = moving(t, func() { moveTag(t, store) }, "pull", ref)
	if code != exitRefused || !strings.Contains(stderr, "MM0614") {
		t.Errorf("pull: exit %d: %s", code, stderr)
	}
	if out, _, _ := mm(t, "ls"); strings.Contains(out, "m-lite") {
		t.Errorf("the refused artifact got a name: %s", out)
	}
}

// serveForTest serves an empty store on loopback until the test ends.
func serveForTest(t *testing.T) (address string, store *registry.Store) {
	t.Helper()
	store, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serveStore(ctx, store, l, server.Options{}, "", "") }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		store.Close()
	})
	return l.Addr().String(), store
}

// moveTag lets the registry's tag name another manifest of its store.
func moveTag(t *testing.T, s *registry.Store) {
	t.Helper()
	ctx := context.Background()
	data := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}`)
	if _, err := s.AddBytes(ctx, "application/vnd.oci.empty.v1+json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	desc, err := s.AddBytes(ctx, "application/vnd.oci.image.manifest.v1+json", data)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Tag(ctx, desc, "team/m-lite:0.1.0"); err != nil {
		t.Fatal(err)
	}
}

// copyTrust makes a new home that trusts the key of the present one.
func copyTrust(t *testing.T) string {
	t.Helper()
	dir, err := home()
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "away")
	t.Setenv("MM_HOME", fresh)
	if _, errs, code := mm(t, "trust", "add", filepath.Join(dir, keysDir, defaultKey+".pub")); code != exitOK {
		t.Fatal(errs)
	}
	return fresh
}
