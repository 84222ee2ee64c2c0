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

// Policy describes how to choose. Zero values select the defaults.
type Policy struct {
	Kind    string   `json:"kind"`
	Prefer  []string `json:"prefer,omitempty"`  // static: the first eligible one is chosen
	Epsilon float64  `json:"epsilon,omitempty"` // epsilon-greedy: probability of a random choice; if zero, 0.1
	C       float64  `json:"c,omitempty"`       // ucb: weight of the exploration term; if zero, 1.4
	Seed    uint64   `json:"seed,omitempty"`
}

// Observation is the outcome of a run on a backend.
type Observation struct {
	Op        string  `json:"op"` // such as matmul_512x1536x1536
	Backend   string  `json:"backend"`
	LatencyMS float64 `json:"latency_ms"`
	EnergyMJ  float64 `json:"energy_mj,omitempty"`
	Failed    bool    `json:"failed,omitempty"`
	Simulated bool    `json:"simulated,omitempty"`
}

// Decision is a choice and its inputs.
type Decision struct {
	Op        string     `json:"op"`
	Backend   string     `json:"backend"`
	Eligible  []string   `json:"eligible"`
	Policy    Policy     `json:"policy"`
	Number    int        `json:"number"` // number of the choice for this operation, from 1
	Rationale string     `json:"rationale"`
	Fallback  bool       `json:"fallback,omitempty"` // static: none of the preferred is eligible
	Arms      []ArmStats `json:"arms,omitempty"`
}

// ArmStats holds the statistics of a backend.
type ArmStats struct {
	Backend string  `json:"backend"`
	N       int     `json:"n"`       // runs
	Good    int     `json:"good"`    // successful runs
	MeanMS  float64 `json:"mean_ms"` // of the successful runs
	StdMS   float64 `json:"std_ms"`  // of the successful runs; 0 if fewer than two
	m2      float64
}

// HistoryRow is a row of a history: an observation or a decision.
type HistoryRow struct {
	Observed *Observation `json:"observed,omitempty"`
	Decided  *Decision    `json:"decided,omitempty"`
}

// ErrNoBackend reports an empty list of eligible backends.
var ErrNoBackend = errors.New("no eligible backend")

// Scheduler chooses backends by observed run times. A choice depends only on the rows added
// before it, the policy and its seed. Times of failed runs do not count.
type Scheduler struct {
	arms      map[[2]string]*ArmStats // by operation and backend
	decisions map[string]int          // by operation
}

// Add adds a row.
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
	return errors.New("row must hold either an observation or a decision")
}

// observe updates mean and variance by the method of Welford (1962).
func (h *Scheduler) observe(o Observation) error {
	if o.Op == "" || o.Backend == "" || !(o.LatencyMS >= 0) || math.IsInf(o.LatencyMS, 0) || !(o.EnergyMJ >= 0) {
		return fmt.Errorf("invalid observation of %q on %q: %v ms, %v mJ", o.Op, o.Backend, o.LatencyMS, o.EnergyMJ)
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

// Decide chooses one of the eligible backends for an operation. It does not add the
// decision to the history.
func (h *Scheduler) Decide(op string, eligible []string, p Policy) (Decision, error) {
	d := Decision{Op: op, Eligible: slices.Clone(eligible), Policy: p, Number: h.decisions[op] + 1}
	if len(eligible) == 0 {
		return d, fmt.Errorf("%s: %w", op, ErrNoBackend)
	}
	for _, id := range eligible {
		a := ArmStats{Backend: id}
		if stats := h.arms[[2]string{op, id}]; stats != nil {
			a = *stats
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
		return d, fmt.Errorf("unknown policy %q, want %s, %s or %s", p.Kind, Static, Greedy, UCB)
	}
	for i := range d.Arms {
		d.Arms[i].m2 = 0
	}
	return d, nil
}

// The rationales are recorded and compared by Replay: changing one breaks old histories.

func (d *Decision) static() {
	for _, id := range d.Policy.Prefer {
		if slices.Contains(d.Eligible, id) {
			d.Backend, d.Rationale = id, "the first of the preferred that is eligible"
			return
		}
	}
	d.Backend, d.Fallback, d.Rationale = d.Eligible[0], true, "none of the preferred is eligible: the first that is"
}

// greedy draws a random backend with probability epsilon, by the seed and the number of the
// choice, and takes the fastest otherwise.
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

// ucb tries each backend once, in order, and then applies UCB1 (Auer et al. 2002): the reward of a run is the mean time
// of the fastest backend divided by that of its own, and 0 if it failed. The bound is that of the cost, 1 - reward.
func (d *Decision) ucb() {
	c := d.Policy.C
	if c == 0 {
		c = 1.4
	}
	total, fastest := 0, math.Inf(1)
	for _, a := range d.Arms {
		if a.N == 0 {
			d.Backend, d.Rationale = a.Backend, "not tried yet"
			return
		}
		total += a.N
		if a.Good > 0 {
			fastest = min(fastest, a.MeanMS)
		}
	}
	d.least("the lowest bound", func(a ArmStats) float64 {
		reward := 0.0
		if a.Good > 0 {
			reward = float64(a.Good) / float64(a.N)
			if a.MeanMS > fastest {
				reward *= fastest / a.MeanMS
			}
		}
		return 1 - reward - c*math.Sqrt(math.Log(float64(total))/float64(a.N))
	})
}

// least chooses the backend with the lowest score; of equal ones the first by name.
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

// Again repeats a decision, given that the rows before it have been added. The texts are
// equal if the result is the same.
func (h *Scheduler) Again(d Decision) (recorded, replayed string, err error) {
	now, err := h.Decide(d.Op, d.Eligible, d.Policy)
	if err != nil {
		return "", "", err
	}
	return d.text(), now.text(), nil
}

func (d Decision) text() string { return fmt.Sprintf("%d: %s, %s", d.Number, d.Backend, d.Rationale) }

// Mismatch is a decision that a replay does not reproduce.
type Mismatch struct {
	Row     int    `json:"row"` // from 1
	Op      string `json:"op"`
	Decided string `json:"decided"`
	Replay  string `json:"replay"`
}

// Replay repeats each decision of a history. It returns the number of decisions and those
// that differ.
func Replay(rows []HistoryRow) (decisions int, wrong []Mismatch, err error) {
	var h Scheduler
	for i, r := range rows {
		if d := r.Decided; d != nil {
			decisions++
			recorded, replayed, err := h.Again(*d)
			if err != nil {
				return decisions, wrong, fmt.Errorf("row %d: %w", i+1, err)
			}
			if recorded != replayed {
				wrong = append(wrong, Mismatch{i + 1, d.Op, recorded, replayed})
			}
		}
		if err := h.Add(r); err != nil {
			return decisions, wrong, fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return decisions, wrong, nil
}
