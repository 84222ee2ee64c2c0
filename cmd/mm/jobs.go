package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/farm"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

// queueOptions reads queueFlags.
func (p *program) queueOptions(c *cli.Context) (farm.Options, error) {
	o := farm.Options{Servers: c.String("server"), Token: c.String("token"), Seed: c.String("nkey"), CA: c.String("ca"), Cert: c.String("cert"), Key: c.String("cert-key"),
		Replicas: c.Int("replicas"), Warn: func(s string) { p.Note("mm: %s", s) }}
	home, err := jobsHome()
	return o.WithToken(filepath.Join(home, "token")), err
}

// jobsHome returns the folder of the queue and its workers on this machine.
func jobsHome() (string, error) {
	home, err := workspace.DefaultHome()
	return filepath.Join(home, "jobs"), err
}

func (p *program) jobsServe(c *cli.Context) error {
	home, err := jobsHome()
	if err != nil {
		return err
	}
	path, err := native.Companion("mm-queue", "MM_QUEUE")
	if err != nil {
		return err
	}
	opt := farm.ServerOptions{Program: path, Dir: cmp.Or(c.String("dir"), filepath.Join(home, "server")), Listen: c.String("listen"),
		Token: cmp.Or(c.String("token"), filepath.Join(home, "token")), Output: p.Stderr}
	for _, name := range []string{"cert", "ca", "name", "cluster", "cluster-listen", "cluster-secret", "routes"} {
		if v := c.String(name); v != "" {
			opt.Args = append(opt.Args, "-"+name, v)
		}
	}
	if v := c.String("cert-key"); v != "" {
		opt.Args = append(opt.Args, "-key", v)
	}
	s, err := farm.Serve(c.Context, opt)
	if err != nil {
		return err
	}
	p.Note("listening on %s, token in %s", s.URL, s.Token)
	err = s.Wait()
	return errors.Join(c.Context.Err(), err)
}

func (p *program) jobsWork(c *cli.Context) error {
	opt, err := p.queueOptions(c)
	if err != nil {
		return err
	}
	opt.Patient = true
	room := farm.Room{Age: c.Duration("keep")}
	if room.Bytes, err = fsx.ParseSize(c.String("room")); err == nil && (room.Bytes <= 0 || room.Age <= 0) {
		err = errors.New("want positive amounts")
	}
	if err != nil {
		return diag.Usagef("--room %s --keep %s: %w", c.String("room"), room.Age, err)
	}
	o := farm.WorkOptions{Queue: opt, Dir: c.String("dir"), Idle: c.Duration("idle"), Room: room}
	if o.Capabilities, err = capabilities(c.String("capability")); err != nil {
		return diag.Usage(err)
	}
	home, err := jobsHome()
	if err != nil {
		return err
	}
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	o.Home = filepath.Join(home, "workers")
	o.Begin = func(w farm.Worker) { p.Note("worker %s: %s", w.Name, w.Capabilities) }
	o.Tell = func(r farm.Result, command string) { p.Note("job %.12s %s: %.1f s", r.Job, command, r.Seconds) }
	return farm.Work(c.Context, o)
}

// capabilities returns those of this machine, its engines, and more.
func capabilities(more string) (farm.Capabilities, error) {
	can := farm.Detect()
	home, err := workspace.DefaultHome()
	if err != nil {
		return nil, err
	}
	records, err := native.List(home)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		can["engine="+r.Name] = true
	}
	if more != "" {
		err = can.Add(more)
	}
	return can, err
}

// withQueue opens a queue for fn.
func (p *program) withQueue(c context.Context, opt farm.Options, fn func(*farm.Queue) error) error {
	q, err := farm.Open(c, opt)
	if err != nil {
		return err
	}
	defer q.Close()
	return fn(q)
}

func (p *program) jobsSubmit(c *cli.Context) error {
	opt, err := p.queueOptions(c)
	if err != nil {
		return err
	}
	j := farm.Job{Args: c.Args().Slice(), Outputs: c.StringSlice("output"), Attempts: c.Int("attempts"), Seconds: int(c.Duration("limit").Seconds())}
	if need := c.String("need"); need != "" {
		j.Needs = strings.Split(need, ",")
	}
	if _, _, err := j.Encode(); err != nil {
		return diag.Usage(err)
	}
	return p.withQueue(c.Context, opt, func(q *farm.Queue) error {
		id, err := q.SubmitFiles(c.Context, j, c.StringSlice("input"), c.Bool("again"))
		return show(p, map[string]string{"job": id}, err, func(map[string]string) error { return p.Line("%s", id) })
	})
}

