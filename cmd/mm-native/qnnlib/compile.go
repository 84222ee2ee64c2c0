package qnnlib

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/cmd/mm-native/ortlib"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// The name and the library of ONNX Runtime's provider for QNN.
const (
	plugin        = "QNNExecutionProvider"
	pluginLibrary = "onnxruntime_providers_qnn"
)

// compiler returns the version of the ONNX Runtime in the folder, by its file name; "" if it or
// the plugin is missing.
func (e *Engine) compiler() string {
	if _, err := os.Stat(filepath.Join(e.dir, fileName(pluginLibrary))); err != nil {
		return ""
	}
	found, err := filepath.Glob(filepath.Join(e.dir, "libonnxruntime.so.*"))
	if err == nil && len(found) == 1 {
		return strings.TrimPrefix(filepath.Base(found[0]), "libonnxruntime.so.")
	}
	return ""
}

// Compiler is ONNX Runtime with its plugin for QNN. It runs in a separate process: the plugin
// loads and unloads libQnnHtp, which crashes a process that has it loaded already, and the
// library keeps the last chip that was set.
type Compiler struct {
	dir string
	ort *ortlib.Engine
}

// OpenCompiler loads ONNX Runtime and the plugin of a folder.
func OpenCompiler(dir string) (*Compiler, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	c := &Compiler{dir: dir}
	if _, err := os.Stat(c.library(pluginLibrary)); err != nil {
		return nil, fmt.Errorf("missing %s in %s, which compiles", fileName(pluginLibrary), dir)
	}
	if c.ort, err = ortlib.Open(dir); err != nil {
		return nil, err
	}
	if err := c.ort.Register(plugin, c.library(pluginLibrary)); err != nil {
		return nil, fmt.Errorf("loading ONNX Runtime's plugin for QNN: %w", err)
	}
	return c, nil
}

func (c *Compiler) library(name string) string { return filepath.Join(c.dir, fileName(name)) }

// Name returns "qnn-compiler".
func (*Compiler) Name() string { return "qnn-compiler" }

// Probe returns ONNX Runtime's version.
func (c *Compiler) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{Version: c.ort.Version(), Devices: []string{device()}, Formats: []string{string(abi.ONNX)}, License: "MIT", Simulated: simulated()}, nil
}

// Can requires an ONNX model around a context.
func (c *Compiler) Can(p builds.Part) error { return c.ort.Can(p) }

// Open opens a context in ONNX Runtime with its plugin. Tests compare it with running without
// ONNX Runtime.
func (c *Compiler) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	return c.ort.OpenFor(ctx, b, l, ortlib.Session{
		Provider: plugin, Options: map[string]string{"backend_path": c.library("QnnHtp")},
		Config: map[string]string{"session.disable_cpu_ep_fallback": "1"},
	})
}

// Answer compiles a model.
func (c *Compiler) Answer(ctx context.Context, name string, args []byte) (any, error) {
	if name != ask.Compile {
		return nil, fmt.Errorf("qnn: unknown question %q for the compiler", name)
	}
	var a ask.Compilation
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, err
	}
	return c.compile(ctx, a)
}

// compile compiles a model to a context with the plugin. The session is created from bytes: with
// a path the plugin would put it into the graph's name, so the result would depend on it.
func (c *Compiler) compile(ctx context.Context, a ask.Compilation) (ask.Compiled, error) {
	out := ask.Compiled{Ort: c.ort.Version(), Nodes: []ask.Node{}}
	if a.SoC == 0 || !filepath.IsAbs(a.Out) {
		return out, fmt.Errorf("compiling for chip %d into %q: want a chip and an absolute path", a.SoC, a.Out)
	}
	model, err := read(a.Model)
	if err != nil {
		return out, err
	}
	s := ortlib.Session{Provider: plugin, Options: maps.Clone(a.Options), Config: map[string]string{}}
	if s.Options == nil {
		s.Options = map[string]string{}
	}
	s.Options["backend_path"] = c.library("QnnHtp")
	s.Options["soc_model"] = strconv.FormatUint(uint64(a.SoC), 10)
	if a.Folder != "" {
		s.Config["session.model_external_initializers_file_folder_path"] = a.Folder
	}
	look := ortlib.Session{Provider: s.Provider, Options: s.Options, Config: maps.Clone(s.Config)}
	s.Config["session.disable_cpu_ep_fallback"] = "1"
	s.Config["ep.context_enable"] = "1"
	s.Config["ep.context_file_path"] = a.Out
	s.Config["ep.context_embed_mode"] = map[bool]string{false: "0", true: "1"}[a.Embed]
	nodes, err := c.ort.Assign(ctx, model, s)
	if err != nil && strings.Contains(err.Error(), otherORT) {
		return out, fmt.Errorf("the plugin for QNN does not support ONNX Runtime %s in its folder: install the matching version: %w", c.ort.Version(), err)
	}
	if err != nil {
		// A session that may use the processor reports the processor's nodes.
		out.Why = err.Error()
		var second error
		if nodes, second = c.ort.Assign(ctx, model, look); second != nil || !slices.ContainsFunc(nodes, foreign) {
			return out, errors.Join(err, second)
		}
	}
	for _, n := range nodes {
		out.Nodes = append(out.Nodes, ask.Node(n))
	}
	return out, nil
}

// otherORT is in ONNX Runtime's error for a plugin of an older version.
const otherORT = "ort_version_supported"

// foreign reports whether another provider than QNN's runs a node.
func foreign(n ortlib.Node) bool { return n.Provider != plugin }
