package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/farm"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/workspace"
)

// queueFlags are the flags of clients of a queue.
func queueFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "server", Usage: "`URL`s of the servers, separated by commas: nats://HOST:PORT on this machine, otherwise tls://HOST:PORT", Value: farm.DefaultServer},
		&cli.StringFlag{Name: "token", Usage: "`FILE` with the token (default: that of mm jobs serve)"},
		&cli.StringFlag{Name: "nkey", Usage: "`FILE` with the seed of an nkey"},
		&cli.StringFlag{Name: "ca", Usage: "`FILE` with the authorities of the servers' certificates"},
		&cli.StringFlag{Name: "cert", Usage: "`FILE` with this client's certificate"},
		&cli.StringFlag{Name: "cert-key", Usage: "`FILE` with its key"},
		&cli.IntFlag{Name: "replicas", Usage: "copies of the queue (default: 3 in a cluster, otherwise 1)"},
	}
}

// queueOptions reads queueFlags.
func (p *program) queueOptions(c *cli.Context) (farm.Options, error) {
	o := farm.Options{Servers: c.String("server"), Token: c.String("token"), Seed: c.String("nkey"), CA: c.String("ca"), Cert: c.String("cert"), Key: c.String("cert-key"),
		Replicas: c.Int("replicas"), Warn: func(s string) { p.say("mm: %s", s) }}
	home, err := jobsHome()
	return o.WithToken(filepath.Join(home, "token")), err
}

// jobsHome returns the folder of the queue and its workers on this machine.
func jobsHome() (string, error) {
	home, err := workspace.DefaultHome()
	return filepath.Join(home, "jobs"), err
}

func (p *program) jobsCommand() *cli.Command {
	return &cli.Command{
		Name: "jobs", Usage: "run commands on several machines, each with one result",
		Description: "A job is a command of mm with its files, in a queue of NATS JetStream. Workers take the jobs whose\n" +
			"needs they meet. docs/howto/jobs.md describes servers, workers and failures.",
		Subcommands: []*cli.Command{
			{
				Name: "serve", Usage: "start a server of the queue, which mm-queue is",
				Description: "Beyond this machine, a server wants a certificate and a token. The token is created if FILE is missing.",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "listen", Usage: "`ADDRESS`", Value: "127.0.0.1:4222"},
					&cli.StringFlag{Name: "dir", Usage: "`FOLDER` of the state (default: jobs/server in the home)"},
					&cli.StringFlag{Name: "token", Usage: "`FILE` with the token that clients present (default: jobs/token in the home)"},
					&cli.StringFlag{Name: "cert", Usage: "`FILE` with the certificate"},
					&cli.StringFlag{Name: "cert-key", Usage: "`FILE` with its key"},
					&cli.StringFlag{Name: "ca", Usage: "`FILE` with the authorities of clients' certificates"},
					&cli.StringFlag{Name: "name", Usage: "`NAME` of the server in a cluster"},
					&cli.StringFlag{Name: "cluster", Usage: "`NAME` of the cluster"},
					&cli.StringFlag{Name: "cluster-listen", Usage: "`ADDRESS` for the other servers"},
					&cli.StringFlag{Name: "cluster-secret", Usage: "`FILE` with the secret of the servers"},
					&cli.StringFlag{Name: "routes", Usage: "`ADDRESSES` of the other servers, separated by commas"},
				},
				Action: p.jobsServe,
			},
			{
				Name: "work", Usage: "execute jobs until interrupted",
				Description: "Kernels, memory, cores and installed engines are found. A job that is interrupted returns to the queue.",
				Flags: append(queueFlags(),
					&cli.StringFlag{Name: "capability", Usage: "more capabilities, as a `LIST` such as gpu,ram=16G"},
					&cli.StringFlag{Name: "dir", Usage: "`FOLDER` of this worker (default: a free one below jobs/workers in the home)"},
					&cli.DurationFlag{Name: "idle", Usage: "end after this `TIME` without a job"},
					&cli.StringFlag{Name: "room", Usage: "`SIZE` of the folders that jobs of one study share; the oldest beyond it are removed", Value: "32G"},
					&cli.DurationFlag{Name: "keep", Usage: "remove such a folder after this `TIME` without a job", Value: farm.DefaultAge}),
				Action: p.jobsWork,
			},
			{
				Name: "submit", Usage: "put a command of mm into the queue", ArgsUsage: "COMMAND…",
				Description: "The command runs in a folder with the files of --input; paths are relative to it. Prints the job's\n" +
					"name, its digest: the same job is not executed twice. Options of mm follow after --.",
				Flags: append(queueFlags(), p.jsonFlag(),
					&cli.StringSliceFlag{Name: "input", Usage: "`FILE` that the command reads (repeatable)"},
					&cli.StringSliceFlag{Name: "output", Usage: "`FILE` that the command writes (repeatable)"},
					&cli.StringFlag{Name: "need", Usage: "`LIST` of capabilities that the worker must have"},
					&cli.IntFlag{Name: "attempts", Usage: "`N` attempts before the job fails", Value: 5},
					&cli.DurationFlag{Name: "limit", Usage: "`TIME` of an attempt"},
					&cli.BoolFlag{Name: "again", Usage: "execute a job that failed once more"}),
				Action: p.jobsSubmit,
			},
			{
				Name: "run", Usage: "run the jobs of a file and fetch their results", ArgsUsage: "JOBS.yaml",
				Description: "The file describes an evaluation, a data set, a build or commands; docs/howto/jobs.md has examples. The\n" +
					"results are those of one machine, byte for byte. A run that was killed continues with the same command.",
				Flags: append(queueFlags(), p.jsonFlag(),
					&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FOLDER` of the results", Required: true},
					&cli.BoolFlag{Name: "again", Usage: "execute jobs that failed once more"}),
				Action: p.jobsRun,
			},
			p.jobsExportCommand(),
			{Name: "status", Usage: "jobs that wait or run, results and workers", Flags: append(queueFlags(), p.jsonFlag()), Action: p.jobsStatus},
			{
				Name: "results", Usage: "wait for jobs and fetch the files that they wrote", ArgsUsage: "JOB…",
				Flags: append(queueFlags(), p.jsonFlag(), &cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FOLDER` that receives the files of each job, in a folder of its name"}), Action: p.jobsResults,
			},
		},
	}
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
	opt := farm.ServerOptions{Program: path, Dir: c.String("dir"), Listen: c.String("listen"), Token: c.String("token"), Output: p.stderr}
	if opt.Dir == "" {
		opt.Dir = filepath.Join(home, "server")
	}
	if opt.Token == "" {
		opt.Token = filepath.Join(home, "token")
	}
	for _, name := range []string{"cert", "ca", "name", "cluster", "cluster-listen", "cluster-secret", "routes"} {
		if v := c.String(name); v != "" {
			opt.Args = append(opt.Args, "-"+name, v)
		}
	}
	if v := c.String("cert-key"); v != "" {
		opt.Args = append(opt.Args, "-key", v)
	}
	return p.serveJobs(c.Context, opt)
}

