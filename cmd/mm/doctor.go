package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/cpu"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/runtimes"
)

func (p *program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "say what this machine can run and what is missing",
		Flags: []cli.Flag{p.jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, 0); err != nil {
				return err
			}
			checks := p.examine(c)
			if p.json {
				return p.printJSON(checks)
			}
			var rows [][]string
			for _, ch := range checks {
				rows = append(rows, []string{ch.What, ch.State, ch.Detail})
			}
			if err := p.printTable([]string{"WHAT", "STATE", "DETAIL"}, rows); err != nil {
				return err
			}
			for _, ch := range checks {
				if ch.Hint != "" {
					fmt.Fprintf(p.stdout, "%s: %s\n", ch.What, ch.Hint)
				}
			}
			return nil
		},
	}
}

// check is one line of mm doctor.
type check struct {
	What   string `json:"what"`
	State  string `json:"state"` // ok, missing, fault
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

func (p *program) examine(c *cli.Context) []check {
	checks := []check{
		{"program", "ok", fmt.Sprintf("mm %s, %s, %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH), ""},
		{"processor", "ok", fmt.Sprintf("%d threads to use of %d; %s", pool.Default(), runtime.NumCPU(), kernels()), ""},
	}
	for _, b := range p.engines {
		ch := check{"backend " + b.Name(), "ok", "runs GGUF language models in this process", ""}
		var missing *runtimes.Unavailable
		if _, err := b.Probe(c.Context); errors.As(err, &missing) {
			ch.State, ch.Detail, ch.Hint = "missing", missing.Why, missing.Hint
		} else if err != nil {
			ch.State, ch.Detail = "fault", err.Error()
		}
		checks = append(checks, ch)
	}
	for _, name := range []string{"gguf", "onnx", "qnn"} {
		checks = append(checks, check{"backend " + name, "missing", "this build of mm does not have it", ""})
	}
	return append(checks, p.examineHome(c)...)
}

// kernels names the instruction sets the engine picks its kernels by.
func kernels() string {
	switch {
	case cpu.X86.HasAVX512VNNI && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL:
		return "AVX-512 VNNI kernels"
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return "AVX2 kernels"
	}
	return "plain Go kernels (slow)"
}

func (p *program) examineHome(c *cli.Context) []check {
	dir, err := home()
	if err != nil {
		return []check{{"home", "fault", err.Error(), "set MM_HOME"}}
	}
	checks := []check{{"home", "ok", dir, ""}}
	store := check{"store", "ok", "none yet", "mm assemble or mm pull makes one"}
	if isLayout(filepath.Join(dir, storeDir)) {
		store = examineStore(c, filepath.Join(dir, storeDir))
	}
	key := check{"signing key", "missing", "none at " + filepath.Join(dir, keysDir, defaultKey+".key"), "mm keys generate makes one"}
	if exists(filepath.Join(dir, keysDir, defaultKey+".key")) {
		key = check{"signing key", "ok", filepath.Join(dir, keysDir, defaultKey+".key"), ""}
	}
	trust := check{"trust", "missing", "nobody is trusted", "mm keys generate trusts your own key, mm trust add another's"}
	if file, err := trustPath(c); err != nil {
		trust = check{"trust", "fault", err.Error(), ""}
	} else if t, err := loadTrust(file); err != nil {
		trust = check{"trust", "fault", err.Error(), ""}
	} else if len(t.Keys) > 0 {
		trust = check{"trust", "ok", fmt.Sprintf("%d keys, %d rules in %s", len(t.Keys), len(t.Rules), file), ""}
	}
	return append(checks, store, key, trust)
}

func examineStore(c *cli.Context, dir string) check {
	s, err := registry.Open(dir, registry.Options{ReadOnly: true})
	if err != nil {
		return check{"store", "fault", err.Error(), "mm fsck says more"}
	}
	defer s.Close()
	tags, err := s.Tags(c.Context)
	if err != nil {
		return check{"store", "fault", err.Error(), "mm fsck says more"}
	}
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return check{"store", "fault", err.Error(), "check the folder's permissions"}
	}
	probe.Close()
	os.Remove(probe.Name())
	return check{"store", "ok", fmt.Sprintf("%d names in %s", len(tags), dir), ""}
}
