package assemble_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/registry"
)

// A graph of one seeded core becomes an artifact whose digest is the same on
// every machine.
func ExampleAssemble() {
	dir, err := os.MkdirTemp("", "mm-example-*")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := seed.Write(filepath.Join(dir, "modules", "core-llm"), seed.Options{Type: abi.Core, Name: "core-llm", Version: "3.1.0", Seed: 1, DModel: 32}); err != nil {
		panic(err)
	}
	graph := filepath.Join(dir, "tiny.graph.yaml")
	if err := os.WriteFile(graph, []byte("core:\n  llm: {ref: core-llm@^3}\nexports:\n  laptop:\n    gguf: {quant: int8}\n"), 0o644); err != nil {
		panic(err)
	}
	store, err := registry.Open(filepath.Join(dir, "store"), registry.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	var steps []string
	result, err := assemble.Assemble(context.Background(), assemble.Options{
		Graph: graph, Exporters: []assemble.Exporter{quantize.Exporter{}}, Out: filepath.Join(dir, "dist"), Store: store, Resolver: folders{filepath.Join(dir, "modules"), store},
		Progress: func(step, detail string) {
			if detail == "" {
				steps = append(steps, step)
			}
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.Join(steps, " "))
	fmt.Println(result.Ref, result.Digest)
	for _, t := range result.Targets {
		fmt.Println(t.Target, t.Files, "files")
	}
	// Output:
	// validate resolve check export compose sign publish
	// tiny:0.1.0 sha256:7dc3b71b5c32370b13e1bf502c38895f3d5ef8bb35ccbc5723a34ef5eea8324f
	// laptop 8 files
}
