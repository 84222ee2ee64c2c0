package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/api"
	"mm-abi.org/mm/serve/models"
	"mm-abi.org/mm/workspace"
)

// modelOptions reads the limits of the models in memory and of their keys and values, and where
// these are kept.
func (p *program) modelOptions(c *cli.Context, run *runner.Options) (models.Options, texts, error) {
	kept := texts{dir: c.String("keep")}
	opt := models.Options{Loaded: c.Int("loaded"), Log: func(line string) { p.say("%s", line) }}
	if c.IsSet("loaded") && opt.Loaded < 1 {
		return opt, kept, usageError{fmt.Errorf("--loaded %d: want at least 1", opt.Loaded)}
	}
	if every := c.Duration("watch-every"); every <= 0 {
		return opt, kept, usageError{fmt.Errorf("--watch-every %v: want more than 0", every)}
	}
	if c.IsSet("keep-size") && kept.dir == "" {
		return opt, kept, usageError{errors.New("--keep-size requires --keep")}
	}
	for flag, into := range map[string]*int64{"model-memory": &opt.Memory, "kv-memory": &run.Limits.KV, "keep-size": &kept.limit} {
		if text := c.String(flag); text != "" {
			n, err := fsx.ParseSize(text)
			if err != nil {
				return opt, kept, usageError{fmt.Errorf("--%s: %w", flag, err)}
			}
			*into = n
		}
	}
	return opt, kept, nil
}

// fleet opens the models of a server and follows their references.
type fleet struct {
	p     *program
	w     *workspace.Workspace
	use   use
	run   runner.Options
	alias []string // of the first
	watch bool

	args    []string
	watched []*models.Watched
	renew   func() error // the dashboard; nil: none
}

// open verifies the arguments and returns a pool of their models, which are added to opt.
func (f *fleet) open(ctx context.Context, args []string, limits models.Options, opt *api.Options) (*models.Pool, error) {
	pool := models.New(ctx, limits)
	f.args = args
	for i, arg := range args {
		src, seen, err := f.first(ctx, arg)
		if err != nil {
			return pool, err
		}
		m, err := pool.Add(src)
		if err != nil {
			return pool, err
		}
		opt.Models = append(opt.Models, api.Model{Names: f.names(i, src.Build), Answerer: m})
		f.w.Record(ctx, audit.Entry{Action: "serve", Ref: arg, Digest: src.Build.Digest, Result: workspace.Outcome(nil)})
		if seen != "" {
			f.watched = append(f.watched, f.follower(i, m, seen))
		}
	}
	if f.watch && len(f.watched) == 0 {
		return pool, usageError{errors.New("--watch: no argument is a reference such as p-lite@^1")}
	}
	opt.Metrics = append(opt.Metrics,
		api.Metric{Name: "mm_models_loaded", Help: "Models in memory.", Type: "gauge", Value: pool.Loaded},
		api.Metric{Name: "mm_model_loads_total", Help: "Loads of models.", Type: "counter", Value: pool.Loads})
	return pool, nil
}

// first verifies an argument and opens it once, to report its faults. Seen is the
// digest of its version, if it is watched.
func (f *fleet) first(ctx context.Context, arg string) (src models.Source, seen string, err error) {
	u := f.use
	u.arg = arg
	b, err := f.w.Runnable(ctx, arg, u.runnable(f.run))
	if err != nil {
		return src, "", err
	}
	if f.watch && f.w.Versioned(ctx, arg) {
		at, err := f.w.Find(ctx, arg)
		if err != nil {
			return src, "", err
		}
		seen = at.Descriptor().Digest.String()
	}
	if src, err = f.source(ctx, b); err != nil {
		return src, "", err
	}
	r, err := src.Open(ctx)
	if err == nil {
		err = r.Close()
	}
	return src, seen, err
}

// source returns how the model of a build is opened.
func (f *fleet) source(ctx context.Context, b *builds.Build) (models.Source, error) {
	run := f.run
	if f.use.skills {
		if err := f.p.equip(ctx, f.w, b, &run); err != nil {
			return models.Source{}, err
		}
	}
	return models.Source{Build: b, Bytes: models.Bytes(b), Open: func(ctx context.Context) (models.Instance, error) {
		r, err := f.p.start(ctx, b, run)
		if err != nil {
			return nil, err
		}
		return models.Started{Runner: r}, nil
	}}, nil
}

// names returns the names of a build for clients: NAME:VERSION, NAME and the argument. Of a
// watched one, the version, which does not remain, is not the first.
func (f *fleet) names(i int, b *builds.Build) []string {
	names := []string{b.Assembly.Name, f.args[i]}
	switch v := b.Assembly.Version; {
	case b.Assembly.Name == "model": // a converted folder, which has a better name
		names[0] = filepath.Base(f.args[i])
	case v != "" && f.watch:
		names = slices.Insert(names, 1, b.Assembly.Name+":"+v)
	case v != "":
		names = slices.Insert(names, 0, b.Assembly.Name+":"+v)
	}
	if i == 0 {
		names = append(names, f.alias...)
	}
	return slices.Compact(names)
}

// follower returns how newer versions of the argument at an index are found.
func (f *fleet) follower(index int, m *models.Model, seen string) *models.Watched {
	arg := f.args[index]
	u, w := f.use, &models.Watched{Index: index, Ref: arg, Model: m, Seen: seen}
	u.arg = arg
	w.Renew = func(ctx context.Context, seen ...string) (*models.Source, string, error) {
		b, digest, err := f.w.Renewed(ctx, arg, u.runnable(f.run), seen...)
		if err != nil || b == nil || b.Digest == w.Model.Build().Digest {
			return nil, digest, err
		}
		src, err := f.source(ctx, b)
		if err != nil {
			return nil, digest, err
		}
		return &src, digest, nil
	}
	return w
}

// follow replaces the models of a server by newer versions until stop is called.
func (f *fleet) follow(ctx context.Context, pool *models.Pool, s *api.Server, every time.Duration) (stop func()) {
	if !f.watch {
		return func() {}
	}
	for _, one := range f.watched {
		one.Changed = func(m *models.Model) {
			s.Replace(one.Index, api.Model{Names: f.names(one.Index, m.Build()), Answerer: m})
			f.renewed()
			f.w.Record(ctx, audit.Entry{Action: "serve", Ref: one.Ref, Digest: m.Build().Digest, Result: workspace.Outcome(nil)})
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	now := make(chan os.Signal, 1)
	signal.Notify(now, syscall.SIGHUP)
	var done sync.WaitGroup
	done.Go(func() { pool.Watch(ctx, f.watched, every, now) })
	return func() {
		signal.Stop(now)
		cancel()
		done.Wait()
	}
}
