// Package truth makes the table of what compiles and runs where: scopes of a
// model × targets, from the records of attempts.
//
// A row's stage is not what a record claims but what it can bear: a backend that
// pretends makes a stub, anything simulated is simulated, and measured is only
// what names the artifact, the weights it came from and the layers that are in
// it; of a chip, the engine, the cosine and the record of the device, too. Nothing
// but a measured row says that something works.
package judge

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// The results of an attempt.
const (
	OK          = "ok"
	Failed      = "failed"
	Unsupported = "unsupported"
	Skipped     = "skipped" // what it needs was not there
	NotRun      = "not run" // of a cell that nobody tried; no record says so
)

// The stages of a row.
const (
	Measured   = "measured"
	Simulated  = "simulated"
	Stub       = "stub"
	Unfounded  = "unfounded" // a claim without what it needs
	Unmeasured = "not-measured"
	None       = "none" // of a cell that nobody tried
)

// stubs are the backends that only pretend.
var stubs = []string{"host_sim", "mac_sim", "fallback", "fallback_cpu"}

// Record is an attempt.
type Record struct {
	Model       string   `json:"model"`
	Scope       string   `json:"scope"`  // such as qwen_block
	Target      string   `json:"target"` // such as litert_qnn_sm8750
	Backend     string   `json:"backend"`
	Result      string   `json:"result"`
	Simulated   bool     `json:"simulated,omitempty"`
	Delegate    *float64 `json:"delegate_share,omitempty"`        // of the graph, 0 to 1
	Unsupported []string `json:"unsupported_operators,omitempty"` // by name
	Layers      *[2]int  `json:"layers,omitempty"`                // from, until: the second is not in it
	ModelLayers int      `json:"model_layers,omitempty"`          // that the model has
	Artifact    string   `json:"artifact_sha256,omitempty"`
	Weights     string   `json:"weights_sha256,omitempty"` // of the source
	Failure     string   `json:"failure,omitempty"`        // stage and exception of what failed
	Unit        string   `json:"unit,omitempty"`           // of layers, where those of the model are none: nodes

	Reached   string   `json:"reached,omitempty"`       // the last thing that was begun: open, prepare, compile, run, compare, done
	Cosine    *float64 `json:"cosine,omitempty"`        // of the worst output to the reference's
	MaxAbs    *float64 `json:"max_abs,omitempty"`       // the largest difference of an element
	Reference string   `json:"reference,omitempty"`     // what it was compared with
	Inputs    string   `json:"inputs_sha256,omitempty"` // on which
	Engine    string   `json:"engine,omitempty"`        // and version
	Seconds   float64  `json:"seconds,omitempty"`       // that the attempt took
	Command   string   `json:"command,omitempty"`       // that makes it again
	Cell      string   `json:"cell_sha256,omitempty"`   // of all that the attempt was made of (package attempt)

	Device string `json:"device_record_sha256,omitempty"` // the digest of the record (device/evidence) of a run on the chip
}

// Row is a line of the table.
type Row struct {
	Record
	Stage string   `json:"stage"`
	Lacks []string `json:"lacks,omitempty"` // of an unfounded one
}

// Table is the rows, sorted by model, scope, target and backend.
type Table struct {
	Rows   []Row    `json:"rows"`
	Counts []Counts `json:"counts"`
}

// Counts are of a target.
type Counts struct {
	Target   string `json:"target"`
	Rows     int    `json:"rows"`
	Measured int    `json:"measured_ok"` // rows that say that something works
}

// Make makes the table. Of attempts at the same thing the last one counts. What
// cannot be is an error that names the record.
func Make(records []Record) (Table, error) {
	var t Table
	var faults error
	at := map[Cell]int{}
	for i, r := range records {
		if err := r.check(); err != nil {
			faults = errors.Join(faults, fmt.Errorf("record %d: %w", i+1, err))
			continue
		}
		row := r.row()
		key := r.cell()
		if n, ok := at[key]; ok {
			t.Rows[n] = row
			continue
		}
		at[key] = len(t.Rows)
		t.Rows = append(t.Rows, row)
	}
	if faults != nil {
		return Table{}, faults
	}
	t.sort()
	t.count()
	return t, nil
}

// Cell is what a table shall have a row of.
type Cell struct{ Model, Scope, Target, Backend string }

// Expect adds a row for each of the cells that nobody tried: it says so, and
// nothing else.
func (t *Table) Expect(cells []Cell) {
	for _, c := range cells {
		if !slices.ContainsFunc(t.Rows, func(r Row) bool { return r.cell() == c }) {
			t.Rows = append(t.Rows, Row{Record: Record{Model: c.Model, Scope: c.Scope, Target: c.Target, Backend: c.Backend, Result: NotRun}, Stage: None})
		}
	}
	t.sort()
	t.count()
}

func (r Record) cell() Cell { return Cell{r.Model, r.Scope, r.Target, r.Backend} }

func (t *Table) sort() {
	slices.SortFunc(t.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Backend, b.Backend))
	})
}

func (t *Table) count() {
	t.Counts = nil
	for _, r := range t.Rows {
		i := slices.IndexFunc(t.Counts, func(c Counts) bool { return c.Target == r.Target })
		if i < 0 {
			i = len(t.Counts)
			t.Counts = append(t.Counts, Counts{Target: r.Target})
		}
		t.Counts[i].Rows++
		if r.Stage == Measured && r.Result == OK {
			t.Counts[i].Measured++
		}
	}
	slices.SortFunc(t.Counts, func(a, b Counts) int { return cmp.Compare(a.Target, b.Target) })
}

