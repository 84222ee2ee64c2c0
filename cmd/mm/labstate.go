package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/lab/backends"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/workspace"
)

func (p *program) labBackendCommand() *cli.Command {
	dir := &cli.StringFlag{Name: "dir", Value: "lab", Usage: "`FOLDER` of the registry of backends"}
	return &cli.Command{
		Name: "backend", Usage: "backends, and the chips that evidence confirms them for",
		Description: "A backend that needs confirmation runs nowhere until a record of a device, which was not simulated in\nany part and that a trusted key has signed, promotes it for its chip. The record is stored, and judged anew each time.",
		Subcommands: []*cli.Command{
			{Name: "ls", Aliases: []string{"list"}, Usage: "list backends", Flags: []cli.Flag{p.jsonFlag(), dir}, Action: p.labBackends},
			{Name: "add", Usage: "note a backend of one's own", ArgsUsage: "FILE.json", Flags: []cli.Flag{dir}, Action: p.labBackendAdd},
			{Name: "promote", Usage: "confirm a backend for a chip by a record of a device", ArgsUsage: "BACKEND EVIDENCE.json", Flags: []cli.Flag{p.jsonFlag(), dir}, Action: p.labPromote},
			{
				Name: "route", Usage: "which backends may do something on a chip", ArgsUsage: "CAPABILITY",
				Flags: []cli.Flag{p.jsonFlag(), dir, &cli.StringFlag{Name: "soc", Usage: "`CHIP`; without one nothing is confirmed"}}, Action: p.labRoute,
			},
		},
	}
}

// backends opens the registry that the command line names. Its evidence is
// believed by the home's trust file.
func (p *program) backends(dir string) (r *backends.Registry, err error) {
	err = p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		trusted, err := vouching(w, nil)
		if err == nil {
			r, err = backends.Open(dir, fit.KnownChips(), trusted)
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
	if p.json {
		return p.printJSON(r.Entries)
	}
	var rows [][]string
	for _, e := range r.Entries {
		chips := "not needed"
		if e.Confirm {
			chips = "none"
		}
		for i, x := range e.Confirmed {
			if i == 0 {
				chips = ""
			}
			chips = strings.TrimSpace(fmt.Sprintf("%s %s (%.12s)", chips, x.SoC, x.Evidence))
		}
		rows = append(rows, []string{e.ID, e.Family, fmt.Sprint(e.Phone), chips})
		for _, why := range e.Refused {
			p.say("%s: a confirmation is worth nothing: %s", e.ID, why)
		}
	}
	return p.printTable([]string{"BACKEND", "FAMILY", "PHONE", "CONFIRMED FOR"}, rows)
}

func (p *program) labBackendAdd(c *cli.Context) error {
	var b backends.Backend
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
		return coded{err, exitRefused}
	}
	if p.json {
		return p.printJSON(got)
	}
	_, err = fmt.Fprintf(p.stdout, "%s is confirmed for %s by %s\n", c.Args().First(), got.SoC, got.Evidence)
	return err
}

func (p *program) labRoute(c *cli.Context) error {
	r, err := p.backends(c.String("dir"))
	if err != nil {
		return err
	}
	ids := r.Routable(backends.Capability(c.Args().First()), c.String("soc"))
	if p.json {
		err = p.printJSON(listed(ids))
	} else {
		for _, id := range ids {
			fmt.Fprintln(p.stdout, id)
		}
	}
	if err == nil && len(ids) == 0 {
		return no("no backend may do %s there", c.Args().First())
	}
	return err
}

