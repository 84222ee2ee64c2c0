package truth_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/lab/truth"
)

func whole() truth.Record {
	return truth.Record{Model: "qwen", Scope: "qwen_block", Target: "litert_qnn_sm8750", Backend: "litert_qnn", Result: truth.OK, Delegate: new(1.0),
		Layers: &[2]int{0, 1}, ModelLayers: 28, Artifact: "sha256:" + strings.Repeat("a", 64), Weights: strings.Repeat("b", 64)}
}

// Only a whole measured record says that something works.
func TestStages(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*truth.Record)
		stage  string
		proves bool
	}{
		"whole":       {func(*truth.Record) {}, truth.Measured, true},
		"simulated":   {func(r *truth.Record) { r.Simulated = true }, truth.Simulated, false},
		"a stub":      {func(r *truth.Record) { r.Backend = "host_sim" }, truth.Stub, false},
		"a fallback":  {func(r *truth.Record) { r.Backend = "fallback_cpu" }, truth.Stub, false},
		"skipped":     {func(r *truth.Record) { r.Result = truth.Skipped }, truth.Unmeasured, false},
		"failed":      {func(r *truth.Record) { r.Result, r.Failure = truth.Failed, "aot_compile: x" }, truth.Measured, false},
		"no weights":  {func(r *truth.Record) { r.Weights = "" }, truth.Unfounded, false},
		"no artifact": {func(r *truth.Record) { r.Artifact = "sha256:12" }, truth.Unfounded, false},
		"no layers":   {func(r *truth.Record) { r.Layers = nil }, truth.Unfounded, false},
		"of how many": {func(r *truth.Record) { r.ModelLayers = 0 }, truth.Unfounded, false},
		"no share":    {func(r *truth.Record) { r.Delegate = nil }, truth.Unfounded, false},
	} {
		r := whole()
		tc.change(&r)
		got, err := truth.Make([]truth.Record{r})
		if err != nil || len(got.Rows) != 1 || got.Rows[0].Stage != tc.stage || got.Proves("litert_qnn_sm8750") != tc.proves || got.Proves("cpu") {
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

// The last attempt counts; layers are shown as they are, half open; a bar in a
// name makes no column.
func TestTable(t *testing.T) {
	first, last, other := whole(), whole(), whole()
	first.Result, first.Failure = truth.Failed, "x"
	other.Scope, other.Layers, other.Unsupported = "frozen|subgraph", &[2]int{1, 9}, []string{"Softmax", "TopK"}
	got, err := truth.Make([]truth.Record{first, other, last})
	if err != nil || len(got.Rows) != 2 || got.Rows[1].Result != truth.OK || got.Counts[0] != (truth.Counts{Target: "litert_qnn_sm8750", Rows: 2, Measured: 2}) {
		t.Fatalf("%+v, %v", got, err)
	}
	var b strings.Builder
	if err := got.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	want := `| qwen | frozen\|subgraph | litert_qnn_sm8750 | litert_qnn | measured | ok | 100.0 % | [1, 9) of 28 | Softmax, TopK |`
	if lines := strings.Split(b.String(), "\n"); lines[2] != want {
		t.Errorf("%s", lines[2])
	}
}
