// Package track sends the runs of mm train to a server of MLflow.
//
// The folder of a run is the queue: its log and its checkpoint hold all that is sent, so
// that a run needs no server and can be sent later, again, or while it continues. [Sync]
// sends the figures that the server lacks: it finds the run by a tag, reads the last step
// of each metric there, and continues after it. A sync that is killed leaves nothing twice.
package track

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
)

// StateFile is the identity of a run for servers, in its folder.
const StateFile = "track.json"

// lockFile is held by the sync of a folder.
const lockFile = ".track.lock"

// maxState bounds StateFile, and maxLine a line of the log, in bytes.
const (
	maxState = 64 << 10
	maxLine  = 1 << 20
)

// Run is a run in its folder.
type Run struct {
	Dir     string
	ID      string // of the folder, random
	Begin   int64  // milliseconds since 1970
	Name    string
	Params  []Param
	Metrics []Metric // in the order of the log
	Lineage []train.Lineage
	Kind    string // of the task
	Ended   string // the reason, "" if it has not ended
	End     int64
}

// Param is a value of the recipe.
type Param struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Metric is a figure at a step.
type Metric struct {
	Key   string
	Value float64
	Step  int64
	Time  int64 // milliseconds since 1970
}

// state is StateFile.
type state struct {
	ID    string `json:"id"`
	Begin int64  `json:"begin_ms"`
}

