package train

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/optim"
)

// Config describes a training run. The JSON names are those of the YAML that
// `mm train` reads. Comments state the default of a zero field.
type Config struct {
	Name string `json:"name,omitempty"`
	Seed uint64 `json:"seed,omitempty"` // of weights, data order and adapters

	Model llm.Config `json:"model"`
	Init  llm.Init   `json:"init,omitempty"` // its seed defaults to Seed
	// Base is a checkpoint or a GGUF file with the initial weights, instead of
	// Init.
	Base string    `json:"base,omitempty"`
	LoRA *llm.LoRA `json:"lora,omitempty"` // if set, only adapters train

	Data      Data      `json:"data"`
	Tokenizer Tokenizer `json:"tokenizer"`

	BatchSize  int `json:"batch_size,omitempty"` // sequences at a time; 4
	SeqLen     int `json:"seq_len,omitempty"`    // positions in each; Model.Context
	Accumulate int `json:"accumulate,omitempty"` // batches per step; 1

	Precision Precision `json:"precision,omitempty"` // FP32

	Optimizer Optimizer      `json:"optimizer,omitempty"`
	Schedule  optim.Schedule `json:"schedule,omitempty"`
	Clip      float64        `json:"clip,omitempty"` // maximum global gradient norm; 1, negative disables

	Freeze Freeze `json:"freeze,omitempty"`
	Stop   Stop   `json:"stop"`

	LogEvery  int  `json:"log_every,omitempty"`  // steps; 10
	Eval      Eval `json:"eval,omitempty"`       //
	SaveEvery int  `json:"save_every,omitempty"` // steps between checkpoints; 0: at the end only
	Threads   int  `json:"threads,omitempty"`    // 0: all of the machine; does not change the result
}

// Stop ends a run at the first limit reached. The schedule decays over the
// first of Steps and Tokens or, if both are zero, over Seconds. Only a run that
// ends by steps or tokens has the same curve on every machine.
type Stop struct {
	Steps   int     `json:"steps,omitempty"`
	Tokens  int     `json:"tokens,omitempty"`
	Seconds float64 `json:"seconds,omitempty"` // of training, all sessions together
	Loss    float64 `json:"loss,omitempty"`    // held-out nats to reach
}

// Until returns the stop after steps or a time instead, if they are not 0.
func (s Stop) Until(steps int, limit time.Duration) Stop {
	if steps > 0 || limit > 0 {
		s.Steps, s.Tokens, s.Seconds = steps, 0, limit.Seconds()
	}
	return s
}

// Eval is the evaluation on held-out data.
type Eval struct {
	Every   int `json:"every,omitempty"`   // steps; 0: at the end only
	Windows int `json:"windows,omitempty"` // at most this many windows of seq_len tokens, always the same; 0: all
}

// Freeze selects frozen tensors. They are hashed, and the hashes are checked.
type Freeze struct {
	// Policy "boundary" trains the first layer, the last layer and the head and
	// freezes everything else; a tied head is untied first.
	Policy     string   `json:"policy,omitempty"`
	Embeddings bool     `json:"embeddings,omitempty"` // the embedding and its norm
	Head       bool     `json:"head,omitempty"`
	Norms      bool     `json:"norms,omitempty"`   // every norm's gain
	Layers     string   `json:"layers,omitempty"`  // such as "1-4,7", counted from 0; negative from the end
	Tensors    []string `json:"tensors,omitempty"` // names, or patterns of path.Match
	// Every is the number of steps between checks of the hashes; 0 means 10.
	Every int `json:"every,omitempty"`
}

// WithDefaults returns c with the defaults filled in.
func (c Config) WithDefaults() Config {
	c.Model = c.Model.WithDefaults()
	if c.Init.Seed == 0 {
		c.Init.Seed = c.Seed
	}
	SetDefault(&c.BatchSize, 4)
	SetDefault(&c.SeqLen, c.Model.Context)
	r := c.run().withDefaults()
	c.Accumulate, c.Freeze.Every, c.LogEvery, c.Clip, c.Optimizer = r.Accumulate, r.Seal, r.LogEvery, r.Clip, r.Optimizer
	return c
}

