package decode

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/net"
)

// All faults of a recipe are reported, each with its path.
func TestRecipeFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Recipe)
		want   []string // paths
	}{
		"as it should be":       {func(*Recipe) {}, nil},
		"another stage":         {func(r *Recipe) { r.Stage = "1" }, []string{"/stage"}},
		"unknown modality":      {func(r *Recipe) { r.Modality = "smell" }, []string{"/data/scene", "/modality"}},
		"images for sounds":     {func(r *Recipe) { r.Modality = Audio }, []string{"/data/scene"}},
		"no core":               {func(r *Recipe) { r.Core.Base = "" }, []string{"/core/base"}},
		"no states":             {func(r *Recipe) { r.Core.States = -1 }, []string{"/core/states"}},
		"noise below zero":      {func(r *Recipe) { r.Core.Noise = -1 }, []string{"/core/noise"}},
		"no decoder":            {func(r *Recipe) { r.Decoder = Decoder{} }, []string{"/decoder"}},
		"two decoders":          {func(r *Recipe) { r.Decoder.From = "x" }, []string{"/decoder"}},
		"no objective":          {func(r *Recipe) { r.Objective = Objective{} }, []string{"/objective/kind"}},
		"unknown distance":      {func(r *Recipe) { r.Objective.Distance = "l3" }, []string{"/objective/distance"}},
		"too many steps":        {func(r *Recipe) { r.Objective.Steps = 101 }, []string{"/objective/steps"}},
		"unknown prediction":    {func(r *Recipe) { r.Objective.Predicts = "noise" }, []string{"/objective/predicts"}},
		"a share above one":     {func(r *Recipe) { r.Objective.Begin = 1.5 }, []string{"/objective/begin"}},
		"steps of a regression": {func(r *Recipe) { r.Objective.Kind = Regression; r.Objective.Steps = 2 }, []string{"/objective"}},
		"no data":               {func(r *Recipe) { r.Data = Data{} }, []string{"/data"}},
		"negative examples":     {func(r *Recipe) { r.Data.Scene.Examples = -1 }, []string{"/data/scene/examples"}},
		"empty batch":           {func(r *Recipe) { r.BatchSize = -1 }, []string{"/batch_size"}},
		"no end":                {func(r *Recipe) { r.Stop = train.Stop{} }, []string{"/stop"}},
		"many faults":           {func(r *Recipe) { r.BatchSize, r.Threads, r.Eval.N = -1, -1, -2 }, []string{"/batch_size", "/eval/n", "/threads"}},
	} {
		r := drawing("core")
		c.change(&r)
		var got []string
		for _, f := range train.Faults(r.Validate()) {
			got = append(got, f.Path)
		}
		slices.Sort(got)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Each limit of a recipe accepts its value and refuses one more.
func TestLimits(t *testing.T) {
	for name, set := range map[string]func(r *Recipe, more int){
		"maxBatch":            func(r *Recipe, more int) { r.BatchSize = maxBatch + more },
		"maxStates":           func(r *Recipe, more int) { r.Core.States = maxStates + more },
		"maxSteps":            func(r *Recipe, more int) { r.Objective.Steps = maxSteps + more },
		"maxExamples, scene":  func(r *Recipe, more int) { r.Data.Scene.Examples = maxExamples + more },
		"maxExamples, speech": func(r *Recipe, more int) { *r = saying("core", "x"); r.Data.Speech.Examples = maxExamples + more },
	} {
		at, beyond := drawing("core"), drawing("core")
		set(&at, 0)
		set(&beyond, 1)
		if err := at.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if beyond.Validate() == nil {
			t.Errorf("%s + 1: accepted", name)
		}
	}
}

// Faults that require the open core, network or source are located too.
func TestOpeningFaults(t *testing.T) {
	core := reading(t)
	for name, c := range map[string]struct {
		change func(*Recipe)
		path   string
		want   string
	}{
		"no such core":        {func(r *Recipe) { r.Core.Base = "nothing.gguf" }, "/core/base", "nothing.gguf"},
		"other states":        {func(r *Recipe) { r.Core.States = 21 }, "/decoder", "input states: got [20, 24], want [21, 24]"},
		"an input too many":   {func(r *Recipe) { r.Objective = Objective{Kind: Regression} }, "/decoder", "unknown input noise for regression"},
		"an input missing":    {func(r *Recipe) { *r = regressing(core); r.Objective = Objective{Kind: Flow} }, "/decoder", "missing input noise"},
		"states last":         {func(r *Recipe) { slices.Reverse(r.Decoder.Net.Inputs) }, "/decoder", "want states"},
		"two outputs":         {func(r *Recipe) { r.Decoder.Net.Outputs = []string{"picture", "seen"} }, "/decoder", "network has 2 outputs"},
		"another size":        {func(r *Recipe) { r.Data.Scene.Pixels = 96 }, "/decoder", "12288 numbers, target 27648"},
		"pictures of nothing": {func(r *Recipe) { r.Data.Scene.Kinds = []string{"video"} }, "/data/scene/kinds", "no prompts for video"},
		"no such kind":        {func(r *Recipe) { r.Data.Scene.Kinds = []string{"smells"} }, "/data/scene", "smells"},
		"no such checkpoint":  {func(r *Recipe) { r.Decoder = Decoder{From: "nothing.safetensors"} }, "/decoder", "nothing.safetensors"},
	} {
		r := drawing(core)
		c.change(&r)
		_, err := New(r, train.Options{From: ".", Threads: 1})
		faults := train.Faults(err)
		if len(faults) == 0 || faults[0].Path != c.path || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v at %v", name, err, faults)
		}
	}
}

