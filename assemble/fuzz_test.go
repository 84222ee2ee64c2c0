package assemble

import (
	"strings"
	"testing"

	"mm-abi.org/mm/builds"
)

// For any --export, the parsed value has each item once, in order,
// and reads the same a second time.
func FuzzExportOption(f *testing.F) {
	for _, s := range []string{"gguf=int4,kv=fp8", "onnx=a,b onnx=c", "qnn=quant=w8a8,m", "gguf=", "=", "x=,", "gguf=quant=,kv="} {
		f.Add(s)
	}
	g, list := builds.Parse("b.graph.yaml", []byte("core: {llm: {ref: m@^2}}\n"))
	if g == nil {
		f.Fatal(list)
	}
	b := &build{graph: g}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := b.parseExports(strings.Fields(s))
		if err != nil {
			return
		}
		var again []string
		for i, e := range target.Exports {
			if i > 0 && target.Exports[i-1].Format >= e.Format {
				t.Fatalf("%q is not in order", s)
			}
			items := append([]string{}, e.Modules...)
			if e.Precision != "" {
				items = append(items, "quant="+e.Precision)
			}
			if e.KV != "" {
				items = append(items, "kv="+string(e.KV))
			}
			again = append(again, string(e.Format)+"="+strings.Join(items, ","))
		}
		if _, err := b.parseExports(again); err != nil && len(again) > 0 {
			for _, e := range target.Exports {
				for _, m := range e.Modules {
					if !b.names(m) { // a bare word is a module only in the formats that are lists
						return
					}
				}
			}
			t.Fatalf("%q gives %q: %v", s, again, err)
		}
	})
}
