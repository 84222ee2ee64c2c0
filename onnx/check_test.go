package onnx

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// external returns a small model whose weight is external.
func external(entries ...string) *Model {
	m := visionEncoder()
	w := &m.Graph.Initializers[0]
	w.Raw, w.fields = nil, 0
	w.External = &External{}
	for i := 0; i+1 < len(entries); i += 2 {
		w.External.Entries = append(w.External.Entries, Entry{entries[i], entries[i+1]})
	}
	return m
}

// change returns the vision encoder after f.
func change(f func(m *Model, g *Graph)) *Model {
	m := visionEncoder()
	f(m, &m.Graph)
	return m
}

// checkCase is a model and the expected problem.
type checkCase struct {
	name string
	m    *Model
	opt  CheckOptions
	want string // "" for none
}

// check runs cases.
func check(t *testing.T, cases []checkCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			problems := c.m.Check(c.opt)
			if c.want == "" {
				if len(problems) > 0 {
					t.Errorf("found %v", problems)
				}
				return
			}
			for _, p := range problems {
				if strings.Contains(p.String(), c.want) {
					return
				}
			}
			t.Errorf("found %v, want %q", problems, c.want)
		})
	}
}

func neg(in, out string) Node { return Node{Op: "Neg", Inputs: []string{in}, Outputs: []string{out}} }

// One model for each rule of versions, operators and content.
func TestCheckModel(t *testing.T) {
	check(t, []checkCase{
		{"sound", visionEncoder(), CheckOptions{}, ""},
		{"IR version 2", change(func(m *Model, _ *Graph) { m.IRVersion = 2 }), CheckOptions{}, "ir: IR version 2 is unsupported, want 3 to 14"},
		{"IR version of the future", change(func(m *Model, _ *Graph) { m.IRVersion = 99 }), CheckOptions{}, "IR version 99 is unsupported"},
		{"opset 6", change(func(m *Model, _ *Graph) { m.Opsets[0].Version = 6 }), CheckOptions{}, "opset 6 is unsupported, want 7 to 26"},
		{"opset 27", change(func(m *Model, _ *Graph) { m.Opsets[0].Version = 27 }), CheckOptions{}, "opset 27 is unsupported, want 7 to 26"},
		{"opset 27 allowed", change(func(m *Model, _ *Graph) { m.Opsets[0].Version = 27 }), CheckOptions{MaxOpset: 27}, ""},
		{"no opset", change(func(m *Model, _ *Graph) { m.Opsets = nil }), CheckOptions{}, "missing opset of ai.onnx"},
		{"two opsets", change(func(m *Model, _ *Graph) { m.Opsets = append(m.Opsets, Opset{"ai.onnx", 17}) }), CheckOptions{}, `duplicate import of domain "ai.onnx"`},
		{"opset of ai.onnx.ml", change(func(m *Model, _ *Graph) { m.Opsets = append(m.Opsets, Opset{"ai.onnx.ml", 6}) }), CheckOptions{}, "opset 6 of ai.onnx.ml is unsupported, want at most 5"},
		{"import of a preview domain", change(func(m *Model, _ *Graph) { m.Opsets = append(m.Opsets, Opset{"ai.onnx.preview.training", 1}) }), CheckOptions{}, ""}, // no node uses it
		{"custom operator", change(func(_ *Model, g *Graph) { g.Nodes[2].Domain = "evil.corp" }), CheckOptions{}, `node[2] "active": operator Relu is of the custom domain "evil.corp"`},
		{"custom operator allowed", change(func(_ *Model, g *Graph) { g.Nodes[2].Domain = "good.corp" }), CheckOptions{Domains: []string{"good.corp"}}, ""},
		{"preview operator", change(func(_ *Model, g *Graph) { g.Nodes[2].Domain = "ai.onnx.preview" }), CheckOptions{}, "operator Relu is a preview"},
		{"no operator", change(func(_ *Model, g *Graph) { g.Nodes[2].Op = "" }), CheckOptions{}, "missing operator"},
		{"local function", change(func(m *Model, g *Graph) {
			g.Nodes[2].Domain, g.Nodes[2].Op = "mine", "MyRelu"
			m.Functions = []Function{{Name: "MyRelu", Domain: "mine", Inputs: []string{"x"}, Outputs: []string{"y"}, Nodes: []Node{neg("x", "y")}}}
		}), CheckOptions{}, ""},
		{"function calls itself", change(func(m *Model, _ *Graph) {
			m.Functions = []Function{{Name: "F", Domain: "mine", Inputs: []string{"x"}, Outputs: []string{"y"},
				Nodes: []Node{{Op: "F", Domain: "mine", Inputs: []string{"x"}, Outputs: []string{"y"}}}}}
		}), CheckOptions{}, `function[0] "F": recursive`},
		{"function output missing", change(func(m *Model, _ *Graph) {
			m.Functions = []Function{{Name: "F", Domain: "mine", Outputs: []string{"y"}}}
		}), CheckOptions{}, `function[0] "F": no node produces output "y"`},
		{"device context", change(func(_ *Model, g *Graph) { g.Nodes[2].Domain, g.Nodes[2].Op = "com.microsoft", "EPContext" }), CheckOptions{}, "EPContext holds compiled code"},
		{"device context allowed", change(func(_ *Model, g *Graph) { g.Nodes[2].Domain, g.Nodes[2].Op = "com.microsoft", "EPContext" }), CheckOptions{EPContext: true}, ""},
		{"session options", change(func(m *Model, _ *Graph) { m.Metadata = []Entry{{"session.intra", "x"}} }), CheckOptions{}, `metadata key "session.intra" sets options`},
		{"training", change(func(m *Model, _ *Graph) { m.Training = []Graph{{}} }), CheckOptions{}, "training: 1 training graphs"},
		{"attribute twice", change(func(_ *Model, g *Graph) { g.Nodes[0].Attributes = append(g.Nodes[0].Attributes, Int("to", 1)) }), CheckOptions{}, `attribute "to" is duplicate or has no name`},
		{"attribute type", change(func(_ *Model, g *Graph) { g.Nodes[0].Attributes[0].Type = 15 }), CheckOptions{}, `attribute "to" has the unknown type 15`},
	})
}

