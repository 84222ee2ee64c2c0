package main

import (
	"context"
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/serve/api"
	"mm-abi.org/mm/serve/dashboard"
)

// dashboardOptions returns the options of the dashboard; nil without --dashboard.
func dashboardOptions(c *cli.Context) (*dashboard.Options, error) {
	if c.Bool("dashboard") {
		return &dashboard.Options{Results: c.StringSlice("results"), Compat: c.String("compat")}, nil
	}
	if err := refuseOptions(c, "--%s requires --dashboard", "results", "compat"); err != nil {
		return nil, err
	}
	return nil, nil
}

// server returns a server with all wire formats and, with options of one, a dashboard.
func (f *fleet) server(ctx context.Context, opt api.Options, board *dashboard.Options) (*api.Server, error) {
	s, err := newServer(opt)
	if err != nil {
		return nil, err
	}
	return s, f.show(ctx, s, board)
}

// show mounts the dashboard of the served builds, and renews it with them.
func (f *fleet) show(ctx context.Context, s *api.Server, opt *dashboard.Options) error {
	if opt == nil {
		return nil
	}
	pages := &dashboard.Pages{}
	f.renew = func() error {
		opt.Refs = f.shown(ctx, s.Models())
		if len(opt.Refs)+len(opt.Results) == 0 {
			return usageError{errors.New("--dashboard: got no artifact and no --results, want one of them")}
		}
		in, err := dashboard.Collect(ctx, f.w, *opt)
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
func (f *fleet) shown(ctx context.Context, models []*api.Model) (refs []string) {
	for i, arg := range f.args {
		switch digest := models[i].Answerer.Build().Digest; {
		case digest == "": // the user's own files
		case f.watch && f.w.Versioned(ctx, arg) && !folder(arg):
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
func (f *fleet) renewed() {
	if f.renew == nil {
		return
	}
	if err := f.renew(); err != nil {
		f.p.say("dashboard: %v", err)
	}
}
