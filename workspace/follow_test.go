package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/workspace"
)

// A moving tag that goes back is followed with a warning: the highest version that a
// trusted key released in a repository is remembered.
func TestRollback(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	put := func(version, tag string, keys ...int) {
		t.Helper()
		desc := w.pack(reg.store, build("p", version, ""), "team/p:"+tag)
		for _, k := range keys {
			w.sign(reg.store, desc, k)
		}
	}
	for i, step := range []struct {
		version, tag string
		keys         []int
		ref          string
		warns        string
	}{
		{"0.1.0", "latest", []int{0}, "p:latest", ""},
		{"0.2.0", "latest", []int{0}, "p:latest", ""},
		{"0.2.0", "latest", []int{0}, "p:latest", ""},
		{"0.1.0", "latest", []int{0}, "p:latest", "version 0.1.0, but version 0.2.0 (sha256:"},
		{"0.1.0", "latest", []int{0}, "p:latest", "version 0.1.0, but version 0.2.0 (sha256:"}, // again
		{"0.1.0", "0.1.0", []int{0}, "p:0.1.0", ""},                                            // the user's word
		{"0.3.0-rc.1", "edge", []int{0}, "p:edge", "but version 0.2.0"},                        // not a release
		{"9.0.0", "evil", []int{1}, "p:evil", ""},                                              // not of a trusted key, so not remembered
		{"0.2.1", "latest", []int{0}, "p:latest", ""},
		{"0.10.0", "latest", []int{0}, "p:latest", ""},
		{"0.9.0", "stable", []int{0}, "p:stable", "version 0.9.0, but version 0.10.0"},
	} {
		put(step.version, step.tag, step.keys...)
		for _, way := range []string{"verify", "pull"} {
			w.printed = nil
			ws := w.open(workspace.Options{PlainHTTP: []string{reg.host}})
			ref := reg.host + "/team/" + step.ref
			at, err := ws.FindRemote(ctx, ref)
			if err != nil {
				t.Fatal(err)
			}
			if way == "verify" {
				_, _, _, err = ws.Verify(ctx, at, workspace.Claim{})
			} else {
				_, err = ws.Pull(ctx, ref, workspace.PullOptions{Force: true})
			}
			if (err != nil) != (step.keys[0] == 1) {
				t.Fatalf("%d %s: %v", i, way, err)
			}
			if text := strings.Join(w.printed, "\n"); strings.Contains(text, "was released there before") != (step.warns != "") || !strings.Contains(text, step.warns) {
				t.Errorf("%d, %s %s: %q, want %q", i, way, step.ref, text, step.warns)
			}
		}
	}
	put("8.0.0", "skipped")
	skip := workspace.PullOptions{Claim: workspace.Claim{Skip: true}}
	if _, err := w.open(workspace.Options{PlainHTTP: []string{reg.host}}).Pull(ctx, reg.host+"/team/p:skipped", skip); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(w.home, "versions.json")); err != nil || strings.Contains(string(text), "8.0.0") {
		t.Errorf("an unverified version is recorded: %s, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(w.home, "versions.json")); err != nil {
		t.Error(err)
	}
	w.write(filepath.Join(w.home, "versions.json"), "{")
	if _, err := w.open(workspace.Options{PlainHTTP: []string{reg.host}}).Pull(ctx, reg.host+"/team/p:latest", workspace.PullOptions{Force: true}); err != nil || !w.heard("versions.json") {
		t.Errorf("a damaged record: %v", err)
	}
}

// A registry returns a signed target under the name of the build.
func TestTargetAsBuild(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	one := func(exports string) ocispec.Descriptor {
		c := build("p", "1.0.0", "laptop")
		c.files["p.graph.yaml"] = "name: p\nversion: 1.0.0\nabi: mm-abi-1.0\ncore:\n  llm: {ref: core@1.0.0}\nexports: {" + exports + "}\n"
		desc := w.pack(reg.store, c, "")
		w.sign(reg.store, desc, 0)
		return desc
	}
	single, laptop := one("laptop: {gguf: {quant: int4}}"), one("laptop: {gguf: {quant: int4}}, phone: {gguf: {quant: int4}}")
	index, err := artifact.PackIndex(ctx, reg.store, []artifact.IndexEntry{{Descriptor: laptop, Target: "laptop"}}, map[string]string{
		abi.AnnotationABI: string(abi.V1_0), abi.AnnotationKind: abi.KindAssembly, abi.AnnotationName: "p", abi.AnnotationVersion: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	w.sign(reg.store, index, 0)
	for _, c := range []struct {
		desc     ocispec.Descriptor
		tag, ref string
		target   string
		want     diag.Code
	}{
		{single, "1.0.0", "p:1.0.0", "", ""},
		{single, "latest", "p:latest", "", ""},
		{laptop, "1.0.0-laptop", "p:1.0.0-laptop", "", ""},
		{laptop, "latest-laptop", "p:latest-laptop", "", ""},
		{laptop, "x", "p@" + laptop.Digest.String(), "", ""},
		{index, "1.0.0", "p:1.0.0", "", ""},
		{index, "1.0.0", "p:1.0.0", "laptop", ""},
		{laptop, "1.0.0", "p:1.0.0", "", diag.IdentityDiffers},
		{laptop, "latest", "p:latest", "", diag.IdentityDiffers},
	} {
		w.tag(reg.store, c.desc, "team/p:"+c.tag)
		for _, strict := range []string{"", "strict: true\n"} {
			want := c.want
			if strict == "" {
				want = ""
			}
			w.trust(filepath.Join(w.home, "trust.yaml"), strict, "**", 0)
			ws := w.open(workspace.Options{PlainHTTP: []string{reg.host}})
			ref := reg.host + "/team/" + c.ref
			at, err := ws.FindRemote(ctx, ref)
			if err != nil {
				t.Fatal(err)
			}
			if c.target == "" {
				_, _, _, err = ws.Verify(ctx, at, workspace.Claim{})
				w.wants(strict+"verify "+c.ref, err, string(want))
			}
			w.printed = nil
			_, err = ws.Pull(ctx, ref, workspace.PullOptions{Force: true, Target: c.target})
			w.wants(strict+"pull "+c.ref, err, string(want))
			if warned := w.heard("only target laptop of a build for laptop, phone"); strict == "" && warned != (c.want != "") {
				t.Errorf("pull %s: warned %v", c.ref, warned)
			}
		}
	}
}
