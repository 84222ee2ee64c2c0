package judge

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// The results of an attempt.
const (
	OK          = "ok"
	Failed      = "failed"
	Unsupported = "unsupported"
	Skipped     = "skipped" // a prerequisite was missing
	NotRun      = "not run" // a cell without an attempt; not valid in a record
)

// The stages of a row.
const (
	Measured   = "measured"
	Simulated  = "simulated"
	Stub       = "stub"
	Unfounded  = "unfounded" // a result ok that lacks required members
	Unmeasured = "not-measured"
	None       = "none" // a cell without an attempt
)

// stubs are the backends that do not compile.
var stubs = []string{"host_sim", "mac_sim", "fallback", "fallback_cpu"}

// Record describes an attempt to compile or run a scope of a model for a target.
type Record struct {
	Model       string   `json:"model"`
	Scope       string   `json:"scope"`  // such as qwen_block
	Target      string   `json:"target"` // such as litert_qnn_sm8750
	Backend     string   `json:"backend"`
	Result      string   `json:"result"`
	Simulated   bool     `json:"simulated,omitempty"`
	Delegate    *float64 `json:"delegate_share,omitempty"`        // of the graph, 0 to 1
	Unsupported []string `json:"unsupported_operators,omitempty"` // by name
	Layers      *[2]int  `json:"layers,omitempty"`                // half-open: from, until
	ModelLayers int      `json:"model_layers,omitempty"`          // that the model has
	Artifact    string   `json:"artifact_sha256,omitempty"`
	Weights     string   `json:"weights_sha256,omitempty"` // of the source
	Failure     string   `json:"failure,omitempty"`        // stage and cause
	Bytes       int64    `json:"bytes,omitempty"`          // of the compiled artifact
	Unit        string   `json:"unit,omitempty"`           // of Layers, unless those are layers of the model: nodes

	Reached   string   `json:"reached,omitempty"`       // last stage begun: open, prepare, compile, run, compare, done
	Cosine    *float64 `json:"cosine,omitempty"`        // of the worst output, against the reference
	MaxAbs    *float64 `json:"max_abs,omitempty"`       // the largest difference of an element
	Reference string   `json:"reference,omitempty"`     // engine of the reference
	Inputs    string   `json:"inputs_sha256,omitempty"` // of the compared inputs
	Engine    string   `json:"engine,omitempty"`        // and version
	Seconds   float64  `json:"seconds,omitempty"`       // duration of the attempt
	Command   string   `json:"command,omitempty"`       // that repeats the attempt
	Cell      string   `json:"cell_sha256,omitempty"`   // of everything that the attempt depends on (package attempt)

	Device string `json:"device_record_sha256,omitempty"` // digest of the device record (lab/device/evidence) of a run on the chip
}

// Row is a row of the truth table.
type Row struct {
	Record
	Stage string   `json:"stage"`
	Lacks []string `json:"lacks,omitempty"` // missing members, if Stage is Unfounded
}

// Table is the truth table. Rows are sorted by model, scope, target and backend.
type Table struct {
	Rows   []Row    `json:"rows"`
	Counts []Counts `json:"counts"`
}

// Counts holds the counts of a target.
type Counts struct {
	Target   string `json:"target"`
	Rows     int    `json:"rows"`
	Measured int    `json:"measured_ok"` // measured rows with result ok
}

// MakeTable builds the truth table. The stage of a row depends on what its record contains,
// not on what it claims: only a measured row with result ok proves that something works,
// and for a chip that takes an engine, a cosine and a device record. Of attempts at the
// same cell the last one counts. The error joins the faults of all records.
func MakeTable(records []Record) (Table, error) {
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

// Cell identifies a row of the table.
type Cell struct{ Model, Scope, Target, Backend string }

// Expect adds a row with result NotRun for each cell without an attempt.
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
		return errors.New("missing model, scope, target or backend")
	case !slices.Contains([]string{OK, Failed, Unsupported, Skipped}, r.Result):
		return fmt.Errorf("unknown result %q, want ok, failed, unsupported or skipped", r.Result)
	case r.Delegate != nil && !(*r.Delegate >= 0 && *r.Delegate <= 1):
		return fmt.Errorf("delegate_share out of range: got %v, want 0 to 1", *r.Delegate)
	case r.ModelLayers < 0 || r.Layers != nil && (r.Layers[0] < 0 || r.Layers[1] <= r.Layers[0] || r.ModelLayers > 0 && r.Layers[1] > r.ModelLayers):
		return fmt.Errorf("layers out of range: got %v of %d", r.Layers, r.ModelLayers)
	case r.Cosine != nil && !(*r.Cosine >= -1 && *r.Cosine <= 1), r.MaxAbs != nil && !(*r.MaxAbs >= 0), !(r.Seconds >= 0):
		return errors.New("cosine, max_abs or seconds out of range")
	case r.Bytes < 0:
		return fmt.Errorf("negative number of bytes %d", r.Bytes)
	case r.Result == OK && r.Failure != "":
		return fmt.Errorf("result ok with a failure: %s", r.Failure)
	}
	return nil
}

// emulated is the suffix of the name of a backend that emulates a chip.
const emulated = "(emulated)"

// minChip is the minimum cosine of a chip's output, which is computed in integers.
const minChip = 0.9

// chip matches the number of a chip in the name of a target.
var chip = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)(^|[^a-z0-9])(sm|sa|qcs|qcm|sc)\d{4}`) })

// OfChip reports whether the attempt targeted a chip, by its target or backend.
func (r Record) OfChip() bool {
	return chip().MatchString(r.Target) || strings.Contains(strings.ToLower(r.Backend), "qnn")
}

// row returns the record with its stage.
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

// digest reports whether s is a SHA-256 in lower-case hex other than all zeros.
func digest(s string) bool { return isDigest(s) && s == strings.ToLower(s) }

// Proves reports whether a measured row shows that something works on the target.
func (t Table) Proves(target string) bool {
	return slices.ContainsFunc(t.Counts, func(c Counts) bool { return c.Target == target && c.Measured > 0 })
}

// Cells returns the column headings and the rows as text.
func (t Table) Cells() (heading []string, rows [][]string) {
	for _, r := range t.Rows {
		share, layers, cosine, seconds, size := "", "", "", "", ""
		if r.Bytes > 0 {
			size = fmt.Sprintf("%.1f MiB", float64(r.Bytes)/(1<<20))
		}
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
		rows = append(rows, []string{r.Model, r.Scope, r.Target, r.Backend, stage, r.Result, share, layers, strings.Join(r.Unsupported, ", "), r.Reached, size, cosine, seconds, r.Failure})
	}
	return []string{"MODEL", "SCOPE", "TARGET", "BACKEND", "STAGE", "RESULT", "DELEGATED", "LAYERS", "UNSUPPORTED", "REACHED", "SIZE", "COSINE", "SECONDS", "WHY"}, rows
}

// Markdown writes the table as Markdown.
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
