// Package schedule chooses a backend for an operation by how fast each was so
// far, and can show every choice again.
//
// A history is rows: what a backend took ([Observation]) and what was chosen
// ([Decision]). A choice depends on the rows before it, the policy and the seed,
// and on nothing else: [Replay] makes every choice anew and finds those that
// would be others. Times of runs that failed are no times: a backend that never
// succeeded is the last to be taken.
package experiment

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// The policies.
const (
	Static = "static"
	Greedy = "epsilon-greedy"
	UCB    = "ucb"
)

// Policy says how to choose. The zero value of a figure is its default.
type Policy struct {
	Kind    string   `json:"kind"`
	Prefer  []string `json:"prefer,omitempty"`  // of static: the first of these that is eligible
	Epsilon float64  `json:"epsilon,omitempty"` // of epsilon-greedy: how often one is drawn; 0.1
	C       float64  `json:"c,omitempty"`       // of ucb: the weight of what is little known, in ms; 1.4
	Seed    uint64   `json:"seed,omitempty"`
}

// Observation is what a run on a backend took.
type Observation struct {
	Op        string  `json:"op"` // such as matmul_512x1536x1536
	Backend   string  `json:"backend"`
	LatencyMS float64 `json:"latency_ms"`
	EnergyMJ  float64 `json:"energy_mj,omitempty"`
	Failed    bool    `json:"failed,omitempty"`
	Simulated bool    `json:"simulated,omitempty"`
}

// Decision is a choice and what it was made of.
type Decision struct {
	Op        string     `json:"op"`
	Backend   string     `json:"backend"`
	Eligible  []string   `json:"eligible"`
	Policy    Policy     `json:"policy"`
	Number    int        `json:"number"` // of the choice for this operation, from 1
	Rationale string     `json:"rationale"`
	Fallback  bool       `json:"fallback,omitempty"` // static: none of the preferred is eligible
	Arms      []ArmStats `json:"arms,omitempty"`
}

// Arm is what is known of a backend.
type ArmStats struct {
	Backend string  `json:"backend"`
	N       int     `json:"n"`       // runs
	Good    int     `json:"good"`    // of them succeeded
	MeanMS  float64 `json:"mean_ms"` // of those
	StdMS   float64 `json:"std_ms"`  // of those; 0 below two
	m2      float64
}

// Row is a line of a history: one of both.
type HistoryRow struct {
	Observed *Observation `json:"observed,omitempty"`
	Decided  *Decision    `json:"decided,omitempty"`
}

// ErrNone says that no backend is eligible.
var ErrNoBackend = errors.New("no backend is eligible")

// History is rows taken in.
type Scheduler struct {
	arms      map[[2]string]*ArmStats // by operation and backend
	decisions map[string]int          // by operation
}

// Add takes in a row.
func (h *Scheduler) Add(r HistoryRow) error {
	if h.arms == nil {
		h.arms, h.decisions = map[[2]string]*ArmStats{}, map[string]int{}
	}
	switch {
	case r.Observed != nil && r.Decided == nil:
		return h.observe(*r.Observed)
	case r.Decided != nil && r.Observed == nil:
		h.decisions[r.Decided.Op]++
		return nil
	}
	return errors.New("it is neither an observation nor a decision")
}

// observe updates mean and variance as Welford (1962) does.
func (h *Scheduler) observe(o Observation) error {
	if o.Op == "" || o.Backend == "" || !(o.LatencyMS >= 0) || math.IsInf(o.LatencyMS, 0) || !(o.EnergyMJ >= 0) {
		return fmt.Errorf("an observation of %q on %q that took %v ms and %v mJ", o.Op, o.Backend, o.LatencyMS, o.EnergyMJ)
	}
	key := [2]string{o.Op, o.Backend}
	a := h.arms[key]
	if a == nil {
		a = &ArmStats{Backend: o.Backend}
		h.arms[key] = a
	}
	a.N++
	if o.Failed {
		return nil
	}
	a.Good++
	d := o.LatencyMS - a.MeanMS
	a.MeanMS += d / float64(a.Good)
	a.m2 += d * (o.LatencyMS - a.MeanMS)
	if a.Good > 1 {
		a.StdMS = math.Sqrt(a.m2 / float64(a.Good-1))
	}
	return nil
}