// Open reads the run in a folder of mm train. It creates an identity of the folder once.
func Open(dir string) (*Run, error) {
	path := filepath.Join(dir, train.MetricsFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &Run{Dir: dir, Name: filepath.Base(filepath.Clean(dir))}
	if err := r.log(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := r.identify(f); err != nil {
		return nil, err
	}
	for i := range r.Metrics {
		r.Metrics[i].Time += r.Begin
	}
	if r.Ended != "" {
		r.End += r.Begin
	}
	return r, r.recipe()
}

// identify reads the identity of the folder or creates it. The begin of a run is
// estimated once, from the age of its log.
func (r *Run) identify(log *os.File) error {
	path := filepath.Join(r.Dir, StateFile)
	data, err := fsx.ReadFile(path, maxState)
	if errors.Is(err, os.ErrNotExist) {
		if err = r.create(path, log); err == nil {
			data, err = fsx.ReadFile(path, maxState)
		}
	}
	if err != nil {
		return err
	}
	return r.decode(path, data)
}

// create writes a new identity, unless another process does.
func (r *Run) create(path string, log *os.File) error {
	info, err := log.Stat()
	if err != nil {
		return err
	}
	last := r.End
	for _, m := range r.Metrics {
		last = max(last, m.Time)
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	text, err := json.Marshal(state{hex.EncodeToString(id), info.ModTime().UnixMilli() - last})
	if err != nil {
		return err
	}
	err = fsx.Place(path, 0o644, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

func (r *Run) decode(path string, data []byte) error {
	var s state
	if err := json.Unmarshal(data, &s); err != nil || len(s.ID) != 32 || s.Begin <= 0 {
		return fmt.Errorf("%s: malformed identity of a run", path)
	}
	if _, err := hex.DecodeString(s.ID); err != nil {
		return fmt.Errorf("%s: malformed identity of a run", path)
	}
	r.ID, r.Begin = s.ID, s.Begin
	return nil
}

// line holds the fields of a log that are sent.
type line struct {
	Event   string          `json:"event"`
	Name    string          `json:"name"`
	Step    int64           `json:"step"`
	Tokens  float64         `json:"tokens"`
	Loss    *float64        `json:"loss"`
	Rate    float64         `json:"lr"`
	Norm    float64         `json:"grad_norm"`
	Speed   float64         `json:"tok_s"`
	Seconds float64         `json:"seconds"`
	Reason  string          `json:"reason"`
	Lineage []train.Lineage `json:"lineage"`
}

// log reads the events of a run. A line that is cut off at the end is not read yet.
func (r *Run) log(f io.Reader) error {
	s := bufio.NewScanner(f)
	s.Buffer(nil, maxLine+1)
	seen := map[string]int64{}
	for n := 1; s.Scan(); n++ {
		var e line
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			if !s.Scan() && s.Err() == nil {
				return nil
			}
			return fmt.Errorf("line %d: %w", n, err)
		}
		r.event(e, seen)
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line exceeds %d bytes", maxLine)
	}
	return s.Err()
}

// event adds the figures of an event. A resumed run repeats steps; the first count.
func (r *Run) event(e line, seen map[string]int64) {
	at := int64(e.Seconds * 1000)
	add := func(key string, v float64) {
		if last, ok := seen[key]; ok && e.Step <= last || e.Step < 0 {
			return
		}
		seen[key] = e.Step
		r.Metrics = append(r.Metrics, Metric{key, v, e.Step, at})
	}
	switch e.Event {
	case "started":
		if e.Name != "" {
			r.Name = e.Name
		}
		if len(e.Lineage) > 0 {
			r.Lineage = e.Lineage
		}
		r.Ended = ""
	case "step":
		if e.Loss != nil {
			add("train/loss", *e.Loss)
		}
		add("train/lr", e.Rate)
		add("train/grad_norm", e.Norm)
		add("train/tok_s", e.Speed)
		add("train/tokens", e.Tokens)
	case "eval":
		if e.Loss != nil {
			add("eval/loss", *e.Loss)
			add("eval/perplexity", math.Exp(*e.Loss))
		}
	case "finished":
		r.Ended, r.End = e.Reason, at
	}
}

// recipe reads the parameters from the checkpoint, if there is one.
func (r *Run) recipe() error {
	c, err := train.Open(filepath.Join(r.Dir, train.LastFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	r.Kind = c.Header.Kind
	var task struct {
		Config json.RawMessage `json:"config"`
		Recipe json.RawMessage `json:"recipe"`
	}
	if err := json.Unmarshal(c.Header.Task, &task); err != nil {
		return fmt.Errorf("reading the recipe: %w", err)
	}
	text := task.Config
	if text == nil {
		text = task.Recipe
	}
	if text == nil {
		return nil
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("reading the recipe: %w", err)
	}
	flat := map[string]string{}
	flatten("", v, flat)
	for _, key := range slices.Sorted(maps.Keys(flat)) {
		r.Params = append(r.Params, Param{key, flat[key]})
	}
	sum := sha256.Sum256(text)
	r.Params = append(r.Params, Param{"recipe.sha256", hex.EncodeToString(sum[:])})
	return nil
}

// maxParam is the length from which MLflow cuts a value without a word; a longer one is
// sent as its digest.
const maxParam = 6000

// flatten adds the values of a JSON value under their paths.
func flatten(path string, v any, out map[string]string) {
	key := func(k string) string {
		if path == "" {
			return k
		}
		return path + "." + k
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			flatten(key(k), e, out)
		}
	case []any:
		for i, e := range v {
			flatten(key(strconv.Itoa(i)), e, out)
		}
	case nil:
	default:
		text := fmt.Sprint(v)
		if f, ok := v.(float64); ok {
			text = strconv.FormatFloat(f, 'g', -1, 64)
		}
		if len(text) > maxParam {
			sum := sha256.Sum256([]byte(text))
			text = fmt.Sprintf("sha256:%s (%d bytes)", hex.EncodeToString(sum[:]), len(text))
		}
		out[name(path)] = text
	}
}

// name returns a key that MLflow takes.
func name(key string) string {
	out := []byte(key)
	for i, c := range out {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == ' ' || c == '/' || c == ':') {
			out[i] = '_'
		}
	}
	return string(out)
}

// Options configures Sync.
type Options struct {
	Server     *Server
	Experiment string // its name; "": mm
	Version    string // of mm
	User       string
	// Progress receives the number of metrics sent so far; may be nil.
	Progress func(sent, all int)
}

// Result is what Sync did.
type Result struct {
	Run        string `json:"run"` // on the server
	Experiment string `json:"experiment"`
	Metrics    int    `json:"metrics"` // sent now
	Before     int    `json:"known"`   // the server had before
	Params     int    `json:"params"`
	Status     string `json:"status"`
}

// Sync sends the figures of a run that the server lacks. A failure that may pass begins it
// again. It waits for another sync of the folder, which would send the same figures.
func Sync(ctx context.Context, r *Run, opt Options) (out *Result, err error) {
	dir, err := fsx.Open(r.Dir, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	lock, err := dir.Lock(ctx, lockFile)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.RemoveUnlock()) }()
	sent := 0
	err = opt.Server.again(ctx, func() error {
		if out, err = send(ctx, r, opt); out != nil {
			sent += out.Metrics
		}
		return err
	})
	if out != nil {
		out.Before -= sent - out.Metrics
		out.Metrics = sent
	}
	return out, err
}

// send is an attempt of [Sync].
func send(ctx context.Context, r *Run, opt Options) (*Result, error) {
	s := opt.Server
	experiment := opt.Experiment
	if experiment == "" {
		experiment = "mm"
	}
	id, err := s.experiment(ctx, experiment)
	if err != nil {
		return nil, err
	}
	remote, err := s.find(ctx, id, r)
	if err == nil && remote == nil {
		remote, err = s.create(ctx, id, r, opt)
	}
	if err != nil {
		return nil, err
	}
	out := &Result{Run: remote.Info.ID, Experiment: experiment, Params: len(r.Params), Status: status(r.Ended)}
	last := map[string]int64{}
	for _, m := range remote.Data.Metrics {
		last[m.Key] = m.step()
	}
	var rest []Metric
	for _, m := range r.Metrics {
		if at, ok := last[m.Key]; ok && m.Step <= at {
			out.Before++
			continue
		}
		rest = append(rest, m)
	}
	if err := s.params(ctx, remote, r.Params); err != nil {
		return out, err
	}
	for part := range slices.Chunk(rest, maxBatch) {
		if err := s.metrics(ctx, out.Run, part); err != nil {
			return out, err
		}
		if out.Metrics += len(part); opt.Progress != nil {
			opt.Progress(out.Metrics, len(rest))
		}
	}
	if err := s.datasets(ctx, remote, r.Lineage); err != nil {
		return out, err
	}
	if err := s.artifacts(ctx, remote, r); err != nil {
		return out, err
	}
	return out, s.update(ctx, out.Run, out.Status, r.End)
}

// status returns MLflow's word for the end of a run.
func status(reason string) string {
	switch reason {
	case "":
		return "RUNNING"
	case "interrupted":
		return "KILLED"
	}
	return "FINISHED"
}