func (r Record) check() error {
	switch {
	case r.Model == "" || r.Scope == "" || r.Target == "" || r.Backend == "":
		return errors.New("it lacks model, scope, target or backend")
	case !slices.Contains([]string{OK, Failed, Unsupported, Skipped}, r.Result):
		return fmt.Errorf("the result %q is none of ok, failed, unsupported, skipped", r.Result)
	case r.Delegate != nil && !(*r.Delegate >= 0 && *r.Delegate <= 1):
		return fmt.Errorf("a delegate share of %v", *r.Delegate)
	case r.ModelLayers < 0 || r.Layers != nil && (r.Layers[0] < 0 || r.Layers[1] <= r.Layers[0] || r.ModelLayers > 0 && r.Layers[1] > r.ModelLayers):
		return fmt.Errorf("the layers %v of %d", r.Layers, r.ModelLayers)
	case r.Cosine != nil && !(*r.Cosine >= -1 && *r.Cosine <= 1), r.MaxAbs != nil && !(*r.MaxAbs >= 0), !(r.Seconds >= 0):
		return errors.New("a cosine beyond 1, or less than no difference or time")
	case r.Result == OK && r.Failure != "":
		return fmt.Errorf("it is ok, and failed: %s", r.Failure)
	}
	return nil
}

// emulated is what the name of a backend ends in that computes as a chip would.
const emulated = "(emulated)"

// minChip is the least cosine of what a chip computed, in integers.
const minChip = 0.9

// chip is the number of one in the name of a target.
var chip = regexp.MustCompile(`(?i)(^|[^a-z0-9])(sm|sa|qcs|qcm|sc)\d{4}`)

// OfChip reports whether the attempt was at a chip, by its target or backend.
func (r Record) OfChip() bool {
	return chip.MatchString(r.Target) || strings.Contains(strings.ToLower(r.Backend), "qnn")
}

// row finds the stage.
func (r Record) row() Row {
	r.Simulated = r.Simulated || strings.HasSuffix(strings.TrimSpace(r.Backend), emulated)
	row := Row{Record: r, Stage: Measured}
	switch {
	case r.Result == Skipped:
		row.Stage = Unmeasured
	case r.Simulated:
		row.Stage = Simulated
	case slices.Contains(stubs, r.Backend):
		row.Stage = Stub
	case r.Result == OK:
		for _, need := range []struct {
			name string
			has  bool
		}{
			{"artifact_sha256", digest(r.Artifact)}, {"weights_sha256", digest(r.Weights)},
			{"delegate_share", r.Delegate != nil}, {"layers", r.Layers != nil}, {"model_layers", r.ModelLayers > 0},
			{"engine", r.Engine != "" || !r.OfChip()}, {"device_record_sha256", digest(r.Device) || !r.OfChip()},
			{fmt.Sprintf("cosine of %v", minChip), r.Cosine != nil && *r.Cosine >= minChip || !r.OfChip()},
		} {
			if !need.has {
				row.Lacks = append(row.Lacks, need.name)
			}
		}
		if len(row.Lacks) > 0 {
			row.Stage = Unfounded
		}
	}
	return row
}

// digest reports whether s is a SHA-256 in hex. Zeros are what nobody hashed.
func digest(s string) bool {
	s = strings.TrimPrefix(s, "sha256:")
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}

// Proves reports whether a measured row shows that something of the target
// works.
func (t Table) Proves(target string) bool {
	return slices.ContainsFunc(t.Counts, func(c Counts) bool { return c.Target == target && c.Measured > 0 })
}

// Cells are the table's columns and rows for people.
func (t Table) Cells() (heading []string, rows [][]string) {
	for _, r := range t.Rows {
		share, layers, cosine, seconds := "", "", "", ""
		if r.Cosine != nil {
			cosine = fmt.Sprintf("%.5f", *r.Cosine)
		}
		if r.Reached != "" {
			seconds = fmt.Sprintf("%.1f", r.Seconds)
		}
		if r.Delegate != nil {
			share = fmt.Sprintf("%.1f %%", 100**r.Delegate)
		}
		if r.Layers != nil {
			layers = fmt.Sprintf("[%d, %d)", r.Layers[0], r.Layers[1])
			if r.ModelLayers > 0 {
				layers += strings.TrimSuffix(fmt.Sprintf(" of %d %s", r.ModelLayers, r.Unit), " ")
			}
		}
		stage := r.Stage
		if len(r.Lacks) > 0 {
			stage += ": no " + strings.Join(r.Lacks, ", ")
		}
		rows = append(rows, []string{r.Model, r.Scope, r.Target, r.Backend, stage, r.Result, share, layers, strings.Join(r.Unsupported, ", "), r.Reached, cosine, seconds, r.Failure})
	}
	return []string{"MODEL", "SCOPE", "TARGET", "BACKEND", "STAGE", "RESULT", "DELEGATED", "LAYERS", "UNSUPPORTED", "REACHED", "COSINE", "SECONDS", "WHY"}, rows
}

// Markdown writes the table.
func (t Table) Markdown(w io.Writer) error {
	heading, rows := t.Cells()
	rows = slices.Concat([][]string{heading, slices.Repeat([]string{"---"}, len(heading))}, rows)
	for _, r := range rows {
		for i := range r {
			r[i] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(r[i])
		}
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | ")); err != nil {
			return err
		}
	}
	return nil
}
