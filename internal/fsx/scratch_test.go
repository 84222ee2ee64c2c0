package fsx_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// A scratch folder is removed by its owner; those of dead processes by the next one; one in
// use stays.
func TestScratch(t *testing.T) {
	ctx := context.Background()
	top, err := fsx.Open(t.TempDir(), fsx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	dead := filepath.Join(top.Path(), "dead")
	if err := os.MkdirAll(filepath.Join(dead, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, "sub", "f"), nil, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dead, "sub"), 0o555); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead+".lock", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	one, doneOne, err := top.Scratch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Error("folder of a dead owner not removed")
	}
	two, doneTwo, err := top.Scratch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if one.Path() == two.Path() {
		t.Error("two owners of one folder")
	}
	if _, err := os.Stat(one.Path()); err != nil {
		t.Errorf("a folder in use was swept: %v", err)
	}
	for _, done := range []func() error{doneOne, doneTwo} {
		if err := done(); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(top.Path())
	if err != nil || len(left) > 0 {
		t.Errorf("remaining: %v, %v", left, err)
	}
}
