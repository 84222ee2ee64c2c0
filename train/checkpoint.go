package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train/optim"
)

// The files in Options.Dir, all safetensors.
const (
	LastFile = "last.safetensors" // weights and all that Resume needs
	BestFile = "best.safetensors" // weights at the lowest held-out loss
)

// The names in a checkpoint beside the weights' own.
const (
	metaKey         = "mm.checkpoint"
	optimizerPrefix = "optimizer."
)

// checkpointVersion is the layout of header.
const checkpointVersion = 2

// Header is what a checkpoint says about itself, as JSON in its metadata.
type Header struct {
	Version   int               `json:"version"`
	Kind      string            `json:"kind"` // of the task
	Task      json.RawMessage   `json:"task"` // the task's own header
	Step      int               `json:"step"`
	Tokens    int               `json:"tokens"`
	Resumable bool              `json:"resumable"` // the optimizer's state is there
	OptStep   int               `json:"optimizer_step"`
	OptSum    float64           `json:"optimizer_sum"`
	Best      float64           `json:"best"`
	Since     Unreported        `json:"since"`
	Seconds   float64           `json:"seconds"`
	CPU       float64           `json:"cpu_seconds"`
	Trainable []string          `json:"trainable"`
	Frozen    map[string]string `json:"frozen,omitempty"` // SHA-256 of every frozen tensor
}

// Unreported is the steps since the last report, so that a resumed run reports
// the same figures as one that went on.
type Unreported struct {
	Steps  int     `json:"steps"`
	Tokens int     `json:"tokens"`
	Loss   float64 `json:"loss"` // sum over the steps
	Busy   float64 `json:"busy"` // seconds
}

// write puts a checkpoint at path, durably and at once.
func (t *Trainer) write(path string, resumable bool) error {
	state := t.mover.State()
	own, err := t.task.State()
	if err != nil {
		return err
	}
	header, err := json.Marshal(own.Header)
	if err != nil {
		return fmt.Errorf("saving a checkpoint: %w", err)
	}
	h := Header{Version: checkpointVersion, Kind: own.Kind, Task: header, Step: t.step, Tokens: t.tokens,
		Resumable: resumable, Since: t.since.Unreported, OptStep: state.Step, OptSum: state.Sum, Best: t.best,
		Seconds: t.watch.seconds(), CPU: t.watch.cpuSeconds(), Trainable: t.trainable(), Frozen: t.seal.digests()}
	var tensors []safetensors.Source
	for _, w := range t.task.Tensors() {
		tensors = append(tensors, source(w.Name, w.Data, w.Shape...))
	}
	if resumable {
		for _, s := range state.Slots {
			tensors = append(tensors, source(optimizerPrefix+s.Name, s.Data, len(s.Data)))
		}
	}
	tensors = append(tensors, own.Tensors...)
	meta, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("saving a checkpoint: %w", err)
	}
	err = fsx.Replace(path, 0o644, func(w io.Writer) error {
		_, err := safetensors.Write(w, map[string]string{"format": "pt", metaKey: string(meta)}, tensors)
		return err
	})
	if err != nil {
		return fmt.Errorf("saving checkpoint %s: %w", path, err)
	}
	return nil
}

func source(name string, data []float32, shape ...int) safetensors.Source {
	return safetensors.Source{Name: name, DType: safetensors.F32, Shape: shape, Data: safetensors.Bytes(floatBytes(data))}
}

// Checkpoint is an open checkpoint file.
type Checkpoint struct {
	Header Header
	path   string
	file   *safetensors.File
}

// Open maps the checkpoint at path and checks what it says about itself.
func Open(path string) (*Checkpoint, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening checkpoint %s: %w", path, err)
	}
	c := &Checkpoint{path: path, file: f}
	if c.Header, err = parseHeader(f.Metadata[metaKey]); err != nil {
		f.Close()
		return nil, fmt.Errorf("opening checkpoint %s: %w", path, err)
	}
	return c, nil
}

