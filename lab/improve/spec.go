package improve

import (
	"errors"
	"slices"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// Method selects how a round learns.
type Method string

// The methods.
const (
	STaR Method = "star"
	SPIN Method = "spin"
	// The methods of tuning have one round: the core itself is round 0.
	Answers Method = "answers" // bare answers, to compare CoT with
	CoT     Method = "cot"     // answers after their steps
	PoT     Method = "pot"     // programs
	Distill Method = "distill" // the calls of a teacher, with their results
)

// Methods lists the methods.
func Methods() []Method { return []Method{STaR, SPIN, Answers, CoT, PoT, Distill} }

// tunes reports whether a method adapts the core once.
func (m Method) tunes() bool { return m != STaR && m != SPIN }

// inWords reports whether a method answers in words and not by a program.
func (m Method) inWords() bool { return m == CoT || m == Answers }

// Sums is the kind of arithmetic errands that only add: the only kind of a list.
const Sums = "sums"

// Teacher is the model whose calls are distilled.
type Teacher struct {
	Core    string `json:"core"`              // as that of the spec
	Adapter string `json:"adapter,omitempty"` // a low-rank adapter that is merged first
}

// Stage is the stage of the recipe: a run of mm train.
const Stage = "improve"

// Spec describes a run, the recipe of the stage improve. The JSON names are
// those of the YAML. Comments state the default of a zero field.
type Spec struct {
	Name   string   `json:"name,omitempty"`
	Stage  string   `json:"stage"`
	Method Method   `json:"method"`
	Seed   uint64   `json:"seed,omitempty"`
	Core   string   `json:"core"`            // a GGUF file or a checkpoint, relative to the spec
	Kinds  []string `json:"kinds,omitempty"` // arithmetic, units, or only sums; both, sums for answers in words

	Teacher *Teacher `json:"teacher,omitempty"` // of Distill

	Examples  int `json:"examples,omitempty"`  // questions with programs; 48
	Questions int `json:"questions,omitempty"` // STaR: questions with answers alone, Distill: for the teacher; 400
	Choice    int `json:"choice,omitempty"`    // questions that choose the best round, none of tuning; 150
	HeldOut   int `json:"held_out,omitempty"`  // questions that judge it; 300

	Rounds      int      `json:"rounds,omitempty"`        // at most; 4, 1 of tuning
	Patience    int      `json:"patience,omitempty"`      // rounds without help before the end; 2
	Samples     int      `json:"samples,omitempty"`       // programs per question, the first greedy; 3
	Temperature float64  `json:"temperature,omitempty"`   // of the others; 0.8
	Hints       *bool    `json:"hints,omitempty"`         // STaR: rationalize; true
	LoRA        llm.LoRA `json:"lora"`                    // adapters of every round
	Steps       int      `json:"steps,omitempty"`         // of each round; 120
	Rate        float64  `json:"lr,omitempty"`            // of imitation; 1e-2
	Batch       int      `json:"batch_size,omitempty"`    // 8
	Preference  float64  `json:"preference_lr,omitempty"` // SPIN: of preferences; 3e-4
	Beta        float64  `json:"beta,omitempty"`          // SPIN: of DPO; 0.1
	SFT         float64  `json:"sft,omitempty"`           // SPIN: weight of the known program's own loss; 0
	Threads     int      `json:"threads,omitempty"`       // 0: all of the machine; does not change the result
}

// positions bounds a question with its program.
const positions = 112

// Limits of a run.
const (
	maxQuestions = 1 << 16
	maxRounds    = 64
	maxSamples   = 64
)

// WithDefaults returns s with the defaults filled in.
func (s Spec) WithDefaults() Spec {
	if s.Method.tunes() {
		train.SetDefault(&s.Rounds, 1)
	}
	if s.Method.inWords() && len(s.Kinds) == 0 {
		s.Kinds = []string{Sums}
	}
	for _, d := range []struct {
		v  *int
		to int
	}{{&s.Examples, 48}, {&s.Questions, 400}, {&s.Choice, 150}, {&s.HeldOut, 300}, {&s.Rounds, 4}, {&s.Patience, 2}, {&s.Samples, 3}, {&s.Steps, 120}, {&s.Batch, 8}, {&s.LoRA.Rank, 16}} {
		train.SetDefault(d.v, d.to)
	}
	train.SetDefault(&s.Temperature, 0.8)
	train.SetDefault(&s.Beta, 0.1)
	train.SetDefault(&s.Rate, 1e-2)
	train.SetDefault(&s.Preference, 3e-4)
	if s.Hints == nil {
		yes := true
		s.Hints = &yes
	}
	if len(s.Kinds) == 0 {
		s.Kinds = []string{synth.Arithmetic, synth.Units}
	}
	return s
}

// Validate reports all faults of s with the defaults filled in.
func (s Spec) Validate() error {
	s = s.WithDefaults()
	var errs []error
	fault := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf(path, format, args...))
		}
	}
	fault("/stage", s.Stage != Stage, "stage: got %q, want %s", s.Stage, Stage)
	fault("/lora/quantized", s.LoRA.Quantized, "quantized adapters cannot be merged into the core of the next round")
	fault("/method", !slices.Contains(Methods(), s.Method), "method: got %q, want one of %v", s.Method, Methods())
	fault("/kinds", s.Method.inWords() && !s.sums(), "kinds: got %v, want %s alone: method %s has answers in words", s.Kinds, Sums, s.Method)
	fault("/rounds", s.Method.tunes() && s.Rounds > 1, "rounds: got %d, want 1 of method %s", s.Rounds, s.Method)
	fault("/teacher", (s.Teacher != nil) != (s.Method == Distill), "teacher: want one of method %s alone", Distill)
	fault("/teacher/core", s.Teacher != nil && s.Teacher.Core == "", "missing core of the teacher")
	fault("/core", s.Core == "", "missing core")
	for _, k := range s.Kinds {
		fault("/kinds", k != synth.Arithmetic && k != synth.Units && !s.sums(), "kinds: got %q, want %s or %s, or %s alone", k, synth.Arithmetic, synth.Units, Sums)
	}
	for _, c := range []struct {
		path     string
		n, limit int
	}{
		{"/examples", s.Examples, maxQuestions}, {"/questions", s.Questions, maxQuestions}, {"/choice", s.Choice, maxQuestions}, {"/held_out", s.HeldOut, maxQuestions},
		{"/rounds", s.Rounds, maxRounds}, {"/patience", s.Patience, maxRounds}, {"/samples", s.Samples, maxSamples},
	} {
		fault(c.path, c.n < 1 || c.n > c.limit, "%s out of range: got %d, want 1 to %d", c.path[1:], c.n, c.limit)
	}
	fault("/temperature", !(s.Temperature > 0 && s.Temperature <= 10), "temperature out of range: got %v, want above 0 to 10", s.Temperature)
	return errors.Join(errs...)
}

// sums reports whether all questions are sums.
func (s Spec) sums() bool { return len(s.Kinds) == 1 && s.Kinds[0] == Sums }

// draw returns n questions.
func (s Spec) draw(stream uint64, n int, held bool, w synth.Wording) []synth.Errand {
	seed := nn.Mix(s.Seed, stream)
	if !s.sums() {
		return synth.Worded(seed, n, held, w, s.Kinds...)
	}
	var out []synth.Errand
	for k := 0; len(out) < n; k++ {
		for _, e := range synth.Worded(nn.Mix(seed, uint64(k)), n, held, w, synth.Arithmetic) {
			if _, ok := terms(e); ok && len(out) < n {
				out = append(out, e)
			}
		}
	}
	return out
}