// serveJobs runs a server until ctx is done.
func (p *program) serveJobs(ctx context.Context, opt farm.ServerOptions) error {
	s, err := farm.Serve(ctx, opt)
	if err != nil {
		return err
	}
	p.say("listening on %s, token in %s", s.URL, s.Token)
	err = s.Wait()
	return errors.Join(ctx.Err(), err)
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
		return usageError{fmt.Errorf("--room %s --keep %s: %w", c.String("room"), room.Age, err)}
	}
	return p.workJobs(c.Context, farm.WorkOptions{Queue: opt, Dir: c.String("dir"), Idle: c.Duration("idle"), Room: room}, c.String("capability"))
}

// workJobs executes jobs until ctx is done or none came for the idle time.
func (p *program) workJobs(ctx context.Context, o farm.WorkOptions, more string) (err error) {
	if o.Capabilities, err = capabilities(more); err != nil {
		return usageError{err}
	}
	home, err := jobsHome()
	if err != nil {
		return err
	}
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	o.Home = filepath.Join(home, "workers")
	o.Begin = func(w farm.Worker) { p.say("worker %s: %s", w.Name, w.Capabilities) }
	o.Tell = func(r farm.Result, command string) { p.say("job %.12s %s: %.1f s", r.Job, command, r.Seconds) }
	return farm.Work(ctx, o)
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
		return usageError{err}
	}
	files, again := c.StringSlice("input"), c.Bool("again")
	return p.withQueue(c.Context, opt, func(q *farm.Queue) error {
		id, err := q.SubmitFiles(c.Context, j, files, again)
		if err != nil {
			return err
		}
		return p.printOr(struct {
			Job string `json:"job"`
		}{id}, func() error { return p.line("%s", id) })
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
		p.say("%s: attempt %d, %.1f s, %s", name, r.Attempt, r.Seconds, r.Worker)
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
		return p.printLine(map[string]any{"name": b.Name, "out": run.Out, "steps": list}, "%s: %s in %s", b.Name, count(len(steps), "job"), run.Out)
	})
}

