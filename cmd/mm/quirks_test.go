package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/registrytest"
)

// clientChunk is the size of the chunks that mm sends.
const clientChunk = 16 << 20

// quirkHome makes a home with a signed module, and a second key, in the current
// folder. With large, its weights are sent in three chunks.
func quirkHome(t *testing.T, large bool) {
	t.Helper()
	width := "64"
	if large {
		width = "1024"
	}
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	for _, args := range [][]string{
		{"keys", "generate", "--unencrypted"},
		{"keys", "generate", "--name", "second", "--out", "second", "--no-trust", "--unencrypted"},
		{"module", "new", "core", "core-llm", "--d-model", width},
		{"module", "add", "core-llm", "--sign", "default"},
	} {
		must(t, args...)
	}
	if info, err := os.Stat("core-llm/core-llm.gguf"); err != nil || large && info.Size() <= 2*clientChunk {
		t.Fatalf("%v, %v", info, err)
	}
}

// quirkSteps are the commands in their order, with a part of their output. The first home
// pushes and signs, the second has only the public key.
var quirkSteps = []struct {
	name, home string
	args       []string
	want       string
}{
	{"push", "ours", []string{"push", "core-llm:0.1.0", "HOST/team/core-llm"}, "HOST/team/core-llm:0.1.0@sha256:"},
	{"push again", "ours", []string{"push", "core-llm:0.1.0", "HOST/team/core-llm"}, "HOST/team/core-llm:0.1.0@sha256:"},
	{"verify", "theirs", []string{"verify", "--remote", "HOST/team/core-llm:0.1.0"}, "released by key"},
	{"inspect", "theirs", []string{"inspect", "--remote", "HOST/team/core-llm:0.1.0"}, "signatures: 1"},
	{"lock", "theirs", []string{"lock", "g.graph.yaml"}, "core-llm"},
	{"pull", "theirs", []string{"pull", "HOST/team/core-llm:0.1.0"}, "HOST/team/core-llm:0.1.0@sha256:"},
	{"sign", "ours", []string{"sign", "core-llm:0.1.0", "--key", "second.key"}, ""},
	{"sign, push", "ours", []string{"push", "core-llm:0.1.0", "HOST/team/core-llm"}, "HOST/team/core-llm:0.1.0@sha256:"},
	{"sign, inspect", "theirs", []string{"inspect", "--remote", "HOST/team/core-llm:0.1.0"}, "signatures: 2"},
	{"gc", "theirs", []string{"gc", "--grace", "0"}, "removed"},
	{"gc, verify", "theirs", []string{"verify", "HOST/team/core-llm:0.1.0"}, "released by key"},
	{"assemble", "theirs", []string{"assemble", "g.graph.yaml", "--locked"}, "g:0.1.0 sha256:"},
}

// quirkRefusals are the commands that a profile cannot pass, with words of the error.
// All of them have exit 1: the artifact is not at fault.
var quirkRefusals = map[string]string{
	"nexus-cut lock":               "unexpected answer from registry HOST to GET http://HOST/v2/team/core-llm/tags/list",
	"nexus-cut assemble":           "",
	"immutable-tags sign, push":    "hint: exempt tags that match sha256-* from immutability",
	"immutable-tags sign, inspect": "",
}

// Every command of mm passes every registry's quirks.
func TestQuirks(t *testing.T) {
	large := os.Getenv("MM_QUIRKS") != ""
	if testing.Short() && !large {
		t.Skip("slow")
	}
	t.Setenv("MM_KEY_PASSWORD", "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Chdir(t.TempDir())
	quirkHome(t, large)
	base := os.Getenv("MM_HOME")
	for _, p := range registrytest.Profiles(clientChunk) {
		if alike := strings.HasPrefix(p.Name, "referrers-") || strings.HasPrefix(p.Name, "patch-"); alike && !large {
			continue // the client's own test has them
		}
		t.Run(p.Name, func(t *testing.T) {
			reg := registrytest.New()
			reg.Quirks = p.Quirks
			srv := httptest.NewServer(reg)
			defer srv.Close()
			host := strings.TrimPrefix(srv.URL, "http://")
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "ours"), os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("g.graph.yaml", fmt.Appendf(nil, "name: g\nversion: 0.1.0\ncore:\n  llm: {ref: %s/team/core-llm@^0.1}\n", host), 0o600); err != nil {
				t.Fatal(err)
			}
			os.Remove("g.lock.yaml")
			os.Remove("compat.csv")
			t.Setenv("MM_HOME", filepath.Join(dir, "theirs"))
			must(t, "trust", "add", filepath.Join(base, "keys", "mm.pub"), "--match", "**")
			fill := strings.NewReplacer("HOST", host).Replace
			for _, s := range quirkSteps {
				t.Setenv("MM_HOME", filepath.Join(dir, s.home))
				var args []string
				for _, a := range s.args {
					args = append(args, fill(a))
				}
				stdout, stderr, code := mm(t, args...)
				for range p.Quirks.Lag { // a late listing looks complete
					if code != exitOK && s.name == "lock" {
						stdout, stderr, code = mm(t, args...)
					}
				}
				if want, refused := quirkRefusals[p.Name+" "+s.name]; refused {
					if want != "" && (code != diag.ExitFailure || !strings.Contains(stderr, fill(want))) {
						t.Errorf("%s: exit %d, %q, want %q", s.name, code, stderr, want)
					}
				} else if code != exitOK || !strings.Contains(stdout+stderr, fill(s.want)) {
					t.Errorf("%s (%s): exit %d, %s%s", s.name, p.About, code, stdout, stderr)
				}
			}
		})
	}
}

// An interrupted push of a folder continues where it stopped: its memory is in MM_HOME,
// since the folder is only read.
func TestPushFolderResumes(t *testing.T) {
	t.Setenv("MM_KEY_PASSWORD", "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Chdir(t.TempDir())
	quirkHome(t, true)
	must(t, "push", "core-llm:0.1.0", "oci:dist")
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "other"))
	info, err := os.Stat("core-llm/core-llm.gguf")
	if err != nil {
		t.Fatal(err)
	}
	reg := registrytest.New()
	reg.ReferrersAPI = true
	srv := httptest.NewServer(reg)
	defer srv.Close()
	to := strings.TrimPrefix(srv.URL, "http://") + "/team/core-llm"
	for kill := range 2 {
		ctx, stop := context.WithCancel(t.Context())
		patches := 0
		reg.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPatch {
				patches++
			}
			if patches == 2 || kill == 1 && r.Method == http.MethodPut {
				stop()
				io.Copy(io.Discard, r.Body) // until the client is gone
				panic(http.ErrAbortHandler)
			}
			return false
		}
		var out strings.Builder
		if code := run(ctx, []string{"mm", "push", "dist", to}, strings.NewReader(""), &out, &out); code != exitInterrupted {
			t.Fatalf("exit %d: %s", code, out.String())
		}
	}
	reg.Fault = nil
	must(t, "push", "dist", to)
	must(t, "inspect", "--remote", to+":0.1.0")
	if extra := reg.Received - info.Size(); extra > clientChunk {
		t.Errorf("%d bytes were sent twice", extra)
	}
	if n := len(reg.Sessions); n != 0 {
		t.Errorf("%d uploads are left at the registry", n)
	}
}
