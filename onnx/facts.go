package onnx

import (
	"maps"
	"slices"
)

// WeightBytes returns the number of bytes in initializers and constants by the name
// of their element type, including external data.
func WeightBytes(m *Model) map[string]int64 {
	out := make(map[string]int64)
	m.EachTensor(func(t *Tensor) {
		if n := t.Size(); n > 0 {
			out[t.DType.String()] += n
		}
	})
	return out
}

// precisions maps element types to the precisions of manifests.
var precisions = map[string]string{
	"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "float8e4m3fn": "fp8", "float8e5m2": "fp8",
	"int8": "int8", "uint8": "int8", "int4": "int4", "uint4": "int4", "int2": "int2", "uint2": "int2",
}

// Precision returns the manifest's name of the element type with the most bytes
// of weights, such as fp32; "" for a model without weights.
func Precision(m *Model) string {
	total := make(map[string]int64)
	for name, n := range WeightBytes(m) {
		if p := precisions[name]; p != "" {
			total[p] += n
		}
	}
	if nbits := packed(m); nbits != "" && total["int8"] > 0 { // MatMulNBits packs its weights into bytes
		total[nbits] += total["int8"]
		delete(total, "int8")
	}
	best := ""
	for _, p := range slices.Sorted(maps.Keys(total)) {
		if best == "" || total[p] > total[best] {
			best = p
		}
	}
	return best
}

// packed returns the precision of weights that MatMulNBits unpacks.
func packed(m *Model) string {
	name := ""
	m.EachNode(func(n *Node) {
		if n.Op == "MatMulNBits" {
			name = bitsOf(n)
		}
	})
	return name
}

func bitsOf(n *Node) string {
	for _, a := range n.Attributes {
		if a.Name == "bits" && a.Int == 8 {
			return "int8"
		}
		if a.Name == "bits" && a.Int == 2 {
			return "int2"
		}
	}
	return "int4"
}

// release is a release of ONNX Runtime and the newest versions that it
// supports.
type release struct {
	name   string
	opset  int64
	ml, ir int64
}

// releases lists the releases of ONNX Runtime that raised a version
// (onnxruntime.ai/docs/reference/compatibility.html), oldest first. The last is
// the one that this program was tested with.
var releases = []release{
	{"1.0", 11, 2, 6}, {"1.3", 12, 2, 6}, {"1.6", 13, 2, 7}, {"1.8", 14, 2, 7}, {"1.9", 15, 2, 8}, {"1.11", 16, 2, 8}, {"1.12", 17, 3, 8},
	{"1.14", 18, 3, 8}, {"1.15", 19, 3, 9}, {"1.17", 20, 4, 9}, {"1.18", 21, 4, 10}, {"1.21", 22, 4, 10}, {"1.22", 23, 5, 11}, {"1.24", 24, 5, 12}, {"1.30", 26, 5, 13},
}

// MinRuntime returns the oldest release of ONNX Runtime that supports the
// model's versions; "" if none is known to. A build of that release may still
// lack single operators.
func MinRuntime(m *Model) string {
	need := release{ir: m.IRVersion}
	for _, o := range m.Opsets {
		switch o.Domain {
		case "", "ai.onnx":
			need.opset = o.Version
		case "ai.onnx.ml":
			need.ml = o.Version
		}
	}
	for _, r := range releases {
		if r.opset >= need.opset && r.ml >= need.ml && r.ir >= need.ir {
			return r.name
		}
	}
	return ""
}
