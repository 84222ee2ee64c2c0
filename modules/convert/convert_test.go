package convert_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/inspect"
)

// shape is a small model.
var shape = arch.Shape{
	Arch: "qwen2", Context: 64, Layers: 2, Width: 32, Heads: 4, KVHeads: 2, HeadDim: 8, Hidden: 64, Vocab: 256, Epsilon: 1e-5,
	Rope: arch.Rope{Dims: 8, Base: 10000, Halves: true, OriginalContext: 64},
}

// file writes a model of zeros to a new folder; change may damage it.
func file(t *testing.T, more []gguf.KV, change func(*gguf.Source)) string {
	t.Helper()
	v := tokenizer.Vocabulary{Model: tokenizer.BPE, Pre: "gpt-2", Special: tokenizer.NoSpecial}
	for b := range 256 {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: tokenizer.ToAlphabet(string([]byte{byte(b)})), Type: tokenizer.Normal})
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	want := shape.Globals()
	for i := range shape.Layers {
		want = append(want, shape.Layer(i, nil)...)
	}
	var sources []gguf.Source
	for _, w := range want {
		if w.Optional {
			continue
		}
		n := 1
		for _, d := range w.Dims {
			n *= d
		}
		s := gguf.Source{Name: w.Name, Type: tensor.F32, Dims: w.Dims, Data: gguf.Bytes(make([]byte, 4*n))}
		if change != nil {
			change(&s)
		}
		sources = append(sources, s)
	}
	var b bytes.Buffer
	if _, err := gguf.Write(&b, append(append(shape.Metadata(), more...), tok.KVs()...), sources); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "some-file.Q8_0.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKept: a file's metadata is in the manifest.
