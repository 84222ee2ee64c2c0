package train

import (
	"math"
	"time"
)

// Observer receives the events of a run. Observe is called from the training
// goroutine; an error stops the run.
type Observer interface {
	Observe(Event) error
}

// Event is one of Started, Step, Evaluated, Saved and Finished.
type Event interface{ kind() string }

// Started begins a run or a resumed run.
type Started struct {
	Name        string    `json:"name,omitempty"`
	Parameters  int       `json:"parameters"`
	Trainable   int       `json:"trainable"`
	Frozen      int       `json:"frozen_tensors"`
	FLOPs       int       `json:"flops_per_token"`
	TrainTokens int       `json:"train_tokens"`
	HeldTokens  int       `json:"held_tokens"`
	Threads     int       `json:"threads"`
	Step        int       `json:"step"` // above zero when resumed
	Lineage     []Lineage `json:"lineage,omitempty"`
}

// Step reports the steps since the last report.
type Step struct {
	Step     int     `json:"step"`
	Steps    int     `json:"steps"`     // since the last report: one at the first step
	Tokens   int     `json:"tokens"`    // seen so far
	Epoch    float64 `json:"epoch"`     // of the training tokens
	Loss     float64 `json:"loss"`      // mean of these steps, nats per token
	Rate     float64 `json:"lr"`        // of the last step
	GradNorm float64 `json:"grad_norm"` // of the last step, before clipping
	Speed    float64 `json:"tok_s"`     // training tokens per second
	Seconds  float64 `json:"seconds"`   // of training so far
	CPU      float64 `json:"cpu_seconds,omitempty"`
}

// Evaluated reports the held-out loss.
type Evaluated struct {
	Step int `json:"step"`
	Evaluation
	Tokens  int     `json:"tokens"`
	Best    bool    `json:"best"` // the lowest so far
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds,omitempty"`
}

// Saved reports a checkpoint.
type Saved struct {
	Step int    `json:"step"`
	Path string `json:"path"`
}

// Finished ends a run.
type Finished struct {
	Step    int     `json:"step"`
	Tokens  int     `json:"tokens"`
	Reason  string  `json:"reason"` // steps, tokens, time, loss, interrupted
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds,omitempty"`
	Sealed  []Seal  `json:"sealed,omitempty"` // the frozen parts of a [Parted] task
}

// Seal proves that a part did not change: the SHA-256 over its tensors' names
// and digests before the first step and after the last.
type Seal struct {
	Part    string `json:"part"`
	Tensors int    `json:"tensors"` // frozen tensors of the part
	Trained int    `json:"trained"` // trained tensors of the part
	Before  string `json:"before"`  // in hex
	After   string `json:"after"`
}

func (Started) kind() string   { return "started" }
func (Step) kind() string      { return "step" }
func (Evaluated) kind() string { return "eval" }
func (Saved) kind() string     { return "saved" }
func (Finished) kind() string  { return "finished" }

// Observers notifies each in turn.
type Observers []Observer

// Observe notifies all until one fails.
func (o Observers) Observe(e Event) error {
	for _, each := range o {
		if err := each.Observe(e); err != nil {
			return err
		}
	}
	return nil
}

// stopwatch adds up the time of a run over its sessions.
type stopwatch struct {
	before, cpuBefore float64 // of earlier sessions
	start             time.Time
	cpu               func() time.Duration // nil: not counted
	cpuStart          time.Duration
}

func startWatch(before, cpuBefore float64, cpu func() time.Duration) *stopwatch {
	w := &stopwatch{before: before, cpuBefore: cpuBefore, start: time.Now(), cpu: cpu}
	if cpu != nil {
		w.cpuStart = cpu()
	}
	return w
}

func (w *stopwatch) seconds() float64 { return w.before + time.Since(w.start).Seconds() }

func (w *stopwatch) cpuSeconds() float64 {
	if w.cpu == nil {
		return 0
	}
	return w.cpuBefore + (w.cpu() - w.cpuStart).Seconds()
}

// finite reports whether v is neither NaN nor infinite.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