// One model for each rule of tensors and names.
func TestCheckGraph(t *testing.T) {
	bad := func(raw []byte) Tensor { return Tensor{Name: "bad", DType: FLOAT, Dims: []int64{2}, Raw: raw} }
	check(t, []checkCase{
		{"raw_data too short (CVE-2024-27319)", change(func(_ *Model, g *Graph) { g.Initializers = append(g.Initializers, bad(make([]byte, 7))) }), CheckOptions{}, "raw_data has 7 bytes, float32 [2] needs 8"},
		{"raw_data too long", change(func(_ *Model, g *Graph) { g.Initializers = append(g.Initializers, bad(make([]byte, 9))) }), CheckOptions{}, "raw_data has 9 bytes"},
		{"no data", change(func(_ *Model, g *Graph) { g.Initializers = append(g.Initializers, bad(nil)) }), CheckOptions{}, "0 elements, float32 [2] needs 2"},
		{"unknown dtype", change(func(_ *Model, g *Graph) { g.Initializers[0].DType = 99 }), CheckOptions{}, "unknown dtype 99"},
		{"dimensions wrap", change(func(_ *Model, g *Graph) { g.Initializers[0].Dims = []int64{1 << 62, 4} }), CheckOptions{}, "their product exceeds 2^63"},
		{"bytes wrap", change(func(_ *Model, g *Graph) { g.Initializers[0].Dims = []int64{1 << 62} }), CheckOptions{}, "need more than 2^63 bytes"},
		{"negative dimension", change(func(_ *Model, g *Graph) { g.Initializers[0].Dims = []int64{-384} }), CheckOptions{}, "are negative"},
		{"strings as floats", change(func(_ *Model, g *Graph) {
			g.Initializers = append(g.Initializers, Tensor{Name: "s", DType: FLOAT, Dims: []int64{1}, Strings: [][]byte{nil}})
		}), CheckOptions{}, "in a field that does not hold float32"},
		{"too few strings", change(func(_ *Model, g *Graph) {
			g.Initializers = append(g.Initializers, Tensor{Name: "s", DType: STRING, Dims: []int64{2}, Strings: [][]byte{nil}})
		}), CheckOptions{}, "1 strings, dimensions [2] need 2"},
		{"data twice", change(func(_ *Model, g *Graph) { g.Initializers[0].fields = 2 }), CheckOptions{}, "in more than one field"},
		{"tensor in an attribute", change(func(_ *Model, g *Graph) {
			g.Nodes[0].Attributes = append(g.Nodes[0].Attributes, tensorAttr("v", bad(make([]byte, 3))))
		}), CheckOptions{}, `node[0] "floats"/attribute "v": raw_data has 3`},

		{"input unknown", change(func(_ *Model, g *Graph) { g.Nodes[2].Inputs[0] = "ghost" }), CheckOptions{}, `node[2] "active": no earlier node produces input "ghost"`},
		{"nodes out of order", change(func(_ *Model, g *Graph) { g.Nodes[2], g.Nodes[3] = g.Nodes[3], g.Nodes[2] }), CheckOptions{}, `"pooled": input "active" is produced by a later node`},
		{"output unknown", change(func(_ *Model, g *Graph) { g.Outputs[0].Name = "ghost" }), CheckOptions{}, `output[0]: no node produces output "ghost"`},
		{"name twice", change(func(_ *Model, g *Graph) { g.Nodes = append(g.Nodes, neg("active", "pooled")) }), CheckOptions{}, `duplicate name "pooled"`},
		{"initializer twice", change(func(_ *Model, g *Graph) { g.Initializers = append(g.Initializers, g.Initializers[0]) }), CheckOptions{}, `duplicate name "conv.w"`},
		{"initializer as input", change(func(_ *Model, g *Graph) { g.Inputs = append(g.Inputs, TensorValue("conv.w", FLOAT)) }), CheckOptions{}, ""},
		{"input unknown in a branch", change(func(_ *Model, g *Graph) {
			g.Nodes[0].Attributes = append(g.Nodes[0].Attributes, Attribute{Name: "b", Type: AttrGraph, Graph: &Graph{Nodes: []Node{neg("later", "n")}}})
		}), CheckOptions{}, `attribute "b"/node[0]: no earlier node produces input "later"`},
		{"cycle of nodes", change(func(_ *Model, g *Graph) { g.Nodes[2].Inputs[0] = "pooled" }), CheckOptions{}, `order: graph "encoder"/node[2] "active": input "pooled" is produced by a later node`},
		{"unused initializer", change(func(_ *Model, g *Graph) { g.Constant(Ints("spare", []int64{1}, []int64{7})) }), CheckOptions{}, `unused: graph "encoder"/initializer[6] "spare": unused: int64 [1]`},
		{"initializer used in a branch", change(func(_ *Model, g *Graph) {
			g.Constant(Ints("spare", []int64{1}, []int64{7}))
			g.Nodes[0].Attributes = append(g.Nodes[0].Attributes, Attribute{Name: "b", Type: AttrGraph, Graph: &Graph{Nodes: []Node{neg("spare", "n")}, Outputs: []Value{{Name: "n"}}}})
		}), CheckOptions{}, ""},
		{"random", change(func(_ *Model, g *Graph) { g.Nodes[2].Op = "Bernoulli" }), CheckOptions{}, `random: graph "encoder"/node[2] "active": Bernoulli is not deterministic`},
		{"dropout in training", change(func(_ *Model, g *Graph) {
			g.Nodes[2].Op, g.Nodes[2].Inputs = "Dropout", []string{"patches", "", "floats"}
		}), CheckOptions{}, `random: graph "encoder"/node[2] "active": Dropout`},
		{"dropout without training", change(func(_ *Model, g *Graph) { g.Nodes[2].Op, g.Nodes[2].Inputs = "Dropout", []string{"patches"} }), CheckOptions{}, ""},
		{"branch for an accelerator", change(func(_ *Model, g *Graph) { g.Nodes[2].Op = "Loop" }), CheckOptions{NPU: true}, `control: graph "encoder"/node[2] "active": Loop branches`},
		{"branch for a processor", change(func(_ *Model, g *Graph) { g.Nodes[2].Op = "Loop" }), CheckOptions{}, ""},
		{"name hidden in a branch", change(func(_ *Model, g *Graph) {
			g.Nodes[1].Attributes = append(g.Nodes[1].Attributes, Attribute{Name: "b", Type: AttrGraph, Graph: &Graph{Nodes: []Node{neg("floats", "floats")}}})
		}), CheckOptions{}, `name "floats" hides one of an enclosing graph`},
	})
}