func (p *program) jobsExportCommand() *cli.Command {
	var o farm.KubernetesOptions
	return &cli.Command{Name: "export", Usage: "write the jobs of a file for another scheduler", Subcommands: []*cli.Command{{
		Name: "kubernetes", Usage: "write manifests of JobSet and Kueue for a study or a file of jobs", ArgsUsage: "STUDY.yaml|JOBS.yaml",
		Description: "Writes jobset.yaml (a server of the queue, a driver with the results, workers) and, with --queue,\n" +
			"queues.yaml for the administrator. Equal files and options give equal bytes. docs/howto/jobs.md lists\n" +
			"the keys of the secret.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FOLDER` of the manifests", Required: true},
			&cli.StringFlag{Name: "image", Usage: "image of mm, `REPOSITORY@sha256:DIGEST`", Required: true, Destination: &o.Image},
			&cli.StringFlag{Name: "secret", Usage: "`NAME` of the secret with token and certificates", Value: "mm-jobs", Destination: &o.Secret},
			&cli.StringFlag{Name: "queue", Usage: "`NAME` of Kueue's local queue (default: none)", Destination: &o.Queue},
			&cli.StringFlag{Name: "namespace", Usage: "`NAME` (default: that of kubectl)", Destination: &o.Namespace},
			&cli.StringFlag{Name: "server", Usage: "`URL`s of an existing queue, tls://HOST:PORT (default: a server in the set)", Destination: &o.Servers},
			&cli.StringFlag{Name: "file-image", Usage: "OCI image with the files, `REPOSITORY@sha256:DIGEST` (default: a ConfigMap)", Destination: &o.FileImage},
			&cli.StringFlag{Name: "file-claim", Usage: "`NAME` of a PersistentVolumeClaim with the files", Destination: &o.FileClaim},
			&cli.StringFlag{Name: "level", Usage: "`LEVEL` of the kernels on every machine, such as avx2 (default: that of each)", Destination: &o.Level},
			&cli.IntFlag{Name: "workers", Usage: "`N` workers", Value: 4, Destination: &o.Workers},
			&cli.IntFlag{Name: "milli-cpu", Usage: "thousandths of a core for each worker", Value: 2000, Destination: &o.MilliCPU},
			&cli.StringFlag{Name: "memory", Usage: "`SIZE` for each worker", Value: "4G"},
			&cli.IntFlag{Name: "gpus", Usage: "GPUs of each worker", Destination: &o.GPUs},
			&cli.StringFlag{Name: "disk", Usage: "`SIZE` of the results, the server's state and a worker's folder each", Value: "10G"},
		},
		Action: func(c *cli.Context) (err error) {
			if o.Memory, err = fsx.ParseSize(c.String("memory")); err == nil {
				o.Disk, err = fsx.ParseSize(c.String("disk"))
			}
			if err != nil {
				return usageError{err}
			}
			return p.exportKubernetes(c.Args().First(), c.String("out"), o)
		},
	}}}
}

// exportKubernetes writes the manifests of a file.
func (p *program) exportKubernetes(file, out string, o farm.KubernetesOptions) error {
	m, err := farm.Kubernetes(file, o)
	if err != nil {
		return err
	}
	d, err := fsx.Create(out, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	names := []string{"jobset.yaml"}
	err = d.WriteFile(names[0], m.Set, 0o644)
	if len(m.Queues) > 0 {
		names = append(names, "queues.yaml")
		err = errors.Join(err, d.WriteFile(names[1], m.Queues, 0o644))
	}
	if err != nil {
		return err
	}
	return p.printLine(map[string]any{"folder": out, "files": names}, "%s in %s", strings.Join(names, ", "), out)
}

func (p *program) jobsStatus(c *cli.Context) error {
	opt, err := p.queueOptions(c)
	if err != nil {
		return err
	}
	return p.withQueue(c.Context, opt, func(q *farm.Queue) error {
		s, err := q.Status(c.Context)
		if err != nil {
			return err
		}
		return p.printOr(s, func() error { return s.Write(p.stdout) })
	})
}

func (p *program) jobsResults(c *cli.Context) error {
	if c.NArg() == 0 {
		return usageError{errors.New("usage: mm jobs results JOB…")}
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
			if !p.json {
				if err := p.line("%s: %d files, attempt %d, %.1f s, %s", r.Job, len(r.Outputs), r.Attempt, r.Seconds, r.Worker); err != nil {
					return err
				}
			}
			return q.Fetch(c.Context, r, out)
		})
		if p.json && err == nil {
			err = p.printJSON(list)
		}
		return errors.Join(err, failed)
	})
}

// trialCommand executes a trial of a study, as a job does.
func (p *program) trialCommand() *cli.Command {
	return &cli.Command{
		Name: "trial", Usage: "execute one trial of a study, as workers do", ArgsUsage: "SPEC.json",
		Description: "The current folder holds the files that the spec names. The result is a function of the spec.",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FILE` of the result", Required: true}},
		Action:      p.experimentTrial,
	}
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
		return nil, usageError{errors.New("want --workers N or --jobs URL")}
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
