package resolve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/modelpack"
)

// Tags of a layout are versions, channels, targets and other people's names.
func TestLayout(t *testing.T) {
	ctx, from, into := context.Background(), openStore(t), openStore(t)
	put(t, from, "core", "1.0.0", "core:1.0.0")
	put(t, from, "core", "1.1.0+abc", "core:1.1.0_abc")
	put(t, from, "core", "1.2.0-rc.1", "core:1.2.0-rc.1")
	moved := put(t, from, "core", "1.3.0", "core:latest")
	put(t, from, "core", "1.0.5", "reg.example/team/core:1.0.5")
	put(t, from, "core-llm", "8.0.0", "core-llm:8.0.0")
	put(t, from, "else", "7.0.0", "core:7.0.0")
	put(t, from, "core", "0.9.0", "core:7.0.1")
	other, err := artifact.Pack(ctx, from, artifact.Artifact{Name: "core", Version: "5.0.0", Annotations: map[string]string{abi.AnnotationKind: abi.KindAssembly},
		Layers: []artifact.Layer{{Path: "f", Descriptor: ocispec.Descriptor{MediaType: abi.MediaDoc, Digest: moved.Digest, Size: moved.Size}}}})
	if err == nil {
		err = from.Tag(ctx, other, "core:5.0.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	ix, err := artifact.PackIndex(ctx, from, []artifact.IndexEntry{{Descriptor: moved, Target: "x"}}, nil)
	if err == nil {
		err = from.Tag(ctx, ix, "core:6.0.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	ver := &trusting{}
	src := &Layout{From: from, Into: into, Verifier: ver, Label: "dist"}
	for ref, want := range map[string]string{
		"core@1.0": "core@1.0.5 reg.example/team/core", "core@1.0.0": "core@1.0.0 dist", "core@^1": "core@1.1.0+abc dist", "core:1.1.0_abc": "core@1.1.0+abc dist",
		"core@1.2.0-rc.1": "core@1.2.0-rc.1 dist", "reg.example/team/core@^1": "core@1.0.5 reg.example/team/core",
		"core@" + moved.Digest.String(): "core@1.3.0 dist",
	} {
		_, lock, err := Resolve(ctx, graph(t, ref), Options{Sources: []Source{src}})
		if got := chosen(lock); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", ref, got, err, want)
		}
	}
	if got, want := tags(t, into), "core:1.0.0 core:1.1.0_abc core:1.2.0-rc.1 core:1.3.0 reg.example/team/core:1.0.5"; got != want {
		t.Errorf("the store has %s, want %s", got, want)
	}
	if !slices.Contains(ver.asked, "local/core") || !slices.Contains(ver.asked, "reg.example/team/core") {
		t.Errorf("asked about %v", ver.asked)
	}
	if got := src.String(); got != "dist" {
		t.Error(got)
	}
	_, _, err = Resolve(ctx, graph(t, "core@7.0.0"), Options{Sources: []Source{src}})
	want1(t, err, diag.IdentityDiffers, "core:7.0.0 holds else@7.0.0")
	_, _, err = Resolve(ctx, graph(t, "core@7.0.1"), Options{Sources: []Source{src}})
	want1(t, err, diag.IdentityDiffers, "core:7.0.1 holds core@0.9.0")
	_, _, err = Resolve(ctx, graph(t, "core@6.0.0"), Options{Sources: []Source{src}})
	want1(t, err, diag.NoVersion, "there is 7.0.1, 7.0.0, 1.2.0-rc.1, 1.1.0+abc, 1.0.5, 1.0.0")
	_, _, err = Resolve(ctx, graph(t, "core@1.0.0"), Options{Sources: []Source{&Layout{From: from, Into: into, Verifier: refusing{}, Label: "dist"}}})
	if err == nil || !strings.Contains(err.Error(), "no signature") {
		t.Error(err)
	}
}

// Of several names of the same bytes, the lock's is used.
func TestLayoutByDigest(t *testing.T) {
	ctx, s := context.Background(), openStore(t)
	desc := put(t, s, "core", "1.0.0", "a.example/core:1.0.0")
	for _, ref := range []string{"b.example/core:1.0.0", "core:1.0.0", "z.example/core:latest"} {
		if err := s.Tag(ctx, desc, ref); err != nil {
			t.Fatal(err)
		}
	}
	src := &Layout{From: s, Into: s, Verifier: &trusting{}, Label: "store"}
	for from, want := range map[string]string{"b.example/core": "b.example/core", "z.example/core": "z.example/core", "": "core", "else.example/core": "a.example/core"} {
		found, err := src.Candidates(ctx, Query{Name: "core", Digest: desc.Digest.String(), Repository: from})
		if err != nil || len(found) != 1 || found[0].Repository != want {
			t.Errorf("from %q: %+v, %v; want %s", from, found, err, want)
		}
	}
}

// Bytes are hashed on the way into the store and in the store, whatever the
// verifier accepts.
func TestLayoutBytes(t *testing.T) {
	ctx := context.Background()
	for name, same := range map[string]bool{"copied": false, "in place": true} {
		t.Run(name, func(t *testing.T) {
			from, into := openStore(t), openStore(t)
			if same {
				into = from
			}
			dir := t.TempDir()
			router(t, dir, "core", "1.0.0", "card: README.md\n")
			write(t, filepath.Join(dir, "README.md"), strings.Repeat("x", 1000))
			m, _ := modules.Load(dir)
			a, desc, err := modelpack.Pack(ctx, from, m)
			if err == nil {
				err = from.Tag(ctx, desc, "core:1.0.0")
			}
			if err != nil {
				t.Fatal(err)
			}
			opt := Options{Sources: []Source{&Layout{From: from, Into: into, Verifier: &trusting{}, Label: "x"}}}
			i := slices.IndexFunc(a.Layers, func(l artifact.Layer) bool { return l.Path == "README.md" })
			blob := from.BlobPath(a.Layers[i].Descriptor)
			if err := os.Chmod(blob, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(blob, bytes.Repeat([]byte("y"), 1000), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Resolve(ctx, graph(t, "core@^1"), opt); err == nil || !same && !errors.Is(err, artifact.ErrCorrupt) {
				t.Errorf("changed bytes: %v", err)
			}
			if got := tags(t, into); !same && got != "" {
				t.Errorf("the store names %s", got)
			}
		})
	}
}

// Signatures travel with a module and are known as such in the store.
func TestLayoutReferrers(t *testing.T) {
	ctx, from, into := context.Background(), openStore(t), openStore(t)
	desc := put(t, from, "core", "1.0.0", "core:1.0.0")
	sig := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"artifactType":"x/y","config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":%q,"size":2},"layers":[],"subject":{"mediaType":%q,"digest":%q,"size":%d}}`,
		ocispec.MediaTypeImageManifest, ocispec.DescriptorEmptyJSON.Digest, desc.MediaType, desc.Digest, desc.Size)
	d := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, []byte(sig))
	err := from.Push(ctx, ocispec.DescriptorEmptyJSON, strings.NewReader("{}"))
	if err == nil {
		err = from.Push(ctx, d, strings.NewReader(sig))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Resolve(ctx, graph(t, "core@^1"), Options{Sources: []Source{&Layout{From: from, Into: into, Verifier: &trusting{}, Label: "x"}}}); err != nil {
		t.Fatal(err)
	}
	if list, err := into.Referrers(ctx, desc, ""); err != nil || len(list) != 1 || list[0].Digest != d.Digest {
		t.Errorf("the copy has the referrers %v, %v", list, err)
	}
}
