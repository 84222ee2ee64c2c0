package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/catalog"
	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/server"
)

func (p *program) demoCommand() *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "the whole way of a build, in a temporary home: assemble, sign, push, pull, verify, run; then what it sees, hears, draws and says",
		Description: "Uses the reference modules and graphs inside of mm, a registry on loopback and two homes\n" +
			"of its own. A picture is captioned and asked about, a spoken digit written down, a picture drawn, a\n" +
			"number spoken; what the build was shown and what it made is left in the folder that --out names. Pictures\n" +
			"and voice are held out of training; --seed shows others. Nothing else is left, unless --keep is given.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "graph", Value: "playbook", Usage: "reference graph to build"},
			&cli.StringFlag{Name: "prompt", Value: "Once upon a time", Usage: "text to continue"},
			&cli.Uint64Flag{Name: "seed", Usage: "seed of the pictures"},
			&cli.StringFlag{Name: "out", Value: "mm-demo", Usage: "leave pictures, sounds and a trace in `DIR`"},
			&cli.StringFlag{Name: "keep", Usage: "leave everything in `DIR`"},
		},
		Action: p.demo,
	}
}

// demoStep is one line of the demo's table.
type demoStep struct {
	Step    string  `json:"step"`
	Command string  `json:"command"`
	MS      float64 `json:"ms"`
	Bytes   int64   `json:"bytes,omitempty"`
	Digest  string  `json:"digest,omitempty"`
	Note    string  `json:"note,omitempty"`
}

// demonstration is a demo under way: each step runs mm itself, as a user
// would.
type demonstration struct {
	p     *program
	ctx   context.Context
	dir   string // of everything
	out   string // of what is shown and made
	steps []demoStep
	shown []demoShown
}

func (p *program) demo(c *cli.Context) (err error) {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	cases, err := eval.Cases(c.Uint64("seed"))
	if err != nil {
		return err
	}
	d := &demonstration{p: p, ctx: c.Context, dir: c.String("keep")}
	if d.out, err = demoFolder(c.String("out")); err != nil {
		return err
	}
	if d.dir == "" {
		if d.dir, err = fsx.MkdirTemp("mm-demo-*"); err != nil {
			return err
		}
		defer fsx.RemoveAll(d.dir)
	}
	if err := d.unpack(); err != nil {
		return err
	}
	address, stop, err := d.serve()
	if err != nil {
		return err
	}
	text, err := d.walk(c.String("graph"), c.String("prompt"), address, cases)
	if stopErr := stop(); err == nil {
		err = stopErr
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"steps": d.steps, "prompt": c.String("prompt"), "text": text, "folder": d.out, "shown": listed(d.shown)})
	}
	if err := d.print(c.String("prompt"), text); err != nil {
		return err
	}
	return d.printShown()
}

// unpack writes the embedded modules and graphs.
func (d *demonstration) unpack() error {
	for name, files := range map[string]fs.FS{"modules": catalog.Reference(), "builds": builds.Reference()} {
		if err := fsx.CopyFS(filepath.Join(d.dir, name), files); err != nil {
			return err
		}
	}
	return nil
}

// serve runs a registry on loopback; stop ends it.
func (d *demonstration) serve() (address string, stop func() error, err error) {
	store, err := registry.Open(filepath.Join(d.dir, "registry"), registry.Options{})
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(d.ctx)
	done := make(chan error, 1)
	go func() { done <- serveStore(ctx, store, listener, server.Options{}, "", "") }()
	return listener.Addr().String(), func() error { cancel(); return <-done }, nil
}