func (p *program) labScheduleCommand() *cli.Command {
	op := &cli.StringFlag{Name: "op", Usage: "the operation, such as matmul_512x1536x1536", Required: true}
	return &cli.Command{
		Name: "schedule", Usage: "choose backends by how fast they were, so that each choice can be made again",
		Subcommands: []*cli.Command{
			{
				Name: "choose", Usage: "choose a backend and note the choice; exit code 5 where none is eligible", ArgsUsage: "HISTORY.jsonl",
				Description: "With --registry only those of the backends are eligible that may do --capability on the chip. Without, a\nbackend is a name and nothing is asked of it.",
				Flags: []cli.Flag{
					p.jsonFlag(), op,
					&cli.StringSliceFlag{Name: "backend", Usage: "eligible `BACKEND` (repeatable), as mm lab backend route lists them", Required: true},
					&cli.StringFlag{Name: "policy", Value: experiment.Static, Usage: "static, epsilon-greedy or ucb"},
					&cli.StringSliceFlag{Name: "prefer", Usage: "of static: `BACKEND` in the order of preference (repeatable)"},
					&cli.Float64Flag{Name: "epsilon", Usage: "of epsilon-greedy: how often one is drawn, above 0 to 1", DefaultText: "0.1"},
					&cli.Uint64Flag{Name: "seed", Usage: "of epsilon-greedy"},
					&cli.Float64Flag{Name: "c", Usage: "of ucb: the weight of what is little known, in `MILLISECONDS`", DefaultText: "1.4"},
					&cli.StringFlag{Name: "registry", Usage: "ask the registry of backends in `FOLDER` who is eligible"},
					&cli.StringFlag{Name: "capability", Usage: "of --registry: what shall be done, such as inference_only"},
					&cli.StringFlag{Name: "soc", Usage: "of --registry: `CHIP`; without one nothing is confirmed"},
				},
				Action: p.labChoose,
			}, {
				Name: "observe", Usage: "note what a run took", ArgsUsage: "HISTORY.jsonl",
				Flags: []cli.Flag{
					op, &cli.StringFlag{Name: "backend", Usage: "that ran", Required: true},
					&cli.Float64Flag{Name: "ms", Usage: "milliseconds", Required: true}, &cli.BoolFlag{Name: "failed", Usage: "it failed: its time is none"},
				},
				Action: p.labObserve,
			}, {
				Name: "replay", Usage: "make every choice of a history again; exit code 5 where one comes out otherwise", ArgsUsage: "HISTORY.jsonl|DIR",
				Description: "Of a folder of mm lab run, the choices of its steps' arms, out of its chain, which is verified.",
				Flags:       []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "key", Usage: "public key `FILE` of the run (default: the one of mm keys generate)"}}, Action: p.labReplay,
			},
		},
	}
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
	if p.json {
		return p.printJSON(d)
	}
	_, err = fmt.Fprintf(p.stdout, "%s\t%s\n", d.Backend, d.Rationale)
	return err
}

// policyOptions are the policy of the command line. A figure of another is refused.
func policyOptions(c *cli.Context) (experiment.Policy, error) {
	p := experiment.Policy{Kind: c.String("policy"), Prefer: c.StringSlice("prefer"), Epsilon: c.Float64("epsilon"), C: c.Float64("c"), Seed: c.Uint64("seed")}
	for _, f := range []struct{ flag, kind string }{{"prefer", experiment.Static}, {"epsilon", experiment.Greedy}, {"seed", experiment.Greedy}, {"c", experiment.UCB}} {
		if c.IsSet(f.flag) && p.Kind != f.kind {
			return p, usageError{fmt.Errorf("--%s is of the policy %s, this one is %s", f.flag, f.kind, p.Kind)}
		}
	}
	switch {
	case c.IsSet("epsilon") && !(p.Epsilon > 0 && p.Epsilon <= 1):
		return p, usageError{fmt.Errorf("--epsilon is %v, wanted above 0 to 1", p.Epsilon)}
	case c.IsSet("c") && !(p.C > 0 && p.C < math.MaxFloat64):
		return p, usageError{fmt.Errorf("--c is %v, wanted above 0", p.C)}
	}
	return p, nil
}

// eligibleOptions are the backends of the command line, with --registry those that may do
// what shall be done.
func (p *program) eligibleOptions(c *cli.Context) ([]string, error) {
	ids, dir, what, chip := c.StringSlice("backend"), c.String("registry"), c.String("capability"), c.String("soc")
	switch {
	case dir == "" && (what != "" || chip != ""):
		return nil, usageError{fmt.Errorf("--capability and --soc want a --registry")}
	case dir == "":
		return ids, nil
	case what == "":
		return nil, usageError{fmt.Errorf("--registry wants a --capability")}
	}
	r, err := p.backends(dir)
	if err != nil {
		return nil, err
	}
	may, err := r.Eligible(ids, backends.Capability(what), chip)
	if err != nil {
		return nil, usageError{err}
	}
	for _, id := range ids {
		if !slices.Contains(may, id) {
			p.say("%s may not do %s there", id, what)
		}
	}
	if len(may) == 0 {
		return nil, no("no backend may do %s there", what)
	}
	return may, nil
}

