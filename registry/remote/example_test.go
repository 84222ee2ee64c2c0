package remote_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/remote"
)

// An artifact is copied to a stick as an image layout, and from there into
// another store. With a reference like registry.example/team/core-llm:3.1.0 it
// goes through a registry instead.
func ExampleClient_Push() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	here, _ := registry.Open(filepath.Join(dir, "here"), registry.Options{})
	there, _ := registry.Open(filepath.Join(dir, "there"), registry.Options{})
	file, _ := here.AddBytes(ctx, abi.MediaWeight, []byte("weights"))
	desc, _ := artifact.Pack(ctx, here, artifact.Artifact{
		Name: "core-llm", Version: "3.1.0",
		Layers: []artifact.Layer{{Path: "core-llm.gguf", Descriptor: file}},
	})

	client, err := remote.New(remote.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	stick := "oci:" + filepath.Join(dir, "stick") + ":core-llm:3.1.0"
	sent, err := client.Push(ctx, here, desc, stick, remote.PushOptions{})
	fmt.Println(sent.Moved, "blobs sent", err)
	got, received, err := client.Pull(ctx, stick, there, remote.PullOptions{})
	fmt.Println(received.Moved, "blobs received", err, got.Digest == desc.Digest)
	again, err := client.Push(ctx, there, got, stick, remote.PushOptions{})
	fmt.Println(again.Present, "blobs were there", err)
	// Output:
	// 2 blobs sent <nil>
	// 2 blobs received <nil> true
	// 2 blobs were there <nil>
}
