package registry

import (
	"context"
	"os"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry/artifact"
)

// A damaged blob is replaced when the right bytes are imported.
func TestImportReplacesDamage(t *testing.T) {
	ctx := context.Background()
	from := open(t, t.TempDir(), Options{})
	desc, err := from.AddBytes(ctx, abi.MediaWeight, []byte("the right bytes"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := artifact.Pack(ctx, from, artifact.Artifact{Name: "a", Version: "1.0.0", Layers: []artifact.Layer{{Path: "f", Descriptor: desc}}})
	if err != nil {
		t.Fatal(err)
	}
	into := open(t, t.TempDir(), Options{})
	for range 2 {
		if err := into.Import(ctx, from, m); err != nil {
			t.Fatal(err)
		}
		if err := into.Verify(ctx, desc); err != nil {
			t.Fatal(err)
		}
		path := into.BlobPath(desc)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("the wrong bytes"), 0o444); err != nil {
			t.Fatal(err)
		}
	}
}
