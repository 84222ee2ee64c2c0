// Command mm validates, composes, signs, ships and runs modular multimodal
// models.
//
// This file is the map of the program: every command, and where each is made.
// A command lives in a file of its own, fills the Options of the library that
// does the work and prints what comes back. Results go to stdout, messages to
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
	"syscall"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/assemble/export/npu"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/corellm"
	"mm-abi.org/mm/runtimes/coreonnx"
	"mm-abi.org/mm/runtimes/llamacpp"
	"mm-abi.org/mm/runtimes/onnxrt"
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

// unreleased is the version of a program that no release made.
const unreleased = "0.1.0-dev"

// version is the release, set by the linker.
var version = unreleased

func main() {
	if len(os.Args) == 2 && os.Args[1] == process.Command { // started by mm, to become a skill's program
		process.Inner()
	}
	// A library that reads FLAC notes there what nobody here can act on.
	log.SetOutput(io.Discard)
	if os.Getenv("MM_TEST_ONE_THREAD") != "" { // scripts/faults.sh counts system calls of one thread
		runtime.LockOSThread()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &results{Writer: stdout}
	p := &program{stdin: stdin, stdout: out, stderr: stderr, engines: engines(), revision: revision()}
	app := p.app()
	err := app.RunContext(ctx, permute(app, args))
	if err == nil {
		err = out.err
	}
	if p.skilled != nil {
		err = cmp.Or(err, p.skilled.Close())
	}
	return p.exit(err)
}

// wrongLevel is the usage error of an MM_CPU that this machine does not have.
func wrongLevel(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// engines lists the engines, the preferred one first.
func engines() []runtimes.Engine {
	return []runtimes.Engine{
		corellm.Engine{},
		coreonnx.Engine{},
		llamacpp.Engine{Home: workspace.DefaultHome},
		onnxrt.Engine{Home: workspace.DefaultHome},
		&qnn.Engine{Home: workspace.DefaultHome},
	}
}

// executors are what runs skills, by the key of a manifest's runtime. Compiled
// code is kept in the home. The closer is for when none of their guests is left.
func executors(ctx context.Context, w *workspace.Workspace) (map[string]sandbox.Executor, io.Closer, error) {
	modules, err := wasm.New(ctx, wasm.Options{Cache: w.SkillDir(), Fetcher: &wasm.HTTPClient{}})
	if err != nil {
		return nil, nil, err
	}
	// The interpreter is found in the home, whatever is worked on.
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

// closers are closed in their order.
type closers []io.Closer

// Close implements io.Closer.
func (c closers) Close() error {
	var all error
	for _, one := range c {
		all = errors.Join(all, one.Close())
	}
	return all
}

// exporters lists the formats that assemble writes.
func exporters() []assemble.Exporter {
	return []assemble.Exporter{
		quantize.Exporter{},
		export.NewVerbatim(abi.ONNX),
		export.NewVerbatim(abi.Safetensors),
		npu.Exporter{Compiler: compile.Exporter{Engine: &qnn.Engine{Home: workspace.DefaultHome}}},
	}
}

// program is what every command shares: the streams, and the flags that hold
// for all of them.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	json           bool
	quiet          bool
	engines        []runtimes.Engine      // in the order of preference
	revision       func() (string, error) // of the program
	said           []talk.Part            // by the flags of a request, in their order
	skills         skills.Options         // of builds that have some
	skilled        io.Closer              // what runs them; nil: nothing yet
}

func (p *program) app() *cli.App {
	app := &cli.App{
		Name:                      "mm",
		Usage:                     "compose, sign, ship and run modular multimodal models",
		Version:                   built().Version,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true, // --export onnx=a,b is one value
		Reader:                    p.stdin,
		Writer:                    p.stdout,
		ErrWriter:                 p.stderr,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return usageError{withNearest(err, nil)} },
		Action:                    noCommand("", nil),
		EnableBashCompletion:      true,
		Flags:                     []cli.Flag{cli.HelpFlag}, // the library's own goes with its help command
		Before:                    func(*cli.Context) error { return wrongLevel(cpu.Check()) },
		Commands: []*cli.Command{
			p.validateCommand(),
			p.lockCommand(),
			p.assembleCommand(),
			p.moduleCommand(),
			p.runCommand(),
			p.chatCommand(),
			p.inspectCommand(),
			p.pushCommand(),
			p.pullCommand(),
			p.registryCommand(),
			p.mcpCommand(),
			p.skillCommand(),
			p.demoCommand(),
			p.trainCommand(),
			p.dataCommand(),
			p.gradcheckCommand(),
			p.evalCommand(),
			p.tokenizerCommand(),
			p.quantizeCommand(),
			p.onnxCommand(),
			p.qnnCommand(),
			p.labCommand(),
			p.deviceCommand(),
			p.doctorCommand(),
			p.runtimeCommand(),
			p.lsCommand(),
			p.tagCommand(),
			p.rmCommand(),
			p.gcCommand(),
			p.fsckCommand(),
			p.keysCommand(),
			p.trustCommand(),
			p.signCommand(),
			p.verifyCommand(),
			p.auditCommand(),
			p.loginCommand(),
			p.logoutCommand(),
			p.helpCommand(),
			p.versionCommand(),
			p.completionCommand(),
			p.manCommand(),
		},
	}
	prepare(app)
	return app
}
