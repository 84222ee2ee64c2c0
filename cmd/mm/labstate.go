package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/workspace"
)

// backends opens a backend registry. The trust file of the home decides which
// evidence counts.
func (p *program) backends(dir string) (r *records.Registry, err error) {
	err = p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		trusted, err := vouching(w, nil)
		if err == nil {
			r, err = records.Open(dir, htp.KnownChips(), trusted)
		}
		return err
	})
	return r, err
}

func (p *program) labBackends(c *cli.Context) error {
	r, err := p.backends(c.String("dir"))
	if err != nil {
		return err
	}
	return p.PrintOr(r.Entries, func() error {
		return p.PrintTable([]string{"BACKEND", "FAMILY", "PHONE", "CONFIRMED FOR"}, rowsOf(r.Entries, func(e records.Entry) []string {
			for _, why := range e.Refused {
				p.Note("%s: invalid confirmation: %s", e.ID, why)
			}
			return []string{e.ID, e.Family, fmt.Sprint(e.Phone), e.Chips()}
		}))
	})
}

func (p *program) labBackendAdd(c *cli.Context) error {
	var b records.Backend
	if err := records.ReadJSON(c.Args().First(), &b); err != nil {
		return err
	}
	r, err := p.backends(c.String("dir"))
	if err != nil {
		return err
	}
	return r.Add(c.Context, b)
}

func (p *program) labPromote(c *cli.Context) error {
	r, err := p.backends(c.String("dir"))
	if err != nil {
		return err
	}
	got, err := r.Promote(c.Context, c.Args().First(), c.Args().Get(1))
	if err != nil {
		return diag.Exiting(diag.ExitRefused, err)
	}
	return p.PrintLine(got, "%s is confirmed for %s by %s", c.Args().First(), got.SoC, got.Evidence)
}

func (p *program) labRoute(c *cli.Context) error {
	r, err := p.backends(c.String("dir"))
	if err != nil {
		return err
	}
	ids := r.Routable(records.Capability(c.Args().First()), c.String("soc"))
	err = p.PrintOr(listed(ids), func() error { return p.PrintLines(ids) })
	if err == nil && len(ids) == 0 {
		return no("no backend is eligible for %s there", c.Args().First())
	}
	return err
}

func (p *program) labChoose(c *cli.Context) error {
	policy, err := policyOptions(c)
	if err != nil {
		return err
	}
	eligible, err := p.eligibleOptions(c)
	if err != nil {
		return err
	}
	d, err := experiment.Choose(c.Context, c.Args().First(), c.String("op"), eligible, policy)
	if err != nil {
		return err
	}
	return p.PrintLine(d, "%s\t%s", d.Backend, d.Rationale)
}

// policyOptions reads the policy. Parameters of other policies are refused.
func policyOptions(c *cli.Context) (experiment.Policy, error) {
	p := experiment.Policy{Kind: c.String("policy"), Prefer: c.StringSlice("prefer"), Epsilon: c.Float64("epsilon"), C: c.Float64("c"), Seed: c.Uint64("seed")}
	for _, f := range []struct{ flag, kind string }{{"prefer", experiment.Static}, {"epsilon", experiment.Greedy}, {"seed", experiment.Greedy}, {"c", experiment.UCB}} {
		if c.IsSet(f.flag) && p.Kind != f.kind {
			return p, diag.Usagef("--%s is for the policy %s, got %s", f.flag, f.kind, p.Kind)
		}
	}
	switch {
	case c.IsSet("epsilon") && !(p.Epsilon > 0 && p.Epsilon <= 1):
		return p, diag.Usagef("--epsilon %v: must be above 0 and at most 1", p.Epsilon)
	case c.IsSet("c") && !(p.C > 0 && p.C < math.MaxFloat64):
		return p, diag.Usagef("--c %v: must be positive", p.C)
	}
	return p, nil
}

