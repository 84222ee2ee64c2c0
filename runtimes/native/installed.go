package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker"
)

// Installed returns the installed engine NAME or NAME@VERSION below home; without a
// version, the newest.
func Installed(home, arg string) (Record, error) {
	name, version, selected := strings.Cut(arg, "@")
	name = Canonical(name)
	all, err := List(home)
	if err != nil {
		return Record{}, err
	}
	i := slices.IndexFunc(all, func(r Record) bool { return r.Name == name && (!selected || r.Version == version) })
	if i < 0 {
		return Record{}, &runtimes.Unavailable{What: "engine " + arg, Why: "not installed", Hint: "mm runtime ls lists the installed engines"}
	}
	return all[i], nil
}

// Try checks the files of an engine ([Record.Check]) and loads it with mm-native.
func Try(ctx context.Context, r Record) error {
	program, err := Program()
	if err != nil {
		return err
	}
	if err := r.Check(ctx); err != nil {
		return err
	}
	info, err := worker.Probe(ctx, options(program, r.Name, r.Dir, 0))
	if err == nil && info.Version != r.Version {
		err = fmt.Errorf("the library reports version %s", info.Version)
	}
	return err
}

// Scratch creates a temporary folder below home; done removes it.
func Scratch(ctx context.Context, home string) (dir string, done func() error, err error) {
	top, err := fsx.Create(filepath.Join(home, "engines", ".new"), 0o700, fsx.Options{})
	if err != nil {
		return "", nil, err
	}
	stage, clear, err := top.Scratch(ctx)
	if err != nil {
		return "", nil, errors.Join(err, top.Close())
	}
	return stage.Path(), func() error { return errors.Join(clear(), top.Close()) }, nil
}

// Remove removes an engine atomically.
func Remove(ctx context.Context, r Record) (err error) {
	top, err := fsx.Open(filepath.Dir(r.Dir), fsx.Options{})
	if err != nil {
		return err
	}
	defer top.Close()
	if err := top.MkdirAll(".new", 0o700); err != nil {
		return err
	}
	news, err := fsx.Open(filepath.Join(top.Path(), ".new"), fsx.Options{})
	if err != nil {
		return err
	}
	defer news.Close()
	stage, done, err := news.Scratch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	lock, err := top.Lock(ctx, ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	to, err := filepath.Rel(top.Path(), filepath.Join(stage.Path(), "old"))
	if err != nil {
		return err
	}
	if err := top.Rename(filepath.Base(r.Dir), filepath.ToSlash(to)); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s %s is not installed", r.Name, r.Version)
		}
		return err
	}
	return top.SyncDir(".")
}

// State is an installed engine with the result of loading it.
type State struct {
	Record
	Notices []string `json:"notices"`
	State   string   `json:"state"` // "loads", or an error
}

// States lists the engines installed in home and tries each of them.
func States(ctx context.Context, home string) ([]State, error) {
	all, err := List(home)
	list := []State{}
	for _, r := range all {
		s := State{Record: r, Notices: r.Notices(), State: "loads"}
		if err := Try(ctx, r); err != nil {
			s.State = err.Error()
		}
		list = append(list, s)
	}
	return list, err
}
