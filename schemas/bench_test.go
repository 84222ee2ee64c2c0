package schemas

import (
	"net/url"
	"os"
	"testing"
)

// The schemas of a graph and of a module are compiled by most commands.
func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		c := ownCompiler()
		for _, kind := range []Kind{Graph, Module, Lock} {
			c.must(place{base: named(&url.URL{})}, published+string(kind)+".schema.json").target()
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	data, err := os.ReadFile("../builds/p-lite.graph.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, list := Load(Graph, "p-lite.graph.yaml", data); list.Failed() {
			b.Fatal(list)
		}
	}
}