// One model for each rule of external data, including those of the CVEs of the
// ONNX tools.
func TestCheckExternal(t *testing.T) {
	hidden := Tensor{Name: "h", DType: FLOAT, Dims: []int64{1}, External: &External{[]Entry{{"location", "../h"}}}}
	check(t, []checkCase{
		{"external", external("location", "weights/w.bin", "offset", "4096", "length", "1536", "checksum", "abc"), CheckOptions{}, ""},
		{"external, no range", external("location", "w.bin"), CheckOptions{}, ""},
		{"external, no location", external(), CheckOptions{}, `location "" is empty`},
		{"external ../ (CVE-2022-25882)", external("location", "../../etc/passwd"), CheckOptions{}, "leaves the model's folder"},
		{"external a/../.. (CVE-2024-27318)", external("location", "a/../../etc/passwd"), CheckOptions{}, "leaves the model's folder"},
		{"external absolute", external("location", "/etc/passwd"), CheckOptions{}, "is absolute"},
		{"external drive", external("location", "C:/x"), CheckOptions{}, "holds a colon"},
		{"external scheme", external("location", "file:x"), CheckOptions{}, "holds a colon"},
		{"external backslash", external("location", `..\x`), CheckOptions{}, "holds a backslash"},
		{"external NUL", external("location", "a\x00b"), CheckOptions{}, "holds a NUL"},
		{"external newline", external("location", "a\nb"), CheckOptions{}, "holds a control character"},
		{"external not shortest", external("location", "a//w.bin"), CheckOptions{}, "is not in its shortest form"},
		{"external a folder", external("location", "w/"), CheckOptions{}, "is not in its shortest form"},
		{"external device", external("location", "x/nul.bin"), CheckOptions{}, "names a device"},
		{"external dot at the end", external("location", "w.bin."), CheckOptions{}, "ends in a dot or space"},
		{"external memory (ONNX Runtime 28709)", external("location", "*/_ORT_MEM_ADDR_/*", "offset", "140000000000"), CheckOptions{}, "is a memory address"},
		{"external key (CVE-2026-34445)", external("location", "w.bin", "__class__", "x"), CheckOptions{}, `unknown key "__class__"`},
		{"external key twice", external("location", "w.bin", "location", "../w.bin"), CheckOptions{}, `duplicate key "location"`},
		{"external base path", external("location", "w.bin", "basepath", "/"), CheckOptions{}, `base path "/" is not allowed`},
		{"external offset", external("location", "w.bin", "offset", "-1"), CheckOptions{}, `invalid offset "-1"`},
		{"external offset signed", external("location", "w.bin", "offset", "+1"), CheckOptions{}, `invalid offset "+1"`},
		{"external offset padded", external("location", "w.bin", "offset", "01"), CheckOptions{}, `invalid offset "01"`},
		{"external length", external("location", "w.bin", "length", "1537"), CheckOptions{}, "length is 1537 bytes, float32 [8 3 4 4] needs 1536"},
		{"external range wraps", external("location", "w.bin", "offset", fmt.Sprint(int64(math.MaxInt64))), CheckOptions{}, "exceed 2^63"},
		{"external undeclared", external("location", "w.bin"), CheckOptions{External: func(string) (int64, error) { return 0, errors.New("none") }}, "is not declared"},
		{"external through a link (CVE-2026-34446)", external("location", "w.bin"), CheckOptions{External: func(string) (int64, error) { return 0, ErrLinked }}, `link: graph "encoder"/initializer[0] "conv.w": file "w.bin" is a link`},
		{"external too large", external("location", "w.bin"), CheckOptions{MaxBytes: 1000, External: func(string) (int64, error) { return 1536, nil }}, "size: 1536 bytes with external data, want at most 1000"},
		{"external shared", twice(0, 1536), CheckOptions{}, ""},
		{"external side by side", twice(1536, 1536), CheckOptions{}, ""},
		{"external shared in part", twice(4, 1536), CheckOptions{}, `overlap: graph "encoder"/initializer[6] "again": bytes 4 to 1540 of "w.bin" overlap those of graph "encoder"/initializer[0] "conv.w", 0 to 1536`},
		{"external within another", twice(4, 8), CheckOptions{}, `overlap: graph "encoder"/initializer[6] "again": bytes 4 to 12`},
		{"external beyond its file", external("location", "w.bin", "offset", "1"), CheckOptions{External: func(string) (int64, error) { return 1536, nil }}, "bytes 1 to 1537 exceed"},
		{"external and inside", change(func(_ *Model, g *Graph) { g.Initializers[0].External = &External{[]Entry{{"location", "w"}}} }), CheckOptions{}, "elements both in the file and external"},
		{"external strings", change(func(_ *Model, g *Graph) {
			g.Initializers = append(g.Initializers, Tensor{Name: "s", DType: STRING, Dims: []int64{1}, External: &External{[]Entry{{"location", "w"}}}})
		}), CheckOptions{}, "strings cannot be external"},
		{"external in a constant", change(func(_ *Model, g *Graph) {
			g.Nodes[0].Attributes = append(g.Nodes[0].Attributes, tensorAttr("value", hidden))
		}), CheckOptions{}, `attribute "value": location "../h"`},
		{"external under another type", change(func(_ *Model, g *Graph) {
			g.Nodes[0].Attributes = append(g.Nodes[0].Attributes, Attribute{Name: "v", Type: AttrInt, Tensors: []Tensor{hidden}})
		}), CheckOptions{}, `tensor[0] "h": location "../h"`},
		{"external in a sparse tensor", change(func(_ *Model, g *Graph) {
			g.Sparse = append(g.Sparse, SparseTensor{Values: hidden, Indices: Ints("i", []int64{1}, []int64{0}), Dims: []int64{1}})
		}), CheckOptions{}, `sparse_initializer[0] "h"/values: location "../h"`},
		{"external in a branch", change(func(_ *Model, g *Graph) {
			g.Nodes[0].Attributes = append(g.Nodes[0].Attributes, Attribute{Name: "b", Type: AttrGraph, Graph: &Graph{Initializers: []Tensor{hidden}}})
		}), CheckOptions{}, `attribute "b"/initializer[0] "h": location "../h"`},
		{"external in a function", change(func(m *Model, _ *Graph) {
			m.Functions = []Function{{Name: "F", Domain: "mine", Nodes: []Node{{Op: "Constant", Outputs: []string{"c"}, Attributes: []Attribute{tensorAttr("value", hidden)}}}}}
		}), CheckOptions{}, `function[0] "F"/node[0]/attribute "value": location "../h"`},
		{"external in a default", change(func(m *Model, _ *Graph) {
			m.Functions = []Function{{Name: "F", Domain: "mine", Defaults: []Attribute{tensorAttr("d", hidden)}}}
		}), CheckOptions{}, `default[0] "d": location "../h"`},
		{"external in training", change(func(m *Model, _ *Graph) { m.Training = []Graph{{Initializers: []Tensor{hidden}}} }), CheckOptions{}, `training graph[0]/initializer[0] "h": location "../h"`},
	})
}

