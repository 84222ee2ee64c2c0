package registry

import (
	"context"
	"errors"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

// A version keeps its bytes; other names move.
func TestClaim(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), Options{})
	desc, err := s.AddBytes(ctx, abi.MediaWeight, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	one, err := artifact.Pack(ctx, s, artifact.Artifact{Name: "a", Version: "1.0.0", Layers: []artifact.Layer{{Path: "one", Descriptor: desc}}})
	if err != nil {
		t.Fatal(err)
	}
	two, err := artifact.Pack(ctx, s, artifact.Artifact{Name: "a", Version: "1.0.0", Layers: []artifact.Layer{{Path: "two", Descriptor: desc}}})
	if err != nil {
		t.Fatal(err)
	}
	for ref, fixed := range map[string]bool{
		"a:1.0.0": true, "host:5000/team/a:1.0.0-laptop": true, "1.0.0": true, "a:1.0.0-rc.1": true,
		"a:latest": false, "a:1.0": false, "a:v1.0.0": false, "a": false, "host:5000/a": false,
	} {
		for range 2 {
			if err := s.Claim(ctx, one, ref); err != nil {
				t.Fatal(ref, err)
			}
		}
		err := s.Claim(ctx, two, ref)
		var taken *TakenError
		if errors.As(err, &taken) != fixed || fixed && (taken.Have != one.Digest || taken.New != two.Digest || taken.Ref != ref) {
			t.Errorf("%s: %v", ref, err)
		}
		want := two
		if fixed {
			want = one
		}
		if got, err := s.Resolve(ctx, ref); err != nil || got.Digest != want.Digest {
			t.Errorf("%s is %s, %v", ref, got.Digest, err)
		}
		if err := s.Tag(ctx, two, ref); err != nil {
			t.Errorf("Tag: %v", err)
		}
	}
}