// eligibleOptions returns the backends of the command line; with --registry, those
// that have the capability on the chip.
func (p *program) eligibleOptions(c *cli.Context) ([]string, error) {
	ids, dir, what, chip := c.StringSlice("backend"), c.String("registry"), c.String("capability"), c.String("soc")
	switch {
	case dir == "" && (what != "" || chip != ""):
		return nil, diag.Usagef("--capability and --soc require --registry")
	case dir == "":
		return ids, nil
	case what == "":
		return nil, diag.Usagef("--registry requires --capability")
	}
	r, err := p.backends(dir)
	if err != nil {
		return nil, err
	}
	may, err := r.Eligible(ids, records.Capability(what), chip)
	if err != nil {
		return nil, diag.Usage(err)
	}
	for _, id := range ids {
		if !slices.Contains(may, id) {
			p.Note("%s is not eligible for %s there", id, what)
		}
	}
	if len(may) == 0 {
		return nil, no("no backend is eligible for %s there", what)
	}
	return may, nil
}

func (p *program) labObserve(c *cli.Context) error {
	row := experiment.HistoryRow{Observed: &experiment.Observation{Op: c.String("op"), Backend: c.String("backend"), LatencyMS: c.Float64("ms"), Failed: c.Bool("failed")}}
	if err := new(experiment.Scheduler).Add(row); err != nil {
		return diag.Usage(err)
	}
	return records.Append(c.Context, c.Args().First(), row)
}

func (p *program) labReplay(c *cli.Context) error {
	rows, err := p.history(c.Args().First(), c.String("key"))
	if err != nil {
		return err
	}
	n, wrong, err := experiment.Replay(rows)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Args().First(), err)
	}
	err = p.PrintOr(map[string]any{"decisions": n, "mismatches": listed(wrong)}, func() error {
		for _, w := range wrong {
			fmt.Fprintf(p.Stdout, "row %d, %s: recorded %s, replayed %s\n", w.Row, w.Op, w.Decided, w.Replay)
		}
		return p.Line("%s, %d differ", diag.Count(n, "choice"), len(wrong))
	})
	if err == nil && len(wrong) > 0 {
		return no("%s of the history differ when replayed", diag.Count(len(wrong), "choice"))
	}
	return err
}

// history reads choices and observations from a journal or from the chain of a run.
func (p *program) history(path, key string) (rows []experiment.HistoryRow, err error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return records.ReadExisting[experiment.HistoryRow](path)
	}
	err = p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		public, err := p.publicKey(w, key)
		if err != nil {
			return err
		}
		rows, err = experiment.ReadHistory(path, public, experiment.Check{})
		if errors.Is(err, chain.ErrUnfinished) {
			p.Note("the run was killed while writing its last row, which is ignored")
			return nil
		}
		return broken(err)
	})
	return rows, err
}

func (p *program) labGraph(c *cli.Context) error {
	g, err := records.ReadGraph(c.Args().First())
	if err == nil && c.String("node") != "" {
		g, err = g.Neighbors(c.String("node"), c.String("edge"))
	}
	g.Nodes, g.Edges = listed(g.Nodes), listed(g.Edges)
	return written(p, g, err)
}

func (p *program) labGraphAdd(c *cli.Context) error {
	var g records.Graph
	if err := records.ReadJSON(c.Args().Get(1), &g); err != nil {
		return err
	}
	return records.AddToGraph(c.Context, c.Args().First(), g.Nodes, g.Edges)
}

func (p *program) labPendingAdd(c *cli.Context) error {
	u := records.Upload{
		File: c.Args().Get(1), Target: records.UploadTarget{Kind: c.String("kind"), Repo: c.String("repo"), Path: c.String("path")},
		Licence: c.String("licence"), Blocked: c.String("blocked-by"), Queued: time.Now().UTC().Format(time.RFC3339),
	}
	u, err := records.AddUpload(c.Context, c.Args().First(), u, c.Bool("absent"))
	if err != nil {
		return err
	}
	return p.PrintLine(u, "%s %s", u.ID, u.SHA256)
}

func (p *program) labPendingList(c *cli.Context) error {
	items, err := records.Uploads(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	return printRows(p, items, []string{"ID", "STATE", "FILE", "TO", "BLOCKED BY"}, func(i records.UploadItem) []string {
		return []string{i.ID, i.State, i.File, i.Target.Kind + " " + i.Target.Repo + "/" + i.Target.Path, i.Blocked}
	})
}
