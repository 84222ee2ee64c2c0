package train

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train/nn"
	"mm-abi.org/mm/train/optim"
)

// The files in Options.Dir, all safetensors.
const (
	LastFile = "last.safetensors" // weights and the state for Resume
	BestFile = "best.safetensors" // weights at the lowest held-out loss
)

// Names in a checkpoint other than those of the weights.
const (
	metaKey         = "mm.checkpoint"
	digestKey       = "mm.checkpoint.sha256" // of the value of metaKey
	optimizerPrefix = "optimizer."
)

// checkpointVersion is the version of header.
const checkpointVersion = 2

// Header is the description of a checkpoint, JSON in its metadata.
type Header struct {
	Version   int               `json:"version"`
	Kind      string            `json:"kind"` // of the task
	Task      json.RawMessage   `json:"task"` // header of the task
	Step      int               `json:"step"`
	Tokens    int               `json:"tokens"`
	Resumable bool              `json:"resumable"` // includes the optimizer's state
	OptStep   int               `json:"optimizer_step"`
	OptSum    float64           `json:"optimizer_sum"`
	Best      float64           `json:"best"`
	Since     Unreported        `json:"since"`
	Seconds   float64           `json:"seconds"`
	CPU       float64           `json:"cpu_seconds"`
	Trainable []string          `json:"trainable"`
	Frozen    map[string]string `json:"frozen,omitempty"` // SHA-256 of every frozen tensor
	// Digests holds the SHA-256 of the data of every tensor in the file; older
	// checkpoints have none.
	Digests map[string]string `json:"digests,omitempty"`
}

// Unreported sums the steps since the last report, so that a resumed run
// reports the same figures as an uninterrupted one.
type Unreported struct {
	Steps  int     `json:"steps"`
	Tokens int     `json:"tokens"`
	Loss   float64 `json:"loss"` // sum over the steps
	Busy   float64 `json:"busy"` // seconds
}

// write writes a checkpoint to path, durably and atomically.
func (t *Trainer) write(path string, resumable bool) error {
	opt := t.mover.State()
	state, err := t.task.State()
	if err != nil {
		return err
	}
	header, err := json.Marshal(state.Header)
	if err != nil {
		return fmt.Errorf("saving a checkpoint: %w", err)
	}
	h := Header{Version: checkpointVersion, Kind: state.Kind, Task: header, Step: t.step, Tokens: t.tokens,
		Resumable: resumable, Since: t.since.Unreported, OptStep: opt.Step, OptSum: opt.Sum, Best: t.best,
		Seconds: t.watch.seconds(), CPU: t.watch.cpuSeconds(), Trainable: t.trainable(), Frozen: t.seal.digests()}
	tensors := append(sources(t.task.Tensors()), state.Tensors...)
	if resumable {
		for _, s := range opt.Slots {
			tensors = append(tensors, source(optimizerPrefix+s.Name, s.Data, len(s.Data)))
		}
	}
	moves := moving(h.Trainable)
	for i, s := range tensors {
		tensors[i].Rank = moves(s.Name)
	}
	if err := writeCheckpoint(path, h, tensors); err != nil {
		return fmt.Errorf("saving checkpoint %s: %w", path, err)
	}
	return nil
}

// moving returns a function that ranks a tensor of a checkpoint: 0 if a step
// leaves it as it is, otherwise 1. A checkpoint has the former first, but the
// tokenizer last.
func moving(trainable []string) func(name string) int {
	set := map[string]bool{}
	for _, name := range trainable {
		set[name] = true
	}
	return func(name string) int {
		if set[name] || strings.HasPrefix(name, optimizerPrefix) {
			return 1
		}
		return 0
	}
}

// Cuts returns the offsets at which a checkpoint of size bytes divides into its
// header, the tensors that no step of its run changes and those that it does. A
// checkpoint without the former is not divided.
func Cuts(r io.ReaderAt, size int64) ([]int64, error) {
	f, err := safetensors.Read(r, size)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(f.Metadata[metaKey])
	if err != nil {
		return nil, err
	}
	moves := moving(h.Trainable)
	var cuts []int64
	last, still := -1, false
	for _, t := range f.Tensors {
		if rank := moves(t.Name); t.Size > 0 && rank != last {
			cuts, last = append(cuts, t.Offset), rank
			still = still || rank == 0
		}
	}
	if !still {
		return nil, nil
	}
	return cuts, nil
}

// sources returns the tensors of a file.
func sources(tensors []*nn.Tensor[float32]) []safetensors.Source {
	var all []safetensors.Source
	for _, w := range tensors {
		if w.Stored == nil { // otherwise it is in its own file
			all = append(all, source(w.Name, w.Data, w.Shape...))
		}
	}
	return all
}

// writeCheckpoint writes tensors to path under a header, whose digests it
// fills in.
func writeCheckpoint(path string, h Header, tensors []safetensors.Source) error {
	var err error
	if h.Digests, err = tensorDigests(tensors); err != nil {
		return err
	}
	meta, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return fsx.Replace(path, 0o644, func(w io.Writer) error {
		_, err := safetensors.Write(w, map[string]string{"format": "pt", metaKey: string(meta), digestKey: sum(meta)}, tensors)
		return err
	})
}

