package registry_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// A file becomes a layer, an artifact, a tag, and a file again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "mm-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "core.gguf")
	if err := os.WriteFile(file, []byte("GGUF"), 0o644); err != nil {
		log.Fatal(err)
	}

	store, err := registry.Open(filepath.Join(dir, "store"), registry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	layer, err := store.AddFile(ctx, file, cas.AddOptions{MediaType: abi.MediaWeight})
	if err != nil {
		log.Fatal(err)
	}
	desc, err := artifact.Pack(ctx, store, artifact.Artifact{
		Name: "core-llm", Version: "3.1.0",
		Layers: []artifact.Layer{{Path: "core.gguf", Descriptor: layer}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Tag(ctx, desc, "core-llm:3.1.0"); err != nil {
		log.Fatal(err)
	}

	desc, err = store.Resolve(ctx, "core-llm:3.1.0")
	if err != nil {
		log.Fatal(err)
	}
	artifact, err := artifact.Read(ctx, store, desc)
	if err != nil {
		log.Fatal(err)
	}
	paths, err := store.Checkout(ctx, artifact, filepath.Join(dir, "out"), registry.CheckoutOptions{Link: true})
	if err != nil {
		log.Fatal(err)
	}
	report, err := store.Fsck(ctx, registry.FsckOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(artifact.Name, artifact.Version, paths)
	fmt.Println(report.Blobs, "blobs,", len(report.Problems), "problems")
	// Output:
	// core-llm 3.1.0 [core.gguf]
	// 3 blobs, 0 problems
}

// An interrupted download continues at its offset.
func ExampleStore_Partial() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "mm-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := registry.Open(dir, registry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	bytes := []byte("a large file")
	desc := ocispec.Descriptor{MediaType: abi.MediaWeight, Digest: digest.FromBytes(bytes), Size: int64(len(bytes))}
	for _, upto := range []int{5, len(bytes)} {
		p, err := store.Partial(ctx, desc)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("from", p.Offset())
		if _, err := p.Write(bytes[p.Offset():upto]); err != nil {
			log.Fatal(err)
		}
		if upto == len(bytes) {
			err = p.Commit()
		} else {
			err = p.Close()
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(store.Verify(ctx, desc))
	// Output:
	// from 0
	// from 5
	// <nil>
}
