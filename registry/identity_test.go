package registry_test

import (
	"context"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
)

// Several versions, pre-releases, build metadata and several builds live in one
// layout; the artifacts say which tag is what, never its look.
func TestBuilds(t *testing.T) {
	ctx := context.Background()
	s, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file, err := s.AddBytes(ctx, "application/octet-stream", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	pack := func(kind, name, version, target string, tags ...string) ocispec.Descriptor {
		t.Helper()
		notes := map[string]string{abi.AnnotationKind: kind, abi.AnnotationABI: string(abi.V1_1)}
		if target != "" {
			notes[abi.AnnotationTarget] = target
		}
		desc, err := registry.Pack(ctx, s, registry.Artifact{Name: name, Version: version, Annotations: notes, Layers: []registry.Layer{{Path: "f", Descriptor: file}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tags {
			if err := s.Tag(ctx, desc, tag); err != nil {
				t.Fatal(err)
			}
		}
		return desc
	}
	index := func(name, version string, child ocispec.Descriptor, tags ...string) {
		t.Helper()
		desc, err := registry.PackIndex(ctx, s, []registry.IndexEntry{{Descriptor: child, Target: "a"}}, map[string]string{
			abi.AnnotationKind: abi.KindAssembly, abi.AnnotationName: name, abi.AnnotationVersion: version,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tags {
			if err := s.Tag(ctx, desc, tag); err != nil {
				t.Fatal(err)
			}
		}
	}
	one := pack(abi.KindAssembly, "p", "0.1.0", "laptop", "0.1.0", "0.1.0-laptop", "p:0.1.0", "p:0.1.0-laptop") // an older output folder, filled again
	pack(abi.KindAssembly, "p", "0.2.0-laptop", "laptop", "p:0.2.0-laptop", "p:0.2.0-laptop-laptop")
	pack(abi.KindAssembly, "p", "0.1.1+b.2", "laptop", "p:0.1.1_b.2", "p:0.1.1_b.2-laptop", "p:latest")
	index("p", "0.10.0", one, "p:0.10.0", "r.example/team/p:0.10.0")
	pack(abi.KindAssembly, "old", "1.0.0-rc.1", "x", "1.0.0-rc.1", "1.0.0-rc.1-x", "r.example/team/old:1.0.0-rc.1")
	pack(abi.KindAssembly, "mirror", "3.0.0", "x", "r.example/team/mirror:3.0.0")
	pack(abi.KindModule, "core", "9.0.0", "", "core:9.0.0")
	pack(abi.KindAssembly, "lie", "1.0.0", "x", "lie:2.0.0")
	found, err := s.Builds(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range found {
		got = append(got, b.Ref)
	}
	if s := strings.Join(got, " "); s != "r.example/team/mirror:3.0.0 1.0.0-rc.1 p:0.10.0 p:0.1.1_b.2 p:0.1.0 p:0.2.0-laptop" {
		t.Errorf("builds %s", s)
	}
	if id := found[4].Identity; id.String() != "p 0.1.0 for laptop" || id.ABI != abi.V1_1 || found[4].Descriptor.Digest != one.Digest {
		t.Errorf("%+v", found[4])
	}
	for _, tc := range []struct {
		id   registry.Identity
		ref  string
		want abi.Meaning
	}{
		{found[4].Identity, "p:0.1.0-laptop", abi.MeansTarget},
		{found[4].Identity, "0.1.0-laptop", abi.MeansTarget},
		{found[4].Identity, "0.1.0", abi.MeansVersion},
		{found[4].Identity, "latest", abi.MeansChannel},
		{found[4].Identity, "x.example:5000/a/p:0.1.0", abi.MeansVersion},
		{found[4].Identity, "p:0.1.1", abi.MeansMistake},
	} {
		if got := tc.id.Meaning(tc.ref); got != tc.want {
			t.Errorf("%s on %s means %d, want %d", tc.ref, tc.id, got, tc.want)
		}
	}
	if found[2].Target != "" || found[2].String() != "p 0.10.0" {
		t.Errorf("%+v", found[2])
	}
}
