package train

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/llm"
)

func TestValidate(t *testing.T) {
	good := smallConfig(t, t.TempDir())
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]struct {
		f   func(*Config)
		say string
	}{
		"no end":        {func(c *Config) { c.Stop = Stop{} }, "missing steps, tokens or seconds"},
		"target":        {func(c *Config) { c.Stop.Loss, c.Eval.Every = 2, 0 }, "eval.every"},
		"optimizer":     {func(c *Config) { c.Optimizer.Name = "sgd" }, `"sgd"`},
		"rate":          {func(c *Config) { c.Optimizer.Rate = math.NaN() }, "lr"},
		"beta":          {func(c *Config) { c.Optimizer.Beta2 = 1 }, "beta2"},
		"rates":         {func(c *Config) { c.Optimizer.Rates = map[string]float64{"[": 1} }, "rates"},
		"precision":     {func(c *Config) { c.Precision = "fp16" }, `unknown precision "fp16"`},
		"batch":         {func(c *Config) { c.BatchSize = -1 }, "batch_size"},
		"huge batch":    {func(c *Config) { c.BatchSize, c.SeqLen = 1<<20, 1<<20 }, "batch_size"},
		"policy":        {func(c *Config) { c.Freeze.Policy = "middle" }, `"middle"`},
		"policy alone":  {func(c *Config) { c.Freeze.Policy, c.Freeze.Head = "boundary", true }, "excludes"},
		"layers":        {func(c *Config) { c.Freeze.Layers = "0-3" }, "want 0-2"},
		"layers text":   {func(c *Config) { c.Freeze.Layers = "first" }, "invalid layer"},
		"lora":          {func(c *Config) { c.LoRA, c.Freeze.Head = &llm.LoRA{Rank: 1}, true }, "lora"},
		"format":        {func(c *Config) { c.Data.Format = "csv" }, "csv"},
		"files":         {func(c *Config) { c.Data.Files = nil }, "missing files"},
		"held":          {func(c *Config) { c.Data.Held = 1 }, "held_out"},
		"tokenizer":     {func(c *Config) { c.Tokenizer.File = "t.json" }, "excludes"},
		"eos":           {func(c *Config) { c.Tokenizer.EOS = "</s>" }, "</s>"},
		"model":         {func(c *Config) { c.Model.Heads = 5; c.Model.KVHeads = 3 }, "kv_heads"},
		"residual":      {func(c *Config) { c.Init.Residual = "one" }, "residual"},
		"schedule":      {func(c *Config) { c.Schedule.Kind = "saw" }, "saw"},
		"clip":          {func(c *Config) { c.Clip = math.Inf(1) }, "clip"},
		"negative stop": {func(c *Config) { c.Stop.Seconds = -1 }, "negative"},
	} {
		c := good
		k.f(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), k.say) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := good
	bad.BatchSize, bad.Stop, bad.Optimizer.Name = -1, Stop{}, "sgd"
	if err := bad.Validate(); strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("missing faults: %v", err)
	}
}

func TestParseLayers(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "0": {0}, "1-3": {1, 2, 3}, "-1, 0": {0, 4}, "2,2-3": {2, 3}} {
		got, err := parseLayers(list, 5)
		set := map[int]bool{}
		for _, l := range want {
			set[l] = true
		}
		if err != nil || !cmp.Equal(set, got) {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
	for _, list := range []string{",", "5", "-6", "3-1", "a", "1-", "--1"} {
		if _, err := parseLayers(list, 5); err == nil {
			t.Errorf("%q was accepted", list)
		}
	}
}

func TestRates(t *testing.T) {
	o := Optimizer{Rates: map[string]float64{"*": 2, "blk.*": 3, "blk.*.attn_q.weight": 4}}
	for name, want := range map[string]float64{"output.weight": 2, "blk.1.ffn_up.weight": 3, "blk.1.attn_q.weight": 4} {
		if got := o.rate(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Every fault of a configuration has the most precise known path, through
// wrapped and joined errors.
func TestFaults(t *testing.T) {
	cfg := Config{
		Model: llm.Config{Vocab: 0, Dim: 8, Layers: 2, Heads: 3, Context: 8, HeadDim: 3}, Data: Data{Files: []string{"x"}, Keys: []string{"q"}},
		Freeze: Freeze{Layers: "9", Tensors: []string{"["}, Every: -1}, Optimizer: Optimizer{Name: "sgd"}, Clip: math.Inf(1), Threads: -1,
	}
	got := map[string]int{}
	for _, f := range Faults(fmt.Errorf("reading: %w", errors.Join(cfg.Validate()))) {
		got[f.Path]++
	}
	if len(got) != 1 { // wrapped together they are one
		t.Errorf("%v", got)
	}
	got = map[string]int{}
	for _, f := range Faults(cfg.Validate()) {
		got[f.Path]++
	}
	want := map[string]int{"/model": 2, "/data": 1, "/freeze/layers": 1, "/freeze/tensors": 1, "/freeze/every": 1, "/optimizer": 1, "/stop": 1, "/clip": 1, "/threads": 1}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if f := Faults(errors.New("the disk is full")); f != nil {
		t.Errorf("%v", f)
	}
	if Faults(nil) != nil {
		t.Error("unexpected fault")
	}
}