// twice returns a model with a second tensor in the file of the first.
func twice(offset, length int64) *Model {
	m := external("location", "w.bin")
	m.Graph.Constant(Tensor{Name: "again", DType: FLOAT, Dims: []int64{length / 4}, External: &External{[]Entry{{"location", "w.bin"}, {"offset", fmt.Sprint(offset)}}}})
	m.Graph.Nodes = append(m.Graph.Nodes, neg("again", "out"))
	return m
}

// A fault after any number of warnings is reported.
func TestWarningsHideNothing(t *testing.T) {
	m := external("location", "../w.bin")
	for i := range 1000 {
		m.Training = append(m.Training, Graph{})
		m.Graph.Constant(Ints(fmt.Sprint("spare", i), []int64{1}, []int64{7}))
		m.Graph.Nodes = append(m.Graph.Nodes, Node{Op: "RandomNormal", Outputs: []string{fmt.Sprint("r", i)}})
	}
	m.Graph.Outputs[0].Name = "ghost"
	var faults, warnings int
	for _, p := range m.Check(CheckOptions{}) {
		if p.Warning {
			warnings++
		} else {
			faults++
		}
	}
	if faults != 2 || warnings != maxWarnings {
		t.Errorf("%d faults, %d warnings", faults, warnings)
	}
}

