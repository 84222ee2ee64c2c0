package train

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/llm"
	"mm-abi.org/mm/core/optim"
)

// Config is a training run. The JSON names are those of the YAML that `mm
// train` reads; zero fields take the defaults named.
type Config struct {
	Name string `json:"name,omitempty"`
	Seed uint64 `json:"seed,omitempty"` // of weights, data order and adapters

	Model llm.Config `json:"model"`
	Init  llm.Init   `json:"init,omitempty"` // its seed defaults to Seed
	// Base is a checkpoint or a GGUF file whose weights the run starts from, in
	// place of Init.
	Base string    `json:"base,omitempty"`
	LoRA *llm.LoRA `json:"lora,omitempty"` // trains adapters alone

	Data      Data      `json:"data"`
	Tokenizer Tokenizer `json:"tokenizer"`

	BatchSize  int `json:"batch_size,omitempty"` // sequences at a time; 4
	SeqLen     int `json:"seq_len,omitempty"`    // positions in each; Model.Context
	Accumulate int `json:"accumulate,omitempty"` // batches a step; 1

	Optimizer Optimizer      `json:"optimizer,omitempty"`
	Schedule  optim.Schedule `json:"schedule,omitempty"`
	Clip      float64        `json:"clip,omitempty"` // of the global gradient norm; 1, negative never clips

	Freeze Freeze `json:"freeze,omitempty"`
	Stop   Stop   `json:"stop"`

	LogEvery  int  `json:"log_every,omitempty"`  // steps; 10
	Eval      Eval `json:"eval,omitempty"`       //
	SaveEvery int  `json:"save_every,omitempty"` // steps between checkpoints; 0: at the end only
	Threads   int  `json:"threads,omitempty"`    // 0: what the machine has; changes no result
}

// Optimizer chooses and tunes what moves the weights.
type Optimizer struct {
	Name        string  `json:"name,omitempty"`         // adamw (default), lion, muon, schedule-free
	Rate        float64 `json:"lr,omitempty"`           // peak; 3e-3, 3e-4 for lion
	Beta1       float64 `json:"beta1,omitempty"`        // 0.9
	Beta2       float64 `json:"beta2,omitempty"`        // 0.95; lion 0.99, schedule-free 0.999
	Epsilon     float64 `json:"epsilon,omitempty"`      // 1e-8
	WeightDecay float64 `json:"weight_decay,omitempty"` // on matrices; 0
	// Rates multiply the rate of the tensors whose name matches a pattern of
	// path.Match; of several the longest pattern counts.
	Rates map[string]float64 `json:"rates,omitempty"`
	// Muon's own: its rate over the rest's (20/3), momentum (0.95), iterations (5).
	MuonRatio    float64 `json:"muon_ratio,omitempty"`
	MuonMomentum float64 `json:"muon_momentum,omitempty"`
	MuonSteps    int     `json:"muon_steps,omitempty"`
}

// Stop ends a run at whichever comes first. The schedule falls over the first
// of Steps and Tokens, or where there is neither over Seconds; only a run that
// ends by steps or tokens has the same curve on every machine.
type Stop struct {
	Steps   int     `json:"steps,omitempty"`
	Tokens  int     `json:"tokens,omitempty"`
	Seconds float64 `json:"seconds,omitempty"` // of training, all sessions together
	Loss    float64 `json:"loss,omitempty"`    // held-out nats to reach
}

// Eval is the evaluation on held-out data.
type Eval struct {
	Every   int `json:"every,omitempty"`   // steps; 0: at the end only
	Windows int `json:"windows,omitempty"` // at most so many of seq_len tokens, always the same; 0: all
}