// run returns the task-independent part of c.
func (c Config) run() Run {
	return Run{
		Name: c.Name, Accumulate: c.Accumulate, Optimizer: c.Optimizer, Schedule: c.Schedule, Clip: c.Clip, Seal: c.Freeze.Every,
		Stop: c.Stop, LogEvery: c.LogEvery, EvalEvery: c.Eval.Every, SaveEvery: c.SaveEvery,
	}
}

// maxPositions bounds batch_size·seq_len.
const maxPositions = 1 << 22

// Validate reports all faults of c with the defaults filled in.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if c.Data.Format == uint16Format && c.Tokenizer.File == "" {
		return At("/data", errors.New("data: token ids require tokenizer.file"))
	}
	errs := []error{At("/model", c.Model.Validate()), At("/init", c.Init.Validate()), c.run().validate(), c.Freeze.validate(c.Model.Layers),
		At("/data", c.Data.validate()), At("/tokenizer", c.Tokenizer.validate()), c.Precision.Validate(),
		NotObjects("/base", c.Base), NotObjects("/tokenizer/file", c.Tokenizer.File), NotObjects("/data/template", c.Data.Template)}
	fault := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, At(path, fmt.Errorf(format, args...)))
		}
	}
	fault("/batch_size", c.BatchSize < 1 || c.SeqLen < 2 || c.BatchSize > maxPositions || c.SeqLen > maxPositions || c.BatchSize*c.SeqLen > maxPositions,
		"out of range: batch_size %d, seq_len %d, want at least 1, 2 and at most %d positions per batch", c.BatchSize, c.SeqLen, maxPositions)
	fault("/threads", c.Eval.Windows < 0 || c.Threads < 0 || c.Threads > maxThreads, "out of range: eval.windows %d, threads %d", c.Eval.Windows, c.Threads)
	fault("/lora/quantized", c.LoRA != nil && c.LoRA.Quantized && c.Base == "", "quantized requires base: a GGUF file")
	fault("/lora", c.LoRA != nil && !c.Freeze.none(), "freeze must be empty with lora, which freezes everything else")
	return errors.Join(errs...)
}

func (f Freeze) none() bool {
	return f.Policy == "" && !f.Embeddings && !f.Head && !f.Norms && f.Layers == "" && len(f.Tensors) == 0
}

func (f Freeze) validate(layers int) error {
	var errs []error
	if f.Policy != "" && f.Policy != "boundary" {
		errs = append(errs, At("/freeze/policy", fmt.Errorf("freeze: unknown policy %q, want boundary", f.Policy)))
	}
	if f.Policy != "" && !(Freeze{Policy: "", Embeddings: f.Embeddings, Head: f.Head, Norms: f.Norms, Layers: f.Layers, Tensors: f.Tensors}).none() {
		errs = append(errs, At("/freeze", errors.New("freeze: policy excludes all other keys")))
	}
	if _, err := parseLayers(f.Layers, layers); err != nil {
		errs = append(errs, At("/freeze/layers", err))
	}
	for _, p := range f.Tensors {
		if _, err := path.Match(p, ""); err != nil {
			errs = append(errs, At("/freeze/tensors", fmt.Errorf("freeze: invalid pattern %q", p)))
		}
	}
	return errors.Join(errs...)
}

// parseLayers parses a list of layers such as "0,2-4,-1".
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

// parseRange parses "3", "-1" or "2-4".
func parseRange(s string, layers int) (lo, hi int, err error) {
	first, last, isRange := s, s, false
	if i := strings.LastIndexByte(s, '-'); i > 0 {
		first, last, isRange = s[:i], s[i+1:], true
	}
	if lo, err = strconv.Atoi(first); err != nil {
		return 0, 0, fmt.Errorf("invalid layer %q", s)
	}
	if hi, err = strconv.Atoi(last); err != nil {
		return 0, 0, fmt.Errorf("invalid layer %q", s)
	}
	if !isRange && lo < 0 {
		lo, hi = lo+layers, hi+layers
	}
	if lo < 0 || hi >= layers || lo > hi {
		return 0, 0, fmt.Errorf("%q out of range, want 0-%d", s, layers-1)
	}
	return lo, hi, nil
}