func TestCheckStops(t *testing.T) {
	m := visionEncoder()
	for range 1000 {
		m.Graph.Nodes = append(m.Graph.Nodes, Node{Op: "Neg", Inputs: []string{"ghost"}})
	}
	if problems := m.Check(CheckOptions{}); len(problems) != maxProblems || !strings.Contains(problems[maxProblems-1].Text, "and more") {
		t.Errorf("%d problems, the last %v", len(problems), problems[len(problems)-1])
	}
}

// msg encodes a message with one field of bytes.
func msg(num int, inner ...[]byte) []byte {
	var body []byte
	for _, b := range inner {
		body = append(body, b...)
	}
	return append(appendVarint(appendVarint(nil, uint64(num)<<3|uint64(wireBytes)), uint64(len(body))), body...)
}

func num(field int, v uint64) []byte {
	return appendVarint(appendVarint(nil, uint64(field)<<3), v)
}

// deep nests graphs in attributes, n times.
func deep(n int) []byte {
	var g []byte
	for range n {
		g = msg(1, msg(5, msg(6, g)))
	}
	return msg(7, g)
}

func malformed() []struct {
	name string
	file []byte
	want string
} {
	tensor := func(fields ...[]byte) []byte { return msg(7, msg(5, fields...)) }
	typ := func(fields ...[]byte) []byte { return msg(7, msg(11, msg(2, fields...))) }
	return []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "file is empty"},
		{"git lfs pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00"), "a Git LFS pointer"},
		{"no graph", num(1, 8), "missing graph"},
		{"text", []byte("{\"json\": true}"), "not an ONNX file: got text"},
		{"tag cut short", []byte{0x80}, "invalid varint in a field tag"},
		{"tag beyond 64 bits", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, "invalid varint in a field tag"},
		{"field 0", []byte{0x00, 0x00}, "field number 0 is out of range"},
		{"field number of 2^40", appendVarint(nil, 1<<43), "is out of range"},
		{"group", []byte{0x0b}, "field 1 has the wire type 3"},
		{"varint cut short", []byte{0x08, 0xff}, "field 1 is not a varint"},
		{"length beyond the file", []byte{0x3a, 0xff, 0xff, 0xff, 0xff, 0x07}, "field 7 has 2147483647 bytes, 0 are left"},
		{"length of 2^64-1", append([]byte{0x3a}, appendVarint(nil, math.MaxUint64)...), "field 7 has 18446744073709551615 bytes"},
		{"length beyond its message", msg(7, []byte{0x0a, 0x05, 0x00}), "graph: field 1 has 5 bytes, 1 are left"},
		{"fixed32 cut short", msg(7, msg(1, msg(5, []byte{0x15, 0, 0}))), "attribute 0: field 2 needs 4 bytes, 2 are left"},
		{"wrong wire type", msg(7, num(1, 5)), "graph: field 1 has the wire type 0, not 2"},
		{"string as number", append(msg(7), num(2, 5)...), "field 2 has the wire type 0, not 2"},
		{"graph twice", append(msg(7), msg(7)...), "field 7 appears twice"},
		{"raw_data twice", tensor(msg(9), msg(9)), "initializer 0: \"\": field 9 appears twice"},
		{"invalid UTF-8", msg(7, msg(2, []byte{0xff})), "graph: field 2 is not valid UTF-8"},
		{"name of 70000 bytes", msg(7, msg(2, []byte(strings.Repeat("n", 70000)))), "name in field 2 has 70000 bytes"},
		{"graphs nested too deep", deep(40), "graphs nested deeper than 32"},
		{"types nested too deep", msg(7, msg(11, msg(2, sequence(40)))), "types nested deeper than 32"},
		{"segments", tensor(msg(3)), "segments are not supported"},
		{"floats of three bytes", tensor(msg(4, []byte{1, 2, 3})), "field 4 holds a partial value"},
		{"doubles of four bytes", tensor(msg(10, []byte{1, 2, 3, 4})), "field 10 holds a partial value"},
		{"packed varint cut short", tensor(msg(7, []byte{0x80})), "field 7 holds an invalid varint"},
		{"dims cut short", tensor(msg(1, []byte{0x80})), "field 1 holds an invalid varint"},
		{"dtype beyond 32 bits", tensor(num(2, 1<<40)), "field 2 is 1099511627776, beyond 32 bits"},
		{"data location 2", tensor(num(14, 2)), "unknown data location 2"},
		{"external data unmarked", tensor(msg(13)), "external_data of a tensor that is not external"},
		{"sparse without indices", msg(7, msg(15, msg(1))), "sparse tensor without values or indices"},
		{"two kinds of type", typ(msg(1), msg(8)), "type has two kinds"},
		{"two kinds of dimension", typ(msg(1, msg(2, msg(1, num(1, 5), msg(2, []byte("N")))))), "dimension has both a number and a name"},
	}
}