func TestKept(t *testing.T) {
	path := file(t, []gguf.KV{
		{Key: gguf.KeyName, Value: "Tiny Qwen 2.5"}, {Key: "general.author", Value: "Ada"}, {Key: gguf.KeyLicense, Value: "apache-2.0"},
		{Key: "general.source.url", Value: "models/tiny"},
	}, nil)
	at := t.TempDir()
	t.Chdir(at)
	dir, err := convert.GGUF(t.Context(), path, convert.Options{Version: "1.2.0"})
	if err != nil {
		t.Fatal(err)
	}
	m, list := modules.Load(dir)
	if list.Failed() {
		t.Fatal(list.Err())
	}
	if m.Name != "tiny-qwen-2.5" || dir != m.Name || m.License != "apache-2.0" || m.Source != "models/tiny" ||
		m.Description != "Tiny Qwen 2.5, a language model of architecture qwen2, by Ada." || m.Entry("gguf") != "tiny-qwen-2.5.gguf" {
		t.Errorf("%+v", m)
	}
	if faults := m.CheckFiles(t.Context()); faults.Failed() {
		t.Error(faults.Err())
	}
	// A second version has its own folder; the first is left alone.
	if _, err := convert.GGUF(t.Context(), path, convert.Options{Version: "1.3.0"}); err == nil || !strings.Contains(err.Error(), "already contains a module") {
		t.Error(err)
	}
	if err := os.MkdirAll("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err = convert.GGUF(t.Context(), path, convert.Options{Version: "1.3.0", Dir: "empty", Name: "other", License: "MIT"})
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := modules.Load(dir); m == nil || m.ID() != "other@1.3.0" || m.License != "MIT" {
		t.Errorf("%+v", m)
	}
}

// TestNamed: a model without a name is named after its file; a
// license outside SPDX becomes a reference.
func TestNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := convert.GGUF(t.Context(), file(t, []gguf.KV{{Key: gguf.KeyLicense, Value: "llama3.2"}}, nil), convert.Options{Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := modules.Load(dir)
	if m == nil || m.Name != "some-file.q8-0" || m.License != "LicenseRef-llama3.2" {
		t.Errorf("%+v", m)
	}
}

// TestNothingLeft: a model that cannot be run, a bad name, the end of a context
// and a folder in use leave the place as it was.
func TestNothingLeft(t *testing.T) {
	good := file(t, nil, nil)
	foreign := file(t, nil, func(s *gguf.Source) {
		if s.Name == "blk.1.ffn_up.weight" {
			s.Type, s.Data = tensor.Type(20), gguf.Bytes(make([]byte, 32*64/32*18)) // IQ4_NL
		}
	})
	unknown := file(t, nil, func(s *gguf.Source) {
		if s.Name == "blk.1.ffn_up.weight" {
			s.Type, s.Data = tensor.I8, gguf.Bytes(make([]byte, 32*64))
		}
	})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		path string
		opt  convert.Options
		want string
	}{
		"type":      {t.Context(), unknown, convert.Options{}, "tensor blk.1.ffn_up.weight: unsupported weight type I8"},
		"key":       {t.Context(), file(t, []gguf.KV{{Key: "qwen2.attention.causal", Value: false}}, nil), convert.Options{}, "qwen2.attention.causal is false"},
		"name":      {t.Context(), good, convert.Options{Name: "No Name"}, `invalid module name "No Name"`},
		"version":   {t.Context(), good, convert.Options{Version: "one"}, "one"},
		"licence":   {t.Context(), good, convert.Options{License: "do what you want"}, "do"},
		"cancelled": {cancelled, good, convert.Options{}, context.Canceled.Error()},
	} {
		at := t.TempDir()
		t.Chdir(at)
		if c.opt.Version == "" {
			c.opt.Version = "1.0.0"
		}
		_, err := convert.GGUF(c.ctx, c.path, c.opt)
		left, _ := os.ReadDir(at)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(left) != 0 {
			t.Errorf("%s: %v, left %v", name, err, left)
		}
	}
	// IQ4_NL is refused by its name, or runs.
	t.Chdir(t.TempDir())
	if _, err := convert.GGUF(t.Context(), foreign, convert.Options{Version: "1.0.0"}); err != nil && !strings.Contains(err.Error(), "IQ4_NL") {
		t.Error(err)
	}
	full := t.TempDir()
	if _, err := convert.HuggingFace(t.Context(), full, convert.Options{Version: "1.0.0"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestFoundLater: a module whose weights were exchanged for some that cannot be
// run is reported with the tensor's name and type.
func TestFoundLater(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := convert.GGUF(t.Context(), file(t, nil, nil), convert.Options{Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	m, list := inspect.Module(t.Context(), dir)
	if list.Failed() {
		t.Fatal(list.Err())
	}
	for want, path := range map[string]string{
		"blk.0.attn_v.weight: unsupported weight type I8": file(t, nil, func(s *gguf.Source) {
			if s.Name == "blk.0.attn_v.weight" {
				s.Type, s.Data = tensor.I8, gguf.Bytes(make([]byte, 32*16))
			}
		}),
		"key qwen2.expert_count: got 4": file(t, []gguf.KV{{Key: "qwen2.expert_count", Value: uint32(4)}}, nil),
		"shape mismatch for tensor blk.1.attn_norm.weight": file(t, nil, func(s *gguf.Source) {
			if s.Name == "blk.1.attn_norm.weight" {
				s.Dims, s.Data = []int{16}, gguf.Bytes(make([]byte, 64))
			}
		}),
	} {
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, m.Entry("gguf")), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		faults := inspect.Check(m, inspect.Folder(m))
		if !faults.Failed() || !strings.Contains(faults.Err().Error(), want) {
			t.Errorf("%v, want %q", faults.Err(), want)
		}
	}
}

func TestSlug(t *testing.T) {
	for in, want := range map[string]string{
		"Qwen2.5-0.5B Instruct": "qwen2.5-0.5b-instruct", "meta-llama/Llama-3.2-1B": "meta-llama-llama-3.2-1b", "  ": "", "..a..b..": "a.b", "Ünï": "n", "a--b": "a-b",
	} {
		if got := convert.Slug(in); got != want {
			t.Errorf("%q became %q, not %q", in, got, want)
		}
	}
}
