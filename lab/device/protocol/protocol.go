// Package protocol defines the interface between mm and the program that runs a compiled
// model on a device: its command line, the folders that it reads and writes, and the JSON
// that it prints. See docs/DEVICES.md.
//
//	mm-device run --context FILE --inputs DIR --outputs DIR --nonce HEX
//	  [--libs DIR] [--graph NAME] [--repeat N] --json
//
// The inputs are DIR/SSSS/I.raw: sample SSSS from 0000, input I by its index in the graph,
// in the element type of the graph. Outputs are written the same way. Names of tensors,
// which come from the model, are never used as file names. The program prints one [Result]
// to standard output, and exits with 0, or with 1 and an error in the result.
package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
)

// Schema is the version of the result.
const Schema = "mm.device.run/1"

// Result is the output of the program.
type Result struct {
	Schema string `json:"schema"`
	Nonce  string `json:"nonce"` // as passed
	// Simulated is set if no NPU computed.
	Simulated bool     `json:"simulated"`
	GoArch    string   `json:"goarch"`
	Version   string   `json:"version"` // of the program
	Build     string   `json:"build"`   // of the QNN libraries
	Platform  Platform `json:"platform"`
	// HVXThreads is the number in the profile, nil if missing.
	HVXThreads *int     `json:"hvx_threads,omitempty"`
	Graph      string   `json:"graph"`
	Times      Times    `json:"times"`
	Outputs    []Output `json:"outputs"`
	Error      *Error   `json:"error,omitempty"`
}

// Platform is QNN's platform information of the device.
type Platform struct {
	SoC  uint32 `json:"soc_model"`
	Arch uint32 `json:"arch"`
}

// Times are in microseconds.
type Times struct {
	Load  int64   `json:"load_us"`  // libraries, context and graph
	Infer []int64 `json:"infer_us"` // of each inference, without loading
}

// Output is an output file.
type Output struct {
	Sample int    `json:"sample"`
	Index  int    `json:"index"`
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
}

// Error describes the failure of a run.
type Error struct {
	Code    int64  `json:"code"` // of QNN, otherwise 0
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

// The stages at which a run may fail.
const (
	StageLibraries = "libraries"
	StageContext   = "context"
	StageInputs    = "inputs"
	StageExecute   = "execute"
	StageOutputs   = "outputs"
)

// The limits of a result.
const (
	maxResult  = 4 << 20
	maxOutputs = 1 << 16
	maxTimes   = 1 << 20
)

// Parse parses the output of the program. It refuses impossible numbers and duplicate
// outputs.
func Parse(data []byte) (Result, error) {
	var r Result
	if len(data) > maxResult {
		return r, fmt.Errorf("result too long: got %d bytes, limit %d", len(data), maxResult)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&r); err != nil {
		return Result{}, fmt.Errorf("runner result: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Result{}, errors.New("runner result: trailing data")
	}
	return r, r.check()
}

func (r Result) check() error {
	if r.Schema != Schema {
		return fmt.Errorf("runner result: unknown schema %q, want %s", r.Schema, Schema)
	}
	if len(r.Outputs) > maxOutputs || len(r.Times.Infer) > maxTimes || r.Times.Load < 0 {
		return errors.New("runner result: too many outputs or times, or negative load time")
	}
	for _, t := range r.Times.Infer {
		if t < 0 {
			return fmt.Errorf("runner result: negative inference time: %d µs", t)
		}
	}
	seen := map[[2]int]bool{}
	for _, o := range r.Outputs {
		if o.Sample < 0 || o.Sample >= MaxSamples || o.Index < 0 || o.Index >= maxOutputs || o.Bytes < 0 || seen[[2]int{o.Sample, o.Index}] {
			return fmt.Errorf("runner result: invalid or duplicate output %d of sample %d with %d bytes", o.Index, o.Sample, o.Bytes)
		}
		seen[[2]int{o.Sample, o.Index}] = true
	}
	return nil
}

// MaxSamples is the maximum number of samples of a run.
const MaxSamples = 10000

// File returns the path of a tensor relative to the folder of inputs or outputs.
func File(sample, index int) string {
	return path.Join(fmt.Sprintf("%04d", sample), strconv.Itoa(index)+".raw")
}

// Call is a command line of the program.
type Call struct {
	Program string
	Context string
	Inputs  string
	Outputs string
	Libs    string // folder of the QNN libraries; may be empty
	Nonce   string
	Graph   string // may be empty if the context has only one
	Repeat  int    // inferences per sample, for timing; if zero, 1
}

// Words returns the command line as words.
func (c Call) Words() []string {
	words := []string{c.Program, "run", "--context", c.Context, "--inputs", c.Inputs, "--outputs", c.Outputs, "--nonce", c.Nonce}
	if c.Libs != "" {
		words = append(words, "--libs", c.Libs)
	}
	if c.Graph != "" {
		words = append(words, "--graph", c.Graph)
	}
	if c.Repeat > 1 {
		words = append(words, "--repeat", strconv.Itoa(c.Repeat))
	}
	return append(words, "--json")
}

// Command returns the command line for a shell.
func (c Call) Command() string { return Command(c.Words()...) }

// ParseCall parses the words of a command line.
func ParseCall(words []string) (Call, error) {
	c := Call{Repeat: 1}
	if len(words) < 2 || words[1] != "run" {
		return c, errors.New("usage: mm-device run --context FILE --inputs DIR --outputs DIR --nonce HEX --json")
	}
	c.Program = words[0]
	text := map[string]*string{"--context": &c.Context, "--inputs": &c.Inputs, "--outputs": &c.Outputs, "--libs": &c.Libs, "--nonce": &c.Nonce, "--graph": &c.Graph}
	for i := 2; i < len(words); i++ {
		if words[i] == "--json" {
			continue
		}
		if i+1 == len(words) {
			return c, fmt.Errorf("%s needs a value", words[i])
		}
		value := words[i+1]
		if to, ok := text[words[i]]; ok {
			*to = value
		} else if n, err := strconv.Atoi(value); words[i] == "--repeat" && err == nil && n > 0 && n <= MaxSamples {
			c.Repeat = n
		} else {
			return c, fmt.Errorf("invalid option %s %s", words[i], value)
		}
		i++
	}
	if c.Context == "" || c.Inputs == "" || c.Outputs == "" || c.Nonce == "" {
		return c, errors.New("--context, --inputs, --outputs and --nonce are required")
	}
	return c, nil
}