// sequence returns a type of sequences nested n times.
func sequence(n int) []byte {
	var t []byte
	for range n {
		t = msg(4, msg(1, t))
	}
	return t
}

func TestMalformed(t *testing.T) {
	for _, c := range malformed() {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := Parse([]byte("version https://git-lfs.github.com/spec/v1\n")); !errors.Is(err, ErrPointer) {
		t.Errorf("pointer: got %v", err)
	}
	if m, err := Parse(append(msg(7), num(50, 1)...)); err != nil || m.Unknown != 1 {
		t.Errorf("unknown field: %+v, %v", m, err)
	}
}

func TestLimits(t *testing.T) {
	parse := func(b []byte) error { _, err := Parse(b); return err }
	version := func(v int64) error {
		if problems := change(func(m *Model, _ *Graph) { m.IRVersion = v }).Check(CheckOptions{}); len(problems) > 0 {
			return errors.New(problems[0].Text)
		}
		return nil
	}
	name := func(n int) error { return parse(msg(7, msg(2, []byte(strings.Repeat("n", n))))) }
	size := func(n int64) error {
		if oversized(n) {
			return ErrLimit
		}
		return nil
	}
	for _, c := range []struct {
		name     string
		at, over error
	}{
		{"maxFile", size(maxFile), size(maxFile + 1)},
		{"maxDepth of graphs", parse(deep(maxDepth)), parse(deep(maxDepth + 1))},
		{"maxDepth of types", parse(msg(7, msg(11, msg(2, sequence(maxDepth))))), parse(msg(7, msg(11, msg(2, sequence(maxDepth+1)))))},
		{"maxName", name(maxName), name(maxName + 1)},
		{"minIR", version(minIR), version(minIR - 1)},
		{"maxIR", version(maxIR), version(maxIR + 1)},
	} {
		if c.at != nil || c.over == nil {
			t.Errorf("%s: %v, one more: %v", c.name, c.at, c.over)
		}
	}
}

// A small file cannot become a large structure.
func TestBudget(t *testing.T) {
	nodes := []byte(strings.Repeat("\x0a\x00", 4<<20)) // empty nodes, two bytes each
	if _, err := Parse(msg(7, nodes)); err == nil || !strings.Contains(err.Error(), "too large for the size of the file") {
		t.Errorf("4 million empty nodes: %v", err)
	}
}

// For any bytes, the reader does not panic, and an accepted model can be
// checked, written and read again.
func FuzzParse(f *testing.F) {
	for _, c := range malformed() {
		f.Add(c.file)
	}
	for _, m := range []*Model{visionEncoder(), imageDecoder(), external("location", "w.bin", "offset", "16")} {
		f.Add(written(f, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		m.Check(CheckOptions{})
		m.Operators()
		m.Parameters()
		for i := range m.Graph.Initializers {
			m.Graph.Initializers[i].Bytes()
		}
		if len(m.Graph.Outputs) > 0 {
			m.Cut(m.Graph.Outputs[0].Name)
		}
		back, err := Parse(written(t, m))
		if err != nil {
			t.Fatalf("reading the output: %v", err)
		}
		if string(written(t, back)) != string(written(t, m)) {
			t.Fatal("output differs from the input")
		}
	})
}

// tensorAttr returns an attribute with a tensor.
func tensorAttr(name string, t Tensor) Attribute {
	return Attribute{Name: name, Type: AttrTensor, Tensor: &t}
}
