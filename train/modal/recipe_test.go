package modal

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/net"
)

// All faults of a recipe are reported, each with its path.
func TestRecipeFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Recipe)
		want   []string // paths
	}{
		"as it should be":       {func(*Recipe) {}, nil},
		"no stage":              {func(r *Recipe) { r.Stage = "" }, []string{"/stage", "/core/model", "/modalities/0/encoder/net"}},
		"unknown stage":         {func(r *Recipe) { r.Stage = "4" }, []string{"/stage", "/core/model", "/modalities/0/encoder/net"}},
		"a new encoder, frozen": {func(r *Recipe) { r.Stage = Align; r.Core.Model = nil }, []string{"/modalities/0/encoder/net"}},
		"a new projector, frozen": {func(r *Recipe) {
			*r = tuning("x")
			r.Stage = Mix
			r.Modalities[0].Projector.From = ""
			r.Modalities[0].Projector.Net = projecting(256)
		}, []string{"/modalities/0/projector/net"}},
		"adapters without their key": {func(r *Recipe) { *r = tuning("x"); r.Core.LoRA = nil }, []string{"/core/lora"}},
		"adapters in stage 0":        {func(r *Recipe) { *r = aligning("x"); r.Core.LoRA = &llm.LoRA{Rank: 2} }, []string{"/core/lora"}},
		"a frozen adapter":           {func(r *Recipe) { *r = aligning("x"); r.Core.Adapter = "x.gguf" }, nil},
		"an adapter in stage 1":      {func(r *Recipe) { *r = tuning("x"); r.Core.Adapter = "x.gguf" }, []string{"/core/adapter"}},
		"a trained ONNX file":        {func(r *Recipe) { r.Modalities[0].Encoder = Encoder{ONNX: "x.onnx"} }, []string{"/modalities/0/encoder/onnx"}},
		"two encoders":               {func(r *Recipe) { r.Modalities[0].Encoder.From = "x" }, []string{"/modalities/0/encoder"}},
		"no projector":               {func(r *Recipe) { r.Modalities[0].Projector = Network{} }, []string{"/modalities/0/projector"}},
		"no modality":                {func(r *Recipe) { r.Modalities = nil }, []string{"/modalities", "/data/scene"}},
		"no source":                  {func(r *Recipe) { r.Data.Scene = nil }, []string{"/data", "/data"}},
		"duplicate medium":           {func(r *Recipe) { r.Modalities = append(r.Modalities, r.Modalities[0]) }, []string{"/modalities/1/modality"}},
		"a sound's preprocessing": {func(r *Recipe) {
			r.Modalities[0].Preprocess = preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000}}
		}, []string{"/modalities/0/preprocess"}},
		"bytes for a network":     {func(r *Recipe) { r.Modalities[0].Preprocess.DType = "uint8" }, []string{"/modalities/0/preprocess/dtype"}},
		"empty batch":             {func(r *Recipe) { r.BatchSize = -1 }, []string{"/batch_size"}},
		"no end":                  {func(r *Recipe) { r.Stop = train.Stop{} }, []string{"/stop"}},
		"invalid pattern":         {func(r *Recipe) { r.Data.Spell = []string{"*/read", "["} }, []string{"/data/spell/1"}},
		"shares of more than one": {func(r *Recipe) { r.Data.Late = 1.5 }, []string{"/data/silent"}},
		"many faults":             {func(r *Recipe) { r.BatchSize, r.Data.Turns, r.Eval.N = -1, 100, -2 }, []string{"/data/turns", "/batch_size", "/eval/n"}},
	} {
		r := encoding()
		c.change(&r)
		var got []string
		for _, f := range train.Faults(r.Validate()) {
			got = append(got, f.Path)
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Each limit of a recipe accepts its value and refuses one more.
func TestLimits(t *testing.T) {
	for name, set := range map[string]func(r *Recipe, more int){
		"maxPositions":       func(r *Recipe, more int) { r.BatchSize, r.SeqLen = maxPositions/16+more, 16 },
		"maxTurns":           func(r *Recipe, more int) { r.Data.Turns = maxTurns + more },
		"maxExamples, scene": func(r *Recipe, more int) { r.Data.Scene.Examples = maxExamples + more },
		"maxExamples, sound": func(r *Recipe, more int) {
			r.Modalities = append(r.Modalities, hearing(24))
			r.Data.Sound = &Sound{Kinds: []string{"tones"}, Examples: maxExamples + more}
		},
	} {
		at, beyond := encoding(), encoding()
		set(&at, 0)
		set(&beyond, 1)
		if err := at.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if beyond.Validate() == nil {
			t.Errorf("%s + 1: accepted", name)
		}
	}
	m := &memory{held: map[int][]float32{}, size: maxFeatures - 2}
	m.put(1, make([]float32, 2))
	m.put(2, make([]float32, 1))
	if m.held[1] == nil || m.held[2] != nil || m.size != maxFeatures {
		t.Errorf("cache of maxFeatures holds %d numbers", m.size)
	}
}

// The schema has every key of a layer and of the recipe.
func TestSchemaNamesKeys(t *testing.T) {
	raw, err := schemas.FS().Open("stage.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var schema struct {
		object
		Defs struct{ Layer object } `json:"$defs"`
	}
	if err := json.NewDecoder(raw).Decode(&schema); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		of   reflect.Type
		keys map[string]json.RawMessage
	}{
		"recipe": {reflect.TypeFor[Recipe](), schema.Properties},
		"layer":  {reflect.TypeFor[net.Layer](), schema.Defs.Layer.Properties},
	} {
		var want []string
		for _, f := range reflect.VisibleFields(c.of) {
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
				want = append(want, key)
			}
		}
		var got []string
		for key := range c.keys {
			got = append(got, key)
		}
		slices.Sort(want)
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: keys differ from the schema: %s", name, d)
		}
	}
}

// A stage is a number or a string.
func TestStageJSON(t *testing.T) {
	for text, want := range map[string]Stage{`0`: Align, `"encoder"`: Encode, `3`: Mix, `"1"`: Tune} {
		var s Stage
		if err := json.Unmarshal([]byte(text), &s); err != nil || s != want {
			t.Errorf("%s: %q, %v", text, s, err)
		}
	}
	var s Stage
	if json.Unmarshal([]byte(`[1]`), &s) == nil {
		t.Error("accepted a list as a stage")
	}
}
