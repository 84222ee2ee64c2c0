package models

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

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/serve/api"
	"mm-abi.org/mm/serve/dashboard"
	"mm-abi.org/mm/workspace"
)

// Fleet opens the models of a server and follows their references.
type Fleet struct {
	Workspace *workspace.Workspace
	Args      []string
	Resolve   func(arg string) workspace.RunOptions
	Source    func(ctx context.Context, b *builds.Build) (Source, error) // how the model of a build is opened
	Alias     []string                                                   // of the first
	Watch     bool
	Log       func(line string)

	watched []*Watched
	renew   func() error // the dashboard; nil: none
}

// Errors of a request that a fleet cannot serve.
var (
	ErrNoReference = errors.New("--watch: no argument is a reference such as p-lite@^1")
	ErrNoResults   = errors.New("--dashboard: got no artifact and no --results, want one of them")
)

// Open verifies the arguments and returns a pool of their models, which are added to opt.
func (f *Fleet) Open(ctx context.Context, limits Options, opt *api.Options) (*Pool, error) {
	pool := New(ctx, limits)
	for i, arg := range f.Args {
		src, seen, err := f.first(ctx, arg)
		if err != nil {
			return pool, err
		}
		m, err := pool.Add(src)
		if err != nil {
			return pool, err
		}
		opt.Models = append(opt.Models, api.Model{Names: f.names(i, src.Build), Answerer: m})
		f.Workspace.Record(ctx, audit.Entry{Action: "serve", Ref: arg, Digest: src.Build.Digest, Result: workspace.Outcome(nil)})
		if seen != "" {
			f.watched = append(f.watched, f.follower(i, m, seen))
		}
	}
	if f.Watch && len(f.watched) == 0 {
		return pool, ErrNoReference
	}
	opt.Metrics = append(opt.Metrics,
		api.Metric{Name: "mm_models_loaded", Help: "Models in memory.", Type: "gauge", Value: pool.Loaded},
		api.Metric{Name: "mm_model_loads_total", Help: "Loads of models.", Type: "counter", Value: pool.Loads})
	return pool, nil
}

// first verifies an argument and opens it once, to report its faults. Seen is the
// digest of its version, if it is watched.
func (f *Fleet) first(ctx context.Context, arg string) (src Source, seen string, err error) {
	b, err := f.Workspace.Runnable(ctx, arg, f.Resolve(arg))
	if err != nil {
		return src, "", err
	}
	if f.Watch && f.Workspace.Versioned(ctx, arg) {
		at, err := f.Workspace.Find(ctx, arg)
		if err != nil {
			return src, "", err
		}
		seen = at.Descriptor().Digest.String()
	}
	if src, err = f.Source(ctx, b); err != nil {
		return src, "", err
	}
	r, err := src.Open(ctx)
	if err == nil {
		err = r.Close()
	}
	return src, seen, err
}

// names returns the names of a build for clients: NAME:VERSION, NAME and the argument. Of a
// watched one, the version, which does not remain, is not the first.
func (f *Fleet) names(i int, b *builds.Build) []string {
	names := []string{b.Assembly.Name, f.Args[i]}
	switch v := b.Assembly.Version; {
	case b.Assembly.Name == "model": // a converted folder, which has a better name
		names[0] = filepath.Base(f.Args[i])
	case v != "" && f.Watch:
		names = slices.Insert(names, 1, b.Assembly.Name+":"+v)
	case v != "":
		names = slices.Insert(names, 0, b.Assembly.Name+":"+v)
	}
	if i == 0 {
		names = append(names, f.Alias...)
	}
	return slices.Compact(names)
}

// follower returns how newer versions of the argument at an index are found.
func (f *Fleet) follower(index int, m *Model, seen string) *Watched {
	arg := f.Args[index]
	w := &Watched{Index: index, Ref: arg, Model: m, Seen: seen}
	w.Renew = func(ctx context.Context, seen ...string) (*Source, string, error) {
		b, digest, err := f.Workspace.Renewed(ctx, arg, f.Resolve(arg), seen...)
		if err != nil || b == nil || b.Digest == w.Model.Build().Digest {
			return nil, digest, err
		}
		src, err := f.Source(ctx, b)
		if err != nil {
			return nil, digest, err
		}
		return &src, digest, nil
	}
	return w
}

// Follow replaces the models of a server by newer versions until stop is called.
func (f *Fleet) Follow(ctx context.Context, pool *Pool, s *api.Server, every time.Duration) (stop func()) {
	if !f.Watch {
		return func() {}
	}
	for _, one := range f.watched {
		one.Changed = func(m *Model) {
			s.Replace(one.Index, api.Model{Names: f.names(one.Index, m.Build()), Answerer: m})
			f.renewed()
			f.Workspace.Record(ctx, audit.Entry{Action: "serve", Ref: one.Ref, Digest: m.Build().Digest, Result: workspace.Outcome(nil)})
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

// Show mounts the dashboard of the served builds, and renews it with them.
func (f *Fleet) Show(ctx context.Context, s *api.Server, opt *dashboard.Options) error {
	if opt == nil {
		return nil
	}
	pages := &dashboard.Pages{}
	f.renew = func() error {
		opt.Refs = f.shown(ctx, s.Models())
		if len(opt.Refs)+len(opt.Results) == 0 {
			return ErrNoResults
		}
		in, err := dashboard.Collect(ctx, f.Workspace, *opt)
		if err != nil {
			return err
		}
		files, err := dashboard.Render(in)
		if err == nil {
			pages.Set(files)
		}
		return err
	}
	pages.Mount(s)
	return f.renew()
}

// shown returns the references of the served artifacts. A watched one in the store is named
// by its digest, as the reference may mean a version by now that was refused.
func (f *Fleet) shown(ctx context.Context, served []*api.Model) (refs []string) {
	for i, arg := range f.Args {
		switch digest := served[i].Answerer.Build().Digest; {
		case digest == "": // the user's own files
		case f.Watch && f.Workspace.Versioned(ctx, arg) && !folder(arg):
			refs = append(refs, digest)
		default:
			refs = append(refs, arg)
		}
	}
	return refs
}

// folder reports whether an argument is a folder, whose evidence the store may lack.
func folder(arg string) bool {
	info, err := os.Stat(arg)
	return err == nil && info.IsDir()
}

// renewed shows a newer version in the dashboard; on an error the older pages remain.
func (f *Fleet) renewed() {
	if f.renew == nil {
		return
	}
	if err := f.renew(); err != nil {
		f.Log(fmt.Sprintf("dashboard: %v", err))
	}
}
