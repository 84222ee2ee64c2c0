package assemble

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/builds"
)

// Options of --export for contexts: chip, precision by either word, least cosine,
// and what a core reads at a time.
func TestExportContexts(t *testing.T) {
	g, list := builds.Parse("b.graph.yaml", []byte("core: {llm: {ref: m@^2}}\n"))
	if g == nil {
		t.Fatal(list)
	}
	b := &build{graph: g}
	type said struct{ Modules, Precision, Options string }
	for in, want := range map[string]*said{
		"qnn=a@SM8750": {"a", "", `{"soc":"SM8750"}`},
		"qnn=a@SM8750,precision=w8a8,min_cosine=0.97":     {"a", "w8a8", `{"min_cosine":0.97,"soc":"SM8750"}`},
		"qnn=a@SM8750,quant=w8a16,min_cosine=0":           {"a", "w8a16", `{"min_cosine":0,"soc":"SM8750"}`},
		"qnn=a@SM8750,layers=1:3":                         {"a", "", `{"layers":"1:3","soc":"SM8750"}`},
		"qnn=a@SM8750,window=64,positions=8,min_cosine=1": {"a", "", `{"min_cosine":1,"positions":8,"soc":"SM8750","window":64}`},
		"coreml=a,int4,window=64,stateful=true":           {"a", "int4", `{"stateful":true,"window":64}`},
		"openvino=a,stateful=true":                        {"a", "", `{"stateful":true}`},
		"openvino=a,stateful=false":                       nil,
		"qnn=a@SM8750,stateful=true":                      nil,
		"tflite=a,window=64":                              nil,
		"tflite=a,int8":                                   {"a", "int8", ""},
		"coreml=a,fp16":                                   {"a", "fp16", ""},
		"onnx=a,int8":                                     {"a", "", ""}, // a module named int8
		"qnn=a@SM8750,min_cosine=1.1":                     nil,
		"qnn=a@SM8750,min_cosine=-1":                      nil,
		"qnn=a@SM8750,min_cosine=NaN":                     nil,
		"qnn=a@SM8750,min_cosine=much":                    nil,
		"qnn=a@SM8750,min_cosine=0.9,min_cosine=0.8":      nil,
		"qnn=a@SM8750,quant=w8a8,precision=w8a8":          nil,
		"onnx=a,min_cosine=0.9":                           nil,
	} {
		got, err := b.parseExports([]string{in})
		if want == nil {
			if err == nil {
				t.Errorf("%s: %+v", in, got)
			}
			continue
		}
		if err != nil || len(got.Exports) != 1 {
			t.Errorf("%s: %+v, %v", in, got, err)
			continue
		}
		e := got.Exports[0]
		if d := cmp.Diff(*want, said{e.Modules[0], e.Precision, string(e.Options)}); d != "" {
			t.Errorf("%s\n%s", in, d)
		}
	}
}
