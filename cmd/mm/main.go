// Command mm validates, composes, signs, ships and runs modular multimodal models.
//
// This file shows the structure of the program and its wiring; commands.txt declares the
// commands, and actions.go names the action of each, which fills the options of the
// library that does the work and prints the result. Results go to stdout, messages to
// stderr. The exit codes are in exit.go.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/coreml"
	"mm-abi.org/mm/assemble/export/executorch"
	"mm-abi.org/mm/assemble/export/openvino"
	"mm-abi.org/mm/assemble/export/tflite"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
	"mm-abi.org/mm/skills/sandbox/mcpclient"
	"mm-abi.org/mm/skills/sandbox/oci"
	"mm-abi.org/mm/skills/sandbox/process"
	"mm-abi.org/mm/skills/sandbox/python"
	"mm-abi.org/mm/skills/sandbox/starlark"
	"mm-abi.org/mm/skills/sandbox/wasm"
	"mm-abi.org/mm/skills/standard"
	"mm-abi.org/mm/workspace"
)

// version is the release, set by the linker.
var version = console.Unreleased

func main() {
	if len(os.Args) == 2 && os.Args[1] == process.Command { // started by mm as a skill's process
		process.Inner()
	}
	console.DelayCollections()
	// The FLAC library logs messages that users cannot act on.
	log.SetOutput(io.Discard)
	if os.Getenv("MM_TEST_ONE_THREAD") != "" { // scripts/faults.sh counts system calls of one thread
		runtime.LockOSThread()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the program without its process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &console.Results{Writer: stdout}
	p := &program{stdin: stdin, Printer: console.Printer{Stdout: out, Stderr: stderr}, engines: localEngines(), revision: sync.OnceValues(built().Identify)}
	app := p.app(args...)
	err := app.RunContext(ctx, console.Permute(app, args))
	if err == nil {
		err = out.Err
	}
	if p.skillCloser != nil {
		err = cmp.Or(err, p.skillCloser.Close())
	}
	return p.exit(err)
}

// localEngines lists the engines in the order of preference.
func localEngines() []runtimes.Engine {
	return []runtimes.Engine{
		engines.Core{},
		engines.ONNX{},
		engines.LlamaCPP{Home: workspace.DefaultHome},
		engines.ONNXRuntime{Home: workspace.DefaultHome},
		engines.OpenVINO{Home: workspace.DefaultHome},
		engines.LiteRT{Home: workspace.DefaultHome},
		&qnn.Engine{Home: workspace.DefaultHome},
	}
}

// executors returns the executors of skills by the runtime key of a manifest.
// Compiled code is cached in the home. The closer must be closed after the last
// guest.
func executors(ctx context.Context, w *workspace.Workspace) (map[string]sandbox.Executor, io.Closer, error) {
	modules, err := wasm.New(ctx, wasm.Options{Cache: w.SkillDir(), Fetcher: &wasm.HTTPClient{}, Warn: w.Warn})
	if err != nil {
		return nil, nil, err
	}
	// The interpreter is read from the user's home, not from the current project.
	interpreter := func(context.Context) ([]byte, error) { return w.Blob(python.Digest, sandbox.MaxCode) }
	scripts := python.New(python.Options{Interpreter: interpreter, Engine: modules, Fallback: starlark.Executor{}})
	programs := process.New()
	return map[string]sandbox.Executor{
		"builtin":   builtin.Executor{Funcs: standard.Funcs()},
		"wasm":      modules,
		"starlark":  starlark.Executor{},
		"python":    scripts,
		"process":   programs,
		"mcp":       mcpclient.Executor{Programs: programs},
		"container": oci.New(oci.Options{Dir: w.ImageDir(), Blob: w.OpenBlob, Programs: programs}),
	}, closers{scripts, modules}, nil
}

// closers are closed in order.
type closers []io.Closer

// Close implements io.Closer.
func (c closers) Close() error {
	var all error
	for _, one := range c {
		all = errors.Join(all, one.Close())
	}
	return all
}

// exporters lists the exporters of assemble.
func exporters() []assemble.Exporter {
	return []assemble.Exporter{
		quantize.Exporter{},
		export.NewVerbatim(abi.ONNX),
		export.NewVerbatim(abi.Safetensors),
		export.Lowered{Form: coreml.Exporter{}},
		export.Lowered{Form: tflite.Exporter{}},
		export.Lowered{Form: tflite.Exporter{Delegate: true}},
		export.Lowered{Form: openvino.Form{}},
		export.Lowered{Form: executorch.Exporter{}},
		compile.NPU{Compiler: compile.Exporter{Engine: &qnn.Engine{Home: workspace.DefaultHome}}},
	}
}

// program holds the streams and the flags that all commands share.
type program struct {
	console.Printer
	stdin       io.Reader
	engines     []runtimes.Engine      // in the order of preference
	revision    func() (string, error) // of the program
	now         func() time.Time       // of chat templates
	inputs      []talk.Part            // from the flags of mm run, in their order
	skills      skills.Options         // shared by all builds
	skillCloser io.Closer              // closes their executors; nil: none yet
}

func (p *program) app(args ...string) *cli.App {
	app := &cli.App{
		Name:                      "mm",
		Usage:                     "compose, sign, ship and run modular multimodal models",
		Version:                   built().Version,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true, // --export onnx=a,b is one value
		Reader:                    p.stdin,
		Writer:                    p.Stdout,
		ErrWriter:                 p.Stderr,
		ExitErrHandler:            func(*cli.Context, error) {},
		EnableBashCompletion:      true,
		Flags:                     []cli.Flag{cli.HelpFlag}, // the library's own goes with its help command
		Before:                    func(*cli.Context) error { return diag.Usage(cpu.Check()) },
		Commands:                  p.commands(),
	}
	manual().Prepare(app, args)
	return app
}
