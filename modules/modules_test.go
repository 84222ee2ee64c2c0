package modules_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

const encoder = `name: enc
version: 1.0.0
type: encoder
modality: image
abi: mm-abi-1.0
license: MIT
inputs: [{name: image, shape: [H, W, 3], dtype: uint8}]
outputs: [{name: tokens, shape: [T_enc, D_enc], dtype: fp16}]
`

func codes(list diag.List) (out []diag.Code) {
	for _, d := range list {
		out = append(out, d.Code)
	}
	return out
}

// Rules that a schema cannot express.
func TestCheck(t *testing.T) {
	proj := strings.NewReplacer("encoder", "projector", "[H, W, 3]", "[T_enc, D_enc]", "dtype: uint8", "dtype: fp16").Replace(encoder)
	for _, tc := range []struct {
		name, in string
		want     []diag.Code
	}{
		{"sound", encoder, nil},
		{"no licence", strings.Replace(encoder, "license: MIT\n", "", 1), []diag.Code{diag.NoLicense}},
		{"two sizes", encoder + "caps: {D_enc: 5}\nparams: {D_enc: 6}\n", []diag.Code{diag.PortConflict}},
		{"two ports of one name", strings.Replace(encoder, "dtype: uint8}]", "dtype: uint8}, {name: image, shape: [4], dtype: fp32}]", 1), []diag.Code{diag.RepeatedItem}},
		{"a key of 1.1", encoder + "state: {a: b}\n", []diag.Code{diag.NeedsABI}},
		{"tiles in 1.1", strings.Replace(encoder, "mm-abi-1.0", "mm-abi-1.1", 1) + "preprocess: {tiles: {size: 8, choose: aspect, most: 4}}\n", []diag.Code{diag.NeedsABI}},
		{"fit in 1.1", strings.Replace(encoder, "mm-abi-1.0", "mm-abi-1.1", 1) + "preprocess: {fit: {multiple: 8, choose: longest, longest: 64}}\n", []diag.Code{diag.NeedsABI}},
		{"projector of another width", proj + "params: {T_cap: 8, d_model: 64}\n", []diag.Code{diag.PortConflict}},
		{"projector over its cap", strings.Replace(proj, "name: tokens, shape: [T_enc, D_enc]", "name: tokens, shape: [9, d_model]", 1) + "params: {T_cap: 8, d_model: 64}\n", []diag.Code{diag.CapExceeded}},
		{"two caps", strings.Replace(proj, "name: tokens, shape: [T_enc, D_enc]", "name: tokens, shape: [T_cap, d_model]", 1) + "params: {T_cap: 8, t_cap: 9, d_model: 64}\n", []diag.Code{diag.PortConflict, diag.PortConflict}},
		{"export that is not listed", encoder + "export: {onnx: a.onnx}\nfiles: []\n", []diag.Code{diag.FileMissing}},
		{"listed twice", encoder + "files: [" + strings.Repeat("{path: a, sha256: "+strings.Repeat("0a", 32)+", size: 1}, ", 2) + "]\n", []diag.Code{diag.RepeatedItem}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, list := modules.Parse("module.yaml", []byte(tc.in))
			if d := cmp.Diff(tc.want, codes(list)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, list)
			}
		})
	}
}

func TestCheckSkillsAndCores(t *testing.T) {
	head := "name: x\nversion: 1.0.0\nabi: mm-abi-1.0\nlicense: MIT\n"
	skill := head + "type: skill\ninputs: [{name: a, type: str}]\noutputs: [{name: b, type: json}]\n"
	core := head + "type: core\n"
	for _, tc := range []struct {
		name, in string
		want     []diag.Code
	}{
		{"no engine", skill + "runtime: {limits: {cpu: 1}}\n", []diag.Code{diag.MissingKey}},
		{"two engines", skill + "runtime: {builtin: a, wasm: a.wasm}\n", []diag.Code{diag.MissingKey}},
		{"memory twice", skill + "runtime: {builtin: a, limits: {mem: 1Mi, mem_mb: 2}}\n", []diag.Code{diag.BadLimit}},
		{"more specials than places", core + "tokens: {vocab_size: 4}\n", []diag.Code{diag.BadTokens}},
		{"cap over the sequence", core + "tokens: {max_seq: 50}\ncaps: {image: 64}\n", []diag.Code{diag.CapExceeded}},
		{"defaults", core + "tokens: {}\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, list := modules.Parse("module.yaml", []byte(tc.in))
			if d := cmp.Diff(tc.want, codes(list)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, list)
			}
		})
	}
}

func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.onnx", "weights")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("weights")))
	write("module.yaml", encoder+"export: {onnx: a.onnx}\nfiles: [{path: a.onnx, sha256: "+sum+", size: 7}]\n")
	load := func() diag.List {
		t.Helper()
		m, list := modules.Load(dir)
		if m == nil {
			t.Fatal(list)
		}
		return m.CheckFiles(context.Background())
	}
	if list := load(); len(list) != 0 {
		t.Errorf("sound folder: %v", list)
	}
	write("a.onnx", "weightz")
	if d := cmp.Diff([]diag.Code{diag.FileDiffers}, codes(load())); d != "" {
		t.Errorf("one byte changed: %s", d)
	}
	os.Remove(filepath.Join(dir, "a.onnx"))
	if d := cmp.Diff([]diag.Code{diag.FileMissing}, codes(load())); d != "" {
		t.Errorf("file gone: %s", d)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "a.onnx")); err != nil {
		t.Skip("skipped: no symbolic links")
	}
	if d := cmp.Diff([]diag.Code{diag.FileMissing}, codes(load())); d != "" {
		t.Errorf("link out of the folder: %s", d)
	}
}

func TestEffectiveLimits(t *testing.T) {
	skill := &modules.Limits{CPU: "1", Mem: "512Mi", TimeoutMS: 400}
	box := &modules.Limits{CPU: "500m", MemMB: 64}
	got := skill.Effective().Merge(box.Effective())
	want := modules.Effective{MilliCPU: 500, MemBytes: 64 << 20, TimeoutMS: 400}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if s := got.String(); s != "0.5 cpu, 64 MiB, 400 ms" {
		t.Errorf("prints as %q", s)
	}
	if s := (modules.Effective{}).String(); s != "no limit" {
		t.Errorf("no limit prints as %q", s)
	}
}

// The playbook's projector example, as a program sees it.
func ExampleParse() {
	data, _ := os.ReadFile("../schemas/testdata/playbook/vision-proj/module.yaml")
	m, list := modules.Parse("module.yaml", data)
	fmt.Println(m.ID(), m.Type, m.TCap(), m.Outputs[0])
	fmt.Println(list)
	// Output:
	// vision-proj@1.2.0 projector 64 llm_tokens [T_cap, d_model] fp16
	// [module.yaml:1:7: warning MM0203: missing license: vision-proj@1.2.0]
}