// Freeze names what must not move. A frozen tensor is hashed and watched.
type Freeze struct {
	// Policy "boundary" trains the first layer, the last layer and the head and
	// seals everything else; a tied head is untied first.
	Policy     string   `json:"policy,omitempty"`
	Embeddings bool     `json:"embeddings,omitempty"` // the embedding and its norm
	Head       bool     `json:"head,omitempty"`
	Norms      bool     `json:"norms,omitempty"`   // every norm's gain
	Layers     string   `json:"layers,omitempty"`  // such as "1-4,7", counted from 0; negative from the end
	Tensors    []string `json:"tensors,omitempty"` // names, or patterns of path.Match
	// Every is the number of steps between comparisons of the hashes; 0 means 10.
	Every int `json:"every,omitempty"`
}

// WithDefaults is c with the defaults filled in.
func (c Config) WithDefaults() Config {
	c.Model = c.Model.WithDefaults()
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	if c.Init.Seed == 0 {
		c.Init.Seed = c.Seed
	}
	set(&c.BatchSize, 4)
	set(&c.SeqLen, c.Model.Context)
	set(&c.Accumulate, 1)
	set(&c.LogEvery, 10)
	set(&c.Freeze.Every, 10)
	if c.Clip == 0 {
		c.Clip = 1
	}
	if c.Optimizer.Name == "" {
		c.Optimizer.Name = "adamw"
	}
	if c.Optimizer.Rate == 0 {
		c.Optimizer.Rate = 3e-3
		if c.Optimizer.Name == "lion" {
			c.Optimizer.Rate = 3e-4
		}
	}
	return c
}

// maxPositions bounds batch_size·seq_len.
const maxPositions = 1 << 22

// Validate says everything that is wrong with c, defaults filled in first.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if c.Data.Format == uint16Format && c.Tokenizer.File == "" {
		return errors.New("data: token ids need the file of their tokenizer under tokenizer")
	}
	errs := []error{c.Model.Validate(), c.Init.Validate(), c.Schedule.Validate(), c.Optimizer.validate(), c.Freeze.validate(c.Model.Layers), c.Data.validate(), c.Tokenizer.validate()}
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(c.BatchSize < 1 || c.SeqLen < 2 || c.Accumulate < 1 || c.BatchSize > maxPositions || c.SeqLen > maxPositions || c.BatchSize*c.SeqLen > maxPositions,
		"batch_size %d, seq_len %d, accumulate %d: the first and last at least 1, seq_len at least 2, at most %d positions a batch", c.BatchSize, c.SeqLen, c.Accumulate, maxPositions)
	fault(c.Stop.Steps < 0 || c.Stop.Tokens < 0 || !(c.Stop.Seconds >= 0) || !(c.Stop.Loss >= 0), "stop: nothing may be negative")
	fault(c.Stop.Steps == 0 && c.Stop.Tokens == 0 && c.Stop.Seconds == 0, "stop: one of steps, tokens, seconds must end the run")
	fault(c.Stop.Loss > 0 && c.Eval.Every == 0, "stop: a target loss needs eval.every")
	fault(c.LogEvery < 1 || c.Eval.Every < 0 || c.Eval.Windows < 0 || c.SaveEvery < 0 || c.Threads < 0 || c.Threads > 1024,
		"log_every %d, eval.every %d, eval.windows %d, save_every %d, threads %d: out of range", c.LogEvery, c.Eval.Every, c.Eval.Windows, c.SaveEvery, c.Threads)
	fault(math.IsNaN(c.Clip) || math.IsInf(c.Clip, 0), "clip %v is no number", c.Clip)
	fault(c.LoRA != nil && !c.Freeze.none(), "lora freezes everything else by itself: freeze must be empty")
	return errors.Join(errs...)
}

