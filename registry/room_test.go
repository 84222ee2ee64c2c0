package registry

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// Room counts missing blobs once, without the bytes that were received before.
func TestRoom(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), Options{})
	there, err := s.AddBytes(ctx, "a/b", noise(1, 500))
	if err != nil {
		t.Fatal(err)
	}
	blob := func(seed uint64, size int64) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: "a/b", Digest: digest.FromBytes(noise(seed, 8)), Size: size}
	}
	part := blob(2, 400)
	p, err := s.Partial(ctx, part)
	if err == nil {
		_, err = p.Write(noise(3, 100))
	}
	if err := errors.Join(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	blobs := []ocispec.Descriptor{there, part, blob(4, 700), blob(4, 700)}
	for free, want := range map[int64]bool{1000: true, 999: false, 0: false} {
		s.Free = func(string) (int64, bool) { return free, true }
		err := s.Room(blobs)
		var full *cas.FullError
		if (err == nil) != want || err != nil && (!errors.As(err, &full) || full.Need != 1000 || full.Free != free || !cas.IsFull(err)) {
			t.Errorf("%d bytes free: %v", free, err)
		}
	}
	if err := s.Room([]ocispec.Descriptor{blob(5, math.MaxInt64), blob(6, math.MaxInt64)}); !cas.IsFull(err) {
		t.Errorf("sizes beyond 63 bits: %v", err)
	}
	s.Free = func(string) (int64, bool) { return 0, false }
	if err := s.Room(blobs); err != nil {
		t.Errorf("unknown free space: %v", err)
	}
}

// A checkout that would copy more than fits writes nothing.
func TestCheckoutRoom(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), Options{})
	a, err := artifact.Read(ctx, s, tagged(t, s, "p-lite:1", 1))
	if err != nil {
		t.Fatal(err)
	}
	s.Free = func(string) (int64, bool) { return a.Size() - 1, true }
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := s.Checkout(ctx, a, dir, CheckoutOptions{}); !cas.IsFull(err) || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
	if _, err := s.Checkout(ctx, a, dir, CheckoutOptions{Link: true}); err != nil {
		t.Errorf("links on the same disk: %v", err)
	}
	s.Free = func(string) (int64, bool) { return a.Size(), true }
	if _, err := s.Checkout(ctx, a, dir+"2", CheckoutOptions{}); err != nil {
		t.Error(err)
	}
}

// With a full disk, names can be removed and garbage collected in the space of
// the reserve.
func TestReserve(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	full := false
	reserve := filepath.Join(dir, filepath.FromSlash(reserveFile))
	hook := func(op *fsx.Op, do func() error) error {
		if _, err := os.Stat(reserve); full && err == nil && (op.Kind == fsx.OpWrite || op.Kind == fsx.OpCreate) {
			return syscall.ENOSPC
		}
		return do()
	}
	s := open(t, dir, Options{Hook: hook})
	tagged(t, s, "p-lite:1", 1)
	s.Free = func(string) (int64, bool) { return 8*reserveMin - 1, true }
	s.KeepReserve()
	if _, err := os.Stat(reserve); err == nil {
		t.Error("a reserve although little space is left")
	}
	s.Free = cas.Free
	s.KeepReserve()
	if fi, err := os.Stat(reserve); err != nil || fi.Size() != reserveMin {
		t.Fatal(err)
	}
	full = true
	remove := func() error { return s.Remove(ctx, "p-lite:1") }
	if err := remove(); !cas.IsFull(err) {
		t.Fatalf("without the reserve: %v", err)
	}
	if err := s.WithReserve(ctx, remove); err != nil {
		t.Fatal(err)
	}
	if r, err := s.GC(ctx, GCOptions{Grace: -1}); err != nil || len(r.Blobs) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	other := errors.New("other")
	if err := s.WithReserve(ctx, func() error { return other }); err != other {
		t.Error(err)
	}
	if err := s.WithReserve(ctx, func() error { return syscall.EDQUOT }); err != syscall.EDQUOT {
		t.Error(err)
	}
}

// A file and a stream that do not fit are refused before they are written.
func TestAddRoom(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir(), Options{})
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, noise(1, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Free = func(string) (int64, bool) { return 999, true }
	if _, err := s.AddFile(ctx, file, cas.AddOptions{}); !cas.IsFull(err) {
		t.Errorf("a file: %v", err)
	}
	if _, err := s.AddBytes(ctx, "a/b", noise(2, 1000)); !cas.IsFull(err) {
		t.Errorf("bytes: %v", err)
	}
	if _, err := s.AddFile(ctx, file, cas.AddOptions{Link: true}); err != nil {
		t.Errorf("a link: %v", err)
	}
	if _, err := s.AddFile(ctx, file, cas.AddOptions{}); err != nil {
		t.Errorf("a file that is there: %v", err)
	}
}
