package truth_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/lab/truth"
)

func whole() truth.Record {
	return truth.Record{Model: "qwen", Scope: "qwen_block", Target: "litert_qnn_sm8750", Backend: "litert_qnn", Result: truth.OK, Delegate: new(1.0),
		Layers: &[2]int{0, 1}, ModelLayers: 28, Artifact: "sha256:" + strings.Repeat("a", 64), Weights: strings.Repeat("b", 64),
		Engine: "litert 2.1", Cosine: new(0.999), Device: "sha256:" + strings.Repeat("c", 64)}
}

// Only a whole measured record says that something works.
func TestStages(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*truth.Record)
		stage  string
		proves bool
	}{
		"whole":           {func(*truth.Record) {}, truth.Measured, true},
		"simulated":       {func(r *truth.Record) { r.Simulated = true }, truth.Simulated, false},
		"a stub":          {func(r *truth.Record) { r.Backend = "host_sim" }, truth.Stub, false},
		"a fallback":      {func(r *truth.Record) { r.Backend = "fallback_cpu" }, truth.Stub, false},
		"skipped":         {func(r *truth.Record) { r.Result = truth.Skipped }, truth.Unmeasured, false},
		"nothing was run": {func(r *truth.Record) { r.Result, r.Simulated = truth.Skipped, true }, truth.Unmeasured, false},
		"failed":          {func(r *truth.Record) { r.Result, r.Failure = truth.Failed, "aot_compile: x" }, truth.Measured, false},
		"no weights":      {func(r *truth.Record) { r.Weights = "" }, truth.Unfounded, false},
		"no artifact":     {func(r *truth.Record) { r.Artifact = "sha256:12" }, truth.Unfounded, false},
		"no layers":       {func(r *truth.Record) { r.Layers = nil }, truth.Unfounded, false},
		"of how many":     {func(r *truth.Record) { r.ModelLayers = 0 }, truth.Unfounded, false},
		"no share":        {func(r *truth.Record) { r.Delegate = nil }, truth.Unfounded, false},
		"emulated":        {func(r *truth.Record) { r.Backend = "qnn (emulated)" }, truth.Simulated, false},
		"zeros":           {func(r *truth.Record) { r.Artifact = strings.Repeat("0", 64) }, truth.Unfounded, false},
		"no engine":       {func(r *truth.Record) { r.Engine = "" }, truth.Unfounded, false},
		"no cosine":       {func(r *truth.Record) { r.Cosine = nil }, truth.Unfounded, false},
		"a low cosine":    {func(r *truth.Record) { r.Cosine = new(0.89) }, truth.Unfounded, false},
		"no device":       {func(r *truth.Record) { r.Device = "" }, truth.Unfounded, false},
	} {
		r := whole()
		tc.change(&r)
		got, err := truth.Make([]truth.Record{r})
		if err != nil || len(got.Rows) != 1 || got.Rows[0].Stage != tc.stage || got.Proves("litert_qnn_sm8750") != tc.proves || got.Proves("cpu") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// What is of no chip wants no record of a device.
func TestOfChip(t *testing.T) {
	for name, tc := range map[string]struct {
		target, backend string
		chip            bool
	}{
		"a target":   {"litert_sm8750", "litert", true},
		"a chip":     {"SM8650/fp16", "x", true},
		"a backend":  {"phone", "litert_qnn", true},
		"an engine":  {"onnx", "host", false},
		"no numbers": {"prism1234", "host", false},
	} {
		r := whole()
		r.Target, r.Backend, r.Device, r.Engine, r.Cosine = tc.target, tc.backend, "", "", nil
		got, err := truth.Make([]truth.Record{r})
		if err != nil || r.OfChip() != tc.chip || got.Proves(tc.target) == tc.chip {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	for name, change := range map[string]func(*truth.Record){
		"no model":        func(r *truth.Record) { r.Model = "" },
		"another result":  func(r *truth.Record) { r.Result = "fine" },
		"a share":         func(r *truth.Record) { r.Delegate = new(1.1) },
		"no layer":        func(r *truth.Record) { r.Layers = &[2]int{3, 3} },
		"too many layers": func(r *truth.Record) { r.Layers = &[2]int{1, 30} },
		"below none":      func(r *truth.Record) { r.ModelLayers, r.Layers = -1, nil },
		"beyond 1":        func(r *truth.Record) { r.Cosine = new(1.2) },
		"no time":         func(r *truth.Record) { r.Seconds = -1 },
		"said to be none": func(r *truth.Record) { r.Result = truth.NotRun },
		"ok and failed":   func(r *truth.Record) { r.Failure = "x" },
	} {
		r := whole()
		change(&r)
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s: %v", name, p)
				}
			}()
			if got, err := truth.Make([]truth.Record{whole(), r}); err == nil || !strings.Contains(err.Error(), "record 2") {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}()
	}
}

// A cell that nobody tried says so: it is not ok, proves nothing, and has no
// figure. One that was tried stays as it is.
func TestExpect(t *testing.T) {
	got, err := truth.Make([]truth.Record{whole()})
	if err != nil {
		t.Fatal(err)
	}
	tried := truth.Cell{Model: "qwen", Scope: "qwen_block", Target: "litert_qnn_sm8750", Backend: "litert_qnn"}
	none := truth.Cell{Model: "qwen", Scope: "a", Target: "litert_qnn_sm8650", Backend: "litert_qnn"}
	got.Expect([]truth.Cell{tried, none})
	if len(got.Rows) != 2 || got.Rows[0].Scope != "a" || got.Rows[0].Result != truth.NotRun || got.Rows[0].Stage != truth.None || got.Rows[1].Result != truth.OK {
		t.Fatalf("%+v", got.Rows)
	}
	if got.Proves("litert_qnn_sm8650") || !got.Proves("litert_qnn_sm8750") || len(got.Counts) != 2 || got.Counts[0] != (truth.Counts{Target: "litert_qnn_sm8650", Rows: 1}) {
		t.Errorf("%+v", got.Counts)
	}
}

// The last attempt counts; layers are shown as they are, half open; a bar in a
// name makes no column.
func TestTable(t *testing.T) {
	first, last, other := whole(), whole(), whole()
	first.Result, first.Failure = truth.Failed, "x"
	other.Scope, other.Layers, other.Unsupported = "frozen|subgraph", &[2]int{1, 9}, []string{"Softmax", "TopK"}
	other.Unit, other.Reached, other.Cosine, other.Seconds = "nodes", "done", new(0.99998), 1.5
	got, err := truth.Make([]truth.Record{first, other, last})
	if err != nil || len(got.Rows) != 2 || got.Rows[1].Result != truth.OK || got.Counts[0] != (truth.Counts{Target: "litert_qnn_sm8750", Rows: 2, Measured: 2}) {
		t.Fatalf("%+v, %v", got, err)
	}
	var b strings.Builder
	if err := got.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	want := `| qwen | frozen\|subgraph | litert_qnn_sm8750 | litert_qnn | measured | ok | 100.0 % | [1, 9) of 28 nodes | Softmax, TopK | done | 0.99998 | 1.5 |  |`
	if lines := strings.Split(b.String(), "\n"); lines[2] != want {
		t.Errorf("%s", lines[2])
	}
}