// Decide chooses one of the eligible backends for an operation. It changes
// nothing; whoever acts on the choice adds it to the history.
func (h *Scheduler) Decide(op string, eligible []string, p Policy) (Decision, error) {
	d := Decision{Op: op, Eligible: slices.Clone(eligible), Policy: p, Number: h.decisions[op] + 1}
	if len(eligible) == 0 {
		return d, fmt.Errorf("%s: %w", op, ErrNoBackend)
	}
	for _, id := range eligible {
		a := ArmStats{Backend: id}
		if known := h.arms[[2]string{op, id}]; known != nil {
			a = *known
		}
		d.Arms = append(d.Arms, a)
	}
	switch p.Kind {
	case Static:
		d.static()
	case Greedy:
		d.greedy()
	case UCB:
		d.ucb()
	default:
		return d, fmt.Errorf("the policy %q is none of %s, %s, %s", p.Kind, Static, Greedy, UCB)
	}
	for i := range d.Arms {
		d.Arms[i].m2 = 0
	}
	return d, nil
}

func (d *Decision) static() {
	for _, id := range d.Policy.Prefer {
		if slices.Contains(d.Eligible, id) {
			d.Backend, d.Rationale = id, "the first of the preferred that is eligible"
			return
		}
	}
	d.Backend, d.Fallback, d.Rationale = d.Eligible[0], true, "none of the preferred is eligible: the first that is"
}

// greedy draws a backend now and then, by the seed and the choice's number, and
// takes the fastest otherwise.
func (d *Decision) greedy() {
	epsilon := d.Policy.Epsilon
	if epsilon == 0 {
		epsilon = 0.1
	}
	chance := rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d/%s/%d", d.Policy.Seed, d.Op, d.Number))))
	if draw := chance.Float64(); draw < epsilon {
		d.Backend, d.Rationale = d.Eligible[chance.IntN(len(d.Eligible))], fmt.Sprintf("drawn: %.4f is below %v", draw, epsilon)
		return
	}
	d.least("the fastest so far", func(a ArmStats) float64 {
		if a.Good == 0 {
			return math.Inf(1)
		}
		return a.MeanMS
	})
}

// ucb tries each once, in order, and then takes the lowest bound of the mean.
func (d *Decision) ucb() {
	c := d.Policy.C
	if c == 0 {
		c = 1.4
	}
	total := 0
	for _, a := range d.Arms {
		if a.N == 0 {
			d.Backend, d.Rationale = a.Backend, "not tried yet"
			return
		}
		total += a.Good
	}
	d.least("the lowest bound", func(a ArmStats) float64 {
		if a.Good == 0 {
			return math.Inf(1)
		}
		return a.MeanMS - c*math.Sqrt(2*math.Log(float64(max(total, 2)))/float64(a.Good))
	})
}

// least takes the backend of the least score; of equal ones the first by name.
func (d *Decision) least(why string, score func(ArmStats) float64) {
	best, arms := math.Inf(1), slices.Clone(d.Arms)
	slices.SortFunc(arms, func(a, b ArmStats) int { return cmp.Compare(a.Backend, b.Backend) })
	d.Backend = arms[0].Backend
	for _, a := range arms {
		if s := score(a); s < best {
			best, d.Backend = s, a.Backend
		}
	}
	d.Rationale = fmt.Sprintf("%s: %.4f", why, best)
	if math.IsInf(best, 1) {
		d.Rationale = "none has succeeded: the first by name"
	}
}

// Again makes a choice anew, of the rows taken in so far, which must be those
// that it was made of. Both texts are equal where it comes out the same.
func (h *Scheduler) Again(d Decision) (said, again string, err error) {
	now, err := h.Decide(d.Op, d.Eligible, d.Policy)
	if err != nil {
		return "", "", err
	}
	return d.text(), now.text(), nil
}

func (d Decision) text() string { return fmt.Sprintf("%d: %s, %s", d.Number, d.Backend, d.Rationale) }

// Mismatch is a choice that a replay makes otherwise.
type Mismatch struct {
	Row     int    `json:"row"` // from 1
	Op      string `json:"op"`
	Decided string `json:"decided"`
	Replay  string `json:"replay"`
}

// Replay makes each choice of a history anew, of the rows before it. It returns
// how many there are, and those that come out otherwise.
func Replay(rows []HistoryRow) (decisions int, wrong []Mismatch, err error) {
	var h Scheduler
	for i, r := range rows {
		if d := r.Decided; d != nil {
			decisions++
			said, again, err := h.Again(*d)
			if err != nil {
				return decisions, wrong, fmt.Errorf("row %d: %w", i+1, err)
			}
			if said != again {
				wrong = append(wrong, Mismatch{i + 1, d.Op, said, again})
			}
		}
		if err := h.Add(r); err != nil {
			return decisions, wrong, fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return decisions, wrong, nil
}
