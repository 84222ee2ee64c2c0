package dashboard

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/workspace"
)

// Options configures [Collect].
type Options struct {
	Refs    []string // of versions, the oldest first
	Remote  bool     // look at registries, whatever the store has
	Results []string // folders of mm eval suite and mm eval budget
	Compat  string   // table of mm lock; "": none
}

// maxCompat bounds a table of combinations in bytes.
const maxCompat = 4 << 20

// Collect reads the content of a dashboard.
func Collect(ctx context.Context, w *workspace.Workspace, opt Options) (Input, error) {
	var in Input
	places := map[string]bool{}
	for _, arg := range opt.Refs {
		find := w.Find
		if opt.Remote {
			find = w.FindRemote
		}
		at, err := find(ctx, arg)
		if err != nil {
			return in, err
		}
		list, err := w.Overview(ctx, at)
		if err != nil {
			return in, err
		}
		in.Versions = append(in.Versions, list...)
		if place := at.Place(); place != "" && !places[place] {
			places[place] = true
			channels, err := w.Channels(ctx, arg)
			if err != nil {
				return in, err
			}
			in.Channels = append(in.Channels, channels...)
		}
	}
	var faults diag.List
	for _, dir := range opt.Results {
		faults = append(faults, in.results(dir)...)
	}
	if faults.Failed() {
		return in, faults.Err()
	}
	if opt.Compat != "" {
		data, err := fsx.ReadFile(opt.Compat, maxCompat)
		if err != nil {
			return in, err
		}
		if in.Compat, err = builds.ParseCompat(data); err != nil {
			return in, err
		}
	}
	return in, nil
}

// results reads the results and the budgets of a folder, which has one of them at least.
func (in *Input) results(dir string) diag.List {
	report := filepath.Join(dir, eval.ReportFile)
	r, err := eval.ReadReport(report)
	switch {
	case err == nil:
		in.Budgets = append(in.Budgets, r)
		if _, err := os.Stat(filepath.Join(dir, suite.ResultsFile)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	case !errors.Is(err, fs.ErrNotExist) && filepath.Base(dir) != suite.ResultsFile:
		var list diag.List
		list.Add(diag.BadResults, diag.Pos{File: report}, err.Error(), "want budgets.json of mm eval budget --out")
		return list
	}
	run, list := suite.ReadRun(dir)
	if run != nil {
		in.Runs = append(in.Runs, run)
	}
	return list
}
