package judge_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/lab/judge"
)

func complete() judge.Record {
	return judge.Record{Model: "qwen", Scope: "qwen_block", Target: "litert_qnn_sm8750", Backend: "litert_qnn", Result: judge.OK, Delegate: new(1.0),
		Layers: &[2]int{0, 1}, ModelLayers: 28, Artifact: "sha256:" + strings.Repeat("a", 64), Weights: strings.Repeat("b", 64),
		Engine: "litert 2.1", Cosine: new(0.999), Device: "sha256:" + strings.Repeat("c", 64)}
}

// Only a complete measured record proves that something works.
func TestStages(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*judge.Record)
		stage  string
		proves bool
	}{
		"complete":        {func(*judge.Record) {}, judge.Measured, true},
		"simulated":       {func(r *judge.Record) { r.Simulated = true }, judge.Simulated, false},
		"stub":            {func(r *judge.Record) { r.Backend = "host_sim" }, judge.Stub, false},
		"fallback":        {func(r *judge.Record) { r.Backend = "fallback_cpu" }, judge.Stub, false},
		"skipped":         {func(r *judge.Record) { r.Result = judge.Skipped }, judge.Unmeasured, false},
		"nothing was run": {func(r *judge.Record) { r.Result, r.Simulated = judge.Skipped, true }, judge.Unmeasured, false},
		"failed":          {func(r *judge.Record) { r.Result, r.Failure = judge.Failed, "aot_compile: x" }, judge.Measured, false},
		"no weights":      {func(r *judge.Record) { r.Weights = "" }, judge.Unfounded, false},
		"no artifact":     {func(r *judge.Record) { r.Artifact = "sha256:12" }, judge.Unfounded, false},
		"no layers":       {func(r *judge.Record) { r.Layers = nil }, judge.Unfounded, false},
		"no total":        {func(r *judge.Record) { r.ModelLayers = 0 }, judge.Unfounded, false},
		"no share":        {func(r *judge.Record) { r.Delegate = nil }, judge.Unfounded, false},
		"emulated":        {func(r *judge.Record) { r.Backend = "qnn (emulated)" }, judge.Simulated, false},
		"zeros":           {func(r *judge.Record) { r.Artifact = strings.Repeat("0", 64) }, judge.Unfounded, false},
		"no engine":       {func(r *judge.Record) { r.Engine = "" }, judge.Unfounded, false},
		"no cosine":       {func(r *judge.Record) { r.Cosine = nil }, judge.Unfounded, false},
		"a low cosine":    {func(r *judge.Record) { r.Cosine = new(0.89) }, judge.Unfounded, false},
		"no device":       {func(r *judge.Record) { r.Device = "" }, judge.Unfounded, false},
	} {
		r := complete()
		tc.change(&r)
		got, err := judge.MakeTable([]judge.Record{r})
		if err != nil || len(got.Rows) != 1 || got.Rows[0].Stage != tc.stage || got.Proves("litert_qnn_sm8750") != tc.proves || got.Proves("cpu") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// The cell of the layers has the number of the model's layers if it is known.
func TestCells(t *testing.T) {
	for layers, want := range map[int]string{28: "[0, 1) of 28", 0: "[0, 1)"} {
		r := complete()
		r.ModelLayers = layers
		got, err := judge.MakeTable([]judge.Record{r})
		if err != nil {
			t.Fatal(err)
		}
		if heading, rows := got.Cells(); heading[7] != "LAYERS" || rows[0][7] != want {
			t.Errorf("%s is %q, want %q", heading[7], rows[0][7], want)
		}
	}
}

// Without a chip, no device record is required.
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
		r := complete()
		r.Target, r.Backend, r.Device, r.Engine, r.Cosine = tc.target, tc.backend, "", "", nil
		got, err := judge.MakeTable([]judge.Record{r})
		if err != nil || r.OfChip() != tc.chip || got.Proves(tc.target) == tc.chip {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	for name, change := range map[string]func(*judge.Record){
		"no model":        func(r *judge.Record) { r.Model = "" },
		"unknown result":  func(r *judge.Record) { r.Result = "fine" },
		"share":           func(r *judge.Record) { r.Delegate = new(1.1) },
		"no layer":        func(r *judge.Record) { r.Layers = &[2]int{3, 3} },
		"too many layers": func(r *judge.Record) { r.Layers = &[2]int{1, 30} },
		"below none":      func(r *judge.Record) { r.ModelLayers, r.Layers = -1, nil },
		"cosine above 1":  func(r *judge.Record) { r.Cosine = new(1.2) },
		"negative time":   func(r *judge.Record) { r.Seconds = -1 },
		"not run":         func(r *judge.Record) { r.Result = judge.NotRun },
		"ok and failed":   func(r *judge.Record) { r.Failure = "x" },
	} {
		r := complete()
		change(&r)
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s: %v", name, p)
				}
			}()
			if got, err := judge.MakeTable([]judge.Record{complete(), r}); err == nil || !strings.Contains(err.Error(), "record 2") {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}()
	}
}

// A cell without an attempt gets a row that is not ok and proves nothing. Other cells keep
// their row.
func TestExpect(t *testing.T) {
	got, err := judge.MakeTable([]judge.Record{complete()})
	if err != nil {
		t.Fatal(err)
	}
	tried := judge.Cell{Model: "qwen", Scope: "qwen_block", Target: "litert_qnn_sm8750", Backend: "litert_qnn"}
	none := judge.Cell{Model: "qwen", Scope: "a", Target: "litert_qnn_sm8650", Backend: "litert_qnn"}
	got.Expect([]judge.Cell{tried, none})
	if len(got.Rows) != 2 || got.Rows[0].Scope != "a" || got.Rows[0].Result != judge.NotRun || got.Rows[0].Stage != judge.None || got.Rows[1].Result != judge.OK {
		t.Fatalf("%+v", got.Rows)
	}
	if got.Proves("litert_qnn_sm8650") || !got.Proves("litert_qnn_sm8750") || len(got.Counts) != 2 || got.Counts[0] != (judge.Counts{Target: "litert_qnn_sm8650", Rows: 1}) {
		t.Errorf("%+v", got.Counts)
	}
}

// The last attempt counts, layers are printed as half-open ranges, and a bar in a name does
// not start a column.
func TestTable(t *testing.T) {
	first, last, other := complete(), complete(), complete()
	first.Result, first.Failure = judge.Failed, "x"
	other.Scope, other.Layers, other.Unsupported = "frozen|subgraph", &[2]int{1, 9}, []string{"Softmax", "TopK"}
	other.Unit, other.Reached, other.Cosine, other.Seconds = "nodes", "done", new(0.99998), 1.5
	other.Bytes = 2 << 20
	got, err := judge.MakeTable([]judge.Record{first, other, last})
	if err != nil || len(got.Rows) != 2 || got.Rows[1].Result != judge.OK || got.Counts[0] != (judge.Counts{Target: "litert_qnn_sm8750", Rows: 2, Measured: 2}) {
		t.Fatalf("%+v, %v", got, err)
	}
	var b strings.Builder
	if err := got.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	want := `| qwen | frozen\|subgraph | litert_qnn_sm8750 | litert_qnn | measured | ok | 100.0 % | [1, 9) of 28 nodes | Softmax, TopK | done | 2.0 MiB | 0.99998 | 1.5 |  |`
	if lines := strings.Split(b.String(), "\n"); lines[2] != want {
		t.Errorf("%s", lines[2])
	}
}
