// Package runner is the contract between mm and the program that runs a compiled
// model on a device: its command line, the folders that it reads and writes, and
// the JSON that it prints. docs/DEVICES.md has it in words.
//
//	mm-device run --context FILE --inputs DIR --outputs DIR --nonce HEX
//	  [--libs DIR] [--graph NAME] [--repeat N] --json
//
// The inputs lie in DIR/SSSS/I.raw, sample by sample from 0000 on, each input by
// its place in the graph, in the element type of the graph; outputs are written
// the same way. Names of tensors, which a model's maker chose, are never names of
// files. The program prints one [Result] on its standard output and nothing else,
// and ends with 0, or with 1 and an error in the result.
package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"

	"mm-abi.org/mm/lab/device/lane"
)

// Schema is the version of the result.
const Schema = "mm.device.run/1"

// Result is what the program prints.
type Result struct {
	Schema string `json:"schema"`
	Nonce  string `json:"nonce"` // the one that was given
	// Simulated is set where no NPU computed, whatever stands in the rest.
	Simulated bool     `json:"simulated"`
	GoArch    string   `json:"goarch"`
	Version   string   `json:"version"` // of the program
	Build     string   `json:"build"`   // of the QNN libraries
	Platform  Platform `json:"platform"`
	// HVXThreads is what the profile says; nil where it says nothing.
	HVXThreads *int     `json:"hvx_threads,omitempty"`
	Graph      string   `json:"graph"`
	Times      Times    `json:"times"`
	Outputs    []Output `json:"outputs"`
	Error      *Error   `json:"error,omitempty"`
}

// Platform is QNN's platform information, asked of the device itself.
type Platform struct {
	SoC  uint32 `json:"soc_model"`
	Arch uint32 `json:"arch"`
}

// Times are in microseconds.
type Times struct {
	Load  int64   `json:"load_us"`  // libraries, context and graph
	Infer []int64 `json:"infer_us"` // of each inference, without loading
}

// Output is a file that was written.
type Output struct {
	Sample int    `json:"sample"`
	Index  int    `json:"index"`
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
}

// Error says what QNN answered.
type Error struct {
	Code    int64  `json:"code"` // QNN's; 0 where the error is not QNN's
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

// The bounds of a result.
const (
	maxResult  = 4 << 20
	maxOutputs = 1 << 16
	maxTimes   = 1 << 20
)

// Parse reads what the program printed. Numbers that cannot be, and outputs that
// are listed twice, are refused.
func Parse(data []byte) (Result, error) {
	var r Result
	if len(data) > maxResult {
		return r, fmt.Errorf("a result of %d bytes, at most %d are read", len(data), maxResult)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&r); err != nil {
		return Result{}, fmt.Errorf("the runner's result: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Result{}, errors.New("the runner's result: something follows it")
	}
	return r, r.check()
}

func (r Result) check() error {
	if r.Schema != Schema {
		return fmt.Errorf("the runner's result: schema %q, known is %s", r.Schema, Schema)
	}
	if len(r.Outputs) > maxOutputs || len(r.Times.Infer) > maxTimes || r.Times.Load < 0 {
		return errors.New("the runner's result: more outputs or times than can be")
	}
	for _, t := range r.Times.Infer {
		if t < 0 {
			return fmt.Errorf("the runner's result: an inference of %d µs", t)
		}
	}
	met := map[[2]int]bool{}
	for _, o := range r.Outputs {
		if o.Sample < 0 || o.Sample >= MaxSamples || o.Index < 0 || o.Index >= maxOutputs || o.Bytes < 0 || met[[2]int{o.Sample, o.Index}] {
			return fmt.Errorf("the runner's result: output %d of sample %d with %d bytes", o.Index, o.Sample, o.Bytes)
		}
		met[[2]int{o.Sample, o.Index}] = true
	}
	return nil
}

// MaxSamples bounds the samples of one run.
const MaxSamples = 10000

// File is where a tensor lies below the folder of inputs or of outputs.
func File(sample, index int) string {
	return path.Join(fmt.Sprintf("%04d", sample), strconv.Itoa(index)+".raw")
}

// Call is a command line of the program.
type Call struct {
	Program string
	Context string
	Inputs  string
	Outputs string
	Libs    string // folder of the QNN libraries; "" for none
	Nonce   string
	Graph   string // "" where the context has one
	Repeat  int    // inferences of each sample, for timing; 0 is 1
}

// Words are the words of the command line.
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

// Command is the command line for a shell.
func (c Call) Command() string { return lane.Command(c.Words()...) }

// ParseCall reads the words of a command line, as the program does.
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
			return c, fmt.Errorf("%s has no value", words[i])
		}
		value := words[i+1]
		if to, ok := text[words[i]]; ok {
			*to = value
		} else if n, err := strconv.Atoi(value); words[i] == "--repeat" && err == nil && n > 0 && n <= MaxSamples {
			c.Repeat = n
		} else {
			return c, fmt.Errorf("%s %s is not understood", words[i], value)
		}
		i++
	}
	if c.Context == "" || c.Inputs == "" || c.Outputs == "" || c.Nonce == "" {
		return c, errors.New("--context, --inputs, --outputs and --nonce are needed")
	}
	return c, nil
}