func (p *program) labObserve(c *cli.Context) error {
	row := experiment.HistoryRow{Observed: &experiment.Observation{Op: c.String("op"), Backend: c.String("backend"), LatencyMS: c.Float64("ms"), Failed: c.Bool("failed")}}
	if err := new(experiment.Scheduler).Add(row); err != nil {
		return usageError{err}
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
	if p.json {
		err = p.printJSON(map[string]any{"decisions": n, "mismatches": listed(wrong)})
	} else {
		for _, w := range wrong {
			fmt.Fprintf(p.stdout, "row %d, %s: it says %s; replayed %s\n", w.Row, w.Op, w.Decided, w.Replay)
		}
		_, err = fmt.Fprintf(p.stdout, "%s, %d come out otherwise\n", count(n, "choice"), len(wrong))
	}
	if err == nil && len(wrong) > 0 {
		return no("%s of the history come out otherwise", count(len(wrong), "choice"))
	}
	return err
}

// history reads choices and observations, of a journal or of the chain of a run.
func (p *program) history(path, key string) (rows []experiment.HistoryRow, err error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return records.ReadExisting[experiment.HistoryRow](path)
	}
	err = p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error {
		public, err := p.publicKey(w, key)
		if err != nil {
			return err
		}
		rows, err = experiment.ReadHistory(path, public, "")
		if errors.Is(err, chain.ErrUnfinished) {
			p.say("the run was killed in its last row, which is left out")
			return nil
		}
		return broken(err)
	})
	return rows, err
}

func (p *program) labGraphCommand() *cli.Command {
	return &cli.Command{
		Name: "graph", Usage: "what came of what: nodes and edges of experiments",
		Subcommands: []*cli.Command{
			{
				Name: "show", Usage: "list a graph, or what is next to a node", ArgsUsage: "DIR",
				Flags:  []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "node", Usage: "only what is next to the node `ID`"}, &cli.StringFlag{Name: "edge", Usage: "only by edges of `TYPE`"}},
				Action: p.labGraph,
			}, {
				Name: "add", Usage: "add the nodes and edges of a file", ArgsUsage: "DIR FILE.json",
				Description: "The file is an object with nodes and edges. A node that is there stays as it is.", Action: p.labGraphAdd,
			},
		},
	}
}

func (p *program) labGraph(c *cli.Context) error {
	g, err := records.ReadGraph(c.Args().First())
	if err == nil && c.String("node") != "" {
		g, err = g.Neighbors(c.String("node"), c.String("edge"))
	}
	if err != nil {
		return err
	}
	if p.json {
		g.Nodes, g.Edges = listed(g.Nodes), listed(g.Edges)
		return p.printJSON(g)
	}
	var rows [][]string
	for _, n := range g.Nodes {
		what := n.Type
		if n.Placeholder {
			what = "(not written down)"
		}
		rows = append(rows, []string{n.ID, what, n.Time})
	}
	if err := p.printTable([]string{"NODE", "TYPE", "TIME"}, rows); err != nil {
		return err
	}
	for _, e := range g.Edges {
		fmt.Fprintf(p.stdout, "%s %s %s\n", e.From, e.Type, e.To)
	}
	return nil
}

func (p *program) labGraphAdd(c *cli.Context) error {
	var g records.Graph
	if err := records.ReadJSON(c.Args().Get(1), &g); err != nil {
		return err
	}
	return records.AddToGraph(c.Context, c.Args().First(), g.Nodes, g.Edges)
}

func (p *program) labPendingCommand() *cli.Command {
	return &cli.Command{
		Name: "pending", Usage: "files that wait to be uploaded; mm uploads nothing by itself",
		Subcommands: []*cli.Command{
			{
				Name: "add", Usage: "note a file with its SHA-256", ArgsUsage: "LIST.jsonl FILE",
				Flags: []cli.Flag{
					p.jsonFlag(),
					&cli.StringFlag{Name: "kind", Usage: "hf_dataset, hf_model, hf_space, github, oci or external", Required: true},
					&cli.StringFlag{Name: "repo", Usage: "`REPOSITORY` it shall go to", Required: true},
					&cli.StringFlag{Name: "path", Usage: "`PATH` in the repository", Required: true},
					&cli.StringFlag{Name: "blocked-by", Usage: "what is in its way", Required: true},
					&cli.StringFlag{Name: "licence", Usage: "`ID` of what attests its licence"},
					&cli.BoolFlag{Name: "absent", Usage: "the file comes later"},
				},
				Action: p.labPendingAdd,
			}, {
				Name: "ls", Aliases: []string{"list"}, Usage: "list what waits, and whether it is as it was", ArgsUsage: "LIST.jsonl",
				Flags: []cli.Flag{p.jsonFlag()}, Action: p.labPendingList,
			},
		},
	}
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
	if p.json {
		return p.printJSON(u)
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s\n", u.ID, u.SHA256)
	return err
}

func (p *program) labPendingList(c *cli.Context) error {
	items, err := records.Uploads(c.Context, c.Args().First())
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(listed(items))
	}
	var rows [][]string
	for _, i := range items {
		rows = append(rows, []string{i.ID, i.State, i.File, i.Target.Kind + " " + i.Target.Repo + "/" + i.Target.Path, i.Blocked})
	}
	return p.printTable([]string{"ID", "STATE", "FILE", "TO", "BLOCKED BY"}, rows)
}