// parseHeader reads and checks a header, which may come from anyone.
func parseHeader(s string) (Header, error) {
	var h Header
	if s == "" {
		return h, errors.New("no " + metaKey + " in its metadata: not a checkpoint of mm")
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, fmt.Errorf("its header: %w", err)
	}
	if h.Version != checkpointVersion {
		return h, fmt.Errorf("its layout is version %d, this program reads %d", h.Version, checkpointVersion)
	}
	if h.Step < 0 || h.Tokens < 0 || h.OptStep < 0 || !(h.Seconds >= 0) || !(h.CPU >= 0) || !(h.Best >= 0) || h.Since.Steps < 0 || h.Since.Steps > h.Step {
		return h, errors.New("its header counts below zero")
	}
	if h.Kind == "" || len(h.Task) == 0 {
		return h, errors.New("its header names no task")
	}
	return h, nil
}

// Close unmaps the file.
func (c *Checkpoint) Close() error { return c.file.Close() }

// Read copies one float32 tensor, which must have the given shape.
func (c *Checkpoint) Read(name string, dst []float32, shape []int) error {
	t, ok := c.file.Tensor(name)
	if !ok {
		return fmt.Errorf("tensor %s is missing", name)
	}
	if t.DType != safetensors.F32 || !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("tensor %s is %s %v, want F32 %v", name, t.DType, t.Shape, shape)
	}
	setFloats(dst, t.Data)
	return nil
}

// Shape is that of a tensor, if the checkpoint has it.
func (c *Checkpoint) Shape(name string) ([]int, bool) {
	t, ok := c.file.Tensor(name)
	return t.Shape, ok
}

// Resume builds the run of task that left the checkpoint, to go on from there as
// if it had never stopped. The task is as it was when the run began, but for its
// place in the data, which the caller takes from Header.Task; its tensors are
// filled here. workers become the trainer's, as in New.
func Resume(c *Checkpoint, cfg Run, task Task, workers *pool.Pool, opt Options) (*Trainer, error) {
	t, err := c.resume(cfg, task, workers, opt)
	if err != nil {
		workers.Close()
		return nil, fmt.Errorf("resuming %s: %w", c.path, err)
	}
	return t, nil
}

func (c *Checkpoint) resume(cfg Run, task Task, workers *pool.Pool, opt Options) (*Trainer, error) {
	if !c.Header.Resumable {
		return nil, fmt.Errorf("it holds weights alone; resume from %s", LastFile)
	}
	own, err := task.State()
	if err != nil {
		return nil, err
	}
	if own.Kind != c.Header.Kind {
		return nil, fmt.Errorf("task kind %q, want %q", c.Header.Kind, own.Kind)
	}
	for _, w := range task.Tensors() {
		if err := c.Read(w.Name, w.Data, w.Shape); err != nil {
			return nil, err
		}
	}
	t, err := build(cfg, task, workers, opt)
	if err != nil {
		return nil, err
	}
	return t, t.restore(c)
}

// trainable lists the tensors that train.
func (t *Trainer) trainable() []string {
	var names []string
	for _, w := range t.task.Tensors() {
		if w.Grad != nil {
			names = append(names, w.Name)
		}
	}
	return names
}

// restore takes over everything but the weights.
func (t *Trainer) restore(c *Checkpoint) error {
	h := c.Header
	if !slices.Equal(t.trainable(), h.Trainable) {
		return errors.New("the tensors that trained are not those that the configuration trains")
	}
	for name, digest := range t.seal.digests() {
		if h.Frozen[name] != digest {
			return fmt.Errorf("frozen tensor %s is not the one that was sealed", name)
		}
	}
	own := t.mover.State()
	saved := optim.State{Step: h.OptStep, Sum: h.OptSum}
	for _, s := range own.Slots {
		data := make([]float32, len(s.Data))
		if err := c.Read(optimizerPrefix+s.Name, data, []int{len(data)}); err != nil {
			return err
		}
		saved.Slots = append(saved.Slots, optim.Slot{Name: s.Name, Data: data})
	}
	if err := t.mover.Restore(saved); err != nil {
		return err
	}
	t.step, t.tokens, t.best = h.Step, h.Tokens, h.Best
	t.since.Unreported = h.Since
	t.watch = startWatch(h.Seconds, h.CPU, t.opt.CPU)
	return nil
}