func (p *program) jobsRun(c *cli.Context) error {
	opt, err := p.queueOptions(c)
	if err != nil {
		return err
	}
	b, err := farm.ReadBatch(c.Args().First())
	if err != nil {
		return err
	}
	run := farm.BatchOptions{Out: c.String("out"), Again: c.Bool("again"), Tell: func(name string, r farm.Result) {
		p.Note("%s: attempt %d, %.1f s, %s", name, r.Attempt, r.Seconds, r.Worker)
	}}
	return p.withQueue(c.Context, opt, func(q *farm.Queue) error {
		steps, err := q.RunBatch(c.Context, b, run)
		if err != nil {
			return err
		}
		type step struct {
			Name string `json:"name"`
			farm.Result
		}
		var list []step
		for _, s := range b.Steps {
			list = append(list, step{s.Name, steps[s.Name]})
		}
		return p.PrintLine(map[string]any{"name": b.Name, "out": run.Out, "steps": list}, "%s: %s in %s", b.Name, diag.Count(len(steps), "job"), run.Out)
	})
}

func (p *program) jobsExport(c *cli.Context) (err error) {
	o := farm.KubernetesOptions{
		Image: c.String("image"), Secret: c.String("secret"), Queue: c.String("queue"), Namespace: c.String("namespace"), Servers: c.String("server"),
		FileImage: c.String("file-image"), FileClaim: c.String("file-claim"), Level: c.String("level"), Workers: c.Int("workers"), MilliCPU: c.Int("milli-cpu"), GPUs: c.Int("gpus"),
	}
	if o.Memory, err = fsx.ParseSize(c.String("memory")); err == nil {
		o.Disk, err = fsx.ParseSize(c.String("disk"))
	}
	if err != nil {
		return diag.Usage(err)
	}
	out := c.String("out")
	m, err := farm.Kubernetes(c.Args().First(), o)
	if err != nil {
		return err
	}
	names, err := m.Write(out)
	return show(p, map[string]any{"folder": out, "files": names}, err, func(map[string]any) error { return p.Line("%s in %s", strings.Join(names, ", "), out) })
}

func (p *program) jobsStatus(c *cli.Context) error {
	opt, err := p.queueOptions(c)
	if err != nil {
		return err
	}
	return p.withQueue(c.Context, opt, func(q *farm.Queue) error {
		s, err := q.Status(c.Context)
		return written(p, s, err)
	})
}

func (p *program) jobsResults(c *cli.Context) error {
	if c.NArg() == 0 {
		return diag.Usagef("usage: mm jobs results JOB…")
	}
	opt, err := p.queueOptions(c)
	if err != nil {
		return err
	}
	ids, out := c.Args().Slice(), c.String("out")
	return p.withQueue(c.Context, opt, func(q *farm.Queue) error {
		list := []farm.Result{}
		var failed error
		err := q.Wait(c.Context, ids, func(r farm.Result) error {
			list, failed = append(list, r), errors.Join(failed, r.Err())
			if !p.JSON {
				if err := p.Line("%s: %d files, attempt %d, %.1f s, %s", r.Job, len(r.Outputs), r.Attempt, r.Seconds, r.Worker); err != nil {
					return err
				}
			}
			return q.Fetch(c.Context, r, out)
		})
		if p.JSON && err == nil {
			err = p.PrintJSON(list)
		}
		return errors.Join(err, failed)
	})
}

func (p *program) experimentTrial(c *cli.Context) error {
	spec, err := fsx.ReadFile(c.Args().First(), farm.MaxSpec)
	if err != nil {
		return err
	}
	return farm.Trial(c.Context, spec, c.String("out"))
}

// trialOptions returns where the trials of a study run, nil for this process.
func (p *program) trialOptions(c *cli.Context) (*farm.TrialOptions, error) {
	opt := &farm.TrialOptions{Dir: c.String("out"), Workers: c.Int("workers"), Queue: farm.Options{Servers: c.String("jobs"), Token: c.String("jobs-token"), CA: c.String("jobs-ca")}}
	own := opt.Workers != 0
	switch {
	case !own && opt.Queue.Servers == "":
		return nil, nil
	case opt.Workers < 0 || own && opt.Queue.Servers != "":
		return nil, diag.Usagef("want --workers N or --jobs URL")
	case !own:
		home, err := jobsHome()
		opt.Queue = opt.Queue.WithToken(filepath.Join(home, "token"))
		return opt, err
	}
	var err error
	if opt.Server, err = native.Companion("mm-queue", "MM_QUEUE"); err == nil {
		opt.Program, err = os.Executable()
	}
	return opt, err
}
