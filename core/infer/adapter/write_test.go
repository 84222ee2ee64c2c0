package adapter

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/gguf"
)

// sample returns an adapter of two layers, with matrices of different ranks and
// scales.
func sample(dora bool) Adapter {
	a := Adapter{}
	fill := func(n int, at float32) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = at + float32(i)/8
		}
		return v
	}
	add := func(name string, rank, in, out int, scale float32) {
		c := Change{Rank: rank, In: in, Out: out, A: fill(rank*in, 1), B: fill(out*rank, -2), Scale: scale}
		if dora {
			c.Magnitude = fill(out, 3)
		}
		a[name] = c
	}
	for l := range 2 {
		add(fmt.Sprintf("blk.%d.attn_q.weight", l), 2, 6, 8, 2)
		add(fmt.Sprintf("blk.%d.attn_k.weight", l), 2, 6, 4, 2)
	}
	add("blk.1.ffn_down.weight", 4, 3, 6, 0.5)
	add("output.weight", 2, 6, 5, 2)
	return a
}

// equal compares adapters by the products of their factors and scale.
func equal(t *testing.T, got, want Adapter) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d matrices, want %d", len(got), len(want))
	}
	for name, w := range want {
		g := got[name]
		a, b := make([]float32, w.In*w.Out), make([]float32, w.In*w.Out)
		for n := range w.Out {
			g.Row(a[n*w.In:(n+1)*w.In], n)
			w.Row(b[n*w.In:(n+1)*w.In], n)
		}
		if g.Rank != w.Rank || !slices.Equal(a, b) || !slices.Equal(g.Magnitude, w.Magnitude) {
			t.Errorf("%s: %+v, want %+v", name, g, w)
		}
	}
}

// An adapter written as GGUF and as a PEFT folder reads back as itself.
func TestWrite(t *testing.T) {
	m := Model{Arch: "llama", Heads: 2, KVHeads: 1, HeadDim: 4, Interleaved: true}
	for _, dora := range []bool{false, true} {
		want := sample(dora)
		if rank, alpha, is := want.Shape(); rank != 2 || alpha != 4 || is != dora {
			t.Errorf("rank %d, alpha %v, DoRA %v", rank, alpha, is)
		}
		if got := want.Targets(); !cmp.Equal(got, []string{"attn_k", "attn_q", "ffn_down", "output"}) {
			t.Errorf("targets %v", got)
		}
		var b bytes.Buffer
		if err := want.WriteGGUF(&b, "llama", []gguf.KV{{Key: gguf.KeyName, Value: "x"}}); err != nil {
			t.Fatal(err)
		}
		got, err := parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, want)
		for _, m := range []Model{m, {Arch: "qwen3", Heads: 2, KVHeads: 1, HeadDim: 4}} {
			p, err := want.ToPEFT(m, 2, "some/model")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			f, err := os.Create(filepath.Join(dir, WeightsFile))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.WriteWeights(f); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, ConfigFile), p.Config, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err = Open(dir, m); err != nil {
				t.Fatal(err)
			}
			equal(t, got, want)
			for _, want := range []string{`"r": 2`, `"lora_alpha": 4`, `"k_proj",`, `"lm_head",`, `"model.layers.1.mlp.down_proj"`, `"base_model_name_or_path": "some/model"`, `layers\\.1\\.mlp\\.down_proj$": 4`, fmt.Sprintf(`"use_dora": %v`, dora)} {
				if !strings.Contains(string(p.Config), want) {
					t.Errorf("missing %s in %s", want, p.Config)
				}
			}
			if strings.Contains(string(p.Config), "layers.0") {
				t.Error("q_proj of both layers is not one target")
			}
		}
	}
}

func TestWriteRefused(t *testing.T) {
	m := Model{Arch: "llama", Heads: 2, KVHeads: 1, HeadDim: 4, Interleaved: true}
	for want, edit := range map[string]func(Adapter){
		"all matrices or for none": func(a Adapter) { c := a["output.weight"]; c.Magnitude = make([]float32, 5); a["output.weight"] = c },
		"has no place":             func(a Adapter) { a["blk.0.ssm_in.weight"] = a["output.weight"] },
		"has 5 rows":               func(a Adapter) { a["blk.0.attn_q.weight"] = a["output.weight"] },
		"has alpha 0":              func(a Adapter) { clear(a) },
	} {
		a := sample(false)
		edit(a)
		if _, err := a.ToPEFT(m, 2, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if err := (Adapter{}).WriteGGUF(&bytes.Buffer{}, "llama", nil); err == nil {
		t.Error("an empty adapter is written")
	}
}

// Settings of PEFT that change the effect of an adapter are applied or refused
// by name.
func TestPEFTSettings(t *testing.T) {
	m := Model{Heads: 2, KVHeads: 1, HeadDim: 4, Interleaved: true}
	const place = "base_model.model.model.layers.3.self_attn.v_proj"
	open := func(settings string) (Adapter, error) {
		return Open(peft(t, `{"peft_type": "LORA", "lora_alpha": 8, `+settings+`}`, place, 3, 4, 4), m)
	}
	for settings, want := range map[string]float32{
		`"alpha_pattern": {"v_proj": 4}`: 1, `"alpha_pattern": {"layers.3.self_attn.v_proj": 6}`: 1.5, `"alpha_pattern": {"proj": 4}`: 2,
		`"alpha_pattern": {".*_proj": 4, "v_proj": 4}`: 1, `"alpha_pattern": {"v_proj": 4}, "use_rslora": true`: 2, `"rank_pattern": {"v_proj": 4}, "r": 9`: 2,
		`"init_lora_weights": "gaussian"`: 2, `"init_lora_weights": true, "use_bdlora": null, "trainable_token_indices": null`: 2,
	} {
		a, err := open(settings)
		if err != nil || a["blk.3.attn_v.weight"].Scale != want {
			t.Errorf("%s: scale %v, want %v, %v", settings, a["blk.3.attn_v.weight"].Scale, want, err)
		}
	}
	long := strings.Repeat("x", maxPattern)
	if _, err := open(`"alpha_pattern": {"` + long + `": 4}`); err != nil {
		t.Errorf("a pattern of %d bytes: %v", maxPattern, err)
	}
	for settings, want := range map[string]string{
		`"alpha_pattern": {"` + long + `x": 4}`:            "longer than",
		`"alpha_pattern": {"v_proj": 4, "self_attn.*": 5}`: "both match",
		`"alpha_pattern": {"(?=x)v": 4}`:                   "unsupported pattern",
		`"alpha_pattern": {"v_proj": 0}`:                   "bad alpha 0",
		`"use_dora": true`:                                 "use_dora is true",
		`"lora_bias": true`:                                "lora_bias",
		`"use_qalora": true`:                               "use_qalora",
		`"layer_replication": [[0, 4]]`:                    "layer_replication",
		`"target_parameters": ["experts.w"]`:               "target_parameters",
		`"trainable_token_indices": [1]`:                   "trainable_token_indices",
		`"arrow_config": {}`:                               "arrow_config",
		`"use_bdlora": {}`:                                 "use_bdlora",
		`"kasa_config": {}`:                                "kasa_config",
		`"velora_config": {}`:                              "velora_config",
		`"monteclora_config": {}`:                          "monteclora_config",
		`"init_lora_weights": "pissa_niter_16"`:            "changes the base",
		`"init_lora_weights": "OLoRA"`:                     "changes the base",
		`"modules_to_save": ["lm_head"]`:                   "modules_to_save",
	} {
		if _, err := open(settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", settings, err, want)
		}
	}
}