func (o Optimizer) validate() error {
	var errs []error
	switch o.Name {
	case "adamw", "lion", "muon", "schedule-free":
	default:
		errs = append(errs, fmt.Errorf("optimizer %q is none of adamw, lion, muon, schedule-free", o.Name))
	}
	unit := func(v float64) bool { return v >= 0 && v < 1 }
	if !(o.Rate > 0 && o.Rate < 10) || !unit(o.Beta1) || !unit(o.Beta2) || !unit(o.Epsilon) || !unit(o.MuonMomentum) || !(o.WeightDecay >= 0 && o.WeightDecay <= 100) {
		errs = append(errs, fmt.Errorf("optimizer: lr %v, beta1 %v, beta2 %v, epsilon %v, weight_decay %v, muon_momentum %v: out of range", o.Rate, o.Beta1, o.Beta2, o.Epsilon, o.WeightDecay, o.MuonMomentum))
	}
	if !(o.MuonRatio >= 0 && o.MuonRatio < 1e4) || o.MuonSteps < 0 || o.MuonSteps > 50 {
		errs = append(errs, fmt.Errorf("optimizer: muon_ratio %v, muon_steps %d: out of range", o.MuonRatio, o.MuonSteps))
	}
	for _, p := range slices.Sorted(maps.Keys(o.Rates)) {
		if _, err := path.Match(p, ""); err != nil || !(o.Rates[p] > 0 && o.Rates[p] < 1e4) {
			errs = append(errs, fmt.Errorf("optimizer: rates %q: %v is no pattern with a positive factor", p, o.Rates[p]))
		}
	}
	return errors.Join(errs...)
}

// rate is the factor of the longest pattern that matches name.
func (o Optimizer) rate(name string) float64 {
	best, factor := "", 1.0
	for _, p := range slices.Sorted(maps.Keys(o.Rates)) {
		if ok, _ := path.Match(p, name); ok && len(p) > len(best) {
			best, factor = p, o.Rates[p]
		}
	}
	return factor
}

func (f Freeze) none() bool {
	return f.Policy == "" && !f.Embeddings && !f.Head && !f.Norms && f.Layers == "" && len(f.Tensors) == 0
}

func (f Freeze) validate(layers int) error {
	var errs []error
	if f.Policy != "" && f.Policy != "boundary" {
		errs = append(errs, fmt.Errorf("freeze: policy %q is not boundary", f.Policy))
	}
	if f.Policy != "" && !(Freeze{Policy: "", Embeddings: f.Embeddings, Head: f.Head, Norms: f.Norms, Layers: f.Layers, Tensors: f.Tensors}).none() {
		errs = append(errs, errors.New("freeze: a policy decides alone: nothing may stand beside it"))
	}
	if _, err := parseLayers(f.Layers, layers); err != nil {
		errs = append(errs, err)
	}
	for _, p := range f.Tensors {
		if _, err := path.Match(p, ""); err != nil {
			errs = append(errs, fmt.Errorf("freeze: %q is no pattern", p))
		}
	}
	if f.Every < 1 {
		errs = append(errs, fmt.Errorf("freeze: every is %d", f.Every))
	}
	return errors.Join(errs...)
}

// parseLayers is the set of layers that a list such as "0,2-4,-1" names.
func parseLayers(list string, layers int) (map[int]bool, error) {
	set := map[int]bool{}
	if list == "" {
		return set, nil
	}
	for _, item := range strings.Split(list, ",") {
		lo, hi, err := parseRange(strings.TrimSpace(item), layers)
		if err != nil {
			return nil, fmt.Errorf("freeze: layers %q: %w", list, err)
		}
		for l := lo; l <= hi; l++ {
			set[l] = true
		}
	}
	return set, nil
}

// parseRange reads "3", "-1" or "2-4".
func parseRange(s string, layers int) (lo, hi int, err error) {
	first, last, isRange := s, s, false
	if i := strings.LastIndexByte(s, '-'); i > 0 {
		first, last, isRange = s[:i], s[i+1:], true
	}
	if lo, err = strconv.Atoi(first); err != nil {
		return 0, 0, fmt.Errorf("%q is no layer", s)
	}
	if hi, err = strconv.Atoi(last); err != nil {
		return 0, 0, fmt.Errorf("%q is no layer", s)
	}
	if !isRange && lo < 0 {
		lo, hi = lo+layers, hi+layers
	}
	if lo < 0 || hi >= layers || lo > hi {
		return 0, 0, fmt.Errorf("%q lies outside 0-%d", s, layers-1)
	}
	return lo, hi, nil
}