// tensorDigests returns the SHA-256 of the data of each tensor.
func tensorDigests(tensors []safetensors.Source) (map[string]string, error) {
	all := make(map[string]string, len(tensors))
	for _, t := range tensors {
		h := sha256.New()
		if _, err := t.Data.WriteTo(h); err != nil {
			return nil, err
		}
		all[t.Name] = hex.EncodeToString(h.Sum(nil))
	}
	return all, nil
}

func sum(data []byte) string {
	d := sha256.Sum256(data)
	return hex.EncodeToString(d[:])
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

// Open maps the checkpoint at path and validates its header.
func Open(path string) (*Checkpoint, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening checkpoint %s: %w", path, err)
	}
	c := &Checkpoint{path: path, file: f}
	c.Header, err = parseHeader(f.Metadata[metaKey])
	if want, ok := f.Metadata[digestKey]; ok && err == nil && want != sum([]byte(f.Metadata[metaKey])) {
		err = errors.New("header: digest mismatch")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("opening checkpoint %s: %w", path, err)
	}
	return c, nil
}

// parseHeader parses and validates an untrusted header.
func parseHeader(s string) (Header, error) {
	var h Header
	if s == "" {
		return h, errors.New("not a checkpoint of mm: missing metadata " + metaKey)
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, fmt.Errorf("header: %w", err)
	}
	if h.Version != checkpointVersion {
		return h, fmt.Errorf("header version %d, want %d", h.Version, checkpointVersion)
	}
	if h.Step < 0 || h.Tokens < 0 || h.OptStep < 0 || !(h.Seconds >= 0) || !(h.CPU >= 0) || !(h.Best >= 0) || h.Since.Steps < 0 || h.Since.Steps > h.Step {
		return h, errors.New("negative count in header")
	}
	if h.Kind == "" || len(h.Task) == 0 {
		return h, errors.New("missing task in header")
	}
	return h, nil
}

// Close unmaps the file.
func (c *Checkpoint) Close() error { return c.file.Close() }

// tensor returns a tensor of the file, whose digest it checks if the header has
// digests.
func (c *Checkpoint) tensor(name string) (safetensors.Tensor, error) {
	t, ok := c.file.Tensor(name)
	if !ok {
		return t, fmt.Errorf("missing tensor %q", name)
	}
	if c.Header.Digests == nil {
		return t, nil
	}
	if got, want := sum(t.Data), c.Header.Digests[name]; got != want {
		return t, fmt.Errorf("tensor %q: digest mismatch: got %s, want %s; the file is damaged", name, got, cmp.Or(want, "none"))
	}
	return t, nil
}

// Read copies one float32 tensor, which must have the shape.
func (c *Checkpoint) Read(name string, dst []float32, shape []int) error {
	t, err := c.tensor(name)
	if err != nil {
		return err
	}
	if t.DType != safetensors.F32 || !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("tensor %q: got %s %v, want F32 %v", name, t.DType, t.Shape, shape)
	}
	setFloats(dst, t.Data)
	return nil
}

// Shape returns the shape of a tensor, if it exists.
func (c *Checkpoint) Shape(name string) ([]int, bool) {
	t, ok := c.file.Tensor(name)
	return t.Shape, ok
}

// Resume builds the interrupted run of task from its checkpoint; the result is
// bit-identical to that of an uninterrupted run. The task must be in its
// initial state except for its position in the data, which the caller takes
// from Header.Task. Resume fills its tensors. The trainer takes over workers,
// as in New.
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
		return nil, fmt.Errorf("checkpoint holds only weights; resume from %s", LastFile)
	}
	state, err := task.State()
	if err != nil {
		return nil, err
	}
	if state.Kind != c.Header.Kind {
		return nil, fmt.Errorf("task kind %q, want %q", c.Header.Kind, state.Kind)
	}
	if err := c.ReadInto(task.Tensors()); err != nil {
		return nil, err
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

// restore restores everything except the weights.
func (t *Trainer) restore(c *Checkpoint) error {
	h := c.Header
	if !slices.Equal(t.trainable(), h.Trainable) {
		return errors.New("trainable tensors differ from those of the configuration")
	}
	for name, digest := range t.seal.digests() {
		if h.Frozen[name] != digest {
			return fmt.Errorf("frozen tensor %s: digest mismatch", name)
		}
	}
	fresh := t.mover.State()
	saved := optim.State{Step: h.OptStep, Sum: h.OptSum}
	for _, s := range fresh.Slots {
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

// IsCheckpoint reports whether a file begins like a checkpoint.
func IsCheckpoint(path string) bool {
	head, err := fsx.ReadHead(path, fsx.SniffLen)
	return err == nil && fsx.Sniff(head) == fsx.Safetensors
}
