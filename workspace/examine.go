package workspace

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"mm-abi.org/mm/core/cpu"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/skills/sandbox/process"
	"mm-abi.org/mm/workspace/home"
)

// Finding is one thing that was looked at.
type Finding struct {
	What   string `json:"what"`
	State  string `json:"state"` // ok, missing, fault
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// ExamineOptions describe the program for [Workspace.Examine].
type ExamineOptions struct {
	Version string
	Engines []runtimes.Engine // those that it has, in the order of preference
}

// Examine reports what this machine can run and the state of the home, without
// changing it.
func (w *Workspace) Examine(ctx context.Context, opt ExamineOptions) []Finding {
	found := append(examineProgram(ctx, opt), w.examineEngines(ctx)...)
	return append(found, w.examineHome(ctx)...)
}

func (w *Workspace) examineHome(ctx context.Context) []Finding {
	store := Finding{"store", "ok", "none yet", "mm assemble or mm pull makes one"}
	if w.hasStore() {
		store = w.examineStore(ctx)
	}
	key := Finding{"signing key", "missing", "none at " + w.KeyPrefix(DefaultKey) + ".key", "mm keys generate makes one"}
	if home.Exists(w.KeyPrefix(DefaultKey) + ".key") {
		key = Finding{"signing key", "ok", w.KeyPrefix(DefaultKey) + ".key", ""}
	}
	return []Finding{{"home", "ok", w.home, ""}, store, key, w.examineTrust(), w.examineAudit(ctx)}
}

func (w *Workspace) examineStore(ctx context.Context) Finding {
	s, err := registry.Open(w.StoreDir(), registry.Options{ReadOnly: true})
	if err != nil {
		return Finding{"store", "fault", err.Error(), "mm fsck says more; mm fsck --repair writes a damaged index.json anew"}
	}
	defer s.Close()
	tags, err := s.Tags(ctx)
	if err != nil {
		return Finding{"store", "fault", err.Error(), "mm fsck says more"}
	}
	if err := fsx.Writable(w.StoreDir()); err != nil {
		return Finding{"store", "fault", err.Error(), "check the folder's permissions"}
	}
	return Finding{"store", "ok", fmt.Sprintf("%d names in %s", len(tags), w.StoreDir()), ""}
}

// examineTrust reports the trust files that decide: the user's and the
// project's.
func (w *Workspace) examineTrust() Finding {
	b, err := w.judges()
	if err != nil {
		return Finding{"trust", "fault", err.Error(), ""}
	}
	if b.Empty {
		return Finding{"trust", "missing", "nobody is trusted", "mm keys generate trusts your own key, mm trust add another's"}
	}
	return Finding{"trust", "ok", fmt.Sprintf("%d keys; %s decides", b.Keys(), strings.Join(b.Files(), " and ")), ""}
}

func (w *Workspace) examineAudit(ctx context.Context) Finding {
	r, err := w.CheckAudit(ctx, "")
	if err != nil {
		return Finding{"audit log", "fault", err.Error(), "mm audit verify says more"}
	}
	return Finding{"audit log", "ok", fmt.Sprintf("%d lines", r.Entries), ""}
}

// examineProgram checks the program, the CPU, the engines that it has and the
// sandbox.
func examineProgram(ctx context.Context, opt ExamineOptions) []Finding {
	checks := []Finding{
		{What: "program", State: "ok", Detail: fmt.Sprintf("mm %s, %s, %s/%s", opt.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		{What: "processor", State: "ok", Detail: fmt.Sprintf("%d threads to use of %d; %s", pool.Default(), runtime.NumCPU(), kernels())},
	}
	for _, b := range opt.Engines {
		ch := Finding{What: "backend " + b.Name(), State: "ok"}
		var missing *runtimes.Unavailable
		info, err := b.Probe(ctx)
		ch.Detail = fmt.Sprintf("version %s, reads %s, computes on %s", info.Version, strings.Join(info.Formats, " and "), strings.Join(info.Devices, " and "))
		if errors.As(err, &missing) {
			ch.State, ch.Detail, ch.Hint = "missing", missing.Why, missing.Hint
		} else if err != nil {
			ch.State, ch.Detail = "fault", err.Error()
		}
		checks = append(checks, ch)
	}
	skills := Finding{What: "native skills", State: "ok", Detail: "namespaces, landlock and seccomp: process, mcp and container skills run"}
	if err := process.New().Probe(ctx); err != nil {
		skills.State, skills.Detail = "missing", err.Error()
		skills.Hint = "process, mcp and container skills are refused here; the others run"
	}
	return append(checks, skills)
}

// examineEngines checks the installed engines, including those that no backend
// uses.
func (w *Workspace) examineEngines(ctx context.Context) []Finding {
	var list []Finding
	all, err := native.States(ctx, w.home)
	if err != nil {
		return []Finding{{What: "engines", State: "fault", Detail: err.Error()}}
	}
	for _, s := range all {
		licenses := "licenses in " + strings.Join(s.Notices, " and ")
		if len(s.Notices) == 0 { // installed by an older mm
			licenses = "license file missing (mm runtime install " + s.Name + " adds it)"
		}
		f := Finding{What: "engine " + s.Name + " " + s.Version, State: "ok", Detail: fmt.Sprintf("%s, %s; from %s", s.License, licenses, s.Record.Origin())}
		if s.State != "loads" {
			f.State, f.Detail, f.Hint = "fault", s.State, "mm runtime rm "+s.Name+"@"+s.Version+", or mm runtime install "+s.Name
		}
		list = append(list, f)
	}
	return list
}

// ChangedEngines compares the installed engines with their records, and returns an
// error for each that was changed.
func (w *Workspace) ChangedEngines(ctx context.Context) (diag.List, error) {
	all, err := native.List(w.home)
	var list diag.List
	for _, r := range all {
		var changed *native.ChangedError
		switch err := r.Check(ctx); {
		case errors.As(err, &changed):
			list.Add(diag.Tampered, diag.Pos{File: changed.File}, changed.Error(), changed.Hint())
		case err != nil:
			return list, err
		}
	}
	return list, err
}

// kernels names the instruction set of the kernels, and those that MM_CPU accepts.
func kernels() string {
	var all []string
	for _, l := range cpu.Machine() {
		all = append(all, string(l))
	}
	return fmt.Sprintf("%s kernels (MM_CPU: %s)", cpu.Use(), strings.Join(all, ", "))
}
