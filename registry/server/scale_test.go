//go:build linux

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
)

// release packs a small artifact with distinct bytes and a signature-like
// referrer, and tags it.
func release(s *registry.Store, ref string, n int) (ocispec.Descriptor, error) {
	ctx := context.Background()
	a := artifact.Artifact{Name: "sample", Version: "1.0.0"}
	for _, path := range []string{"module.yaml", "weights.gguf", "card.md"} {
		desc, err := s.AddBytes(ctx, abi.MediaWeight, fmt.Appendf(nil, "%s of %d", path, n))
		if err != nil {
			return desc, err
		}
		a.Layers = append(a.Layers, artifact.Layer{Path: path, Descriptor: desc})
	}
	desc, err := artifact.Pack(ctx, s, a)
	if err != nil {
		return desc, err
	}
	bundle, err := s.AddBytes(ctx, "application/vnd.dev.sigstore.bundle.v0.3+json", fmt.Appendf(nil, "signature of %s", desc.Digest))
	if err != nil {
		return desc, err
	}
	if _, err := s.AddBytes(ctx, ocispec.MediaTypeEmptyJSON, []byte("{}")); err != nil {
		return desc, err
	}
	data, err := json.Marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: bundle.MediaType, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{bundle},
		Subject: &ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}})
	if err != nil {
		return desc, err
	}
	sig := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := s.Push(ctx, sig, bytes.NewReader(data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		return desc, err
	}
	return desc, s.Tag(ctx, desc, ref)
}

// unsynced skips syncs, to fill a store fast.
func unsynced(op *fsx.Op, do func() error) error {
	if op.Kind == fsx.OpSync || op.Kind == fsx.OpSyncDir {
		return nil
	}
	return do()
}

// cpuOf is the processor time a process has used.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 everywhere
}

// TestScale measures the server's processor time for one signed push with 100
// and with more artifacts in the store; MM_SCALE sets the sizes. The pushes go
// into the repository of all the others, and each into a separate one.
func TestScale(t *testing.T) {
	sizes := []int{50, 500}
	if text := os.Getenv("MM_SCALE"); text != "" {
		sizes = nil
		for _, f := range strings.Split(text, ",") {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, n)
		}
	} else if testing.Short() {
		t.Skip("skipped: -short")
	}
	const pushes = 40
	dir, err := os.MkdirTemp("/dev/shm", "mm-scale-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	local, err := registry.Open(dir+"/client", registry.Options{Hook: unsynced})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	filled, made := 0, 0
	results := map[string][]time.Duration{}
	for _, size := range sizes {
		fill, err := registry.Open(dir+"/store", registry.Options{Hook: unsynced, Journal: true})
		if err != nil {
			t.Fatal(err)
		}
		for ; filled < size; filled++ {
			if _, err := release(fill, fmt.Sprintf("team/one:%d", filled), filled); err != nil {
				t.Fatal(err)
			}
		}
		if err := fill.Close(); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"one repository", "own repositories"} {
			t.Setenv("MM_TEST_JOURNAL", "1")
			s, cmd, kill := processOf(t, dir+"/store")
			client, err := remote.New(remote.Options{})
			if err != nil {
				t.Fatal(err)
			}
			push := func() {
				made++
				desc, err := release(local, "local/sample:1.0.0", 1_000_000+made)
				if err != nil {
					t.Fatal(err)
				}
				to := fmt.Sprintf("%s/team/one:p%d", strings.TrimPrefix(s.url, "http://"), made)
				if kind == "own repositories" {
					to = fmt.Sprintf("%s/own/r%d:1.0.0", strings.TrimPrefix(s.url, "http://"), made)
				}
				if _, err := client.Push(context.Background(), local, desc, to, remote.PushOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			push() // reads the store
			before, began := cpuOf(t, cmd.Process.Pid), time.Now()
			for range pushes {
				push()
			}
			each := (cpuOf(t, cmd.Process.Pid) - before) / pushes
			results[kind] = append(results[kind], each)
			t.Logf("%6d artifacts, %s: %5.1f ms of the server's processor, %5.1f ms in all, a push", size, kind,
				float64(each.Microseconds())/1000, float64(time.Since(began).Microseconds())/1000/pushes)
			client.Close()
			kill()
		}
	}
	for kind, each := range results {
		first, last := each[0], each[len(each)-1]
		// The clock's resolution is 10 ms, and 40 pushes take some 0.4 s.
		if last > 2*first+time.Millisecond {
			t.Errorf("%s: a push takes %v with %d artifacts and %v with %d", kind, first, sizes[0], last, sizes[len(sizes)-1])
		}
	}
}