// walk runs the steps and returns what the build answers to the prompt.
func (d *demonstration) walk(graph, prompt, address string, cases []eval.Case) (string, error) {
	here, away := filepath.Join(d.dir, "publisher"), filepath.Join(d.dir, "user")
	file := filepath.Join(d.dir, "builds", graph+".graph.yaml")
	dist := filepath.Join(d.dir, "dist", graph)
	var built struct {
		Digest  string `json:"digest"`
		Version string `json:"version"`
		Targets []struct {
			Bytes int64 `json:"bytes"`
		} `json:"targets"`
	}
	var sent, got struct {
		Digest string `json:"digest"`
		Report struct {
			Bytes int64 `json:"bytes"`
		} `json:"report"`
	}
	var pair struct {
		Public string `json:"public"`
	}
	var answer ran
	if err := d.step("keys", here, &pair, "keys", "generate", "--json"); err != nil {
		return "", err
	}
	parts, err := d.parts(file)
	if err != nil {
		return "", err
	}
	if err := d.step("assemble, sign", here, &built, append([]string{"assemble", file, "--out", dist, "--sign", "default", "--locked", "--json"}, parts.exports()...)...); err != nil {
		return "", err
	}
	for _, t := range built.Targets {
		d.last().Bytes += t.Bytes
	}
	d.last().Digest, d.last().Note = built.Digest, fmt.Sprintf("%d targets", len(built.Targets))
	ref := address + "/demo/" + graph + ":" + built.Version
	if err := d.step("push", here, &sent, "push", dist, ref, "--json"); err != nil {
		return "", err
	}
	d.last().Bytes, d.last().Digest = sent.Report.Bytes, sent.Digest
	if err := d.step("trust", away, nil, "trust", "add", pair.Public, "--match", address+"/demo/**"); err != nil {
		return "", err
	}
	if err := d.step("pull", away, &got, "pull", ref, "--json"); err != nil {
		return "", err
	}
	d.last().Bytes, d.last().Digest = got.Report.Bytes, got.Digest
	var verified struct {
		Digest string   `json:"digest"`
		Keys   []string `json:"keys"`
	}
	if err := d.step("verify", away, &verified, "verify", ref, "--json"); err != nil {
		return "", err
	}
	d.last().Digest, d.last().Note = verified.Digest, "key "+verified.Keys[0][:12]
	if err := d.step("run", away, &answer, "run", ref, "--prompt", prompt, "--max-tokens", "48", "--json"); err != nil {
		return "", err
	}
	d.last().Note = fmt.Sprintf("first token %.1f ms, %.0f tok/s", answer.Timings.FirstTokenMS, answer.Timings.PerSecond)
	return answer.Text, d.show(ref, away, parts, cases)
}

func (d *demonstration) last() *demoStep { return &d.steps[len(d.steps)-1] }

// step runs mm in the given home and decodes what it prints into result.
func (d *demonstration) step(name, home string, result any, args ...string) error {
	restore := setHome(home)
	defer restore()
	d.p.say("$ mm %s", strings.ReplaceAll(strings.Join(args, " "), d.dir+string(filepath.Separator), ""))
	var out, errs bytes.Buffer
	start := time.Now()
	code := run(d.ctx, append([]string{"mm"}, args...), d.p.stdin, &out, &errs)
	d.steps = append(d.steps, demoStep{Step: name, Command: "mm " + strings.Join(args, " "), MS: ms(time.Since(start))})
	if code != exitOK {
		return fmt.Errorf("mm %s ended with %d:\n%s%s", args[0], code, errs.String(), out.String())
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(out.Bytes(), result); err != nil {
		return fmt.Errorf("mm %s printed no JSON: %w", args[0], err)
	}
	return nil
}

// setHome points mm at a home of the demo, with a key that has an empty
// password and without the user's own logins.
func setHome(dir string) (restore func()) {
	old := map[string]string{}
	for name, value := range map[string]string{"MM_HOME": dir, passwordEnv: "", "DOCKER_CONFIG": filepath.Join(dir, "docker")} {
		if v, ok := os.LookupEnv(name); ok {
			old[name] = v
		} else {
			old[name] = "\x00"
		}
		os.Setenv(name, value)
	}
	return func() {
		for name, v := range old {
			if v == "\x00" {
				os.Unsetenv(name)
			} else {
				os.Setenv(name, v)
			}
		}
	}
}

func (d *demonstration) print(prompt, text string) error {
	var rows [][]string
	for _, s := range d.steps {
		bytes := ""
		if s.Bytes > 0 {
			bytes = size(s.Bytes)
		}
		rows = append(rows, []string{s.Step, fmt.Sprintf("%.0f ms", s.MS), bytes, short(s.Digest), s.Note})
	}
	fmt.Fprintln(d.p.stdout)
	if err := d.p.printTable([]string{"STEP", "TIME", "SIZE", "DIGEST", ""}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(d.p.stdout, "\n%s%s\n", prompt, text)
	return err
}
