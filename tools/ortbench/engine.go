package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/cmd/mm-native/ortlib"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// model is a file with its inputs.
type model struct {
	name, path string
	in         map[string]runtimes.Tensor
}

// parse parses NAME=FILE:INPUT=SHAPE,…; a shape is 1x3x48x320, or i16000 for a scalar
// int64.
func parse(arg, dir string) (m model, err error) {
	head, inputs, ok := strings.Cut(arg, ":")
	if m.name, m.path, _ = strings.Cut(head, "="); !ok || m.path == "" {
		return m, fmt.Errorf("%q is not NAME=FILE:INPUT=SHAPE", arg)
	}
	if m.path, err = filepath.Abs(m.path); err != nil {
		return m, err
	}
	if m.path, err = tensors(m.path, dir); err != nil {
		return m, err
	}
	m.in = make(map[string]runtimes.Tensor)
	for _, input := range strings.Split(inputs, ",") {
		name, shape, ok := strings.Cut(input, "=")
		if !ok {
			return m, fmt.Errorf("%q is not INPUT=SHAPE", input)
		}
		if m.in[name], err = tensor(shape); err != nil {
			return m, err
		}
	}
	return m, nil
}

// tensors returns a model whose outputs are all tensors: path itself, or a copy in dir that
// ends before an operator that returns a list.
func tensors(path, dir string) (string, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return "", err
	}
	defer m.Close()
	var ends []string
	for _, v := range m.Graph.Outputs {
		if v.Type.Kind == onnx.TensorKind {
			ends = append(ends, v.Name)
		}
	}
	if len(ends) == len(m.Graph.Outputs) {
		return path, nil
	}
	for _, n := range m.Graph.Nodes {
		if n.Op == "ZipMap" {
			ends = append(ends, n.Inputs[0])
		}
	}
	cut, err := m.Cut(ends...)
	if err != nil {
		return "", err
	}
	f, err := os.Create(filepath.Join(dir, filepath.Base(path)))
	if err != nil {
		return "", err
	}
	_, err = onnx.Write(f, cut)
	return f.Name(), errors.Join(err, f.Close())
}

func tensor(shape string) (t runtimes.Tensor, err error) {
	if number, ok := strings.CutPrefix(shape, "i"); ok {
		n, err := strconv.ParseInt(number, 10, 64)
		return runtimes.Tensor{Type: runtimes.Int64, Data: binary.LittleEndian.AppendUint64(nil, uint64(n))}, err
	}
	t.Type = runtimes.Float32
	n := 1
	for _, d := range strings.Split(shape, "x") {
		size, err := strconv.Atoi(d)
		if err != nil || size < 1 {
			return t, fmt.Errorf("bad shape %q", shape)
		}
		t.Shape, n = append(t.Shape, int64(size)), n*size
	}
	for i := range n {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(i%50)/50))
	}
	return t, nil
}

// engine is a way to run a model.
type engine struct {
	run   func(ctx context.Context, n int) ([]time.Duration, error)
	close func()
	pid   int
	cold  time.Duration // from the start of the process to the first result
	runs  int           // per turn
	took  []time.Duration
}

// peak returns the peak memory of the process in MiB, or 0 if unavailable.
func (e *engine) peak() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(kib)[0], 64)
			return n / 1024
		}
	}
	return 0
}

// timed runs a function of this process.
func timed(f runtimes.Function, in map[string]runtimes.Tensor) func(context.Context, int) ([]time.Duration, error) {
	return func(ctx context.Context, n int) ([]time.Duration, error) {
		var took []time.Duration
		for range n {
			begin := time.Now()
			if _, err := f.Run(ctx, in); err != nil {
				return nil, err
			}
			took = append(took, time.Since(begin))
		}
		return took, nil
	}
}

// openWorker runs the model in mm-native.
func openWorker(ctx context.Context, o options, m model, threads int) (*engine, error) {
	opt, err := native.Libraries{Name: native.ONNXRuntime, Home: func() (string, error) { return o.home, nil }}.Worker(ctx, 0)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	open, err := worker.Open(ctx, opt, wire.Open{Name: m.name, Type: abi.Encoder, Format: abi.ONNX, Path: m.path, Limits: runtimes.Limits{Threads: threads}})
	if err != nil {
		return nil, err
	}
	e := &engine{run: timed(open.(runtimes.Function), m.in), close: func() { open.Close() }}
	if _, err := e.run(ctx, 1); err != nil {
		return nil, errors.Join(err, open.Close())
	}
	e.cold, e.pid = time.Since(begin), child()
	return e, nil
}

// child returns the process that was started last.
func child() int {
	last := 0
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				last = max(last, pid)
			}
		}
	}
	return last
}

// openHere runs the model in this process.
func openHere(ctx context.Context, dir string, m model, threads int) (*engine, error) {
	lib, err := ortlib.Open(dir)
	if err != nil {
		return nil, err
	}
	part := builds.Part{Name: m.name, Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{string(abi.ONNX): {m.path}}}
	open, err := lib.Open(ctx, runtimes.Bundle{Part: part, Files: onDisk{}}, runtimes.Limits{Threads: threads})
	if err != nil {
		return nil, err
	}
	return &engine{run: timed(open.(runtimes.Function), m.in), close: func() { open.Close() }}, nil
}

type onDisk struct{}

func (onDisk) Open(name string) (*os.File, error)             { return os.Open(name) }
func (onDisk) Path(name string) (string, error)               { return name, nil }
func (onDisk) Dir(context.Context, ...string) (string, error) { return "", errors.New("one file only") }

//go:embed node.js
var script string

// ask is the request to node.js.
type ask struct {
	Model   string  `json:"model,omitempty"`
	Threads int     `json:"threads,omitempty"`
	In      []input `json:"in,omitempty"`
	Runs    int     `json:"runs"`
}

type input struct {
	Name  string        `json:"name"`
	Type  runtimes.Elem `json:"type"`
	Shape []int64       `json:"shape"`
	Data  string        `json:"data"`
}

// openNode runs the model in Node.
func openNode(ctx context.Context, o options, m model, threads int) (*engine, error) {
	dir, err := filepath.Abs(o.node)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	cmd := exec.CommandContext(ctx, "node", "-e", script, dir)
	cmd.Env = append(os.Environ(), "ORT_DISABLE_TELEMETRY=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := bufio.NewReader(out)
	say := func(a ask) ([]time.Duration, error) {
		if err := json.NewEncoder(in).Encode(a); err != nil {
			return nil, err
		}
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("node ended: %w", err)
		}
		var took []time.Duration
		return took, json.Unmarshal(line, &took)
	}
	e := &engine{pid: cmd.Process.Pid, close: func() { in.Close(); io.Copy(io.Discard, r); cmd.Wait() }}
	e.run = func(_ context.Context, n int) ([]time.Duration, error) { return say(ask{Runs: n}) }
	first := ask{Model: m.path, Threads: threads, Runs: 1}
	for name, t := range m.in {
		shape := t.Shape
		if shape == nil {
			shape = []int64{}
		}
		first.In = append(first.In, input{name, t.Type, shape, base64.StdEncoding.EncodeToString(t.Data)})
	}
	if _, err := say(first); err != nil {
		return nil, err
	}
	e.cold = time.Since(begin)
	return e, nil
}