// The schema has every key of the recipe at every level.
func TestSchemaNamesKeys(t *testing.T) {
	raw, err := schemas.FS().Open("decoding.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	type object struct {
		Properties map[string]object `json:"properties"`
	}
	var schema object
	if err := json.NewDecoder(raw).Decode(&schema); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		of reflect.Type
		in object
	}{
		"recipe":    {reflect.TypeFor[Recipe](), schema},
		"core":      {reflect.TypeFor[Core](), schema.Properties["core"]},
		"decoder":   {reflect.TypeFor[Decoder](), schema.Properties["decoder"]},
		"objective": {reflect.TypeFor[Objective](), schema.Properties["objective"]},
		"data":      {reflect.TypeFor[Data](), schema.Properties["data"]},
		"scene":     {reflect.TypeFor[Scene](), schema.Properties["data"].Properties["scene"]},
		"eval":      {reflect.TypeFor[train.HeldOut](), schema.Properties["eval"]},
	} {
		var want, got []string
		for _, f := range reflect.VisibleFields(c.of) {
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
				want = append(want, key)
			}
		}
		for key := range c.in.Properties {
			got = append(got, key)
		}
		slices.Sort(want)
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: keys differ from the schema: %s", name, d)
		}
	}
}

// A recipe in YAML is read, and the stage may be a number.
func TestRecipeYAML(t *testing.T) {
	doc, list := schemas.Parse("train.yaml", []byte(`
name: img-dec
stage: 2
modality: image
core: {base: core.gguf, states: 20}
decoder: {net: {inputs: [{name: states, rows: 20, cols: 24}], layers: [{kind: linear, out: 3, name: y}], outputs: [y]}}
objective: {kind: regression, distance: l1}
data: {scene: {pixels: 64}}
stop: {steps: 1}
`))
	if list.Failed() {
		t.Fatal(list)
	}
	if kind, _ := doc.Detect(); kind != schemas.Decoding {
		t.Errorf("detected %q", kind)
	}
	if list := doc.Validate(schemas.Decoding); list.Failed() {
		t.Error(list)
	}
	var r Recipe
	if err := doc.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil || r.Stage != Decoders || r.Decoder.Net.Inputs[0] != (net.Port{Name: States, Rows: 20, Cols: 24}) {
		t.Errorf("%v, %+v", err, r)
	}
}
