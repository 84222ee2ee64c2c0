package modules_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

const textModule = `name: reader
version: 1.0.0
type: encoder
modality: text
abi: mm-abi-1.2
license: MIT
text: {tokenizer: t.gguf, max_tokens: 24, prompts: {query: "q "}, prompt: query}
inputs:
  - {name: input_ids, shape: [T], dtype: int64}
  - {name: attention_mask, shape: [T], dtype: int64}
outputs:
  - {name: embedding, shape: [8], dtype: fp32}
export: {onnx: {path: m.onnx}}
`

// TestText accepts an encoder of text, and reports what contradicts its block.
func TestText(t *testing.T) {
	m, list := modules.Parse("module.yaml", []byte(textModule))
	if list.Failed() || m.Text == nil || m.Ranks() || m.BlockFiles()[0] != "t.gguf" {
		t.Fatal(list.Err())
	}
	for _, c := range []struct{ old, with, want string }{
		{"modality: text", "modality: image", "of modality image"},
		{"name: attention_mask", "name: mask", "without the inputs"},
		{"name: input_ids, shape: [T]", "name: input_ids, shape: [N, T]", "with the input"},
		{"name: embedding", "name: states", "without one output"},
		{"shape: [8]", "shape: [D]", "without one output"},
		{"prompt: query", "prompt: passage", `unknown prompt "passage"`},
		{"prompt: query", "labels: [a]", "1 labels"},
	} {
		_, list := modules.Parse("module.yaml", []byte(strings.Replace(textModule, c.old, c.with, 1)))
		found := false
		for _, d := range list {
			found = found || d.Code == diag.BadText && strings.Contains(d.Detail, c.want)
		}
		if !found {
			t.Errorf("%s: got %v, want %q", c.with, list.Err(), c.want)
		}
	}
	if _, list := modules.Parse("module.yaml", []byte(strings.Replace(textModule, "1.2", "1.1", 1))); !list.Failed() {
		t.Error("MM-ABI 1.1 accepts text")
	}
	ranks := strings.Replace(strings.Replace(textModule, "embedding", "scores", 1), "shape: [8]", "shape: [1]", 1)
	if m, list := modules.Parse("module.yaml", []byte(ranks)); list.Failed() || !m.Ranks() {
		t.Errorf("a reranker: %v", list.Err())
	}
}
